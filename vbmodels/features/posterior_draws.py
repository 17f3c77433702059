"""What rows have, by draws of the weights: sums over patterns of features in closed form.

q(z_n) is too sure of itself: its bits are independent, and the weights are taken as known. Given
weights w [J, K + 1] and log odds o [K], the posterior of a row's pattern is exactly

    p(z | x_n, w) ∝ exp(o . z) prod_j sigma(s_nj w_j . (1, z)),

and p(z | X) is its mean over draws of w and o given all rows X: those of the Gibbs chain by which
a search ends, or of q(w) where there was none. A row gives the same again where it is scored.

Patterns are those within `CUT` of the best at the mean weights, and its neighbours, among all
patterns of a row's `ENUMERATED` features that are least certain; further features are as steps by
one feature or two leave them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State
from vbmodels.features.draw_kernels import Keys, draw_uniform
from vbmodels.features.ibp.model import FeatureGlobal
from vbmodels.features.ibp.sticks import bound_log_off, mean_log_on
from vbmodels.features.pattern_kernels import sum_patterns

DRAWS = 40
LARGEST_WEIGHT = 50.0
_STREAM = 9


@dataclass(frozen=True)
class WeightDraws(State, kind="features.WeightDraws"):
    """Draws of the global parameters.

    Parameters
    ----------
    weights
        [S, J, K + 1] biases and weights.
    log_odds
        [S, K] log odds of the features.
    scale
        By what deviations in the chain are larger than those given all rows; 1 where all drew.
    """

    weights: FloatArray
    log_odds: FloatArray
    scale: float = 1.0

    @classmethod
    def none(cls, units: int = 0, k: int = 0) -> WeightDraws:
        """Return no draws."""
        return cls(np.zeros((0, units, k + 1)), np.zeros((0, k)))

    def plus(self, weights: FloatArray, log_odds: FloatArray) -> WeightDraws:
        """Return one draw more."""
        return WeightDraws(
            np.concatenate([self.weights, weights[None]]),
            np.concatenate([self.log_odds, log_odds[None]]),
            self.scale,
        )

    def around(self, q: FeatureGlobal) -> WeightDraws:
        """Return draws given all rows: those of a sample of the rows are moved and shrunk."""
        if self.scale == 1.0:
            return self
        odds = mean_log_on(q.tau) - bound_log_off(q.tau)
        return WeightDraws(
            q.mean + (self.weights - self.weights.mean(0)) / self.scale,
            odds + (self.log_odds - self.log_odds.mean(0)) / self.scale,
            self.scale,
        )


def draws_of(q: FeatureGlobal) -> WeightDraws:
    """Draw from q(weights); [S] of them."""
    root = linalg.cholesky(q.covariance, "the covariance of the weights")
    noise = np.random.default_rng(_STREAM).standard_normal((DRAWS, *q.mean.shape, 1))
    odds = mean_log_on(q.tau) - bound_log_off(q.tau)
    return WeightDraws(q.mean + (root @ noise)[..., 0], np.tile(odds, (DRAWS, 1)))


def row_chances(draws: WeightDraws, sign: NDArray[np.int8]) -> FloatArray:
    """Return the probability of every feature in every row of answers [N, J]; [N, K].

    Of draws that differ less, fewer do.
    """
    few = slice(None, None, int(draws.scale**2))
    some = WeightDraws(draws.weights[few], draws.log_odds[few])
    return _run(some, sign, np.zeros((len(sign), 0)))[0]


def draw_patterns(draws: WeightDraws, sign: NDArray[np.int8], keys: Keys) -> NDArray[np.int8]:
    """Draw every row's features given each draw of the weights; [S, N, K]."""
    return _run(draws, sign, draw_uniform(keys, len(draws.weights)))[1]


def _run(
    draws: WeightDraws, sign: NDArray[np.int8], uniform: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return chances, and patterns drawn by the uniform numbers [N, S] where there are some."""
    mean = draws.weights.mean(0), draws.log_odds.mean(0)
    weights = np.concatenate([draws.weights, mean[0][None]]).transpose(0, 2, 1)
    weights = np.clip(weights, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    # exp(-s psi) of a pattern is a product of these, for answers of -1 and of 1; 0 for none.
    none = np.zeros((*weights.shape[:2], 1))
    factors = np.exp(np.concatenate([weights, none, -weights, none], axis=2))
    factors[:, 0, [weights.shape[2], -1]] = 0.0
    log_odds = np.concatenate([draws.log_odds, mean[1][None]])
    return sum_patterns(sign, factors, log_odds, uniform)
