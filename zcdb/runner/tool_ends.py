"""Trials whose ends are foreign tools: started, stopped, and their record put right.

The bench treats such a trial as any other; what nobody can see of a foreign
process (its calls, its completions) is taken out of the record here, with the
reason, and the tool's own report is added and held against ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from zcdb.errors import EngineError
from zcdb.factors import Factors
from zcdb.ids import Json
from zcdb.records import ENDS, End, Flag, MetricValue, SampleSeries
from zcdb.runner.cpus import Placement
from zcdb.runner.execute import Measured, Timing
from zcdb.runner.hosts import Host
from zcdb.runner.traffic import START_TIMEOUT_S, Started, Traffic
from zcdb.tools import command
from zcdb.tools.model import UNSEEN_COUNTS, ToolOptions
from zcdb.tools.registry import TOOLS, is_foreign
from zcdb.tools.report import comparison, disagrees, read_report

STOP_TIMEOUT_S = 40.0
"""A tool ends by itself up to two seconds after the window, or is given ten more."""

REPORTING = ("iperf3", "netperf")
"""Tools whose output the importers read."""

UNSEEN = "the calls of a foreign tool cannot be counted from outside"
ABSENT_END = "nothing that zcdb started runs at this end"
NOT_IN_SOCKETS = "the tool's connections come and go; what they sent was not added up"


@dataclass(frozen=True, slots=True)
class ToolTraffic(Traffic):
    """Starts and stops a foreign tool's ends.

    Attributes:
        factors: of the case; they say which tool.
        timing: of the trial: a tool is told for how long to run.
    """

    factors: Factors = field(kw_only=True)
    timing: Timing = field(kw_only=True)

    @classmethod
    def over(cls, traffic: Traffic, factors: Factors, timing: Timing) -> ToolTraffic:
        """Return the same ends' traffic, made by a tool."""
        # No token: a foreign tool could not show it.
        return cls(
            traffic.hosts, traffic.soaking, {}, traffic.ports, factors=factors, timing=timing
        )

    def start(self, factors: Factors, placement: Placement, pacing_bps: int = 0) -> Started:
        """Start the server, then the client, and wait until bytes arrive.

        Raises:
            ZcdbError: if one of them cannot start, or no byte arrives.
        """
        if pacing_bps:
            raise EngineError(
                f"{factors['tool']} cannot be held to {pacing_bps} bit/s by pacing, and this"
                " kernel has no queueing discipline that could do it"
            )
        server, client = _in_order(factors)
        started: Started = {}
        if _has_own_receiver(factors):
            ports, started["receiver"] = self._start_own_receiver(factors, placement)
        else:
            ports, started[server] = self._start_tool(server, factors, placement, ())
        _, started[client] = self._start_tool(client, factors, placement, ports)
        self.hosts[client].agent.request("go", end=client)
        if started["receiver"]["effective"].get("payload_counting") != "whole":
            receiving = self._await_flow()
            if _has_own_receiver(factors):
                started["receiver"] = {**started["receiver"], "effective": receiving["effective"]}
        return started

    def stop(self) -> dict[End, Mapping[str, Any]]:
        """Stop the client, or wait for its end, then the server; return what each says."""
        ended: dict[End, Mapping[str, Any]] = {}
        for end in reversed(_in_order(self.factors)):
            is_own = end == "receiver" and _has_own_receiver(self.factors)
            op = "stop" if is_own else "stop_tool"
            ended[end] = self.hosts[end].agent.request(op, STOP_TIMEOUT_S, end=end)
        return ended

    def _start_own_receiver(
        self, factors: Factors, placement: Placement
    ) -> tuple[Sequence[int], Mapping[str, Any]]:
        options = self._receiver_options(_as_own_receiver(factors), placement)
        answer = self.hosts["receiver"].agent.request(
            "start_receiver", START_TIMEOUT_S, options=asdict(options)
        )
        return answer["ports"], {"effective": answer["effective"], "differences": []}

    def _start_tool(
        self, end: End, factors: Factors, placement: Placement, ports: Sequence[int]
    ) -> tuple[Sequence[int], Mapping[str, Any]]:
        server, _ = _in_order(factors)
        options = ToolOptions(
            end=end,
            factors=factors,
            address=self.hosts[server].addresses_of(factors)[0],
            own_address=self.hosts[end].addresses_of(factors)[0],
            interface=self.hosts[end].interfaces[0],
            ports=tuple(ports),
            port_range=self.ports,
            run_ns=self.timing.discard_ns + self.timing.duration_ns,
            discard_ns=self.timing.discard_ns,
            **self._place(end, placement),
        )
        answer = self.hosts[end].agent.request(
            "start_tool", START_TIMEOUT_S, options=cast(Json, asdict(options))
        )
        return answer["ports"], {
            "effective": answer["effective"],
            "differences": answer["differences"],
        }


def traffic(own: Traffic, factors: Factors, timing: Timing) -> Traffic:
    """Return what starts and stops the ends of a case: a tool's, or zcdb's own."""
    return ToolTraffic.over(own, factors, timing) if is_foreign(factors) else own


def unsupported(host: Host, end: End, factors: Factors) -> str | None:
    """Return why an end of a case cannot run on its host, or None."""
    reason: str | None
    if is_foreign(factors):
        reason = host.agent.request("tool_unsupported", end=end, factors=factors)
    else:
        reason = host.agent.request("unsupported", factors=factors)
    return reason


def as_endpoints(factors: Factors) -> Factors:
    """Return a case's factors as the books of zcdb's own endpoints are to take them.

    Of a tool there are the counters of a stream, and of a command nothing says which calls it
    makes, whatever the case states.
    """
    if not is_foreign(factors):
        return factors
    api = "a foreign command" if factors["tool"] == command.TOOL.name else factors["api"]
    return {**factors, "api": api, "test": "stream", "working_set": "hot"}


def _as_own_receiver(factors: Factors) -> Factors:
    """Return the factors that zcdb's own receiver needs to take what a command sends."""
    return {**factors, "api": "write", "working_set": "hot"}


def _has_own_receiver(factors: Factors) -> bool:
    return factors["tool"] == command.TOOL.name and command.has_own_receiver(factors)


def _in_order(factors: Factors) -> tuple[End, End]:
    """Return the server's end and the client's; a command that fetches is the client."""
    server = TOOLS[str(factors["tool"])].server_end
    if factors["tool"] == command.TOOL.name and command.has_own_sender(factors):
        server = "sender"
    return server, "receiver" if server == "sender" else "sender"


# -- the record -------------------------------------------------------------------------------


def finished(
    measured: Measured, factors: Factors, started: Started, ended: Mapping[End, Mapping[str, Any]]
) -> Measured:
    """Return a tool's trial as it is recorded.  Pure; a trial of zcdb's own comes back as it is.

    Args:
        measured: as `assemble` made it from the ends' edges.
    """
    if not is_foreign(factors):
        return measured
    counting = {end: started[end]["effective"].get("payload_counting", "endpoint") for end in ENDS}
    measured = _without_unseen(measured, counting)
    if counting["receiver"] == "whole":
        measured = _over_run(measured, ended["receiver"]["report"])
    if factors["test"] != "stream":
        measured = _as_exchange(measured, factors)
    return _with_report(measured, factors, counting, ended)


def _without_unseen(measured: Measured, counting: Mapping[End, str]) -> Measured:
    """Take out what stands in the record only because an endpoint would have counted it."""
    sees_sender = counting["sender"] in ("sockets-to", "sockets-at")
    reasons = {"call_rate": UNSEEN, "copied_share": UNSEEN}
    if not sees_sender:
        reasons |= {"sent_throughput": NOT_IN_SOCKETS, "retransmits": NOT_IN_SOCKETS}
    values = [
        MetricValue(value.metric, value.method, None, reasons[value.metric])
        if value.metric in reasons
        else value
        for value in measured.measurements
    ]
    if counting["sender"] == "absent":
        values = [_without_process(value) for value in values]
    columns = dict(measured.samples.columns)
    gone = [*UNSEEN_COUNTS, *(() if sees_sender else ("sent_bytes", "retransmits"))]
    for name in gone:
        if name in columns:
            columns[name] = [None] * len(columns[name])
    flags = measured.flags
    if not sees_sender:
        flags = [flag for flag in flags if flag.code != "retransmits"]
    return replace(
        measured,
        measurements=values,
        samples=SampleSeries(columns),
        counts=_counts_without(measured.counts, counting),
        flags=flags,
    )


def _without_process(value: MetricValue) -> MetricValue:
    if value.method == "rusage" and value.metric.endswith("_sender"):
        return MetricValue(value.metric, value.method, None, ABSENT_END)
    return value


def _counts_without(counts: Mapping[str, Json], counting: Mapping[End, str]) -> dict[str, Json]:
    kept = dict(counts)
    for part in ("window", "totals"):
        by_end = cast(Mapping[str, Mapping[str, Json]], counts.get(part) or {})
        kept[part] = {
            end: {
                name: value
                for name, value in values.items()
                if counting.get(cast(End, end)) == "endpoint" or name not in UNSEEN_COUNTS
            }
            for end, values in by_end.items()
        }
    return kept


def _over_run(measured: Measured, report: Mapping[str, Any]) -> Measured:
    """Make rates of a command that was measured whole span its run, not the window around it."""
    started_ns, ended_ns = report["started_ns"], report["ended_ns"]
    if not started_ns or not ended_ns or ended_ns <= started_ns:
        return measured
    scale = measured.window_ns / (ended_ns - started_ns)
    values = [
        replace(value, value=value.value * scale)
        if value.value is not None and _is_rate(value.metric)
        else value
        for value in measured.measurements
    ]
    return replace(measured, measurements=values)


def _is_rate(metric: str) -> bool:
    return metric == "throughput" or metric.startswith(("utilisation_", "contention_"))


_EXCHANGE_ROLES: Mapping[End, str] = {"sender": "client", "receiver": "server"}
NOT_A_STREAM = "an exchange of requests and responses is not counted in bytes"


def _as_exchange(measured: Measured, factors: Factors) -> Measured:
    """Make transactions of the requests' bytes that the server took."""
    window = cast(Mapping[str, Mapping[str, int]], measured.counts["window"])
    requests_bytes = window["receiver"]["payload_bytes"]
    transactions = requests_bytes / (_request_bytes(factors) or 1)
    window_s = measured.window_ns / 10**9
    values = [MetricValue("transaction_rate", "", transactions / window_s)]
    for value in measured.measurements:
        name, _, end = value.metric.rpartition("_")
        if value.metric in ("throughput", "sent_throughput") or name == "service_demand":
            values.append(MetricValue(value.metric, value.method, None, NOT_A_STREAM))
            continue
        values.append(value)
        if name == "utilisation":
            role = _EXCHANGE_ROLES[cast(End, end)]
            values.append(replace(value, metric=f"utilisation_{role}"))
            values.append(_transaction_demand(role, value, window_s, transactions))
    return replace(measured, measurements=values)


def _transaction_demand(
    role: str, utilisation: MetricValue, window_s: float, transactions: float
) -> MetricValue:
    metric = f"transaction_demand_{role}"
    if utilisation.value is None:
        return replace(utilisation, metric=metric)
    if not transactions:
        return MetricValue(metric, utilisation.method, None, "no transaction ended in the window")
    cost_us = utilisation.value * window_s * 10**6 / transactions
    return MetricValue(metric, utilisation.method, cost_us)


def _with_report(
    measured: Measured,
    factors: Factors,
    counting: Mapping[End, str],
    ended: Mapping[End, Mapping[str, Any]],
) -> Measured:
    """Add what the tool printed, what it says, and how that compares with what we saw."""
    tool = str(factors["tool"])
    reports = {end: dict(ended[end]["report"]) for end in ENDS if "report" in ended[end]}
    kept: dict[str, Json] = {"name": tool, "ends": cast(Json, reports)}
    flags = list(measured.flags)
    if counting["receiver"] == "interface":
        flags.append(Flag("headers-included"))
    if tool in REPORTING and "sender" in reports:
        report = read_report(tool, reports["sender"]["command"], reports["sender"]["output"])
        compared = comparison(
            report, ended["sender"]["totals"]["payload_bytes"], _request_bytes(factors)
        )
        kept |= {"report": report, "comparison": compared}
        if disagrees(compared):
            detail = f"{compared['metric']}: {tool} {compared['tool']:g}, zcdb {compared['ours']:g}"
            flags.append(Flag("tool-disagrees", detail))
    return replace(measured, counts={**measured.counts, "tool": kept}, flags=flags)


def _request_bytes(factors: Factors) -> int | None:
    return int(factors.get("request_size") or 1) if factors["test"] != "stream" else None
