"""The settings that an agent holds changed on its host, for one case at a time.

The transaction belongs to the agent's process: when the agent ends, however it
is ended, its settings are put back, by itself or by whoever looks next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zcdb.errors import AgentError
from zcdb.host.settings import (
    Effective,
    Setting,
    Transaction,
    interface_irqs,
    parse_setting,
    restore_leftovers,
)
from zcdb.host.settings.backend import SystemBackend
from zcdb.host.settings.model import Backend
from zcdb.ids import Json


class AgentSettings:
    """The settings of one agent's host and network namespace.

    Args:
        open_backend: makes what reads and writes them; another machine in tests.
    """

    def __init__(self, open_backend: Callable[[], Backend] = SystemBackend) -> None:
        self._open_backend = open_backend
        self._backend: Backend | None = None
        self._transaction: Transaction | None = None
        self._held: list[Setting] = []
        self._environment: Mapping[str, str] = os.environ

    def entered_namespace(self) -> None:
        """Know that the agent is in a namespace of its own: nobody is logged in through that."""
        self._environment = {}

    def undo_leftovers(self) -> list[str]:
        """Put back what killed runs of this user left on this host; return what was done."""
        sentences: list[str] = []
        for restoration in restore_leftovers():
            if restoration.leftover.state in ("left", "unreadable"):
                sentences.append(restoration.sentence)
                sentences += [value.sentence for value in restoration.values]
        return sentences

    def apply(
        self,
        wanted: Sequence[Mapping[str, Any]],
        interfaces: Sequence[str],
        allow_interfaces: Sequence[str],
    ) -> list[Json]:
        """Make settings hold, in order, in a transaction of their own.

        Args:
            wanted: kind, target and value of each; the target of an affinity is an interface.

        Returns:
            For each: before and effective (by the kernel's names) and problems, sentences.

        Raises:
            SettingError: if one does not exist or cannot have that value.
            SettingsError: if an interface may not be changed; nothing was changed then.
        """
        parsed = [_parse(one) for one in wanted]
        self.restore()
        if not parsed:
            return []
        # Starting it costs a third of a second, so it stays for the agent's life.
        backend = self._enter_backend()
        self._transaction = Transaction(
            interfaces, allow_interfaces, backend=backend, environment=self._environment
        )
        flat = [setting for settings in parsed for setting in settings]
        made = self._transaction.apply(flat)
        self._held = [result.setting for result in made if result.is_as_asked]
        results = iter(made)
        return [
            _answer(one, [next(results) for _ in settings])
            for one, settings in zip(wanted, parsed, strict=True)
        ]

    def check_health(self) -> None:
        """Raise an error if this agent can no longer put back what it changed: a new one can.

        Raises:
            AgentError: if the helper process that changes settings has died.
        """
        if self._backend is not None and self._backend.worker() is None:
            raise AgentError("the helper process that changes settings has died")

    def check(self) -> list[str]:
        """Return a sentence for each value that does not hold any more as it was asked for."""
        if self._transaction is None:
            return []
        return [sentence for found in self._transaction.check(self._held) for sentence in found]

    def restore(self) -> list[str]:
        """Put everything back; return a sentence for each value that is not as it was."""
        transaction, self._transaction = self._transaction, None
        self._held = []
        if transaction is None:
            return []
        return [
            value.sentence
            for value in transaction.restore()
            if value.outcome in ("refused", "changed since")
        ]

    def close(self) -> None:
        """Put everything back and end the helper process.  Idempotent."""
        try:
            self.restore()
        finally:
            if self._backend is not None:
                self._backend.__exit__(None, None, None)
                self._backend = None

    def _enter_backend(self) -> Backend:
        if self._backend is None:
            self._backend = self._open_backend().__enter__()
        return self._backend


def _parse(wanted: Mapping[str, Any]) -> list[Setting]:
    """Return what one wanted setting comes to: an affinity is one of every interrupt."""
    kind, target, value = wanted["kind"], wanted["target"], wanted["value"]
    if kind != "irq_affinity":
        return [parse_setting(kind, target, value)]
    return [parse_setting(kind, number, value) for number in interface_irqs(target)]


def _answer(wanted: Mapping[str, Any], results: Sequence[Effective]) -> dict[str, Json]:
    if not results:
        sentence = f"{wanted['target']} has no interrupts of its own that could be placed"
        return {"before": {}, "effective": {}, "problems": [sentence]}
    if wanted["kind"] != "irq_affinity":
        (result,) = results
        return {
            "before": dict(result.before),
            "effective": dict(result.effective),
            "problems": list(result.problems),
        }
    return {
        "before": {result.setting.target: result.before.get("cpus") for result in results},
        "effective": {result.setting.target: result.effective.get("cpus") for result in results},
        "problems": [sentence for result in results for sentence in result.problems],
    }
