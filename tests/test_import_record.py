"""`zcdb import` into the database: cases, figures, flags, texts, and context given beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from zcdb.cli.import_ import environment_factors, import_command
from zcdb.errors import UsageError
from zcdb.factors import UNSTATED
from zcdb.importers import read
from zcdb.importers.record import machine_factors, probe_factors, source_of
from zcdb.metrics import METRICS
from zcdb.store import queries
from zcdb.store.session import Database, opened
from zcdb.store.sources import add_source, check_source

pytest_plugins = ["store_fixtures"]

DATA = Path(__file__).parent / "data" / "import"
CAPTURES = sorted(path for path in DATA.glob("*") if path.suffix != ".note")
LATENCY = (
    "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to hostB () port 0"
    " AF_INET : demo : first burst 0\n"
    "Local /Remote\n"
    "Socket Size   Request  Resp.   Elapsed  Trans.\n"
    "Send   Recv   Size     Size    Time     Rate\n"
    "bytes  Bytes  bytes    bytes   secs.    per sec\n\n"
    "16384  87380  1        1       10.00    30000.12\n"
    "16384  87380\n"
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "lab.sqlite"
    with opened(path, with_history=False):
        pass
    return path


def run(database: Path, *arguments: str, stdin: str | None = None) -> list[dict[str, Any]]:
    result = CliRunner().invoke(
        import_command,
        [*arguments, "--json", "--database", str(database)],
        input=stdin,
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_file_is_recorded_with_its_text_and_only_once(database: Path) -> None:
    path = DATA / "iperf3-tcp.json"

    (first,) = run(database, str(path))
    (again,) = run(database, str(path))

    assert (first["is_new"], again["is_new"]) == (True, False)
    assert first["source"] == again["source"]
    with opened(database, with_history=False) as db:
        assert queries.source_text(db, first["source"]) == path.read_bytes()
        (entry,) = queries.source_page(db, first["source"]).entries
        page = queries.case_page(db, str(entry.case_id))
    assert entry.id == first["results"][0]["entry"]
    values = {figure.metric: figure.value for figure in entry.figures if figure.value is not None}
    assert values == first["results"][0]["metrics"]
    assert [flag.code for flag in entry.flags] == first["results"][0]["flags"]
    assert {one.metric: one.mean for one in page.statistics if one.mean is not None} == values
    assert (page.factors["tool"], page.factors["message_size"]) == ("iperf3", 131072)
    assert page.factors["rx_api"] == UNSTATED


def test_the_same_text_with_other_conditions_is_another_source(database: Path) -> None:
    path = str(DATA / "iperf3-tcp.json")

    (plain,) = run(database, path)
    (with_nic,) = run(database, path, "--factor", "nic=Intel X710")

    assert plain["source"] != with_nic["source"]
    with opened(database, with_history=False) as db:
        (entry,) = queries.source_page(db, with_nic["source"]).entries
    assert entry.factors["sender_nic"] == entry.factors["receiver_nic"] == "Intel X710"


def test_what_describes_a_machine_has_no_case(database: Path) -> None:
    (imported,) = run(database, str(DATA / "ethtool-i.txt"))

    with opened(database, with_history=False) as db:
        (entry,) = queries.source_page(db, imported["source"]).entries

    assert (entry.case_id, entry.kind, entry.figures) == (None, "machine", ())
    assert entry.left_out == "it describes a machine, not a case"


def test_junk_is_not_kept(database: Path) -> None:
    (said,) = run(database, "-", stdin="nothing that any tool prints\n")

    with opened(database, with_history=False) as db:
        sources = queries.source_list(db, kind="import").sources
    assert said["refused"][0]["reason"] == "no output of a known tool was recognised"
    assert "source" not in said
    assert sources == ()


def test_a_latency_test_is_another_test_and_its_kinds_never_pair(database: Path) -> None:
    (plain,) = run(database, "-", stdin=LATENCY)
    (half,) = run(database, "-", "--factor", "latency_kind=half_rtt", stdin=LATENCY)

    with opened(database, with_history=False) as db:
        entries = [queries.source_page(db, said["source"]).entries[0] for said in (plain, half)]
        siblings = queries.case_page(db, str(entries[0].case_id)).siblings
    assert [entry.factors["test"] for entry in entries] == ["rr", "rr"]
    assert (entries[0].factors["request_size"], entries[0].factors["burst"]) == (1, 0)
    assert entries[0].case_id != entries[1].case_id
    assert entries[1].case_id not in {
        sibling.case_id
        for factor in siblings
        if factor != "latency_kind"
        for sibling in siblings[factor]
    }


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_every_capture_becomes_a_sound_source(path: Path) -> None:
    data = path.read_bytes()
    reading = read(data, path.name)

    source = source_of(reading, data)

    check_source(source)
    assert len(source.entries) == len(reading.results)
    assert source.id == source_of(read(data, "another name"), data).id
    for entry, result in zip(source.entries, reading.results, strict=True):
        assert {f.metric: f.value for f in entry.figures if f.value is not None} == result.metrics
        assert all(METRICS[figure.metric].unit == figure.unit for figure in entry.figures)


def test_all_captures_can_be_stored(db: Database) -> None:
    for path in CAPTURES:
        data = path.read_bytes()
        source = source_of(read(data, path.name), data)

        stored = add_source(db, source)

        assert len(queries.source_page(db, stored.id).entries) == len(source.entries)


def test_ethtool_and_lspci_give_the_context_of_an_end() -> None:
    driver = environment_factors((str(DATA / "ethtool-i.txt"),))
    features = environment_factors((f"receiver={DATA / 'ethtool-k.txt'}",))

    assert driver["sender_driver"] == "veth"
    assert features["receiver.sg"] is True
    assert all(name.startswith("receiver") for name in features)


def test_cards_that_differ_are_left_out() -> None:
    text = (
        b"41:00.0 Ethernet controller [0200]: Mellanox Technologies MT27800 [15b3:1017]\n"
        b"42:00.0 Ethernet controller [0200]: Intel Corporation X710 [8086:1572]\n"
    )

    assert machine_factors(read(text, "lspci").results) == {}
    assert machine_factors(read(text.splitlines()[0], "lspci").results) == {
        "nic": "Mellanox Technologies MT27800"
    }


def test_a_probe_gives_kernel_and_cpu(tmp_path: Path) -> None:
    facts = {"kernel_release": "6.12.0", "cpu_model": "Example CPU 3000", "cpus": 2}
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(facts))

    given = environment_factors((str(path),))

    assert given == {
        "sender_kernel": "6.12.0",
        "sender_cpu": "Example CPU 3000",
        "sender_cpus": "2",
    }
    assert probe_factors({"facts": facts}) == probe_factors(facts)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nothing", "says nothing about a network card"),
        ('{"broken"', "is not JSON"),
        ("{}", "says nothing about a network card"),
    ],
)
def test_an_environment_that_says_nothing_is_refused(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "environment"
    path.write_text(content)

    with pytest.raises(UsageError, match=words):
        environment_factors((str(path),))
