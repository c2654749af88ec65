"""Factors: spelling, ids, pairing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcdb import factors
from zcdb.factors import ABSENT, FACTORS, UNSTATED, FileSet


@pytest.mark.parametrize(
    ("name", "values", "normal"),
    [
        ("message_size", ["64K", "64KiB", 65536, "65536"], 65536),
        ("pacing_rate", ["1gbit", "1G", 10**9], 10**9),
        ("streams", [4, "4"], 4),
        ("tcp_cork", [True, "true"], True),
        ("api", ["sendfile"], "sendfile"),
        (
            "pinning",
            [{"sender": "0", "receiver": "1-3"}, {"receiver": "1-3", "sender": 0}],
            "sender=0;receiver=1-3",
        ),
        ("working_set", ["1M", 1048576], 1048576),
        (
            "working_set",
            [{"files": 63, "mean_size": "350K"}, "files=63;mean_size=358400;passes=1"],
            "files=63;mean_size=358400;passes=1",
        ),
    ],
)
def test_a_value_has_one_spelling(name, values, normal):
    assert {factors.normalise(name, value) for value in values} == {normal}


@pytest.mark.parametrize("factor", [f for f in FACTORS.values() if f.is_declared])
def test_a_default_is_spelled_as_it_is_normalised(factor):
    if factor.default not in (None, ABSENT):
        assert factors.normalise(factor.name, factor.default) == factor.default
        assert isinstance(factors.display(factor.name, factor.default), str)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("api", "zerocpy", "'zerocpy' is not one of write, send"),
        ("message_size", 0, "0 must be at least 1 and at most 16777216"),
        ("message_size", True, "True is not a size"),
        ("streams", "many", "'many' is not a whole number"),
        ("tcp_cork", 1.5, "1.5 is not true or false"),
        ("pinning", "0,1", "'0,1' is not a pinning"),
        ("pinning", {"sender": "0"}, "needs the keys sender and receiver"),
        ("working_set", "cold", "'cold' is not a working set"),
        ("working_set", 0, "0 is not a working set"),
        ("working_set", {"files": 3}, "needs files, mean_size"),
    ],
)
def test_what_a_factor_does_not_take_is_told_with_what_it_takes(name, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        factors.normalise(name, value)


@given(st.integers(1, factors.MESSAGE_SIZE_LIMIT_BYTES))
def test_normalising_twice_changes_nothing(size):
    once = factors.normalise("message_size", str(size))

    assert factors.normalise("message_size", once) == once == size


@given(st.permutations(["api", "message_size", "streams", "tcp_cork"]))
def test_a_plan_key_depends_neither_on_the_order_of_keys_nor_on_defaults(names):
    values = {"api": "sendfile", "message_size": 4096, "streams": 1, "tcp_cork": False}

    key = factors.plan_key({name: values[name] for name in names})

    assert key == factors.plan_key({"api": "sendfile", "message_size": 4096})
    assert key == factors.plan_key(factors.with_defaults(values))


def test_plan_keys_are_for_ever():
    assert factors.plan_key({"api": "write"}) == "c628ad20767931c1ba9ed055ed856aee"
    assert factors.plan_key({"api": "sendfile"}) == "283b27f451f91001b69f4f4330f0d441"


def test_observed_factors_enter_the_case_but_not_the_plan():
    declared = {"api": "write"}
    observed = {**declared, "sender_kernel": "6.18"}

    assert factors.case_id(observed) != factors.case_id(declared)
    with pytest.raises(ValueError, match="not declared factors: sender_kernel"):
        factors.plan_key(observed)


def test_cases_that_differ_in_the_axis_and_its_followers_can_be_compared():
    one = {"api": "write", "sender_nic": "a", "sender_driver": "x"}
    other = {"api": "write", "sender_nic": "b", "sender_driver": "y"}

    assert factors.pairing_hash("sender_nic", one) == factors.pairing_hash("sender_nic", other)
    assert factors.pairing_hash("api", one) != factors.pairing_hash("api", other)


def test_what_varies_is_seen_through_defaults():
    cases = [{"api": "write", "message_size": 65536}, {"api": "write"}]

    assert factors.varying(cases) == []
    assert factors.varying([*cases, {"api": "write", "streams": 2}]) == ["streams"]


def test_a_file_set_is_read_back():
    assert factors.file_set("files=63;mean_size=358400;passes=10") == FileSet(63, 358400, 10)
    assert factors.file_set("hot") is None
    assert factors.file_set(4096) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("message_size", 65536, "64 KiB"),
        ("sndbuf", 0, "autotuned"),
        ("pacing_rate", 0, "none"),
        ("pacing_rate", 10**9, "1.00 Gbit/s"),
        ("tcp_cork", True, "yes"),
        ("working_set", "files=2;mean_size=1024;passes=3", "2 files of 1 KiB on average, 3 passes"),
    ],
)
def test_values_are_shown_for_people(name, value, text):
    assert factors.display(name, value) == text


def test_a_setting_left_as_found_is_absent_and_enters_no_hash():
    case = {"api": "send", "sg": ABSENT}

    assert "sg" not in factors.with_defaults({"api": "send"})
    assert factors.display("sg", ABSENT) == "as found"
    assert factors.case_id(case) == factors.case_id({"api": "send"})
    assert factors.case_id({"api": "send", "sg": True}) != factors.case_id({"api": "send"})


@pytest.mark.parametrize(
    ("name", "value", "normal", "shown"),
    [
        ("feature.tx-udp-segmentation", "off", False, "off"),
        ("sender.sg", True, True, "on"),
        ("receiver.ring.rx", "512", 512, "512"),
        ("coalescing.rx_usecs", 50, 50, "50"),
        ("coalescing.adaptive_rx", False, False, "off"),
        ("sysctl.net.ipv4.tcp_rmem", [4096, 16384, 65536], "4096 16384 65536", "4096 16384 65536"),
        ("sender.mtu", 9000, 9000, "9000"),
        ("link_rate", "100mbit", 10**8, "100 Mbit/s"),
    ],
)
def test_any_setting_is_a_factor(name, value, normal, shown):
    assert factors.normalise(name, value) == normal
    assert factors.display(name, normal) == shown
    assert FACTORS[name].is_setting
    assert FACTORS[name].is_declared


@pytest.mark.parametrize(
    "name",
    ["ring.huge", "sysctl.kernel.panic", "sender.api", "middle.sg", "feature.", "ring", "sender."],
)
def test_what_is_no_setting_is_no_factor(name):
    assert name not in FACTORS
    assert factors.find(name) is None
    with pytest.raises(KeyError):
        factors.normalise(name, 1)


def test_dotted_settings_come_last_and_count_as_varying():
    cases = [{"api": "send", "ring.rx": 256}, {"api": "send"}]

    assert list(factors.with_defaults(cases[0]))[-1] == "ring.rx"
    assert factors.varying(cases) == ["ring.rx"]


def test_a_published_source_may_be_silent_about_a_factor():
    assert factors.normalise_published("rx_api", UNSTATED) == UNSTATED
    assert factors.normalise_published("sg", "on") is True
    with pytest.raises(ValueError, match="not one of"):
        factors.normalise("rx_api", UNSTATED)


@pytest.mark.parametrize("mix", [{"sendfile": 3, "write": 1}, "write=1;sendfile=3"])
def test_a_mix_of_apis_has_one_spelling(mix):
    assert factors.normalise("api_mix", mix) == "sendfile=3;write=1"


@pytest.mark.parametrize("mix", ["sendfile=1", "sendfile=1;sendfile=2", "sendfile=1;foo=2", 3])
def test_what_is_no_mix_of_apis_is_told(mix):
    with pytest.raises(ValueError, match="not a mix of APIs"):
        factors.normalise("api_mix", mix)
