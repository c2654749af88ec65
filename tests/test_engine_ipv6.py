"""IPv6: the address decides, everything else is as with IPv4."""

from __future__ import annotations

import socket

import pytest
from engine_support import supported, wait_until

from zcdb.engine.endpoint import ReceiverOptions, SenderOptions, start_receiver, start_sender
from zcdb.engine.sockets import family, raw_address
from zcdb.errors import EngineError

ADDRESS = "::1"


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((ADDRESS, 0))
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 loopback here")


@pytest.mark.parametrize("api", supported(["send", "sendfile", "msg_zerocopy"]))
def test_a_stream_over_ipv6_delivers_every_byte(api):
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, verify=api != "sendfile"))
    sender = start_sender(
        SenderOptions(
            address=ADDRESS,
            bind_address=ADDRESS,
            ports=tuple(receiver.ports),
            api=api,
            message_size_bytes=10_000,
            verify=api != "sendfile",
            total_bytes=1_000_003,
        )
    )
    sender.go()
    wait_until(lambda: receiver.has_ended)
    ends = sender.stop(), receiver.stop()

    assert [end.errors for end in ends] == [[], []]
    assert ends[1].totals["payload_bytes"] == 1_000_003
    assert not ends[1].verify_mismatch
    assert ends[0].totals["completions"] == (
        ends[0].totals["calls"] if api == "msg_zerocopy" else 0
    )


@pytest.mark.parametrize("test", ["rr", "crr"])
def test_exchanges_over_ipv6_are_answered(test):
    receiver = start_receiver(ReceiverOptions(test=test, address=ADDRESS))
    options = SenderOptions(
        test=test, address=ADDRESS, bind_address=ADDRESS, ports=tuple(receiver.ports)
    )
    sender = start_sender(options)
    sender.go()
    wait_until(lambda: sender.reading()["transactions"] > 20)
    ends = sender.stop(), receiver.stop()

    assert [end.errors for end in ends] == [[], []]


def test_datagrams_over_ipv6_arrive():
    receiver = start_receiver(ReceiverOptions(protocol="udp", address=ADDRESS))
    sender = start_sender(
        SenderOptions(
            protocol="udp",
            address=ADDRESS,
            ports=tuple(receiver.ports),
            message_size_bytes=100,
            target_bps=10_000_000,
            total_bytes=10_000,
        )
    )
    sender.go()
    wait_until(lambda: receiver.has_ended)
    ends = sender.stop(), receiver.stop()

    assert ends[1].totals["datagrams"] == 100


def test_an_ipv6_receiver_takes_no_ipv4_connection():
    receiver = start_receiver(ReceiverOptions(address="::"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", receiver.ports[0]))
    receiver.stop()


@pytest.mark.parametrize(("address", "kind"), [("10.1.2.3", "AF_INET"), ("fd77::1", "AF_INET6")])
def test_the_address_decides_the_family(address, kind):
    assert family(address).name == kind


def test_addresses_are_laid_out_as_the_kernel_takes_them():
    assert raw_address("10.1.2.3", 0x1234) == (
        (2).to_bytes(2, "little") + b"\x12\x34\x0a\x01\x02\x03" + bytes(8)
    )
    assert len(raw_address("::1", 80)) == 28
    assert raw_address("::1", 80)[8:24] == bytes(15) + b"\x01"


def test_a_name_is_no_address():
    with pytest.raises(EngineError, match="'localhost' is not an IPv4 or IPv6 address"):
        ReceiverOptions(address="localhost")
