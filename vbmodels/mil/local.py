"""The local factors of mean-field vMMIC: q(y*), q(U, delta) = q(delta) q(U | delta).

With theta = (alpha, w, beta), q(theta) = N(m, V), M = V + m m', phi_ij an instance's
features in theta's coordinates, r_i = e_alpha + f_i + sum_j p_ij phi_ij, eta = E[a] + x E[b]:

    q(y*_i) = TN(r_i.m, 1) on the label's side
    kappa_ij = E[y*_i] phi.m - phi' M r_i + (p_ij - 1/2) phi' M phi      (present values)
    logit p_ij = log Phi(eta) - log Phi(-eta) + kappa_ij
    U | delta = 1 ~ TN+(eta, 1),  U | delta = 0 ~ TN-(eta, 1)

The instances of a bag are updated one after another, which makes every update exact.
B.1.9 and B.1.10 of the text count Phi(eta) twice and carry the log odds of every earlier
iteration on; ``carried`` does that for the mode ``as_printed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, ndtr

from vbmodels.mil.batch import Bags
from vbmodels.mil.layout import Scaling
from vbmodels.mil.likelihood import DENSITY, chunks, compiled
from vbmodels.special import inverse_mills
from vbmodels.state import FloatArray, IntArray, State


@dataclass(frozen=True)
class Local(State):
    """The local factors of one partition's labelled bags.

    Attributes
    ----------
    primary
        p = q(delta = 1), [N_k] for each modality.
    centre
        Parameter m* of q(y*), [B].
    gates
        (a, b) that q(U | delta) was made with, [1 + D_k] for each modality: its parameter is
        e* = a + x b.
    carried
        Log odds of the iteration before, [N_k], in the mode ``as_printed``; else [0].
    moved
        Sum of |change of Phi(m*)| over bags: the text's measure of convergence.
    """

    primary: tuple[FloatArray, ...]
    centre: FloatArray
    gates: tuple[FloatArray, ...]
    carried: tuple[FloatArray, ...]
    moved: float


@dataclass(frozen=True)
class Tails:
    """log Phi(x), log Phi(-x), phi/Phi(x) and phi/Phi(-x), exact in both tails."""

    log_up: FloatArray
    log_down: FloatArray
    up: FloatArray
    down: FloatArray

    @classmethod
    def of(cls, x: FloatArray, kernels: ModuleType | None) -> Tails:
        """Take all four from Phi(-|x|) / exp(-x^2 / 2)."""
        if kernels is None:
            ratio = 0.5 * erfcx(np.abs(x) * np.sqrt(0.5))
        else:
            ratio = np.empty_like(x)
            kernels.tail_ratio(x, ratio)
        exponent = -0.5 * x * x
        bell = np.exp(exponent)
        tail = bell * ratio
        log_tail, log_rest = exponent + np.log(ratio), np.log1p(-tail)
        steep, flat = DENSITY / ratio, DENSITY * bell / (1.0 - tail)
        right = x > 0.0
        return cls(
            np.where(right, log_rest, log_tail),
            np.where(right, log_tail, log_rest),
            np.where(right, flat, steep),
            np.where(right, steep, flat),
        )


def log_odds(eta: FloatArray) -> FloatArray:
    """Return log Phi(eta) - log Phi(-eta)."""
    odds: FloatArray = log_ndtr(eta) - log_ndtr(-eta)
    return odds


@dataclass(frozen=True)
class Rows:
    """Scaled features of one partition, with where they stand in theta."""

    data: Bags
    scaling: Scaling
    kernels: ModuleType | None

    @classmethod
    def of(cls, data: Bags, scaling: Scaling, use_compiled: bool | None) -> Rows:
        """Prepare a partition; by default for the compiled loops where Numba is installed."""
        if use_compiled and compiled is None:
            raise ImportError("the compiled loops need Numba: install vbflows[kernels]")
        return cls(data, scaling, None if use_compiled is False else compiled)

    def features(self, k: int, first: int, last: int) -> FloatArray:
        """Return the scaled features of some instances of modality ``k``."""
        features, centre = self.data.modalities[k].features, self.scaling.means[k]
        if self.kernels is None:
            plain: FloatArray = (features[first:last] - centre) / self.scaling.scales[k]
            return plain
        scaled = np.empty((last - first, features.shape[1]))
        self.kernels.scaled(features, first, centre, 1.0 / self.scaling.scales[k], scaled)
        return scaled

    def design(
        self, primary: tuple[FloatArray, ...], first: int = 0, last: int | None = None
    ) -> FloatArray:
        """Return r_i = e_alpha + f_i + sum_j p_ij phi_ij of bags first..last, [., dim theta]."""
        last = self.data.n_bags if last is None else last
        scaled = []
        for k, part in enumerate(self.data.modalities):
            low, high = int(part.offsets[first]), int(part.offsets[last])
            scaled.append((self.features(k, low, high), primary[k][low:high]))
        return self.design_of(scaled, first, last)

    def design_of(
        self, scaled: list[tuple[FloatArray, FloatArray]], first: int, last: int
    ) -> FloatArray:
        """Return the same from the bags' scaled features and p, for each modality."""
        layout, scaling = self.scaling.layout, self.scaling
        r = np.zeros((last - first, layout.n_theta))
        r[:, 0] = 1.0
        own = self.data.bag_features[first:last] - scaling.own_mean
        r[:, layout.own_slopes] = own / scaling.own_scale
        for k, (x, p) in enumerate(scaled):
            offsets = self.data.modalities[k].offsets
            totals = r[:, layout.slopes(k)]
            if self.kernels is not None:
                self.kernels.bag_totals(x, offsets, first, last, p, totals)
                continue
            filled = np.flatnonzero(np.diff(offsets[first : last + 1]))
            if filled.size:
                starts = offsets[first:last][filled] - offsets[first]
                totals[filled] = np.add.reduceat(p[:, None] * x, starts, axis=0)
        return r


def sweep(
    rows: Rows,
    theta: FloatArray,
    covariance: FloatArray,
    gates: tuple[FloatArray, ...],
    before: Local | None,
    carry: bool = False,
) -> Local:
    """Update q(y*), then q(U, delta) instance by instance, then q(y*) again."""
    data = rows.data
    if before is None:
        start = tuple(
            expit(log_odds(gate[0] + rows.features(k, 0, len(part.features)) @ gate[1:]))
            for k, (part, gate) in enumerate(zip(data.modalities, gates, strict=True))
        )
        none = tuple(np.zeros(p.size if carry else 0) for p in start)
        before = Local(start, np.zeros(data.n_bags), gates, none, 0.0)
    primary = tuple(p.copy() for p in before.primary)
    carried = tuple(c.copy() for c in before.carried)
    centre = np.empty(data.n_bags)
    for first, last in chunks(data):
        chunk = _Chunk.of(rows, theta, covariance, gates, primary, carried, first, last)
        run = _by_position if rows.kernels is None else rows.kernels.sweep
        run(
            tuple(m.offsets for m in data.modalities),
            first,
            last,
            np.array([rows.scaling.layout.slopes(k).start for k in range(len(gates))]),
            chunk.odds,
            chunk.score,
            chunk.square,
            chunk.features,
            chunk.through,
            chunk.primary,
            chunk.residual,
            chunk.centre,
            chunk.spread,
        )
        centre[first:last] = chunk.centre
        for k, part in enumerate(data.modalities):
            if carry:
                carried[k][part.offsets[first] : part.offsets[last]] = chunk.odds[k]
    moved = np.abs(ndtr(centre) - ndtr(before.centre)).sum()
    return Local(primary, centre, gates, carried, float(moved))


@dataclass(frozen=True)
class _Chunk:
    """What the updates of some bags' instances need, one array a modality.

    Attributes
    ----------
    odds
        log Phi(eta) - log Phi(-eta), with the carried log odds.
    score, square
        phi.m and phi' V phi.
    features, through
        phi and phi' V (all columns).
    primary
        p: views of the partition's, changed in place.
    residual, centre, spread
        E[y*] - r.m, r.m and r' V of every bag; they follow p.
    """

    odds: tuple[FloatArray, ...]
    score: tuple[FloatArray, ...]
    square: tuple[FloatArray, ...]
    features: tuple[FloatArray, ...]
    through: tuple[FloatArray, ...]
    primary: tuple[FloatArray, ...]
    residual: FloatArray
    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of(
        cls,
        rows: Rows,
        theta: FloatArray,
        covariance: FloatArray,
        gates: tuple[FloatArray, ...],
        primary: tuple[FloatArray, ...],
        carried: tuple[FloatArray, ...],
        first: int,
        last: int,
    ) -> _Chunk:
        layout, data = rows.scaling.layout, rows.data
        features, through, odds, score, square, p = [], [], [], [], [], []
        for k, part in enumerate(data.modalities):
            low, high = int(part.offsets[first]), int(part.offsets[last])
            block, x = layout.slopes(k), rows.features(k, low, high)
            tails = Tails.of(gates[k][0] + x @ gates[k][1:], rows.kernels)
            log_ratio = tails.log_up - tails.log_down
            odds.append(log_ratio + carried[k][low:high] if carried[k].size else log_ratio)
            features.append(x)
            score.append(x @ theta[block])
            through.append(x @ covariance[block])
            square.append(np.einsum("nd,nd->n", through[-1][:, block], x))
            p.append(primary[k][low:high])
        r = rows.design_of(list(zip(features, p, strict=True)), first, last)
        mu, sign = r @ theta, data.sign[first:last]
        residual = sign * inverse_mills(sign * mu)
        return cls(
            tuple(odds),
            tuple(score),
            tuple(square),
            tuple(features),
            tuple(through),
            tuple(p),
            residual,
            mu,
            r @ covariance,
        )


def _by_position(
    offsets: tuple[IntArray, ...],
    first: int,
    last: int,
    starts: IntArray,
    odds: tuple[FloatArray, ...],
    score: tuple[FloatArray, ...],
    square: tuple[FloatArray, ...],
    features: tuple[FloatArray, ...],
    through: tuple[FloatArray, ...],
    primary: tuple[FloatArray, ...],
    residual: FloatArray,
    centre: FloatArray,
    spread: FloatArray,
) -> None:
    """Update q(delta) in place, one position of all bags at a time: bags are independent.

    ``odds`` becomes the new log odds, ``centre`` the new r.m; the rest as in `_Chunk`.
    """
    left = residual.copy()
    for k, x in enumerate(features):
        begin = offsets[k][first:last] - offsets[k][first]
        sizes = np.diff(offsets[k][first : last + 1])
        columns = slice(starts[k], starts[k] + x.shape[1])
        for position in range(int(sizes.max(initial=0))):
            bags = np.flatnonzero(sizes > position)
            at = begin[bags] + position
            s, p = score[k][at], primary[k][at]
            linear = np.einsum("nd,nd->n", x[at], spread[bags, columns])
            logit = odds[k][at] + s * left[bags] - linear + (p - 0.5) * (s**2 + square[k][at])
            odds[k][at] = logit
            change = expit(logit) - p
            primary[k][at] = p + change
            left[bags] -= change * s
            spread[bags] += change[:, None] * through[k][at]
    centre += residual - left


@dataclass(frozen=True)
class InstanceSums:
    """Sums over one modality's instances: see `instance_sums`."""

    total: float
    weighted: FloatArray
    latent: FloatArray
    printed: FloatArray


def instance_sums(rows: Rows, k: int, local: Local, printed: bool = False) -> InstanceSums:
    """Sum what the global step and the bound need of one modality's instances.

    ``weighted`` is sum p (1 - p) x x', [D, D]; ``latent`` sum E[U] (1, x), [1 + D], with
    E[U] = e* + p phi/Phi(e*) - (1 - p) phi/Phi(-e*); ``total`` the bound's terms in p and e*,

        sum e*^2/2 - E[U] e* + p log Phi(e*) + (1-p) log Phi(-e*) - p log p - (1-p) log(1-p);

    ``printed`` the text's (B.1.9) sum E[U] (1, x), in which p meets Phi(e*) a second time:
    E[U] = e* + (2 p - 1) phi(e*) / (p Phi(e*) + (1 - p) Phi(-e*)); [0] unless it is asked for.
    """
    part, gate = rows.data.modalities[k], local.gates[k]
    width = part.n_features
    total, weighted = 0.0, np.zeros((width, width))
    latent, text = np.zeros(1 + width), np.zeros(1 + width if printed else 0)
    for first, last in chunks(rows.data):
        low, high = int(part.offsets[first]), int(part.offsets[last])
        x, p = rows.features(k, low, high), local.primary[k][low:high]
        e = gate[0] + x @ gate[1:]
        tails = Tails.of(e, rows.kernels)
        rest = 1.0 - p
        mean = e + p * tails.up - rest * tails.down
        total += float(np.sum(0.5 * e * e - mean * e + p * tails.log_up + rest * tails.log_down))
        total -= float(np.sum(_x_log_x(p) + _x_log_x(rest)))
        latent[0] += mean.sum()
        latent[1:] += mean @ x
        if printed:
            with np.errstate(divide="ignore", invalid="ignore"):
                below = np.where(p > 0.0, p / tails.up, 0.0)
                below += np.where(rest > 0.0, rest / tails.down, 0.0)
            mean = e + (2.0 * p - 1.0) / below
            text[0] += mean.sum()
            text[1:] += mean @ x
        x *= np.sqrt(p * rest)[:, None]
        weighted += x.T @ x
    return InstanceSums(total, weighted, latent, text)


def _x_log_x(x: FloatArray) -> FloatArray:
    product: FloatArray = x * np.log(np.maximum(x, np.finfo(float).tiny))
    return product
