"""What emulated cards show under a real kernel agrees with what the scanner read in its source.

One boot of Debian's kernel in QEMU, without KVM; see `nics_qemu_support`.
"""

from __future__ import annotations

import pytest
from nics_qemu_support import Boot, boot

from zcdb.importers import read
from zcdb.nics import captures
from zcdb.nics.cards import Card
from zcdb.nics.catalogue import load
from zcdb.nics.facts import DriverFacts, Fact
from zcdb.nics.summary import known_driver, verdict

pytestmark = [pytest.mark.qemu, pytest.mark.timeout(600)]

STATES = {"on": "on", "off": "off", "on [fixed]": "fixed"}
PORTLESS = frozenset(("bonding",))
"""A bond's defaults are those of its ports, and here it has none."""

COALESCING = {
    "coal_rx_usecs": "rx-usecs",
    "coal_tx_usecs": "tx-usecs",
    "coal_adaptive_rx": "adaptive-rx",
}


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    return boot(tmp_path_factory.mktemp("qemu"))


def results(guest: Boot, name: str):
    return read(guest.capture(name).encode(), name).results


@pytest.fixture(scope="module")
def cards(guest) -> list[tuple[Card, DriverFacts]]:
    """Each interface with a driver, and the catalogue's facts of that driver."""
    catalogue = load()
    found = []
    for name in guest.interfaces:
        for card in captures.cards((one.tool, one.details) for one in results(guest, name)):
            driver = known_driver(card, catalogue, guest.kernel) if card.driver else None
            if driver is not None:
                found.append((card, driver))
    return found


def test_the_guest_has_cards_of_many_drivers_and_a_kernel_of_a_scanned_series(guest, cards):
    series = [kernel.split(".")[:2] for kernel in load().kernels]

    assert {"e1000", "e1000e", "8139cp", "virtio_net", "vmxnet3", "pcnet32", "e100"} <= {
        driver.name for _, driver in cards
    }
    assert guest.kernel.split(".")[:2] in series


def test_every_feature_and_time_stamp_agrees_with_the_source(cards):
    compared, different = 0, []
    for card, driver in cards:
        for key in {**card.features, **card.timestamps}.keys() & driver.facts.keys():
            fact, has = driver.facts[key], card.has(key)
            compared += fact.value in ("yes", "no")
            if (fact.value == "yes" and not has) or (fact.value == "no" and has):
                different.append((driver.name, key, fact, card.features.get(key, has)))

    assert different == []
    assert compared > 200


def test_what_is_on_off_or_fixed_agrees_with_the_source(cards):
    compared, different = 0, []
    for card, driver in cards:
        for key, state in card.features.items():
            fact = driver.facts.get(key, Fact("no"))
            if fact.value == "yes" and fact.default and driver.name not in PORTLESS:
                compared += 1
                if STATES.get(state) != fact.default:
                    different.append((driver.name, key, fact.default, state))

    assert different == []
    assert compared > 30


def test_what_interrupt_mitigation_can_be_set_agrees_with_the_source(guest, cards):
    different = []
    for card, driver in cards:
        told = [
            r.details["values"] for r in results(guest, card.interface) if "values" in r.details
        ]
        values = told[0] if told else {}
        for key, name in COALESCING.items():
            is_there = values.get(name) is not None
            if driver.facts[key].value != {True: "yes", False: "no"}[is_there] and (
                driver.facts[key].value in ("yes", "no")
            ):
                different.append((driver.name, key, driver.facts[key], is_there))

    assert different == []


def test_a_line_says_what_each_card_is_good_for(cards):
    catalogue = load()
    expectations = {driver.name: verdict(card, catalogue).expectation for card, driver in cards}

    assert expectations["e1000"] == "sendfile and MSG_ZEROCOPY can go out without a copy"
    for name in ("e100", "pcnet32", "ne2k-pci", "tulip"):
        assert expectations[name] == "no scatter-gather: sendfile will copy"
