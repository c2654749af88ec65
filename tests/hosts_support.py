"""Machines behind ssh for tests: a real sshd with keys of its own, on loopback or in namespaces.

Nothing of the user's own ssh is read or changed.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
"""sshd has to be called by its whole path."""


def missing() -> str | None:
    """Why there can be no machines behind ssh here, or None."""
    if SSHD is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "needs openssh-server and openssh-client"
    if os.geteuid() == 0 and not Path("/run/sshd").is_dir():
        # Debian's service makes it; a container has no services.
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    return None


class SshWorld:
    """Keys, an sshd configuration and an ssh configuration in a folder.

    Args:
        environment: what a login gets, besides a PATH on which zcdb is.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
        path = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        given = {"PATH": path, **environment}
        self.sshd_config = folder / "sshd_config"
        self.sshd_config.write_text(
            f"HostKey {folder}/host_key\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\n"
            f"PidFile {folder}/sshd.pid\n"
            "StrictModes no\nUsePAM no\nPrintMotd no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\n"
            "SetEnv " + " ".join(f"{name}={value}" for name, value in given.items()) + "\n"
        )
        host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"* {host_key}\n")
        self.config = folder / "ssh_config"
        self.config.write_text("")
        self._daemons: list[subprocess.Popen[bytes]] = []

    def add_loopback(self, *names: str) -> None:
        """Start an sshd on a free port of loopback and let ssh know it by these names."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        assert SSHD is not None
        daemon = subprocess.Popen(
            [SSHD, "-D", "-f", self.sshd_config, f"-oListenAddress=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._daemons.append(daemon)
        self._wait_for(port)
        for name in names:
            self._add(name, f"HostName 127.0.0.1\n  Port {port}\n")

    def add_namespace(self, name: str, namespace: str) -> None:
        """Let ssh reach a named network namespace by a name: an sshd of its own, without a port."""
        command = f"ip netns exec {namespace} {SSHD} -i -f {self.sshd_config}"
        self._add(name, f"HostName {namespace}\n  ProxyCommand {command}\n")

    def _add(self, name: str, how: str) -> None:
        with self.config.open("a") as config:
            config.write(
                f"Host {name}\n  {how}  User {getpass.getuser()}\n"
                f"  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
                f"  UserKnownHostsFile {self.folder}/known_hosts\n"
                "  GlobalKnownHostsFile /dev/null\n"
                "  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
            )

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise AssertionError("sshd did not come up")

    def close(self) -> None:
        """End every sshd that was started, and the logins under it."""
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()


class TwoNamespaces:
    """Two named network namespaces with a veth pair between them: two machines with a card each."""

    def __init__(self) -> None:
        mark = uuid.uuid4().hex[:6]
        self.names = {"sender": f"zcdbt-{mark}-a", "receiver": f"zcdbt-{mark}-b"}
        self.interfaces = {"sender": "lan0", "receiver": "lan1"}
        self.addresses = {"sender": "10.78.0.1", "receiver": "10.78.0.2"}
        for name in self.names.values():
            run("ip", "netns", "add", name)
        a, b = self.names.values()
        run(*f"ip link add lan0 netns {a} type veth peer name lan1 netns {b}".split())
        for end, name in self.names.items():
            inside = ("ip", "-n", name)
            run(*inside, "addr", "add", f"{self.addresses[end]}/24", "dev", self.interfaces[end])
            for interface in ("lo", self.interfaces[end]):
                run(*inside, "link", "set", interface, "up")

    def outside_view(self) -> dict[str, str]:
        """What the standard tools say of both, without counters and states that move."""
        view = {}
        for end, name in self.names.items():
            interface = self.interfaces[end]
            tell = ("ip", "netns", "exec", name)
            view[f"{end} features"] = run(*tell, "ethtool", "-k", interface)
            view[f"{end} link"] = run(*tell, "ip", "-o", "link", "show", interface)
            view[f"{end} qdisc"] = run(*tell, "tc", "-d", "qdisc", "show", "dev", interface)
            view[f"{end} sysctls"] = run(*tell, "sysctl", "net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem")
            view[f"{end} addresses"] = run(*tell, "ip", "-o", "-4", "addr", "show")
        return view

    def close(self) -> None:
        """Take both namespaces away, and what still runs in them."""
        for name in self.names.values():
            pids = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
            )
            for pid in pids.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], check=False)


def run(*words: str) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout
