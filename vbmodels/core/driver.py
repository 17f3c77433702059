"""The driver: it answers requests of an algorithm, or of several in step, and keeps the answers.

A resume needs these.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import (
    Algorithm,
    Evaluate,
    Loop,
    NonFiniteBound,
    Phase,
    Request,
    Save,
    Show,
    Stop,
    Sweep,
)
from vbmodels.core.state import IntArray, State, aligned, leaves

WINDOW = 12
SLOWEST = 0.98  # what a window's rise is taken to shrink by where it does not shrink
ROUNDING = 1e-14
SHORTEST = 6  # values: then both looks at them have windows


def has_converged(trace: Sequence[float], tol: float) -> bool:
    """Whether the rise to come was at most ``tol * max(1, |bound|)`` at the last two values."""
    return len(trace) >= SHORTEST and all(
        remaining_rise(trace[:end]) <= tol * max(1.0, abs(trace[-1]))
        for end in (len(trace) - 1, len(trace))
    )


def remaining_rise(trace: Sequence[float]) -> float:
    """Estimate how far the bound still rises, by Aitken's formula for a geometric series.

    The larger of two estimates: the last rise and all that is to come, from the last three
    values; and what is to come after the last value, from the rises over two windows of up to
    `WINDOW` values. Accelerated loops need the second: there a small plain rise comes after
    each leap, and three values alone say nothing.
    """
    first, second, last = trace[-3:]
    rise, before = last - second, second - first
    rate = rise / before if before > 0 else 0.0
    near = abs(rise) / (1.0 - rate) if 0.0 < rate < 1.0 else abs(rise)
    return max(near, _beyond_window(trace))


def _beyond_window(trace: Sequence[float]) -> float:
    """Estimate the rise after the last value from two windows; 0 where they say nothing."""
    width = 2 * min(WINDOW // 2, (len(trace) - 1) // 4)  # whole cycles of `squarem`
    if width == 0:
        return 0.0
    first, second, last = trace[-1 - 2 * width], trace[-1 - width], trace[-1]
    rise, before = last - second, second - first
    if before <= 0.0 or rise <= ROUNDING * abs(last):
        return 0.0
    rate = min(rise / before, SLOWEST)
    return rise * rate / (1.0 - rate)


@dataclass(frozen=True)
class Frame(State, kind="core.Frame"):
    """What an algorithm saved last, and what it was answered since.

    Attributes
    ----------
    saved
        The value of its last `Save`; empty without one.
    answers
        To its requests since.
    questions
        A checksum of each request.
    """

    saved: tuple[Any, ...]
    answers: tuple[Any, ...]
    questions: IntArray


@dataclass(frozen=True)
class Log(State, kind="core.Log"):
    """All that a fit needs to go on with the same bits, but for the local states.

    Attributes
    ----------
    start
        The first parameters.
    frames
        Of the algorithm, of the phase that it is in, of the phase's phase.
    number
        Number of the newest sweep.
    """

    start: Any
    frames: tuple[Frame, ...]
    number: int


@dataclass(frozen=True)
class Step:
    """A point that an algorithm shows.

    Attributes
    ----------
    iteration
        Number of the newest sweep.
    q, elbo
        What a fit that ends here leaves, and its bound.
    stats
        The newest answer: in rounds the last round's. None where a resume has none.

    Raises
    ------
    NonFiniteBound
        If the bound is not finite.
    """

    iteration: int
    q: Any
    elbo: float
    stats: Any = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.elbo):
            raise NonFiniteBound(
                f"the bound became {self.elbo} at sweep {self.iteration}"
                f"{self._first_not_finite()}; look for extreme values in the data, "
                "standardise numeric columns, or narrow the prior"
            )

    def _first_not_finite(self) -> str:
        for state in ("q", "stats"):
            for name, leaf in leaves(getattr(self, state), state):
                array = np.asarray(leaf)
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    return f" (the first number that is not finite is in {name})"
        return ""


class _Frame:
    """A generator, with what it was answered."""

    def __init__(
        self, algorithm: Algorithm, mark: int, doing: str | Callable[[], str], known: Frame | None
    ) -> None:
        self.algorithm, self.mark, self.doing = algorithm, mark, doing
        self.saved: tuple[Any, ...] = () if known is None else known.saved
        self.answers: list[Any] = [] if known is None else list(known.answers)
        self.questions: list[Request | int] = [] if known is None else known.questions.tolist()
        self.place = 0  # answers given
        self.restoring = bool(self.saved)  # whether the saved value is not given yet

    def note(self, question: Request | int, answer: Any) -> Any:
        """Keep an answer to a request, or to one with this checksum; return it.

        The newest request waits for its checksum: nearly all are forgotten without one.
        """
        self.questions[-1:] = map(checksum, self.questions[-1:])
        self.questions.append(question)
        self.answers.append(answer)
        self.place += 1
        return answer

    def save(self, value: Any) -> Any:
        """Return what a `Save` is answered with."""
        if self.restoring:
            self.restoring = False
            return self.saved[0]
        if self.place and not self.saved:
            raise RuntimeError("an algorithm saves before it requests anything else, or never")
        self.drop(0)
        self.saved = (value if callable(value) else aligned(value),)
        return self.saved[0]

    def drop(self, place: int) -> None:
        """Forget the answers from a place on."""
        del self.questions[place:], self.answers[place:]
        self.place, self.restoring = place, False

    def record(self) -> Frame:
        """Return what a resume needs."""
        return Frame(
            tuple(value() if callable(value) else value for value in self.saved),
            tuple(self.answers),
            np.array([checksum(one) for one in self.questions], dtype=np.int64),
        )


class Frames:
    """An algorithm with the phases that it is in, and what they were answered.

    Parameters
    ----------
    algorithm
        The algorithm.
    known
        What `record` returned, to go on from; none for a beginning.

    Attributes
    ----------
    result
        What the algorithm has returned; None before.
    stats
        The newest answer to a sweep; None before, and after a resume from a `Save`.
    diverged
        Whether it requested something else than what is known.
    """

    def __init__(self, algorithm: Algorithm, known: Sequence[Frame] = ()) -> None:
        self.result: Any = None
        self.stats: Any = None
        self.diverged = False
        self._known = list(known)  # of what is not begun again yet
        self._frames: list[_Frame] = []
        self._begin(algorithm, 0, "")

    @property
    def doing(self) -> str:
        """What is done where no posterior is known yet; else empty."""
        for frame in reversed(self._frames):
            if found := frame.doing if isinstance(frame.doing, str) else frame.doing():
                return found
        return ""

    def record(self) -> tuple[Frame, ...]:
        """Return what a resume needs."""
        return tuple(frame.record() for frame in self._frames)

    def note(self, request: Request, answer: Any) -> Any:
        """Keep the answer to the last request; return it."""
        self.stats = answer
        return self._frames[-1].note(request, answer)

    def next(self, answer: Any) -> Request | None:
        """Go on with an answer; return the next `Show` or request to compute; None at the end."""
        while True:
            frame = self._frames[-1]
            try:
                request = frame.algorithm.send(answer)
            except StopIteration as end:
                answer = aligned(end.value)
                if len(self._frames) == 1:
                    self.result = answer
                    return None
                self._frames.pop()
                self._frames[-1].note(frame.mark, answer)
                continue
            answer = None
            if isinstance(request, Show | Stop):
                return request
            if isinstance(request, Save):
                answer = frame.save(request.value)
                continue
            known = [] if frame.restoring else frame.answers[frame.place :]
            if known and checksum(frame.questions[frame.place]) == checksum(request):
                answer = known[0]
                frame.place += 1
                if not isinstance(request, Phase):
                    self.stats = answer
            else:
                if known or frame.restoring or (self._known and not isinstance(request, Phase)):
                    self.diverged = True
                    self._known.clear()
                    frame.drop(frame.place)
                if not isinstance(request, Phase):
                    return request
                self._begin(request.algorithm, checksum(request), request.doing)

    def _begin(self, algorithm: Algorithm, mark: int, doing: str | Callable[[], str]) -> None:
        known = self._known.pop(0) if self._known else None
        self._frames.append(_Frame(algorithm, mark, doing, known))


class Driver:
    """The steps of one fit: until its algorithm ends, its bound converges, or its sweeps are over.

    The bound has converged where the rise to come, as the last rises let expect (see
    `vbmodels.core.driver`), is at most ``tol * max(1, |bound|)`` twice in a row.

    Parameters
    ----------
    loop
        The algorithm.
    model, q
        Its arguments: the model, and the first parameters.
    reduce
        The executor, a `vbmodels.core.algorithm.Reduce`.
    tol
        Relative tolerance on the bound; None: no bound converges.
    max_iter
        Most sweeps; None: any number.
    log, trace
        Of the run to go on from, whose ``log.start`` is ``q`` and whose local states ``reduce``
        has; and the bounds of its steps.

    Attributes
    ----------
    trace
        The bound at every step so far.
    step
        The last step, also that which the run to go on from had ended at; None before the first.
    number
        Number of the newest sweep.
    converged
        Whether the algorithm has ended, or the bound has converged.
    """

    def __init__(
        self,
        loop: Loop,
        model: Any,
        q: Any,
        reduce: Any,
        *,
        tol: float | None = None,
        max_iter: int | None = None,
        log: Log | None = None,
        trace: Sequence[float] = (),
    ) -> None:
        self.reduce, self.tol, self.max_iter, self.trace = reduce, tol, max_iter, list(trace)
        self.number = -1 if log is None else log.number
        self.step: Step | None = None
        self.converged = False
        self._start = aligned(q)
        self._warm: int | None = None  # sweep whose local states the newest one started at
        self._shown = True  # whether the newest sweep was
        self._frames = Frames(loop(model, self._start), () if log is None else log.frames)
        self._request = self._next(None)
        self._steps = self._iterate()
        if log is not None:
            self._replay()

    @property
    def doing(self) -> str:
        """What the algorithm does where no posterior is known yet; else empty."""
        return self._frames.doing

    def log(self) -> Log:
        """Return what a resume needs, but for the local states of the newest sweep."""
        return Log(self._start, self._frames.record(), self.number)

    def __iter__(self) -> Iterator[Step]:
        return self._steps

    def _iterate(self) -> Iterator[Step]:
        while self._request is not None and not self.converged:
            if isinstance(self._request, Show) and self._request.if_last and self._sweeps_left():
                self._request = self._next(None)
            elif isinstance(self._request, Show):
                step = self._taken(self._request)
                self.trace.append(step.elbo)
                self.converged = self._has_converged(self._request)
                yield step
                if not self.converged:
                    self._request = self._next(None)
            # Where a step was refused, one that holds may follow the last sweep.
            elif isinstance(self._request, Stop) or (
                not self._sweeps_left() and (self._shown or self.doing)
            ):
                return
            else:
                answer = self._frames.note(self._request, self._answer(self._request))
                self._request = self._next(answer)
        self.converged = True

    def _replay(self) -> None:
        """Take the steps that the log leads to."""
        shown = None
        while isinstance(self._request, Show):
            if not self._request.if_last or self._ends_trace(self._request):
                shown = self._request
                self._taken(shown)
            self._request = self._next(None)
        self._shown = shown is not None  # where the log is of no use, until a point is shown
        if shown is None or self._frames.diverged or not self.trace:
            return
        if not self._ends_trace(shown):
            raise ValueError(
                f"the trace ends at the bound {self.trace[-1]!r}, the step to go on from has "
                f"{shown.elbo!r}: they are not of the same fit"
            )
        self.converged = self._has_converged(shown)

    def _next(self, answer: Any) -> Request | None:
        """Return the next request; at the end the last step has what the algorithm returned."""
        request = self._frames.next(answer)
        if request is None and self.step is not None:
            self.step = replace(self.step, q=self._frames.result)
        return request

    def _ends_trace(self, shown: Show) -> bool:
        """Whether the trace ends at a bound: another machine may differ in the last bits."""
        last = self.trace[-1] if self.trace else math.nan
        return math.isclose(shown.elbo, last, rel_tol=1e-6)

    def _answer(self, request: Request) -> Any:
        """Return the executor's answer to a request."""
        if isinstance(request, Evaluate):
            self._warm = None
        elif not isinstance(request, Sweep):
            raise TypeError(f"an algorithm yields requests, got {request!r}")
        elif not request.again:
            self._warm = self.number if self.number >= 0 else None
        self.number, self._shown = self.number + 1, False
        return aligned(self.reduce(aligned(request.q), number=self.number, warm=self._warm))

    def _sweeps_left(self) -> bool:
        return self.max_iter is None or self.number + 1 < self.max_iter

    def _has_converged(self, shown: Show) -> bool:
        return self.tol is not None and shown.by_trace and has_converged(self.trace, self.tol)

    def _taken(self, shown: Show) -> Step:
        self._shown = True
        self.step = Step(self.number, shown.q, shown.elbo, self._frames.stats)
        return self.step


def checksum(request: Request | int) -> int:
    """Return a checksum of a request; one that is given is returned."""
    if isinstance(request, int):
        return request
    if isinstance(request, Phase):
        return zlib.crc32(request.doing.encode()) if isinstance(request.doing, str) else 0
    total = zlib.crc32(type(request).__name__.encode())
    for field in fields(request):
        for name, leaf in leaves(getattr(request, field.name), field.name):
            array = np.asarray(leaf)
            total = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), total)
            # The bytes of an array of objects are addresses, which no other process shares.
            content = repr(leaf).encode() if array.dtype.hasobject else array.tobytes()
            total = zlib.crc32(content, total)
    return total


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
        self.take(None)
        if shown:
            self.shown = Show(*shown)

    def record(self) -> Record:
        """Return what a resume needs."""
        shown = () if self.shown is None else (self.shown.q, self.shown.elbo)
        return self.frames.record(), shown

    def take(self, answer: Any) -> None:
        """Take the answer to the request, and go on to the next; at the end there is none."""
        if self.request is not None:
            self.frames.note(self.request, answer)
        self.shown, self.request = None, self.frames.next(answer)
        while isinstance(self.request, Show):
            self.shown, self.request = self.request, self.frames.next(None)
