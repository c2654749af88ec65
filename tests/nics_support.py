"""Small drivers in kernel style for the scanner's tests: own code, no kernel source."""

from __future__ import annotations

from pathlib import Path

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Catalogue
from zcdb.nics.claims import Claim
from zcdb.nics.compare import in_order
from zcdb.nics.driver import DriverScan
from zcdb.nics.facts import DriverFacts, Evidence, Fact, TreeFacts, id_from_text
from zcdb.nics.preprocess import macros

CORE_HEADER = """
#define NETIF_F_ALL_TSO (NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN)
#define NETIF_F_CSUM_MASK (NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM | NETIF_F_HW_CSUM)
#define ETHTOOL_COALESCE_USECS (ETHTOOL_COALESCE_RX_USECS | ETHTOOL_COALESCE_TX_USECS)
"""

PROBE = """
struct card {
	struct net_device *netdev;
	u64 caps;
	int rev;
};

%(before)s

static int card_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct net_device *netdev;
	struct card *card;
	int err;

	netdev = alloc_etherdev(sizeof(*card));
	if (!netdev)
		return -ENOMEM;
	card = netdev_priv(netdev);
	%(body)s
	err = register_netdev(netdev);
	if (err)
		goto err_free;
	%(after)s
	return 0;

err_free:
	free_netdev(netdev);
	return err;
}

static struct pci_driver card_driver = {
	.name = "card",
	.probe = card_probe,
	%(driver)s
};
module_pci_driver(card_driver);
"""


FOLDER = "drivers/net/ethernet/acme"
"""Where the drivers of `make_driver` stand."""

NAMES = {
    "pci:1acd": "Acme Networks",
    "pci:1acd:0001": "Card One",
    "pci:1acd:0001:1acd:0100": "Card One Deluxe",
}


def make_driver(
    name: str = "card", ids: tuple[str, ...] = ("pci:1acd:0001",), **values: object
) -> DriverFacts:
    """Return a driver whose capabilities are *no*, but for `values` (a value or a `Fact`)."""
    facts = {key: Fact("no") for key in CAPABILITIES}
    for number, (key, value) in enumerate(values.items(), start=1):
        place = (Evidence(f"{FOLDER}/card.c", number * 10, "0123abcd"),)
        facts[key] = Fact(value, evidence=place) if isinstance(value, str) else value
    return DriverFacts(
        name,
        (name,),
        (f"{FOLDER}/card.c", "drivers/net/mii.c"),
        ("acme",),
        "CONFIG_CARD",
        'Acme "Pro"',
        FOLDER,
        ("pci",),
        tuple(id_from_text(one) for one in ids),
        0,
        facts,
    )


def make_tree(kernel: str, *drivers: DriverFacts) -> TreeFacts:
    """Return a scan of some drivers."""
    return TreeFacts(kernel, {driver.name: driver for driver in drivers})


def make_catalogue(*trees: TreeFacts, claims: list[Claim] | None = None) -> Catalogue:
    """Return a catalogue of some scans, with `NAMES`."""
    packages = {tree.kernel: "a package" for tree in trees}
    return Catalogue(
        tuple(in_order(trees)), packages, NAMES, {}, {}, tuple(claims or ()), frozenset()
    )


def driver_source(body: str = "", *, before: str = "", after: str = "", driver: str = "") -> str:
    """Return a PCI driver whose probe function does `body` before it registers its net_device."""
    return PROBE % {"body": body, "before": before, "after": after, "driver": driver}


def facts_of(
    source: str, *more: tuple[str, str, bool], has_xdp_features: bool = True
) -> dict[str, Fact]:
    """Return the facts of a one-file driver; `more` are (path, text, is a library's)."""
    texts = [("drivers/net/ethernet/acme/card.c", source, False), *more]
    core = macros(CORE_HEADER, "include/linux/netdev_features.h")
    return DriverScan(texts, core, has_xdp_features=has_xdp_features).facts()


def probe_facts(body: str, **parts: str) -> dict[str, Fact]:
    """Return the facts of `driver_source(body, ...)`."""
    return facts_of(driver_source(body, **parts))


def line_of(source: str, text: str) -> int:
    """Return the line, from 1, on which `text` first stands."""
    return source[: source.index(text)].count("\n") + 1


MAKEFILE = "VERSION = 6\nPATCHLEVEL = 99\nSUBLEVEL = 1\nEXTRAVERSION =\n"

TREE = {
    "Makefile": MAKEFILE,
    "include/linux/netdev_features.h": CORE_HEADER,
    "include/linux/ethtool.h": "",
    "include/linux/netdevice.h": "struct net_device { u64 xdp_features; };\n",
    "include/linux/pci_ids.h": "#define PCI_VENDOR_ID_ACME 0x1acd\n",
    "drivers/net/Makefile": "obj-$(CONFIG_ETHERNET) += ethernet/\n"
    "obj-$(CONFIG_WLAN) += wireless/\n",
    "drivers/net/ethernet/Makefile": "obj-$(CONFIG_NET_VENDOR_ACME) += acme/\n",
    "drivers/net/ethernet/acme/Makefile": (
        "obj-$(CONFIG_CARD) += card.o\n"
        "card-y := card_main.o \\\n\tcard_ops.o\n"
        "card-$(CONFIG_CARD_DCB) += card_dcb.o\n"
        "obj-$(CONFIG_OTHER) += other.o\n"
    ),
    "drivers/net/ethernet/acme/card_main.c": driver_source(
        "card_set_features(netdev);",
        before='#include "card.h"\n'
        "static const struct pci_device_id card_ids[] = {\n"
        "\t{ PCI_VDEVICE(ACME, 0x0001) },\n"
        "\tCARD_ENTRY(CARD_PRO),\n"
        "\t{ PCI_DEVICE(PCI_VENDOR_ID_ACME, UNKNOWN_NAME) },\n"
        "\t{ 0, }\n};\n"
        "MODULE_DEVICE_TABLE(pci, card_ids);\n"
        'MODULE_DESCRIPTION("Acme " CARD_NAME " driver");\n',
    ),
    "drivers/net/ethernet/acme/card_ops.c": (
        '#include "card.h"\n'
        "void card_set_features(struct net_device *netdev)\n{\n"
        "\tnetdev->features |= NETIF_F_SG;\n}\n"
    ),
    "drivers/net/ethernet/acme/card_dcb.c": "int card_dcb;\n",
    "drivers/net/ethernet/acme/card.h": (
        '#define CARD_NAME "Ethernet"\n'
        "#define CARD_PRO 0x0002\n"
        "#define CARD_ENTRY(id) { PCI_DEVICE(PCI_VENDOR_ID_ACME, id) }\n"
    ),
    "drivers/net/ethernet/acme/other.c": driver_source("netdev->features = NETIF_F_HIGHDMA;"),
    "drivers/net/wireless/Makefile": "obj-m += wifi.o\n",
    "drivers/net/wireless/wifi.c": driver_source(),
}
"""A kernel tree with two drivers: path -> text."""


def write_tree(folder: Path, files: dict[str, str] | None = None) -> Path:
    """Write a tree (`TREE` with `files` changed) and return its top."""
    for path, text in {**TREE, **(files or {})}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder
