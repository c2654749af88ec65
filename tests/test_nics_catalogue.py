"""The catalogue: comparison of kernels, data files, names, claims, and what is shipped."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

import pytest
from nics_support import FOLDER, make_catalogue, make_driver, make_tree

from zcdb.errors import UsageError
from zcdb.nics import build
from zcdb.nics.catalogue import CatalogueError, load, read_tree, write_tree
from zcdb.nics.claims import (
    ClaimError,
    check_together,
    read_claims,
    stale_because,
    stale_reason,
    version_key,
)
from zcdb.nics.compare import compare, comparison_lines, in_order, since
from zcdb.nics.facts import Evidence, Fact, id_from_text
from zcdb.nics.names import names_for, read_ids


def test_versions_are_ordered_as_numbers():
    trees = [make_tree("6.12.1"), make_tree("7.3"), make_tree("6.2")]

    assert [tree.kernel for tree in in_order(trees)] == ["6.2", "6.12.1", "7.3"]
    assert version_key("2.4.16") < version_key("6.1")


def test_a_capability_has_a_since_only_if_an_older_kernel_lacked_it():
    trees = [
        make_tree("6.1", make_driver(sg="yes")),
        make_tree("6.12", make_driver(sg="yes", tso="some")),
    ]

    assert since(trees, "card", "tso").kernel == "6.12"
    assert since(trees, "card", "tso").is_first_seen
    assert since(trees, "card", "sg").kernel == "6.1"
    assert not since(trees, "card", "sg").is_first_seen
    assert since(trees, "card", "lro") is None


def test_a_capability_that_came_back_counts_from_its_return():
    values = ["yes", "no", "yes"]
    trees = [make_tree(f"6.{n}", make_driver(sg=value)) for n, value in enumerate(values)]

    assert since(trees, "card", "sg").kernel == "6.2"
    assert since(trees[:2], "card", "sg") is None


def test_what_appeared_changed_and_vanished_is_listed():
    old = make_tree("6.1", make_driver(sg="yes", lro="some"), make_driver("gone"))
    new = make_tree("6.12", make_driver(sg="some", lro="no"), make_driver("fresh"))

    comparison = compare(old, new)

    assert (comparison.appeared, comparison.disappeared) == (("fresh",), ("gone",))
    assert [(c.capability, c.old.value, c.new.value) for c in comparison.changes] == [
        ("sg", "yes", "some"),
        ("lro", "some", "no"),
    ]
    assert [change.capability for change in comparison.lost()] == ["lro"]
    assert comparison.lost([("card", "lro", "6.12")]) == []
    assert comparison_lines(comparison)[-1] == (
        f"LOST  card lro: some (6.1 {FOLDER}/card.c:20) -> no (6.12 {FOLDER}/card.c:20)"
    )


def test_a_tree_is_read_as_it_was_written(tmp_path):
    tree = make_tree(
        "6.1",
        make_driver(
            sg=Fact(
                "some",
                "off",
                ("caps", "CARD_SG"),
                "chip",
                True,
                (Evidence(f"{FOLDER}/sub/x.c", 7, "aa"), Evidence("drivers/net/usb/u.c", 9, "bb")),
            ),
            lro=Fact("unknown", note="named, no rule"),
        ),
    )
    path = tmp_path / "6.1.json"

    write_tree(path, tree, "linux-source-6.1 6.1.1-1")

    assert read_tree(path) == (tree, "linux-source-6.1 6.1.1-1")


def test_a_changed_fact_is_a_changed_line(tmp_path):
    write_tree(tmp_path / "a", make_tree("6.1", make_driver(sg="yes", tso="yes")), "p")
    write_tree(tmp_path / "b", make_tree("6.1", make_driver(sg="yes", tso="some")), "p")
    one, two = ((tmp_path / name).read_text().splitlines() for name in "ab")

    assert [a for a, b in zip(one, two, strict=True) if a != b] == [
        '  "tso":["y","","card.c:20#0123abcd"]'
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"sg":["y"', '"sq":["y"', "unknown capability 'sq'"),
        ('"sg":["y"', '"sg":["perhaps"', "unknown word"),
        ('"format":1', '"format":99', "is not a catalogue file of format 1"),
        ('"tso",', "", "nothing about 'tso'"),
    ],
)
def test_a_wrong_word_in_a_data_file_names_file_and_word(tmp_path, old, new, message):
    path = tmp_path / "6.1.json"
    write_tree(path, make_tree("6.1", make_driver(sg="yes")), "p")
    path.write_text(path.read_text().replace(old, new))

    with pytest.raises(CatalogueError) as caught:
        read_tree(path)

    assert message in caught.value.message
    assert str(path) in caught.value.message


PCI_IDS = """#
#\tVersion: 2026.01.01
1acd  Acme Networks
\t0001  Card One
\t\t1acd 0100  Card One Deluxe
\t\t1234 0001  Rebranded Card
\t0002  Card Two
9999  Somebody else
\t0001  Other
C 02  Network controller
\t00  Ethernet controller
"""


def test_names_are_those_of_the_ids_that_drivers_claim(tmp_path):
    path = tmp_path / "pci.ids"
    path.write_text(PCI_IDS)

    version, names = read_ids(path, "pci")
    chosen = names_for([id_from_text("pci:1acd:0001")], names)

    assert version == "2026.01.01"
    assert chosen == {
        "pci:1acd": "Acme Networks",
        "pci:1acd:0001": "Card One",
        "pci:1acd:0001:1234:0001": "Rebranded Card",
        "pci:1acd:0001:1acd:0100": "Card One Deluxe",
    }


CLAIMS = """
[documents.thread]
title = "A thread"
published = "a list, 2001"
text = "thread.txt"

[[claims]]
id = "person-card-sg"
about = ["sg"]
nic = "Acme One"
drivers = ["card"]
value = "yes"
author = "A Person"
date = "2001-01-27"
document = "thread"
lines = [3, 4]
"""


def write_claims(folder: Path, text: str = CLAIMS) -> Path:
    path = folder / "claims.toml"
    path.write_text(text)
    return path


def test_a_claim_says_who_when_and_where(tmp_path):
    documents, (claim,) = read_claims(write_claims(tmp_path))

    assert (claim.author, claim.date, claim.source) == ("A Person", "2001-01-27", "thread:3-4")
    assert claim.about == ("sg",)
    assert documents["thread"].title == "A thread"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('date = "2001-01-27"\n', "", "the date None is no ISO date"),
        ('"2001-01-27"', '"in spring"', "the date 'in spring' is no ISO date"),
        ('document = "thread"\nlines = [3, 4]\n', "", "has no source"),
        ("lines = [3, 4]\n", "", "names a document but no lines"),
        ('document = "thread"', 'document = "other"', "unknown document 'other'"),
        ('author = "A Person"\n', "", "has no author"),
        ('["sg"]', '["scatter"]', "unknown topic 'scatter'"),
        ('value = "yes"\n', "", "has no value"),
        ('value = "yes"', 'value = "yes"\nstatus = "rumour"', "unknown status 'rumour'"),
        ('value = "yes"', 'value = "yes"\nwording = "..."', "unknown key 'wording'"),
        ('id = "person-card-sg"', 'id = "Person Card"', "the id 'Person Card' must be"),
    ],
)
def test_a_claim_that_breaks_a_rule_is_refused_by_name(tmp_path, old, new, message):
    path = write_claims(tmp_path, CLAIMS.replace(old, new))

    with pytest.raises(ClaimError) as caught:
        read_claims(path)

    assert message in caught.value.message
    assert str(path) in caught.value.message


def test_a_claim_of_a_kernels_source_has_a_catalogue_value(tmp_path):
    text = CLAIMS.replace(
        'document = "thread"\nlines = [3, 4]',
        'kernel = "2.4.16"\nevidence = ["drivers/net/card.c:1"]',
    )

    (claim,) = read_claims(write_claims(tmp_path, text))[1]

    assert claim.source == "linux 2.4.16 drivers/net/card.c:1"
    with pytest.raises(ClaimError, match="must be one of"):
        read_claims(write_claims(tmp_path, text.replace('"yes"', '"probably"')))


def test_relations_lead_to_claims(tmp_path):
    claims = read_claims(write_claims(tmp_path, CLAIMS + 'relations = [["corrects", "nobody"]]\n'))[
        1
    ]

    with pytest.raises(ClaimError, match="corrects 'nobody', which is no claim"):
        check_together(claims)
    with pytest.raises(ClaimError, match="the id is used twice"):
        check_together([*read_claims(write_claims(tmp_path))[1]] * 2)


def test_claims_become_stale_by_rule(tmp_path):
    (claim,) = read_claims(write_claims(tmp_path))[1]

    assert stale_reason(claim, date(2001, 12, 1)) is None
    assert stale_reason(claim, date(2002, 2, 1)) == "stated 2001-01-27, more than a year ago"


def test_what_was_seen_in_a_kernel_is_stale_once_three_scanned_ones_followed():
    kernels = ["6.1.192", "6.12.117", "7.3.4"]
    today = date(2026, 12, 1)

    assert stale_because("6.1.0-57", "2026-11-01", today, kernels) is None
    assert stale_because("6.1.192", "2026-11-01", today, kernels) is None
    assert stale_because("5.10.9", "2026-11-01", today, kernels) == (
        "read in Linux 5.10.9; the catalogue has 3 newer kernels"
    )
    assert stale_because("", "2025-11", today) == "stated 2025-11, more than a year ago"


ACKNOWLEDGED = {
    "driver": "card",
    "capability": "lro",
    "kernel": "6.12.1",
    "reason": "the driver sets GRO_HW in its place",
    "date": "2026-12-01",
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"capability": "lrp"}, "unknown capability 'lrp'"),
        ({"date": "today"}, "needs a reason and an ISO day"),
        ({"reason": ""}, "needs a reason and an ISO day"),
        ({"why": "."}, "unknown key 'why'"),
        ({"kernel": None}, "lacks kernel"),
    ],
)
def test_an_explained_loss_has_names_of_the_registry_a_reason_and_a_day(tmp_path, changed, message):
    entry = {k: v for k, v in {**ACKNOWLEDGED, **changed}.items() if v is not None}
    (tmp_path / "acknowledged.json").write_text(json.dumps([entry]))

    with pytest.raises(CatalogueError) as caught:
        load(tmp_path)

    assert message in caught.value.message


def test_data_that_changed_are_read_again(tmp_path):
    path = tmp_path / "acknowledged.json"
    path.write_text(json.dumps([ACKNOWLEDGED]))
    before = load(tmp_path)
    again = load(tmp_path)

    path.write_text("[]")
    os.utime(path, ns=(1, 1))

    assert again is before
    assert before.acknowledged == {("card", "lro", "6.12.1")}
    assert load(tmp_path).acknowledged == frozenset()


def test_a_driver_or_kernel_that_is_not_there_is_refused_with_the_nearest():
    catalogue = make_catalogue(make_tree("6.12", make_driver("card")), make_tree("7.3"))

    assert catalogue.named("card").name == "card"
    assert catalogue.tree("7.3").drivers == {}
    with pytest.raises(UsageError, match="no driver 'cart'"):
        catalogue.named("cart")
    with pytest.raises(UsageError, match=r"Linux 7\.3 has no driver card"):
        catalogue.named("card", "7.3")


def test_ids_lead_to_the_drivers_that_claim_them():
    catalogue = make_catalogue(
        make_tree("6.12", make_driver("card"), make_driver("other", ids=("pci:1acd:0001",)))
    )

    assert catalogue.drivers_of("pci:1acd:0001") == ("card", "other")
    assert catalogue.drivers_of("pci:1acd:9999") == ()


def test_one_command_builds_a_catalogue(tmp_path):
    from nics_support import write_tree as write_sources

    tree = write_sources(tmp_path / "linux")
    (tmp_path / "pci.ids").write_text(PCI_IDS)
    (tmp_path / "usb.ids").write_text("# Version: 1\n1acd  Acme\n")
    folder = tmp_path / "data"

    code = build.main(
        [
            f"{tree}=linux-source 6.99-1",
            "--folder",
            str(folder),
            "--pci-ids",
            str(tmp_path / "pci.ids"),
            "--usb-ids",
            str(tmp_path / "usb.ids"),
        ]
    )
    catalogue = load(folder)

    assert code == 0
    assert catalogue.kernels == ("6.99.1",)
    assert catalogue.packages == {"6.99.1": "linux-source 6.99-1"}
    device = catalogue.devices()["pci:1acd:0001"]
    assert (device.vendor, device.name, device.drivers) == ("Acme Networks", "Card One", ("card",))
    assert device.cards["1234:0001"] == "Rebranded Card"
    assert catalogue.names_versions["pci.ids"] == "2026.01.01"


# -- what is shipped -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped():
    return load()


def test_three_kernels_are_shipped_with_their_packages(shipped):
    assert [version_key(kernel)[:2] for kernel in shipped.kernels] == [(6, 1), (6, 12), (7, 3)]
    assert all("linux-source" in shipped.packages[kernel] for kernel in shipped.kernels)


@pytest.mark.parametrize(
    ("driver", "capability", "value"),
    [
        ("igb", "sg", "yes"),
        ("igb", "uso", "some"),
        ("e100", "sg", "no"),
        ("pcnet32", "sg", "no"),
        ("3c59x", "sg", "some"),
        ("igc", "xsk_zc", "yes"),
    ],
)
def test_the_shipped_facts_agree_with_what_was_verified_by_hand(shipped, driver, capability, value):
    fact = shipped.driver(driver, "6.12.117").facts[capability]

    assert fact.value == value
    assert value == "no" or fact.evidence


def test_a_driver_that_left_the_kernel_is_still_there(shipped):
    assert shipped.seen("acenic") == shipped.kernels[:2]
    assert shipped.driver("acenic").facts["sg"].value == "yes"


def test_a_capability_has_the_kernel_it_came_with(shipped):
    assert shipped.since("igb", "xsk_zc").kernel == shipped.kernels[-1]
    assert shipped.since("igb", "xsk_zc").is_first_seen
    assert not shipped.since("igb", "sg").is_first_seen


def test_devices_have_names_and_drivers(shipped):
    device = shipped.devices()["pci:8086:1533"]

    assert device.vendor == "Intel Corporation"
    assert device.drivers == ("igb",)
    assert "I210" in device.name


def test_drivers_are_found_by_the_names_machines_use(shipped):
    assert shipped.find("virtio_net") == "virtio_net"
    assert shipped.find("r8169") == "r8169"
    assert shipped.find("fsl_dpaa2_eth") == "fsl-dpaa2-eth"
    assert shipped.find("no_such_driver") is None


def test_every_lost_capability_is_explained(shipped):
    lost = [
        change
        for comparison in shipped.changes()
        for change in comparison.lost(shipped.acknowledged)
    ]

    assert [(c.driver, c.capability, c.new_kernel) for c in lost] == []


def test_the_founding_statements_and_the_kernels_of_2001_are_claims(shipped):
    about_8139 = [claim for claim in shipped.claims_about("8139too") if "copies" in claim.about]
    zero_copy_2001 = {
        driver
        for claim in shipped.claims
        if claim.kernel == "2.4.16" and "sg" in claim.about and claim.value in ("yes", "some")
        for driver in claim.drivers
    }

    assert [claim.author for claim in about_8139] == [
        "Andrew Morton",
        "read in the kernel's source",
    ]
    assert zero_copy_2001 == {"3c59x", "acenic", "ns83820", "sunhme", "sungem"}
    assert sum(1 for claim in shipped.claims if claim.document) == 136
