"""What a fit leaves for prediction: Gaussians over gates and experts, averaged over starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from vbmodels.core.state import FloatArray, State
from vbmodels.experts.rows import Rows


def unweighted(p: FloatArray, weights: FloatArray) -> FloatArray:
    """Return P of classes [N, K] of a fit in which the rows of each class had a weight [K].

    The fit's are in proportion to w_k P_k. Of two classes, P of the second is given and returned.

    >>> unweighted(np.array([0.5, 0.9]), np.array([1.0, 9.0])).round(3).tolist()
    [0.1, 0.5]
    """
    if (weights == weights[0]).all():
        return p
    every = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    share = every / weights
    share /= share.sum(axis=1, keepdims=True)
    return share[:, 1] if p.ndim == 1 else share


@dataclass(frozen=True)
class Component(State, kind="experts.Component"):
    """Means and standard deviations of gates and experts, [2, K, p].

    ``covariance`` [2, K, p, p] where they are correlated, else None.
    """

    mean: FloatArray
    sd: FloatArray
    covariance: FloatArray | None = None

    def linear(self, batch: Rows) -> FloatArray:
        """Return gate and expert sums of every row at their means; [2, K, N]."""
        _, k, p = self.mean.shape
        return batch.project(self.mean.reshape(2 * k, p)).reshape(2, k, -1)


@dataclass(frozen=True)
class Predicted:
    """Probability of the label 1 [N], and each expert's share of each row [K, N].

    ``responsibility`` is the gates' for rows without a label, else the posterior of z.
    """

    probability: FloatArray
    responsibility: FloatArray


@dataclass(frozen=True)
class Posterior(State, kind="experts.Posterior"):
    """Components with equal weights; experts of different components are not the same."""

    components: tuple[Component, ...]

    def predict(self, batch: Rows) -> Predicted:
        """Predict every row, with or without a label, at the means of each component."""
        found = [mixed(c.linear(batch)[None], batch.t) for c in self.components]
        probability = np.mean([p for p, _ in found], axis=0)
        return Predicted(probability, found[0][1])

    def log_odds(self, batch: Rows) -> FloatArray:
        """Return log p / (1 - p) of every row, which stays finite where p rounds to 0 or 1."""
        return log_odds_of(c.linear(batch)[None] for c in self.components)

    def drawn_shares(self, batch: Rows, draws: int, seed: int) -> FloatArray:
        """Return each expert's sum of shares under draws of the best start; [draws, K]."""
        return drawn_shares(self.components[0], batch, 0.0, draws, seed)


@dataclass(frozen=True)
class DrawnPosterior(State, kind="experts.DrawnPosterior"):
    """Draws of gates and experts, [S, 2, K, p], experts in one order."""

    draws: FloatArray

    @property
    def components(self) -> tuple[Component]:
        """Means and standard deviations over the draws."""
        return (Component(self.draws.mean(0), self.draws.std(0)),)

    def predict(self, batch: Rows, most: int = 400) -> Predicted:
        """Predict every row by the mean over at most ``most`` draws, evenly spaced."""
        k = self.draws.shape[2]
        probability, share = np.zeros(batch.size), np.zeros((k, batch.size))
        count = len(self._spaced(most))
        for linear in self._linear(batch, most):
            p, r = mixed(linear, batch.t)
            probability += p / count
            share += r / count
        return Predicted(probability, share)

    def log_odds(self, batch: Rows, most: int = 400) -> FloatArray:
        """Return log p / (1 - p) of every row; see `Posterior.log_odds`."""
        return log_odds_of(self._linear(batch, most))

    def drawn_shares(self, batch: Rows, draws: int, seed: int) -> FloatArray:
        """Return each expert's sum of shares under about ``draws`` of the draws; [draws, K]."""
        found = [mixed(at, batch.t)[1].sum(1) for at in self._linear(batch, draws)]
        return np.array(found)

    def _spaced(self, most: int) -> FloatArray:
        return self.draws[:: -(-len(self.draws) // most)]

    def _linear(self, batch: Rows, most: int) -> Iterator[FloatArray]:
        k = self.draws.shape[2]
        for one in self._spaced(most):
            yield batch.project(one.reshape(2 * k, -1)).reshape(1, 2, k, -1)


def drawn_shares(
    component: Component, batch: Rows, offset: FloatArray | float, draws: int, seed: int
) -> FloatArray:
    """Return each expert's sum of shares under draws of gates and experts; [draws, K].

    The draws are the same for every partition, so their sums over partitions are those of all
    rows. ``offset`` is added to every expert's sums.
    """
    rng = np.random.default_rng(seed)
    _, k, p = component.mean.shape
    found = np.empty((draws, k))
    for i in range(draws):
        one = component.mean + component.sd * rng.standard_normal(component.mean.shape)
        at = batch.project(one.reshape(2 * k, p)).reshape(1, 2, k, -1)
        at[:, 1] += offset
        found[i] = mixed(at, batch.t)[1].sum(1)
    return found


def log_odds_of(sums: Iterable[FloatArray]) -> FloatArray:
    """Return the log odds of the mean over arrays of sums, each [draws, 2, K, N]."""
    total: FloatArray = np.array(-np.inf)
    for at in sums:
        gates = log_softmax(at[:, 0], axis=1)
        both = np.stack([log_expit(at[:, 1]), log_expit(-at[:, 1])])
        # Each array weighs the same, so what counts is its mean over draws.
        mean = logsumexp(gates + both, axis=(1, 2)) - np.log(len(at))
        total = np.logaddexp(total, mean)
    one, other = total
    return np.asarray(one - other)


def mixed(at: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return probabilities [N] and shares [K, N], the means over sums [draws, 2, K, N]."""
    gates, one = softmax(at[:, 0], axis=1), expit(at[:, 1])
    # Shares add up to 1 but for rounding, and scikit-learn refuses what is above 1 by that.
    probability = np.minimum(np.einsum("dkn,dkn->n", gates, one) / len(at), 1.0)
    # In logarithms: where all experts are sure of the other label, products underflow.
    right = log_expit(t * at[:, 1]) * (t != 0.0)
    share = softmax(at[:, 0] + right, axis=1)
    return probability, share.mean(0)
