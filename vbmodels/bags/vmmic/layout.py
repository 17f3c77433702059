"""Coordinates of vMMIC's global parameters, and the scaling of its features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, starmap

import numpy as np

from vbmodels.bags.bags import Bags, few_bags
from vbmodels.core.linalg import Moments
from vbmodels.core.state import FloatArray, IntArray, State, Stats

CONSTANT = 1e-18
"""A feature whose variance is at most this share of its mean square is constant."""


class FewBags(UserWarning):
    """There are about as many features as bags: expect little of the fit."""


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

    @cached_property
    def own_slopes(self) -> slice:
        """The place of w."""
        return slice(1, 1 + self.own)

    @cached_property
    def slopes(self) -> tuple[slice, ...]:
        """The places of the beta_k."""
        return tuple(starmap(slice, pairwise(accumulate(self.features, initial=1 + self.own))))

    @cached_property
    def gates(self) -> tuple[slice, ...]:
        """The places of the (a_k, b_k), the intercept first."""
        widths = [1 + d for d in self.features]
        return tuple(starmap(slice, pairwise(accumulate(widths, initial=self.n_theta))))

    @cached_property
    def gate_slopes(self) -> tuple[slice, ...]:
        """The places of the b_k."""
        return tuple(slice(gate.start + 1, gate.stop) for gate in self.gates)

    @cached_property
    def slope_blocks(self) -> tuple[slice, ...]:
        """Blocks of slopes, each with a prior scale of its own: w (if any), beta_k, b_k."""
        blocks = (self.own_slopes, *self.slopes, *self.gate_slopes)
        return tuple(block for block in blocks if block.stop > block.start)

    @cached_property
    def block_sizes(self) -> FloatArray:
        """Coordinates of each of `slope_blocks`, [blocks]; their priors go by those of `plain`."""
        return np.array([float(block.stop - block.start) for block in self.slope_blocks])

    @cached_property
    def intercepts(self) -> IntArray:
        """Where alpha and the a_k stand."""
        return np.array([0, *(gate.start for gate in self.gates)])


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
            back[plain.slopes[k], turned.slopes[k]] = v
            back[plain.gate_slopes[k], turned.gate_slopes[k]] = v
        return back

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
            blocks.append((layout.slopes[k], 0, *scales))
            blocks.append((layout.gate_slopes[k], layout.gates[k].start, *scales))
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

    def refuse_hopeless(self) -> None:
        """Refuse bags of one class, and warn where features are about as many as bags."""
        if not 0.0 < self.positive < self.bags:
            raise ValueError(
                "expected positive and negative bags, got "
                f"{self.positive:.0f} positive of {self.bags:.0f} with a label"
            )
        features = sum(m.mean.size for m in (self.own, *self.instances))
        if few := few_bags(self.bags, features):
            warnings.warn(few, FewBags, stacklevel=3)

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
    return mean, scale_of(mean, np.diag(moments.scatter) / moments.weight)


def scale_of(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the standard deviations of features; 1 of a constant one, which is only centred."""
    constant = variance <= CONSTANT * (variance + mean**2)
    return np.sqrt(np.where(constant, 1.0, variance))


def _gram(moments: Moments, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Scale the scatter itself: differences of raw sums of squares would be rounding noise."""
    gram = np.empty((1 + len(mean),) * 2)
    gram[0, 0] = moments.weight
    gram[0, 1:] = gram[1:, 0] = moments.weight * (moments.mean - mean) / scale
    gram[1:, 1:] = moments.about(mean) / np.outer(scale, scale)
    return gram
