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
from scipy.special import entr, expit, log_ndtr, ndtr

from vbmodels.mil.batch import Bags
from vbmodels.mil.layout import Scaling
from vbmodels.mil.likelihood import chunks, compiled
from vbmodels.special import inverse_mills
from vbmodels.state import FloatArray, State


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
        rows = self.data.modalities[k].features[first:last]
        scaled: FloatArray = (rows - self.scaling.means[k]) / self.scaling.scales[k]
        return scaled

    def design(self, primary: tuple[FloatArray, ...]) -> FloatArray:
        """Return r_i = e_alpha + f_i + sum_j p_ij phi_ij, [B, dim theta]."""
        layout = self.scaling.layout
        r = np.zeros((self.data.n_bags, layout.n_theta))
        r[:, 0] = 1.0
        r[:, layout.own_slopes] = self.scaling.own(self.data)
        for first, last in chunks(self.data):
            for k, part in enumerate(self.data.modalities):
                low, high = int(part.offsets[first]), int(part.offsets[last])
                starts = part.offsets[first:last] - low
                filled = part.sizes[first:last] > 0
                if filled.any():
                    weighted = primary[k][low:high, None] * self.features(k, low, high)
                    sums = np.add.reduceat(weighted, starts[filled], axis=0)
                    r[np.flatnonzero(filled) + first, layout.slopes(k)] = sums
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
    run = _sweep if rows.kernels is None else _sweep_compiled
    run(rows, theta, covariance, gates, carried, carry, primary, centre)
    moved = np.abs(_probability(centre) - _probability(before.centre)).sum()
    return Local(primary, centre, gates, carried, float(moved))


def _probability(score: FloatArray) -> FloatArray:
    probability: FloatArray = ndtr(score)
    return probability


def _sweep_compiled(
    rows: Rows,
    theta: FloatArray,
    covariance: FloatArray,
    gates: tuple[FloatArray, ...],
    carried: tuple[FloatArray, ...],
    carry: bool,
    primary: tuple[FloatArray, ...],
    centre: FloatArray,
) -> None:
    data, scaling = rows.data, rows.scaling
    if rows.kernels is None or not data.n_bags:
        return
    rows.kernels.sweep(
        tuple(m.features for m in data.modalities),
        tuple(m.offsets for m in data.modalities),
        scaling.means,
        tuple(1.0 / s for s in scaling.scales),
        np.array([scaling.layout.slopes(k).start for k in range(len(gates))]),
        scaling.own(data),
        data.sign,
        theta,
        covariance,
        gates,
        carried,
        carry,
        primary,
        centre,
    )


def _sweep(
    rows: Rows,
    theta: FloatArray,
    covariance: FloatArray,
    gates: tuple[FloatArray, ...],
    carried: tuple[FloatArray, ...],
    carry: bool,
    primary: tuple[FloatArray, ...],
    centre: FloatArray,
) -> None:
    """Do the same position by position over all bags at once: bags are independent."""
    data, layout = rows.data, rows.scaling.layout
    r = rows.design(primary)
    mu, vr = r @ theta, r @ covariance
    star = mu + data.sign * inverse_mills(data.sign * mu)
    for k, part in enumerate(data.modalities):
        columns = layout.slopes(k)
        features = rows.features(k, 0, len(part.features))
        odds = log_odds(gates[k][0] + features @ gates[k][1:])
        score, through = features @ theta[columns], features @ covariance[columns]
        square = np.einsum("nd,nd->n", through[:, columns], features)
        for position in range(int(part.sizes.max(initial=0))):
            bags = np.flatnonzero(part.sizes > position)
            at = part.offsets[bags] + position
            s, p = score[at], primary[k][at]
            linear = np.einsum("nd,nd->n", features[at], vr[bags, columns])
            logit = odds[at] + s * (star[bags] - mu[bags]) - linear
            logit += (p - 0.5) * (s**2 + square[at])
            if carry:
                logit += carried[k][at]
                carried[k][at] = logit
            change = expit(logit) - p
            primary[k][at] = p + change
            mu[bags] += change * s
            vr[bags] += change[:, None] * through[at]
    centre[:] = mu


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
    part, p, gate = rows.data.modalities[k], local.primary[k], local.gates[k]
    width = part.n_features
    total, weighted = 0.0, np.zeros((width, width))
    latent, text = np.zeros(1 + width), np.zeros(1 + width if printed else 0)
    for first, last in chunks(rows.data):
        low, high = int(part.offsets[first]), int(part.offsets[last])
        if rows.kernels is not None:
            scaled = np.empty((high - low, width))
            scaling = rows.scaling
            total += rows.kernels.instance_sums(
                part.features,
                low,
                high,
                scaling.means[k],
                1.0 / scaling.scales[k],
                gate,
                p,
                scaled,
                latent,
                text,
            )
        else:
            x = rows.features(k, low, high)
            terms, mean, other = _terms(gate[0] + x @ gate[1:], p[low:high])
            total += terms
            latent += np.concatenate([[mean.sum()], x.T @ mean])
            if printed:
                text += np.concatenate([[other.sum()], x.T @ other])
            scaled = np.sqrt(p[low:high] * (1.0 - p[low:high]))[:, None] * x
        weighted += scaled.T @ scaled
    return InstanceSums(total, weighted, latent, text)


def _terms(e: FloatArray, p: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    up, down = inverse_mills(e), inverse_mills(-e)
    mean = e + p * up - (1.0 - p) * down
    total = 0.5 * e**2 - mean * e + p * log_ndtr(e) + (1.0 - p) * log_ndtr(-e)
    total += entr(p) + entr(1.0 - p)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(p > 0.0, p / up, 0.0) + np.where(p < 1.0, (1.0 - p) / down, 0.0)
    printed = e + (2.0 * p - 1.0) / below
    return float(total.sum()), mean, printed
