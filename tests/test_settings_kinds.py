"""How each kind of setting is written, and the sentence for what is wrong."""

from __future__ import annotations

import pytest
from settings_support import machine

from zcdb.host.settings import KINDS, SettingError, parse_setting
from zcdb.host.settings.kinds import cpu_list, cpus, show, tbf_stored


@pytest.mark.parametrize(
    ("kind", "target", "value", "canonical"),
    [
        ("feature", "eth0", {"tso": "off", "sg": True}, {"sg": True, "tso": False}),
        ("feature", "eth0", {"tx-udp-segmentation": False}, {"tx-udp-segmentation": False}),
        ("coalescing", "eth0", {"rx_usecs": 50, "adaptive_rx": False}, None),
        ("rings", "eth0", {"rx": 512, "tx": 64}, None),
        ("channels", "eth0", {"combined": 2}, None),
        ("mtu", "eth0.17", 9000, {"mtu": 9000}),
        ("sysctl", "net.ipv4.tcp_wmem", [4096, 16384, 65536], {"value": "4096 16384 65536"}),
        ("sysctl", "net.ipv4.tcp_wmem", "4096\t16384 65536", {"value": "4096 16384 65536"}),
        ("sysctl", "net.ipv4.tcp_sack", False, {"value": "0"}),
        ("sysctl", "net.ipv4.tcp_congestion_control", "cubic", {"value": "cubic"}),
        ("qdisc", "eth0", "none", {"root": {"kind": "none"}}),
        ("irq_affinity", 41, "3,0-1", {"cpus": "0-1,3"}),
        ("governor", "0-1", "performance", {"governor": "performance"}),
    ],
)
def test_a_value_has_one_canonical_form(kind, target, value, canonical):
    setting = parse_setting(kind, target, value)

    assert setting == (kind, str(target), value if canonical is None else canonical)


def test_a_token_bucket_gets_a_burst_of_128_kib_and_a_queue_of_50_ms():
    setting = parse_setting("qdisc", "eth0", {"kind": "tbf", "rate": "100mbit"})

    assert setting.value["root"] == {
        "kind": "tbf",
        "rate_bps": 100_000_000,
        "burst_bytes": 131072,
        "limit_bytes": 131072 + 625_000,
    }


def test_a_declared_burst_may_be_smaller():
    value = {"kind": "tbf", "rate": "1gbit", "burst": "16K", "limit": "1M"}

    setting = parse_setting("qdisc", "eth0", value)

    assert setting.value["root"]["burst_bytes"] == 16384
    assert setting.value["root"]["limit_bytes"] == 1 << 20


def test_a_burst_is_kept_in_ticks_of_64_ns():
    # 131072 bytes at 125000000 bytes/s last 1048576 ns, which is 16384 ticks.
    assert tbf_stored(10**9, 131072, 7)["parms"]["buffer"] == 16384


@pytest.mark.parametrize(
    ("kind", "target", "value", "sentence"),
    [
        ("colour", "eth0", 1, "there is no kind of setting 'colour'; there are feature, "),
        ("mtu", "eth 0", 1500, "'eth 0' is not an interface name"),
        ("mtu", "eth0", 67, "mtu of eth0: an MTU is a whole number from 68 to"),
        ("mtu", "eth0", True, "mtu of eth0: an MTU is a whole number from 68 to"),
        ("feature", "eth0", {"SG": True}, "feature of eth0: 'SG' is not a feature"),
        ("feature", "eth0", {"sg": 1}, "feature of eth0: sg is on or off (true or false), got 1"),
        ("feature", "eth0", {}, "feature of eth0: {} is not a table of values; write { sg"),
        ("rings", "eth0", {"rx": 0}, "rings of eth0: rx is a whole number from 1 to"),
        ("rings", "eth0", {"big": 1}, "rings of eth0: there is no 'big'; there are rx, rx_mini"),
        ("coalescing", "eth0", {"rx-usecs": 1}, "coalescing of eth0: there is no 'rx-usecs'"),
        ("channels", "eth0", {"rx": -1}, "channels of eth0: rx is a whole number from 0 to"),
        ("sysctl", "kernel.panic", 1, "'kernel.panic' is not a sysctl that zcdb changes"),
        ("sysctl", "net.ipv4/../../kernel.panic", 1, "is not a sysctl that zcdb changes"),
        ("sysctl", "net.ipv4.tcp_sack", " ", "an empty value cannot be told from a missing one"),
        ("sysctl", "net.ipv4.tcp_sack", {"a": 1}, "is not a sysctl's value"),
        ("qdisc", "eth0", "fq", "qdisc of eth0: 'fq' is not a table of values; write 'none' or"),
        ("qdisc", "eth0", {"kind": "tbf"}, "qdisc of eth0: zcdb makes a qdisc as 'none' or"),
        ("qdisc", "eth0", {"kind": "tbf", "rate": "40gbit"}, "a token bucket's rate is 8 kbit/s"),
        ("qdisc", "eth0", {"kind": "tbf", "rate": "fast"}, "'fast' is not a rate"),
        ("irq_affinity", "eth0", "0", "'eth0' is not an IRQ"),
        ("irq_affinity", 41, "1-0", "irq_affinity of 41: '1-0' is not a CPU list"),
        ("irq_affinity", 41, "0-99999", "'0-99999' is not a CPU list"),
        ("governor", "some", "performance", "'some' is not a CPU list; write it as 0-3,5, or"),
        ("governor", "all", "Fast!", "governor of all: 'Fast!' is not a governor"),
    ],
)
def test_a_wrong_setting_is_one_sentence(kind, target, value, sentence):
    with pytest.raises(SettingError) as caught:
        parse_setting(kind, target, value)

    assert sentence in caught.value.message
    assert isinstance(caught.value, ValueError)


def test_cpu_lists_go_back_and_forth():
    assert cpus("5,0-2,1") == [0, 1, 2, 5]
    assert cpu_list([5, 0, 2, 1]) == "0-2,5"


def test_a_group_is_what_the_driver_can_change_of_it():
    features = machine()[("feature", "eth1")]
    expand = KINDS["feature"].expand

    assert expand({"tso": False}, features) == {
        "tx-tcp-segmentation": False,
        "tx-tcp6-segmentation": False,
    }
    assert expand({"tx_checksum": True}, features) == {"tx-checksum-ip-generic": True}
    assert expand({"lro": True}, features) == {"lro": True}
    assert expand({"lro": False}, features) == {"rx-lro": False}


def test_a_kernel_name_beside_its_group_has_the_last_word():
    features = machine()[("feature", "eth1")]

    expanded = KINDS["feature"].expand({"tx-tcp6-segmentation": True, "tso": False}, features)

    assert expanded == {"tx-tcp-segmentation": False, "tx-tcp6-segmentation": True}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "on"),
        (1500, "1500"),
        (None, "unknown"),
        ({"kind": "none"}, "none"),
        ({"kind": "none", "qdisc": "mq"}, "none (mq)"),
        (tbf_stored(10**9, 131072, 7), "tbf 1.00 Gbit/s limit 7 bytes"),
        (
            {"kind": "tbf", "rate_bps": 10**9, "burst_bytes": 131072, "limit_bytes": 7},
            "tbf 1.00 Gbit/s burst 128 KiB limit 7 bytes",
        ),
    ],
)
def test_values_are_shown_to_people(value, shown):
    assert show(value) == shown
