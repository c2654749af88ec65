"""The real bench: two ends of a link, driven through agents.

Which ends share a host is seen from the boot id, never assumed.  On each host
one agent reads the host's own counters and holds the soakers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from zcdb.engine import books
from zcdb.errors import AgentError, EngineError, HostError, ZcdbError
from zcdb.factors import Factors, FactorValue, file_set, with_defaults
from zcdb.host import facts as host_facts
from zcdb.host.settings import restore_leftovers
from zcdb.ids import Json
from zcdb.records import ENDS, End, Environment, Flag
from zcdb.runner import assemble, preflight, tool_ends
from zcdb.runner.cpus import Placement, place
from zcdb.runner.execute import Measured, Timing
from zcdb.runner.hosts import Connected, Host, LinkForm, Starter
from zcdb.runner.memory import Memory
from zcdb.runner.settings import CaseSettings, Held
from zcdb.runner.traffic import Started, Traffic
from zcdb.runner.windows import Window, agents_of, host_readers, read_window

EFFECT_DURATION_NS = 400_000_000
EFFECT_PAIRS = 3
ARPHRD_LOOPBACK = 772


class LinkBench:
    """A bench over a loopback, veth or hosts link.

    Args:
        link: the link as the experiment file states it.
        cases: the declared factors of the plan's cases; they decide what preflight looks at.
        tell: called with sentences that a person should know.
        holder: who measures, for the host's lock.
        is_waiting: wait for the lock instead of refusing.
        allow_interfaces: interfaces whose settings may be changed although they carry the
            default route or the control connection.
    """

    def __init__(
        self,
        link: LinkForm,
        cases: Sequence[Factors],
        tell: Callable[[str], None],
        *,
        holder: str,
        is_waiting: bool = False,
        allow_interfaces: Sequence[str] = (),
    ) -> None:
        self._link = link
        self._cases = [with_defaults(case) for case in cases]
        self._tell = tell
        self._starter = Starter(link, self._cases, holder, tell, is_waiting=is_waiting)
        self._connected = Connected({})
        self._settings = CaseSettings({}, allow_interfaces, tell)
        self._bracket: dict[End, books.Idle] | None = None
        self._soaking: dict[str, Mapping[str, Any]] = {}
        self._findings: list[preflight.Finding] = []
        # Only the sender of this run may connect to its receiver, where others could try.
        self._token = secrets.token_hex(16)

    @property
    def _hosts(self) -> Mapping[End, Host]:
        return self._connected.hosts

    # -- life -------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the agents, make the link, take the lock, start the soakers, look around.

        Raises:
            ZcdbError: if any of that fails; `close` undoes what was done.
        """
        self._start()
        self._check()

    def _start(self) -> None:
        self._connected = self._starter.start()
        self._settings.attach(self._hosts)
        is_pinned = all(str(case["pinning"]) != "none" for case in self._cases)
        for agent in host_readers(self._hosts):
            cpus = sorted(cpu for core in agent.hello["cores"] for cpu in core)
            self._soaking[agent.hello["boot_id"]] = agent.request(
                "start_soak", cpus=cpus, is_isolated=None if is_pinned else False
            )

    def _check(self) -> None:
        needed = max((_memory_bytes(case) for case in self._cases), default=0)
        apis = frozenset(str(case.get("api", "")) for case in self._cases)
        for host in {host.boot_id: host for host in self._hosts.values()}.values():
            facts: Mapping[str, Any] = host.environment.facts
            self._findings += preflight.check_host(facts, host.readings, needed, apis)
        if self._link.kind == "hosts":
            self._findings += preflight.check_link(
                {end: host.environment.facts.get("interface") for end, host in self._hosts.items()}
            )
        for finding in self._findings:
            if finding.is_fatal:
                raise HostError(finding.sentence)
            self._tell(f"note: {finding.sentence}")

    def close(self) -> None:
        """End all agents; settings are put back, links and processes go with them.  Idempotent.

        An agent puts its settings back when its input ends.  What one could not, because it
        had to be killed, is done here; on another machine its next start does it.
        """
        agents = self._starter.agents
        while agents:
            agents.pop().close()
        if self._hosts:
            for restoration in restore_leftovers():
                if restoration.leftover.state == "left":
                    self._tell(f"note: {restoration.sentence}")
                    for value in restoration.values:
                        self._tell(f"note: {value.sentence}")
        self._connected = Connected({})
        self._bracket = None

    def recover(self) -> None:
        """Stop what a failed trial left running; start anew what has died.

        Raises:
            ZcdbError: if a host is gone, or is not the same any more.
        """
        self._bracket = None
        try:
            for agent in self._starter.agents:
                agent.request("kill")
        except AgentError:
            before = self.environments()
            self.close()
            self._start()
            self._check_same(before)

    def _check_same(self, before: Mapping[End, Environment]) -> None:
        for end, environment in self.environments().items():
            if environment.id != before[end].id:
                raise HostError(
                    f"the {end}'s host came back changed, so the run cannot go on as it was",
                    hint="'zcdb run --resume' goes on with it as it is now",
                )

    # -- what the bench is ------------------------------------------------------------------

    def environments(self) -> Mapping[End, Environment]:
        """Return the facts of both ends' hosts."""
        return {end: host.environment for end, host in self._hosts.items()}

    def context(self) -> Mapping[str, FactorValue]:
        """Return the observed factors: kernel, CPU, NIC and driver of each end."""
        context: dict[str, FactorValue] = {}
        for end, host in self._hosts.items():
            facts: Mapping[str, Any] = host.environment.facts
            context[f"{end}_kernel"] = facts["kernel"]["release"]
            context[f"{end}_cpu"] = facts["cpu"]["model"]
            context |= _card(end, self._link.kind, facts.get("interface") or {})
        return context

    def unsupported(self, factors: Factors) -> str | None:
        """Return why a case cannot run here, or None.

        Raises:
            ZcdbError: if its settings make no sense, or may not be made on this interface.
        """
        if self._connected.failure is not None:
            return self._connected.failure
        filled = with_defaults(factors)
        placement = self._place(filled)
        if isinstance(placement, str):
            return placement
        for end, host in self._hosts.items():
            reason: str | None = self._missing(host, filled)
            reason = reason or tool_ends.unsupported(host, end, filled)
            if reason is not None:
                return reason
        return self._settings.unsupported(filled)

    def _missing(self, host: Host, factors: Factors) -> str | None:
        """Return which interface or address of an end a case lacks, or None."""
        wanted, family = int(factors["interfaces"]), str(factors["address_family"])
        if len(host.interfaces) < wanted:
            return f"interfaces = {wanted}: a {self._link.kind} link has {len(host.interfaces)}"
        if len(host.addresses.get(family, ())) < wanted:
            return f"address_family = {family}: {host.interfaces[0]} has no such address"
        return None

    def _shares_host(self) -> bool:
        return self._hosts["sender"].boot_id == self._hosts["receiver"].boot_id

    def _place(self, factors: Factors) -> Placement | str:
        cores = {end: host.cores for end, host in self._hosts.items()}
        return place(str(factors["pinning"]), cores, self._shares_host())

    # -- once per run -----------------------------------------------------------------------

    def readings(self, cases: Sequence[Factors], timing: Timing) -> Mapping[str, Json]:
        """Return the machine's readings and what the soakers do to the throughput."""
        return {
            "soaking": [
                {key: soaking[key] for key in ("is_isolated", "foreign_not_measured")}
                for soaking in self._soaking.values()
            ],
            "hosts": {end: dict(host.readings) for end, host in self._hosts.items()},
            "preflight": [finding.sentence for finding in self._findings],
            "settings": self._settings.readings(),
            "soaker_effect": self._soaker_effect(cases[0], timing),
        }

    def final_readings(self) -> Mapping[str, Json]:
        """Return what only the end of a run tells.  Puts the settings back.

        Returns:
            environment_changed: a sentence for each fact of a host that is not as it was; None
            with `final_readings_reason` where that could not be looked at;
            settings_not_restored: one for each setting that is not.
        """
        changed: Json = None
        reason: dict[str, Json] = {}
        try:
            self._settings.restore()
            changed = self._changes()
        except ZcdbError as error:
            reason = {"final_readings_reason": error.message}
        return {
            **reason,
            "environment_changed": changed,
            "settings_not_restored": list(self._settings.not_restored),
        }

    def _changes(self) -> list[Json]:
        sentences: list[Json] = []
        for agent in agents_of(self._hosts):
            ends = [end for end, host in self._hosts.items() if host.agent is agent]
            host = self._hosts[ends[0]]
            now = agent.request("facts", interface=host.interfaces[0], is_bandwidth_measured=False)
            sentences += [
                f"{' and '.join(ends)}: {sentence}"
                for sentence in host_facts.changes(host.environment.facts, now["facts"])
            ]
        return sentences

    def _soaker_effect(self, factors: Factors, timing: Timing) -> Json:
        """Return the throughput of one case with and without soakers, in alternation."""
        short = Timing(
            EFFECT_DURATION_NS, timing.discard_ns, EFFECT_DURATION_NS // 4, timing.bracket_ns
        )
        rates: dict[str, list[float]] = {"with_bps": [], "without_bps": []}
        try:
            for pair in range(EFFECT_PAIRS):
                order = (
                    ("with_bps", "without_bps") if pair % 2 == 0 else ("without_bps", "with_bps")
                )
                for key in order:
                    rates[key].append(self._throughput(factors, short, key == "with_bps"))
        except ZcdbError as error:
            self.recover()
            return {"reason": f"not measured: {error.message}"}
        ratio = median(
            with_bps / without_bps
            for with_bps, without_bps in zip(rates["with_bps"], rates["without_bps"], strict=True)
        )
        if abs(ratio - 1) > assemble.PERTURBATION_LIMIT:
            self._tell(
                f"note: throughput with soakers is {ratio:.2f} times that without them;"
                " it is stored with the run"
            )
        return {**rates, "median_ratio": ratio, "case": dict(factors)}

    def _throughput(self, factors: Factors, timing: Timing, is_soaked: bool) -> float:
        filled = with_defaults(factors)
        held = self._settings.apply(filled)
        self._start_ends(filled, held, timing)
        window = self._window(timing, is_soaked=is_soaked)
        self._traffic(filled, timing).stop()
        kept = assemble.after(window.edges["receiver"], timing.discard_ns)
        rate_bps = assemble.throughput_bps(kept)
        if not rate_bps:
            raise EngineError("no payload arrived within the window")
        return rate_bps

    # -- a trial ----------------------------------------------------------------------------

    def measure(self, factors: Factors, timing: Timing) -> Measured:
        """Run one trial: settings, bracket, connect, ramp, window, stop, bracket.

        Raises:
            ZcdbError: if it fails before the window has been read.
        """
        filled = with_defaults(factors)
        held = self._settings.apply(filled)
        before = self._bracket if self._bracket and not held.changes_idle else self._idle(timing)
        self._bracket = None
        placement = self._place(filled)
        if isinstance(placement, str):
            raise EngineError(placement)
        started = self._start_ends(filled, held, timing)
        window = self._window(timing, filled)
        ended = self._traffic(filled, timing).stop()
        after = self._bracket = self._idle(timing)
        measured = assemble.measured(
            assemble.Observed(
                factors=tool_ends.as_endpoints(filled),
                edges=window.edges,
                discard_ns=timing.discard_ns,
                before=before,
                after=after,
                cpus={end: placement.cpus[end] for end in ENDS},
                shares_host=self._shares_host(),
                shares_core=placement.shares_core,
                started=started,
                ended=ended,
                memory=Memory.of(self._hosts["sender"].readings),
            )
        )
        measured = tool_ends.finished(measured, filled, started, ended)
        return _with_conditions(measured, held, window)

    def _idle(self, timing: Timing) -> dict[End, books.Idle]:
        """Read an idle bracket on each host and return its calibration for each end."""
        edges = read_window(self._hosts, timing.bracket_ns, timing.sample_ns).edges
        idle: dict[str, books.Idle] = {}
        for end, host in self._hosts.items():
            # Only the edges of the agent that reads the host have soakers in them.
            idle.setdefault(host.boot_id, books.calibrate(edges[end]))
        return {end: idle[host.boot_id] for end, host in self._hosts.items()}

    def _start_ends(self, factors: Factors, held: Held, timing: Timing) -> Started:
        placement = self._place(factors)
        assert isinstance(placement, Placement)  # noqa: S101 (unsupported cases are not run)
        return self._traffic(factors, timing).start(factors, placement, held.pacing_bps)

    def _traffic(self, factors: Factors, timing: Timing) -> Traffic:
        is_guarded = self._link.kind == "hosts"
        guards = {"token": self._token} if is_guarded else {}
        own = Traffic(self._hosts, self._soaking, guards, _port_range(self._link.ports))
        return tool_ends.traffic(own, factors, timing)

    def _window(
        self, timing: Timing, factors: Factors | None = None, *, is_soaked: bool = True
    ) -> Window:
        return read_window(
            self._hosts,
            timing.discard_ns + timing.duration_ns,
            timing.sample_ns,
            is_soaked=is_soaked,
            discard_ns=timing.discard_ns,
            factors=factors,
        )


def _with_conditions(measured: Measured, held: Held, window: Window) -> Measured:
    """Add to a trial's record what was set for it and how the hosts' windows lay."""
    settings: dict[str, Json] = {end: dict(records) for end, records in held.records.items()}
    counts: dict[str, Json] = {**measured.counts, "settings": settings}
    flags = list(measured.flags)
    if held.pacing_bps:
        flags.append(Flag("rate-by-pacing", f"{held.pacing_bps} bit/s over all streams"))
    alignment = window.alignment
    if alignment is not None:
        counts["clock"] = asdict(alignment)
        if alignment.is_off(measured.window_ns):
            detail = f"{alignment.late_ns} ns apart, give or take {alignment.uncertainty_ns} ns"
            flags.append(Flag("clock-offset", detail))
    return replace(measured, counts=counts, flags=flags)


def _card(end: End, link: str, interface: Mapping[str, Any]) -> dict[str, FactorValue]:
    """Return the observed factors of an end's interface."""
    if link != "hosts":
        return {f"{end}_nic": link, f"{end}_driver": link}
    is_loopback = interface.get("type") == ARPHRD_LOOPBACK
    driver = interface.get("driver") or ("loopback" if is_loopback else "unknown")
    card: dict[str, FactorValue] = {
        f"{end}_nic": str(interface.get("model") or driver),
        f"{end}_driver": str(driver),
    }
    if interface.get("link_speed_bps"):
        card[f"{end}_link_speed"] = str(interface["link_speed_bps"])
    return card


def _port_range(text: str) -> tuple[int, int] | None:
    low, dash, high = text.partition("-")
    return (int(low), int(high)) if dash else None


def _memory_bytes(factors: Factors) -> int:
    """Return about how much memory a case's buffers and files take."""
    working_set, message_bytes = factors["working_set"], int(factors["message_size"])
    files = file_set(working_set)
    if files is not None:
        source = files.files * files.mean_size_bytes
    elif isinstance(working_set, int):
        source = working_set
    else:
        source = message_bytes
    return source + int(factors["streams"]) * (message_bytes + int(factors["receive_size"]))
