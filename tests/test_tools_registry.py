"""Which cases a foreign tool can run, with which command lines, and why not."""

from __future__ import annotations

import shlex

import pytest
from tools_support import make_options

from zcdb.factors import with_defaults
from zcdb.tools import command, registry
from zcdb.tools.model import Program
from zcdb.tools.registry import TOOLS, job_of, missing_here, unsupported_reason


def filled(**factors):
    return with_defaults({"api": "write", **factors})


def argv(end: str, ports: tuple[int, ...] = (), **factors) -> str:
    options = make_options(end, factors=factors, ports=ports)
    return shlex.join(job_of(TOOLS[options.tool], options).argv)


@pytest.mark.parametrize(
    "factors",
    [
        {"tool": "iperf3"},
        {"tool": "iperf3", "api": "sendfile", "streams": 8, "tcp_nodelay": True},
        {"tool": "iperf3", "sndbuf": 65536, "rcvbuf": 65536, "congestion_control": "reno"},
        {"tool": "netperf", "api": "send", "receive_size": 4096},
        {"tool": "netperf", "api": "send", "test": "rr", "request_size": 100},
        {"tool": "nfs", "api": "nfs_read", "rsize": 65536},
        {"tool": "vsftpd", "api": "sendfile", "working_set": 1 << 20},
        {"tool": "command", "command": "nc {address} {port}", "api": "sendmsg"},
        {"tool": "command", "command": "nc {address} {port}", "rx_api": "recv_trunc"},
        {"tool": "iperf3", "mtu": 9000, "sender.tso": False, "pinning": "none"},
    ],
)
def test_a_tool_takes_what_it_can_follow(factors):
    assert unsupported_reason(filled(**factors)) is None


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ({"tool": "ttcp"}, "there is no tool 'ttcp'; zcdb knows iperf3, netperf, nfs"),
        ({"tool": "iperf3", "api": "send"}, "iperf3 has no api = 'send', only write, sendfile"),
        ({"tool": "netperf", "api": "write"}, "netperf has no api = 'write', only send, sendfile"),
        ({"tool": "iperf3", "test": "rr"}, "iperf3 does no test = 'rr' here, only stream"),
        ({"tool": "iperf3", "tcp_cork": True}, "iperf3 has no way to follow tcp_cork = True"),
        ({"tool": "iperf3", "working_set": 65536}, "no way to follow working_set = 65536"),
        ({"tool": "iperf3", "verify": True}, "iperf3 has no way to follow verify = True"),
        ({"tool": "iperf3", "rx_api": "recv_trunc"}, "no way to follow rx_api = 'recv_trunc'"),
        ({"tool": "iperf3", "interfaces": 2}, "no way to follow interfaces = 2"),
        ({"tool": "nfs", "api": "nfs_read", "receive_size": 1}, "to follow receive_size = 1"),
        (
            {"tool": "command", "receiver_command": "nc", "rx_api": "recv_trunc"},
            "rx_api is for zcdb's own receiver",
        ),
        ({"tool": "iperf3", "message_size": 2 << 20}, "iperf3 writes at most 1 MiB at once"),
        ({"tool": "iperf3", "streams": 200}, "iperf3 has at most 128 streams, not 200"),
        ({"tool": "iperf3", "sndbuf": 65536}, "state sndbuf and rcvbuf alike"),
        ({"tool": "netperf", "api": "send", "streams": 2}, "no way to follow streams = 2"),
        ({"tool": "netperf", "api": "sendfile", "test": "rr"}, "state api = 'send'"),
        ({"tool": "nfs", "api": "nfs_read", "rsize": 2 << 20}, "rsize must be from 512 to 1048576"),
        (
            {"tool": "vsftpd", "api": "sendfile", "working_set": "files=2;mean_size=9;passes=1"},
            "vsftpd serves one file",
        ),
        ({"tool": "command"}, "needs a command, a receiver_command, or both"),
        ({"tool": "command", "command": "nc 'a"}, 'command = "nc \'a": No closing quotation'),
        (
            {"tool": "command", "command": "nc", "command_bytes": "1G"},
            "zcdb's own receiver counts by itself",
        ),
        (
            {"tool": "command", "command": "nc", "receiver_command": "nc", "command_bytes": "1G"},
            "needs a receiver_command alone",
        ),
        (
            {"tool": "command", "receiver_command": "cp a b", "command_bytes": "lots"},
            "command_bytes: 'lots' is not one of sockets, written, interface, a size, or",
        ),
        (
            {"tool": "command", "receiver_command": "cp a b", "command_bytes": "pattern:bytes"},
            "has no (group) around the number of bytes",
        ),
        (
            {"tool": "command", "receiver_command": "cp a b", "command_bytes": "pattern:(["},
            "is no regular expression",
        ),
        (
            {"tool": "command", "receiver_command": "cp a b", "command_bytes": "sockets"},
            "whose sockets to count is not known",
        ),
    ],
)
def test_a_case_that_a_tool_cannot_run_is_refused_in_one_sentence(factors, reason):
    found = unsupported_reason(filled(**factors))

    assert found is not None
    assert reason in found
    assert "\n" not in found


def test_a_missing_program_names_its_package(monkeypatch):
    monkeypatch.setattr(Program, "path", None)

    assert missing_here(filled(tool="iperf3"), "sender") == (
        "the program iperf3 is not installed; Debian's package iperf3 has it"
    )
    assert "in non-free" in str(missing_here(filled(tool="netperf", api="send"), "sender"))
    assert "nfs-ganesha-vfs" in str(missing_here(filled(tool="nfs", api="nfs_read"), "sender"))
    assert "libnfs-utils" in str(missing_here(filled(tool="nfs", api="nfs_read"), "receiver"))


def test_a_server_that_needs_root_says_so(monkeypatch):
    monkeypatch.setattr(Program, "missing", lambda _: None)
    monkeypatch.setattr(registry, "_is_real_root", lambda: False)

    reason = missing_here(filled(tool="vsftpd", api="sendfile"), "sender")

    assert reason == "vsftpd needs root: it gets a folder in memory and changes its user"
    assert missing_here(filled(tool="vsftpd", api="sendfile"), "receiver") is None


def test_a_commands_missing_program_is_named():
    factors = filled(tool="command", command="no-such-program {address}")

    assert missing_here(factors, "sender") == (
        "the program no-such-program of the sender's command is not installed here"
    )
    assert missing_here(factors, "receiver") is None


def test_iperf3_outlasts_the_window_and_says_what_it_is_told():
    line = argv(
        "sender", (5201,), tool="iperf3", api="sendfile", message_size=4096, streams=3,
        tcp_nodelay=True, sndbuf=65536, rcvbuf=65536, congestion_control="reno",
    )  # fmt: skip

    assert line == ("iperf3 -c 127.0.0.1 -4 -p 5201 -J -t 2 -l 4096 -P 3 -Z -N -w 65536 -C reno")


def test_iperf3_reads_in_pieces_of_its_message_size_and_says_so():
    options = make_options("receiver", factors={"tool": "iperf3", "message_size": 4096})

    job = job_of(TOOLS["iperf3"], options)

    assert job.effective == {"receive_size": 4096}
    assert job.differences == ("receive size: 262144 asked for, iperf3 reads as it writes: 4096",)


def test_netperf_is_told_where_its_data_goes():
    stream = argv("sender", (12865, 12866), tool="netperf", api="send", message_size=1000)
    exchange = argv(
        "sender", (12865, 12866), tool="netperf", api="send", test="rr", request_size=10, burst=4
    )
    sendfile = argv("sender", (12865, 12866), tool="netperf", api="sendfile")

    assert stream.startswith(
        "netperf -4 -H 127.0.0.1 -p 12865 -l 2 -t TCP_STREAM -- -P 0,12866 -m 1000 -M 262144 -k"
    )
    assert "-t TCP_RR -- -P 0,12866 -r 10,1 -b 4 -k" in exchange
    assert "-t TCP_SENDFILE -F '{file}' -W 1,1 -- -P 0,12866 -m 65536 -M 262144" in sendfile


def test_ports_come_from_the_range_that_is_given():
    first, last = 45731, 45738
    options = make_options(
        "receiver", factors={"tool": "netperf", "api": "send"}, port_range=(first, last)
    )

    job = job_of(TOOLS["netperf"], options)

    assert first <= job.port <= last
    assert first <= job.data_port <= last
    assert job.port != job.data_port


def test_nfs_limits_what_the_client_asks_for_at_the_server():
    factors = {"tool": "nfs", "api": "nfs_read", "rsize": 65536, "working_set": 1 << 20}
    server = job_of(TOOLS["nfs"], make_options("sender", factors=factors))
    client = job_of(TOOLS["nfs"], make_options("receiver", factors=factors, ports=(2049,)))

    assert "MaxRead = 65536; PrefRead = 65536;" in str(server.files["ganesha.conf"])
    assert server.files["data/file"] == 1 << 20
    assert client.argv[1] == "nfs://127.0.0.1/exp/file?version=4&nfsport=2049"
    assert client.effective == {"rsize": 65536}


@pytest.mark.parametrize(("api", "word"), [("sendfile", "YES"), ("read_write", "NO")])
def test_vsftpd_is_told_whether_to_use_sendfile(api, word):
    options = make_options("sender", factors={"tool": "vsftpd", "api": api})

    job = job_of(TOOLS["vsftpd"], options)

    assert f"use_sendfile={word}\n" in str(job.files["vsftpd.conf"])
    assert "write_enable=NO\n" in str(job.files["vsftpd.conf"])
    assert "listen_address=127.0.0.1\n" in str(job.files["vsftpd.conf"])


def test_a_commands_words_are_cut_like_a_shells_and_nothing_else_is():
    line = (
        "prog 'two words' $HOME ; rm * {address} {port} {size} {interface} {file} {other} a{port}b"
    )
    options = make_options(
        "sender", factors={"tool": "command", "command": line, "message_size": 512}, ports=(99,)
    )

    job = job_of(TOOLS["command"], options)

    assert job.argv == (
        *("prog", "two words", "$HOME", ";", "rm", "*"),
        *("127.0.0.1", "99", "512", "lo", "{file}", "{other}", "a99b"),
    )
    assert job.file_bytes == 512


@pytest.mark.parametrize(
    ("text", "meter", "run_bytes"),
    [
        (None, "written", None),
        ("written", "written", None),
        ("interface", "interface", None),
        ("1000", "whole", 1000),
        ("2K", "whole", 2048),
        ("pattern:([0-9]+) bytes", "whole", None),
    ],
)
def test_how_a_fetching_command_is_counted(text, meter, run_bytes):
    given = {"command_bytes": text} if text else {}

    how = command.counting(filled(tool="command", receiver_command="cp a b", **given))

    assert (how.meter, how.run_bytes) == (meter, run_bytes)


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("123 bytes copied", 123),
        ("1 bytes\n99 bytes", 99),
        ("1,234,567 bytes", 1234567),
        ("12.5 bytes", None),
        ("1,23 bytes", None),
        ("nothing", None),
        ("x bytes", None),
    ],
)
def test_the_last_number_that_a_pattern_finds_counts(output, found):
    how = command.counting(
        filled(tool="command", receiver_command="x", command_bytes="pattern:([0-9x,.]+) bytes")
    )

    assert how.pattern is not None
    assert command.printed_bytes(how.pattern, output) == found
