"""States of a chain that draws features, and its sums over rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Chain(State):
    """One chain's global draw.

    Parameters
    ----------
    weights
        [J, K + 1] biases and weights.
    v
        [K] sticks; pi_k = v_1 ... v_k.
    alpha, variance
        Concentration and prior variance of the weights.
    """

    weights: FloatArray
    v: FloatArray
    alpha: float
    variance: float

    @property
    def log_odds(self) -> FloatArray:
        """log(pi_k / (1 - pi_k)); [K]."""
        log_pi = np.cumsum(np.log(self.v))
        # pi = 1 to rounding has finite odds here.
        odds: FloatArray = log_pi - np.log(np.maximum(-np.expm1(log_pi), 1e-16))
        return odds


@dataclass(frozen=True)
class ChainStats(Stats):
    """Sums of one chain; see `vbmodels.features.polya_gamma.FeatureStats`."""

    n_rows: float
    on: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    log_likelihood: float
