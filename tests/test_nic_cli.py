"""`zcdb nic` and its commands: what they print, and their exit codes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from nics_support import make_catalogue, make_driver, make_tree

from zcdb.cli import nic_machine
from zcdb.cli.nic import nic_command
from zcdb.errors import UsageError
from zcdb.nics import catalogue
from zcdb.nics.cards import from_facts
from zcdb.nics.facts import Fact

OLD = make_tree("6.1.5", make_driver(sg="yes", lro="yes"), make_driver("gone"))
NEW = make_tree("6.12.1", make_driver(sg="some", xdp="yes"), make_driver("fresh"))
FEATURES = {"tx-scatter-gather": "off [fixed]"}


@pytest.fixture
def two_kernels(monkeypatch):
    monkeypatch.setattr(catalogue, "load", lambda: make_catalogue(OLD, NEW))


@pytest.fixture
def machine(monkeypatch):
    """A machine with one card, a loopback and a veth."""
    bus = {"kind": "pci", "ids": "1acd:0001"}
    cards = {
        "lo": from_facts("lo", {"type": 772}),
        "eth0": from_facts("eth0", {"driver": "card", "bus": bus, "features": FEATURES}),
        "v0": from_facts("v0", {"driver": "veth"}),
    }
    monkeypatch.setattr(nic_machine, "interfaces", lambda: list(cards))
    monkeypatch.setattr(nic_machine, "machine_cards", lambda names: [cards[n] for n in names])


def run(*arguments: str):
    return CliRunner().invoke(nic_command, arguments, catch_exceptions=False)


def refusal(*arguments: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        run(*arguments)
    return caught.value


def test_a_machine_gets_a_line_a_card_and_the_rest_is_named_apart(two_kernels, machine):
    result = run()

    assert result.exit_code == 0
    assert result.stdout == (
        "eth0: Acme Networks Card One (card): no scatter-gather: sendfile will copy\n"
    )
    assert result.stderr == "In software: lo, v0 ('zcdb nic --all').\n"


def test_all_and_named_interfaces_are_shown(two_kernels, machine):
    assert [line.split(":")[0] for line in run("--all").stdout.splitlines()] == ["lo", "eth0", "v0"]
    assert run("--interface", "v0").stdout.startswith("v0: virtual Ethernet pair (veth): ")


def test_a_machine_without_cards_shows_its_links(two_kernels, machine, monkeypatch):
    monkeypatch.setattr(nic_machine, "interfaces", lambda: ["lo"])

    assert run().stdout.startswith("lo: loopback")


def test_an_interface_that_is_not_there_is_refused_by_name():
    error = refusal("--interface", "eth99")

    assert error.message == "there is no interface 'eth99' here"
    assert "there are lo" in error.hint


def test_the_lines_are_written_for_the_login_message(two_kernels, machine, tmp_path):
    result = run("--write", str(tmp_path / "nic"))

    assert (tmp_path / "nic").read_text() == result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["nic"]
    assert "No such file" in refusal("--write", str(tmp_path / "none" / "nic")).message


def test_captures_of_another_machine_are_read_from_files(two_kernels, tmp_path):
    lspci, ethtool = tmp_path / "lspci", tmp_path / "ethtool"
    lspci.write_text("05:00.0 Ethernet controller [0200]: Acme Card One [1acd:0001]\n")
    ethtool.write_text("Features for eth7:\nscatter-gather: on\n\ttx-scatter-gather: on\n")

    result = run("--from", str(lspci), "--from", str(ethtool), "--json")

    told = json.loads(result.stdout)
    assert [(one["interface"], one["device"]) for one in told] == [
        ("eth7", None),
        ("", "pci:1acd:0001"),
    ]


def test_a_file_that_says_nothing_of_a_card_is_refused_with_what_is_read(tmp_path):
    (tmp_path / "mail").write_text("Dear list,\n")

    error = refusal("--from", str(tmp_path / "mail"))

    assert error.message.startswith(f"{tmp_path / 'mail'}: nothing about a network card")
    assert "ethtool -k" in error.hint
    assert "No such file" in refusal("--from", str(tmp_path / "none")).message


def test_changes_are_listed_with_file_and_line_and_a_loss_is_an_alarm(two_kernels):
    result = run("changes")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "drivers only in 6.12.1: fresh",
        "drivers only in 6.1.5: gone",
        "      card sg: yes (6.1.5 drivers/net/ethernet/acme/card.c:10)"
        " -> some (6.12.1 drivers/net/ethernet/acme/card.c:10)",
        "LOST  card lro: yes (6.1.5 drivers/net/ethernet/acme/card.c:20) -> no",
        "      card xdp: no -> yes (6.12.1 drivers/net/ethernet/acme/card.c:20)",
    ]


def test_changes_of_one_driver_between_named_kernels(two_kernels):
    result = run("changes", "6.1", "6.12", "--driver", "fresh", "--json")

    assert result.exit_code == 0
    (told,) = json.loads(result.stdout)
    assert (told["appeared"], told["disappeared"], told["changes"]) == (["fresh"], [], [])


def test_a_kernel_or_driver_that_is_not_there_is_refused_with_what_is(two_kernels):
    kernel = refusal("changes", "5.10", "6.12")
    driver = refusal("show", "cart")

    assert kernel.message == "the catalogue has no kernel 5.10"
    assert kernel.hint == "it has 6.1.5, 6.12.1"
    assert (driver.message, driver.hint) == (
        "the catalogue has no driver 'cart'",
        "did you mean card?",
    )
    assert refusal("show", "fresh", "--kernel", "6.1").message == "Linux 6.1.5 has no driver fresh"


def test_a_driver_is_shown_with_since_when_it_has_what(two_kernels):
    lines = run("show", "card").stdout.splitlines()
    told = json.loads(run("show", "card", "--json").stdout)

    assert "  since 6.12.1: xdp (drivers/net/ethernet/acme/card.c:20)" in lines
    assert "  in every scanned kernel (6.1.5, 6.12.1): sg" in lines
    assert told["since"]["xdp"] == {"kernel": "6.12.1", "is_first_seen": True}
    assert told["facts"]["sg"]["value"] == "some"


def test_conflicts_between_the_source_and_recorded_machines_are_listed(two_kernels, monkeypatch):
    from zcdb.nics.probe import ProbedClaim

    seen = ProbedClaim(
        "driver", "card", "card", "tso", "yes", "on", "6.12.9", "ethtool features", "2026-12-01"
    )
    monkeypatch.setattr("zcdb.cli.nic._probed", lambda database: [seen])

    text, told = run("conflicts").stdout, json.loads(run("conflicts", "--json").stdout)

    assert text.startswith("card tso: source says no: named nowhere in the driver")
    assert told[0]["other"]["kernel"] == "6.12.9"


def test_conflicts_of_a_new_database_are_those_of_the_shipped_claims(tmp_path):
    result = run("conflicts", "--database", str(tmp_path / "new.sqlite"))

    assert result.exit_code == 0
    assert result.stdout.startswith("starfire sg: published says yes: Ion Badulescu")


def test_machines_of_the_database_are_read(tmp_path):
    from zcdb.cli.nic import _probed
    from zcdb.store.models import ClaimRow
    from zcdb.store.session import opened

    path = str(tmp_path / "lab.sqlite")
    with opened(path, with_history=False) as db, db.writing() as session:
        for number, (kind, source) in enumerate(
            [("driver", "probed"), ("device", "probed"), ("driver", "published")]
        ):
            session.add(
                ClaimRow(
                    public_id=f"{number:032d}",
                    subject_kind=kind,
                    subject="card",
                    capability="sg",
                    value="yes",
                    state="on",
                    kernel="6.12.9",
                    source_kind=source,
                    place="ethtool features",
                    dated=datetime.now(UTC).date().isoformat(),
                    details_json="{}",
                )
            )

    assert [(one.driver, one.capability, one.value) for one in _probed(path)] == [
        ("card", "sg", "yes")
    ]


def test_the_unit_and_the_login_snippet_fit_each_other(tmp_path):
    unit, motd = run("unit").stdout, run("motd").stdout

    command = re.search(r"^ExecStart=(\S+) nic --write %t/zcdb/nic$", unit, re.MULTILINE)
    assert command is not None
    assert command[1].startswith("/")
    assert "cat /run/zcdb/nic" in motd
    if shutil.which("systemd-analyze"):
        path = tmp_path / "zcdb-nic.service"
        path.write_text(unit.replace(command[1], "/bin/true"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True
        )
        assert "zcdb-nic" not in done.stderr, done.stderr


def test_a_fact_that_copies_says_so_in_the_line(monkeypatch, machine):
    copying = make_tree("6.12.1", make_driver(sg=Fact("yes", copies=True)))
    monkeypatch.setattr(catalogue, "load", lambda: make_catalogue(copying))

    assert "no scatter-gather" not in run().stdout
    assert "the driver copies every packet it sends" in run().stdout
