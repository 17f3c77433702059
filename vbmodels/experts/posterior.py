"""What a fit leaves for prediction: Gaussians over gates and experts, averaged over starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, softmax

from vbmodels.experts.batch import Rows
from vbmodels.state import FloatArray, State

METHODS = ("plug_in", "mackay", "monte_carlo")


@dataclass(frozen=True)
class Component(State):
    """Means and standard deviations of gates and experts, [2, K, p].

    ``covariance`` [2, K, p, p] where they are correlated, else None.
    """

    mean: FloatArray
    sd: FloatArray
    covariance: FloatArray | None = None

    def linear(self, batch: Rows) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of gate and expert sums of every row; [2, K, N] each."""
        _, k, p = self.mean.shape
        mean = batch.project(self.mean.reshape(2 * k, p))
        if self.covariance is None:
            variance = batch.project_squares(self.sd.reshape(2 * k, p) ** 2)
        else:
            variance = batch.quadratic(self.covariance.reshape(2 * k, p, p))
        return mean.reshape(2, k, -1), variance.reshape(2, k, -1)


@dataclass(frozen=True)
class Predicted:
    """Probability of the label 1 [N], and each expert's share of each row [K, N].

    ``responsibility`` is the gates' for rows without a label, else the posterior of z.
    """

    probability: FloatArray
    responsibility: FloatArray


@dataclass(frozen=True)
class Posterior(State):
    """Components with equal weights; experts of different components are not the same."""

    components: tuple[Component, ...]

    def predict(self, batch: Rows, method: str = "plug_in", draws: int = 64) -> Predicted:
        """Predict every row.

        Parameters
        ----------
        batch
            The rows, with or without labels.
        method
            "plug_in": at the means. "mackay": every sum divided by sqrt(1 + pi v / 8)
            (MacKay 1992, eq. 5), for the sigmoid and, by the same rule, the softmax.
            "monte_carlo": over ``draws`` draws that belong to the row, so that the answer
            does not depend on its partition.
        draws
            Draws; even.

        Raises
        ------
        ValueError
            For another method.
        """
        found = [_predict(c, batch, method, draws) for c in self.components]
        probability = np.mean([p for p, _ in found], axis=0)
        return Predicted(probability, found[0][1])


@dataclass(frozen=True)
class DrawnPosterior(State):
    """Draws of gates and experts, [S, 2, K, p], experts in one order."""

    draws: FloatArray

    @property
    def components(self) -> tuple[Component]:
        """Means and standard deviations over the draws."""
        return (Component(self.draws.mean(0), self.draws.std(0)),)

    def predict(self, batch: Rows, method: str = "monte_carlo", most: int = 400) -> Predicted:
        """Predict every row by the mean over at most ``most`` draws, evenly spaced.

        ``method`` is that of other posteriors; draws need none.
        """
        draws = self.draws[:: -(-len(self.draws) // most)]
        k = draws.shape[2]
        probability, share = np.zeros(batch.size), np.zeros((k, batch.size))
        for one in draws:
            linear = batch.project(one.reshape(2 * k, -1)).reshape(1, 2, k, -1)
            p, r = _mixed(linear, batch.t)
            probability += p / len(draws)
            share += r / len(draws)
        return Predicted(probability, share)


def _predict(
    component: Component, batch: Rows, method: str, draws: int
) -> tuple[FloatArray, FloatArray]:
    if method not in METHODS:
        raise ValueError(f"expected one of {', '.join(METHODS)}, got {method!r}")
    mean, variance = component.linear(batch)
    k = mean.shape[1]
    if method == "monte_carlo":
        noise = batch.noise(draws, 2 * k).reshape(-1, 2, k, batch.size)
        at = mean + np.sqrt(variance) * noise
    else:
        shrink = 1.0 / np.sqrt(1.0 + np.pi * variance / 8.0) if method == "mackay" else 1.0
        at = (mean * shrink)[None]
    return _mixed(at, batch.t)


def _mixed(at: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return probabilities [N] and shares [K, N], the means over sums [draws, 2, K, N]."""
    gates, one = softmax(at[:, 0], axis=1), expit(at[:, 1])
    probability = np.einsum("dkn,dkn->n", gates, one) / len(at)
    # In logarithms: where all experts are sure of the other label, products underflow.
    right = log_expit(t * at[:, 1]) * (t != 0.0)
    share = softmax(at[:, 0] + right, axis=1)
    return probability, share.mean(0)
