"""`zcdb import`: what it prints and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zcdb.cli.import_ import import_command, parse_factors
from zcdb.errors import UsageError

TABLE = (
    "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to hostB () port 0 AF_INET\n"
    "Recv   Send    Send\nSocket Socket  Message  Elapsed\n"
    "Size   Size    Size     Time     Throughput\n"
    "bytes  bytes   bytes    secs.    10^6bits/s\n\n"
    " 87380  16384  16384    10.00      9400.12\n"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "netperf.txt"
    path.write_text(f"Hello\n{TABLE}junk\nnetperf: data recv error: errno 104\n")
    return path


def run(*arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(import_command, arguments, input=stdin, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_dry_run_json_is_one_object_a_file(table):
    lines = run(str(table), str(table), "--dry-run", "--json").splitlines()

    first = json.loads(lines[0])
    assert len(lines) == 2
    assert first["file"] == str(table)
    (result,) = first["results"]
    assert result["tool"] == "netperf"
    assert result["test"] == "TCP_STREAM"
    assert result["metrics"] == {"throughput": 9400.12e6}
    assert result["lines"] == [2, 8]
    assert result["flags"] == []
    assert result["factors"]["message_size"] == 16384
    (refusal,) = first["refused"]
    assert refusal["lines"] == [10, 10]
    assert "errno 104" in refusal["reason"]


def test_dry_run_for_people_shows_results_and_refusals(table):
    text = run(str(table), "--dry-run")

    assert "1 result, 1 refused" in text
    assert "lines 2-8  netperf TCP_STREAM" in text
    assert "throughput: 9.40 Gbit/s" in text
    assert "line 10  refused: netperf failed: netperf: data recv error: errno 104" in text


def test_standard_input_is_a_file_called_minus():
    read = json.loads(run("-", "--dry-run", "--json", stdin=TABLE))

    assert read["file"] == "-"
    assert read["results"][0]["metrics"]["throughput"] == 9400.12e6


def test_given_factors_and_command_reach_the_results(table):
    read = json.loads(
        run(
            str(table),
            "--dry-run",
            "--json",
            "--factor",
            "nic=Intel X710",
            "--factor",
            "sndbuf=64K",
            "--factor",
            "latency_kind=rtt",
            "--command",
            "netperf -T 1,2 -H hostB",
        )
    )

    factors = read["results"][0]["factors"]
    assert factors["sender_nic"] == factors["receiver_nic"] == "Intel X710"
    assert factors["sndbuf"] == 65536
    assert factors["latency_kind"] == "rtt"
    assert read["results"][0]["details"]["cpu_binding"] == "1,2"


def test_without_dry_run_the_results_are_recorded(table, tmp_path):
    text = run(str(table), "--database", str(tmp_path / "lab.sqlite"))
    again = run(str(table), "--database", str(tmp_path / "lab.sqlite"))

    assert "1 result, 1 refused" in text
    assert "  recorded as source " in text
    assert "  is recorded already: source " in again
    assert text.split()[-1] == again.split()[-1]


def test_a_factor_that_the_text_contradicts_is_refused(table):
    with pytest.raises(UsageError, match=r"message_size=65536: .*, lines 2-8, says 16384"):
        CliRunner().invoke(
            import_command,
            [str(table), "--dry-run", "--factor", "message_size=64K"],
            catch_exceptions=False,
        )


def test_a_missing_file_is_named():
    with pytest.raises(UsageError, match=r"cannot read /no/such: No such file"):
        CliRunner().invoke(import_command, ["/no/such", "--dry-run"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("nic", "is not NAME=VALUE"),
        ("messagesize=64K", "there is no such factor"),
        ("message_size=many", "is not a size"),
        ("bidirectional=perhaps", "is not true or false"),
        ("burst=few", "burst"),
    ],
)
def test_a_wrong_factor_is_refused_with_a_sentence(assignment, words):
    with pytest.raises(UsageError, match=words):
        parse_factors((assignment,))


def test_the_command_has_help_that_names_its_options():
    text = run("--help")

    assert isinstance(import_command, click.Command)
    for option in ("--dry-run", "--json", "--factor", "--command", "--environment", "--database"):
        assert option in text
