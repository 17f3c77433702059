"""Coordinate ascent whose global parameters move after every round of partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.in_process import tree_sum
from vbmodels.core.protocol import Cursor, Driven, Judging, Memoisable, Step, Unimodal, Visiting
from vbmodels.core.state import FloatArray, State, Stats, aligned, nbytes

ROUNDS = 8
MOST_KEPT = 2 * 2**30
"""Most bytes of statistics that are kept of all rounds; every checkpoint holds them too."""


class NotMemoisable(ValueError):
    """A model, or the size of its statistics, does not allow this loop; one sentence."""


@dataclass(frozen=True)
class Held(State):
    """Statistics of rows that are not visited any more.

    Attributes
    ----------
    stats
        Their sum, S_0.
    coupled
        C(q_0, S_0): `Memoisable.coupling` at the parameters that it was made at.
    """

    stats: Stats
    coupled: float

    @classmethod
    def of(cls, model: Memoisable, cursor: Cursor) -> Held:
        """Return what a fit that ends at ``cursor`` leaves to the next one.

        The bound of the cursor's statistics is right at its parameters, whenever their rounds
        were made: so the parameters are q_0 of all.
        """
        return cls(cursor.stats, float(model.coupling(cursor.q, cursor.stats)))

    def scaled(self, by: float) -> Held:
        """Return the same as if every row had the weight ``by``; coupling is linear."""
        return Held(self.stats.scaled(by), self.coupled * by)


@dataclass(frozen=True)
class MemoisedCursor(Cursor):
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
    every round; the first one holds the parameters, as the first sweep of `cavi` does, unless the
    model is `Unimodal`: with several optima, those that suit the first rounds would be kept.

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
    held
        Statistics of rows that no round has: one term more of every sum, which stays as it is.
    """

    rounds: int = ROUNDS
    held: Held | None = None

    def start(self, model: Any, q: Any, reduce: Visiting) -> MemoisedCursor:
        """Evaluate the first parameters, from a cold start.

        Raises
        ------
        NotMemoisable
            If the model cannot be fitted so, or its statistics take too much memory.
        """
        refuse(model)
        rounds = min(self.rounds, reduce.partitions)
        kept: list[Any] = []
        moves, coupled = isinstance(model, Unimodal), []
        q = aligned(q)
        for group in range(rounds):
            if kept and moves:
                q = aligned(model.global_step(q, self._total(kept)))
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
            total = self._total(kept)
        return self._at(model, q, at.number + 1, tuple(kept), coupled)

    def _total(self, kept: Sequence[Any]) -> Any:
        return tree_sum(kept if self.held is None else [*kept, self.held.stats])

    def _at(
        self, model: Any, q: Any, number: int, kept: tuple[Any, ...], coupled: FloatArray
    ) -> MemoisedCursor:
        """Return the cursor at ``q``: its statistics have the bound of all rounds there."""
        total = self._total(kept)
        before = coupled if self.held is None else [*coupled, self.held.coupled]
        moved = model.coupling(q, total) - math.fsum(before)
        stats = replace(total, bound=total.bound + moved) if moved else total
        return MemoisedCursor(q, stats, number, float(model.elbo(q, stats)), kept, coupled)


def refuse(model: Any) -> None:
    """Raise `NotMemoisable` where a model cannot be fitted so."""
    name = type(model).__name__
    if isinstance(model, Driven | Judging):
        raise NotMemoisable(
            f"{name} cannot be fitted by the memoised loop, which is for plain sweeps: it has "
            "phases, a search or draws of its own"
        )
    if not isinstance(model, Memoisable):
        raise NotMemoisable(
            f"{name} cannot be fitted by the memoised loop: it has no method coupling, which says "
            "how the bound moves with the global parameters"
        )


def _refuse_large(size: int, rounds: int) -> None:
    if size * rounds > MOST_KEPT:
        raise NotMemoisable(
            f"the memoised loop keeps the statistics of every round: expected at most "
            f"{MOST_KEPT / 2**30:.0f} GiB, found {rounds} rounds of {size / 2**30:.2f} GiB; ask "
            "for fewer rounds or another loop"
        )


def _visited(
    reduce: Visiting, q: Any, number: int, warm: int | None, group: int, groups: int
) -> Any:
    return aligned(reduce.visit(q, number=number, warm=warm, group=group, groups=groups))
