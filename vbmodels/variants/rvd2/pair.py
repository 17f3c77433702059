"""Case and control fitted side by side, each with its own RVD2, as one model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.variants.counts import Counts, totals
from vbmodels.variants.rvd2 import model as rvd2
from vbmodels.variants.rvd2.model import RVD2, Errors


@dataclass(frozen=True)
class Global(State, kind="variants/rvd2.PairGlobal"):
    """The global parameters of both samples."""

    case: rvd2.Global
    control: rvd2.Global


@dataclass(frozen=True)
class Local(State, kind="variants/rvd2.PairLocal"):
    """The local parameters of both samples."""

    case: rvd2.Local
    control: rvd2.Local


@dataclass(frozen=True)
class Observed(Stats, kind="variants/rvd2.PairObserved"):
    """The first statistics of both samples."""

    case: rvd2.Observed
    control: rvd2.Observed


@dataclass(frozen=True)
class Sums(Stats, kind="variants/rvd2.PairSums"):
    """The statistics of both samples."""

    case: rvd2.Sums
    control: rvd2.Sums


@dataclass(frozen=True)
class Pair:
    """Two independent fits of ``model``: the bound is their sum.

    A sample without replicates has no reads, so it leaves its prior as it is.
    """

    model: RVD2

    def observe(self, batch: Counts) -> Observed:
        """See `RVD2.observe`."""
        return Observed(*(self.model.observe(e) for e in samples(batch)))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """See `RVD2.init`."""
        return Global(self.model.init(observed.case, rng), self.model.init(observed.control, rng))

    def local_step(self, q: Global, batch: Counts, local: Local | None) -> Local:
        """See `RVD2.local_step`."""
        case, control = samples(batch)
        return Local(
            self.model.local_step(q.case, case, local.case if local else None),
            self.model.local_step(q.control, control, local.control if local else None),
        )

    def suff_stats(self, q: Global, batch: Counts, local: Local) -> Sums:
        """See `RVD2.suff_stats`."""
        case, control = samples(batch)
        return Sums(
            self.model.suff_stats(q.case, case, local.case),
            self.model.suff_stats(q.control, control, local.control),
        )

    def global_step(self, q: Global, stats: Sums) -> Global:
        """See `RVD2.global_step`."""
        return Global(
            self.model.global_step(q.case, stats.case),
            self.model.global_step(q.control, stats.control),
        )

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the sum of both bounds."""
        return self.model.elbo(q.case, stats.case) + self.model.elbo(q.control, stats.control)

    def to_vector(self, q: Global) -> FloatArray:
        """Return the coordinates of both, one after the other."""
        return np.concatenate([self.model.to_vector(q.case), self.model.to_vector(q.control)])

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return ``q`` moved to these coordinates."""
        return Global(
            self.model.from_vector(q.case, vector[:3]),
            self.model.from_vector(q.control, vector[3:]),
        )

    def caps_hit(self, q: Global) -> list[str]:
        """Name the global parameters that stand at a limit of their range."""
        found = []
        for name, of in (("case", q.case), ("control", q.control)):
            found += [f"{cap} in the {name}" for cap in self.model.caps_hit(of)]
        return found


def samples(batch: Counts) -> tuple[Errors, Errors]:
    """Return the reads of the case and of the control."""
    r, n = totals(batch)
    return (
        Errors(r[:, batch.case], n[:, batch.case]),
        Errors(r[:, ~batch.case], n[:, ~batch.case]),
    )
