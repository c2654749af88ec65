"""A database that has an answer to every standing question, from numbers chosen by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from store_support import OBSERVED, make_case, make_end, make_environment, make_run, make_start

from zcdb.factors import Factors, FactorValue, case_id
from zcdb.records import Flag, MetricValue, Run
from zcdb.store import write
from zcdb.store.session import Database

Figures = Mapping[str, float]
KERNELS = ("2.4.1", "2.4.1+zerocopy", "6.9.0", "6.12.0")
HOST_HASH = "0123456789ab"
SIZES = (1024, 4096, 16384, 65536)
ZEROCOPY_RATIOS = dict(zip(SIZES, (1.6, 1.2, 0.8, 0.5), strict=True))
"""Message size -> cost of msg_zerocopy over that of write: it pays between 4 and 16 KiB."""


def observed(kernel: str = "6.12.0") -> dict[str, FactorValue]:
    """Return what a machine with this kernel adds to its cases, at both ends."""
    return {**OBSERVED, "sender_kernel": kernel, "receiver_kernel": kernel}


def measure(
    db: Database,
    number: int,
    cases: Sequence[Factors],
    figures: Callable[[Factors], Figures],
    *,
    kernel: str = "6.12.0",
    repetitions: int = 5,
    noise: float = 0.004,
    host: str = HOST_HASH,
) -> Run:
    """Write a run in which every case measured `figures`, with a little noise."""
    planned = tuple(make_case(**case) for case in cases)
    run = make_run(number, cases=planned, repetitions=repetitions, name=f"made-{number}")
    facts = {"host": host, "kernel": {"release": kernel}, "kernel_release": kernel}
    environment = make_environment(**facts)
    write.add_environment(db, environment)
    write.add_run(db, run)
    shaken = random.Random(number)
    by_key = {case.plan_key: case.factors for case in planned}
    for place in run.plan:
        start = make_start(run, place, environment=environment, observed=observed(kernel))
        write.start_trial(db, start)
        values = [
            _value(name, mean if name.endswith("share") else mean * shaken.gauss(1, noise))
            for name, mean in figures(by_key[place.plan_key]).items()
        ]
        flags = (Flag("ends-share-host", "one host"),)
        write.end_trial(db, make_end(start, measurements=tuple(values), flags=flags))
    write.finish_run(db, run.id, "finished", {})
    return run


def _value(name: str, value: float) -> MetricValue:
    metric, _, method = name.partition(":")
    return MetricValue(metric, method, value)


def costs(sender: float, receiver: float = 0.2, rate: float = 20e9, **more: float) -> Figures:
    """Return the figures of a case: service demands in us/KB, throughput in bit/s."""
    return {
        "throughput": rate,
        "service_demand_sender:soak": sender,
        "service_demand_receiver:soak": receiver,
        **more,
    }


def _size_sweep(case: Factors) -> Figures:
    size = int(case["message_size"])
    base = 0.2 * (65536 / size) ** 0.25
    if case["api"] == "msg_zerocopy":
        return costs(base * ZEROCOPY_RATIOS[size], proven_zero_copy_share=1.0)
    if case["api"] == "sendfile":
        return costs(base * 0.6, proven_zero_copy_share=0.0, copied_share=1.0)
    return costs(base, proven_zero_copy_share=0.0)


def _offloads(case: Factors) -> Figures:
    """sendfile costs 40 % less; offloads 10 % less for it and nothing for write."""
    is_on, is_file = case["sg"], case["api"] == "sendfile"
    return costs(1.0 - 0.4 * is_file - (0.1 if is_on and is_file else 0.0))


def _kernel_costs(kernel: str) -> Callable[[Factors], Figures]:
    def figures(case: Factors) -> Figures:
        if case["api"] == "sendfile":
            return costs(0.5 if kernel.endswith("+zerocopy") else 0.8)
        return costs(1.1 if kernel.endswith("+zerocopy") else 1.0)

    return figures


def write_site(db: Database, *, more_runs: int = 0) -> dict[str, str]:
    """Write cases for every question; return names of cases -> ids.

    Args:
        more_runs: runs that measure the first cases again, for larger databases.
    """
    sweep = [
        {"api": api, "message_size": size}
        for api in ("write", "msg_zerocopy", "sendfile")
        for size in SIZES
    ]
    measure(db, 1, sweep, _size_sweep)
    patched = [{"api": api, "message_size": 8192} for api in ("write", "sendfile")]
    for number, kernel in enumerate(KERNELS, 2):
        measure(db, number, patched, _kernel_costs(kernel), kernel=kernel)
    pinned = [{"pinning": word, "message_size": 2048} for word in ("none", "same", "separate")]
    pins = {"none": 1.0, "same": 0.7, "separate": 1.2}
    measure(db, 10, pinned, lambda case: costs(pins[str(case.get("pinning", "separate"))]))
    many = [{"streams": streams, "message_size": 512} for streams in (1, 4, 16)]
    measure(db, 11, many, lambda case: costs(1.0 + 0.1 * int(case.get("streams", 1))))
    offloads = [
        {"api": api, "sg": state, "tx_checksum": state, "message_size": 32768}
        for api in ("write", "sendfile")
        for state in (False, True)
    ]
    measure(db, 12, offloads, _offloads)
    twins = [{"api": "write", "message_size": 65536, "twin": twin} for twin in (1, 2)]
    measure(db, 13, twins, lambda _: costs(0.2))
    latency = {"latency_p50": 20e-6, "latency_p90": 30e-6, "latency_p99": 90e-6}
    measure(db, 14, [{"test": "rr", "message_size": 1}], lambda _: latency)
    for number in range(more_runs):
        measure(db, 20 + number, sweep, _size_sweep)
    return {
        "write 64 KiB": _id(api="write", message_size=65536),
        "msg_zerocopy 64 KiB": _id(api="msg_zerocopy", message_size=65536),
        **{
            f"{api} {kernel}": _id(kernel, api=api, message_size=8192)
            for api in ("write", "sendfile")
            for kernel in KERNELS
        },
        "latency": _id(api="write", test="rr", message_size=1),
    }


def _id(kernel: str = "6.12.0", **factors: FactorValue) -> str:
    return case_id({**factors, **observed(kernel)})
