"""MIL-GP-Probit's variational fit as Wang and Pinar (2021) print it, with its errata.

- q(w) q(f) q(m) keeps f: m_i has variance 1 given f_i, and the bound is sum r_i / 2 below the one
  with f integrated out (`vbmodels.bags.mil_gp.model`), with the letters there.
- 25 sweeps of coordinate ascent (section 4), which stop short of the bound's maximum.
- Erratum: an instance is predicted by Phi(mu / (Sigma + 1)); E Phi(f), f ~ N(mu, Sigma), is
  Phi(mu / sqrt(Sigma + 1)).
- Erratum: the sampler's m_i given w has variance 1 (eqs 26-28); with f integrated out it is
  1 + r_i (`vbmodels.bags.mil_gp.gibbs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.likelihood import CACHE, Sums, known_rows
from vbmodels.bags.mil_gp.model import CollapsedGP, Search
from vbmodels.bags.multilabel import Batch
from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import cavi
from vbmodels.core.state import FloatArray

PRINTED = KernelOptions(
    kernel="rbf",
    length_scales=(1.0,),
    amplitudes=(1.0,),
    constant_variance=0.0,
    offset=0.0,
    standardise=True,
    leak=False,
)
"""The paper's kernel (section 4): amplitude 1, length scale sqrt(D), mean 0."""


@dataclass(frozen=True)
class PrintedSums(Sums):
    """Sums with ``residual``, the sum of r over the bags with a label, [K]."""

    residual: FloatArray


@dataclass(frozen=True)
class PrintedGP(CollapsedGP):
    """Coordinate ascent with f kept (eqs 13, 14), s = 1, stopped after 25 sweeps (section 4).

    Parameters
    ----------
    sweeps
        Sweeps after which the fit counts as converged; None: until the bound has converged.
    """

    options: KernelOptions = PRINTED
    sweeps: int | None = 25

    def suff_stats(self, q: Any, batch: Batch, local: None) -> PrintedSums:
        """Evaluate a partition with s = 1, and sum r."""
        residual = np.zeros(q.features.n_kernels)
        for block in CACHE.blocks(batch, q.features):
            for k in range(residual.size):
                noise = q.features.amplitude[k] * block.residual[q.features.which[k]]
                residual[k] += noise[known_rows(block)].sum()
        flat = replace(q.features, amplitude=np.zeros_like(q.features.amplitude))
        found: Sums = super().suff_stats(replace(q, features=flat), batch, local)
        return found.extended(PrintedSums, residual=residual)

    def bounds(self, q: Search, stats: Sums) -> FloatArray:
        """Return the bound for every kernel value and class, [K, C]."""
        assert isinstance(stats, PrintedSums)
        return super().bounds(q, stats) - 0.5 * stats.residual[:, None]

    def algorithm(self, q: Search) -> Algorithm:
        """Sweep until the bound has converged, or as often as the paper has it."""
        return cavi(self, q, self.sweeps)


def printed_probability(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return P(instance positive) as section 3.4 prints it, without the square root."""
    result: FloatArray = ndtr(mean / (variance + 1.0))
    return result
