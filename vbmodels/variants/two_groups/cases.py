"""Several cases over the same controls, fitted one after another.

The cases share their controls' reads and nothing of what is fitted: what is called in one depends
on no other in the same run, and has the bits of a fit of its own.

A partition is of one case. The first sweep evaluates every case's start; from then on a sweep
evaluates one case, until it has converged and the next one follows. Only its tables are held. The
objective is the sum over all cases, so it never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Save, Show, Stop, Sweep
from vbmodels.core.cavi import monotone_squarem
from vbmodels.core.driver import has_converged
from vbmodels.core.state import BoolArray, FloatArray, State, Stats
from vbmodels.variants.counts import Counts
from vbmodels.variants.two_groups.batch_null import BatchGlobal, BatchNull
from vbmodels.variants.two_groups.table import Table


@dataclass(frozen=True)
class Branch(State, kind="variants/two_groups.Branch"):
    """The sum over a complete subtree of one case's partitions.

    Attributes
    ----------
    case
        Which case.
    start, size
        Its partitions, by their places among those of the case.
    stats
        Their sum.
    """

    case: int
    start: int
    size: int
    stats: Stats

    def follows(self, left: Branch) -> bool:
        """Whether this and the branch before it are the halves of one."""
        return (
            self.case == left.case
            and self.size == left.size
            and self.start == left.start + left.size
            and left.start % (2 * left.size) == 0
        )


@dataclass(frozen=True)
class CaseSums(Stats, kind="variants/two_groups.CaseSums"):
    """Sums of the cases' partitions, as far as they have been added up.

    Branches are joined where they are halves of one, as `vbmodels.core.state.tree_sum` does.
    So the sum of a case has the bits that it has where its partitions stand alone, wherever they
    stand among those of others.

    Attributes
    ----------
    branches
        By case and place, rising.
    """

    branches: tuple[Branch, ...] = ()

    def __add__(self, other: Self) -> Self:
        joined: list[Branch] = []
        every = (*self.branches, *other.branches)
        for branch in sorted(every, key=lambda b: (b.case, b.start)):
            last = branch
            while joined and last.follows(joined[-1]):
                left = joined.pop()
                last = Branch(left.case, left.start, 2 * left.size, left.stats + last.stats)
            joined.append(last)
        return type(self)(tuple(joined))

    def total(self, case: int) -> Any:
        """Return the sum of a case, or None where it has none."""
        sums = [branch.stats for branch in self.branches if branch.case == case]
        if not sums:
            return None
        total = sums.pop()
        while sums:
            total = sums.pop() + total
        return total

    def by_case(self) -> dict[int, Any]:
        """Return the sums of all cases that have some."""
        return {case: self.total(case) for case in sorted({b.case for b in self.branches})}


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
    of: tuple[BatchGlobal, ...]
    active: int
    converged: BoolArray


@dataclass(frozen=True)
class Several:
    """Several cases in one fit; see the module's docstring.

    Parameters
    ----------
    model
        That of each case; it is fitted as by `monotone_squarem`.
    names
        The cases.
    tol, max_iter
        Of each case's fit.
    """

    # A partition's table is made from the units that this fit samples.
    rebuilds_locals: ClassVar[bool] = True
    model: BatchNull
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
        by_case = observed.by_case()
        return self._all(tuple(self.model.init(by_case[c], rng) for c in range(len(self.names))))

    def restart(self, observed: CaseSums, before: Any, rng: np.random.Generator) -> SeveralGlobal:
        """Start every case near where an earlier fit left the case of its name, if it had one."""
        if not isinstance(before, SeveralGlobal):
            return self.init(observed, rng)
        known = dict(zip(before.names.tolist(), before.of, strict=True))
        by_case = observed.by_case()
        return self._all(
            tuple(
                self.model.restart(by_case[c], known[name], rng)
                if name in known
                else self.model.init(by_case[c], rng)
                for c, name in enumerate(self.names)
            )
        )

    def _all(self, cases: tuple[BatchGlobal, ...]) -> SeveralGlobal:
        return SeveralGlobal(np.array(self.names), cases, EVERY, np.zeros(len(self.names), bool))

    def local_step(self, q: SeveralGlobal, batch: OfCase, local: Table | None) -> Table | None:
        """Return the table of a partition whose case is fitted now, and of no other."""
        if q.active != batch.which:
            return None
        return self.model.local_step(q.of[batch.which], batch.counts, local)

    def suff_stats(self, q: SeveralGlobal, batch: OfCase, local: Table) -> CaseSums:
        """Return the sums of the case's E-step where it is evaluated."""
        q_case = q.of[batch.which]
        if q.active == EVERY:
            local = self.model.local_step(q_case, batch.counts, None)
        elif q.active != batch.which:
            return CaseSums()
        return _leaf(batch, self.model.suff_stats(q_case, batch.counts, local))

    def global_step(self, q: SeveralGlobal, stats: CaseSums) -> SeveralGlobal:
        """Return every case's next parameters, unguarded."""
        sums = stats.by_case()
        return replace(
            q,
            of=tuple(
                self.model.global_step(q_case, sums[c]) if c in sums else q_case
                for c, q_case in enumerate(q.of)
            ),
        )

    def elbo(self, q: SeveralGlobal, stats: CaseSums) -> float:
        """Return the sum of the objectives of the cases that ``stats`` are of."""
        return float(sum(self.model.elbo(q.of[c], sums) for c, sums in stats.by_case().items()))

    def algorithm(self, q: SeveralGlobal) -> Algorithm:
        """Evaluate every case's start, then fit one after another as each would be alone.

        A case without a partition, as where a fit is tried on one alone, stays where it is.
        """
        sums, elbos = yield Phase(self._starts(q))
        q = replace(q, converged=np.array([stats is None for stats in sums]))
        for case, stats in enumerate(sums):
            if stats is not None:
                q, elbos = yield Phase(self._fit_case(q, elbos, case, stats))
        if not q.converged.all():
            yield Stop()
        return q

    def _starts(self, q: SeveralGlobal) -> Algorithm:
        """Return every case's statistics and objective at its start."""
        stats = yield Evaluate(q)
        yield Show(q, self.elbo(q, stats), by_trace=False)
        by_case = stats.by_case()
        sums = tuple(by_case.get(case) for case in range(len(q.of)))
        pairs = zip(q.of, sums, strict=True)
        elbos = [0.0 if s is None else float(self.model.elbo(q_case, s)) for q_case, s in pairs]
        return sums, np.array(elbos)

    def _fit_case(self, q: SeveralGlobal, elbos: FloatArray, case: int, sums: Any) -> Algorithm:
        """Climb until the case's own trace has converged, or its sweeps are over."""
        climb = monotone_squarem(self.model, q.of[case], sums, float(elbos[case]))
        sweeps, trace, answer = 0, elbos[[case]], None
        while True:
            request = climb.send(answer)
            answer = None
            if isinstance(request, Save):
                value = (q, elbos, sweeps, trace, request.value)
                q, elbos, sweeps, trace, answer = yield Save(value)
            elif isinstance(request, Sweep):
                moved = replace(_with_case(q, case, request.q), active=case)
                answer = (yield Sweep(moved, request.again)).total(case)
                sweeps += 1
            elif isinstance(request, Show):
                if sweeps:  # the start was shown with the others
                    trace, elbos = np.append(trace, request.elbo), elbos.copy()
                    elbos[case] = request.elbo
                    q = _with_case(q, case, request.q, has_converged(trace.tolist(), self.tol))
                    yield Show(q, float(sum(elbos.tolist())), by_trace=False)
                if q.converged[case] or sweeps + 1 >= self.max_iter:
                    return q, elbos


def _with_case(
    q: SeveralGlobal, case: int, q_case: BatchGlobal, converged: bool = False
) -> SeveralGlobal:
    """Return all cases with one's parameters, and whether its fit has converged."""
    cases = (*q.of[:case], q_case, *q.of[case + 1 :])
    which = np.arange(len(q.of)) == case
    return replace(q, of=cases, converged=np.where(which, converged, q.converged))


def _leaf(batch: OfCase, stats: Stats) -> CaseSums:
    return CaseSums((Branch(batch.which, batch.part, 1, stats),))
