"""Databases with measurements over real cards and with probes, for the tests of the NIC pages."""

from __future__ import annotations

import random
from dataclasses import replace

from sqlalchemy import insert
from store_support import make_case, make_end, make_environment, make_run, make_start

from zcdb.ids import content_id
from zcdb.records import MetricValue
from zcdb.store import write
from zcdb.store.models import ClaimRow
from zcdb.store.session import Database

COSTS = {"read_write": 0.30, "sendfile": 0.15}
"""Service demand of the sender over the example card, us/KB."""

SIZES = (4096, 65536)
REPETITIONS = 6


def observed(driver: str, kernel: str = "6.12.101") -> dict[str, str]:
    """Return what a trial over a card observes."""
    return {
        "sender_kernel": kernel,
        "receiver_kernel": kernel,
        "sender_nic": f"card of {driver}",
        "receiver_nic": f"card of {driver}",
        "sender_driver": driver,
        "receiver_driver": driver,
    }


def measure_card(db: Database, driver: str, number: int = 1, gain: float = 1.0) -> None:
    """Write a finished run of sendfile against read and write over a card.

    Args:
        number: makes the run's id and day.
        gain: factor on sendfile's cost.
    """
    cases = tuple(make_case(api=api, message_size=size) for size in SIZES for api in COSTS)
    run = make_run(number, cases=cases, repetitions=REPETITIONS, name=f"card-{driver}")
    environment = make_environment(driver=driver)
    write.add_environment(db, environment)
    write.add_run(db, run)
    noise = random.Random(number)
    for place in run.plan:
        start = make_start(run, place, environment=environment, observed=observed(driver))
        write.start_trial(db, start)
        api = str(start.case_factors["api"])
        cost = COSTS[api] * (gain if api == "sendfile" else 1.0) * noise.gauss(1, 0.01)
        values = (
            MetricValue("throughput", "", 9.4e9),
            MetricValue("service_demand_sender", "soak", cost),
            MetricValue("service_demand_receiver", "soak", 0.2),
        )
        write.end_trial(db, replace(make_end(start), measurements=values))
    write.finish_run(db, run.id, "finished", {})


def add_probe(db: Database, driver: str, capability: str, value: str, kernel: str) -> None:
    """Write what a machine reported about a driver."""
    row = {
        "public_id": content_id("claim", [driver, capability, value, kernel]),
        "subject_kind": "driver",
        "subject": driver,
        "capability": capability,
        "value": value,
        "state": "on" if value == "yes" else "",
        "kernel": kernel,
        "source_kind": "probed",
        "place": "ethtool -k",
        "dated": "2026-03-01",
        "environment_id": None,
        "details_json": "{}",
    }
    with db.engine.begin() as connection:
        connection.execute(insert(ClaimRow), row)
