"""The search for features with, beside it in the same sweeps, the members that fill cells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.state import State, Stats
from vbmodels.features.imputation.members import Members
from vbmodels.features.imputation.states import Completion, CompletionLocal, CompletionStats
from vbmodels.features.search.model import SearchIBP, search
from vbmodels.features.search.states import SearchGlobal, SearchLocal, SearchStats
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
        self, q: CompletedGlobal, batch: FeatureBatch, local: CompletedLocal | None
    ) -> CompletedLocal:
        """Do both local steps."""
        search = self.search.local_step(q.search, batch, None if local is None else local.search)
        if q.completion is None:
            return CompletedLocal(search, None)
        before = None if local is None else local.completion
        return CompletedLocal(search, self.members.local_step(q.completion, batch, before))

    def suff_stats(
        self, q: CompletedGlobal, batch: FeatureBatch, local: CompletedLocal
    ) -> CompletedStats:
        """Return the sums of both."""
        completion = None if local.completion is None else local.completion.sums
        return CompletedStats(self.search.suff_stats(q.search, batch, local.search), completion)

    def global_step(self, q: CompletedGlobal, stats: CompletedStats) -> CompletedGlobal:
        """Move both."""
        completion = q.completion
        if completion is not None and stats.completion is not None:
            completion = self.members.global_step(completion, stats.completion)
        return CompletedGlobal(self.search.global_step(q.search, stats.search), completion)

    def elbo(self, q: CompletedGlobal, stats: CompletedStats) -> float:
        """Return the bound of the search."""
        return self.search.elbo(q.search, stats.search)

    def without_draws(self, q: CompletedGlobal) -> CompletedGlobal:
        """Return what partitions need."""
        if q.completion is None:
            return q
        return replace(q, completion=self.members.without_draws(q.completion))

    def algorithm(self, q: CompletedGlobal) -> Algorithm:
        """Search; what ends the search ends the fit once the members have learned."""
        return search(self, q)

    def has_fit(self, q: CompletedGlobal) -> bool:
        """Whether the search has a fit."""
        return self.search.has_fit(q.search)

    def in_last_sweeps(self, q: CompletedGlobal) -> bool:
        """Whether the trace may decide that the fit has converged."""
        return self.search.in_last_sweeps(q.search) and not self.filling(q)

    def is_done(self, q: CompletedGlobal, elbo: float) -> bool:
        """Whether both are done."""
        return self.search.is_done(q.search, elbo) and not self.filling(q)

    def filling(self, q: CompletedGlobal) -> bool:
        """Whether the members are still learning."""
        return q.completion is not None and not self.members.done(q.completion)
