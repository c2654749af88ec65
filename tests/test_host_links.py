"""Namespaces and veth pairs that nobody has to clean up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from zcdb.errors import LinkError
from zcdb.host import links

pytestmark = pytest.mark.net


BECOME_NOBODY = """
    import ctypes, encodings.idna, os
    from pyroute2 import IPRoute
    # Everything is imported before: nobody may not read an interpreter in a home folder.
    IPRoute().close()
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    # A process that has changed its user may not write its own /proc files until it says so.
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""


def run_isolated(script, preamble=""):
    """Run a script in a process of its own and return what it prints as JSON."""
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(preamble) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


TWO_ENDS = """
    import ctypes, json, os, signal, socket, sys
    from pathlib import Path
    from zcdb.host import links

    def end(partner):
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
            links.enter_new_namespace(partner)
            os.write(tell, b"r")
            signal.pause()
        assert os.read(ready, 1) == b"r"
        return pid

    links.enter_new_namespace()
    peer = end(os.getpid())
    links.make_veth("za", ["10.77.0.1/24"], "zb", ["10.77.0.2/24"], peer)
    names = [name for _, name in socket.if_nameindex()]
    listener = socket.create_server(("10.77.0.1", 0))
    client = os.fork()
    if client == 0:
        links.setns(Path(f"/proc/{peer}/ns/net"), links.CLONE_NEWNET)
        with socket.create_connection(listener.getsockname(), timeout=10) as out:
            out.sendall(b"over the link")
        os._exit(0)
    listener.settimeout(10)
    connection, address = listener.accept()
    data = connection.recv(100)
    os.waitpid(client, 0)
    os.kill(peer, signal.SIGKILL)
    os.waitpid(peer, 0)
    print(json.dumps({"names": names, "from": address[0], "data": data.decode()}))
"""
EXPECTED = {"names": ["lo", "za"], "from": "10.77.0.2", "data": "over the link"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_bytes_cross_a_veth_pair_between_two_namespaces():
    assert run_isolated(TWO_ENDS) == EXPECTED


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_user_without_rights_gets_a_link_through_a_user_namespace():
    probe = subprocess.run(["unshare", "-Urn", "true"], user="nobody", check=False)
    if probe.returncode != 0:
        pytest.skip("this kernel gives user namespaces to root only")

    assert run_isolated(TWO_ENDS, BECOME_NOBODY) == EXPECTED


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("ip") is None, reason="needs iproute2")
def test_nothing_is_left_when_the_ends_are_killed():
    before = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)

    run_isolated(TWO_ENDS)

    after = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    assert after.stdout == before.stdout


def test_a_refused_step_is_one_sentence(monkeypatch):
    def refuse(name: str, addresses: list[str]) -> None:
        raise PermissionError(1, "Operation not permitted")

    with pytest.raises(LinkError, match=r"refuse: Operation not permitted"):
        links._in_child(refuse, "lo", [])


def test_no_right_to_make_a_namespace_says_what_would_give_it(monkeypatch):
    def unshare(flags):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(links, "unshare", unshare)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(LinkError, match="may not make a network namespace") as caught:
        links.enter_new_namespace()

    assert "root" in str(caught.value.hint)


ADDRESSES = """
    import json
    from zcdb.host import links
    links.enter_new_namespace()
    before = links.interface_addresses("lo")
    links._in_child(links._bring_up, "lo", ["10.77.9.1/24", "fd77::9/64", "fe80::9/64"])
    print(json.dumps([before, links.interface_addresses("lo"), links.has_ipv6()]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_addresses_of_an_interface_come_by_family_and_without_link_local_ones():
    before, after, has_ipv6 = run_isolated(ADDRESSES)

    if not has_ipv6:
        pytest.skip("this kernel has no IPv6")
    assert before == {"inet": ["127.0.0.1"], "inet6": ["::1"]}
    assert after["inet"] == ["127.0.0.1", "10.77.9.1"]
    assert set(after["inet6"]) == {"::1", "fd77::9"}
