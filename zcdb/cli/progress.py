"""How far a run has come: a bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

import click

from zcdb import factors as factor_registry
from zcdb import metrics, units
from zcdb.factors import Factors
from zcdb.records import PlannedTrial, TrialEnd


def for_stderr(cases: Sequence[Factors], estimated_ns: int) -> LineProgress:
    """Return what fits stderr: a bar if a person watches, lines if not."""
    kind = BarProgress if sys.stderr.isatty() else LineProgress
    return kind(factor_registry.varying(cases) or ["api"], estimated_ns)


def _headline(end: TrialEnd) -> str:
    if end.status != "ok":
        return f"{end.status}: {end.reason}"
    wanted = (("throughput", ""), ("service_demand_sender", metrics.HEADLINE_CPU_METHOD))
    shown = [
        metrics.format_value(value.metric, value.value)
        for value in end.measurements
        if value.value is not None and (value.metric, value.method) in wanted
    ]
    codes = " ".join(sorted({flag.code for flag in end.flags} - {"ends-share-host"}))
    return "  ".join([*shown, codes]).rstrip()


class LineProgress:
    """One line a trial, with the time that is left.

    Args:
        names: the factors that tell the cases apart.
        estimated_ns: what the plan says the whole run takes.
    """

    def __init__(self, names: Sequence[str], estimated_ns: int) -> None:
        self._names = names
        self._estimated_ns = estimated_ns
        self._total = 0
        self._done = 0
        self._first = 0
        self._began_ns: int | None = None

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing is left on the terminal."""

    def started(self, total: int, done: int) -> None:
        """Say what is ahead."""
        self._total, self._done, self._first = total, done, done
        before = f", {done} of them done before" if done else ""
        about = units.format_duration(self._estimated_ns * (total - done) // max(total, 1))
        self.message(f"{total} trials{before}; about {about}")

    def trial_begins(self, planned: PlannedTrial, factors: Factors) -> None:
        """Start the clock with the first trial: what comes before it happens once."""
        if self._began_ns is None:
            self._began_ns = time.monotonic_ns()

    def trial_done(self, planned: PlannedTrial, factors: Factors, end: TrialEnd) -> None:
        """Say how the trial ended, with its headline numbers."""
        self._done += 1
        place = f"[{self._done}/{self._total}]"
        self.message(f"{place} {self._describe(factors)}  {_headline(end)}{self._left()}")

    def message(self, text: str) -> None:
        """Print a line."""
        click.echo(text, err=True)

    def _describe(self, factors: Factors) -> str:
        return "  ".join(
            factor_registry.display(name, factors[name]) for name in self._names if name in factors
        )

    def _left(self) -> str:
        made = self._done - self._first
        if self._began_ns is None or not made or self._done == self._total:
            return ""
        elapsed_ns = time.monotonic_ns() - self._began_ns
        left_ns = elapsed_ns * (self._total - self._done) // made
        return f"  ({units.format_duration(round(left_ns, -9))} left)"


class BarProgress(LineProgress):
    """A bar with ETA; the lines stand above it."""

    def __enter__(self) -> BarProgress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("preparing", total=None)
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def started(self, total: int, done: int) -> None:
        """Give the bar its length."""
        super().started(total, done)
        self._bar.update(self._task, total=total, completed=done, description="measuring")

    def trial_begins(self, planned: PlannedTrial, factors: Factors) -> None:
        """Name the case beside the bar."""
        super().trial_begins(planned, factors)
        self._bar.update(self._task, description=self._describe(factors))

    def trial_done(self, planned: PlannedTrial, factors: Factors, end: TrialEnd) -> None:
        """Advance the bar."""
        super().trial_done(planned, factors, end)
        self._bar.advance(self._task)

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)

    def _left(self) -> str:
        return ""
