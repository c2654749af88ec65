"""Sockets of other programs, read through the kernel."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from zcdb.engine.tcpinfo import sum_totals
from zcdb.tools.inetdiag import ConnectionWatch, SocketDiag


class Pair:
    """A TCP connection over loopback and its listener."""

    def __init__(self, family: int, address: str) -> None:
        self.listener = socket.socket(family)
        self.listener.bind((address, 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.client = socket.create_connection((address, self.port))
        self.server, _ = self.listener.accept()

    def close(self) -> None:
        for one in (self.client, self.server, self.listener):
            one.close()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


FAMILIES = [
    pytest.param((socket.AF_INET, "127.0.0.1"), id="ipv4"),
    pytest.param(
        (socket.AF_INET6, "::1"),
        id="ipv6",
        marks=pytest.mark.skipif(not _has_ipv6(), reason="no IPv6 on loopback"),
    ),
]


@pytest.fixture(params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(*request.param)
    yield made
    made.close()


def test_a_listening_port_is_seen_and_a_free_one_is_not(pair):
    free = socket.create_server(("127.0.0.1", 0))
    free_port = free.getsockname()[1]
    free.close()

    with SocketDiag() as diag:
        assert diag.is_listening(pair.port)
        assert not diag.is_listening(free_port)


def test_a_watch_counts_what_was_written_and_what_was_read(pair):
    sender = ConnectionWatch(peer_port=pair.port)
    receiver = ConnectionWatch(own_port=pair.port)
    before_sender, before_receiver = sender.read(), receiver.read()

    pair.client.sendall(b"x" * 30011)
    taken = len(pair.server.recv(10007, socket.MSG_WAITALL))

    sent, read = sender.read(), receiver.read()
    assert sent.sent_bytes - before_sender.sent_bytes == 30011
    assert read.read_bytes - before_receiver.read_bytes == taken == 10007
    sender.close()
    receiver.close()


def test_a_watch_says_nothing_until_all_connections_are_there(pair):
    watch = ConnectionWatch(own_port=pair.port, expected=2)
    pair.client.sendall(b"x" * 100)
    pair.server.recv(100, socket.MSG_WAITALL)

    assert watch.read().read_bytes == 0
    assert not watch.is_complete

    second = socket.create_connection(pair.listener.getsockname()[:2])
    accepted, _ = pair.listener.accept()
    assert watch.read().read_bytes == 100
    assert watch.is_complete
    for one in (second, accepted):
        one.close()
    watch.close()


def test_what_a_connection_moved_stays_in_the_sum_after_its_end(pair):
    watch = ConnectionWatch(own_port=pair.port)
    pair.client.sendall(b"x" * 1009)
    pair.server.recv(1009, socket.MSG_WAITALL)
    watch.read()

    pair.client.close()
    pair.server.close()

    assert watch.read().read_bytes == 1009
    watch.close()


def test_the_kernels_tcp_info_comes_with_it(pair):
    watch = ConnectionWatch(own_port=pair.port)
    pair.client.sendall(b"x" * 503)
    pair.server.recv(503, socket.MSG_WAITALL)

    watch.read()

    totals = sum_totals(watch.tcp_infos)
    assert totals["tcp_bytes_received"] == 503
    assert totals["now_tcp_sockets"] == 1
    watch.close()
