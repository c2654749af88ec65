"""What a machine showed, as claims: data for the record, in the words of the catalogue.

A probed claim says that one driver, on one machine and kernel, has a
capability (on, or off and switchable) or lacks it.  What the machine did not
tell is no claim.  Storing them is the store's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.cards import Card, from_facts


@dataclass(frozen=True, slots=True)
class ProbedClaim:
    """One thing that a real machine showed.

    Attributes:
        subject_kind: driver, or device for the same said of the one device behind it.
        subject: the driver's name, or the device's id word.
        driver: the driver in either case.
        value: yes (on, or can be switched on) or no.
        state: "on", "off", "fixed" (on for good); "" where there is no switch.
        kernel: release of the machine.
        place: what was asked.
        date: ISO day.
        environment: id of the environment it was seen in; "" if none was stored.
    """

    subject_kind: Literal["driver", "device"]
    subject: str
    driver: str
    capability: str
    value: Literal["yes", "no"]
    state: str
    kernel: str
    place: str
    date: str
    environment: str = ""
    source_kind: Literal["probed"] = "probed"

    @property
    def where(self) -> str:
        """What was asked, and in which environment."""
        return f"{self.place} ({self.environment})" if self.environment else self.place


_STATES = {"on": "on", "off": "off", "on [fixed]": "fixed", "off [fixed]": ""}


def claims(card: Card, *, kernel: str, date: str, environment: str = "") -> list[ProbedClaim]:
    """Return everything that a card showed, a claim for its driver and one for its device.

    Args:
        kernel: release of the machine (`uname -r`).
        date: ISO day on which it was looked at.
        environment: id of the machine's environment.
    """
    if not card.driver:
        return []
    told: list[tuple[str, bool, str, str]] = [
        (key, state != "off [fixed]", _STATES[state], "ethtool features")
        for key, state in card.features.items()
        if key in CAPABILITIES
    ]
    told += [(key, has, "", "netdev XDP features") for key, has in card.xdp.items()]
    told += [(key, has, "", "ethtool time stamps") for key, has in card.timestamps.items()]
    if card.queues_max is not None:
        told.append(("mq_alloc", card.queues_max > 1, "", "ethtool channels"))
    if card.has_rss:
        told.append(("rss_indir", True, "", "ethtool RSS table"))
    subjects: list[tuple[Literal["driver", "device"], str]] = [("driver", card.driver)]
    if card.device:
        subjects.append(("device", card.device))
    return [
        ProbedClaim(
            subject_kind=kind,
            subject=subject,
            driver=card.driver,
            capability=key,
            value="yes" if has else "no",
            state=state,
            kernel=kernel,
            place=place,
            date=date,
            environment=environment,
        )
        for kind, subject in subjects
        for key, has, state, place in told
    ]


def claims_of_environment(
    facts: Mapping[str, Any], *, date: str, environment: str = ""
) -> list[ProbedClaim]:
    """Return the claims that a run's environment holds, for each interface that carried data.

    Args:
        facts: what `zcdb.host.facts.collect` returned.
    """
    kernel = str((facts.get("kernel") or {}).get("release") or "")
    cards = {"": facts.get("interface"), **(facts.get("more_interfaces") or {})}
    return [
        claim
        for name, one in cards.items()
        if one and kernel
        for claim in claims(
            from_facts(name, one), kernel=kernel, date=date, environment=environment
        )
    ]
