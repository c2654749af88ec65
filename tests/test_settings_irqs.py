"""Which interrupts are an interface's own, on folders that stand in for /sys and /proc."""

from __future__ import annotations

import pytest

from zcdb.host.settings import interface_irqs

INTERRUPTS = """           CPU0       CPU1
  4:         97          0   IO-APIC   4-edge      ttyS0
 19:       1200          3   IO-APIC  19-fasteoi   eth3
 36:          0      69328 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0      29826 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:      17139          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
 41:          5          6 PCI-MSIX-0000:00:06.0   0-edge      virtio20-input.0
NMI:          0          0   Non-maskable interrupts
"""


@pytest.fixture
def root(tmp_path):
    """A machine with a card, a virtio interface, an old card and a virtual interface."""
    devices = tmp_path / "sys/devices"
    for name, device in (
        ("eth1", "pci/0000:03:00.0"),
        ("eth2", "pci/0000:00:03.0/virtio2"),
        ("eth3", "pci/0000:05:00.0"),
        ("eth4", "pci/0000:06:00.0"),
    ):
        (devices / device).mkdir(parents=True)
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(devices / device)
    (tmp_path / "sys/class/net/br0").mkdir()
    (devices / "pci/0000:06:00.0/irq").write_text("17\n")
    listed = devices / "pci/0000:03:00.0/msi_irqs"
    listed.mkdir()
    for number in (128, 64, 65):
        (listed / str(number)).touch()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/interrupts").write_text(INTERRUPTS)
    return tmp_path


@pytest.mark.parametrize(
    ("interface", "numbers"),
    [
        ("eth1", [64, 65, 128]),
        ("eth2", [37, 38, 39]),
        ("eth3", [19]),
        ("eth4", [17]),
        ("br0", []),
        ("eth9", []),
    ],
)
def test_the_interrupts_of_every_kind_of_interface_are_found(root, interface, numbers):
    assert interface_irqs(interface, root) == numbers
