"""Several cases in one fit, each with hyperparameters of its own.

The cases share their controls' reads and nothing of what is fitted: what is called in one hangs on
no other that happens to be in the same run, and has the bits of a fit of its own. Pooling e_t, M,
tau and v over the cases would make a case's calls depend on its company.

A partition is of one case. A sweep evaluates a point of each of some cases, `side_by_side` of them,
which go on until they have converged and then make room for the next; the tables of the others are
not held. The objective is the sum of all cases', so it never falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vbmodels.core.convergence import has_converged
from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.squarem import SquaremCursor
from vbmodels.core.state import BoolArray, FloatArray, State, aligned
from vbmodels.variants.batch import Counts
from vbmodels.variants.case_sums import Branch, CaseSums
from vbmodels.variants.guarded import Climb, Wanted, climbing

RESTING, HELD, ASKED, PASSING = range(4)
"""What a sweep does with a case: nothing; keep its tables; use them; make them for this once."""


@dataclass(frozen=True)
class OfCase(State):
    """A partition of one case.

    Attributes
    ----------
    which
        Its case.
    part
        Its place among the case's partitions.
    counts
        Replicates of the case and of its controls.
    """

    which: int
    part: int
    counts: Counts

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class SeveralGlobal(State):
    """The cases' hyperparameters.

    Attributes
    ----------
    names
        [C] fixed-width text.
    of
        One each.
    doing
        [C] `RESTING`, `HELD`, `ASKED` or `PASSING`; the last, but in a sweep of the climb.
    converged
        [C] whether the fit of each has.
    """

    names: np.ndarray
    of: tuple[Any, ...]
    doing: np.ndarray
    converged: BoolArray


@dataclass(frozen=True)
class Fit(State):
    """Where the fit of one case is.

    Attributes
    ----------
    at
        Its last point.
    trace
        Its objective at every point.
    converged
        Whether that has.
    ended
        Whether it goes no further: it has converged, or had as many sweeps as it may.
    """

    at: SquaremCursor
    trace: FloatArray
    converged: bool = False
    ended: bool = False


@dataclass(frozen=True)
class SeveralCursor(Cursor):
    """Where all fits are."""

    fits: tuple[Fit, ...] = ()


@dataclass(frozen=True)
class Several:
    """Several cases in one fit; see the module's docstring.

    Parameters
    ----------
    model
        That of each case; it is fitted as by `guarded`.
    names
        The cases.
    tol, max_iter
        Of each case's fit.
    side_by_side
        Cases whose tables are held at once: it changes no bit of a case's fit.
    """

    # A partition's table is made from the units that this fit samples.
    rebuilds_locals: ClassVar[bool] = True
    model: Any
    names: tuple[str, ...]
    tol: float = 1e-8
    max_iter: int = 1000
    side_by_side: int = 4

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"expected cases of different names, got {list(self.names)}")

    def most_sweeps(self, of_one: int) -> int:
        """Return the most sweeps of all cases: each sweep is one of some case."""
        return of_one * len(self.names)

    def observe(self, batch: OfCase) -> CaseSums:
        """Return what the case's model observes."""
        return _leaf(batch, self.model.observe(batch.counts))

    def init(self, observed: CaseSums, rng: np.random.Generator) -> SeveralGlobal:
        """Return every case's start."""
        found = observed.by_case()
        return self._all(tuple(self.model.init(found[c], rng) for c in range(len(self.names))))

    def restart(self, observed: CaseSums, before: Any, rng: np.random.Generator) -> SeveralGlobal:
        """Start every case near where an earlier fit left the case of its name, if it had one."""
        if not isinstance(before, SeveralGlobal):
            return self.init(observed, rng)
        known = dict(zip(before.names.tolist(), before.of, strict=True))
        found = observed.by_case()
        return self._all(
            tuple(
                self.model.restart(found[c], known[name], rng)
                if name in known else self.model.init(found[c], rng)
                for c, name in enumerate(self.names)
            )
        )  # fmt: skip

    def _all(self, of: tuple[Any, ...]) -> SeveralGlobal:
        count = len(self.names)
        return SeveralGlobal(
            np.array(self.names), of, np.full(count, PASSING, np.int8), np.zeros(count, bool)
        )

    def local_step(self, q: SeveralGlobal, batch: OfCase, local: Any) -> Any:
        """Return the table of a partition whose case is fitted now, and of no other."""
        if q.doing[batch.which] in (RESTING, PASSING):
            return None
        return self.model.local_step(q.of[batch.which], batch.counts, local)

    def suff_stats(self, q: SeveralGlobal, batch: OfCase, local: Any) -> CaseSums:
        """Return the sums of the case's E-step where they are asked for."""
        doing, own = q.doing[batch.which], q.of[batch.which]
        if doing == PASSING:
            return _leaf(batch, self.model.partial_stats(own, batch.counts, None))
        if doing == ASKED:
            return _leaf(batch, self.model.suff_stats(own, batch.counts, local))
        return CaseSums()

    def global_step(self, q: SeveralGlobal, stats: CaseSums) -> SeveralGlobal:
        """Return every case's next parameters, unguarded."""
        sums = stats.by_case()
        return replace(
            q,
            of=tuple(
                self.model.global_step(own, sums[c]) if c in sums else own
                for c, own in enumerate(q.of)
            ),
        )

    def elbo(self, q: SeveralGlobal, stats: CaseSums) -> float:
        """Return the sum of the objectives of the cases that ``stats`` are of."""
        return float(sum(self.model.elbo(q.of[c], own) for c, own in stats.by_case().items()))

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Climb with some cases at a time, each as it would alone, until all have ended.

        In a round each of them takes one step that holds; those that need fewer sweeps wait.
        """
        at = cursor if isinstance(cursor, SeveralCursor) else self._begun(cursor)
        climbs: dict[int, Climb] = {}
        while True:
            ended = all(fit.ended for fit in at.fits)
            converged = ended and all(fit.converged for fit in at.fits)
            yield Step.at(at, converged)
            if ended:
                return
            running = [c for c in self._order() if not at.fits[c].ended][: self.side_by_side]
            at = self._round(reduce, at, running, climbs)

    def _begun(self, cursor: Cursor) -> SeveralCursor:
        """Return every case's first point, from the first sweep over all of them.

        A case without a partition, as where a fit is tried on one alone, stays where it is.
        """
        sums = cursor.stats.by_case()
        fits = []
        for c, q in enumerate(cursor.q.of):
            if c not in sums:
                fits.append(Fit(SquaremCursor(q, None, 0, 0.0), np.zeros(0), True, True))
                continue
            elbo = float(self.model.elbo(q, sums[c]))
            fits.append(
                Fit(SquaremCursor(q, sums[c], 0, elbo), np.array([elbo]), ended=self.max_iter <= 1)
            )
        return SeveralCursor(cursor.q, CaseSums(), cursor.number, cursor.elbo, tuple(fits))

    def _order(self) -> list[int]:
        """Return the cases so that those side by side stand apart, as on different workers."""
        stride = -(-len(self.names) // self.side_by_side)
        return [c for first in range(stride) for c in range(first, len(self.names), stride)]

    def _round(
        self, reduce: Reduce, at: SeveralCursor, running: Sequence[int], climbs: dict[int, Climb]
    ) -> SeveralCursor:
        """Take one step that holds with every running case."""
        fits, number = list(at.fits), at.number
        wanted: dict[int, Wanted] = {}
        for c in running:
            if c not in climbs:
                climbs[c] = climbing(self.model, fits[c].at)
                next(climbs[c])  # the point where it is
            got = next(climbs[c])
            assert isinstance(got, Wanted)
            wanted[c] = got
        while wanted:
            number += 1
            points = {c: aligned(one.q) for c, one in wanted.items()}
            sums = aligned(reduce(self._sent(at.q, running, points), number=number,
                                  warm=number - 1)).by_case()  # fmt: skip
            for c, point in points.items():
                elbo = float(self.model.elbo(point, sums[c]))
                got = climbs[c].send(Cursor(point, sums[c], wanted.pop(c).number, elbo))
                if isinstance(got, Wanted):
                    wanted[c] = got
                else:
                    fits[c] = self._advanced(fits[c], got)
        return SeveralCursor(
            replace(
                at.q, of=tuple(fit.at.q for fit in fits),
                converged=np.array([fit.converged for fit in fits]),
            ),
            CaseSums(), number, float(sum(fit.at.elbo for fit in fits)), tuple(fits),
        )  # fmt: skip

    def _sent(
        self, q: SeveralGlobal, running: Sequence[int], points: dict[int, Any]
    ) -> SeveralGlobal:
        """Return what a sweep gets: the points that are wanted, and whose tables it keeps."""
        doing = np.full(len(self.names), RESTING, np.int8)
        doing[list(running)] = HELD
        doing[list(points)] = ASKED
        return replace(q, doing=doing, of=tuple(points.get(c, own) for c, own in enumerate(q.of)))

    def _advanced(self, fit: Fit, at: SquaremCursor) -> Fit:
        trace = np.append(fit.trace, at.elbo)
        converged = has_converged(trace.tolist(), self.tol)
        return Fit(at, trace, converged, converged or at.number + 1 >= self.max_iter)


def _leaf(batch: OfCase, stats: Any) -> CaseSums:
    return CaseSums((Branch(batch.which, batch.part, 1, stats),))
