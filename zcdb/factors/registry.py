"""The registry of factors: every one that has a name of its own.

Settings that have none here are factors too; see `zcdb.factors.settings`.
"""

from __future__ import annotations

from zcdb.factors.model import ABSENT, Factor
from zcdb.factors.settings import setting_factor

MESSAGE_SIZE_LIMIT_BYTES = 16 * 1024 * 1024


def _observed(name: str, label: str, help: str, follows: str | None = None) -> list[Factor]:
    return [
        Factor(
            f"{end}_{name}",
            "environment",
            "text",
            f"{label} ({end})",
            help,
            default=ABSENT,
            follows=f"{end}_{follows}" if follows else None,
        )
        for end in ("sender", "receiver")
    ]


def _switch(name: str, label: str, help: str) -> Factor:
    return Factor(name, "tuning", "switch", label, help, default=ABSENT, is_setting=True)


class _Registry(dict[str, Factor]):
    """Iterates over the factors with a name of their own; finds settings by dotted names too."""

    def __missing__(self, name: str) -> Factor:
        factor = setting_factor(name, self)
        if factor is None:
            raise KeyError(name)
        return factor

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (
            isinstance(name, str) and setting_factor(name, self) is not None
        )


FACTORS: dict[str, Factor] = _Registry(
    (factor.name, factor)
    for factor in [
        Factor(
            "test",
            "workload",
            "choice",
            "Test",
            "What the two ends do: move bytes one way (stream), exchange requests and responses"
            " over one connection (rr), or open one for each exchange (crr).",
            default="stream",
            choices=("stream", "rr", "crr"),
        ),
        Factor(
            "api",
            "workload",
            "choice",
            "API",
            "How the sender moves bytes into the socket.",
            choices=(
                "write",
                "send",
                "sendmsg",
                "read_write",
                "sendfile",
                "splice",
                "msg_zerocopy",
                "io_uring_send",
                "io_uring_send_zc",
                "mixed",
                "nfs_read",
                "receive",
                "send_or_write",
            ),
        ),
        Factor(
            "message_size",
            "workload",
            "size",
            "Message size",
            "Bytes the sender hands over in one call.",
            default=65536,
            minimum=1,
            maximum=MESSAGE_SIZE_LIMIT_BYTES,
        ),
        Factor(
            "rx_api",
            "workload",
            "choice",
            "Receive API",
            "How the receiver takes bytes from the socket.",
            default="recv",
            choices=("recv", "recv_trunc", "splice_null", "zerocopy_receive", "io_uring_recv"),
        ),
        Factor(
            "receive_size",
            "workload",
            "size",
            "Receive size",
            "Bytes the receiver asks for in one call.",
            default=262144,
            minimum=1,
            maximum=MESSAGE_SIZE_LIMIT_BYTES,
        ),
        Factor(
            "working_set",
            "workload",
            "text",
            "Working set",
            "What the sender sends: 'hot' (one buffer, or the same file pages again),"
            " a size in bytes that it walks through, or a set of files in the page cache.",
            default="hot",
        ),
        Factor(
            "fragments",
            "workload",
            "integer",
            "Fragments",
            "Pieces that one sendmsg call gathers a message from.",
            default=1,
            minimum=1,
            maximum=1024,
        ),
        Factor(
            "streams",
            "workload",
            "integer",
            "Streams",
            "TCP connections that move bytes at once.",
            default=1,
            minimum=1,
            maximum=256,
        ),
        Factor(
            "processes",
            "workload",
            "integer",
            "Processes",
            "Processes at each end that the streams are spread over.",
            default=1,
            minimum=1,
            maximum=256,
        ),
        Factor(
            "request_size",
            "workload",
            "size",
            "Request size",
            "Bytes of a request; rr and crr only, 1 byte unless stated.",
            default=ABSENT,
            minimum=1,
            maximum=MESSAGE_SIZE_LIMIT_BYTES,
        ),
        Factor(
            "response_size",
            "workload",
            "size",
            "Response size",
            "Bytes of a response; rr and crr only, 1 byte unless stated.",
            default=ABSENT,
            minimum=1,
            maximum=MESSAGE_SIZE_LIMIT_BYTES,
        ),
        Factor(
            "burst",
            "workload",
            "integer",
            "Burst",
            "Requests in flight beyond the first.",
            default=0,
            maximum=65536,
        ),
        Factor(
            "api_mix",
            "workload",
            "text",
            "API mix",
            "Shares of the streams by API where api is mixed: { sendfile = 3, write = 1 }.",
            default=ABSENT,
        ),
        Factor(
            "page_cache",
            "workload",
            "choice",
            "Page cache",
            "Whether the files are in the page cache (warm) or come from disk (cold).",
            default="warm",
            choices=("warm", "cold"),
        ),
        Factor(
            "call_work",
            "workload",
            "integer",
            "Work per call",
            "Nanoseconds of CPU that the sender burns before each call: a known load, to test the"
            " method with.",
            default=0,
            maximum=10**9,
        ),
        Factor(
            "bidirectional",
            "workload",
            "boolean",
            "Both directions",
            "Whether data moves in both directions at once.",
            default=False,
        ),
        Factor(
            "target_rate",
            "workload",
            "rate",
            "Target rate",
            "Rate that the sender is told to keep; 0 is as fast as it goes.",
            default=0,
        ),
        Factor(
            "twin",
            "workload",
            "integer",
            "Twin",
            "Number of an A/A twin: the same case under another name; 0 is the case itself.",
            default=0,
            maximum=1000,
        ),
        Factor(
            "tool",
            "workload",
            "text",
            "Tool",
            "What moves the bytes: zcdb itself, or a foreign tool.",
            default="zcdb",
        ),
        Factor(
            "command",
            "workload",
            "text",
            "Command",
            "Command line of a foreign tool, where the tool is any command.",
            default=ABSENT,
        ),
        Factor(
            "receiver_command",
            "workload",
            "text",
            "Receiver's command",
            "Command line that runs at the receiver, where the tool is any command; zcdb's own"
            " receiver unless stated.",
            default=ABSENT,
        ),
        Factor(
            "command_bytes",
            "workload",
            "text",
            "Bytes of the command",
            "How the payload of a receiver's command is known: 'sockets', 'written', 'interface',"
            " a size that each run moves, or 'pattern:' and a regular expression on its output.",
            default=ABSENT,
        ),
        Factor(
            "latency_kind",
            "workload",
            "choice",
            "Latency kind",
            "What a latency spans: there and back, half of that, one way, or one call.",
            default=ABSENT,
            choices=("rtt", "half_rtt", "one_way", "per_call"),
        ),
        Factor(
            "rsize",
            "workload",
            "size",
            "NFS read size",
            "Bytes that an NFS client asks for at once.",
            default=ABSENT,
            minimum=1,
        ),
        Factor(
            "wsize",
            "workload",
            "size",
            "NFS write size",
            "Bytes that an NFS client writes at once.",
            default=ABSENT,
            minimum=1,
        ),
        Factor(
            "tcp_cork",
            "tuning",
            "boolean",
            "TCP_CORK",
            "Whether the sender's socket sends full segments only.",
            default=False,
        ),
        Factor(
            "tcp_nodelay",
            "tuning",
            "boolean",
            "TCP_NODELAY",
            "Whether the sender's socket sends small segments at once.",
            default=False,
        ),
        Factor(
            "sndbuf",
            "tuning",
            "size",
            "SO_SNDBUF",
            "Send buffer asked for, in bytes; 0 leaves it to the kernel's autotuning.",
            default=0,
            maximum=2**31 - 1,
        ),
        Factor(
            "rcvbuf",
            "tuning",
            "size",
            "SO_RCVBUF",
            "Receive buffer asked for, in bytes; 0 leaves it to the kernel's autotuning.",
            default=0,
            maximum=2**31 - 1,
        ),
        Factor(
            "pinning",
            "tuning",
            "text",
            "Pinning",
            "CPUs of the two ends: 'none', 'same' CPU, 'separate' CPUs,"
            ' or { sender = "0", receiver = "1-3" }.',
            default="separate",
        ),
        Factor(
            "congestion_control",
            "tuning",
            "text",
            "Congestion control",
            "TCP_CONGESTION of both ends' sockets; 'default' leaves the kernel's.",
            default="default",
        ),
        Factor(
            "pacing_rate",
            "tuning",
            "rate",
            "Pacing rate",
            "SO_MAX_PACING_RATE of the sender's socket in bit/s; 0 is no limit.",
            default=0,
        ),
        _switch("sg", "Scatter-gather", "The interface gathers a packet from several pieces."),
        _switch("tx_checksum", "Transmit checksum", "The interface computes checksums it sends."),
        _switch("rx_checksum", "Receive checksum", "The interface checks checksums it receives."),
        _switch("tso", "TSO", "The interface cuts large segments into packets."),
        _switch("gso", "GSO", "The kernel cuts large segments just before the driver."),
        _switch("gro", "GRO", "The kernel joins received packets."),
        _switch("lro", "LRO", "The interface joins received packets."),
        _switch(
            "tx_nocache_copy",
            "No-cache copy",
            "The kernel copies payload with stores that go past the cache.",
        ),
        Factor(
            "mtu",
            "tuning",
            "integer",
            "MTU",
            "Bytes of the largest packet of the interface.",
            default=ABSENT,
            minimum=68,
            maximum=2**31 - 1,
            is_setting=True,
        ),
        Factor(
            "link_rate",
            "tuning",
            "rate",
            "Link rate",
            "Rate that a token bucket holds the sender's interface to.",
            default=ABSENT,
            minimum=8000,
            is_setting=True,
        ),
        Factor(
            "link_burst",
            "tuning",
            "size",
            "Link burst",
            "Burst of that token bucket; 128 KiB unless stated.",
            default=ABSENT,
            minimum=1,
            is_setting=True,
        ),
        Factor(
            "tcp_wmem",
            "tuning",
            "text",
            "tcp_wmem",
            "net.ipv4.tcp_wmem: smallest, first and largest send buffer in bytes.",
            default=ABSENT,
            is_setting=True,
        ),
        Factor(
            "tcp_rmem",
            "tuning",
            "text",
            "tcp_rmem",
            "net.ipv4.tcp_rmem: smallest, first and largest receive buffer in bytes.",
            default=ABSENT,
            is_setting=True,
        ),
        Factor(
            "irq_placement",
            "tuning",
            "text",
            "IRQ placement",
            "CPUs that may serve the interface's interrupts.",
            default=ABSENT,
            is_setting=True,
        ),
        Factor(
            "governor",
            "tuning",
            "text",
            "Governor",
            "Frequency governor of all CPUs.",
            default=ABSENT,
            is_setting=True,
        ),
        Factor(
            "udp_segment",
            "tuning",
            "boolean",
            "UDP_SEGMENT",
            "Whether a UDP sender hands over many datagrams in one call.",
            default=False,
        ),
        Factor(
            "mss",
            "tuning",
            "size",
            "MSS",
            "TCP maximum segment size asked for; 0 leaves it to the path.",
            default=0,
            maximum=65535,
        ),
        Factor(
            "verify",
            "workload",
            "boolean",
            "Verify payload",
            "Whether the receiver compares every byte with a position-dependent pattern.",
            default=False,
        ),
        Factor(
            "link",
            "protocol",
            "choice",
            "Link",
            "What is between the two ends.",
            choices=("loopback", "veth", "hosts"),
            default="loopback",
        ),
        Factor(
            "interfaces",
            "protocol",
            "integer",
            "Interfaces",
            "Interfaces of each end that the streams are spread over.",
            default=1,
            minimum=1,
            maximum=16,
        ),
        Factor(
            "protocol",
            "protocol",
            "choice",
            "Protocol",
            "Transport protocol.",
            default="tcp",
            choices=("tcp", "udp", "sctp"),
        ),
        Factor(
            "address_family",
            "protocol",
            "choice",
            "Address family",
            "IPv4 (inet) or IPv6 (inet6).",
            default="inet",
            choices=("inet", "inet6"),
        ),
        *_observed("kernel", "Kernel", "Kernel release, as uname says."),
        *_observed("cpu", "CPU", "CPU model name."),
        *_observed("nic", "NIC", "Network interface: chip name, or the kind of a virtual one."),
        *_observed("driver", "Driver", "Kernel driver of the interface.", follows="nic"),
        *_observed("driver_version", "Driver version", "Its version.", follows="nic"),
        *_observed("link_speed", "Link speed", "Speed of the interface in bit/s.", follows="nic"),
        *_observed("os", "System", "Operating system, where it is not Linux."),
        *_observed("cpus", "CPUs", "Number of CPUs of the machine.", follows="cpu"),
        *_observed("memory", "Memory", "Memory of the machine, as stated.", follows="cpu"),
    ]
)

_BY_ALIAS = {alias: factor for factor in FACTORS.values() for alias in factor.aliases}


def find(name: str) -> Factor | None:
    """Return the factor of this name or alias, or None."""
    return FACTORS[name] if name in FACTORS else _BY_ALIAS.get(name)
