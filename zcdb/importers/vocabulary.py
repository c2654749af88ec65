"""The words of the importers: flags they raise, metrics and factors they fill, CPU methods.

Each tool's own names stand here once, beside ours.  Metrics and factors that
the registries do not have yet are listed with all that the registry needs,
so that moving them there is copying a line.
"""

from __future__ import annotations

from typing import Final

IMPORT_FLAGS: dict[str, str] = {
    "measured-at-sender": "The tool printed only the sender's own figure: what was handed to the"
    " kernel in the time, not what arrived.",
    "end-unknown": "The text does not say which end printed this figure.",
    "incomplete": "The run did not end by itself, or the text is cut.",
    "confidence-not-met": "The confidence that was asked for was not reached.",
    "cpu-not-believable": "A CPU figure is impossible (negative, or more than the machine has):"
    " left out.",
    "cpu-method-unknown": "The tool does not know how it measured CPU time: the figure is left"
    " out.",
    "cpu-count-not-whole": "Service demand and utilisation do not give a whole number of CPUs:"
    " an interval ended early, or something else ran.",
    "process-cpu": "CPU time of the tool's own process only: no service demand can be made"
    " from it.",
    "unit-mislabelled": "The unit the tool prints is not the unit of the number; the real one"
    " was used.",
    "unit-from-command": "The text gives no unit; it was taken from the command line.",
    "rate-contradicts": "The printed rate and the printed amount over the printed time differ by"
    " more than rounding.",
    "sum-row-wrong": "The printed sum is not the sum of its rows: the rows were used.",
    "both-directions": "The figure adds both directions.",
    "columns-differ": "A row has more or fewer values than there are column names.",
    "columns-assumed": "The column names are cut off: the usual order was assumed.",
    "banner-unknown": "Several tests were announced before their results: which result belongs"
    " to which peer is not known.",
    "test-assumed": "The text does not name the test: it was told from the columns.",
    "streams-assumed": "Rows of one moment were taken as streams of one run; the text does not"
    " say so.",
    "duplicate-keys": "A key occurs more than once in one object: the last value was taken.",
    "not-a-number": "A value is nan or inf: read as not measured.",
    "foreign-text": "Other text stands inside or around the output.",
    "tool-warning": "The tool itself warned.",
    "received-exceeds-sent": "More bytes arrived than were sent in the window: omitted seconds"
    " straggle into the receiver's count.",
    "loss-impossible": "More datagrams lost than sent: the loss and what follows from it are"
    " left out.",
    "jitter-not-believable": "A jitter of many seconds is an uninitialised start value.",
    "datagrams-contradict": "The printed count of datagrams does not fit the printed bytes.",
    "few-observations": "Too few observations for the higher percentiles: they are left out.",
    "rate-rising": "The rate was still rising at the end: the start-up is inside the average.",
    "clock-missing": "The tool wrote no time of day.",
    "multiplexed": "Counters shared the hardware and were scaled up: estimates.",
    "counts-vary": "Repeated runs differ by more than a tenth.",
    "since-boot": "Averages since boot, not of a test.",
    "interface-unknown": "The text does not name the interface.",
    "api-unknown": "The text does not say which call moved the bytes; the command line would.",
    "locale": "Numbers use another country's separators.",
}
"""Flag code -> sentence; besides the flags of `zcdb.flags`."""

COUNTS: Final = frozenset({"streams", "intervals", "samples", "rows", "records", "interim_count"})
"""Details that count rows of the text."""

METRICS_WANTED: dict[str, tuple[str, str, str]] = {
    "transaction_rate": ("1/s", "higher", "Requests answered per second."),
    "message_rate": ("1/s", "higher", "Messages per second that the sender sent."),
    "packet_rate": ("1/s", "neither", "Datagrams per second that the tool counted."),
    "transaction_demand_client": (
        "us/transaction",
        "lower",
        "CPU time per transaction at the client; has a CPU method.",
    ),
    "transaction_demand_server": (
        "us/transaction",
        "lower",
        "CPU time per transaction at the server; has a CPU method.",
    ),
    "utilisation_client": ("CPUs", "lower", "CPU-seconds per second at the client."),
    "utilisation_server": ("CPUs", "lower", "CPU-seconds per second at the server."),
    "latency_min": ("s", "lower", "Shortest latency; its kind is the factor latency_kind."),
    "latency_mean": ("s", "lower", "Mean latency."),
    "latency_max": ("s", "lower", "Longest latency."),
    "latency_stddev": ("s", "lower", "Standard deviation of the latency."),
    "latency_p*": ("s", "lower", "Percentile of the latency: p50, p99, p99_9, p99_999."),
    "tcp_rtt": ("s", "neither", "Mean of the round-trip time that TCP itself estimates."),
    "jitter": ("s", "lower", "Mean deviation of the packet spacing, RFC 1889."),
    "loss": ("ratio", "lower", "Datagrams lost over datagrams sent."),
}
"""Metric that the importers fill and the registry lacks -> unit, better direction, help."""

FACTORS_WANTED: dict[str, tuple[str, str]] = {
    "protocol": ("choice", "Transport: tcp, udp, sctp."),
    "request_size": ("size", "Bytes of a request."),
    "response_size": ("size", "Bytes of a response."),
    "latency_kind": ("choice", "What a latency spans: rtt, half_rtt, one_way, per_call."),
    "bidirectional": ("boolean", "Whether data moved in both directions at once."),
    "burst": ("integer", "Requests in flight beyond the first."),
    "mss": ("size", "TCP maximum segment size."),
    "address_family": ("choice", "inet or inet6."),
    "target_rate": ("rate", "Rate the sender was told to keep."),
}
"""Factor that the importers fill and the registry lacks -> type, help."""

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


def wanted_unit(metric: str) -> str:
    """Return the base unit of a metric that the registry lacks."""
    if metric.startswith("latency_p"):
        return METRICS_WANTED["latency_p*"][0]
    return METRICS_WANTED[metric][0]
