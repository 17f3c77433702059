"""Benchmarks of scenarios by seeds: one JSON line a run, and a table of them all."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def main(
    doc: str | None,
    names: Iterable[str],
    one_run: Callable[..., dict],
    summary: Callable[[list[dict]], list[str]],
    seeds: int,
    numbers: dict[str, int] | None = None,
) -> None:
    """Run scenarios, or sum up what was run.

    Parameters
    ----------
    doc
        The benchmark's docstring.
    names
        Its scenarios.
    one_run
        ``one_run(name, seed, **numbers)`` makes the row of one run.
    summary
        Makes lines of Markdown from rows.
    seeds
        How many seeds are run by default.
    numbers
        Further options of a run, with what they are by default.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("what", choices=("run", "summary"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(names))
    for name, value in (numbers or {}).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    if given.what == "run":
        own: dict[str, Any] = {name: getattr(given, name) for name in numbers or {}}
        with given.out.open("a") as file:
            for seed in range(given.first, given.first + given.seeds):
                for name in given.only:
                    file.write(json.dumps(one_run(name, seed, **own)) + "\n")
                    file.flush()
        return
    rows = [json.loads(line) for line in given.out.read_text().splitlines()]
    print("\n".join(summary(rows)))
