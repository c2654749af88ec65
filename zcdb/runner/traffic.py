"""The endpoints of one trial: started on both hosts, connected, flowing, stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.errors import EngineError
from zcdb.factors import Factors
from zcdb.records import ENDS, End
from zcdb.runner.cpus import Placement
from zcdb.runner.hosts import Host

FLOW_TIMEOUT_S = 5.0
FLOW_POLL_S = 0.002
START_TIMEOUT_S = 150.0

Started = dict[End, Mapping[str, Any]]
"""Of each end: effective values, and sentences about how they differ from what was asked for."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Starts and stops the endpoints of a run's trials.

    Attributes:
        soaking: boot id -> what the agent that holds that host's soakers said about them.
        guards: options that let only this run's own sender connect; empty on a link that
            nobody else can reach.
        ports: (first, last) of the ports that the receiver may listen on; None: any.
    """

    hosts: Mapping[End, Host]
    soaking: Mapping[str, Mapping[str, Any]]
    guards: Mapping[str, Any]
    ports: tuple[int, int] | None = None

    def start(self, factors: Factors, placement: Placement, pacing_bps: int = 0) -> Started:
        """Start receiver and sender and wait until bytes arrive.

        Args:
            pacing_bps: rate that all streams together must keep; 0 is no limit.

        Raises:
            ZcdbError: if one of them cannot start, or no byte arrives.
        """
        receiver, sender = self.hosts["receiver"], self.hosts["sender"]
        receiver_options = self._receiver_options(factors, placement)
        listening = receiver.agent.request(
            "start_receiver", START_TIMEOUT_S, options=asdict(receiver_options)
        )
        sender_options = self._sender_options(factors, placement, listening["ports"], pacing_bps)
        connected = sender.agent.request(
            "start_sender", START_TIMEOUT_S, options=asdict(sender_options)
        )
        sender.agent.request("go", end="sender")
        receiving = self._await_flow()
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

    def stop(self) -> dict[End, Mapping[str, Any]]:
        """Stop the sender, then the receiver; return what each says at its end."""
        return {end: self.hosts[end].agent.request("stop", end=end) for end in ENDS}

    def _receiver_options(self, factors: Factors, placement: Placement) -> ReceiverOptions:
        addresses = self.hosts["receiver"].addresses_of(factors)
        others: dict[str, Any] = {**self._place("receiver", placement), **self.guards}
        if self.ports is not None:
            others["port_range"] = self.ports
        if len(addresses) > 1:
            others["addresses"] = addresses
        return ReceiverOptions.from_factors(factors, address=addresses[0], **others)

    def _sender_options(
        self, factors: Factors, placement: Placement, ports: Sequence[int], pacing_bps: int
    ) -> SenderOptions:
        addresses = self.hosts["receiver"].addresses_of(factors)
        own = self.hosts["sender"].addresses_of(factors)
        others: dict[str, Any] = {**self._place("sender", placement), **self.guards}
        if len(addresses) > 1:
            # Streams are spread over the ports, and so over the interfaces behind them.
            others["addresses"] = _in_turns(addresses, len(ports))
            others["bind_addresses"] = _in_turns(own, len(ports))
        return SenderOptions.from_factors(
            _paced(factors, pacing_bps),
            address=addresses[0],
            ports=ports,
            bind_address=own[0],
            **others,
        )

    def _place(self, end: End, placement: Placement) -> dict[str, Any]:
        """Return the options that place an endpoint: its CPUs, and the groups it joins.

        An isolated load must be pinned: one that moved would compete with the soakers of the
        other CPUs' groups.
        """
        cpus = placement.cpus[end]
        soaking = self.soaking[self.hosts[end].boot_id]
        paths: Mapping[str, Sequence[str]] = soaking["cgroup_paths"]
        if not paths or (cpus is None and soaking["is_isolated"]):
            return {"cpus": cpus or ()}
        cpu = str(cpus[0]) if cpus is not None else next(iter(paths))
        return {"cpus": cpus or (), "cgroup_paths": tuple(paths[cpu])}

    def _await_flow(self) -> Mapping[str, Any]:
        """Wait until bytes arrive: a window that begins before measures nothing.

        Raises:
            EngineError: if none does, or if an endpoint has died meanwhile.
        """
        receiver, sender = self.hosts["receiver"].agent, self.hosts["sender"].agent
        deadline = time.monotonic() + FLOW_TIMEOUT_S
        while True:
            state: Mapping[str, Any] = receiver.request("state", end="receiver")
            if state["reading"]["payload_bytes"]:
                return state
            sender.request("state", end="sender")
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no byte arrived at the receiver within {FLOW_TIMEOUT_S:g} s of the start"
                )
            time.sleep(FLOW_POLL_S)


def _in_turns(addresses: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(addresses[number % len(addresses)] for number in range(count))


def _paced(factors: Factors, pacing_bps: int) -> Factors:
    """Return the factors with each stream's share of a rate that all of them must keep."""
    if not pacing_bps:
        return factors
    share_bps = max(pacing_bps // int(factors["streams"]), 1)
    own_bps = int(factors["pacing_rate"])
    return {**factors, "pacing_rate": min(share_bps, own_bps) if own_bps else share_bps}
