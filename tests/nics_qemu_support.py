"""A Debian kernel in QEMU with emulated network cards, asked by ethtool: one boot, no root.

The kernel is a folder where a linux-image package was unpacked, from
$ZCDB_QEMU_KERNEL, else fetched once into the user's cache with the ordinary
apt client.  What is missing skips the tests with the reason.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest

DEVICES = (
    *("e1000", "e1000-82544gc", "e1000e", "igb", "rtl8139", "virtio-net-pci", "vmxnet3"),
    *("pcnet", "ne2k_pci", "tulip", "i82551", "i82559c"),
)
"""QEMU's cards; those that an older QEMU lacks (igb before 8.0) are left out."""

MODULES = (
    *("e1000", "e1000e", "igb", "8139cp", "virtio_pci", "virtio_net", "vmxnet3", "pcnet32"),
    *("ne2k-pci", "tulip", "e100", "dummy", "bonding", "ifb"),
)
PACKAGES = (
    r"^linux-image-6\.12\.[0-9]+\+deb1[0-9]-amd64-unsigned$",
    r"^linux-image-6\.1\.0-[0-9]+-amd64-unsigned$",
)
"""Of which series a kernel will do, the better first: what the catalogue has scanned."""

OPTIONS = ("-i", "-k", "-c", "-T", "-l")
BOOT_TIMEOUT_S = 240

INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
for module in /modules/*; do /bin/busybox insmod $module; done
/bin/busybox sleep 1
echo "@@ kernel $(/bin/busybox uname -r)"
for path in /sys/class/net/*/; do
  path=${path%/}
  name=${path##*/}
  for option in OPTIONS; do
    echo "@@ $name $option"
    /sbin/ethtool $option $name 2>&1
  done
done
echo "@@ end"
/bin/busybox poweroff -f
"""


@dataclass(frozen=True)
class Boot:
    """What the guest said.

    Attributes:
        kernel: its release.
        printed: (interface, option of ethtool) -> what it printed.
    """

    kernel: str
    printed: dict[tuple[str, str], str]

    @property
    def interfaces(self) -> list[str]:
        """The guest's interfaces."""
        return list(dict.fromkeys(name for name, _ in self.printed))

    def capture(self, name: str) -> str:
        """Return everything ethtool printed about one interface."""
        return "\n".join(self.printed[name, option] for option in OPTIONS)


def boot(folder: Path) -> Boot:
    """Boot once and return what ethtool says of every interface; skip if something is missing."""
    programs = {name: _program(name) for name in ("qemu-system-x86_64", "busybox", "ethtool")}
    if not _is_static(programs["busybox"]):
        pytest.skip("busybox is not static (Debian's package busybox-static)")
    kernel = _kernel()
    initramfs = folder / "initramfs"
    initramfs.write_bytes(_initramfs(kernel, programs["busybox"], programs["ethtool"]))
    (image,) = kernel.glob("boot/vmlinuz-*")
    command = [
        *(programs["qemu-system-x86_64"], "-accel", "tcg", "-m", "384", "-nodefaults"),
        *("-display", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"),
        *("-kernel", str(image), "-initrd", str(initramfs)),
        *("-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on"),
    ]
    for device in _known_devices(programs["qemu-system-x86_64"]):
        command += ["-device", f"{device},romfile="]
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BOOT_TIMEOUT_S,
        check=False,
    )
    (folder / "console").write_bytes(ended.stdout)
    text = ended.stdout.decode(errors="replace").replace("\r\n", "\n")
    assert "@@ end" in text, f"the guest did not come to its end: {text[-800:]} {ended.stderr!r}"
    return _read(text)


def _read(text: str) -> Boot:
    printed: dict[tuple[str, str], str] = {}
    kernel = ""
    for part in text.split("@@ ")[1:]:
        head, _, body = part.partition("\n")
        words = head.split()
        if words[0] == "kernel":
            kernel = words[1]
        elif len(words) == 2:
            printed[words[0], words[1]] = body
    return Boot(kernel, printed)


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _is_static(path: str) -> bool:
    return b"/ld-linux" not in Path(path).read_bytes()[:4096]


def _known_devices(qemu: str) -> list[str]:
    listed = subprocess.run([qemu, "-device", "help"], capture_output=True, text=True, check=True)
    return [name for name in DEVICES if f'name "{name}"' in listed.stdout]


# -- the kernel ------------------------------------------------------------------------------------


def _kernel() -> Path:
    """Return a folder with boot/ and lib/modules/."""
    given = os.environ.get("ZCDB_QEMU_KERNEL")
    if given:
        return Path(given)
    folder = Path(platformdirs.user_cache_dir("zcdb")) / "qemu-kernel"
    if not any(folder.glob("boot/vmlinuz-*")):
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    """Unpack the newest Debian kernel that the catalogue knows; nothing is installed."""
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        _program(program)
    package = _package()
    part = folder.with_name(f"qemu-kernel.{os.getpid()}")
    part.mkdir(parents=True)
    try:
        fetched = subprocess.run(
            ["apt-get", "download", "-q", package],
            cwd=part,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        archives = list(part.glob("*.deb"))
        if fetched.returncode or not archives:
            pytest.skip(f"{package} could not be fetched: {fetched.stderr.strip()[-200:]}")
        unpacked = part / "unpacked"
        subprocess.run(["dpkg-deb", "-x", archives[0], unpacked], check=True, timeout=250)
        shutil.rmtree(folder, ignore_errors=True)
        unpacked.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _package() -> str:
    for pattern in PACKAGES:
        listed = subprocess.run(
            ["apt-cache", "search", "--names-only", pattern],
            capture_output=True,
            text=True,
            check=True,
        )
        names = [line.split(" ")[0] for line in listed.stdout.splitlines()]
        if names:
            return max(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])
    pytest.skip("no Debian kernel package of a series that the catalogue has")


# -- the initramfs ---------------------------------------------------------------------------------


def _initramfs(kernel: Path, busybox: str, ethtool: str) -> bytes:
    init = INIT.replace("OPTIONS", " ".join(OPTIONS))
    entries = {
        **dict.fromkeys(("bin", "sbin", "proc", "sys", "dev", "modules"), None),
        "init": init.encode(),
        "bin/busybox": Path(busybox).read_bytes(),
        "sbin/ethtool": Path(ethtool).read_bytes(),
    }
    for library in _libraries(ethtool):
        path = library.lstrip("/")
        for parent in list(Path(path).parents)[-2::-1]:
            entries.setdefault(str(parent), None)
        entries[path] = Path(library).read_bytes()
    for number, module in enumerate(_modules(kernel)):
        entries[f"modules/{number:03d}-{module.name.split('.')[0]}.ko"] = _plain(module)
    return b"".join(_cpio(name, data) for name, data in entries.items()) + _cpio("TRAILER!!!", b"")


def _libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    return re.findall(r"(/\S+) \(0x", listed.stdout)


def _modules(kernel: Path) -> list[Path]:
    """Return the files of `MODULES` and what they depend on, in the order of loading."""
    files = {
        path.name.split(".")[0].replace("-", "_"): path
        for path in kernel.glob("lib/modules/*/kernel/**/*.ko*")
    }
    order: list[Path] = []

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        for needed in _depends(path):
            add(needed)
        order.append(path)

    for name in MODULES:
        add(name)
    return order


def _depends(module: Path) -> list[str]:
    found = re.search(rb"\0depends=([^\0]*)\0", _plain(module))
    return [name for name in found[1].decode().split(",") if name] if found else []


def _plain(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def _cpio(name: str, data: bytes | None) -> bytes:
    """Return an entry of a "newc" archive: a folder if there are no data, else a file."""
    mode = stat.S_IFDIR | 0o755 if data is None else stat.S_IFREG | 0o755
    body = data or b""
    fields = (0, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + body + b"\0" * (-len(body) % 4)
