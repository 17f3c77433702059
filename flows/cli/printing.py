"""What commands print, and where."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from flows.escape import escaped

if TYPE_CHECKING:
    from rich.console import Console

    from flows.run.events import Listener


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
        from flows.run.show import show_top

        show_top(out(), outcome["top"][:MOST_SHOWN])
    for text in more:
        line(text)


@contextmanager
def listening(quiet: bool) -> Iterator[Listener]:
    """Show how a run goes in the way that fits where the output goes."""
    from flows.run.events import Listener
    from flows.run.terminal import Bar, Lines

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its cache of fonts
    if quiet:
        yield Listener()
    elif err().is_terminal:
        bar = Bar(err())
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield Lines(err())
