"""From a kernel tree to drivers: makefiles, units, ids, cache, tarballs, the command."""

from __future__ import annotations

import json
import tarfile

import pytest
from click.testing import CliRunner
from nics_support import TREE, driver_source, write_tree

from zcdb.cli.nic import nic_command
from zcdb.errors import UsageError
from zcdb.nics.facts import id_from_text, id_to_text
from zcdb.nics.kbuild import modules
from zcdb.nics.preprocess import blank_dead_branches, strip_comments
from zcdb.nics.scan import kernel_version, open_tree, scan_tree
from zcdb.nics.units import units


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write_tree(tmp_path_factory.mktemp("linux"))


@pytest.fixture(scope="module")
def scanned(tree):
    return scan_tree(tree, jobs=1)


def test_makefiles_say_which_files_make_a_module(tree):
    card, other = modules(tree)

    assert (card.name, card.config) == ("card", "CONFIG_CARD")
    assert [path.rsplit("/", 1)[1] for path in card.sources] == [
        "card_main.c",
        "card_ops.c",
        "card_dcb.c",
    ]
    assert (other.name, other.config) == ("other", "CONFIG_OTHER")


def test_files_of_sister_folders_belong_to_the_module_that_names_them(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "drivers/net/ethernet/acme/Makefile": "obj-m += vf.o\n"
            "vf-objs := vf/main.o ../acme/card_ops.o\n",
            "drivers/net/ethernet/acme/vf/main.c": "",
        },
    )

    (module,) = modules(root)

    assert module.sources == [
        "drivers/net/ethernet/acme/vf/main.c",
        "drivers/net/ethernet/acme/card_ops.c",
    ]


def test_modules_of_a_folder_that_use_each_others_exports_are_one_driver(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "drivers/net/ethernet/acme/card_ops.c": TREE["drivers/net/ethernet/acme/card_ops.c"]
            + "EXPORT_SYMBOL(card_set_features);\n",
            "drivers/net/ethernet/acme/other.c": driver_source("card_set_features(netdev);"),
        },
    )

    (unit,) = units(root)

    assert {module.name for module in unit.modules} == {"card", "other"}


def test_exports_of_other_folders_are_helper_libraries(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "drivers/net/ethernet/Makefile": "obj-y += acme/ libacme/\n",
            "drivers/net/ethernet/libacme/Makefile": "obj-m += libacme.o\n",
            "drivers/net/ethernet/libacme/libacme.c": "void libacme_set("
            "struct net_device *netdev)\n{\n"
            "\tnetdev->features |= NETIF_F_TSO;\n}\nEXPORT_SYMBOL(libacme_set);\n",
            "drivers/net/ethernet/acme/other.c": driver_source("libacme_set(netdev);"),
        },
    )

    facts = scan_tree(root, jobs=1, only="other").drivers["other"].facts

    assert facts["tso"].value == "yes"
    assert facts["tso"].evidence[0].path == "drivers/net/ethernet/libacme/libacme.c"


def test_a_scan_has_every_driver_with_every_capability(scanned):
    assert scanned.kernel == "6.99.1"
    assert list(scanned.drivers) == ["card", "other"]
    assert scanned.drivers["card"].facts["sg"].value == "yes"
    assert scanned.drivers["other"].facts["highdma"].value == "yes"
    assert scanned.drivers["card"].buses == ("pci",)


def test_ids_are_resolved_through_macros_and_what_is_not_is_counted(scanned):
    card = scanned.drivers["card"]

    assert [id_to_text(one) for one in card.ids] == ["pci:1acd:0001", "pci:1acd:0002"]
    assert card.unresolved_ids == 1


def test_a_description_is_put_together_from_macros(scanned):
    assert scanned.drivers["card"].description == "Acme Ethernet driver"
    assert scanned.drivers["other"].description == ""


@pytest.mark.parametrize(
    "text",
    [
        "pci:8086:1533",
        "pci:10ec:8139:1186:1300",
        "usb:0bda:8152",
        "usb:0bda:*",
        "of:acme,card-1.0",
    ],
)
def test_ids_have_one_spelling(text):
    assert id_to_text(id_from_text(text)) == text


def test_a_word_that_is_no_id_is_refused():
    with pytest.raises(ValueError, match="pci:8086 "[:-1]):
        id_from_text("pci:8086")


def test_usb_and_device_tree_ids_are_read(tmp_path):
    table = (
        "static const struct usb_device_id stick_ids[] = {\n"
        "\t{ USB_DEVICE(0x0bda, 0x8152) },\n"
        "\t{ USB_INTERFACE_INFO(2, 6, 0) },\n\t{ }\n};\nMODULE_DEVICE_TABLE(usb, stick_ids);\n"
        "static const struct of_device_id stick_of[] = {\n"
        '\t{ .compatible = "acme,stick" },\n\t{ }\n};\nMODULE_DEVICE_TABLE(of, stick_of);\n'
    )
    root = write_tree(tmp_path, {"drivers/net/ethernet/acme/other.c": driver_source(before=table)})

    other = scan_tree(root, jobs=1, only="other").drivers["other"]

    assert [id_to_text(one) for one in other.ids] == ["of:acme,stick", "usb:0bda:8152", "usb:*:*"]
    assert other.unresolved_ids == 0


MACRO_TABLES = {
    "enumerators and columns": (
        "enum { CARD_A = 0x22 };\nstatic const struct pci_device_id ids[] = {\n"
        "{\n\tPCI_DEVICE(PCI_VENDOR_ID_ACME, CARD_A),\n\t.class = 2,\n},\n"
        "{\n\tPCI_DEVICE(PCI_VENDOR_ID_ACME, CARD_A + 1),\n},\n{ }\n};\n"
        "MODULE_DEVICE_TABLE(pci, ids);\n",
        ["pci:1acd:0022", "pci:1acd:0023"],
    ),
    "a table that a macro opens and a header fills": (
        "#define TABLE_BEGIN static const struct pci_device_id ids[] = {\n"
        "#define TABLE_ENTRY(id) { PCI_VDEVICE(ACME, (id)), 4 }\n"
        "#define TABLE_END { 0, } }\n#define FUNCTION 4\n"
        '#include "table.h"\nMODULE_DEVICE_TABLE(pci, ids);\n',
        ["pci:1acd:5400", "pci:1acd:5401"],
    ),
    "a list that is included twice": (
        '#include "list.h"\nstatic struct usb_device_id ids[] = {\n'
        "#define STICK(name, vendor, product) \\\n"
        "\t{.idVendor = vendor, .idProduct = product},\n"
        '#include "list.h"\n#undef STICK\n\t{}\n};\nMODULE_DEVICE_TABLE(usb, ids);\n',
        ["usb:0abc:0001", "usb:0abc:0002"],
    ),
    "a name of a kernel header": (
        "#include <linux/usb/acme.h>\nstatic const struct usb_device_id ids[] = {\n"
        "\t{ USB_DEVICE(ACME_USB, 7) },\n\t{ }\n};\nMODULE_DEVICE_TABLE(usb, ids);\n",
        ["usb:0fff:0007"],
    ),
    "a class of devices": (
        "static const struct pci_device_id ids[] = {\n"
        "\t{ PCI_DEVICE_CLASS(0x020001, ~0) },\n\t{ }\n};\nMODULE_DEVICE_TABLE(pci, ids);\n",
        ["pci:*:*"],
    ),
}


@pytest.mark.parametrize("kind", MACRO_TABLES)
def test_ids_behind_macros_are_read(tmp_path, kind):
    table, ids = MACRO_TABLES[kind]
    folder = "drivers/net/ethernet/acme"
    files = {
        f"{folder}/other.c": driver_source(before=table),
        f"{folder}/table.h": "#define FULL(id) TABLE_ENTRY((id) | ((FUNCTION) << 8))\n"
        "TABLE_BEGIN\n\tFULL(0x5000),\n\tFULL(0x5001),\nTABLE_END;\n",
        f"{folder}/list.h": "#ifndef STICK\n#define STICK_MAKER 0xabc\nstruct stick { int x; };\n"
        '#else\nSTICK("one", STICK_MAKER, 1)\nSTICK("two (new)", STICK_MAKER,\n\t2)\n#endif\n',
        "include/linux/usb/acme.h": "#define ACME_USB 0x0fff\n",
    }
    root = write_tree(tmp_path, files)

    other = scan_tree(root, jobs=1, only="other").drivers["other"]

    assert [id_to_text(one) for one in other.ids] == ids
    assert other.unresolved_ids == 0


def test_a_part_that_only_a_built_in_option_adds_belongs_to_its_module(tmp_path):
    makefile = "obj-$(CONFIG_CARD) += card.o\ncard-y := card_main.o\n"
    root = write_tree(
        tmp_path,
        {"drivers/net/ethernet/acme/Makefile": makefile + "card-$(CONFIG_DCB:m=y) += card_dcb.o\n"},
    )

    (card,) = (module for module in modules(root) if module.name == "card")

    assert [path.rpartition("/")[2] for path in card.sources] == ["card_main.c", "card_dcb.c"]


def test_a_unit_that_did_not_change_is_not_scanned_again(tmp_path, monkeypatch):
    root, cache = write_tree(tmp_path / "linux"), tmp_path / "cache"
    first = scan_tree(root, cache=cache, jobs=1)
    files = sorted(cache.glob("*.json"))
    stored = json.loads(files[0].read_text())
    stored["description"] = "from the cache"
    files[0].write_text(json.dumps(stored))

    second = scan_tree(root, cache=cache, jobs=1)

    assert len(files) == 2
    assert "from the cache" in {driver.description for driver in second.drivers.values()}
    assert {n: d.facts for n, d in first.drivers.items()} == {
        n: d.facts for n, d in second.drivers.items()
    }


def test_a_unit_that_changed_is_scanned_again(tmp_path):
    root, cache = write_tree(tmp_path / "linux"), tmp_path / "cache"
    scan_tree(root, cache=cache, jobs=1)
    write_tree(
        root, {"drivers/net/ethernet/acme/other.c": driver_source("netdev->features = NETIF_F_SG;")}
    )

    facts = scan_tree(root, cache=cache, jobs=1).drivers["other"].facts

    assert (facts["sg"].value, facts["highdma"].value) == ("yes", "no")


def test_a_tarball_is_scanned_like_its_folder(tree, scanned, tmp_path):
    tarball = tmp_path / "linux-source-6.99.tar.xz"
    with tarfile.open(tarball, "w:xz") as archive:
        archive.add(tree, arcname="linux-source-6.99")

    with open_tree(tarball) as root:
        again = scan_tree(root, jobs=1)

    assert again == scanned


def test_what_is_no_tree_is_refused_with_the_missing_file(tmp_path):
    with pytest.raises(UsageError, match=r"Makefile is missing"), open_tree(tmp_path):
        pass


def test_what_is_no_tarball_is_refused(tmp_path):
    (tmp_path / "x.tar.xz").write_text("no archive")

    with (
        pytest.raises(UsageError, match="cannot be read as a tarball"),
        open_tree(tmp_path / "x.tar.xz"),
    ):
        pass


def test_a_missing_path_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no such folder or file"), open_tree(tmp_path / "x"):
        pass


def test_a_makefile_without_version_asks_for_one(tmp_path):
    (tmp_path / "Makefile").write_text("all:\n")

    with pytest.raises(UsageError, match="no VERSION and PATCHLEVEL") as caught:
        kernel_version(tmp_path)

    assert caught.value.hint == "name the version with --kernel"


def test_comments_leave_every_line_where_it_was():
    text = 'a /* b\nc */ d // e\nf "/* g */"\n'

    assert strip_comments(text) == 'a  \n d  \nf "/* g */"\n'


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("#if 0", False),
        ("#if 1", True),
        ("#ifdef CONFIG_X", True),
        ("#ifdef CONFIG_SPARC", False),
        ("#ifndef CONFIG_X", False),
        ("#ifdef NOBODY_DEFINES_THIS", False),
        ("#ifdef DEFINED_HERE", True),
        ("#if defined(CONFIG_X) && !defined(NOBODY)", True),
        ("#if defined(NOBODY) || IS_ENABLED(CONFIG_X)", True),
        ("#if BITS_PER_LONG == 64", True),
    ],
)
def test_directives_are_decided_for_a_distribution_kernel(condition, taken):
    live = blank_dead_branches(f"{condition}\none\n#else\ntwo\n#endif\nthree\n", {"DEFINED_HERE"})

    assert live.split() == (["one", "three"] if taken else ["two", "three"])
    assert live.count("\n") == 6


def test_the_command_prints_a_line_a_driver(tree, tmp_path):
    result = CliRunner().invoke(nic_command, ["scan", str(tree), "--cache", str(tmp_path)])

    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["Linux 6.99.1: 2 drivers", "card   sg", "other  highdma"]


def test_the_command_prints_json_with_value_default_condition_and_evidence(tree):
    result = CliRunner().invoke(
        nic_command, ["scan", str(tree), "--json", "--no-cache", "--kernel", "6.99-acme"]
    )

    document = json.loads(result.stdout)
    card = document["drivers"][0]

    assert document["kernel"] == "6.99-acme"
    assert (card["driver"], card["config"]) == ("card", "CONFIG_CARD")
    assert card["facts"]["sg"]["value"] == "yes"
    assert card["facts"]["sg"]["default"] == "fixed"
    assert card["facts"]["sg"]["evidence"] == ["drivers/net/ethernet/acme/card_ops.c:4"]
    assert card["facts"]["lro"] == {"value": "no", "evidence": [], "line_hashes": []}


def test_the_command_prints_one_driver_with_its_evidence(tree):
    result = CliRunner().invoke(nic_command, ["scan", str(tree), "--no-cache", "--driver", "card"])

    assert "Scatter-gather" in result.stdout
    assert "yes [fixed] drivers/net/ethernet/acme/card_ops.c:4" in result.stdout
    assert "2 ids, 1 unresolved" in result.stdout


def test_an_unknown_driver_is_a_usage_error(tree):
    result = CliRunner().invoke(nic_command, ["scan", str(tree), "--no-cache", "--driver", "x"])

    assert isinstance(result.exception, UsageError)
    assert "no driver named 'x'" in result.exception.message


def test_comparing_with_an_older_tree_lists_changes_and_alarms(tree, tmp_path):
    newer = write_tree(
        tmp_path / "new",
        {
            "Makefile": TREE["Makefile"].replace("99", "100"),
            "drivers/net/ethernet/acme/other.c": driver_source("netdev->features = NETIF_F_SG;"),
        },
    )

    result = CliRunner().invoke(
        nic_command, ["scan", str(newer), "--no-cache", "--against", str(tree)]
    )

    assert result.exit_code == 1
    assert "LOST  other highdma: yes (6.99.1 drivers/net/ethernet/acme/other.c" in result.stdout
    assert "      other sg: no -> yes (6.100.1 drivers/net/ethernet/acme/other.c" in result.stdout
