"""What `zcdb nic` says of a card, and what of that becomes claims and conflicts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nics_support import make_catalogue, make_driver, make_tree

from zcdb.importers import read
from zcdb.nics import captures, probe
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.cards import Card, PcieLink, feature_states, from_facts
from zcdb.nics.catalogue import load
from zcdb.nics.claims import Claim
from zcdb.nics.conflicts import conflicts, source_about
from zcdb.nics.facts import Fact
from zcdb.nics.summary import known_driver, verdict, verdict_to_json

GOOD = {
    "tx-scatter-gather": "on",
    "tx-checksum-ip-generic": "on",
    "tx-tcp-segmentation": "on",
    "tx-udp-segmentation": "off",
    "rx-checksum": "on",
    "rx-lro": "off [fixed]",
}
FACTS = {
    "driver": "card",
    "driver_version": "6.12.1-amd64",
    "module": {"version": None, "in_tree": True},
    "bus": {
        "kind": "pci",
        "ids": "1acd:0001 (1acd:0100)",
        "speed": "8.0 GT/s PCIe",
        "width": "4",
        "speed_max": "8.0 GT/s PCIe",
        "width_max": "8",
    },
    "mtu": 1500,
    "type": 1,
    "link_speed_bps": 10_000_000_000,
    "channels": {"rx_max": 0, "tx_max": 0, "combined_max": 8, "rx": 0, "tx": 0, "combined": 2},
    "rss": {"table_entries": 128},
    "features": GOOD,
}


@pytest.fixture
def catalogue():
    return make_catalogue(make_tree("6.12.1", make_driver(sg="yes", uso="some", hwts_tx="yes")))


def card(**features: str) -> Card:
    """Return a card whose features are `GOOD` but for some, written `tx_scatter_gather="off"`."""
    changed = {name.replace("_", "-"): state for name, state in features.items()}
    return from_facts("eth0", {**FACTS, "features": {**GOOD, **changed}})


# -- from a host's facts ---------------------------------------------------------------------------


def test_a_card_is_what_the_hosts_facts_say():
    found = from_facts("eth0", FACTS, xdp={"xdp": True}, timestamps={"hwts_tx": False})

    assert (found.driver, found.is_in_tree, found.bus) == ("card", True, "pci")
    assert (found.device, found.card) == ("pci:1acd:0001", "1acd:0100")
    assert found.pcie == PcieLink(8.0, 8.0, 4, 8)
    assert (found.queues, found.queues_max, found.has_rss) == (2, 8, True)
    assert found.features["sg"] == "on"
    assert found.features["lro"] == "off [fixed]"
    assert (found.has("uso"), found.has("lro"), found.has("xdp")) == (True, False, True)
    assert (found.has("hwts_tx"), found.has("tls_tx")) == (False, None)


def test_what_a_host_does_not_say_is_unknown_and_not_off():
    found = from_facts("lo", {"driver": None, "bus": None, "channels": None, "rss": None})

    assert (found.has("sg"), found.queues, found.pcie, found.device) == (None, None, None, "")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("on", "on"),
        ("off [requested on]", "off"),
        ("on [fixed]", "on [fixed]"),
        ("off [fixed]", "off [fixed]"),
    ],
)
def test_features_are_read_as_ethtool_writes_them(text, state):
    assert feature_states({"tx-scatter-gather": text}) == {"sg": state}


def test_lanes_of_a_hypervisors_device_are_not_told():
    bus = {**FACTS["bus"], "speed": "Unknown", "width": "0"}

    assert from_facts("eth0", {**FACTS, "bus": bus}).pcie is None


# -- the line --------------------------------------------------------------------------------------


def test_a_line_says_what_it_is_what_to_expect_what_is_off_and_what_holds_it_back(catalogue):
    line = verdict(card(), catalogue, "6.12.1").line()

    assert line == (
        "eth0: Acme Networks Card One, Card One Deluxe (card, in tree): sendfile and MSG_ZEROCOPY"
        " can go out without a copy; on: TX checksum, TSO, RX checksum, 2 queues; off, could be"
        " on: UDP segmentation; PCIe x4 at 8 GT/s, the card can x8 at 8 GT/s; 2 of 8 queues in use"
    )


@pytest.mark.parametrize(
    ("features", "expectation"),
    [
        ({"tx_scatter_gather": "off [fixed]"}, "no scatter-gather: sendfile will copy"),
        ({"tx_scatter_gather": "off"}, "scatter-gather is off: sendfile will copy"),
        (
            {"tx_checksum_ip_generic": "off"},
            "no TX checksum: the CPU reads every byte that sendfile sends",
        ),
        (
            {"tx_tcp_segmentation": "off [fixed]"},
            "sendfile can go out without a copy, packet by packet (no TSO)",
        ),
    ],
)
def test_what_is_missing_decides_what_to_expect(catalogue, features, expectation):
    assert verdict(card(**features), catalogue).expectation == expectation


def test_a_driver_that_copies_every_packet_gains_nothing():
    catalogue = make_catalogue(make_tree("6.12.1", make_driver(sg=Fact("yes", copies=True))))

    assert verdict(card(), catalogue).expectation == (
        "the driver copies every packet it sends: sendfile gains nothing"
    )


@pytest.mark.parametrize(
    ("in_tree", "version", "words"),
    [
        (True, "1.0", "card, in tree"),
        (False, "6.12.1-amd64", "card, out of tree"),
        (None, "6.12.1-amd64", "card, in tree"),
        (None, "2.8.10-k", "card, in tree"),
        (None, "2.8.10", "card"),
        (None, None, "card"),
    ],
)
def test_a_driver_is_out_of_tree_only_if_the_machine_says_so(catalogue, in_tree, version, words):
    facts = {**FACTS, "module": {"in_tree": in_tree}, "driver_version": version}

    assert verdict(from_facts("eth0", facts), catalogue).driver == words


def test_a_loopback_and_a_veth_are_told_from_cards(catalogue):
    loopback = from_facts("lo", {"type": 772, "features": GOOD})
    veth = from_facts("v0", {"driver": "veth", "features": GOOD})
    bare_veth = from_facts("v0", {"driver": "veth", "features": {"tx-scatter-gather": "off"}})

    assert verdict(loopback, catalogue).line().startswith("lo: loopback (no driver needed): ")
    assert "MSG_ZEROCOPY is copied" in verdict(veth, catalogue).expectation
    assert verdict(bare_veth, catalogue).expectation == "scatter-gather is off: sendfile will copy"


def test_one_kind_of_tx_checksum_is_enough(catalogue):
    both = card(tx_checksum_ipv4="off", tx_checksum_ipv6="off")
    none = card(tx_checksum_ipv4="off", tx_checksum_ip_generic="off")

    assert "TX checksum" not in verdict(both, catalogue).could_be_on
    assert verdict(none, catalogue).could_be_on.count("TX checksum") == 1


def test_a_drivers_facts_are_those_of_the_scan_of_the_kernels_series():
    catalogue = make_catalogue(
        make_tree("6.1.192", make_driver(sg="no")), make_tree("6.12.117", make_driver(sg="yes"))
    )
    one = Card("eth0", driver="card")

    assert known_driver(one, catalogue, "6.12.107+deb12-amd64").facts["sg"].value == "yes"
    assert known_driver(one, catalogue, "6.1.0-57-amd64").facts["sg"].value == "no"
    assert known_driver(one, catalogue, "5.10.0").facts["sg"].value == "no"
    assert known_driver(one, catalogue).facts["sg"].value == "yes"


def test_without_features_the_source_says_what_to_expect(catalogue):
    named = Card("", driver="card")
    by_id = Card("", device="pci:1acd:0001", described="Some card")
    nobody = Card("eth0", driver="secret")

    assert "sends without a copy" in verdict(named, catalogue).expectation
    assert verdict(by_id, catalogue).driver == "card by its id"
    assert (
        verdict(nobody, catalogue).line()
        == "eth0: secret interface (secret): what it can is not known"
    )


def test_json_has_the_line_its_parts_and_every_feature(catalogue):
    data = verdict_to_json(verdict(card(), catalogue))

    assert data["verdict"].startswith("eth0: Acme")
    assert data["features"]["uso"] == "off"
    assert data["pcie"] == {"speed_gts": 8.0, "speed_max_gts": 8.0, "width": 4, "width_max": 8}
    assert json.loads(json.dumps(data)) == data


# -- captures --------------------------------------------------------------------------------------

ETHTOOL = """\
# ethtool -k eth2
Features for eth2:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: on
\ttx-checksum-ip-generic: off [fixed]
\ttx-checksum-ipv6: off [fixed]
scatter-gather: on
\ttx-scatter-gather: on
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
large-receive-offload: off
receive-hashing: off [fixed]
# ethtool -i eth2
driver: card
version: 6.12.1-amd64
firmware-version: 1.2
bus-info: 0000:05:00.0
supports-statistics: yes
"""
LSPCI = """\
05:00.0 Ethernet controller [0200]: Acme Networks Card One [1acd:0001] (rev 01)
\tSubsystem: Acme Networks Card One Deluxe [1acd:0100]
06:00.0 Ethernet controller [0200]: Acme Networks Card Two [1acd:0002]
07:00.0 Host bridge [0600]: Acme Networks Bridge [1acd:0003]
"""


def captured(*texts: str) -> list[Card]:
    results = [one for text in texts for one in read(text.encode(), "capture").results]
    return captures.cards((one.tool, one.details) for one in results)


def test_captures_of_one_machine_are_joined_by_interface_and_bus_address():
    first, second = captured(ETHTOOL, LSPCI)

    assert (first.interface, first.driver, first.device) == ("eth2", "card", "pci:1acd:0001")
    assert (first.features["lro"], first.features["rxhash"]) == ("off", "off [fixed]")
    assert (second.interface, second.device) == ("", "pci:1acd:0002")


def test_a_driver_whose_interface_is_not_told_stands_alone():
    silent = ETHTOOL.replace("# ethtool -i eth2", "").replace("# ethtool -k eth2", "")
    other = silent.replace("eth2", "eth3").replace("driver: card", "driver: other")

    found = captured(silent, other)

    assert [one.interface for one in found] == ["eth2", "eth3", ""]
    assert [one.driver for one in found[:2]] == [None, None]


def test_every_capture_of_the_corpus_gives_lines_or_says_nothing():
    folder = os.environ.get("ZCDB_CORPUS")
    if not folder:
        pytest.skip("ZCDB_CORPUS is not set")
    files = [
        path
        for kind in ("ethtool", "lspci", "ip-link")
        for path in sorted((Path(folder) / kind).iterdir())
        if "expect" not in path.name
    ]
    catalogue = load()

    lines = {
        path.name: [verdict(one, catalogue).line() for one in captured(path.read_text())]
        for path in files
    }

    assert lines["005-k-ixgbe-2013.txt"] == [
        "p2p1: interface (driver not told): sendfile and MSG_ZEROCOPY can go out without a copy;"
        " on: TX checksum, TSO, RX checksum, RX hash; off, could be on: LRO"
    ]
    assert lines["017-i-i40e-in-org-file.txt"][0].startswith("i40e1: Intel(R) Ethernet Connection")
    assert (
        lines["001-nn-connectx5-quoted.txt"]
        == [
            "Mellanox Technologies MT27800 Family [ConnectX-5] (mlx5_core by its id):"
            " by its source the driver sends without a copy"
        ]
        * 2
    )
    assert lines["020-S-not-supported.txt"] == []


# -- claims ----------------------------------------------------------------------------------------


def test_a_probe_makes_a_claim_of_each_thing_the_machine_told():
    one = from_facts("eth0", FACTS, xdp={"xdp": True, "xsk_zc": False})

    found = probe.claims(one, kernel="6.12.1-amd64", date="2026-12-01", environment="e1")
    drivers = {c.capability: c for c in found if c.subject_kind == "driver"}
    devices = {c.capability: c for c in found if c.subject_kind == "device"}

    assert (drivers["sg"].subject, drivers["sg"].value, drivers["sg"].state) == (
        "card",
        "yes",
        "on",
    )
    assert (drivers["uso"].value, drivers["uso"].state) == ("yes", "off")
    assert (drivers["lro"].value, drivers["lro"].state) == ("no", "")
    assert (drivers["xdp"].value, drivers["xsk_zc"].value) == ("yes", "no")
    assert (drivers["mq_alloc"].value, drivers["rss_indir"].value) == ("yes", "yes")
    assert "tls_tx" not in drivers
    assert devices.keys() == drivers.keys()
    assert devices["sg"].subject == "pci:1acd:0001"
    assert drivers["sg"].where == "ethtool features (e1)"
    assert {c.source_kind for c in found} == {"probed"}


def test_claims_use_the_registrys_names_only():
    old = {**GOOD, "tx-checksum-unneeded": "on [fixed]"}

    found = probe.claims(
        from_facts("bond0", {**FACTS, "features": old}), kernel="3.10", date="2013-10-01"
    )

    assert {claim.capability for claim in found} <= CAPABILITIES.keys()


def test_a_runs_environment_has_the_claims_of_its_interfaces():
    environment = {
        "kernel": {"release": "6.12.1-amd64"},
        "interface": FACTS,
        "more_interfaces": {"eth1": {**FACTS, "driver": "other", "bus": None}},
    }

    found = probe.claims_of_environment(environment, date="2026-12-01", environment="e1")

    assert {c.subject for c in found} == {"card", "pci:1acd:0001", "other"}
    assert {c.kernel for c in found} == {"6.12.1-amd64"}
    assert probe.claims_of_environment({"interface": None}, date="2026-12-01") == []


# -- conflicts -------------------------------------------------------------------------------------


def probed(value: str, capability: str = "lro", kernel: str = "6.12.9") -> probe.ProbedClaim:
    return probe.ProbedClaim(
        "driver", "card", "card", capability, value, "", kernel, "ethtool features", "2026-12-01"
    )


def test_a_machine_that_has_what_the_source_has_nowhere_is_a_conflict(catalogue):
    (found,) = conflicts(catalogue, [probed("yes"), probed("no"), probed("yes")])

    assert (found.driver, found.capability) == ("card", "lro")
    assert found.words() == (
        "card lro: source says no: named nowhere in the driver (Linux 6.12.1);"
        " probed says yes: ethtool features (Linux 6.12.9, 2026-12-01)"
    )


def test_a_machine_that_lacks_what_the_source_gives_to_every_device_is_a_conflict(catalogue):
    (found,) = conflicts(catalogue, [probed("no", "sg")])

    assert found.one.place == "drivers/net/ethernet/acme/card.c:10"


def test_what_only_some_devices_have_contradicts_nothing(catalogue):
    assert conflicts(catalogue, [probed("yes", "uso"), probed("no", "uso")]) == []


def test_a_kernel_between_two_scans_is_judged_where_both_agree():
    catalogue = make_catalogue(
        make_tree("6.1.5", make_driver(sg="yes", lro="no", xdp="no")),
        make_tree("6.12.1", make_driver(sg="yes", lro="no", xdp="yes")),
    )

    assert source_about(catalogue, "card", "lro", "6.6.1")[0] == "6.1.5"
    assert source_about(catalogue, "card", "xdp", "6.6.1") is None
    assert source_about(catalogue, "card", "lro", "7.0.1") is None
    assert (
        conflicts(catalogue, [probed("yes", "xdp", "6.6.1"), probed("yes", "lro", "7.0.1")]) == []
    )
    assert len(conflicts(catalogue, [probed("yes", "lro", "6.6.1")])) == 1


def published(name: str, value: str, date: str, kernel: str = "", **more: object) -> Claim:
    values = {
        "id": name,
        "subject": "nic",
        "about": ("sg",),
        "author": "A Person",
        "date": date,
        "document": "" if kernel else "thread",
        "lines": None if kernel else (1, 2),
        "kernel": kernel,
        "evidence": ("drivers/net/card.c:7",) if kernel else (),
        "nic": "",
        "drivers": ("card",),
        "value": value,
        "conditions": "",
        "status": "claim",
        "hedged": False,
        "relations": (),
        "note": "",
    }
    return Claim(**{**values, **more})


def test_a_statement_is_held_against_the_source_of_its_time():
    source = published("src", "no", "2001-11-26", "2.4.16")
    catalogue = make_catalogue(
        make_tree("6.12.1", make_driver(sg="yes")),
        claims=[
            published("then", "yes", "2001-01-27"),
            published("later", "yes", "2010-01"),
            published("taken-back", "yes", "2001-02-01", status="withdrawn"),
            source,
        ],
    )

    (found,) = conflicts(catalogue)

    assert (found.one.place, found.other.place) == (
        "A Person, thread:1-2",
        "drivers/net/card.c:7",
    )


def test_the_shipped_claims_contradict_each_other_about_starfire_only():
    found = conflicts(load())

    assert [(one.driver, one.capability) for one in found] == [("starfire", "sg")]


# -- this machine ----------------------------------------------------------------------------------


def nic(*arguments: str, prefix: tuple[str, ...] = ()) -> list[dict[str, object]]:
    command = [*prefix, sys.executable, "-m", "zcdb", "nic", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ethtool(option: str, name: str) -> str:
    program = shutil.which("ethtool", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if program is None:
        pytest.skip("ethtool is not installed")
    return subprocess.run([program, option, name], capture_output=True, text=True).stdout


def test_every_interface_of_this_machine_is_told_as_ethtool_tells_it():
    told = nic("--all")

    for one in told:
        (by_ethtool,) = captured(ethtool("-k", one["interface"]))
        assert one["features"] == dict(by_ethtool.features)
    assert "lo" in {one["interface"] for one in told}


@pytest.mark.net
def test_links_in_software_are_told_truly_in_a_namespace_of_their_own():
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("needs root, unshare and ip")
    script = (
        "{ ip link add v0 type veth peer name v1; ip link add d0 type dummy;"
        " ip link add b0 type bridge; ip link set v0 up; ethtool -K v0 sg off; }"
        ' >/dev/null 2>&1; exec "$@"'
    )

    told = {
        str(one["interface"]): one
        for one in nic("--all", prefix=("unshare", "--net", "sh", "-c", script, "sh"))
    }

    if "v0" not in told:
        pytest.skip("this kernel has no veth")
    assert told["v0"]["what"] == "virtual Ethernet pair"
    assert told["v0"]["expectation"] == "scatter-gather is off: sendfile will copy"
    assert "MSG_ZEROCOPY is copied" in told["v1"]["expectation"]
    assert (told["v1"]["xdp"]["xdp"], told["v1"]["xdp"]["xsk_zc"]) == (True, False)
    assert told["lo"]["what"] == "loopback"
    # Not every kernel has these.
    for name, what in {"d0": "dummy interface", "b0": "bridge"}.items():
        assert name not in told or told[name]["what"] == what
    assert not any(one["device"] for one in told.values())
