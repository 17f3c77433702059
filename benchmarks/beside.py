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

from vbmodels.core.cavi import begin
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
    """Adds up the seconds of what runs inside of it.

    Parameters
    ----------
    others
        Tells the seconds of CPU that other processes have taken for it.
    """

    def __init__(self, others: Callable[[], float] = lambda: 0.0) -> None:
        self.cpu = self.wall = 0.0
        self._others = others

    def __enter__(self) -> Clock:
        self._began = self._others() + time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._began[1]
        self.cpu += time.process_time() + self._others() - self._began[0]

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
        run = loop or loop_of(model)
        steps: Iterator = run(model, reduce, begin(run, model, q, reduce))
    while True:
        with clock:
            step = next(steps)
        found.append(clock.at(value(step.q)))
        if step.iteration >= sweeps:
            return found


def anew(
    fits: Callable[[int], object], rounds: tuple[int, ...], value: Callable[[object], float],
    others: Callable[[], float] = lambda: 0.0,
) -> Curve:  # fmt: skip
    """Return the curve of a method that cannot go on: one fit from the start for each length."""
    found = []
    for count in rounds:
        clock = Clock(others)
        with clock:
            fitted = fits(count)
        found.append(clock.at(value(fitted)))
    return found


def absent(*modules: str) -> list[str]:
    """Return which rivals are not installed, so that they are left out with a word."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def compared(curves: dict[str, list[Curve]], within: float, unit: str) -> str:
    """Return a table: each method beside the first, to the value that both of them reach.

    Each seed has data of its own and so its own values; figures are medians over seeds.

    Parameters
    ----------
    curves
        Of each method, one a seed; larger values are better.
    within
        How far below the lesser of the two best values the value to be reached lies.
    unit
        What the values are.
    """
    first, *_ = curves
    lines = [
        f"| method | best, {unit} | CPU s | seconds | CPU s of {first} to the same | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, of in curves.items():
        pairs = [
            _reached(curve, ours, within) for curve, ours in zip(of, curves[first], strict=True)
        ]
        cpu, wall = (float(np.median([getattr(p, x) for p, _ in pairs])) for x in ("cpu", "wall"))
        own = float(np.median([p.cpu for _, p in pairs]))
        best = float(np.median([max(p.value for p in curve) for curve in of]))
        lines.append(
            f"| {name} | {best:.4f} | {cpu:.3f} | {wall:.2f} | {own:.3f} | {cpu / own:.2f} |"
        )
    return "\n".join(lines)


def _reached(curve: Curve, other: Curve, within: float) -> tuple[Point, Point]:
    """Return where each of two curves first comes to what both of them reach."""
    target = min(max(p.value for p in one) for one in (curve, other)) - within
    one, two = (
        min((p for p in of if p.value >= target), key=lambda p: p.cpu) for of in (curve, other)
    )
    return one, two
