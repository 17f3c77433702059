"""Coordinate ascent whose global parameters move after every round of partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Partitions, Save, Show, Visit
from vbmodels.core.in_process import tree_sum
from vbmodels.core.state import aligned, nbytes

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

    The sum is made anew from the kept statistics over a fixed tree, where the paper subtracts the
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
