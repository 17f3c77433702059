"""Algorithms in step: one pass over the data answers what all of them request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from vbmodels.core.algorithm import Algorithm, Phase, Save, Show
from vbmodels.core.driver import Frame, Frames

Record = tuple[tuple[Frame, ...], tuple[Any, ...]]


def together(
    algorithms: Sequence[Algorithm],
    join: Callable[[dict[int, Any]], Any],
    parts: Callable[[Any], Sequence[Any]],
    show: Callable[[list[Show]], Show] | None = None,
) -> Phase:
    """Return the phase that runs algorithms in step and returns what each returns.

    What all were answered is saved as one value before each pass, so a resume repeats none.

    Parameters
    ----------
    algorithms
        All of them yield `Sweep`, or all yield `Evaluate`.
    join
        Makes one ``q`` to evaluate of theirs, by the numbers of the algorithms that go on.
    parts
        Takes the answer apart, in the order of these.
    show
        What is shown where all have shown a point since the last pass; None: nothing.
    """
    runs: list[_Run] = []

    def doing() -> str:
        return next((text for run in runs if (text := run.frames.doing)), "")

    return Phase(_in_step(algorithms, join, parts, show, runs), doing)


def _in_step(
    algorithms: Sequence[Algorithm],
    join: Callable[[dict[int, Any]], Any],
    parts: Callable[[Any], Sequence[Any]],
    show: Callable[[list[Show]], Show] | None,
    runs: list[_Run],
) -> Algorithm:
    def records() -> tuple[Record, ...]:
        return tuple(run.record() for run in runs)

    known = yield Save(records)
    if known is records:
        known = (((), ()),) * len(algorithms)
    runs += [_Run(*pair) for pair in zip(algorithms, known, strict=True)]
    while True:
        shown = [run.shown for run in runs if run.shown is not None]
        if show is not None and len(shown) == len(runs):
            yield show(shown)
        requests = {i: run.request for i, run in enumerate(runs) if run.request is not None}
        if not requests:
            return tuple(run.frames.result for run in runs)
        joined = join({i: request.q for i, request in requests.items()})
        answer = yield replace(next(iter(requests.values())), q=joined)
        for i, part in zip(requests, parts(answer), strict=True):
            runs[i].take(part)
        yield Save(records)


class _Run:
    """One algorithm as far as it was answered: its next request, and what it showed before."""

    def __init__(self, algorithm: Algorithm, record: Record) -> None:
        known, shown = record
        self.frames = Frames(algorithm, known)
        self.request: Any = None
        self.shown: Show | None = None
        self._go_on(None)
        if shown:
            self.shown = Show(*shown)

    def record(self) -> Record:
        """Return what a resume needs."""
        shown = () if self.shown is None else (self.shown.q, self.shown.elbo)
        return self.frames.record(), shown

    def take(self, answer: Any) -> None:
        """Take the answer to the request."""
        self._go_on(self.frames.note(self.request, answer))

    def _go_on(self, answer: Any) -> None:
        """Go on to the next request; at the end there is none."""
        self.shown, self.request = None, self.frames.next(answer)
        while isinstance(self.request, Show):
            self.shown, self.request = self.request, self.frames.next(None)
