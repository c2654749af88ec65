"""The real bench: two ends of a link, driven through agents.

A loopback link has one agent for both ends, a veth link one in each namespace;
which of them shares a host is seen from the boot id, never assumed.  On each
host one agent reads the host's own counters and holds the soakers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from zcdb.agent.client import AgentClient
from zcdb.engine import books
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.engine.window import Edge
from zcdb.errors import AgentError, EngineError, HostError, LinkError, ZcdbError
from zcdb.factors import Factors, FactorValue, file_set, with_defaults
from zcdb.ids import Json
from zcdb.records import ENDS, End, Environment
from zcdb.runner import assemble, preflight
from zcdb.runner.cpus import Placement, place
from zcdb.runner.execute import Measured, Timing

FLOW_TIMEOUT_S = 5.0
FLOW_POLL_S = 0.002
START_TIMEOUT_S = 150.0
WINDOW_SLACK_S = 20.0
LOCK_POLL_S = 1.0
START_AHEAD_NS = 20_000_000
"""Two agents begin a window at one stated time, this far ahead."""

EFFECT_DURATION_NS = 400_000_000
EFFECT_PAIRS = 3

VETH_NAMES: Mapping[End, str] = {"sender": "zcdb-tx", "receiver": "zcdb-rx"}
VETH_ADDRESSES: Mapping[End, str] = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}


@dataclass(slots=True)
class _Host:
    """One end's side: its agent, where data flows, and the host it is on."""

    agent: AgentClient
    interface: str
    address: str
    environment: Environment
    readings: Mapping[str, Json]

    @property
    def boot_id(self) -> str:
        return str(self.agent.hello["boot_id"])

    @property
    def cores(self) -> Sequence[Sequence[int]]:
        cores: Sequence[Sequence[int]] = self.agent.hello["cores"]
        return cores


class LinkBench:
    """A bench over a loopback or veth link on this machine.

    Args:
        link: a value of the factor `link`.
        cases: the declared factors of the plan's cases; they decide what preflight looks at.
        tell: called with sentences that a person should know.
        holder: who measures, for the host's lock.
        is_waiting: wait for the lock instead of refusing.
    """

    def __init__(
        self,
        link: str,
        cases: Sequence[Factors],
        tell: Callable[[str], None],
        *,
        holder: str,
        is_waiting: bool = False,
    ) -> None:
        self._link = link
        self._cases = [with_defaults(case) for case in cases]
        self._tell = tell
        self._holder = holder
        self._is_waiting = is_waiting
        self._agents: list[AgentClient] = []
        self._hosts: dict[End, _Host] = {}
        self._bracket: dict[End, books.Idle] | None = None
        self._link_failure: str | None = None
        self._soaking: dict[str, Mapping[str, Any]] = {}
        self._findings: list[preflight.Finding] = []

    # -- life -------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the agents, make the link, take the lock, start the soakers, look around.

        Raises:
            ZcdbError: if any of that fails; `close` undoes what was done.
        """
        self._start()
        self._check()

    def _start(self) -> None:
        agents = self._start_agents()
        self._hosts = {end: self._host(end, agent) for end, agent in agents.items()}
        is_pinned = all(str(case["pinning"]) != "none" for case in self._cases)
        for agent in self._host_readers():
            cpus = sorted(cpu for core in agent.hello["cores"] for cpu in core)
            self._soaking[agent.hello["boot_id"]] = agent.request(
                "start_soak", cpus=cpus, is_isolated=None if is_pinned else False
            )

    def _start_agents(self) -> dict[End, AgentClient]:
        sender = self._new_agent("the agent" if self._link == "loopback" else "the sender's agent")
        self._take_lock(sender)
        if self._link == "loopback":
            return {"sender": sender, "receiver": sender}
        receiver = self._new_agent("the receiver's agent")
        try:
            self._make_veth(sender, receiver)
        except LinkError as error:
            # The cases are recorded as unsupported, with this reason and this host's facts.
            self._link_failure = error.message
        return {"sender": sender, "receiver": receiver}

    def _make_veth(self, sender: AgentClient, receiver: AgentClient) -> None:
        sender.request("enter_namespace")
        receiver.request("enter_namespace", partner_pid=sender.hello["pid"])
        sender.request(
            "make_veth",
            name=VETH_NAMES["sender"],
            address=f"{VETH_ADDRESSES['sender']}/24",
            peer_name=VETH_NAMES["receiver"],
            peer_address=f"{VETH_ADDRESSES['receiver']}/24",
            peer_pid=receiver.hello["pid"],
        )

    def _new_agent(self, name: str) -> AgentClient:
        agent = AgentClient.start_local(name)
        self._agents.append(agent)
        return agent

    def _take_lock(self, agent: AgentClient) -> None:
        is_told = False
        while True:
            answer = agent.request("lock", holder=f"{self._holder}, process {agent.hello['pid']}")
            if answer["taken"]:
                return
            if not self._is_waiting:
                raise HostError(
                    f"another run measures on this machine: {answer['holder']}",
                    hint="two at once would disturb each other; --wait waits for its end",
                )
            if not is_told:
                self._tell(f"waiting for another run on this machine: {answer['holder']}")
                is_told = True
            time.sleep(LOCK_POLL_S)

    def _host(self, end: End, agent: AgentClient) -> _Host:
        is_loopback = self._link == "loopback"
        interface = "lo" if is_loopback else VETH_NAMES[end]
        answer = agent.request("facts", interface=interface)
        return _Host(
            agent,
            interface,
            "127.0.0.1" if is_loopback else VETH_ADDRESSES[end],
            Environment(answer["facts"]),
            answer["readings"],
        )

    def _check(self) -> None:
        needed = max((_memory_bytes(case) for case in self._cases), default=0)
        apis = frozenset(str(case["api"]) for case in self._cases)
        for host in {host.boot_id: host for host in self._hosts.values()}.values():
            facts: Mapping[str, Any] = host.environment.facts
            self._findings = preflight.check_host(facts, host.readings, needed, apis)
            for finding in self._findings:
                if finding.is_fatal:
                    raise HostError(finding.sentence)
                self._tell(f"note: {finding.sentence}")

    def close(self) -> None:
        """End all agents; their namespaces, links and processes go with them.  Idempotent."""
        while self._agents:
            self._agents.pop().close()
        self._hosts = {}
        self._bracket = None

    def recover(self) -> None:
        """Stop what a failed trial left running; start anew what has died."""
        self._bracket = None
        try:
            for agent in self._agents:
                agent.request("kill")
        except AgentError:
            self.close()
            self._start()

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
            context[f"{end}_nic"] = self._link
            context[f"{end}_driver"] = "loopback" if self._link == "loopback" else "veth"
        return context

    def unsupported(self, factors: Factors) -> str | None:
        """Return why a case cannot run here, or None."""
        if self._link_failure is not None:
            return self._link_failure
        filled = with_defaults(factors)
        placement = self._place(filled)
        if isinstance(placement, str):
            return placement
        for host in self._hosts.values():
            reason: str | None = host.agent.request("unsupported", factors=filled)
            if reason is not None:
                return reason
        return None

    def _shares_host(self) -> bool:
        return self._hosts["sender"].boot_id == self._hosts["receiver"].boot_id

    def _place(self, factors: Factors) -> Placement | str:
        cores = {end: host.cores for end, host in self._hosts.items()}
        return place(str(factors["pinning"]), cores, self._shares_host())

    def _host_readers(self) -> list[AgentClient]:
        """Return one agent per host: the first end's."""
        readers: dict[str, AgentClient] = {}
        for host in self._hosts.values():
            readers.setdefault(host.boot_id, host.agent)
        return list(readers.values())

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
            "soaker_effect": self._soaker_effect(cases[0], timing),
        }

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
        self._start_ends(with_defaults(factors))
        edges = self._window(
            timing.discard_ns + timing.duration_ns, timing.sample_ns, is_soaked=is_soaked
        )
        self._stop_ends()
        return assemble.throughput_bps(assemble.after(edges["receiver"], timing.discard_ns))

    # -- a trial ----------------------------------------------------------------------------

    def measure(self, factors: Factors, timing: Timing) -> Measured:
        """Run one trial: bracket, connect, ramp, window, stop, bracket.

        Raises:
            ZcdbError: if it fails before the window has been read.
        """
        filled = with_defaults(factors)
        before = self._bracket or self._idle(timing)
        self._bracket = None
        placement = self._place(filled)
        if isinstance(placement, str):
            raise EngineError(placement)
        started = self._start_ends(filled)
        edges = self._window(timing.discard_ns + timing.duration_ns, timing.sample_ns)
        ended = self._stop_ends()
        after = self._bracket = self._idle(timing)
        return assemble.measured(
            assemble.Observed(
                factors=filled,
                edges=edges,
                discard_ns=timing.discard_ns,
                before=before,
                after=after,
                cpus={end: placement.cpus[end] for end in ENDS},
                shares_host=self._shares_host(),
                shares_core=placement.shares_core,
                started=started,
                ended=ended,
            )
        )

    def _idle(self, timing: Timing) -> dict[End, books.Idle]:
        """Read an idle bracket on each host and return its calibration for each end."""
        edges = self._window(timing.bracket_ns, timing.sample_ns)
        idle: dict[str, books.Idle] = {}
        for end, host in self._hosts.items():
            # Only the edges of the agent that reads the host have soakers in them.
            idle.setdefault(host.boot_id, books.calibrate(edges[end]))
        return {end: idle[host.boot_id] for end, host in self._hosts.items()}

    def _start_ends(self, factors: Factors) -> dict[End, Mapping[str, Any]]:
        placement = self._place(factors)
        assert isinstance(placement, Placement)  # noqa: S101 (unsupported cases are not run)
        receiver, sender = self._hosts["receiver"], self._hosts["sender"]
        receiver_options = ReceiverOptions.from_factors(
            factors, address=receiver.address, **self._where(receiver, placement.cpus["receiver"])
        )
        listening = receiver.agent.request(
            "start_receiver", START_TIMEOUT_S, options=asdict(receiver_options)
        )
        sender_options = SenderOptions.from_factors(
            factors,
            address=receiver.address,
            ports=listening["ports"],
            **self._where(sender, placement.cpus["sender"]),
        )
        connected = sender.agent.request(
            "start_sender", START_TIMEOUT_S, options=asdict(sender_options)
        )
        sender.agent.request("go", end="sender")
        receiving = self._await_flow(sender, receiver)
        return {
            "sender": {
                "effective": connected["effective"],
                "differences": sender_options.differences(connected["effective"]),
            },
            "receiver": {
                "effective": receiving["effective"],
                "differences": receiver_options.differences(receiving["effective"]),
            },
        }

    def _where(self, host: _Host, cpus: tuple[int, ...] | None) -> dict[str, Any]:
        """Return the options that place an endpoint: its CPUs, and the groups it joins.

        An isolated load must be pinned: one that moved would compete with the soakers of the
        other CPUs' groups.
        """
        soaking = self._soaking[host.boot_id]
        paths: Mapping[str, Sequence[str]] = soaking["cgroup_paths"]
        if not paths or (cpus is None and soaking["is_isolated"]):
            return {"cpus": cpus or ()}
        cpu = str(cpus[0]) if cpus is not None else next(iter(paths))
        return {"cpus": cpus or (), "cgroup_paths": tuple(paths[cpu])}

    def _await_flow(self, sender: _Host, receiver: _Host) -> Mapping[str, Any]:
        """Wait until bytes arrive: a window that begins before measures nothing.

        Raises:
            EngineError: if none does, or if an endpoint has died meanwhile.
        """
        deadline = time.monotonic() + FLOW_TIMEOUT_S
        while True:
            state: Mapping[str, Any] = receiver.agent.request("state", end="receiver")
            if state["reading"]["payload_bytes"]:
                return state
            sender.agent.request("state", end="sender")
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no byte arrived at the receiver within {FLOW_TIMEOUT_S:g} s of the start"
                )
            time.sleep(FLOW_POLL_S)

    def _stop_ends(self) -> dict[End, Mapping[str, Any]]:
        return {end: self._hosts[end].agent.request("stop", end=end) for end in ENDS}

    def _window(
        self, duration_ns: int, sample_ns: int, *, is_soaked: bool = True
    ) -> dict[End, tuple[Edge, ...]]:
        """Read one window at both ends; an end without an agent of its own shares the edges."""
        readers = self._host_readers()
        agents = list({id(host.agent): host.agent for host in self._hosts.values()}.values())
        start_at_ns = None
        if len(agents) > 1 and self._shares_host():
            start_at_ns = time.monotonic_ns() + START_AHEAD_NS
        numbers = [
            agent.begin(
                "window",
                duration_ns=duration_ns,
                sample_ns=sample_ns,
                # The last CPU, in brackets and windows alike, so that its cost cancels out.
                sampler_cpu=max(cpu for core in agent.hello["cores"] for cpu in core),
                is_host_read=agent in readers,
                is_soaked=is_soaked,
                start_at_ns=start_at_ns,
            )
            for agent in agents
        ]
        edges: dict[int, tuple[Edge, ...]] = {}
        for agent, number in zip(agents, numbers, strict=True):
            answer = agent.finish(number, duration_ns / 10**9 + WINDOW_SLACK_S)
            edges[id(agent)] = tuple(Edge.from_json(edge) for edge in answer["edges"])
        return {end: edges[id(host.agent)] for end, host in self._hosts.items()}


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
