"""The loop: a model's protocol, coordinate ascent, acceleration, convergence, the reduce.

A model says what one partition computes and how sums of that move the global
parameters. Everything here is the same for every model and knows no cluster: the
executor is a `Reduce`, in process (`InProcess`) or elsewhere.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from vbmodels.state import FloatArray, State, Stats, aligned

S = TypeVar("S", bound=Stats)
R = TypeVar("R")


class Model(Protocol):
    """Priors and options of one model; it holds neither data nor parameters.

    Every method is a pure function of its arguments. ``batch`` is one partition's data,
    ``q`` the global parameters, ``local`` the partition's own parameters (None at first).
    """

    def observe(self, batch: Any) -> Any:
        """Return the additive statistics that are needed once, before the first sweep."""

    def init(self, observed: Any, rng: np.random.Generator) -> Any:
        """Return the first global parameters."""

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        """Return the partition's local parameters at ``q``, warm-started from ``local``."""

    def suff_stats(self, q: Any, batch: Any, local: Any) -> Any:
        """Return the additive statistics, with the local part of the bound."""

    def global_step(self, q: Any, stats: Any) -> Any:
        """Return the global parameters that maximise the bound given ``stats``."""

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound at ``q`` and the local parameters behind ``stats``."""


@runtime_checkable
class Accelerable(Protocol):
    """A model whose global parameters can be read as a vector without constraints."""

    def to_vector(self, q: Any) -> FloatArray:
        """Return the unconstrained coordinates of ``q``."""

    def from_vector(self, q: Any, vector: FloatArray) -> Any:
        """Return ``q`` moved to these coordinates."""


class Reduce(Protocol):
    """The executor: local steps on every partition, then the sum of their statistics."""

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Return the summed statistics at ``q``.

        Parameters
        ----------
        q
            The global parameters.
        number
            Number of this evaluation, counted from 0. The local states that it leaves
            are known by this number.
        warm
            Number of the evaluation whose local states are the start; None for a cold
            start. It is one of the last two evaluations.
        """


@dataclass(frozen=True)
class Cursor(State):
    """All that a loop needs to go on after one of its steps with the same bits."""

    q: State
    stats: Stats
    number: int
    elbo: float


@dataclass(frozen=True)
class Step:
    """One accepted sweep: its parameters, the bound at them, and how to go on from here.

    ``converged`` is None where the trace of bounds decides; a loop that judges by itself
    (one with draws, say) states it.
    """

    iteration: int
    q: Any
    elbo: float
    cursor: Cursor
    converged: bool | None = None


def tree_sum(parts: Iterable[S]) -> S:
    """Add statistics over the fixed binary tree of their positions.

    The tree splits n parts at the largest power of two below n, so the sum over complete
    subtrees can be made elsewhere and finished here with the same bits. Parts may arrive
    one at a time: at most log2(n) + 1 partial sums are held.
    """
    pending: list[tuple[int, S]] = []
    for part in parts:
        size, total = 1, part
        while pending and pending[-1][0] == size:
            size, total = 2 * size, pending.pop()[1] + total
        pending.append((size, total))
    if not pending:
        raise ValueError("there is nothing to add: expected at least one partition")
    total = pending.pop()[1]
    while pending:
        total = pending.pop()[1] + total
    return total


class InProcess:
    """The executor in this process, with threads over partitions where that helps.

    Parameters
    ----------
    model
        The model.
    batches
        One partition's data each; their order is the order of the partition ids.
    threads
        Partitions that are worked on at once. It changes no bit of the result.
    """

    def __init__(self, model: Model, batches: Sequence[Any], threads: int = 1) -> None:
        self.model = model
        self.batches = list(batches)
        self._locals: dict[int, list[Any]] = {}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def map(self, function: Callable[..., R], *columns: Sequence[Any]) -> Iterator[R]:
        """Apply ``function(batch, ...)`` to every partition, results in partition order."""
        run = self._pool.map if self._pool else map
        return iter(run(function, self.batches, *columns))

    def observe(self) -> Any:
        """Return the summed statistics that are needed before the first sweep."""
        return tree_sum(self.map(self.model.observe))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `Reduce`."""
        start = [None] * len(self.batches) if warm is None else self.local_states(warm)

        def sweep(batch: Any, local: Any) -> tuple[Any, Any]:
            local = self.model.local_step(q, batch, local)
            return local, self.model.suff_stats(q, batch, local)

        states: list[Any] = []

        def summed() -> Iterator[Any]:
            for local, stats in self.map(sweep, start):
                states.append(local)
                yield stats

        total = tree_sum(summed())
        self._locals = {k: v for k, v in self._locals.items() if k == warm}
        self._locals[number] = states
        return total

    def local_states(self, number: int) -> list[Any]:
        """Return the partitions' local states after evaluation ``number``."""
        if number not in self._locals:
            raise LookupError(
                f"the local states of evaluation {number} are gone; kept: {sorted(self._locals)}"
            )
        return self._locals[number]

    def restore(self, number: int, states: Sequence[Any]) -> None:
        """Take local states that were stored after evaluation ``number``."""
        if len(states) != len(self.batches):
            raise ValueError(
                f"expected {len(self.batches)} local states, one a partition, got {len(states)}"
            )
        self._locals = {number: list(states)}


def start(model: Model, q: Any, reduce: Reduce) -> Cursor:
    """Evaluate the first parameters, from a cold start."""
    q = aligned(q)
    stats = reduce(q, number=0, warm=None)
    return Cursor(q=q, stats=stats, number=0, elbo=model.elbo(q, stats))


def cavi(model: Model, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """Coordinate ascent from ``cursor``, without end; the first step is the cursor's own.

    The bound is read at the parameters that the statistics were made with, before they
    move, so it costs no pass of its own.
    """
    yield Step(cursor.number, cursor.q, cursor.elbo, cursor)
    while True:
        q = aligned(model.global_step(cursor.q, cursor.stats))
        number = cursor.number + 1
        stats = reduce(q, number=number, warm=cursor.number)
        cursor = Cursor(q=q, stats=stats, number=number, elbo=model.elbo(q, stats))
        yield Step(number, q, cursor.elbo, cursor)


@dataclass(frozen=True)
class SquaremCursor(Cursor):
    """Position in a cycle of `squarem`: the point before this one, and the longest stride.

    ``before`` is None at the beginning of a cycle.
    """

    before: State | None = None
    stride: float = 4.0


def squarem(model: Any, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """SQUAREM (Varadhan and Roland 2008, scheme S3) guarded by the bound.

    From theta0 take two plain steps to theta1 and theta2; with r = theta1 - theta0 and
    v = (theta2 - theta1) - r, try theta0 - 2 a r + a^2 v at a = -|r|/|v|, no longer than
    the present stride. The trial stands if its bound is finite and not below the bound at
    theta1, else theta2 does: the bound never falls. Only accepted points are yielded, so
    iteration numbers (evaluations) may skip.

    The model must be `Accelerable`.
    """
    at = cursor if isinstance(cursor, SquaremCursor) else SquaremCursor(**vars(cursor))
    yield Step(at.number, at.q, at.elbo, at)
    while True:
        ahead = model.global_step(at.q, at.stats)
        if at.before is None:
            at = _evaluate(model, reduce, ahead, at.number + 1, at.number, at.q, at.stride)
        else:
            trial, length = _extrapolate(model, at.before, at.q, ahead, at.stride)
            tried = _evaluate(model, reduce, trial, at.number + 1, at.number, None, at.stride)
            if math.isfinite(tried.elbo) and tried.elbo >= at.elbo:
                stride = 4.0 * at.stride if length >= at.stride else at.stride
                at = _with_stride(tried, stride)
            else:
                stride = max(1.0, at.stride / 4.0)
                at = _evaluate(model, reduce, ahead, tried.number + 1, at.number, None, stride)
        yield Step(at.number, at.q, at.elbo, at)


def _with_stride(cursor: SquaremCursor, stride: float) -> SquaremCursor:
    return SquaremCursor(**{**vars(cursor), "stride": stride})


def _evaluate(
    model: Model,
    reduce: Reduce,
    q: Any,
    number: int,
    warm: int,
    before: Any,
    stride: float,
) -> SquaremCursor:
    q = aligned(q)
    stats = reduce(q, number=number, warm=warm)
    return SquaremCursor(
        q=q, stats=stats, number=number, elbo=model.elbo(q, stats), before=before, stride=stride
    )


def _extrapolate(
    model: Accelerable, before: Any, q: Any, ahead: Any, stride: float
) -> tuple[Any, float]:
    theta0, theta1, theta2 = (model.to_vector(x) for x in (before, q, ahead))
    r = theta1 - theta0
    v = (theta2 - theta1) - r
    norm = float(np.linalg.norm(v))
    length = min(max(float(np.linalg.norm(r)) / norm, 1.0), stride) if norm > 0 else 1.0
    vector = theta0 + 2.0 * length * r + length**2 * v
    return model.from_vector(ahead, vector), length


class UntilConverged:
    """Pass steps on until the bound has converged or ``max_iter`` evaluations are done.

    The rise that is still to come is estimated from the last rises (Aitken: a geometric
    series), so a slow creep does not pass for convergence. The steps end when that is at
    most ``tol * max(1, |bound|)`` twice in a row.

    Parameters
    ----------
    steps
        The loop.
    tol
        Relative tolerance on the bound.
    max_iter
        Most evaluations.
    trace
        Bounds of earlier steps, when the loop goes on from a checkpoint.

    Attributes
    ----------
    converged
        Whether the steps ended by convergence.
    trace
        The bound at every step so far.
    """

    def __init__(
        self, steps: Iterator[Step], tol: float, max_iter: int, trace: Sequence[float] = ()
    ) -> None:
        self.steps = steps
        self.tol = tol
        self.max_iter = max_iter
        self.trace = list(trace)
        self.converged = False

    def __iter__(self) -> Iterator[Step]:
        if self.trace:
            # The first step of a resumed loop is the one that the checkpoint was made at.
            at = next(self.steps)
            self.converged = self._converged(at)
            if self.converged or at.iteration + 1 >= self.max_iter:
                return
        for step in self.steps:
            self.trace.append(step.elbo)
            self.converged = self._converged(step)
            yield step
            if self.converged or step.iteration + 1 >= self.max_iter:
                return

    def _converged(self, step: Step) -> bool:
        if step.converged is not None:
            return step.converged
        return len(self.trace) > 3 and all(
            remaining_rise(self.trace[:end]) <= self.tol * max(1.0, abs(self.trace[-1]))
            for end in (len(self.trace) - 1, len(self.trace))
        )


def remaining_rise(trace: Sequence[float]) -> float:
    """Estimate how far the bound still has to rise, from its last three values (Aitken)."""
    first, second, last = trace[-3:]
    rise, before = last - second, second - first
    rate = rise / before if before > 0 else 0.0
    return abs(rise) / (1.0 - rate) if 0.0 < rate < 1.0 else abs(rise)


class NotConverged(UserWarning):
    """A fit stopped at its largest number of sweeps before the bound had converged."""


@runtime_checkable
class Driven(Protocol):
    """A model with a loop of its own: one with phases, or with draws."""

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Go on from ``cursor``, whose step comes first, without end."""


@dataclass(frozen=True)
class Fit:
    """What a fit leaves: the posterior, the bound's trace, and whether it converged."""

    q: Any
    trace: list[float]
    iterations: int
    converged: bool
    reduce: InProcess


Loop = Callable[[Any, Reduce, Cursor], Iterator[Step]]


def loop_of(model: Any) -> Loop:
    """Return the loop of a model: its own, or `squarem` where it is `Accelerable`, or `cavi`."""
    if isinstance(model, Driven):
        return lambda model, reduce, cursor: model.steps(reduce, cursor)
    return squarem if isinstance(model, Accelerable) else cavi


def fit(
    model: Any,
    batches: Sequence[Any],
    *,
    seed: int = 0,
    tol: float = 1e-8,
    max_iter: int = 1000,
    threads: int = 1,
    loop: Loop | None = None,
) -> Fit:
    """Fit a model in this process.

    Parameters
    ----------
    model
        The model.
    batches
        One partition's data each.
    seed
        Seed of the start.
    tol
        Relative tolerance on the bound; see `UntilConverged`.
    max_iter
        Most evaluations; `NotConverged` is warned of when they do not suffice.
    threads
        Partitions that are worked on at once.
    loop
        `cavi`, `squarem` or another; by default that of `loop_of`.
    """
    reduce = InProcess(model, batches, threads)
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    run = loop or loop_of(model)
    steps = UntilConverged(run(model, reduce, start(model, q, reduce)), tol, max_iter)
    step = deque(steps, maxlen=1).pop()
    if not steps.converged:
        warnings.warn(
            f"the bound had not converged after {step.iteration + 1} evaluations; "
            "raise max_iter or tol",
            NotConverged,
            stacklevel=2,
        )
    return Fit(step.q, steps.trace, step.iteration + 1, steps.converged, reduce)
