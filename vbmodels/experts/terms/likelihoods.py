"""How a row's label depends on its sum f: what a step of Newton and a screen need of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, xlogy

from vbmodels.core.state import FloatArray, State

_HIGHEST = 200.0
"""Largest f whose exponential is taken: beyond it a trial is refused anyway."""


class Slopes(NamedTuple):
    """The log-likelihood l of every row, dl/df, and -d^2 l/df^2; [N] each."""

    value: FloatArray
    first: FloatArray
    curve: FloatArray


@dataclass(frozen=True)
class Logistic(State, kind="experts/additive.Logistic"):
    """Labels t of 1 and -1 (0: none): log sigma(t f)."""

    def slopes(self, f: FloatArray, t: FloatArray) -> Slopes:
        """Return the terms of every row."""
        miss = expit(-t * f)
        return Slopes(log_expit(t * f), t * miss, miss * (1.0 - miss))


@dataclass(frozen=True)
class Gaussian(State, kind="experts/additive.Gaussian"):
    """Numbers y of variance s^2 around f, but for a constant."""

    noise: float

    def slopes(self, f: FloatArray, y: FloatArray) -> Slopes:
        """Return the terms of every row."""
        first = (y - f) / self.noise
        return Slopes(-0.5 * self.noise * first**2, first, np.full(f.shape, 1.0 / self.noise))


@dataclass(frozen=True)
class Poisson(State, kind="experts/additive.Poisson"):
    """Counts y with mean e^f and variance phi e^f: (y f - e^f) / phi, but for a constant.

    ``dispersion`` is phi; of a phi above 1 that is a quasi-likelihood (Wedderburn 1974).
    """

    dispersion: float = 1.0

    def slopes(self, f: FloatArray, y: FloatArray) -> Slopes:
        """Return the terms of every row."""
        mean = np.exp(np.minimum(f, _HIGHEST))
        return Slopes(
            (y * f - mean) / self.dispersion, (y - mean) / self.dispersion, mean / self.dispersion
        )


def poisson_deviance(y: FloatArray, mean: FloatArray) -> FloatArray:
    """Return 2 (y log(y / mean) - y + mean) of every row.

    >>> poisson_deviance(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    array([2., 0.])
    """
    return np.asarray(2.0 * (xlogy(y, y / mean) - y + mean))


Likelihood = Logistic | Gaussian | Poisson
