"""Several cases over the same controls, fitted one after another.

The cases share their controls' reads and nothing of what is fitted: what is called in one depends
on no other in the same run, and has the bits of a fit of its own.

A partition is of one case. The first sweep evaluates every case's start; from then on a sweep
evaluates one case, until it has converged and the next one follows. Only its tables are held. The
objective is the sum over all cases, so it never falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vbmodels.core.convergence import has_converged
from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.squarem import SquaremCursor
from vbmodels.core.state import BoolArray, FloatArray, State
from vbmodels.variants.counts import Counts
from vbmodels.variants.two_groups.case_sums import Branch, CaseSums
from vbmodels.variants.two_groups.guarded_ascent import guarded

EVERY = -1
"""In place of a case's number: all of them."""


@dataclass(frozen=True)
class OfCase(State, kind="variants/two_groups.OfCase"):
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
class SeveralGlobal(State, kind="variants/two_groups.SeveralGlobal"):
    """The cases' hyperparameters.

    Attributes
    ----------
    names
        [C] fixed-width text.
    of
        One each.
    active
        The case that a sweep evaluates; `EVERY`, but in a fit.
    converged
        [C] whether the fit of each has.
    """

    names: np.ndarray
    of: tuple[Any, ...]
    active: int
    converged: BoolArray


@dataclass(frozen=True)
class Fit(State, kind="variants/two_groups.Fit"):
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
class SeveralCursor(Cursor, kind="variants/two_groups.SeveralCursor"):
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
    """

    # A partition's table is made from the units that this fit samples.
    rebuilds_locals: ClassVar[bool] = True
    model: Any
    names: tuple[str, ...]
    tol: float = 1e-8
    max_iter: int = 1000

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
        return SeveralGlobal(np.array(self.names), of, EVERY, np.zeros(len(self.names), bool))

    def local_step(self, q: SeveralGlobal, batch: OfCase, local: Any) -> Any:
        """Return the table of a partition whose case is fitted now, and of no other."""
        if q.active != batch.which:
            return None
        return self.model.local_step(q.of[batch.which], batch.counts, local)

    def suff_stats(self, q: SeveralGlobal, batch: OfCase, local: Any) -> CaseSums:
        """Return the sums of the case's E-step where they are asked for."""
        own = q.of[batch.which]
        if q.active == EVERY:
            return _leaf(batch, self.model.partial_stats(own, batch.counts, None))
        if q.active == batch.which:
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
        """Fit every case as it would be alone, from the first that has not ended."""
        at = cursor if isinstance(cursor, SeveralCursor) else self._begun(cursor)
        yield self._step(at)
        for case in range(len(self.names)):
            if at.fits[case].ended:
                continue
            climb = guarded(self.model, _of_case(reduce, at, case), at.fits[case].at)
            next(climb)
            while not at.fits[case].ended:
                at = self._advanced(at, case, next(climb).cursor)
                yield self._step(at)

    def _step(self, at: SeveralCursor) -> Step:
        ended = all(fit.ended for fit in at.fits)
        return Step.at(at, ended and all(fit.converged for fit in at.fits))

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

    def _advanced(self, at: SeveralCursor, case: int, reached: Any) -> SeveralCursor:
        """Return all cases after a step of one of them."""
        before = at.fits[case]
        trace = np.append(before.trace, reached.elbo)
        converged = has_converged(trace.tolist(), self.tol)
        ended = converged or reached.number + 1 >= self.max_iter
        fit = Fit(reached, trace, converged, ended)
        fits = (*at.fits[:case], fit, *at.fits[case + 1 :])
        return SeveralCursor(
            replace(
                at.q, of=tuple(fit.at.q for fit in fits),
                converged=np.array([fit.converged for fit in fits]),
            ),
            CaseSums(), at.number + reached.number - before.at.number,
            float(sum(fit.at.elbo for fit in fits)), fits,
        )  # fmt: skip


def _of_case(reduce: Reduce, at: SeveralCursor, case: int) -> Any:
    """Return what sums one case's statistics, by sweeps that count from that case's first."""
    earlier = at.number - at.fits[case].at.number

    def summed(q: Any, *, number: int, warm: int | None) -> Any:
        of = (*at.q.of[:case], q, *at.q.of[case + 1 :])
        sent = replace(at.q, of=of, active=case)
        before = None if warm is None else warm + earlier
        return reduce(sent, number=number + earlier, warm=before).total(case)

    return summed


def _leaf(batch: OfCase, stats: Any) -> CaseSums:
    return CaseSums((Branch(batch.which, batch.part, 1, stats),))
