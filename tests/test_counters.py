"""The kernel's counters: parsers on what the files look like, and differences over a window."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from zcdb.engine import tcpinfo
from zcdb.engine.books import Books, CpuBook, CpuTime
from zcdb.engine.window import CpuEdge, Edge
from zcdb.errors import HostError
from zcdb.host import interrupts, netcounters, qdiscs
from zcdb.host.counters import CounterReader
from zcdb.host.netcounters import InterfaceCounters, Softnet
from zcdb.host.perf import Count, PerfReading
from zcdb.runner import counter_metrics, counters
from zcdb.runner.counters import Details, EndCounters

SECOND_NS = 10**9

NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0
eth0:18446744073709551615 43205 3 4 0 0 0 0 2228733 23921 5 6 0 0 0 0
 veth1@if2: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
"""

SOFTNET = """\
ffffffff 00000000 00000025 00000000 00000000 00000000 00000000 00000000 00000000 0 0 0 00000000 0 0
03e2a92d 00000001 00000008 00000000 00000000 00000000 00000000 00000000 00000000 0 0 0 00000003 0 0
"""

NETSTAT = """\
TcpExt: SyncookiesSent PruneCalled TCPMemoryPressuresChrono
TcpExt: 0 424 15
IpExt: InOctets
IpExt: 99
"""

INTERRUPTS = """\
           CPU0       CPU1
  8:          1          0  IR-IO-APIC   8-edge      rtc0
 24:          4          6  IR-PCI-MSI 1048576-edge      eth0-rx-0, eth0-tx-0
 30:         10          0     GICv3  27 Level     arch_timer
NMI:          0          3   Non-maskable interrupts
ERR:          2
"""


# -- parsers ---------------------------------------------------------------------------------


def test_only_the_wanted_interfaces_are_read_and_large_counters_need_no_space():
    found = netcounters.parse_net_dev(NET_DEV, ["eth0"])

    assert found == {"eth0": InterfaceCounters(2**64 - 1, 43205, 3, 4, 2228733, 23921, 5, 6)}


def test_a_row_that_is_cut_off_is_refused_with_its_text():
    with pytest.raises(HostError, match="eth0: 1 2 3"):
        netcounters.parse_net_dev("a\nb\neth0: 1 2 3", ["eth0"])


def test_a_driver_that_was_reset_counts_nothing_rather_than_less_than_nothing():
    before = InterfaceCounters(*[100] * 8)

    assert InterfaceCounters(*[7] * 8).since(before) == InterfaceCounters(*[0] * 8)


def test_softnet_rows_belong_to_the_cpu_they_name():
    found = netcounters.parse_softnet(SOFTNET)

    assert found == {0: Softnet(2**32 - 1, 0, 0x25), 3: Softnet(0x3E2A92D, 1, 8)}


def test_old_kernels_number_softnet_rows_by_place():
    assert set(netcounters.parse_softnet("1 2 3\n4 5 6\n")) == {0, 1}


def test_softnet_counters_wrap_and_a_cpu_that_went_offline_is_left_out():
    before = {0: Softnet(2**32 - 1, 0, 0), 1: Softnet(5, 5, 5)}
    after = {0: Softnet(9, 1, 0)}

    assert netcounters.softnet_since(after, before) == Softnet(10, 1, 0)


def test_softnet_of_six_hundred_cpus_is_added_up():
    before = {cpu: Softnet(1, 0, 0) for cpu in range(600)}
    after = {cpu: Softnet(3, 0, 1) for cpu in range(600)}

    assert netcounters.softnet_since(after, before) == Softnet(1200, 0, 600)


def test_protocol_counters_are_named_by_protocol():
    found = netcounters.parse_snmp(NETSTAT)

    assert found["TcpExt.PruneCalled"] == 424
    assert found["IpExt.InOctets"] == 99


def test_lines_that_do_not_fit_each_other_are_refused():
    with pytest.raises(HostError, match="lines of 'Tcp' do not fit"):
        netcounters.parse_snmp("Tcp: A B\nTcp: 1\n")


def test_what_grew_is_told_and_what_stood_still_left_out():
    assert netcounters.grown({"a": 3, "b": 5, "c": 1}, {"a": 1, "b": 5}) == {"a": 2}


def test_memory_of_sockets_and_waiting_of_tasks_are_read():
    sockstat = netcounters.parse_sockstat("sockets: used 21\nTCP: inuse 2 orphan 0 mem 139\n")
    schedstat = netcounters.parse_schedstat("version 15\ncpu3 0 0 0 0 0 0 11 2222 3\ndomain0 1\n")

    assert sockstat == {"sockets.used": 21, "TCP.inuse": 2, "TCP.orphan": 0, "TCP.mem": 139}
    assert schedstat == {3: 2222}


def test_interrupts_are_added_up_over_cpus_and_named_by_their_handlers():
    rows = interrupts.parse_interrupts(INTERRUPTS)

    assert rows["24"] == interrupts.InterruptRow(10, ("eth0-rx-0", "eth0-tx-0"))
    assert rows["30"].actions == ("arch_timer",)
    assert interrupts.kind_of("NMI", rows["NMI"]) == "NMI Non-maskable interrupts"
    assert (rows["ERR"].count, rows["NMI"].count) == (2, 3)


def test_interrupts_of_six_hundred_cpus_are_read():
    heading = "    " + " ".join(f"CPU{cpu}" for cpu in range(600))
    row = " 24: " + " ".join("2" for _ in range(600)) + " PCI-MSI 1-edge nvme0q0"

    assert interrupts.parse_interrupts(f"{heading}\n{row}\n")["24"].count == 1200


def test_a_text_without_cpus_is_refused():
    with pytest.raises(HostError, match="begins with 'nonsense'"):
        interrupts.parse_interrupts("nonsense\n")


def test_softirqs_are_added_up_by_kind():
    text = "    CPU0 CPU1\n  HI: 1 2\n NET_RX: 10 20\n"

    assert interrupts.parse_softirq_totals(text) == {"HI": 3, "NET_RX": 30}


# -- qdiscs ----------------------------------------------------------------------------------


def attribute(kind: int, body: bytes) -> bytes:
    length = 4 + len(body)
    return struct.pack("=HH", length, kind) + body + bytes(-length % 4)


def qdisc_message(index: int = 7) -> bytes:
    """RTM_NEWQDISC of a tbf at the root that sent 1000 bytes and dropped 5 packets."""
    basic = attribute(1, struct.pack("=QI", 1000, 10))
    queue = attribute(3, struct.pack("=IIIII", 3, 4500, 5, 6, 70))
    header = struct.pack("=BxxxiIII", 0, index, 0x10000, 0xFFFFFFFF, 2)
    return header + attribute(1, b"tbf\0") + attribute(7, basic + queue)


def test_a_qdisc_says_what_it_dropped_requeued_and_held_back():
    index, found = qdiscs.parse_qdisc(qdisc_message())

    assert index == 7
    assert found == qdiscs.Qdisc("tbf", True, 0x10000, 1000, 10, 5, 6, 70, 4500)


def test_an_answer_that_is_cut_off_gives_what_is_there():
    _, found = qdiscs.parse_qdisc(qdisc_message()[:28])

    assert (found.kind, found.drops) == ("tbf", 0)


def test_the_loopback_of_this_machine_has_a_qdisc():
    with qdiscs.QdiscReader() as reader:
        assert [qdisc.is_root for qdisc in reader.read("lo")] == [True]
        assert reader.read("no-such-card") == []


# -- TCP_INFO --------------------------------------------------------------------------------


def tcp_info(length=216, **fields):
    """The bytes a kernel returns, with some fields set."""
    raw = bytearray(232)
    for name, value in fields.items():
        width = 8 if name in ("busy_time", "bytes_acked", "rwnd_limited") else 4
        struct.pack_into("=Q" if width == 8 else "=I", raw, tcpinfo.ENDS_AT[name] - width, value)
    return bytes(raw[:length])


def test_the_fields_lie_where_the_kernel_puts_them():
    # Offsets of linux/tcp.h.
    ends = {"snd_mss": 20, "total_retrans": 104, "data_segs_out": 160, "sndbuf_limited": 192}

    assert {name: tcpinfo.ENDS_AT[name] for name in ends} == ends


def test_tcp_info_is_added_up_over_sockets():
    rows = [
        tcp_info(total_retrans=3, busy_time=10**6, rtt=40),
        tcp_info(total_retrans=4, busy_time=5, rtt=60, rwnd_limited=2**40),
    ]

    found = tcpinfo.sum_totals(rows)

    assert (found["retransmits"], found["tcp_busy_us"]) == (7, 1_000_005)
    assert found["tcp_rwnd_limited_us"] == 2**40
    assert (found["now_tcp_rtt_us"], found["now_tcp_sockets"]) == (100, 2)


def test_what_an_older_kernel_does_not_return_is_left_out_not_zero():
    found = tcpinfo.sum_totals([tcp_info(length=160, total_retrans=3)])

    assert found["retransmits"] == 3
    assert "tcp_busy_us" not in found
    assert "tcp_data_segs_out" in found


def test_without_sockets_there_is_nothing_but_that():
    assert tcpinfo.sum_totals([]) == {"retransmits": 0, "now_tcp_sockets": 0}


# -- reading this machine --------------------------------------------------------------------


def test_bytes_over_the_loopback_are_counted():
    with socket.create_server(("127.0.0.1", 0)) as server, CounterReader(["lo"]) as reader:
        before = reader.interfaces()["lo"], reader.details()
        with socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                sender.sendall(bytes(100_000))
                received = 0
                while received < 100_000:
                    received += len(receiver.recv(100_000))
        after = reader.interfaces()["lo"], reader.details()

    grown = after[0].since(before[0])
    assert grown.tx_bytes >= 100_000
    assert grown.tx_packets >= 1
    details = Details(before[1], after[1])
    assert details.growth("protocols")["Tcp.ActiveOpens"] >= 1
    assert details.offload("sg") is True
    assert details.interface_interrupts() is None
    assert details.before["memory"]["free_bytes"] > 0
    assert sum(details.growth("softirqs").values()) >= 1


def test_the_interface_is_found_among_many(tmp_path):
    """With more interfaces than fit into a page, in one call the kernel gives a part only."""
    (tmp_path / "proc/self/net").mkdir(parents=True)
    (tmp_path / "proc/net").mkdir(parents=True)
    heading, columns, _, row, *_ = NET_DEV.splitlines()
    others = [row.replace("eth0", f"veth{number}") for number in range(500)]
    (tmp_path / "proc/self/net/dev").write_text("\n".join([heading, columns, *others, row]))
    (tmp_path / "proc/net/softnet_stat").write_text(SOFTNET)

    with CounterReader(["eth0"], root=tmp_path) as reader:
        assert reader.interfaces()["eth0"].tx_packets == 23921
        assert set(reader.softnet()) == {0, 3}


def test_an_agent_that_does_not_read_the_host_reads_its_namespace_only():
    with CounterReader(["lo"], is_host_read=False) as reader:
        found = reader.details()

        assert reader.softnet() == {}
    assert "interrupts" not in found
    assert found["offloads"]["lo"]["sg"] is True


def test_hardware_counters_are_read_or_their_absence_explained():
    with CounterReader(["lo"]) as reader:
        found = reader.details()

    assert ("perf" in found) != ("perf_reason" in found)
    if "perf_reason" in found:
        assert found["perf_reason"]


def test_all_files_are_closed_again():
    descriptors = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 (names, not paths)

    reader = CounterReader(["lo"])
    reader.close()
    reader.close()

    assert set(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


# -- differences over a window ---------------------------------------------------------------


def details(at_ns, **changes):
    return {
        "at_ns": at_ns,
        "protocols": {},
        "qdiscs": {"eth0": [{"kind": "tbf", "drops": 0, "requeues": 0, "overlimits": 0}]},
        "offloads": {"eth0": {"sg": True, "tx_checksum": True}},
        "interface_interrupts": 1000,
        **changes,
    }


def edge(at_ns, found=None, packets=0, **own):
    counts = InterfaceCounters(packets * 60, packets, 0, 0, packets * 1500, packets, 0, 0)
    rows = (CpuEdge(0, softnet=Softnet(packets, 0, packets // 100)),)
    host = {"stat_at_ns": at_ns, "interrupts": packets * 3, "context_switches": packets * 2}
    sender = {"at_ns": at_ns, **own}
    return Edge(at_ns, 0, rows, {"sender": sender}, host, {"eth0": counts}, found)


def account(**ends):
    time = CpuTime(500_000_000, 1)
    return Books(
        window_ns=SECOND_NS,
        cpu_count=2,
        ends={"sender": ends or {"soak": time, "rusage": time, "soak_work": CpuTime(None, 1, "x")}},
        host={},
        contention={},
        host_contention=time,
        tick_resolution_ns=10**7,
        flags=(),
        columns={},
        cpus=(CpuBook(0, "sender"), CpuBook(1, "receiver")),
    )


@pytest.fixture
def sender():
    first = edge(
        5 * SECOND_NS,
        details(5 * SECOND_NS),
        packets=1000,
        tcp_segs_in=100,
        tcp_data_segs_in=0,
        tcp_rwnd_limited_us=0,
        now_tcp_rtt_us=40,
        now_tcp_sockets=2,
    )
    last = edge(
        6 * SECOND_NS,
        details(
            6 * SECOND_NS,
            protocols={"TcpExt.TCPMemoryPressuresChrono": 7},
            qdiscs={"eth0": [{"kind": "tbf", "drops": 4, "requeues": 1, "overlimits": 9}]},
            interface_interrupts=1500,
        ),
        packets=2000,
        tcp_segs_in=612,
        tcp_data_segs_in=0,
        tcp_rwnd_limited_us=1_000_000,
        now_tcp_rtt_us=80,
        now_tcp_sockets=2,
    )
    return EndCounters.of("sender", (first, last), (first, last))


def values(found):
    return {(value.metric, value.method): value for value in found}


def test_path_metrics_are_differences_over_the_window(sender):
    found = values(counter_metrics.path_metrics(sender, payload_bytes=8 << 20))

    assert found["packet_rate", ""].value == 1000
    assert found["frame_size_sent", ""].value == 1500
    assert found["frame_size_received", ""].value == 60
    assert found["acks_per_mb", ""].value == 64
    assert found["tcp_rtt", ""].value == pytest.approx(30e-6)
    # One second of waiting, of two sockets with a second each.
    assert found["rwnd_limited_share", ""].value == pytest.approx(0.5)
    assert found["sndbuf_limited_share", ""].value is None
    assert found["qdisc_drops", ""].value == 4


def test_end_metrics_are_per_packet_and_per_second(sender):
    found = values(counter_metrics.end_metrics(sender, account(), payload_bytes=1000))

    assert found["interrupts_per_packet_sender", ""].value == pytest.approx(500 / 2000)
    assert found["interrupt_rate_sender", ""].value == pytest.approx(3000)
    assert found["context_switch_rate_sender", ""].value == pytest.approx(2000)
    assert found["softnet_squeezes_sender", ""].value == 10
    assert found["softnet_drops_sender", ""].value == 0
    # Half a second of CPU time for 1000 packets each way.
    assert found["packet_demand_sender", "soak"].value == pytest.approx(250)
    assert "interrupt work" in found["packet_demand_sender", "rusage"].reason
    assert found["packet_demand_sender", "soak_work"].reason == "x"


def test_cycles_per_byte_leave_the_soaker_out():
    def perf_reading(cpu, soaker, ns):
        count = {"0": {"cycles": Count(cpu, ns, ns)}}
        return PerfReading(count, {"0": {"cycles": Count(soaker, ns, ns)}}).to_json()

    first = edge(0, details(0, perf=perf_reading(0, 0, 0)))
    last = edge(SECOND_NS, details(SECOND_NS, perf=perf_reading(5000, 3000, 9)), packets=1)
    end = EndCounters.of("sender", (first, last), (first, last))

    found = values(counter_metrics.end_metrics(end, account(), payload_bytes=500))

    assert found["cycles_per_byte_sender", "perf"].value == pytest.approx(2000 / 500)


def test_what_was_not_counted_has_a_reason_in_every_metric():
    bare = Edge(0, 0, (), {"sender": {"at_ns": 0}}, {})
    later = Edge(SECOND_NS, 0, (), {"sender": {"at_ns": SECOND_NS}}, {})
    end = EndCounters.of("sender", (bare, later), (bare, later))

    found = [
        *counter_metrics.path_metrics(end, 1000),
        *counter_metrics.end_metrics(end, account(), 1000),
    ]

    assert {value.value for value in found} == {None}
    assert all(value.reason for value in found)


def test_without_interrupts_of_its_own_there_is_no_rate_of_them(sender):
    first, last = (
        edge(ns, details(ns, interface_interrupts=None), packets=ns) for ns in (0, SECOND_NS)
    )
    end = EndCounters.of("sender", (first, last), (first, last))

    found = values(counter_metrics.end_metrics(end, account(), 1000))

    assert found["interrupts_per_packet_sender", ""].value is None
    assert "no interrupts of its own" in found["interrupts_per_packet_sender", ""].reason


def test_an_offload_that_was_off_at_one_end_of_the_window_did_not_hold():
    on, off = details(0), details(1, offloads={"eth0": {"sg": False}})

    assert Details(on, on).offload("sg") is True
    assert Details(on, off).offload("sg") is False
    assert Details(on, off).offload("tso") is None
    assert Details(on, details(1, offloads={"eth0": None})).offload("sg") is None


def test_counts_of_an_end_and_its_host_are_kept_for_storage(sender):
    end, host = counters.end_counts(sender), counters.host_counts(sender.host_edges, account())

    assert end["protocols"] == {"TcpExt.TCPMemoryPressuresChrono": 7}
    assert end["qdisc"] == {"kinds": ["tbf"], "drops": 4, "requeues": 1, "overlimits": 9}
    assert (end["interface"]["tx_packets"], end["span_ns"]) == (1000, SECOND_NS)
    assert host["hardware_events"] is None
    assert host["hardware_events_reason"] == "hardware counters were not read"


def test_values_of_the_moment_are_no_differences(sender):
    assert "now_tcp_rtt_us" not in sender.own
    assert sender.own["tcp_segs_in"] == 512
    # A bucket of a histogram appears with its first transaction.
    later = edge(SECOND_NS, latency_bucket_7=3)
    assert counters.growth((edge(0), later), "sender")["latency_bucket_7"] == 3


def test_sample_columns_say_what_each_sample_carried(sender):
    columns = counters.sample_columns({"sender": sender.edges, "receiver": sender.edges})

    assert columns["sender_tx_packets"] == [1000]
    assert columns["receiver_rx_bytes"] == [60_000]
    assert columns["tcp_rwnd_limited_us"] == [1_000_000]
    assert "tcp_sndbuf_limited_us" not in columns
