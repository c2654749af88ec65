"""How fast the importers read, and what mutated files do to them.

    python benchmarks/importers.py                  MB/s and results/s, best of several
    python benchmarks/importers.py --fuzz 100000    mutants of the corpus (ZCDB_CORPUS) and of
                                                    tests/data/import; the first bad ones are
                                                    written to mutant-SEED-N.bin

A mutant is a real output with bytes cut, doubled, swapped, changed or lines
shuffled, from a fixed seed.  Reading it must raise nothing, take no number
that is not in it, and keep every span inside the file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from zcdb.ids import canonical_json
from zcdb.importers import Reading, read
from zcdb.importers.check import PrintedNumbers, unfounded

SEED = 20010
OWN_DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "import"


def sources() -> list[Path]:
    """Return the outputs to mutate: our own captures and, where it is, the corpus."""
    found = [path for path in sorted(OWN_DATA.glob("*")) if path.suffix != ".note"]
    corpus = os.environ.get("ZCDB_CORPUS")
    if corpus:
        found += sorted(
            path
            for path in Path(corpus).glob("*/*")
            if path.is_file() and not path.name.endswith(".expect.json")
        )
    return found


# Mutants ---------------------------------------------------------------------------------------

Mutation = Callable[[bytes, random.Random], bytes]


def _piece(data: bytes, dice: random.Random, longest: int = 200) -> tuple[int, int]:
    start = dice.randrange(len(data) + 1)
    return start, min(len(data), start + 1 + dice.randrange(longest))


def cut(data: bytes, dice: random.Random) -> bytes:
    start, end = _piece(data, dice)
    return data[:start] + data[end:]


def end_early(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def begin_late(data: bytes, dice: random.Random) -> bytes:
    return data[dice.randrange(len(data) + 1) :]


def double(data: bytes, dice: random.Random) -> bytes:
    start, end = _piece(data, dice)
    return data[:end] + data[start:]


def swap(data: bytes, dice: random.Random) -> bytes:
    a, b = _piece(data, dice)
    c, d = _piece(data, dice)
    if c < a:
        a, b, c, d = c, d, a, b
    b = min(b, c)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def change(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(1 + dice.randrange(8)):
        if changed:
            changed[dice.randrange(len(changed))] = dice.choice(
                b"0123456789.,-+:%[]{}()\"'= \n\r\x00\xff"
            )
    return bytes(changed)


def shuffle_lines(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    start = dice.randrange(len(lines))
    end = min(len(lines), start + 2 + dice.randrange(12))
    part = lines[start:end]
    dice.shuffle(part)
    return b"\n".join(lines[:start] + part + lines[end:])


def drop_lines(data: bytes, dice: random.Random) -> bytes:
    return b"\n".join(line for line in data.split(b"\n") if dice.random() > 0.15)


def join_lines(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    return b"\n".join(lines[:at]) + b" " + b"\n".join(lines[at:])


def quote(data: bytes, dice: random.Random) -> bytes:
    mark = dice.choice([b"> ", b">", b"> > ", b"    ", b"| "])
    end = dice.choice([b"\n", b"\r\n"])
    return end.join(mark + line for line in data.split(b"\n"))


MUTATIONS: tuple[Mutation, ...] = (
    cut,
    end_early,
    begin_late,
    double,
    swap,
    change,
    shuffle_lines,
    drop_lines,
    join_lines,
    quote,
)


def mutants(files: Sequence[bytes], count: int, seed: int = SEED) -> Iterator[bytes]:
    """Yield `count` mutants, the same for the same seed."""
    dice = random.Random(seed)
    for _ in range(count):
        data = dice.choice(files)
        if dice.random() < 0.1:
            data = data + dice.choice(files)
        for _ in range(1 + (dice.random() < 0.4) + (dice.random() < 0.2)):
            data = dice.choice(MUTATIONS)(data, dice)
        yield data


def problems_of(data: bytes) -> list[str]:
    """Return what is wrong with the reading of a file; raises what the importers raise."""
    reading = read(data, "mutant")
    printed = PrintedNumbers(data)
    problems = [p for result in reading.results for p in unfounded(result, printed)]
    for result in reading.results:
        # What is stored must have one spelling in UTF-8.
        canonical_json([result.test, result.version, result.details]).encode()
    "".join(refusal.reason for refusal in reading.refused).encode()
    return problems + _bad_spans(reading, data)


def _bad_spans(reading: Reading, data: bytes) -> list[str]:
    lines = data.count(b"\n") + 1
    return [
        f"{item.span} is not inside {len(data)} bytes of {lines} lines"
        for item in (*reading.results, *reading.refused)
        if not (
            0 <= item.span.first_byte <= item.span.end_byte <= len(data)
            and 1 <= item.span.first_line <= item.span.last_line <= lines
        )
        and data[:2] not in (b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")
    ]


def fuzz(count: int, seed: int) -> int:
    """Read mutants, print what went wrong, return how often."""
    files = [path.read_bytes() for path in sources()]
    failed = 0
    results = 0
    began = time.perf_counter()
    for number, data in enumerate(mutants(files, count, seed), 1):
        try:
            found = problems_of(data)
        except Exception as error:  # noqa: BLE001 - any exception is the finding
            found = [f"{type(error).__name__}: {error}"]
        if found:
            failed += 1
            if failed <= 20:
                Path(f"mutant-{seed}-{number}.bin").write_bytes(data)
                print(f"mutant {number}: {'; '.join(found[:3])}", flush=True)
        if number % 10_000 == 0:
            elapsed = time.perf_counter() - began
            print(f"{number} mutants, {failed} with problems, {elapsed:.0f} s", file=sys.stderr)
        results += 1
    print(f"{results} mutants of {len(files)} files, seed {seed}: {failed} with problems")
    return failed


# Speed -----------------------------------------------------------------------------------------


def iperf3_document(intervals: int, streams: int) -> bytes:
    """Return a made-up iperf 3 result in the form the tool prints (cJSON, tabs)."""
    dice = random.Random(SEED)

    def row(start: int) -> dict[str, object]:
        size = dice.randrange(10**9, 2 * 10**9)
        return {
            "socket": 5,
            "start": start + dice.random() / 1e5,
            "end": start + 1 + dice.random() / 1e5,
            "seconds": 1 + dice.random() / 1e5,
            "bytes": size,
            "bits_per_second": size * 8 * (1 - dice.random() / 1e5),
            "retransmits": dice.randrange(3),
            "snd_cwnd": dice.randrange(10**6),
            "rtt": dice.randrange(500),
            "rttvar": dice.randrange(50),
            "pmtu": 1500,
            "omitted": False,
            "sender": True,
        }

    total = {
        "start": 0,
        "end": 10.0,
        "seconds": 10.0,
        "bytes": 11750000000,
        "bits_per_second": 9.4e9,
        "retransmits": 3,
        "sender": True,
    }
    document = {
        "start": {
            "connected": [{"socket": 5, "local_host": "192.0.2.1", "remote_host": "192.0.2.2"}],
            "version": "iperf 3.12",
            "cookie": str(dice.random()),
            "test_start": {
                "protocol": "TCP",
                "num_streams": streams,
                "blksize": 131072,
                "omit": 0,
                "duration": intervals,
                "reverse": 0,
            },
        },
        "intervals": [
            {"streams": [row(i) for _ in range(streams)], "sum": row(i)} for i in range(intervals)
        ],
        "end": {
            "streams": [{"sender": total, "receiver": total}] * streams,
            "sum_sent": total,
            "sum_received": total,
            "cpu_utilization_percent": {"host_total": 31.2, "remote_total": 55.0},
        },
    }
    return json.dumps(document, indent="\t", separators=(",", ":\t")).encode()


def netperf_tables(count: int) -> bytes:
    """Return made-up classic TCP_STREAM tables with CPU columns."""
    dice = random.Random(SEED)
    table = (
        "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.2 () port 0"
        " AF_INET\n"
        "Recv   Send    Send                          Utilization       Service Demand\n"
        "Socket Socket  Message  Elapsed              Send     Recv     Send    Recv\n"
        "Size   Size    Size     Time     Throughput  local    remote   local   remote\n"
        "bytes  bytes   bytes    secs.    10^6bits/s  % S      % S      us/KB   us/KB\n\n"
        " 87380  16384  16384    10.00      {rate:.2f}   2.50     5.20     0.174   0.363\n"
    )
    return "".join(table.format(rate=dice.uniform(9000, 9400)) for _ in range(count)).encode()


def best_seconds(data: bytes, times: int) -> float:
    """Return the shortest time that one reading took: the machine may be shared."""
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        read(data, "benchmark")
        best = min(best, time.perf_counter() - began)
    return best


def speed() -> None:
    """Print how fast the importers read."""
    for name, data in (
        ("iperf3 JSON, 1 stream, 3600 intervals", iperf3_document(3600, 1)),
        ("iperf3 JSON, 8 streams, 600 intervals", iperf3_document(600, 8)),
        ("iperf3 JSON, 1 stream, 10 intervals", iperf3_document(10, 1)),
    ):
        seconds = best_seconds(data, 15)
        print(f"{name}: {len(data) / seconds / 1e6:.1f} MB/s ({len(data) / 1e6:.2f} MB)")
    data = netperf_tables(2000)
    seconds = best_seconds(data, 5)
    print(f"netperf classic: {2000 / seconds:.0f} results/s")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Speed of the importers, and their fuzzer.")
    parser.add_argument("--fuzz", type=int, metavar="MUTANTS", help="read so many mutants")
    parser.add_argument("--seed", type=int, default=SEED, help="of the mutants")
    arguments = parser.parse_args()
    if arguments.fuzz:
        sys.exit(1 if fuzz(arguments.fuzz, arguments.seed) else 0)
    speed()


if __name__ == "__main__":
    main()
