"""A database with something of everything that a bundle holds."""

from __future__ import annotations

from datetime import UTC, datetime

from store_support import DemoIds, write_demo

from zcdb.importers import read
from zcdb.importers.record import source_of
from zcdb.report import freeze
from zcdb.store import errata, reports, write
from zcdb.store.claims import Claim, add_claims
from zcdb.store.session import Database
from zcdb.store.sources import add_source

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
QUERY = "axis=api&a=write&b=sendfile"
NETPERF = (
    b"MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to hostB () port 0 AF_INET\n"
    b"Recv   Send    Send\nSocket Socket  Message  Elapsed\n"
    b"Size   Size    Size     Time     Throughput\n"
    b"bytes  bytes   bytes    secs.    10^6bits/s\n\n"
    b" 87380  16384  16384    10.00      9400.12\n"
)


def write_everything(db: Database) -> DemoIds:
    """Write the demo, a source with a correction, exclusions, a report, links and a claim."""
    ids = write_demo(db)
    stored = add_source(db, source_of(read(NETPERF, "netperf.txt"), NETPERF), recorded_at=AT)
    errata.correct(
        db,
        "entry",
        stored.entries[0],
        metric="throughput",
        value=9.4e9,
        reason="the mail has it so",
        by="a tester",
    )
    errata.correct(
        db,
        "trial",
        ids.ok_trial_id,
        metric="throughput",
        value=20.5e9,
        reason="the clock of the receiver stood still",
        by="a tester",
    )
    write.exclude_trial(db, ids.copied_trial_id, reason="somebody compiled", excluded_by="a tester")
    errata.contest(db, "run", ids.older_run_id, reason="an old firmware", by="a tester")
    freeze.freeze(db, QUERY, "sendfile in 2026", AT)
    reports.add_link(db, "/compare", QUERY, AT)
    reports.add_link(db, "/explore", "rows=api&cols=message_size", AT)
    add_claims(db, [make_claim(ids)])
    return ids


def make_claim(ids: DemoIds) -> Claim:
    """Return a claim that a probe of the demo's machine made."""
    return Claim(
        subject_kind="driver",
        subject="veth",
        capability="tx-udp-segmentation",
        value="yes",
        state="on",
        kernel="6.12.0",
        source_kind="probed",
        place="ethtool -k",
        dated="2026-03-04",
        environment_id=ids.environment_id,
    )
