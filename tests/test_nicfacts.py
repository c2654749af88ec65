"""What an interface says of itself: the ioctl's structures, and a made-up /sys."""

from __future__ import annotations

import struct

import pytest

from zcdb.host import ethtool
from zcdb.host.ethtool import EthtoolReader, Feature, offloads
from zcdb.host.nicfacts import interface_facts, irq_affinities, irq_numbers

INTERRUPTS = """\
           CPU0       CPU1
 40:          7          3  IR-PCI-MSI 524288-edge      eth9-TxRx-0
 41:          1          0  IR-PCI-MSI 524289-edge      eth9-TxRx-1, usb1
LOC:         10         11   Local timer interrupts
"""


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path):
    """A machine with a PCI card that runs at half of its width."""
    device = "sys/devices/pci0000:00/0000:03:00.0"
    files = {
        "vendor": "0x8086",
        "device": "0x1521",
        "subsystem_vendor": "0x15d9",
        "subsystem_device": "0x0652",
        "revision": "0x01",
        "numa_node": "1",
        "current_link_speed": "5.0 GT/s PCIe",
        "current_link_width": "2",
        "max_link_speed": "5.0 GT/s PCIe",
        "max_link_width": "4",
        "msi_irqs/40": "msix",
        "msi_irqs/41": "msix",
        "net/eth9/address": "a0:36:9f:00:00:01",
        "net/eth9/addr_assign_type": "0",
        "net/eth9/type": "1",
        "net/eth9/queues/rx-0/rps_cpus": "00",
        "net/eth9/queues/tx-0/xps_cpus": "02",
    }
    for name, text in files.items():
        write(tmp_path, f"{device}/{name}", text)
    write(tmp_path, "proc/interrupts", INTERRUPTS)
    write(tmp_path, "proc/irq/40/smp_affinity_list", "0-1")
    write(tmp_path, "proc/irq/40/effective_affinity_list", "1")
    write(tmp_path, "sys/module/igb/version", "5.6.0")
    write(tmp_path, "sys/module/igb/taint", "OE")
    (tmp_path / "sys/bus/pci").mkdir(parents=True)
    (tmp_path / device / "subsystem").symlink_to(tmp_path / "sys/bus/pci")
    (tmp_path / device / "net/eth9/device").symlink_to(tmp_path / device)
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth9").symlink_to(tmp_path / device / "net/eth9")
    return tmp_path


class ScriptedReader(EthtoolReader):
    """A driver whose answers are stated; a command without an answer is not supported."""

    def __init__(self, answers):
        super().__init__()
        self._answers = answers

    def _call(self, interface, request):
        (command,) = struct.unpack_from("=I", request)
        answer = self._answers.get(command)
        if answer is None:
            return False
        raw = answer(request.tobytes()) if callable(answer) else answer
        for place, byte in enumerate(raw[: len(request)]):
            request[place] = byte
        return True


def text(value: str, width: int = 32) -> bytes:
    return value.encode().ljust(width, b"\0")


DRIVER = struct.pack("=I", 3) + text("igb") + text("6.12.9") + text("1.63, 0x80") + text("0:3:0.0")


def test_a_card_is_told_by_driver_bus_and_module(root):
    with ScriptedReader({3: DRIVER}) as reader:
        found = interface_facts(root, "eth9", reader, lambda address: f"hash of {len(address)}")

    assert (found["driver"], found["driver_version"]) == ("igb", "6.12.9")
    assert found["firmware"] == "1.63, 0x80"
    assert found["module"] == {"version": "5.6.0", "in_tree": False}
    assert found["bus"] == {
        "kind": "pci",
        "address": "0000:03:00.0",
        "ids": "8086:1521 (15d9:0652)",
        "revision": "0x01",
        "numa_node": 1,
        "speed": "5.0 GT/s PCIe",
        "width": "2",
        "speed_max": "5.0 GT/s PCIe",
        "width_max": "4",
    }
    assert found["address"] == "hash of 17"


def test_interrupts_are_told_with_who_shares_them_and_where_they_are_served(root):
    with ScriptedReader({}) as reader:
        found = interface_facts(root, "eth9", reader, str)

    assert found["irqs"] == [
        {"irq": 40, "actions": ["eth9-TxRx-0"], "is_shared": False},
        {"irq": 41, "actions": ["eth9-TxRx-1", "usb1"], "is_shared": True},
    ]
    assert found["queues"] == {"rx": 1, "tx": 1, "steering": {"tx-0.xps_cpus": "02"}}
    assert irq_numbers(root, "eth9") == [40, 41]
    assert irq_affinities(root, "eth9")[0] == {"irq": 40, "cpus": "0-1", "effective_cpus": "1"}


def test_a_made_up_address_is_no_fact_and_neither_is_a_virtual_interface_s_name(root):
    write(root, "sys/devices/pci0000:00/0000:03:00.0/net/eth9/addr_assign_type", "1")
    (root / "sys/class/net/veth7").mkdir()
    with ScriptedReader({}) as reader:
        random = interface_facts(root, "eth9", reader, str)
        virtual = interface_facts(root, "veth7", reader, str)

    assert random["address"] is None
    assert (random["name"], virtual["name"]) == ("eth9", None)
    assert (virtual["bus"], virtual["model"], virtual["irqs"]) == (None, None, [])


def test_a_device_behind_virtio_is_the_one_that_carries_virtio(root):
    carrier = root / "sys/devices/pci0000:00/0000:03:00.0"
    inner = carrier / "virtio2"
    write(root, f"{inner.relative_to(root)}/vendor", "0x1af4")
    (root / "sys/bus/virtio").mkdir()
    (inner / "subsystem").symlink_to(root / "sys/bus/virtio")
    (carrier / "net/eth9/device").unlink()
    (carrier / "net/eth9/device").symlink_to(inner)

    with ScriptedReader({}) as reader:
        assert interface_facts(root, "eth9", reader, str)["bus"]["address"] == "0000:03:00.0"


def test_rings_channels_and_coalescing_keep_the_kernel_s_order():
    rings = struct.pack("=9I", 0x10, 4096, 0, 0, 4096, 512, 0, 0, 256)
    channels = struct.pack("=9I", 0x3C, 0, 0, 1, 63, 0, 0, 1, 8)
    coalescing = struct.pack("=23I", 0x0E, 50, *[0] * 8, 1, *[0] * 12)
    with ScriptedReader({0x10: rings, 0x3C: channels, 0x0E: coalescing}) as reader:
        assert reader.rings("eth9") == {
            **{"rx_max": 4096, "rx_mini_max": 0, "rx_jumbo_max": 0, "tx_max": 4096},
            **{"rx": 512, "rx_mini": 0, "rx_jumbo": 0, "tx": 256},
        }
        assert reader.channels("eth9")["combined_max"] == 63
        assert reader.channels("eth9")["combined"] == 8
        assert reader.coalescing("eth9")["rx_usecs"] == 50
        assert reader.coalescing("eth9")["adaptive_rx"] == 1


def test_the_size_of_the_link_s_masks_is_asked_first():
    def link(request: bytes) -> bytes:
        (words,) = struct.unpack_from("=b", request, 15)
        header = struct.pack("=IIBBBB", 0x4C, 25000 if words == 4 else 0, 1, 0, 0, 1)
        return header + bytes(3) + struct.pack("=b", -4 if words == 0 else words)

    with ScriptedReader({0x4C: link}) as reader:
        found = reader.link("eth9")

    assert found == {"speed_bps": 25 * 10**9, "duplex": "full", "autonegotiation": "on"}


def test_an_unknown_speed_is_none():
    raw = struct.pack("=IIBBBB", 0x4C, 0xFFFFFFFF, 0xFF, 0, 0, 0) + bytes(4)

    with ScriptedReader({0x4C: raw}) as reader:
        assert reader.link("eth9") == {
            "speed_bps": None,
            "duplex": None,
            "autonegotiation": "off",
        }


def test_rss_says_over_how_many_queues_packets_are_spread():
    def table(request: bytes) -> bytes:
        header = struct.pack("=IIIIBxxxI", 0x46, 0, 4, 8, 1, 0)
        return header + struct.pack("=4I", 0, 1, 0, 1) + bytes(8)

    rings = struct.pack("=IIQ", 0x2D, 0, 8)
    with ScriptedReader({0x46: table, 0x2D: rings}) as reader:
        found = reader.rss("eth9")

    assert found == {"hash": "toeplitz", "table_entries": 4, "queues_used": 2, "queues": 8}


def test_features_say_what_is_on_asked_for_and_fixed():
    names = [f"feature-{number}" for number in range(34)]
    names[5] = ""
    sizes = struct.pack("=IIQI", 0x37, 0, 1 << 4, len(names))
    strings = struct.pack("=III", 0x1B, 4, len(names)) + b"".join(map(text, names))
    # available, requested, active, never changed: of the first 32, then of the other two
    blocks = struct.pack("=8I", 0b0111, 0b0011, 0b1001, 0b0100, 0b11, 0b00, 0b10, 0b00)
    features = struct.pack("=II", 0x3A, 2) + blocks
    with ScriptedReader({0x37: sizes, 0x1B: strings, 0x3A: features}) as reader:
        found = reader.features("eth9")

    assert len(found) == 33
    assert found["feature-0"].state == "on"
    assert found["feature-1"].state == "off [requested on]"
    assert found["feature-2"].state == "off [fixed]"
    assert found["feature-3"].state == "on [fixed]"
    assert found["feature-33"].state == "on [requested off]"


def test_one_kind_of_checksum_suffices_for_the_offload():
    on, off = Feature(True, True, False), Feature(False, False, True)
    features = {
        "tx-checksum-ipv4": on,
        "tx-checksum-ip-generic": off,
        "tx-scatter-gather": off,
    }

    assert offloads(features) == {"sg": False, "tx_checksum": True}


def test_a_driver_without_an_answer_gives_none():
    with ScriptedReader({}) as reader:
        answers = [reader.driver("x"), reader.rings("x"), reader.link("x"), reader.rss("x")]

        assert answers == [None] * 4
        assert reader.features("x") is None


def test_the_loopback_of_this_machine_answers():
    with EthtoolReader() as reader:
        found = offloads(reader.features("lo"))

        assert (found["sg"], found["tx_checksum"]) == (True, True)
        assert reader.mtu("lo") > 0
        assert reader.driver("lo") is None
        assert reader.mtu("no-such-card") is None
        assert reader.features("no-such-card") is None


def test_another_refusal_than_no_answer_is_not_swallowed(monkeypatch):
    def refuse(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(ethtool.fcntl, "ioctl", refuse)

    with EthtoolReader() as reader, pytest.raises(OSError, match="Input/output"):
        reader.rings("eth9")
