"""The Polya-Gamma distribution of Polson, Scott and Windle (2013)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.expfam.family import ExponentialFamily
from vbmodels.special import log_cosh, polya_gamma_mean
from vbmodels.state import FloatArray


@dataclass(frozen=True)
class PolyaGamma(ExponentialFamily):
    """PG(shape, tilt): cosh^shape(tilt/2) exp(-tilt^2 w/2) times the density of PG(shape, 0).

    Attributes
    ----------
    shape
        Positive (1 for a binary logistic observation); fixed; [...].
    tilt
        The paper's c; [...].
    """

    shape: FloatArray
    tilt: FloatArray

    @property
    def natural(self) -> FloatArray:
        """(-tilt^2 / 2,); [..., 1]."""
        return np.broadcast_arrays(-0.5 * np.square(self.tilt), self.shape)[0][..., None]

    @property
    def mean(self) -> FloatArray:
        """E[w] = shape tanh(tilt/2) / (2 tilt); [...]."""
        return self.shape * polya_gamma_mean(self.tilt)

    @property
    def mean_stats(self) -> FloatArray:
        """(E[w],); [..., 1]."""
        return self.mean[..., None]

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = -shape log cosh(tilt/2); [...]."""
        tilt = np.sqrt(-2.0 * natural[..., 0])
        return -self.shape * log_cosh(0.5 * tilt)

    def entropy(self) -> FloatArray:
        """Refuse: the density of PG(shape, 0) is a series, so the entropy has no closed form."""
        raise NotImplementedError("the entropy of a Polya-Gamma has no closed form; use kl")

    def kl_to_prior(self) -> FloatArray:
        """KL(PG(b, c) || PG(b, 0)) = b log cosh(c/2) - b c tanh(c/2) / 4, as in a bound; [...]."""
        result: FloatArray = self.shape * log_cosh(0.5 * self.tilt) - 0.5 * self.tilt**2 * self.mean
        return result
