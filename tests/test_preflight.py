"""What is found out about a machine before measuring, each check with a fake that fails it."""

from __future__ import annotations

import pytest

from zcdb.runner.preflight import check_host, check_link

GOOD_FACTS = {"clock_source": "tsc", "sysctls": {"net.core.optmem_max": "131072"}}
GOOD_READINGS = {
    "available_memory_bytes": 8 << 30,
    "load_average_1min": 0.02,
    "irqbalance_runs": False,
}
ZERO_COPY = frozenset({"msg_zerocopy"})


def test_a_quiet_machine_has_no_findings():
    assert check_host(GOOD_FACTS, GOOD_READINGS, 1 << 20, ZERO_COPY) == []


@pytest.mark.parametrize(
    ("facts", "readings", "check", "words"),
    [
        ({}, {"available_memory_bytes": 64 << 20}, "memory", "64 MiB"),
        ({"clock_source": "hpet"}, {}, "clock", "hpet"),
        ({}, {"load_average_1min": 3.5}, "load", "3.50"),
        ({}, {"irqbalance_runs": True}, "irqbalance", "stop it"),
        ({"sysctls": {"net.core.optmem_max": "1024"}}, {}, "optmem", "1024 bytes"),
    ],
)
def test_each_check_names_what_it_found(facts, readings, check, words):
    findings = check_host(
        {**GOOD_FACTS, **facts}, {**GOOD_READINGS, **readings}, 1 << 20, ZERO_COPY
    )

    assert [finding.check for finding in findings] == [check]
    assert words in findings[0].sentence


def test_only_missing_memory_is_fatal():
    readings = {**GOOD_READINGS, "available_memory_bytes": 1 << 20, "load_average_1min": 9.0}

    findings = check_host(GOOD_FACTS, readings, 1 << 30, ZERO_COPY)

    assert {finding.check: finding.is_fatal for finding in findings} == {
        "memory": True,
        "load": False,
    }


def test_what_could_not_be_read_raises_no_finding():
    assert check_host({}, {}, 1 << 20, ZERO_COPY) == []


def test_zero_copy_memory_matters_only_to_plans_that_use_it():
    facts = {"sysctls": {"net.core.optmem_max": "1024"}}

    assert check_host(facts, GOOD_READINGS, 0, frozenset({"write"})) == []


def test_interfaces_that_do_not_fit_are_noted():
    sender = {"mtu": 9000, "link_speed_bps": 10**10, "duplex": "full"}
    receiver = {"mtu": 1500, "link_speed_bps": 10**9, "duplex": "half"}

    sentences = [
        finding.sentence for finding in check_link({"sender": sender, "receiver": receiver})
    ]

    assert sentences == [
        "the MTU of the sender's interface is 9000, of the receiver's 1500:"
        " packets may be split, dropped or queued on the way",
        "the speed of the sender's interface is 10.0 Gbit/s, of the receiver's 1.00 Gbit/s:"
        " packets may be split, dropped or queued on the way",
        "the receiver's interface is at half duplex: a cable or switch is wrong",
    ]


@pytest.mark.parametrize("interface", [None, {}, {"mtu": 1500, "link_speed_bps": None}])
def test_what_an_interface_does_not_say_is_not_judged(interface):
    assert check_link({"sender": interface, "receiver": {"mtu": 1500}}) == []
