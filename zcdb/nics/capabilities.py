"""The registry of capabilities: what is asked of every driver, and what answers it.

A capability is a flag of the net_device, a bit in an ops table, a callback or
a call.  The tables of pages and data files are written from here; a name that
is not here is refused everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["feature", "xdp", "timestamp", "ops", "coalesce", "call", "queues"]


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing a driver can or cannot do.

    Attributes:
        kind: which rule of the scanner decides it.
        token: the kernel's name that a driver must use to have it.
        why: why it matters for moving bytes without copying them.
    """

    key: str
    title: str
    kind: Kind
    token: str
    why: str


def _feature(key: str, title: str, flag: str, why: str) -> Capability:
    return Capability(key, title, "feature", f"NETIF_F_{flag}", why)


CAPABILITIES: dict[str, Capability] = {
    capability.key: capability
    for capability in [
        _feature("sg", "Scatter-gather", "SG", "without it every sendfile is copied"),
        _feature("ip_csum", "TX checksum, TCP/UDP over IPv4", "IP_CSUM", "SG needs a TX checksum"),
        _feature("ipv6_csum", "TX checksum, TCP/UDP over IPv6", "IPV6_CSUM", "the same for IPv6"),
        _feature("hw_csum", "TX checksum, any protocol", "HW_CSUM", "SG needs a TX checksum"),
        _feature("rxcsum", "RX checksum", "RXCSUM", "else the CPU reads every byte it receives"),
        _feature("tso", "TCP segmentation, IPv4", "TSO", "one descriptor chain per 64 KiB"),
        _feature("tso6", "TCP segmentation, IPv6", "TSO6", "the same for IPv6"),
        _feature("tso_ecn", "TCP segmentation with ECN", "TSO_ECN", "TSO for ECN connections"),
        _feature("gso_partial", "Partial GSO", "GSO_PARTIAL", "TSO inside tunnels"),
        _feature("uso", "UDP segmentation", "GSO_UDP_L4", "QUIC's counterpart of TSO"),
        _feature("lro", "Large receive offload", "LRO", "fewer, larger receive buffers"),
        _feature("gro_hw", "Hardware GRO", "GRO_HW", "LRO that can be undone when forwarding"),
        _feature("rxhash", "Receive hash", "RXHASH", "steers flows to CPUs"),
        _feature("ntuple", "n-tuple filters", "NTUPLE", "steers a flow to the queue of zcrx"),
        _feature("hw_tc", "TC offload", "HW_TC", "moves packets without the CPU"),
        _feature("tls_tx", "kTLS, transmit", "HW_TLS_TX", "sendfile with TLS stays zero-copy"),
        _feature("tls_rx", "kTLS, receive", "HW_TLS_RX", "decrypts in place"),
        _feature("macsec", "MACsec", "HW_MACSEC", "encrypts without touching the bytes"),
        _feature("highdma", "DMA above 4 GiB", "HIGHDMA", "else high pages are bounced, a copy"),
        _feature("loopback", "Loopback mode", "LOOPBACK", "lets a card be tested alone"),
        Capability(
            "xdp", "XDP, native", "xdp", "NETDEV_XDP_ACT_BASIC", "packets before any skb exists"
        ),
        Capability(
            "xsk_zc",
            "AF_XDP zero copy",
            "xdp",
            "NETDEV_XDP_ACT_XSK_ZEROCOPY",
            "user memory is the ring's memory",
        ),
        Capability(
            "hwts_tx",
            "Hardware time stamps, TX",
            "timestamp",
            "SOF_TIMESTAMPING_TX_HARDWARE",
            "one-way delay",
        ),
        Capability(
            "hwts_rx",
            "Hardware time stamps, RX",
            "timestamp",
            "SOF_TIMESTAMPING_RX_HARDWARE",
            "one-way delay",
        ),
        Capability(
            "coal_rx_usecs",
            "Interrupt mitigation, RX",
            "coalesce",
            "ETHTOOL_COALESCE_RX_USECS",
            "interrupts per packet decide the cost of small transfers",
        ),
        Capability(
            "coal_tx_usecs",
            "Interrupt mitigation, TX",
            "coalesce",
            "ETHTOOL_COALESCE_TX_USECS",
            "completions per interrupt",
        ),
        Capability(
            "coal_adaptive_rx",
            "Adaptive mitigation, RX",
            "coalesce",
            "ETHTOOL_COALESCE_USE_ADAPTIVE_RX",
            "mitigation without tuning",
        ),
        Capability(
            "mq_alloc", "More than one queue", "queues", "alloc_etherdev_mqs", "one queue per CPU"
        ),
        Capability(
            "rss_indir", "RSS table readable", "ops", "get_rxfh", "keeps queues free for zcrx"
        ),
        Capability("bql", "Byte queue limits", "call", "sent_queue", "latency under load"),
        Capability(
            "page_pool", "Page pool", "call", "page_pool_create", "recycles receive pages; devmem"
        ),
        Capability(
            "tcp_data_split",
            "Header/data split",
            "ops",
            "ETHTOOL_RING_USE_TCP_DATA_SPLIT",
            "payload lands in pages of its own: zero-copy receive",
        ),
        Capability(
            "queue_mgmt",
            "Queue API",
            "feature",
            "queue_mgmt_ops",
            "devmem TCP and io_uring zcrx restart single queues",
        ),
        Capability(
            "netmem_tx", "TX from device memory", "feature", "netmem_tx", "devmem TCP, transmit"
        ),
        Capability("ring_set", "Ring size settable", "ops", "set_ringparam", "bursts"),
        Capability("sriov", "SR-IOV", "ops", "sriov_configure", "a card per guest"),
    ]
}
"""Key -> capability, in the order of pages and data files."""
