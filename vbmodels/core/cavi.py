"""Coordinate ascent for every model: plain, accelerated (`squarem`), by rounds (`Memoised`).

An algorithm knows no cluster; see `vbmodels.core.algorithm`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Partitions, Request, Save, Show, Sweep, Visit
from vbmodels.core.protocol import Accelerable, Drawing, Model
from vbmodels.core.state import aligned, nbytes, tree_sum


def evaluate(
    model: Model, q: Any, again: bool = False
) -> Generator[Request, Any, tuple[Any, Any, float]]:
    """Evaluate parameters by a `Sweep`; return them, the statistics, and the bound.

    All is aligned, so that a fit has the same bits before and after it was stored.
    """
    q = aligned(q)
    stats = yield Sweep(model.without_draws(q) if isinstance(model, Drawing) else q, again)
    return q, stats, float(model.elbo(q, stats))


def cavi(model: Model, q: Any, moves: int | None = None) -> Algorithm:
    """Coordinate ascent, without end or, with ``moves``, of so many global steps.

    The bound is read at the parameters that the statistics were made with, before they
    move, so it costs no pass of its own.
    """
    done = 0
    while True:
        q, done = yield Save((q, done))
        q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo, by_trace=moves is None)
        if done == moves:
            return q
        q, done = model.global_step(q, stats), done + 1


def draw(model: Model, q: Any, is_last: Callable[[Any], bool]) -> Algorithm:
    """Sweeps whose objective wanders, as that of draws does, until ``is_last(q)``."""
    while True:
        q = yield Save(q)
        q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo, by_trace=False)
        if is_last(q):
            return q
        q = model.global_step(q, stats)


LONGEST = 4.0
"""Longest stride of the first leap."""


Step = Callable[[Any, Any, Any, float, Any, bool], Algorithm]
"""From a model, a point with its statistics and bound, and the point ahead, to the next point."""


def _plain(model: Any, q: Any, stats: Any, elbo: float, ahead: Any, again: bool) -> Algorithm:
    return (yield from evaluate(model, ahead, again))


def squarem(
    model: Any, q: Any, stats: Any = None, elbo: float = -math.inf, step: Step = _plain
) -> Algorithm:
    """SQUAREM (Varadhan and Roland 2008, scheme S3) guarded by the bound.

    From theta0 take two plain steps to theta1 and theta2; with r = theta1 - theta0 and
    v = (theta2 - theta1) - r, try theta0 - 2 a r + a^2 v at a = -|r|/|v|, no longer than
    the present stride. The trial holds if its bound is finite and not below the bound at
    theta1, else theta2 does: the bound never falls. Only accepted points are shown, so
    iteration numbers (sweeps) may skip.

    The model must be `Accelerable`. ``stats`` and ``elbo`` are of ``q``, where they are known;
    ``step`` takes the plain steps.
    """
    stride = LONGEST
    while True:
        q, stats, elbo, stride = yield Save((q, stats, elbo, stride))
        if stats is None:
            q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo)
        before = q
        ahead = model.global_step(q, stats)
        q, stats, elbo = yield from step(model, q, stats, elbo, ahead, False)
        yield Show(q, elbo)
        ahead = model.global_step(q, stats)
        trial, length = extrapolate(model, before, q, ahead, stride)
        if trial is not None:
            leapt = yield from evaluate(model, trial)
            if math.isfinite(leapt[2]) and leapt[2] >= elbo:
                (q, stats, elbo), stride = leapt, grown(stride, length)
                continue
        # At stride 1 the trial is theta2 itself: there is nothing to guard, and room to grow.
        stride = grown(stride, length) if length == 1.0 else max(1.0, stride / 4.0)
        q, stats, elbo = yield from step(model, q, stats, elbo, ahead, trial is not None)


def monotone_squarem(model: Any, q: Any, stats: Any = None, elbo: float = -math.inf) -> Algorithm:
    """Run `squarem` for a model whose global step may lower the bound.

    ``model.global_step(q, stats)`` is bold; where its objective falls or is no number,
    ``global_step(q, stats, careful=True)`` is taken instead, and where even that falls by
    rounding, the point stays. So the objective never falls.
    """
    return squarem(model, q, stats, elbo, _not_lower)


def _not_lower(model: Any, q: Any, stats: Any, elbo: float, ahead: Any, again: bool) -> Algorithm:
    """Return the first of the bold step, parts of it, the careful one and a stay that holds."""
    for trial in _trials(model, q, stats, ahead):
        found = yield from evaluate(model, trial)
        if math.isfinite(found[2]) and found[2] >= elbo:
            break
    return found


def _trials(model: Any, q: Any, stats: Any, ahead: Any) -> Iterator[Any]:
    """Yield what may hold; of ``model.parts``, since a careful step may be far shorter."""
    yield ahead
    for part in model.parts:
        here = model.to_vector(q)
        yield model.from_vector(ahead, here + part * (model.to_vector(ahead) - here))
    yield model.global_step(q, stats, careful=True)
    yield q


def grown(stride: float, length: float) -> float:
    """Return the longest stride after one that held."""
    return 4.0 * stride if length >= stride else stride


def extrapolate(
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


ROUNDS = 8
MOST_KEPT = 2 * 2**30
"""Most bytes of statistics that are kept of all rounds; every checkpoint holds them too."""


class StatisticsTooLarge(ValueError):
    """The statistics of all rounds take too much memory; one sentence."""


@dataclass(frozen=True)
class Memoised:
    """Memoised coordinate ascent (Hughes and Sudderth 2013, section 3.1), in rounds.

    Partition i belongs to round i mod R. A visit of round r runs the local steps of its
    partitions at the present parameters, puts their statistics S_r in the place of those of the
    visit before, and moves the parameters to the optimum given sum_r S_r. A sweep is one visit of
    every round; the first one holds the parameters, as the first sweep of `cavi` does: those that
    suit the first rounds would be kept.

    The sum is made again from the kept statistics over a fixed tree, where the paper subtracts the
    old and adds the new: rounding does not add up, and the bits depend on partitions and rounds
    alone.

    With z_r the local states of round r, L(q, z) = sum_r [C(q, S_r) + H(z_r)] - KL(q || p),
    where `Memoisable.coupling` is C, linear in S, and H(z_r) does not depend on q. A local step
    raises L in z_r with q and the other rounds held, a global step raises it in q with all
    z held: so L never falls from visit to visit. It is known exactly without another pass:

        sum_r H(z_r) = sum_r [bound_r - C(q_r, S_r)],

    with q_r the parameters of the visit that made S_r, hence

        L(q, z) = elbo(q, sum_r S_r) + C(q, sum_r S_r) - sum_r C(q_r, S_r).

    Parameters
    ----------
    rounds
        R; with fewer partitions every partition is a round.
    """

    rounds: int = ROUNDS

    def __call__(self, model: Any, q: Any) -> Algorithm:
        """Fit from the first parameters, without end; a step is a sweep.

        Raises
        ------
        StatisticsTooLarge
            If the statistics of all rounds take too much memory.
        """
        # Of each round, the statistics of its last visit, and their `Memoisable.coupling` at the
        # parameters that they were made at.
        total: Any = None
        kept: list[Any] = []
        coupled: list[float] = []
        while True:
            saved = yield Save((q, total, tuple(kept), np.array(coupled)))
            q, total = saved[:2]
            kept, coupled = list(saved[2]), saved[3].tolist()
            if total is not None:
                yield Show(q, float(model.elbo(q, total)))
            rounds = min(self.rounds, (yield Partitions()))
            held = total is None
            for group in range(rounds):
                q = aligned(q if held else model.global_step(q, total))
                stats = yield Visit(q, group, rounds)
                if held:
                    _refuse_large(nbytes(stats), rounds)
                kept[group : group + 1] = [stats]
                coupled[group : group + 1] = [model.coupling(q, stats)]
                total = None if held else tree_sum(kept)
            total = _total(model, q, kept, coupled)


def _total(model: Any, q: Any, kept: Sequence[Any], coupled: Sequence[float]) -> Any:
    """Return the statistics of all rounds, with their bound at ``q``."""
    total = tree_sum(kept)
    moved = model.coupling(q, total) - math.fsum(coupled)
    return replace(total, bound=total.bound + moved) if moved else total


def _refuse_large(size: int, rounds: int) -> None:
    if size * rounds > MOST_KEPT:
        raise StatisticsTooLarge(
            f"the memoised loop keeps the statistics of every round: expected at most "
            f"{MOST_KEPT / 2**30:.0f} GiB, found {rounds} rounds of {size / 2**30:.2f} GiB; fit a "
            "smaller model, or give it another loop"
        )
