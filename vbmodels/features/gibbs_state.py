"""States of the Polya-Gamma Gibbs sampler: chains, rows and sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
class GibbsGlobal(State):
    """All chains, how far they are, and what they leave.

    Parameters
    ----------
    chains
        C chains.
    iteration
        Iterations so far.
    seed
        Of everything that is drawn.
    trace
        [C, T, 5] the quantities `TRACED` at every iteration, 0 ahead.
    kept_weights, kept_log_odds
        [C, S, J, K + 1] and [C, S, K] thinned draws, for new rows.
    share
        [C, K] mean share of the rows with each feature over the draws that count.
    n_rows
        N.
    products
        What the chains' features are matched by, once the last draw is there; see
        `vbmodels.features.merging.row_products`.
    """

    chains: tuple[Chain, ...]
    iteration: int
    seed: int
    trace: FloatArray
    kept_weights: FloatArray
    kept_log_odds: FloatArray
    share: FloatArray
    n_rows: float
    products: FloatArray


@dataclass(frozen=True)
class ChainLocal(State):
    """A chain's features z [N, K] and the sum of their probabilities over kept draws."""

    z: NDArray[np.int8]
    chance: FloatArray


@dataclass(frozen=True)
class GibbsLocal(State):
    """A partition's state.

    Parameters
    ----------
    chains
        One a chain.
    cells
        [M, R] sum over kept draws of all chains of each category's probability in each missing
        cell, in the order of `missing_cells`; R is the largest number of categories.
    """

    chains: tuple[ChainLocal, ...]
    cells: FloatArray


@dataclass(frozen=True)
class ChainStats(Stats):
    """Sums of one chain; see `vbmodels.features.polya_gamma.FeatureStats`."""

    n_rows: float
    on: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    log_likelihood: float


@dataclass(frozen=True)
class GibbsStats(Stats):
    """Sums of all chains, and of products of their features at the last draw; nothing before."""

    chains: tuple[ChainStats, ...]
    products: FloatArray
