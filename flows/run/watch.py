"""Telling people how a run goes: a bar on a terminal, plain lines elsewhere, or nothing.

What reports is handed on by a context variable, because a flow's parameters are plain
values that a form can hold.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Watch(Protocol):
    """Hears of every stage, sweep and log line of a run."""

    def stage(self, name: str) -> None:
        """A stage begins."""

    def sweep(self, iteration: int, elbo: float, change: float | None, left: float | None) -> None:
        """A sweep is done; ``left`` is an estimate of the sweeps to come, if there is one."""

    def part(self, done: int, total: int) -> None:
        """So much of a stage is done."""

    def log(self, line: str) -> None:
        """Something is worth a line."""

    def close(self) -> None:
        """The run has ended, well or not."""


class Silent:
    """Says nothing."""

    def stage(self, name: str) -> None:
        """Ignore it."""

    def sweep(self, iteration: int, elbo: float, change: float | None, left: float | None) -> None:
        """Ignore it."""

    def part(self, done: int, total: int) -> None:
        """Ignore it."""

    def log(self, line: str) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Nothing to end."""


class Lines:
    """Plain lines, at most one sweep in five seconds."""

    def __init__(self, console: Console, every: float = 5.0) -> None:
        self._console = console
        self._every = every
        self._last = float("-inf")
        self._stage = ""

    def stage(self, name: str) -> None:
        """Print the stage."""
        self._stage = name
        self._print(name)

    def sweep(self, iteration: int, elbo: float, change: float | None, left: float | None) -> None:
        """Print the sweep, unless one was printed a moment ago."""
        if self._due():
            self._print(_sweep_text(iteration, elbo, change))

    def part(self, done: int, total: int) -> None:
        """Print how much is done, unless something was printed a moment ago."""
        if done < total and self._due():
            self._print(f"{self._stage}: {done} of {total}")

    def log(self, line: str) -> None:
        """Print the line."""
        self._print(line)

    def close(self) -> None:
        """Nothing to end."""

    def _due(self) -> bool:
        if time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bar:
    """A bar with stage, sweep, bound, change and time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("start", total=None, detail="")

    def stage(self, name: str) -> None:
        """Show the stage."""
        self._progress.update(self._task, description=name, detail="", total=None)

    def sweep(self, iteration: int, elbo: float, change: float | None, left: float | None) -> None:
        """Show the sweep; the bar fills as the estimate of the sweeps to come shrinks."""
        total = None if left is None else iteration + 1 + left
        self._progress.update(
            self._task,
            completed=iteration + 1,
            total=total,
            detail=_sweep_text(iteration, elbo, change),
        )

    def part(self, done: int, total: int) -> None:
        """Fill the bar."""
        self._progress.update(self._task, completed=done, total=total, detail=f"{done} of {total}")

    def log(self, line: str) -> None:
        """Print the line above the bar."""
        self._console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def _sweep_text(iteration: int, elbo: float, change: float | None) -> str:
    text = f"sweep {iteration + 1}: bound {elbo:,.4f}"
    return text if change is None else f"{text}, change {change:+.3g}"


current: ContextVar[Watch] = ContextVar("watch", default=Silent())  # noqa: B039 - stateless
