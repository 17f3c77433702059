"""What commands print, and where: results on stdout, how a run goes and what is wrong on stderr."""

from __future__ import annotations

import csv
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from flows.escape import escaped
from flows.events import STAGES, Event, Message, Pace, Progress, Stage, Sweep, listening
from flows.faults import Interrupted, RunError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


@cache
def out(stderr: bool = False) -> Console:
    """Return where results go."""
    from rich.console import Console

    # What is printed may hold names such as a:cat:b and [bold].
    return Console(stderr=stderr, emoji=False, markup=False, highlight=False)


def err() -> Console:
    """Return where everything else goes."""
    return out(stderr=True)


def line(text: str, wraps: bool = False) -> None:
    """Print a line, escaped: it may hold text from data; a sentence ``wraps`` on a terminal."""
    out().print(escaped(text), soft_wrap=not (wraps and out().is_terminal))


class Escaping(logging.Formatter):
    """Formats records of Python's log, which may hold text from data, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text, escaped."""
        return escaped(super().format(record))


def print_json(value: Any) -> None:
    """Print a value; JSON has no infinity and no NaN, so these are null."""
    from pydantic_core import to_json

    plain = json.loads(to_json(value, inf_nan_mode="null"))
    sys.stdout.write(json.dumps(plain, sort_keys=True) + "\n")


def print_csv(table: pa.Table) -> None:
    """Print a table as CSV with a header; cells of several values have `; ` between them."""
    on_terminal = sys.stdout.isatty()

    def text(value: Any) -> str:
        if value is None:
            return ""
        joined = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
        return escaped(joined) if on_terminal else joined

    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(table.column_names)
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            write(map(text, row.values()))


def print_outcome(outcome: dict[str, Any], json_output: bool) -> None:
    """Print what became of a run."""
    if json_output:
        print_json(outcome)
        return
    print_answer(outcome.get("text") or "\n".join([outcome["headline"], *outcome["lines"]]))


def print_answer(text: str) -> None:
    """Print an answer as its template has it."""
    for row in text.splitlines():
        line(row)


CHECKING = ("check", "ingest", "prepare", "time a sweep")


@contextmanager
def followed(quiet: bool, stages: Sequence[str] = STAGES) -> Iterator[None]:
    """Show how the runs within a block go: as a bar on a terminal, else as lines."""
    show = Bar(err(), stages) if err().is_terminal and not quiet else Lines(err())
    try:
        with nullcontext() if quiet else listening(show):
            yield
    except Interrupted as error:  # Typer would drop its sentence
        raise RunError(str(error)) from error
    finally:
        if isinstance(show, Bar):
            show.close()


class Lines:
    """Plain lines: one for each stage, and how far a long one is, once a minute."""

    def __init__(self, console: Console, every: float = 60.0) -> None:
        self._console, self._pace = console, Pace(every)

    def on_event(self, event: Event) -> None:
        """Print stages and lines; of sweeps and parts those that are due."""
        match event:
            case Stage(text) | Message(text):
                self._print(text)
                self._pace.due()  # the first minute begins
            case Sweep() if self._pace.due():
                self._print(event.in_words())
            case Progress(stage, done, total) if done < total and self._pace.due():
                self._print(f"{stage}: {done} of {total}")

    def _print(self, text: str) -> None:
        self._console.print(escaped(text), markup=False, highlight=False, soft_wrap=True)


_OTHERS = 48
"""Columns of a terminal that the other parts of a bar take."""


class Bar:
    """A bar for each stage: its name, how much is done, what a fit climbs, time left and taken."""

    def __init__(self, console: Console, stages: Sequence[str] = STAGES) -> None:
        from rich.progress import (
            BarColumn,
            ProgressColumn,
            SpinnerColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import Progress as Display
        from rich.text import Text

        class Left(ProgressColumn):
            def render(self, task: Task) -> Text:
                left = None if task.finished else task.time_remaining
                return Text("" if left is None else f"{left // 60:.0f}:{left % 60:02.0f} left")

        self._console, self._of = console, len(stages)
        # ``vbflows score`` loads a posterior in place of a fit.
        self._places = {"load": 4} | {name: place for place, name in enumerate(stages, start=1)}
        self._progress = Display(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[detail]}", markup=False),
            Left(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("start", total=None, detail="")

    def on_event(self, event: Event) -> None:
        """Move the bar, which fills as the estimate of the sweeps to come shrinks."""
        match event:
            case Stage(name):
                self._progress.remove_task(self._task)
                place = f" ({self._places[name]} of {self._of})" if name in self._places else ""
                self._task = self._progress.add_task(f"{name}{place}", total=None, detail="")
            case Message(text):
                self._console.print(escaped(text), markup=False, highlight=False)
            case Sweep(iteration, elbo, phase=phase, objective=objective):
                done = iteration + 1
                detail = f"{phase}, sweep {done}" if phase else f"sweep {done}"
                climbs = f": {objective} {elbo:,.4f}"
                if not phase and len(detail + climbs) <= self._console.width - _OTHERS:
                    detail += climbs
                self._move(done, event.expected, detail)
            case Progress(_, done, total):
                self._move(done, total, f"{done} of {total}")

    def _move(self, done: int, total: float | None, detail: str) -> None:
        self._progress.update(self._task, completed=done, total=total, detail=detail)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()
