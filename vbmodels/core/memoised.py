"""Coordinate ascent whose global parameters move after every round of partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.in_process import tree_sum
from vbmodels.core.protocol import Cursor, Step, Visiting
from vbmodels.core.state import FloatArray, aligned, nbytes

ROUNDS = 8
MOST_KEPT = 2 * 2**30
"""Most bytes of statistics that are kept of all rounds; every checkpoint holds them too."""


class StatisticsTooLarge(ValueError):
    """The statistics of all rounds take too much memory; one sentence."""


@dataclass(frozen=True)
class MemoisedCursor(Cursor, kind="core.MemoisedCursor"):
    """The end of a sweep, with what each round left.

    Attributes
    ----------
    kept
        The statistics of every round's last visit, as they were made: [R].
    coupled
        `Memoisable.coupling` of each at the parameters that it was made at, [R].
    """

    kept: tuple[Any, ...]
    coupled: FloatArray


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

    def start(self, model: Any, q: Any, reduce: Visiting) -> MemoisedCursor:
        """Evaluate the first parameters, from a cold start.

        Raises
        ------
        StatisticsTooLarge
            If the statistics of all rounds take too much memory.
        """
        rounds = min(self.rounds, reduce.partitions)
        kept: list[Any] = []
        coupled = []
        q = aligned(q)
        for group in range(rounds):
            kept.append(_visited(reduce, q, 0, None, group, rounds))
            coupled.append(model.coupling(q, kept[-1]))
            _refuse_large(nbytes(kept[0]), rounds)
        return self._at(model, q, 0, tuple(kept), np.array(coupled))

    def __call__(self, model: Any, reduce: Visiting, cursor: Cursor) -> Iterator[Step]:
        """Go on from a cursor of `start` or of a step, without end; a step is a sweep."""
        if not isinstance(cursor, MemoisedCursor):
            raise TypeError(
                f"expected a cursor of the memoised loop to go on from, got {type(cursor).__name__}"
            )
        while True:
            yield Step.at(cursor)
            cursor = self._sweep(model, reduce, cursor)

    def _sweep(self, model: Any, reduce: Visiting, at: MemoisedCursor) -> MemoisedCursor:
        q, total, kept, coupled = at.q, at.stats, list(at.kept), at.coupled.copy()
        for group in range(len(kept)):
            q = aligned(model.global_step(q, total))
            kept[group] = _visited(reduce, q, at.number + 1, at.number, group, len(kept))
            coupled[group] = model.coupling(q, kept[group])
            total = tree_sum(kept)
        return self._at(model, q, at.number + 1, tuple(kept), coupled)

    def _at(
        self, model: Any, q: Any, number: int, kept: tuple[Any, ...], coupled: FloatArray
    ) -> MemoisedCursor:
        """Return the cursor at ``q``: its statistics have the bound of all rounds there."""
        total = tree_sum(kept)
        moved = model.coupling(q, total) - math.fsum(coupled)
        stats = replace(total, bound=total.bound + moved) if moved else total
        return MemoisedCursor(q, stats, number, float(model.elbo(q, stats)), kept, coupled)


def _refuse_large(size: int, rounds: int) -> None:
    if size * rounds > MOST_KEPT:
        raise StatisticsTooLarge(
            f"the memoised loop keeps the statistics of every round: expected at most "
            f"{MOST_KEPT / 2**30:.0f} GiB, found {rounds} rounds of {size / 2**30:.2f} GiB; fit a "
            "smaller model, or give it another loop"
        )


def _visited(
    reduce: Visiting, q: Any, number: int, warm: int | None, group: int, groups: int
) -> Any:
    return aligned(reduce.visit(q, number=number, warm=warm, group=group, groups=groups))
