"""The settings of the case that is measured now, held by the agents and put back by them.

Settings stay while one case after another asks for the same; they are looked at
again before each trial all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zcdb.errors import HostError
from zcdb.factors import Factors
from zcdb.ids import Json, canonical_json
from zcdb.records import ENDS, End
from zcdb.runner.case_settings import RATE, Wanted, conflict, wanted_settings
from zcdb.runner.hosts import Host
from zcdb.runner.windows import agents_of

APPLY_TIMEOUT_S = 120.0
"""A card that resets its rings, or brings its link up again, takes its time."""

Records = Mapping[End, Mapping[str, Json]]
"""End -> factor -> what was before, what was asked for, what is in effect."""

_CALIBRATED = ("governor", "irq_affinity")
"""Kinds after whose change an idle bracket no longer tells what idle is."""


@dataclass(frozen=True, slots=True)
class Held:
    """The settings that hold now.

    Attributes:
        pacing_bps: rate that the sender's sockets must keep, because no token bucket
            can be made here; 0 if there is one, or none was asked for.
        changes_idle: whether the machine idles differently since this call.
    """

    records: Records = field(default_factory=dict)
    pacing_bps: int = 0
    changes_idle: bool = False


@dataclass(frozen=True, slots=True)
class _Result:
    held: Held
    problems: Sequence[str]


Wishes = tuple[tuple[Wanted, ...], tuple[Wanted, ...]]
"""The settings of the sender and of the receiver."""


class CaseSettings:
    """What the cases ask of the machines, on the agents of both ends.

    Args:
        allow_interfaces: interfaces that may be changed although they carry the default
            route or the control connection.
        tell: called with sentences that a person should know.
    """

    def __init__(
        self,
        hosts: Mapping[End, Host],
        allow_interfaces: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        self._hosts = hosts
        self._allowed = list(allow_interfaces)
        self._tell = tell
        self._now: Wishes = ((), ())
        self._held = Held()
        self._tried: dict[str, _Result] = {}
        self.not_restored: list[str] = []

    def unsupported(self, factors: Factors) -> str | None:
        """Try the settings of a case once, put them back, and return why it cannot have them.

        Raises:
            HostError: if an interface may not be changed at all.
            UsageError: if a value makes no sense.
        """
        wishes = self._wishes(factors)
        if isinstance(wishes, str):
            return wishes
        key = canonical_json([[wanted.request() for wanted in of_end] for of_end in wishes])
        if key not in self._tried:
            try:
                self._tried[key] = self._apply(wishes)
            finally:
                self.restore()
        return next(iter(self._tried[key].problems), None)

    def apply(self, factors: Factors) -> Held:
        """Make the settings of a case hold and return what holds.

        Raises:
            HostError: if one of them does not hold; then none is left changed.
        """
        wishes = self._wishes(factors)
        if isinstance(wishes, str):
            raise HostError(wishes)
        if wishes == self._now:
            problems = self._check() if any(wishes) else []
            if not problems:
                return self._held
            raise self._given_up(problems)
        changes_idle = _changes_idle(self._now) or _changes_idle(wishes)
        left = self.restore()
        if left:
            raise HostError(f"settings of the case before are still changed: {left[0]}")
        try:
            result = self._apply(wishes)
        except HostError:
            self.restore()  # one end may have been changed before the other one refused
            raise
        if result.problems:
            raise self._given_up(result.problems)
        self._now, self._held = wishes, result.held
        return replace(result.held, changes_idle=changes_idle)

    def restore(self) -> list[str]:
        """Put everything back; return a sentence for each value that is not as it was."""
        self._now, self._held = ((), ()), Held()
        # The last end first: where both are one machine, it found what the other one had set.
        left = [
            sentence
            for agent in reversed(agents_of(self._hosts))
            for sentence in agent.request("restore_settings", APPLY_TIMEOUT_S)
        ]
        for sentence in left:
            self._tell(f"note: {sentence}")
        self.not_restored += left
        return left

    def attach(self, hosts: Mapping[End, Host]) -> None:
        """Go on with new agents: the old ones have ended, and their settings with them."""
        self._hosts = hosts
        self._now, self._held = ((), ()), Held()

    def readings(self) -> list[Json]:
        """Return what was changed in this run, for its record: one entry a set of settings."""
        return [
            {end: dict(records) for end, records in result.held.records.items()}
            for result in self._tried.values()
            if not result.problems and any(result.held.records.values())
        ]

    def _given_up(self, problems: Sequence[str]) -> HostError:
        self.restore()
        return HostError(problems[0])

    def _wishes(self, factors: Factors) -> Wishes | str:
        """Return what each end is asked for, or a sentence where the two contradict each other."""
        sender, receiver = (
            wanted_settings(factors, end, self._hosts[end].interfaces_of(factors)) for end in ENDS
        )
        if self._hosts["sender"].agent is not self._hosts["receiver"].agent:
            return sender, receiver
        known = {(wanted.name, wanted.target) for wanted in sender}
        others = tuple(w for w in receiver if (w.name, w.target) not in known)
        return conflict(sender, receiver) or (sender, others)

    def _apply(self, wishes: Wishes) -> _Result:
        if not any(wishes):
            return _Result(Held(), ())
        answers: list[tuple[End, Wanted, Mapping[str, Json]]] = []
        for agent in agents_of(self._hosts):
            asked = [
                (end, wanted)
                for end, of_end in zip(ENDS, wishes, strict=True)
                for wanted in of_end
                if self._hosts[end].agent is agent
            ]
            replies = agent.request(
                "apply_settings",
                APPLY_TIMEOUT_S,
                wanted=[wanted.request() for _, wanted in asked],
                interfaces=sorted(
                    {name for end, _ in asked for name in self._hosts[end].interfaces}
                ),
                allow_interfaces=self._allowed,
            )
            answers += [
                (end, wanted, reply) for (end, wanted), reply in zip(asked, replies, strict=True)
            ]
        return self._judge(answers)

    def _judge(self, answers: Sequence[tuple[End, Wanted, Mapping[str, Json]]]) -> _Result:
        """Make of the agents' answers what holds, and what stands against the case."""
        records: dict[End, dict[str, Json]] = {end: {} for end in ENDS}
        problems: list[str] = []
        pacing_bps = 0
        for end, wanted, reply in answers:
            sentences = reply["problems"]
            assert isinstance(sentences, list)  # noqa: S101
            record: dict[str, Json] = {
                "asked": wanted.asked,
                "target": wanted.target,
                "before": reply["before"],
                "effective": reply["effective"],
            }
            if sentences and wanted.name == RATE and end == "sender":
                pacing_bps += int(wanted.asked)
                record |= {"effective": None, "by": "pacing", "reason": sentences[0]}
            else:
                problems += sentences
            name = wanted.name
            records[end][name if name not in records[end] else f"{name} {wanted.target}"] = record
        # One value may have undone another, of the same end or of the other one on this host.
        if not problems:
            problems += self._check()
        return _Result(Held(records, pacing_bps), problems)

    def _check(self) -> list[str]:
        return [
            sentence
            for agent in agents_of(self._hosts)
            for sentence in agent.request("check_settings")
        ]


def _changes_idle(wishes: Wishes) -> bool:
    return any(wanted.kind in _CALIBRATED for of_end in wishes for wanted in of_end)
