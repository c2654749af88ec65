"""The two ends of a link: their agents, interfaces and addresses.

What differs between a loopback, a veth and a hosts link is here and nowhere
else.  An agent is a process on this machine, in a namespace of its own or
behind ssh; whoever gets a `Host` cannot tell which.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zcdb.agent.client import AgentClient
from zcdb.errors import HostError, LinkError
from zcdb.factors import Factors
from zcdb.ids import Json
from zcdb.records import ENDS, End, Environment
from zcdb.runner.case_settings import touches_network

LOCK_POLL_S = 1.0
UNDO_TIMEOUT_S = 120.0
LOCAL = "."
"""Name of this machine in a hosts link: no ssh is needed to reach it."""

VETH_NAMES: Mapping[End, str] = {"sender": "zcdb-tx", "receiver": "zcdb-rx"}
_VETH_HOST_NUMBERS: Mapping[End, int] = {"sender": 1, "receiver": 2}


class EndForm(Protocol):
    """One end of a hosts link as the experiment file states it."""

    @property
    def ssh(self) -> str: ...  # noqa: D102
    @property
    def interface(self) -> str: ...  # noqa: D102
    @property
    def address(self) -> str: ...  # noqa: D102


class LinkForm(Protocol):
    """A link as the experiment file states it: `zcdb.experiment.form.Link` is one."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def ports(self) -> str: ...  # noqa: D102
    @property
    def sender(self) -> EndForm | None: ...  # noqa: D102
    @property
    def receiver(self) -> EndForm | None: ...  # noqa: D102


@dataclass(slots=True)
class Host:
    """One end's side.

    Attributes:
        interfaces: those that data can go through, the first one first.
        addresses: family -> one address an interface; shorter where an interface has none.
        environment: facts of the host, seen through the first interface.
    """

    agent: AgentClient
    interfaces: tuple[str, ...]
    addresses: Mapping[str, Sequence[str]]
    environment: Environment
    readings: Mapping[str, Json]

    @property
    def boot_id(self) -> str:
        """Name of the host: two ends that share it are on one machine."""
        return str(self.agent.hello["boot_id"])

    @property
    def cores(self) -> Sequence[Sequence[int]]:
        """The CPUs that may be used, one list a physical core."""
        cores: Sequence[Sequence[int]] = self.agent.hello["cores"]
        return cores

    def interfaces_of(self, factors: Factors) -> tuple[str, ...]:
        """Return the interfaces that a case uses."""
        return self.interfaces[: int(factors.get("interfaces", 1))]

    def addresses_of(self, factors: Factors) -> tuple[str, ...]:
        """Return the addresses that a case uses, one an interface."""
        family = str(factors.get("address_family", "inet"))
        return tuple(self.addresses[family][: int(factors.get("interfaces", 1))])


@dataclass(frozen=True, slots=True)
class Connected:
    """Both ends of a link.

    Attributes:
        failure: why the link could not be made; then the hosts are there, but no data flows.
    """

    hosts: Mapping[End, Host]
    failure: str | None = None


class Starter:
    """Starts the agents of a link and makes the link.

    Args:
        cases: the declared factors of the plan's cases, defaults filled in.
        holder: who measures, for the hosts' locks.
        tell: called with sentences that a person should know.

    Attributes:
        agents: every agent that was started; whoever started this ends them.
    """

    def __init__(
        self,
        link: LinkForm,
        cases: Sequence[Factors],
        holder: str,
        tell: Callable[[str], None],
        *,
        is_waiting: bool,
    ) -> None:
        self._link = link
        self._cases = cases
        self._holder = holder
        self._tell = tell
        self._is_waiting = is_waiting
        self.agents: list[AgentClient] = []

    def start(self) -> Connected:
        """Start the agents, take the locks, undo what earlier runs left, make the link.

        Raises:
            ZcdbError: if an agent does not start, a lock is taken, or an interface of a hosts
                link is not there.
        """
        if self._link.kind == "hosts":
            return self._start_hosts()
        if self._link.kind == "veth":
            return self._start_veth()
        return self._start_loopback()

    # -- the three kinds of link ------------------------------------------------------------

    def _start_loopback(self) -> Connected:
        agent = self._local_agent("the agent")
        self._reserve([agent])
        failure = None
        if any(touches_network(case) for case in self._cases):
            # Settings are made in a namespace of its own: the machine's loopback stays as it is.
            try:
                agent.request("enter_namespace")
            except LinkError as error:
                failure = error.message
        addresses = {"inet": ["127.0.0.1"], "inet6": ["::1"] if agent.request("has_ipv6") else []}
        host = _host(agent, ("lo",), addresses)
        return Connected({"sender": host, "receiver": host}, failure)

    def _start_veth(self) -> Connected:
        agents: dict[End, AgentClient] = {
            end: self._local_agent(f"the {end}'s agent") for end in ENDS
        }
        self._reserve([agents["sender"]])
        failure = None
        try:
            pairs = self._make_veth(agents)
        except LinkError as error:
            # The cases are recorded as unsupported, with this reason and this host's facts.
            failure, pairs = error.message, 1
        return Connected({end: self._veth_host(end, agents[end], pairs) for end in ENDS}, failure)

    def _make_veth(self, agents: Mapping[End, AgentClient]) -> int:
        """Make as many pairs as the cases use, and return how many that are."""
        pairs = max(int(case.get("interfaces", 1)) for case in self._cases)
        sender, receiver = agents["sender"], agents["receiver"]
        sender.request("enter_namespace")
        receiver.request("enter_namespace", partner_pid=sender.hello["pid"])
        has_ipv6 = bool(sender.request("has_ipv6"))
        for pair in range(pairs):
            sender.request(
                "make_veth",
                name=veth_name("sender", pair),
                addresses=_with_prefixes("sender", pair, has_ipv6=has_ipv6),
                peer_name=veth_name("receiver", pair),
                peer_addresses=_with_prefixes("receiver", pair, has_ipv6=has_ipv6),
                peer_pid=receiver.hello["pid"],
            )
        return pairs

    def _veth_host(self, end: End, agent: AgentClient, pairs: int) -> Host:
        names = tuple(veth_name(end, pair) for pair in range(pairs))
        has_ipv6 = bool(agent.request("has_ipv6"))
        addresses = {
            family: [veth_address(end, pair, family) for pair in range(pairs)]
            for family in ("inet", "inet6")
            if family == "inet" or has_ipv6
        }
        return _host(agent, names, addresses)

    def _start_hosts(self) -> Connected:
        forms: dict[End, EndForm] = {}
        for end, form in zip(ENDS, (self._link.sender, self._link.receiver), strict=True):
            if form is None:
                raise HostError(f"link.{end} is missing: where does the {end} run?")
            forms[end] = form
        agents = {end: self._agent_at(end, form.ssh) for end, form in forms.items()}
        self._reserve(_first_of_each_host(agents.values()))
        return Connected({end: _named_host(end, agents[end], forms[end]) for end in ENDS})

    # -- agents and locks -------------------------------------------------------------------

    def _local_agent(self, name: str) -> AgentClient:
        agent = AgentClient.start_local(name)
        self.agents.append(agent)
        return agent

    def _agent_at(self, end: End, ssh: str) -> AgentClient:
        if ssh == LOCAL:
            return self._local_agent(f"the {end}'s agent")
        agent = AgentClient.start_ssh(ssh, f"the {end}'s agent on {ssh}")
        self.agents.append(agent)
        return agent

    def _reserve(self, agents: Sequence[AgentClient]) -> None:
        """Take each host's lock, and undo there what killed runs left.

        In the order of the hosts' names: two runs that wait for each other's would never end.
        """
        for agent in sorted(agents, key=lambda agent: str(agent.hello["boot_id"])):
            self._take_lock(agent)
            for sentence in agent.request("undo_leftovers", UNDO_TIMEOUT_S):
                self._tell(f"note: {sentence}")

    def _take_lock(self, agent: AgentClient) -> None:
        is_told = False
        where = agent.host or "this machine"
        while True:
            answer = agent.request("lock", holder=f"{self._holder}, process {agent.hello['pid']}")
            if answer["taken"]:
                return
            if not self._is_waiting:
                raise HostError(
                    f"another run measures on {where}: {answer['holder']}",
                    hint="two at once would disturb each other; --wait waits for its end",
                )
            if not is_told:
                self._tell(f"waiting for another run on {where}: {answer['holder']}")
                is_told = True
            time.sleep(LOCK_POLL_S)


def veth_name(end: End, pair: int) -> str:
    """Return the name of one end's interface of a veth pair, counted from 0."""
    return VETH_NAMES[end] if pair == 0 else f"{VETH_NAMES[end]}{pair}"


def veth_address(end: End, pair: int, family: str) -> str:
    """Return the address of one end's interface of a veth pair; each pair is a network."""
    number = _VETH_HOST_NUMBERS[end]
    return f"10.77.{pair}.{number}" if family == "inet" else f"fd77:0:0:{pair:x}::{number}"


def _with_prefixes(end: End, pair: int, *, has_ipv6: bool) -> list[str]:
    addresses = [f"{veth_address(end, pair, 'inet')}/24"]
    if has_ipv6:
        addresses.append(f"{veth_address(end, pair, 'inet6')}/64")
    return addresses


def _first_of_each_host(agents: Iterable[AgentClient]) -> list[AgentClient]:
    first: dict[str, AgentClient] = {}
    for agent in agents:
        first.setdefault(str(agent.hello["boot_id"]), agent)
    return list(first.values())


def _named_host(end: End, agent: AgentClient, form: EndForm) -> Host:
    """Return an end of a hosts link; its address is the stated one, else the interface's first."""
    addresses: dict[str, list[str]] = agent.request("addresses", interface=form.interface)
    if form.address:
        family = "inet6" if ":" in form.address else "inet"
        if form.address not in addresses[family]:
            known = ", ".join(addresses["inet"] + addresses["inet6"]) or "none"
            raise HostError(
                f"link.{end}: {form.interface} does not have the address {form.address};"
                f" its addresses: {known}"
            )
        addresses[family] = [form.address]
    if not any(addresses.values()):
        raise HostError(
            f"link.{end}: {form.interface} has no address, so no data can flow through it"
        )
    return _host(agent, (form.interface,), addresses)


def _host(
    agent: AgentClient, interfaces: tuple[str, ...], addresses: Mapping[str, Sequence[str]]
) -> Host:
    answer = agent.request("facts", interface=interfaces[0])
    return Host(
        agent,
        interfaces,
        {family: tuple(found[: len(interfaces)]) for family, found in addresses.items() if found},
        Environment(answer["facts"]),
        answer["readings"],
    )
