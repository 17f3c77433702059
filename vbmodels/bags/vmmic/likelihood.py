"""The collapsed likelihood of vMMIC (Hu 2024, section 2.2.1): labels given the globals alone.

Given t = (alpha, w, beta_k, a_k, b_k) the indicators delta_ij are independent Bernoullis
with P(delta = 1) = Phi(eta), eta = a + x b, and y_i = 1 with probability
Phi(alpha + f w + sum_j delta_ij s_ij), s = x beta. With the sum replaced by a normal of its
own mean and variance,

    mu_i = alpha + f_i w + sum_j pi s,   v_i = sum_j pi (1 - pi) s^2,   z_i = mu_i / sqrt(1 + v_i)
    log p(y_i | t) ~= log Phi((2 y_i - 1) z_i).

The approximation is no bound: for bags of a few instances it can be off by several per
cent, for larger ones it becomes exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic import likelihood_kernels as kernels
from vbmodels.bags.vmmic.layout import Scaling
from vbmodels.core import normal_kernels
from vbmodels.core.linalg import pack
from vbmodels.core.special import inverse_mills
from vbmodels.core.state import FloatArray, State, Stats

Terms = tuple[FloatArray, FloatArray, FloatArray]
"""(pi, phi(eta), s) of some instances."""


CHUNK = 8_192
"""Instances that are worked on at once: what they need stays in the cache."""


@dataclass(frozen=True)
class Evaluation:
    """The likelihood at one point: value, gradient [dim] and Fisher information [dim, dim]."""

    value: float
    gradient: FloatArray
    information: FloatArray


def chunks(data: Bags) -> Iterator[tuple[int, int]]:
    """Yield ranges of bags that hold about `CHUNK` instances, at least one bag each."""
    ends = sum(m.offsets[1:] for m in data.modalities) + np.arange(1, data.n_bags + 1)
    first = 0
    while first < data.n_bags:
        before = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, before + CHUNK, side="right"))
        last = max(last, first + 1)
        yield first, last
        first = last


@dataclass(frozen=True)
class Folded:
    """One modality's coefficients on features as they are: x b' + a' = (x - mean)/scale b + a."""

    gate: FloatArray
    gate0: float
    slope: FloatArray
    slope0: float


@dataclass(frozen=True)
class Weights:
    """The coefficients of one t on features as they are: the bags' own, and each modality's."""

    intercept: float
    own: FloatArray
    modalities: tuple[Folded, ...]


@dataclass(frozen=True)
class Likelihood:
    """The collapsed likelihood of one partition's labelled bags.

    Parameters
    ----------
    scaling
        Means and scales of the features.
    """

    scaling: Scaling

    def predictor(self, t: FloatArray, data: Bags) -> FloatArray:
        """Return z, the probit score of every bag, [B]."""
        z, weights = np.empty(data.n_bags), self.weights(t)
        for first, last in chunks(data):
            mean, var, _ = self.moments(weights, data, first, last)
            z[first:last] = mean / np.sqrt(1.0 + var)
        return z

    def evaluate(self, t: FloatArray, data: Bags) -> Evaluation:
        """Return log p(y | t), its gradient and its Fisher information.

        With J_i = dz_i/dt, h = phi/Phi: g = sum J_i s_i h(s_i z_i), s = 2y - 1, and
        H = sum w_i J_i J_i', w = h(z) h(-z).
        """
        scaling, layout = self.scaling, self.scaling.layout
        value, gradient = 0.0, np.zeros(layout.dim)
        information = np.zeros((layout.dim, layout.dim))
        sign, weights = data.sign, self.weights(t)
        bag_features = (data.bag_features - scaling.own_mean) / scaling.own_scale
        for first, last in chunks(data):
            mean, var, terms = self.moments(weights, data, first, last)
            shrink = 1.0 / np.sqrt(1.0 + var)
            z, s = mean * shrink, sign[first:last]
            # dz is linear in r and c, so J comes out with its weights: sqrt(w) J. The floor
            # keeps the gradient where w underflows.
            up, down = inverse_mills(z), inverse_mills(-z)
            root = np.sqrt(np.maximum(up * down, 1e-200))
            r = root * shrink
            jacobian = np.empty((last - first, layout.dim))
            jacobian[:, 0] = r
            jacobian[:, layout.own_slopes] = r[:, None] * bag_features[first:last]
            self._jacobian(data, first, last, terms, r, 0.5 * z * r * shrink, jacobian)
            value += float(log_ndtr(s * z).sum())
            gradient += jacobian.T @ (s * np.where(s > 0.0, up, down) / root)
            information += jacobian.T @ jacobian
        return Evaluation(value, gradient, information)

    def weights(self, t: FloatArray) -> Weights:
        """Return what ``t`` weighs features as they are with."""
        scaling, layout = self.scaling, self.scaling.layout
        slopes = t[layout.own_slopes] / scaling.own_scale
        modalities = []
        for k, (mean, scale) in enumerate(zip(scaling.means, scaling.scales, strict=True)):
            intercept, *_ = gate = t[layout.gates[k]]
            b, beta = gate[1:], t[layout.slopes[k]]
            if scaling.turns:
                b, beta = scaling.turns[k] @ b, scaling.turns[k] @ beta
            b, beta = b / scale, beta / scale
            modalities.append(Folded(b, float(intercept - mean @ b), beta, float(-(mean @ beta))))
        return Weights(float(t[0] - scaling.own_mean @ slopes), slopes, tuple(modalities))

    def moments(
        self, weights: Weights, data: Bags, first: int, last: int
    ) -> tuple[FloatArray, FloatArray, list[Terms]]:
        """Return mu and v of bags first..last, and each modality's (pi, phi(eta), s)."""
        mean = weights.intercept + data.bag_features[first:last] @ weights.own
        var = np.zeros(last - first)
        terms = []
        for part, w in zip(data.modalities, weights.modalities, strict=True):
            low, high = part.offsets[first], part.offsets[last]
            eta, bell, score, primary = np.empty((4, high - low))
            kernels.linear(part.features, low, w.gate, w.gate0, w.slope, w.slope0, eta, bell, score)
            np.exp(bell, out=bell)
            normal_kernels.tail_ratio(eta, primary)
            normal_kernels.cdf_and_density(eta, bell, primary)
            kernels.bag_sums(part.offsets, first, last, primary, score, mean, var)
            terms.append((primary, bell, score))
        return mean, var, terms

    def _jacobian(
        self,
        data: Bags,
        first: int,
        last: int,
        terms: list[Terms],
        shrink: FloatArray,
        bend: FloatArray,
        jacobian: FloatArray,
    ) -> None:
        for k, part in enumerate(data.modalities):
            centre, inverse = self.scaling.means[k], 1.0 / self.scaling.scales[k]
            slopes = to_slopes = jacobian[:, self.scaling.layout.slopes[k]]
            gates = to_gates = jacobian[:, self.scaling.layout.gates[k]]
            if self.scaling.turns:
                slopes = np.empty((last - first, centre.size))
                gates = np.empty((last - first, 1 + centre.size))
            kernels.bag_jacobian(
                part.features,
                part.offsets,
                first,
                last,
                (centre, inverse),
                terms[k],
                shrink,
                bend,
                slopes,
                gates,
            )
            if self.scaling.turns:
                to_slopes[:] = slopes @ self.scaling.turns[k]
                to_gates[:, 0] = gates[:, 0]
                to_gates[:, 1:] = gates[:, 1:] @ self.scaling.turns[k]


@dataclass(frozen=True)
class Sums(Stats, kind="bags/vmmic.Sums"):
    """What a partition returns for points [C, M, dim]: C components with M points each.

    Attributes
    ----------
    value
        log p(y | t) at each point, [C, M].
    gradient
        Summed over the points of a component, [C, dim]; [C, 0] where only values are requested.
    information
        The same of the Fisher information, packed, [C, dim (dim + 1) / 2].
    """

    value: FloatArray
    gradient: FloatArray
    information: FloatArray


@dataclass(frozen=True)
class Points(State, kind="bags/vmmic.Points"):
    """Points [C, M, dim] at which C components' likelihood is evaluated.

    ``gradient``: with gradient and information, summed over the points of a component.
    """

    scaling: Scaling
    points: FloatArray
    gradient: bool = True

    def sums(self, batch: Bags) -> Sums:
        """Evaluate the likelihood of a partition's labelled bags."""
        likelihood, data = Likelihood(self.scaling), batch.labelled()
        if not self.gradient:
            scores = [[likelihood.predictor(t, data) for t in ts] for ts in self.points]
            value = np.array([[log_ndtr(data.sign * z).sum() for z in each] for each in scores])
            nothing = np.empty((len(self.points), 0))
            return Sums(value, nothing, nothing)
        evaluations = [[likelihood.evaluate(t, data) for t in ts] for ts in self.points]
        return Sums(
            value=np.array([[e.value for e in row] for row in evaluations]),
            gradient=np.array([np.sum([e.gradient for e in row], axis=0) for row in evaluations]),
            # Its upper triangle: a likelihood's information is symmetric but for rounding.
            information=np.array(
                [np.sum([pack(e.information.T) for e in row], axis=0) for row in evaluations]
            ),
        )
