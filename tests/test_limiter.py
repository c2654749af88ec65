"""What limited a trial: the rules, one by one, and which of two signals decides."""

from __future__ import annotations

import pytest

from zcdb.runner.limiter import HOLDS_FROM, Signals, identify, link_share


@pytest.mark.parametrize(
    ("signals", "name", "words"),
    [
        (
            Signals(link_share=0.95, link_rate_bps=10**8),
            "link rate",
            "for 95 % of the window the link carried at least 90 % of 100 Mbit/s",
        ),
        (Signals(memory_share=0.8), "memory", "memory pressure for 80 %"),
        (Signals(receiver_cpu_share=0.99), "receiver CPU", "receiver's busiest CPU"),
        (Signals(sender_cpu_share=0.85), "sender CPU", "busy for 85 % of the window"),
        (Signals(rwnd_share=0.9), "receive window", "receiver's window for 90 %"),
        (Signals(sndbuf_share=1.0), "send buffer", "send buffer for 100 %"),
    ],
)
def test_a_signal_that_holds_names_the_limiter_with_its_figures(signals, name, words):
    found = identify(signals)

    assert found.name == name
    assert words in found.rule
    assert found.to_json()["signals"]["link_rate_bps"] == signals.link_rate_bps


def test_just_below_four_fifths_nothing_is_named_but_the_highest_signal_is_told():
    found = identify(Signals(sender_cpu_share=0.79, rwnd_share=0.3, sndbuf_share=0.0))

    assert found.name == "not identified"
    assert found.rule == ("no signal held for 80 % of the window; the highest: sender CPU, 79 %")
    assert identify(Signals(sender_cpu_share=HOLDS_FROM)).name == "sender CPU"


def test_what_was_not_measured_limits_nothing():
    found = identify(Signals())

    assert found.name == "not identified"
    assert found.rule == "nothing that could limit was measured"


def test_a_cause_comes_before_what_follows_from_it():
    closed_window = Signals(receiver_cpu_share=0.97, sender_cpu_share=0.4, rwnd_share=0.99)
    full_link = Signals(link_share=1.0, sender_cpu_share=0.9, sndbuf_share=0.95)

    assert identify(closed_window).name == "receiver CPU"
    assert identify(full_link).name == "link rate"


def test_of_two_busy_ends_the_busier_one_decides():
    assert identify(Signals(sender_cpu_share=0.99, receiver_cpu_share=0.9)).name == "sender CPU"
    assert identify(Signals(sender_cpu_share=0.9, receiver_cpu_share=0.99)).name == "receiver CPU"


def test_the_link_is_full_in_the_samples_that_carry_nine_tenths_of_its_rate():
    rates = [95e6, 89e6, 91e6]

    assert link_share(rates, [100, 100, 200], 10**8) == pytest.approx(0.75)
    assert link_share(rates, [100, 100, 200], None) is None
    assert link_share([], [], 10**8) is None
