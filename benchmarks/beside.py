"""How much CPU and time methods take to the same held-out value, for the heads-to-heads.

A method yields its held-out value again and again while it works. Only its own work is timed: the
evaluation, which is the same function for all, is not. Everything runs in one thread.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vbmodels.core.cavi import start
from vbmodels.core.fit import loop_of
from vbmodels.core.in_process import InProcess
from vbmodels.core.protocol import Loop


@dataclass(frozen=True)
class Point:
    """What a method had reached after so many seconds of CPU and of time."""

    cpu: float
    wall: float
    value: float


Curve = list[Point]


class Clock:
    """Adds up the seconds of what runs inside of it."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def __enter__(self) -> Clock:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time() - self._began[0]
        self.wall += time.perf_counter() - self._began[1]

    def at(self, value: float) -> Point:
        """Return a point of the curve."""
        return Point(self.cpu, self.wall, value)


def ours(
    model: object, batches: list, value: Callable[[object], float], *, seed: int, sweeps: int,
    loop: Loop | None = None,
) -> Curve:  # fmt: skip
    """Return the curve of one of our models, sweep by sweep."""
    clock, found = Clock(), []
    with clock:
        reduce = InProcess(model, batches)
        q = model.init(reduce.observe(), np.random.default_rng(seed))
        steps: Iterator = (loop or loop_of(model))(model, reduce, start(model, q, reduce))
    while True:
        with clock:
            step = next(steps)
        found.append(clock.at(value(step.q)))
        if step.iteration >= sweeps:
            return found


def anew(
    fits: Callable[[int], object], rounds: tuple[int, ...], value: Callable[[object], float]
) -> Curve:
    """Return the curve of a method that cannot go on: one fit from the start for each length."""
    found = []
    for count in rounds:
        clock = Clock()
        with clock:
            fitted = fits(count)
        found.append(clock.at(value(fitted)))
    return found


def absent(*modules: str) -> list[str]:
    """Return which rivals are not installed, so that they are left out with a word."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def compared(curves: dict[str, list[Curve]], within: float, unit: str) -> str:
    """Return a table: seconds to the value that all reach, and the best of each; larger is better.

    Each seed has data of its own and so its own value; figures are medians over seeds.

    Parameters
    ----------
    curves
        Of each method, one a seed.
    within
        How far below the least of the methods' best values the value to be reached lies.
    unit
        What the values are.
    """
    bests = {name: [max(p.value for p in curve) for curve in of] for name, of in curves.items()}
    targets = [min(of_seed) - within for of_seed in zip(*bests.values(), strict=True)]
    lines = [
        f"To {', '.join(f'{target:.4f}' for target in targets)} {unit}:",
        "",
        "| method | CPU s | seconds | best | CPU, the first method's = 1 |",
        "|---|---|---|---|---|",
    ]
    first = None
    for name, of in curves.items():
        reached = [
            min((p for p in curve if p.value >= target), key=lambda p: p.cpu)
            for curve, target in zip(of, targets, strict=True)
        ]
        cpu = float(np.median([p.cpu for p in reached]))
        wall = float(np.median([p.wall for p in reached]))
        first = first or cpu
        best = float(np.median(bests[name]))
        lines.append(f"| {name} | {cpu:.3f} | {wall:.2f} | {best:.4f} | {cpu / first:.2f} |")
    return "\n".join(lines)
