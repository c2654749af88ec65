"""The words of the importers: each tool's own names, once, beside the registry's."""

from __future__ import annotations

from typing import Final

COUNTS: Final = frozenset({"streams", "intervals", "samples", "rows", "records", "interim_count"})
"""Details that count rows of the text."""

NETPERF_CPU_METHODS: dict[str, str] = {"S": "procstat", "L": "soak_work"}
"""netperf's letter -> our CPU method.

S reads /proc/stat; L counts what idle-priority loops have left, the formula of
2001.  The other letters are kernels zcdb does not run on: their method keeps
netperf's letter, `netperf-K`."""

NETPERF_TITLES: dict[str, str] = {
    "throughput": "THROUGHPUT",
    "throughput units": "THROUGHPUT_UNITS",
    "elapsed time (sec)": "ELAPSED_TIME",
    "elapsed time (seconds)": "ELAPSED_TIME",
    "protocol": "PROTOCOL",
    "direction": "DIRECTION",
    "local send size": "LOCAL_SEND_SIZE",
    "local recv size": "LOCAL_RECV_SIZE",
    "remote send size": "REMOTE_SEND_SIZE",
    "remote recv size": "REMOTE_RECV_SIZE",
    "request size bytes": "REQUEST_SIZE",
    "response size bytes": "RESPONSE_SIZE",
    "local cpu util %": "LOCAL_CPU_UTIL",
    "remote cpu util %": "REMOTE_CPU_UTIL",
    "local cpu util method": "LOCAL_CPU_METHOD",
    "remote cpu util method": "REMOTE_CPU_METHOD",
    "local cpu count": "LOCAL_CPU_COUNT",
    "remote cpu count": "REMOTE_CPU_COUNT",
    "local service demand": "LOCAL_SD",
    "remote service demand": "REMOTE_SD",
    "service demand units": "SD_UNITS",
    "local transport retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "remote transport retransmissions": "REMOTE_TRANSPORT_RETRANS",
    "throughput confidence width (%)": "THROUGHPUT_CONFID",
    "local cpu confidence width (%)": "LOCAL_CPU_CONFID",
    "remote cpu confidence width (%)": "REMOTE_CPU_CONFID",
    "confidence iterations run": "CONFIDENCE_ITERATION",
    "confidence level percent": "CONFIDENCE_LEVEL",
    "minimum latency microseconds": "MIN_LATENCY",
    "mean latency microseconds": "MEAN_LATENCY",
    "maximum latency microseconds": "MAX_LATENCY",
    "stddev latency microseconds": "STDDEV_LATENCY",
    "50th percentile latency microseconds": "P50_LATENCY",
    "90th percentile latency microseconds": "P90_LATENCY",
    "95th percentile latency microseconds": "P95_LATENCY",
    "99th percentile latency microseconds": "P99_LATENCY",
    "transaction rate tran/s": "TRANSACTION_RATE",
    "round trip latency usec/tran": "RT_LATENCY",
    "local send throughput": "LOCAL_SEND_THROUGHPUT",
    "remote recv throughput": "REMOTE_RECV_THROUGHPUT",
    "local bytes sent": "LOCAL_BYTES_SENT",
    "remote bytes received": "REMOTE_BYTES_RECVD",
}
"""Title of netperf -o and -O, in small letters -> name of -k."""

NETPERF_LATENCIES: dict[str, str] = {
    "MIN_LATENCY": "latency_min",
    "MEAN_LATENCY": "latency_mean",
    "MAX_LATENCY": "latency_max",
    "STDDEV_LATENCY": "latency_stddev",
    "P50_LATENCY": "latency_p50",
    "P90_LATENCY": "latency_p90",
    "P95_LATENCY": "latency_p95",
    "P99_LATENCY": "latency_p99",
}
"""Name of netperf -k, in microseconds -> metric."""


def netperf_cpu_method(letter: str) -> str:
    """Return the CPU method of netperf's letter behind the percent sign."""
    return NETPERF_CPU_METHODS.get(letter, f"netperf-{letter}")


def percentile_metric(percent: str) -> str:
    """Return the metric of a percentile as printed: "99.900" is latency_p99_9."""
    whole, _, rest = percent.partition(".")
    rest = rest.rstrip("0")
    return f"latency_p{int(whole)}" + (f"_{rest}" if rest else "")
