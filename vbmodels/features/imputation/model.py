"""The search for features with, beside it in the same sweeps, the members that fill cells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.algorithm import Algorithm, Phase, Save, Show, Sweep
from vbmodels.core.state import State, Stats
from vbmodels.features.imputation.members import Members
from vbmodels.features.imputation.states import Completion, CompletionLocal, CompletionStats
from vbmodels.features.search.fit import search
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.states import SearchGlobal, SearchLocal, SearchRequest, SearchStats
from vbmodels.features.table import MISSING, FeatureBatch, UnitCounts


@dataclass(frozen=True)
class SeenCells(Stats, kind="features/imputation.SeenCells"):
    """The answers, the missing cells, and the categories of the columns.

    Parameters
    ----------
    units
        Rows and answers.
    missing
        Missing cells.
    parts, levels
        Partitions, and [D] the sum over them of the columns' categories.
    """

    units: UnitCounts
    missing: float
    parts: float
    levels: np.ndarray


@dataclass(frozen=True)
class CompletedGlobal(State, kind="features/imputation.CompletedGlobal"):
    """The search, and the members; None where no cell is missing."""

    search: SearchGlobal
    completion: Completion | None


@dataclass(frozen=True)
class CompletedRequest(State, kind="features/imputation.CompletedRequest"):
    """What a sweep computes of both."""

    search: SearchRequest
    completion: Completion | None


@dataclass(frozen=True)
class CompletedLocal(State, kind="features/imputation.CompletedLocal"):
    """A partition's states of both."""

    search: SearchLocal
    completion: CompletionLocal | None


@dataclass(frozen=True)
class CompletedStats(Stats, kind="features/imputation.CompletedStats"):
    """Sums of both."""

    search: SearchStats
    completion: CompletionStats | None


@dataclass(frozen=True)
class CompletedIBP:
    """Searches for features and, where cells are missing, learns to fill them.

    The search and its bound are as they would be alone; the members take the sweeps that it makes.

    Parameters
    ----------
    search
        The search.
    members
        The models that fill cells.
    """

    search: SearchIBP
    members: Members = field(default_factory=Members)

    def observe(self, batch: FeatureBatch) -> SeenCells:
        """Count answers and missing cells."""
        missing = float(batch.count @ (batch.codes == MISSING).sum(1))
        return SeenCells(self.search.observe(batch), missing, 1.0, batch.levels.astype(np.float64))

    def init(self, observed: SeenCells, rng: np.random.Generator) -> CompletedGlobal:
        """Start both."""
        search = self.search.init(observed.units, rng)
        if not observed.missing:
            return CompletedGlobal(search, None)
        levels = np.round(observed.levels / observed.parts).astype(np.int64)
        return CompletedGlobal(search, self.members.init(observed.units, levels, rng))

    def local_step(
        self, q: CompletedRequest, batch: FeatureBatch, local: CompletedLocal | None
    ) -> CompletedLocal:
        """Do both local steps."""
        search = self.search.local_step(q.search, batch, None if local is None else local.search)
        if q.completion is None:
            return CompletedLocal(search, None)
        before = None if local is None else local.completion
        return CompletedLocal(search, self.members.local_step(q.completion, batch, before))

    def suff_stats(
        self, q: CompletedRequest, batch: FeatureBatch, local: CompletedLocal
    ) -> CompletedStats:
        """Return the sums of both."""
        completion = None if local.completion is None else local.completion.sums
        return CompletedStats(self.search.suff_stats(q.search, batch, local.search), completion)

    def algorithm(self, q: CompletedGlobal) -> Algorithm:
        """Search; what ends the search ends the fit once the members have learned."""
        return _Learning(self, q.completion).fit(q.search)

    def filling(self, q: CompletedGlobal) -> bool:
        """Whether the members are still learning."""
        return q.completion is not None and not self.members.done(q.completion)


class _Learning:
    """The members in the sweeps of a search: where they are, and where the next sweep finds them.

    A search is replayed from its last `Save`, so each `Save` and each `Phase` has them, too.
    """

    def __init__(self, model: CompletedIBP, completion: Completion | None) -> None:
        self.model, self.now, self.next = model, completion, completion

    @property
    def goes_on(self) -> bool:
        """Whether the members were still learning in the newest sweep."""
        return self.now is not None and not self.model.members.done(self.now)

    def fit(self, q: SearchGlobal) -> Algorithm:
        """Run the search."""
        found, _ = yield from self.beside(search(self.model.search, q, lambda: self.goes_on))
        return CompletedGlobal(found, self.now)

    def beside(self, algorithm: Algorithm) -> Algorithm:
        """Run a part of the search; return what it does and the members."""
        answer, members = None, self.model.members
        while True:
            try:
                request = algorithm.send(answer)
            except StopIteration as end:
                return end.value, self.next
            if isinstance(request, Sweep):
                self.now = self.next
                sent = None if self.now is None else members.without_draws(self.now)
                stats = yield Sweep(CompletedRequest(request.q, sent))
                if self.now is not None and stats.completion is not None:
                    self.next = members.global_step(self.now, stats.completion)
                answer = stats.search
            elif isinstance(request, Show):
                q, by_trace = CompletedGlobal(request.q, self.now), request.by_trace
                answer = yield replace(request, q=q, by_trace=by_trace and not self.goes_on)
            elif isinstance(request, Save):
                answer, self.next = yield Save((request.value, self.next))
            elif isinstance(request, Phase):
                part = self.beside(request.algorithm)
                answer, self.next = yield replace(request, algorithm=part)
            else:
                raise TypeError(f"a search does not request {request!r}")
