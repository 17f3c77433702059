"""The multivariate Gaussian distribution, by the Cholesky factor of its precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Self

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State


@dataclass(frozen=True)
class Gaussian(State):
    """N(mean, (L L')^-1) in D dimensions.

    Attributes
    ----------
    mean
        [..., D].
    factor
        Lower Cholesky factor L of the precision; [..., D, D].
    """

    mean: FloatArray
    factor: FloatArray

    @classmethod
    def from_linear(cls, linear: FloatArray, precision: FloatArray) -> Self:
        """Build from precision times mean [..., D] and the precision [..., D, D]."""
        factor = linalg.cholesky(precision, "the precision of a Gaussian")
        return cls(linalg.solve(factor, linear), factor)

    @property
    def covariance(self) -> FloatArray:
        """(L L')^-1; [..., D, D]."""
        return linalg.inverse(self.factor)

    def entropy(self) -> FloatArray:
        """(D (1 + log 2 pi) - log det precision) / 2; [...]."""
        size = self.mean.shape[-1]
        result: FloatArray = 0.5 * (size * (1.0 + log(2.0 * pi)) - linalg.log_det(self.factor))
        return result

    def kl_to_standard(self) -> FloatArray:
        """(tr C + mean' mean - D - log det C) / 2, the divergence from N(0, I); [...]."""
        size = self.mean.shape[-1]
        half = linalg.solve_lower(self.factor, np.broadcast_to(np.eye(size), self.factor.shape))
        trace = (half**2).sum(axis=(-2, -1))
        square = (self.mean**2).sum(axis=-1)
        result: FloatArray = 0.5 * (trace + square - size + linalg.log_det(self.factor))
        return result
