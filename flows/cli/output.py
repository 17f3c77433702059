"""What commands print, and where."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from flows.escape import escaped
from flows.faults import Interrupted, RunError

if TYPE_CHECKING:
    from rich.console import Console

MOST_SHOWN = 8  # rows of the result below the headline


@cache
def out() -> Console:
    """Return where results go."""
    from rich.console import Console

    # What is printed may hold names such as a:cat:b and [bold].
    return Console(emoji=False, markup=False, highlight=False)


@cache
def err() -> Console:
    """Return where everything else goes."""
    from rich.console import Console

    return Console(stderr=True, emoji=False, markup=False, highlight=False)


def line(text: str) -> None:
    """Print a line, escaped: it may hold text from data."""
    out().print(escaped(text), soft_wrap=True)


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


def print_outcome(outcome: dict[str, Any], json_output: bool) -> None:
    """Print what became of a run."""
    if json_output:
        print_json(outcome)
        return
    headline, *more = outcome["lines"]
    line(headline)
    if outcome.get("top"):
        from flows.cli.tables import show_top

        show_top(out(), outcome["top"][:MOST_SHOWN])
    for text in more:
        line(text)


@contextmanager
def followed(quiet: bool) -> Iterator[None]:
    """Show how the runs within a block go, in the way that fits where the output goes."""
    from flows.cli.progress import Bar, Lines
    from flows.events import listening

    with ExitStack() as stack:
        if not quiet:
            bar = stack.enter_context(closing(Bar(err()) if err().is_terminal else Lines(err())))
            stack.enter_context(listening(bar))
        try:
            yield
        except Interrupted as error:  # of which Typer would forget what it says
            raise RunError(str(error)) from error
