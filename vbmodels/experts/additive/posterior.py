"""What an additive fit leaves for prediction: lines and curves, and experts that add to them.

The additive part with pairs of columns, and a Gaussian process of all columns, may be stacked with
them: P = w_0 P_own + w_1 P_pairs + w_2 P_process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import pi

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from vbmodels.core.linalg import cholesky, inverse, pack
from vbmodels.core.state import FloatArray, State
from vbmodels.experts.posterior import (
    Component,
    Predicted,
    drawn_shares,
    log_odds_of,
    mixed,
)
from vbmodels.experts.terms.curves import Terms
from vbmodels.experts.terms.step_rows import CodedRows


@dataclass(frozen=True)
class Part(State, kind="experts/additive.Part"):
    """An additive part.

    Attributes
    ----------
    coefficients
        Of lines and what comes with them, intercept last; [P + 1].
    tau
        Precision of its prior, or of the process's; 0 where every block has its own.
    fold
        The part of the rows that was left out; -1 for none.
    covariance
        Of its Gaussian approximation, packed; None where rows were left out.
    joint
        Whether a Gaussian process comes with lines.
    terms
        Which curves come with lines; None for none.
    """

    coefficients: FloatArray
    tau: float
    fold: int
    covariance: FloatArray | None
    joint: bool = False
    terms: Terms | None = None

    def with_covariance(self, hessian: FloatArray) -> Part:
        """Return the part with the inverse of H [P, P], packed."""
        return replace(self, covariance=pack(inverse(cholesky(hessian, "the second moments"))))

    def emptied(self, rate: float) -> Part:
        """Return the intercept alone."""
        coefficients = np.zeros_like(self.coefficients)
        coefficients[-1] = np.log(rate / (1.0 - rate))
        nothing = None if self.covariance is None else np.zeros_like(self.covariance)
        return replace(self, coefficients=coefficients, covariance=nothing)

    def project(self, batch: CodedRows) -> FloatArray:
        """Return the sum of every row; [N]."""
        return batch.project(self.coefficients, self.joint, self.terms)

    def unspanned(self, batch: CodedRows) -> FloatArray:
        """Return the variance of a Gaussian process that its landmarks do not span; [N]."""
        process = batch.basis.interaction
        if process is None or not self.joint:
            return np.zeros(batch.size)
        return process.unspanned(batch.interaction) / self.tau

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations; [P + 1]."""
        if self.covariance is None:
            return np.zeros_like(self.coefficients)
        size = np.arange(1, self.coefficients.size + 1)
        return np.asarray(np.sqrt(self.covariance[size * (size + 1) // 2 - 1]))


@dataclass(frozen=True)
class AdditivePosterior(State, kind="experts/additive.AdditivePosterior"):
    """The additive part f0, and mixtures with equal weights whose experts add to it.

    Attributes
    ----------
    part
        f0.
    mixtures
        The starts, the best one first; none where f0 is used alone.
    process
        Lines and the Gaussian process; None where it has no weight.
    weight
        w_2, its share of every probability.
    pairs
        Lines, curves and pairs; None where they have no weight.
    pairs_weight
        w_1.
    gaps
        Variance that a missing number of each line adds to the log odds; [D].
    """

    part: Part
    mixtures: tuple[Component, ...]
    process: Part | None = None
    weight: float = 0.0
    pairs: Part | None = None
    pairs_weight: float = 0.0
    gaps: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def own_weight(self) -> float:
        """The share of the first member, w_0."""
        return 1.0 - self.pairs_weight - self.weight

    @property
    def additive(self) -> Part:
        """The additive part of the larger weight: f0, or that with pairs."""
        if self.pairs is not None and self.pairs_weight > self.own_weight:
            return self.pairs
        return self.part

    @property
    def components(self) -> tuple[Component, ...]:
        """The mixtures, or f0 as the one expert of a mixture."""
        if self.mixtures:
            return self.mixtures
        mean, sd = np.zeros((2, 2, 1, self.part.coefficients.size))
        mean[1, 0], sd[1, 0] = self.part.coefficients, self.part.sd
        return (Component(mean, sd),)

    def predict(self, batch: CodedRows) -> Predicted:
        """Predict every row; see `vbmodels.experts.posterior.Posterior.predict`."""
        found = [mixed(at, batch.t) for at in self._sums(batch)]
        probability = np.mean([p for p, _ in found], axis=0)
        if others := self._others():
            shares = np.array([self.own_weight, *(weight for weight, _ in others)])
            more = [expit(part.project(batch)) for _, part in others]
            probability = np.minimum(shares @ np.stack([probability, *more]), 1.0)
        spread = self._spread(batch)
        if spread.any():
            probability = np.where(spread > 0.0, expit(self.log_odds(batch)), probability)
        return Predicted(probability, found[0][1])

    def _spread(self, batch: CodedRows) -> FloatArray:
        """Return what missing numbers add to the variance of the log odds of every row; [N]."""
        return batch.missing @ self.gaps if self.gaps.size else np.zeros(batch.size)

    def log_odds(self, batch: CodedRows) -> FloatArray:
        """Return log p / (1 - p) of every row, which stays finite where p rounds to 0 or 1."""
        odds, factor = log_odds_of(self._sums(batch)), shrinkage(self._spread(batch))
        if not (others := self._others()):
            return factor * odds
        every = np.stack([odds, *(part.project(batch) for _, part in others)])
        with np.errstate(divide="ignore"):
            shares = np.log(np.array([self.own_weight, *(weight for weight, _ in others)]))[:, None]
        one, rest = (logsumexp(shares + log_expit(sign * every), axis=0) for sign in (1.0, -1.0))
        return np.asarray(factor * (one - rest))

    def _others(self) -> list[tuple[float, Part]]:
        """Return the members beyond the first, with their weights."""
        both = ((self.pairs_weight, self.pairs), (self.weight, self.process))
        return [(weight, part) for weight, part in both if part is not None]

    def drawn_shares(self, batch: CodedRows, draws: int, seed: int) -> FloatArray:
        """Return each expert's sum of shares under draws of the best start; [draws, K]."""
        if not self.mixtures:
            return np.full((draws, 1), float(batch.size))
        return drawn_shares(self.mixtures[0], batch.mixing, self.part.project(batch), draws, seed)

    def _sums(self, batch: CodedRows) -> list[FloatArray]:
        """Return gate and expert sums of every row for each mixture, [1, 2, K, N]."""
        if not self.mixtures:
            return [_alone(self.part, batch)]
        base = self.part.project(batch)
        result = []
        for component in self.mixtures:
            at = component.linear(batch.mixing)
            at[1] += base
            result.append(at[None])
        return result


def shrinkage(variance: FloatArray) -> FloatArray:
    """Return by what log odds are multiplied that have so much variance around them.

    MacKay (1992), of the logistic function and a Gaussian.
    """
    return np.asarray((1.0 + pi / 8.0 * variance) ** -0.5)


def blended(own: FloatArray, pairs: FloatArray, weight: float) -> FloatArray:
    """Return (1 - weight) own + weight pairs of coefficients [P + 1], of which own may be fewer.

    Those that ``own`` lacks come before the intercept.
    """
    full = np.zeros_like(pairs)
    full[: own.size - 1] = own[:-1]
    full[-1] = own[-1]
    return np.asarray(weight * pairs + (1.0 - weight) * full)


def _alone(part: Part, batch: CodedRows) -> FloatArray:
    """Return the sums of every row by one part, as those of one expert; [1, 2, 1, N]."""
    at = np.zeros((1, 2, 1, batch.size))
    at[0, 1, 0] = part.project(batch)
    return at
