"""Coordinates of vMMIC's global parameters, and the scaling of its features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.core.linalg import Moments
from vbmodels.core.state import FloatArray, IntArray, State, Stats

CONSTANT = 1e-18
"""A feature whose variance is at most this share of its mean square is constant."""


@dataclass(frozen=True)
class Layout:
    """Where the parameters stand in t = (alpha, w, beta_1..beta_K, a_1, b_1, ..., a_K, b_K).

    The first part, theta = (alpha, w, beta), is the bags' regression: intercept, slopes of
    the bags' own features, slopes of the primary instances. Each (a_k, b_k) is the
    regression of being primary, of one modality.

    Parameters
    ----------
    own
        Features of a bag, F.
    features
        Features of an instance, D_k for each modality; directions where they are turned.
    widths
        Features before they were turned; () where none are.
    """

    own: int
    features: tuple[int, ...]
    widths: tuple[int, ...] = ()

    @classmethod
    def of(cls, data: Bags) -> Layout:
        """Return the coordinates that fit some bags."""
        return cls(data.bag_features.shape[1], tuple(m.n_features for m in data.modalities))

    @cached_property
    def n_theta(self) -> int:
        """Coordinates of the bags' regression."""
        return 1 + self.own + sum(self.features)

    @cached_property
    def dim(self) -> int:
        """All coordinates."""
        return self.n_theta + sum(1 + d for d in self.features)

    @cached_property
    def plain(self) -> Layout:
        """The coordinates before features were turned."""
        return Layout(self.own, self.widths or self.features)

    @property
    def own_slopes(self) -> slice:
        """The place of w."""
        return slice(1, 1 + self.own)

    def slopes(self, k: int) -> slice:
        """The place of beta_k."""
        return slice(1 + self.own + self._before[k], 1 + self.own + self._before[k + 1])

    def gate(self, k: int) -> slice:
        """The place of (a_k, b_k), the intercept first."""
        return slice(self.n_theta + k + self._before[k], self.n_theta + k + 1 + self._before[k + 1])

    @cached_property
    def _before(self) -> list[int]:
        """Features of the modalities before each, and of all."""
        return [sum(self.features[:k]) for k in range(len(self.features) + 1)]

    def gate_slopes(self, k: int) -> slice:
        """The place of b_k."""
        gate = self.gate(k)
        return slice(gate.start + 1, gate.stop)

    @cached_property
    def slope_blocks(self) -> tuple[slice, ...]:
        """Blocks of slopes, each with a prior scale of its own: w (if any), beta_k, b_k."""
        own = (self.own_slopes,) if self.own else ()
        modalities = range(len(self.features))
        blocks = (*map(self.slopes, modalities), *map(self.gate_slopes, modalities))
        return own + tuple(block for block in blocks if block.stop > block.start)

    @cached_property
    def block_widths(self) -> FloatArray:
        """Features behind each of `slope_blocks`, by which their priors go, [blocks]."""
        blocks = self.plain.slope_blocks
        return np.array([float(block.stop - block.start) for block in blocks])

    @cached_property
    def intercepts(self) -> IntArray:
        """Where alpha and the a_k stand."""
        return np.array([0, *(self.gate(k).start for k in range(len(self.features)))])


@dataclass(frozen=True)
class Scaling(State, kind="bags/vmmic.Scaling"):
    """Means and scales of the features: a model works on (x - mean) / scale.

    Attributes
    ----------
    means, scales
        Of the instances' features, [D_k] for each modality.
    own_mean, own_scale
        Of the bags' own features, [F].
    turns
        Directions V that scaled features are projected on, [D_k, R_k] for each modality, V'V = I;
        () where none are turned. A slope b is V c then, and c has the prior of b.
    """

    means: tuple[FloatArray, ...]
    scales: tuple[FloatArray, ...]
    own_mean: FloatArray
    own_scale: FloatArray
    turns: tuple[FloatArray, ...] = ()

    @cached_property
    def layout(self) -> Layout:
        """The coordinates of a model on these features."""
        widths = tuple(mean.size for mean in self.means)
        if not self.turns:
            return Layout(self.own_mean.size, widths)
        return Layout(self.own_mean.size, tuple(v.shape[1] for v in self.turns), widths)

    @property
    def back(self) -> FloatArray:
        """E with t = E t' for t' in the turned coordinates, [dim before, dim]."""
        turned = self.layout
        plain = turned.plain
        back = np.zeros((plain.dim, turned.dim))
        back[plain.intercepts, turned.intercepts] = 1.0
        back[plain.own_slopes, turned.own_slopes] = np.eye(plain.own)
        for k, v in enumerate(self.turns):
            back[plain.slopes(k), turned.slopes(k)] = v
            back[plain.gate_slopes(k), turned.gate_slopes(k)] = v
        return back

    def own(self, data: Bags) -> FloatArray:
        """Return the bags' own features, scaled, [B, F]."""
        return (data.bag_features - self.own_mean) / self.own_scale

    def change(self, after: Scaling) -> FloatArray:
        """Return A with t' = A t: the same regressions on features scaled as ``after``.

        A slope of (x - m) / s becomes one of (x - m') / s' when it is multiplied by s' / s
        and its intercept grows by it times (m' - m) / s. [dim, dim]
        """
        layout = self.layout
        change = np.eye(layout.dim)
        blocks = [
            (layout.own_slopes, 0, self.own_mean, self.own_scale, after.own_mean, after.own_scale)
        ]
        for k in range(len(layout.features)):
            scales = self.means[k], self.scales[k], after.means[k], after.scales[k]
            blocks.append((layout.slopes(k), 0, *scales))
            blocks.append((layout.gate_slopes(k), layout.gate(k).start, *scales))
        for block, intercept, mean, scale, new_mean, new_scale in blocks:
            change[block, block] = np.diag(new_scale / scale)
            change[intercept, block] = (new_mean - mean) / scale
        return change


@dataclass(frozen=True)
class Observed(Stats, kind="bags/vmmic.Observed"):
    """What one partition's labelled bags add up to before a fit.

    Attributes
    ----------
    bags, positive
        Bags, and positive ones among them.
    own
        Moments of the bags' own features, [F].
    instances
        Of the instances' features, [D_k] for each modality.
    """

    bags: float
    positive: float
    own: Moments
    instances: tuple[Moments, ...]

    @classmethod
    def of(cls, data: Bags) -> Observed:
        """Return the moments of one partition's bags; those without a label are left out."""
        data = data.labelled()
        return cls(
            bags=float(data.n_bags),
            positive=float(np.count_nonzero(data.label == 1)),
            own=Moments.of(data.bag_features),
            instances=tuple(Moments.of(m.features) for m in data.modalities),
        )

    def scaling(self, standardise: bool) -> Scaling:
        """Return means and standard deviations, or 0 and 1 when features are kept as they are.

        A constant feature is only centred, so that its weight is left to its prior.
        """
        means, scales = zip(*(_scale(m, standardise) for m in self.instances), strict=True)
        own_mean, own_scale = _scale(self.own, standardise)
        return Scaling(means, scales, own_mean, own_scale)

    def turned(self, scaling: Scaling, share: float, least: int = 1) -> Scaling:
        """Turn modalities with as many features as there are bags, and ``least``, or more.

        Of the scaled instances' covariance V diag(l) V' the leading directions are kept that hold
        ``share`` of the trace, at most as many as there are bags.
        """
        most = int(self.bags)
        least = max(most, least)
        if not any(mean.size >= least for mean in scaling.means):
            return scaling
        turns = []
        for m, mean, scale in zip(self.instances, scaling.means, scaling.scales, strict=True):
            if mean.size < least:
                turns.append(np.eye(mean.size))
                continue
            values, vectors = np.linalg.eigh(m.about(mean) / np.outer(scale, scale))
            values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
            total = values.cumsum()
            count = int(np.searchsorted(total, share * total[-1] * (1.0 - 1e-12))) + 1
            kept = vectors[:, : max(1, min(count, most, len(values)))]
            largest = kept[np.abs(kept).argmax(axis=0), np.arange(kept.shape[1])]
            turns.append(np.ascontiguousarray(kept * np.sign(largest)))
        return replace(scaling, turns=tuple(turns))

    def grams(self, scaling: Scaling) -> tuple[FloatArray, ...]:
        """Return sum (1, x)(1, x)' of the scaled instances, [1 + D_k, 1 + D_k] a modality."""
        return tuple(
            _gram(m, mean, scale)
            for m, mean, scale in zip(self.instances, scaling.means, scaling.scales, strict=True)
        )


def _scale(moments: Moments, standardise: bool) -> tuple[FloatArray, FloatArray]:
    mean = moments.mean
    if not standardise or moments.weight == 0.0:
        return np.zeros(len(mean)), np.ones(len(mean))
    variance = np.diag(moments.scatter) / moments.weight
    constant = variance <= CONSTANT * (variance + mean**2)
    return mean, np.sqrt(np.where(constant, 1.0, variance))


def _gram(moments: Moments, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Scale the scatter itself: differences of raw sums of squares would be rounding noise."""
    gram = np.empty((1 + len(mean),) * 2)
    gram[0, 0] = moments.weight
    gram[0, 1:] = gram[1:, 0] = moments.weight * (moments.mean - mean) / scale
    gram[1:, 1:] = moments.about(mean) / np.outer(scale, scale)
    return gram
