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
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from vbmodels.core.state import FloatArray, State, Stats, aligned, leaves

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


@runtime_checkable
class Staged(Protocol):
    """A model whose parameters are a posterior only from some stage of the fit on."""

    def unfinished(self, q: Any) -> str | None:
        """Say what is still being done at ``q``; None where it is a posterior."""


@runtime_checkable
class Judging(Protocol):
    """A model with phases or with draws: it says what its loop shows of a point."""

    def shown(self, at: Cursor) -> Step | None:
        """Return the step at ``at``, with ``converged`` where the trace of bounds decides nothing.

        None where the point is only on the way to another phase, or to the next judgement:
        it is passed in silence.
        """


@runtime_checkable
class Drawing(Protocol):
    """A model whose parameters hold the draws that it keeps, which no partition needs."""

    def without_draws(self, q: Any) -> Any:
        """Return ``q`` as it is sent to the partitions."""


@runtime_checkable
class Continuable(Protocol):
    """A model that can start near the posterior of an earlier fit, to other data.

    Attributes
    ----------
    keeps_locals
        Whether the local states that a fit left may start the cold steps of a later one on
        the same rows.
    """

    keeps_locals: bool

    def restart(self, observed: Any, before: Any, rng: np.random.Generator) -> Any:
        """Return first global parameters as `Model.init` does, near those of ``before``.

        What depends on the data alone (scales, counts) comes from ``observed``. Parameters
        of another shape cannot be started from: then this is `Model.init`.
        """


@runtime_checkable
class CatchesUp(Continuable, Protocol):
    """A continuable model that can take in new partitions before the first full sweep."""

    def partial_stats(self, q: Any, batch: Any, local: Any) -> Any:
        """Return additive statistics of a partition at ``q``; ``local`` None if it is new."""

    def catch_up(self, q: Any, before: Any, known: Any, new: Any) -> Any:
        """Return a better start than ``q``, which `restart` made from ``before``.

        ``known`` is the sum over unchanged partitions, made at ``before`` and in its units;
        ``new`` that over the others, made at ``q``. It is a start only, so it may leave out
        the safeguards of a step.
        """


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
    """All that a loop needs to go on after one of its steps with the same bits.

    ``q`` and ``stats`` are states of the model's own classes.
    """

    q: Any
    stats: Any
    number: int
    elbo: float


class NonFiniteBound(ArithmeticError):
    """The bound became NaN or infinite: the fit cannot go on."""


@dataclass(frozen=True)
class Step:
    """One accepted sweep: its parameters, the bound at them, and how to go on from here.

    ``q`` is what a fit that ends here leaves. It is the cursor's own but in a loop that may go
    downhill: there it is the best point so far, which the cursor then holds too.

    ``converged`` is None where the trace of bounds decides; a loop that judges by itself
    (one with draws, say) states it.

    Raises
    ------
    NonFiniteBound
        If the bound is not finite: such a sweep is never accepted.
    """

    iteration: int
    q: Any
    elbo: float
    cursor: Cursor
    converged: bool | None = None

    @classmethod
    def at(cls, cursor: Cursor, converged: bool | None = None) -> Self:
        """Return the step of a cursor at its own parameters."""
        return cls(cursor.number, cursor.q, cursor.elbo, cursor, converged)

    def __post_init__(self) -> None:
        if not math.isfinite(self.elbo):
            raise NonFiniteBound(
                f"the bound became {self.elbo} at evaluation {self.iteration}"
                f"{_first_not_finite(self.cursor)}; look for extreme values in the data, "
                "standardise numeric columns, or narrow the prior"
            )


def _first_not_finite(cursor: Cursor) -> str:
    for name, leaf in leaves(cursor):
        array = np.asarray(leaf)
        if name != "elbo" and array.dtype.kind == "f" and not np.isfinite(array).all():
            return f" (the first number that is not finite is in {name})"
    return ""


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
            if local is not None:
                local = aligned(local)
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
    return _swept(model, reduce, q, 0, None)


def _swept(model: Model, reduce: Reduce, q: Any, number: int, warm: int | None) -> Cursor:
    # Aligned, so that a cursor gives the same bits before and after it has been stored.
    q = aligned(q)
    sent = model.without_draws(q) if isinstance(model, Drawing) else q
    stats = aligned(reduce(sent, number=number, warm=warm))
    return Cursor(q, stats, number, float(model.elbo(q, stats)))


def shown(model: Model, cursor: Cursor) -> Step | None:
    """Return the step at a cursor as the model judges it; see `Judging`."""
    return model.shown(cursor) if isinstance(model, Judging) else Step.at(cursor)


def cavi(model: Model, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """Coordinate ascent from ``cursor``, without end; the first step is the cursor's own.

    The bound is read at the parameters that the statistics were made with, before they
    move, so it costs no pass of its own.
    """
    while True:
        if step := shown(model, cursor):
            yield step
        q = model.global_step(cursor.q, cursor.stats)
        cursor = _swept(model, reduce, q, cursor.number + 1, cursor.number)


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
    while True:
        if step := shown(model, at):
            yield step
        ahead = model.global_step(at.q, at.stats)
        if at.before is None:
            swept = _swept(model, reduce, ahead, at.number + 1, at.number)
            # No stride begins at a point that is passed in silence: it is of another phase.
            at = SquaremCursor(**vars(swept), before=at.q if step else None, stride=at.stride)
        else:
            at = _second_half(model, reduce, at, ahead)


def _second_half(model: Any, reduce: Reduce, at: SquaremCursor, ahead: Any) -> SquaremCursor:
    trial, length = _extrapolate(model, at.before, at.q, ahead, at.stride)
    number = at.number + 1
    if trial is not None:
        swept = _swept(model, reduce, trial, number, at.number)
        if math.isfinite(swept.elbo) and swept.elbo >= at.elbo:
            return SquaremCursor(**vars(swept), stride=_grown(at.stride, length))
        number += 1
    swept = _swept(model, reduce, ahead, number, at.number)
    # At stride 1 the trial is theta2 itself: there is nothing to guard, and room to grow.
    stride = _grown(at.stride, length) if length == 1.0 else max(1.0, at.stride / 4.0)
    return SquaremCursor(**vars(swept), stride=stride)


def _grown(stride: float, length: float) -> float:
    return 4.0 * stride if length >= stride else stride


def _extrapolate(
    model: Accelerable, before: Any, q: Any, ahead: Any, stride: float
) -> tuple[Any, float]:
    """Return the trial and its stride; None where that is theta2 or runs out of numbers."""
    theta0, theta1, theta2 = (model.to_vector(x) for x in (before, q, ahead))
    r = theta1 - theta0
    v = (theta2 - theta1) - r
    norm = float(np.linalg.norm(v))
    length = min(max(float(np.linalg.norm(r)) / norm, 1.0), stride) if norm > 0 else 1.0
    vector = theta0 + 2.0 * length * r + length**2 * v
    if length == 1.0 or not np.isfinite(vector).all():
        return None, length
    return model.from_vector(ahead, vector), length


WINDOW = 12
SLOWEST = 0.98  # what a window's rise is taken to shrink by where it does not shrink
ROUNDING = 1e-14
SHORTEST = 6  # values: then both looks at them have windows


class UntilConverged:
    """Pass steps on until the bound has converged or ``max_iter`` evaluations are done.

    The rise that is still to come is estimated from the last rises (`remaining_rise`), so a
    slow creep does not pass for convergence. The steps end when that is at most
    ``tol * max(1, |bound|)`` twice in a row. It is an estimate: where rises shrink ever more
    slowly, more than that is left.

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
    last
        The last step, also that which a resumed loop had ended at.
    """

    last: Step | None = None

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
            self.last = at = next(self.steps)
            if at.elbo != self.trace[-1]:
                raise ValueError(
                    f"the trace ends at the bound {self.trace[-1]!r}, the step to go on from has "
                    f"{at.elbo!r}: they are not of the same fit"
                )
            self.converged = self._converged(at)
            if self.converged or at.iteration + 1 >= self.max_iter:
                return
        for step in self.steps:
            self.trace.append(step.elbo)
            self.last = step
            self.converged = self._converged(step)
            yield step
            if self.converged or step.iteration + 1 >= self.max_iter:
                return

    def _converged(self, step: Step) -> bool:
        if step.converged is not None:
            return step.converged
        return len(self.trace) >= SHORTEST and all(
            remaining_rise(self.trace[:end]) <= self.tol * max(1.0, abs(self.trace[-1]))
            for end in (len(self.trace) - 1, len(self.trace))
        )


def remaining_rise(trace: Sequence[float]) -> float:
    """Estimate how far the bound still rises, by Aitken's formula for a geometric series.

    The larger of two estimates: the last rise and all that is to come, from the last three
    values; and what is to come after the last value, from the rises over two windows of up to
    `WINDOW` values. Accelerated loops need the second: there a small plain rise comes after
    each leap, and three values alone tell nothing.
    """
    first, second, last = trace[-3:]
    rise, before = last - second, second - first
    rate = rise / before if before > 0 else 0.0
    near = abs(rise) / (1.0 - rate) if 0.0 < rate < 1.0 else abs(rise)
    return max(near, _beyond_window(trace))


def _beyond_window(trace: Sequence[float]) -> float:
    """Estimate the rise after the last value from two windows; 0 where they tell nothing."""
    width = 2 * min(WINDOW // 2, (len(trace) - 1) // 4)  # whole cycles of `squarem`
    if width == 0:
        return 0.0
    first, second, last = trace[-1 - 2 * width], trace[-1 - width], trace[-1]
    rise, before = last - second, second - first
    if before <= 0.0 or rise <= ROUNDING * abs(last):
        return 0.0
    rate = min(rise / before, SLOWEST)
    return rise * rate / (1.0 - rate)


class NotConverged(UserWarning):
    """A fit stopped at its largest number of sweeps before the bound had converged."""


@runtime_checkable
class Driven(Protocol):
    """A model with a loop of its own: one with phases, or with draws."""

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Go on from ``cursor``, whose step comes first, without end."""


def objective_of(model: Any) -> str:
    """Return what the model's ``elbo`` is: a bound, unless it says otherwise (a sampler)."""
    name: str = getattr(model, "objective", "bound")
    return name


@dataclass(frozen=True)
class Fit:
    """What a fit leaves: the posterior, the bound's trace, and whether it converged."""

    q: Any
    trace: list[float]
    iterations: int
    converged: bool
    reduce: Any


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
    done = drive(
        model, InProcess(model, batches, threads), seed=seed, tol=tol, max_iter=max_iter, loop=loop
    )
    if not done.converged:
        warnings.warn(
            f"the bound had not converged after {done.iterations} evaluations; "
            "raise max_iter or tol",
            NotConverged,
            stacklevel=2,
        )
    return done


class Observing(Reduce, Protocol):
    """A `Reduce` that can also sum what is needed before the first sweep."""

    def observe(self) -> Any:
        """Return the sum of `Model.observe` over the partitions."""


def drive(
    model: Any, reduce: Observing, *, seed: int, tol: float, max_iter: int, loop: Loop | None = None
) -> Fit:
    """Fit a model wherever ``reduce`` computes; whether it converged stands in the result.

    Parameters are those of `fit`.
    """
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    run = loop or loop_of(model)
    steps = UntilConverged(run(model, reduce, start(model, q, reduce)), tol, max_iter)
    step = deque(steps, maxlen=1).pop()
    return Fit(step.q, steps.trace, step.iteration + 1, steps.converged, reduce)
