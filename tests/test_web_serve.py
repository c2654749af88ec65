"""`zcdb serve`: what it prints, what it warns of, and what it does about a port in use."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from zcdb.cli.serve import is_loopback, open_site, url
from zcdb.errors import HostError, ZcdbError

ANYWHERE = "0.0.0.0"  # noqa: S104  # no test keeps such a server for longer than it reads a line


@pytest.fixture
def used_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def serve(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "zcdb", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("127.0.0.1", 8750, "http://127.0.0.1:8750/"),
        (ANYWHERE, 80, "http://127.0.0.1:80/"),
        ("::1", 8750, "http://[::1]:8750/"),
        ("lab.example", 8750, "http://lab.example:8750/"),
    ],
)
def test_the_printed_address_can_be_opened(host, port, expected):
    assert url(host, port) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *[(host, True) for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost")],
        *[(host, False) for host in (ANYWHERE, "192.0.2.1", "lab.example")],
    ],
)
def test_only_this_machines_own_addresses_are_loopback(host, expected):
    assert is_loopback(host) is expected


def test_a_served_site_answers_and_stops_on_request(tmp_path):
    process = serve("--port", "0", "--database", str(tmp_path / "new.sqlite"))
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/$", lines[1].strip())[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)

    assert lines[0].strip() == f"zcdb serves {tmp_path / 'new.sqlite'} at"
    assert answer.status == 200
    assert "database is empty" in body
    assert process.returncode == 0
    assert errors.strip() == "Stop with Ctrl-C."


def test_a_port_in_use_is_one_sentence_with_another_port(used_port, tmp_path):
    process = serve("--port", str(used_port), "--database", str(tmp_path / "new.sqlite"))
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 4
    assert output == ""
    assert errors.splitlines() == [
        f"Error: port {used_port} of 127.0.0.1 is in use by another program",
        f"Hint: Open http://127.0.0.1:{used_port}/, it may be zcdb already; else take another"
        f" port: 'zcdb serve --port {used_port + 1}'.",
    ]


def test_a_name_that_is_no_address_of_this_machine_is_one_sentence(tmp_path):
    with pytest.raises(HostError, match=r"^192\.0\.2\.1:0 cannot be served: "):
        open_site({"DATABASE": tmp_path / "new.sqlite"}, "192.0.2.1", 0)


def test_a_database_that_is_none_is_one_sentence_and_frees_the_port(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, only some text that is long enough\n" * 10)

    with pytest.raises(ZcdbError, match=r"notes\.txt"):
        open_site({"DATABASE": path}, "127.0.0.1", 0)


def test_an_address_that_others_can_reach_is_warned_about(tmp_path):
    process = serve("--host", ANYWHERE, "--port", "0", "--database", str(tmp_path / "n.sqlite"))
    try:
        process.stdout.readline()
        address = process.stdout.readline()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)

    assert address.startswith("http://127.0.0.1:")
    assert errors.splitlines()[0] == (
        "Warning: everybody who reaches 0.0.0.0 can read this database; there is no login."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every port")
def test_a_port_of_the_system_is_one_sentence(tmp_path):
    with pytest.raises(HostError, match="may not be opened by this user"):
        open_site({"DATABASE": tmp_path / "new.sqlite"}, "127.0.0.1", 1)
