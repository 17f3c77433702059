"""What the kernels of variants compute, in NumPy and SciPy, and the exact posterior of RVD2."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import (
    betaincc,
    betaln,
    digamma,
    expit,
    gammaln,
    logsumexp,
    ndtr,
    polygamma,
)

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants import quadrature
from vbmodels.variants.batch import N_TYPES
from vbmodels.variants.batch_null import N_TAU, BatchNull, Shifted, Widened
from vbmodels.variants.hyperparameters import log_normal_weights
from vbmodels.variants.panel import Panel, PanelNull, Under
from vbmodels.variants.posterior import LEVELS, Rate
from vbmodels.variants.published.posterior_difference import beta_nodes
from vbmodels.variants.published.rvd2 import LIMITS_LOG_M, RVD2
from vbmodels.variants.quadrature import BROAD, N_NODES, TAIL, log_beta_binomial, log_mu
from vbmodels.variants.table import PEAK_FLOOR, Grids, Hypotheses, Table, survival_tables
from vbmodels.variants.two_groups import TwoGroups

WIDTH = 0.7
BLOCK = 0.4
FLOOR = 1e-290


def integral_above(f: FloatArray, cumulative: FloatArray) -> FloatArray:
    """Return the integral above every node, [..., K], from values times weights f, [..., K].

    The sinc rule errs by 1e-8 or so of the whole, which deep in a tail is noise; so it is
    held within a factor of the trapezoid rule, which never mistakes the size of a tail.
    """
    size = f.shape[-1]
    index = np.arange(size)[:, None] - np.arange(size)[None, :] + size - 1
    coarse = np.cumsum(f[..., ::-1], axis=-1)[..., ::-1] - 0.5 * f
    return np.asarray(np.clip(f @ cumulative[index], 0.05 * coarse, 1.5 * coarse))


def integral_below(f: FloatArray, cumulative: FloatArray) -> FloatArray:
    """Return the integral below every node; see `integral_above`."""
    return np.asarray(integral_above(f[..., ::-1], cumulative)[..., ::-1])


def likelihood_centre(
    r: IntArray, n: IntArray, m: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mode and scale in x of the likelihood times sqrt(mu (1-mu)).

    A few damped Newton steps: it only places nodes, so it need not be exact.

    Parameters
    ----------
    r, n
        [U, R] alternative reads and depth of one sample's replicates.
    m
        [U] dispersion M.
    start
        [U] start of x.
    """
    x = start.copy()
    slope_x = np.zeros_like(x)
    curvature = np.full_like(x, -1.0)
    active = np.ones(len(x), dtype=bool)
    for _ in range(12):
        mu, nu = expit(x), expit(-x)
        a, b, u = m * mu, m * nu, mu * nu
        slope = m * (
            digamma(r + a[:, None])
            - digamma(a)[:, None]
            - digamma(n - r + b[:, None])
            + digamma(b)[:, None]
        ).sum(axis=1)
        bend = m**2 * (
            polygamma(1, r + a[:, None])
            - polygamma(1, a)[:, None]
            + polygamma(1, n - r + b[:, None])
            - polygamma(1, b)[:, None]
        ).sum(axis=1)
        slope_x = u * slope + 0.5 * (nu - mu)
        curvature = np.where(active, u * u * bend + u * (nu - mu) * slope - u, curvature)
        step = np.clip(slope_x / np.maximum(-curvature, 0.1), -2.0, 2.0)
        x = np.where(active, x + step, x)
        active &= np.abs(step) > 0.05 / np.sqrt(np.maximum(-curvature, 0.1))
        if not active.any():
            break
    return x, 1.0 / np.sqrt(np.maximum(-curvature, 0.1))


def stretch(x: FloatArray, centres: FloatArray, scales: FloatArray) -> FloatArray:
    """Return t(x) = sum_i asinh((x - m_i) / c_i); centres and scales are [..., I]."""
    return np.asarray(np.arcsinh((x[..., None] - centres) / scales).sum(axis=-1))


def density_of_nodes(x: FloatArray, centres: FloatArray, scales: FloatArray) -> FloatArray:
    """Return dt/dx."""
    return np.asarray((1.0 / np.hypot(x[..., None] - centres, scales)).sum(axis=-1))


def grid(
    centres: FloatArray, scales: FloatArray, low: FloatArray, high: FloatArray, size: int = N_NODES
) -> tuple[FloatArray, FloatArray]:
    """Return nodes x and log weights for the trapezoid rule, both [U, size].

    Parameters
    ----------
    centres, scales
        [U, I] centres m and scales c.
    low, high
        [U] the ends.
    """
    t_low, t_high = stretch(low, centres, scales), stretch(high, centres, scales)
    step = (t_high - t_low) / (size - 1)
    target = t_low[:, None] + step[:, None] * np.arange(size)
    lower = np.broadcast_to(low[:, None], target.shape).copy()
    upper = np.broadcast_to(high[:, None], target.shape).copy()
    x = 0.5 * (lower + upper)
    before = np.full_like(x, np.inf)
    for _ in range(200):
        miss = stretch(x, centres[:, None], scales[:, None]) - target
        lower, upper = np.where(miss < 0, x, lower), np.where(miss < 0, upper, x)
        newton = x - miss / density_of_nodes(x, centres[:, None], scales[:, None])
        # Between two centres Newton's method may go to and fro within its bracket for ever: it
        # must halve what it misses by. A node in its place stays, however wide the bracket.
        halves = (newton > lower) & (newton < upper) & (np.abs(miss) <= 0.5 * before)
        close = np.abs(miss) < 1e-12 * np.maximum(1.0, np.abs(target))
        moved = np.where(halves, newton, np.where(close, x, 0.5 * (lower + upper)))
        x, before = np.where(np.abs(miss) < 1e-13, x, moved), np.abs(miss)
        if close.all():
            break
    density = density_of_nodes(x, centres[:, None], scales[:, None])
    return x, np.log(step[:, None] / density)


@dataclass(frozen=True)
class Posterior1D:
    """An exact posterior of mu on its nodes.

    Attributes
    ----------
    x, mass
        [J, K] nodes of logit(mu) and probability mass of each.
    log_evidence
        [J] log of the integral.
    """

    x: FloatArray
    mass: FloatArray
    log_evidence: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of mu, [J]."""
        mu = expit(self.x)
        mean = (self.mass * mu).sum(axis=1)
        return mean, np.sqrt((self.mass * (mu - mean[:, None]) ** 2).sum(axis=1))


def exact_posterior(
    r: IntArray, n: IntArray, m: FloatArray, a0: float, b0: float, size: int = 200
) -> Posterior1D:
    """Return the posterior of mu_j with theta integrated out, the yardstick of RVD2's forms.

    p(mu | r) is proportional to Beta(mu; A0, B0) prod_i BetaBin(r_i | n_i, M mu, M (1-mu)),
    eq. 1 of the text with its sum over replicates inside the integral (its eq. 3 has it
    outside, but replicates share mu).

    Parameters
    ----------
    r, n
        [J, N] reads that do not show the reference, and depth.
    m
        [J] precision M_j.
    a0, b0
        Parameters mu0 M0 and (1-mu0) M0 of the prior.
    size
        Number of nodes.
    """
    rate = (r.sum(axis=1) + 0.5) / (n.sum(axis=1) + 1.0)
    mode, scale = likelihood_centre(r, n, m, np.log(rate / (1.0 - rate)))
    prior = np.full_like(mode, np.log(a0 / b0))
    prior_scale = np.full_like(mode, np.sqrt(1.0 / a0 + 1.0 / b0))
    centres = np.stack([mode, prior, 0.5 * (mode + prior)], axis=1)
    scales = 0.5 * np.stack([scale, prior_scale, np.minimum(scale, prior_scale)], axis=1)
    reach = 4.0 * TAIL
    low = centres.min(axis=1) - reach / (a0 + (r > 0).sum(axis=1))
    high = centres.max(axis=1) + reach / (b0 + (n > r).sum(axis=1)) + 4.0 * scales.max(axis=1)
    x, log_weight = grid(centres, scales, low, high, size)
    lmu, lnu = log_mu(x)
    log_f = a0 * lmu + b0 * lnu - betaln(a0, b0) + log_weight
    for i in range(r.shape[1]):
        log_f += log_beta_binomial(r[:, i, None], n[:, i, None], x, m[:, None])
    evidence = logsumexp(log_f, axis=1)
    binomial = (gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1)
    return Posterior1D(x, np.exp(log_f - evidence[:, None]), evidence + binomial)


def tabulate(
    r: IntArray,
    n: IntArray,
    case: BoolArray,
    m_nodes: FloatArray,
    anchor_x: FloatArray,
    anchor_scale: FloatArray,
    x: FloatArray,
    log_weight: FloatArray,
    log_case: FloatArray,
    log_control: FloatArray,
) -> None:
    """Fill the four tables [U, Q, K].

    The grid's centres are the modes of the likelihoods of the case, of the control and of
    both (each times sqrt(mu (1-mu))), and the peak of the error rates. Its ends are where
    every integrand has fallen by 18 nats: left of a mode the likelihood falls by at least
    one nat per unit of x for every replicate that shows the allele, and Beta(.1, .1) by .1.
    """
    members = (case, ~case, np.ones_like(case))
    reach = []
    starts = []
    for member in members:
        rs, ns = r[:, member], n[:, member]
        starts.append(np.log((rs.sum(axis=1) + 0.5) / ((ns - rs).sum(axis=1) + 0.5)))
        reach.append(((rs > 0).sum(axis=1), (ns > rs).sum(axis=1)))
    for q in range(len(m_nodes) - 1, -1, -1):
        found = [
            likelihood_centre(r[:, member], n[:, member], np.full_like(start, m_nodes[q]), start)
            for member, start in zip(members, starts, strict=True)
        ]
        starts = [centre for centre, _ in found]
        low = np.min(
            [
                c - TAIL / (BROAD + hits) - 3.0 * s
                for (c, s), (hits, _) in zip(found, reach, strict=True)
            ],
            axis=0,
        )
        high = np.max(
            [
                c + TAIL / (BROAD + rest) + 3.0 * s
                for (c, s), (_, rest) in zip(found, reach, strict=True)
            ],
            axis=0,
        )
        centres = np.stack([*starts, anchor_x], axis=1)
        scales = WIDTH * np.stack([*(s for _, s in found), anchor_scale], axis=1)
        x[:, q], log_weight[:, q] = grid(centres, scales, low, high, x.shape[2])
        for table, member in ((log_case, case), (log_control, ~case)):
            table[:, q] = 0.0
            for i in np.flatnonzero(member):
                table[:, q] += log_beta_binomial(r[:, i, None], n[:, i, None], x[:, q], m_nodes[q])


def _log_cut(x: FloatArray, a: float, b: float, floor: float) -> FloatArray:
    far = np.exp(-b * np.maximum(x, 0.0) - np.log(b) - betaln(a, b))
    tail = np.where(x > 20.0, far, betaincc(a, b, expit(x)))
    return np.asarray(np.log(floor + (1.0 - floor) * np.maximum(tail, np.finfo(float).tiny)))


def reweigh(
    table: Grids, under: Hypotheses, log_m0: FloatArray, log_m1: FloatArray, sums: FloatArray
) -> None:
    """Fill log m0, log m1 and the EM's sums of the two groups."""
    x, log_weight, log_case, log_control, kind = table
    log_pi, log_not_pi, log_w, log_not_w, log_p, log_m = under[:6]
    alternatives, cumulative = under.alternatives, under.cumulative
    if not len(x):
        return
    lmu, lnu = log_mu(x)
    a, b, log_beta = (row[kind][:, None, None] for row in under.e_beta)
    weight = log_weight + log_p[None, :, None]
    spike = log_not_w + a * lmu + b * lnu - log_beta + log_control + weight
    broad_a, broad_b, log_broad = alternatives[0, :3]
    broad = log_w + broad_a * lmu + broad_b * lnu - log_broad + log_control + weight
    parts = {(0, c): (spike + log_case, broad + log_case) for c in range(1)}
    for c, (alt_a, alt_b, log_alt, log_rho) in enumerate(alternatives):
        log_g = alt_a * lmu + alt_b * lnu - log_alt + log_rho + log_case + log_weight
        top = log_g.max(axis=2, keepdims=True)
        g = np.exp(log_g - top)
        if under.restricted:
            above = integral_above(g, cumulative)
            log_cut = -_log_cut(x, alt_a, alt_b, PEAK_FLOOR if c else 0.0)
        else:
            above, log_cut = g.sum(axis=2, keepdims=True), np.zeros_like(x)
        with np.errstate(divide="ignore"):
            log_above = np.log(above) + top + log_cut
        parts[1, c] = (spike + log_above, broad + log_above)
    log_m0[:] = logsumexp(np.logaddexp(*parts[0, 0]), axis=(1, 2))
    others = [parts[1, c] for c in range(len(alternatives))]
    log_m1[:] = logsumexp([logsumexp(np.logaddexp(*p), axis=(1, 2)) for p in others], axis=0)
    total = np.logaddexp(log_not_pi + log_m0, log_pi + log_m1)
    sums[0] += total.sum()
    sums[1] += len(total)
    rows: list[tuple[float, Any, int | None]] = [(log_not_pi, parts[0, 0], None)]
    rows += [(log_pi, part, c) for c, part in enumerate(others)]
    first = 5 + len(alternatives)
    for log_prior, (log_spike, log_broad_part), member in rows:
        offset = log_prior - total[:, None, None]
        s, d = np.exp(log_spike + offset), np.exp(log_broad_part + offset)
        node = (s + d).sum(axis=2)
        sums[2] += d.sum()
        sums[3] += (node * log_m).sum()
        sums[4] += (node * log_m**2).sum()
        if member is not None:
            sums[5 + member] += (s + d).sum()
        for v, value in enumerate((np.ones_like(x), lmu, lnu)):
            sums[first + v :: 3][:N_TYPES] += np.bincount(
                kind, (s * value).sum(axis=(1, 2)), N_TYPES
            )


def cell_ends(x: FloatArray) -> FloatArray:
    """Return the ends of the nodes' cells, [..., K + 1], the outer ones finite."""
    inner = 0.5 * (x[..., 1:] + x[..., :-1])
    first = 2.0 * x[..., :1] - inner[..., :1]
    last = 2.0 * x[..., -1:] - inner[..., -1:]
    return np.concatenate([first, inner, last], axis=-1)


def moments_between(
    places: FloatArray, centre: FloatArray, sd: float, highest: int
) -> list[FloatArray]:
    """Return E[u^i; between places] of u ~ N(0, 1), i = 0 .. highest, each [..., K, P - 1].

    Parameters
    ----------
    places
        [..., P], rising; infinity may be among them.
    centre
        [..., K], which u is relative to.
    sd
        Its unit.
    highest
        The highest power.
    """
    z = np.clip((places[..., None, :] - centre[..., :, None]) / sd, -37.0, 37.0)
    phi = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    phi = np.where(np.abs(z) < 37.0, phi, 0.0)
    # Each by the tails on its own side, which keep their digits.
    below, beyond = np.diff(ndtr(z)), -np.diff(ndtr(-z))
    found = [np.where(z[..., 1:] <= 0.0, below, beyond), -np.diff(phi)]
    for i in range(2, highest + 1):
        found.append((i - 1) * found[i - 2] - np.diff(z ** (i - 1) * phi))
    return found


def near_moments(
    x: FloatArray, centre: FloatArray, tau: float, case: FloatArray, highest: int = 4
) -> list[FloatArray]:
    """Return E[u^i C(centre + tau u)], i = 0 .. highest, of the linear likelihood C; [..., K]."""
    far = np.full((*x.shape[:-1], 1), np.inf)
    m = moments_between(np.concatenate([-far, x, far], axis=-1), centre, tau, highest + 1)
    slope = np.diff(case) / np.diff(x)
    flat = np.zeros_like(case[..., :1])
    slope = np.concatenate([flat, slope, flat], axis=-1)
    left = np.concatenate([x[..., :1], x], axis=-1)
    value = np.concatenate([case[..., :1], case], axis=-1)
    rise = tau * slope[..., None, :]
    level = value[..., None, :] + slope[..., None, :] * (centre[..., None] - left[..., None, :])
    return [(level * m[i] + rise * m[i + 1]).sum(axis=-1) for i in range(highest + 1)]


def widen(
    x: FloatArray, log_case: FloatArray, wide: float, log_far: FloatArray, slope: FloatArray
) -> None:
    """Fill log E[L_case(x + wide u)] and its slope, [U, Q, K]."""
    ends = cell_ends(x)
    for at in np.ndindex(*x.shape[:-1]):
        top = log_case[at].max()
        places, heights = _blocks(ends[at], np.exp(log_case[at] - top))
        places[0], places[-1] = -np.inf, np.inf
        whole, down = (m @ heights for m in moments_between(places, x[at], wide, 1))
        log_far[at] = top + np.log(np.maximum(whole, FLOOR))
        slope[at] = down / wide / np.maximum(whole, FLOOR)


def far_moments(
    table: Widened, centre: FloatArray, top: FloatArray, wide: float
) -> list[FloatArray]:
    """Return E[u^i L_case(centre + wide u)] e^-top for i = 0, 1, 2; [U, Q, K]."""
    x = table.of.x
    left = np.clip((x[..., None, :] <= centre[..., None]).sum(axis=-1) - 1, 0, x.shape[-1] - 2)

    def ends(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        return (np.take_along_axis(values, left, -1), np.take_along_axis(values, left + 1, -1))

    (x0, x1), (v0, v1), (s0, s1) = (ends(v) for v in (x, table.log_far, table.far_slope))
    width = x1 - x0
    f = (centre - x0) / width
    rise, s0, s1 = v1 - v0, s0 * width, s1 * width
    bend, twist = 3.0 * rise - 2.0 * s0 - s1, s0 + s1 - 2.0 * rise
    value = v0 + f * (s0 + f * (bend + f * twist))
    slope, curve = s0 + f * (2.0 * bend + 3.0 * f * twist), 2.0 * bend + 6.0 * f * twist
    value = np.where(f < 0.0, v0 + f * s0, np.where(f > 1.0, v1 + (f - 1.0) * s1, value))
    slope = np.where(f < 0.0, s0, np.where(f > 1.0, s1, slope)) / width
    curve = np.where((f < 0.0) | (f > 1.0), 0.0, curve) / width**2
    found = np.exp(value - top)
    return [found, wide * slope * found, (1.0 + wide**2 * (slope**2 + curve)) * found]


def _blocks(ends: FloatArray, case: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of blocks of cells at least `BLOCK` wide, and their mean likelihoods."""
    places, heights, whole = [ends[0]], [], 0.0
    for k, value in enumerate(case):
        whole += value * (ends[k + 1] - ends[k])
        width = ends[k + 1] - places[-1]
        if width >= BLOCK or k == len(case) - 1:
            heights.append(whole / width)
            places.append(ends[k + 1])
            whole = 0.0
    return np.array(places), np.array(heights)


def reweigh_batch(
    table: Widened, under: Shifted, log_m0: FloatArray, log_m1: FloatArray, sums: FloatArray,
    nodes: FloatArray,
) -> None:  # fmt: skip
    """Fill log m0, log m1 and the sums of the batch-aware pass."""
    x, log_weight, log_case, log_control, kind = table.of
    of = under.of
    if not len(x):
        return
    lmu, lnu = log_mu(x)
    a, b, log_beta = (row[kind][:, None, None] for row in of.e_beta)
    base = log_control + log_weight
    broad_a, broad_b, log_broad = of.alternatives[0, :3]
    spike = base + of.log_not_w + a * lmu + b * lnu - log_beta
    broad = base + of.log_w + broad_a * lmu + broad_b * lnu - log_broad
    top = np.maximum(spike, broad).max(axis=2, keepdims=True)
    spike, broad = np.exp(spike - top), np.exp(broad - top)
    top_case = log_case.max(axis=2, keepdims=True)
    case = np.exp(log_case - top_case)
    ends, centre = cell_ends(x), x + under.shift[table.group][:, None, None]
    near = [m * (1.0 - under.v) for m in near_moments(x, centre, under.tau, case)]
    del near[3]
    wide = [m * under.v for m in far_moments(table, centre, top_case, under.wide)]
    both = near[0] + wide[0]
    offset = (top + top_case)[:, :, 0] + of.log_p
    log_m0[:] = _logged(((spike + broad) * both).sum(axis=2), offset)
    ratio, slope, top_g = _alternatives(table.of, under, centre, ends, lmu, lnu)
    offset_1 = top[:, :, 0] + top_g[:, :, 0] + of.log_p
    log_m1[:] = _logged(((spike + broad) * ratio.sum(axis=0)).sum(axis=2), offset_1)
    total = np.logaddexp(of.log_not_pi + log_m0, of.log_pi + log_m1)
    sums[0] += total.sum()
    sums[1] += len(total)
    scale_0 = np.exp(offset + (of.log_not_pi - total)[:, None])
    scale_1 = np.exp(offset_1 + (of.log_pi - total)[:, None])
    s = spike * (both * scale_0[..., None] + ratio.sum(axis=0) * scale_1[..., None])
    d = broad * (both * scale_0[..., None] + ratio.sum(axis=0) * scale_1[..., None])
    if len(nodes):
        nodes[:] = s + d
    node = (s + d).sum(axis=2)
    sums[2] += d.sum()
    sums[3] += (node * of.log_m).sum()
    sums[4] += (node * of.log_m**2).sum()
    n_alt = len(of.alternatives)
    control = spike + broad
    sums[5 : 5 + n_alt] += ((control * ratio).sum(axis=3) * scale_1).sum(axis=(1, 2))
    at = 5 + n_alt
    for i, value in enumerate((np.ones_like(x), lmu, lnu)):
        sums[at + i : at + 3 * N_TYPES : 3] += np.bincount(
            kind, (s * value).sum(axis=(1, 2)), N_TYPES
        )
    at += 3 * N_TYPES
    n, u1, u2, u4 = (((control * m).sum(axis=2) * scale_0).sum(axis=1) for m in near)
    far, f1, f2 = (((control * m).sum(axis=2) * scale_0).sum(axis=1) for m in wide)
    score = u1 / under.tau + f1 / under.wide
    moved = ((control * slope).sum(axis=2) * scale_1).sum(axis=1)
    information = (n - u2) / under.tau**2 + (far - f2) / under.wide**2 + score**2
    n_groups = len(under.shift)
    for i, value in enumerate((n, far, score + moved, information)):
        sums[at + i : at + 4 * n_groups : 4] += np.bincount(table.group, value, n_groups)
    at += 4 * n_groups
    v = under.v
    sums[at] += (u2 - n).sum()
    sums[at + 1] += (4.0 * u2 - u4 - n + (u2 - n) ** 2).sum()
    share = far - v * (n + far)
    sums[at + 2] += (v * (1 - v) * (n + far) - far * (1 - v) ** 2 - n * v * v + share * share).sum()
    m1, m2, m3, m4 = ((node * of.log_m**i).sum(axis=1) for i in (1, 2, 3, 4))
    sums[at + 3 : at + 6] += [(m2 - m1**2).sum(), (m3 - m1 * m2).sum(), (m4 - m2**2).sum()]
    for j, tau in enumerate(under.profile):
        m = near_moments(x, centre, float(tau), case, 0)[0] * (1.0 - v) + wide[0]
        other = _logged((control * m).sum(axis=2), offset)
        sums[at + N_TAU + j] += np.logaddexp(of.log_not_pi + other, of.log_pi + log_m1).sum()


def _logged(mass: FloatArray, offset: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        found = logsumexp(np.log(mass) + offset, axis=1)
    return np.asarray(np.maximum(found, offset.max(axis=1) + np.log(1e-300)))


def _alternatives(
    table: Grids, under: Shifted, centre: FloatArray, ends: FloatArray, lmu: FloatArray,
    lnu: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Return G_c / S_c [n_alt, U, Q, K] at the places, its summed slope in b, and what it is
    relative to."""
    rows = under.of.alternatives
    log_g = np.stack([
        a * lmu + b * lnu - beta + rho + table.log_case + table.log_weight
        for a, b, beta, rho in rows
    ])  # fmt: skip
    top = log_g.max(axis=(0, 3), keepdims=True)
    g = np.exp(log_g - top)
    if not under.of.restricted:
        whole = np.broadcast_to(g.sum(axis=3, keepdims=True), g.shape)
        return whole, np.zeros_like(centre), top[0]
    found = np.empty_like(g)
    slope = np.zeros_like(centre)
    l1, l2 = log_mu(centre)
    for c, (a, b, beta, _) in enumerate(rows):
        survive, down = _above(g[c], ends, centre)
        floor = PEAK_FLOOR if c else 0.0
        inverse = np.exp(-_log_cut(centre, a, b, floor))
        hazard = (1.0 - floor) * np.exp(a * l1 + b * l2 - beta) * inverse
        found[c] = survive * inverse
        slope += (down + survive * hazard) * inverse
    return found, slope, top[0]


def _above(g: FloatArray, ends: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mass above places, linear within cells, and its slope there."""
    size = g.shape[-1]
    above = np.concatenate([np.cumsum(g[..., ::-1], axis=-1)[..., ::-1], 0.0 * g[..., :1]], axis=-1)
    cell = (ends[..., None, :] <= at[..., :, None]).sum(axis=-1) - 1
    inside = np.clip(cell, 0, size - 1)

    def take(values: FloatArray, index: Any) -> FloatArray:
        return np.take_along_axis(values, index, axis=-1)

    left, right, mass = take(ends, inside), take(ends, inside + 1), take(g, inside)
    value = take(above, inside + 1) + mass * (right - at) / (right - left)
    value = np.where(cell < 0, above[..., :1], np.where(cell >= size, 0.0, value))
    within = (cell >= 0) & (cell < size)
    return value, np.where(within, -mass / (right - left), 0.0)


def carry(
    x: FloatArray, log_weight: FloatArray, log_member: FloatArray, alternatives: FloatArray,
    carried: FloatArray,
) -> None:  # fmt: skip
    """Fill log int L_p g [U, Q] for one member, g the sum of the alternatives."""
    lmu, lnu = log_mu(x)
    parts = [a * lmu + b * lnu - beta + rho for a, b, beta, rho in alternatives]
    carried[:] = logsumexp(logsumexp(parts, axis=0) + log_weight + log_member, axis=-1)


def _near(
    x: FloatArray, kind: IntArray, panel: Panel, under: Under, p: int
) -> tuple[list[FloatArray], FloatArray]:
    """Return E[u^i L_p e^-top], [U, Q, K] for i = 0 .. 4, and top [U, Q, 1]."""
    top = panel.log_member[:, p].max(axis=-1, keepdims=True)
    values = np.exp(panel.log_member[:, p] - top)
    centre = x + under.shift[p][kind][:, None, None]
    return near_moments(panel.x[:, p], centre, under.tau, values), top


def combine(
    x: FloatArray, kind: IntArray, panel: Panel, under: Under, log_panel: FloatArray
) -> None:
    """Fill log L_panel at the nodes x of the site's rate, [U, Q, K]."""
    told, others = np.zeros_like(x), np.zeros_like(x)
    for p, eps in enumerate(under.eps):
        seen = panel.seen[:, p]
        moments, top = _near(x, kind, panel, under, p)
        value = top + np.log(np.maximum(moments[0], FLOOR))
        if eps > 0.0:
            lost = panel.carried[:, p]
            value = np.logaddexp(np.log1p(-eps) + value, np.log(eps) + lost[..., None])
        into = others if p < under.matched else told
        into += np.where(seen[:, None, None], value, 0.0)
    if under.common > 0.0:
        told = np.logaddexp(
            np.log1p(-under.common) + told, np.log(under.common) + panel.log_people[..., None]
        )
    log_panel[:] = told + others


def add_members(
    x: FloatArray, kind: IntArray, panel: Panel, under: Under, probability: FloatArray,
    sums: FloatArray, spread: FloatArray,
) -> None:  # fmt: skip
    """Add to ``sums`` [P, 12, 3] and to ``spread`` [2] what the members say."""
    told = np.zeros_like(x)
    rows = []
    for p, eps in enumerate(under.eps):
        seen = panel.seen[:, p][:, None, None]
        (m0, m1, m2, _, m4), top = _near(x, kind, panel, under, p)
        some = m0 > FLOOR
        m0, m1, m2, m4 = (np.where(some, m, o) for m, o in
                          ((m0, FLOOR), (m1, 0.0), (m2, 0.0), (m4, 0.0)))  # fmt: skip
        near = np.where(seen, 1.0, 0.0)
        value = top + np.log(m0)
        if eps > 0.0:
            lost = panel.carried[:, p][..., None]
            whole = np.logaddexp(np.log1p(-eps) + value, np.log(eps) + lost)
            near = near * np.exp(np.log1p(-eps) + value - whole)
            value = whole
        if p >= under.matched:
            told += np.where(seen, value, 0.0)
        rows.append([near, near * m1 / m0, near * (m2 / m0 - 1.0),
                     near * ((m4 - 2.0 * m2) / m0 + 1.0)])  # fmt: skip
    own = np.ones_like(x)
    if under.common > 0.0:
        told += np.log1p(-under.common)
        silent = np.log(under.common) + panel.log_people[..., None]
        own = np.exp(told - np.logaddexp(told, silent))
    free = np.zeros((2, *x.shape)), np.zeros((2, *x.shape))  # means and variances of both kinds
    squares = np.zeros(len(x))
    for p, (near, u1, a, a2) in enumerate(rows):
        carries = int(p >= under.matched)
        weight = probability * (own if carries else 1.0)
        n, s, u2 = ((weight * v).sum(axis=(1, 2)) for v in (near, u1, a + near))
        score = s / under.tau
        information = (n - u2) / under.tau**2 + score**2
        for i, value in enumerate((n, score, information)):
            sums[p, :, i] += np.bincount(kind, value, sums.shape[1])
        squares += u2
        free[carries][0] += a
        free[carries][1] += a2 - a * a
    (b, b_rest), (a, a_rest) = free
    first = (probability * (own * a + b)).sum(axis=(1, 2))
    second = own * ((a + b) ** 2 + a_rest + b_rest) + (1.0 - own) * (b * b + b_rest)
    second = (probability * second).sum(axis=(1, 2))
    spread[0] += first.sum()
    spread[1] += (2.0 * squares - second + first**2).sum()


def rates(
    model: TwoGroups, q: Any, table: Table, levels: tuple[float, ...] = LEVELS
) -> tuple[Rate, Rate]:
    """Return the posteriors of mu_case and mu_control; see `posterior.rates`."""
    case, control = _densities(model, q, table)
    return _summary(table, case, levels), _summary(table, control, levels)


def _densities(model: TwoGroups, q: Any, table: Table) -> tuple[FloatArray, FloatArray]:
    """Return the mass of every node, [U, Q, K], for mu_case and mu_control; sums are 1."""
    x, cumulative = table.x, quadrature.sinc_cumulative(table.x.shape[-1])
    l1, l2 = log_mu(x)
    a, b = (v[table.kind][:, None, None] for v in (q.a, q.b))
    spike = np.log1p(-q.w) + a * l1 + b * l2 - betaln(a, b)
    broad = np.log(q.w) + BROAD * (l1 + l2) - betaln(*[BROAD] * 2)
    e = np.logaddexp(spike, broad) + table.log_control
    log_p = log_normal_weights(model.log_m, q.log_m_mean, q.log_m_sd)[None, :, None]
    weight = table.log_weight
    same = e + table.log_case + weight
    top_control = (e + weight).max(axis=2, keepdims=True)
    f = np.exp(e + weight - top_control)
    components = np.array(model.alternatives)
    cut = survival_tables(components)
    u_nodes = np.linspace(-6.0, 6.0, cut.shape[1])
    place = np.arcsinh(0.5 * x)
    parts_case, parts_control = [], []
    for c, (alt_a, alt_b) in enumerate(model.alternatives):
        log_g = np.log(q.rho[c]) + alt_a * l1 + alt_b * l2 - betaln(alt_a, alt_b)
        log_g += table.log_case + weight
        top_case = log_g.max(axis=2, keepdims=True)
        g = np.exp(log_g - top_case)
        offset = np.log(q.pi) + top_case + top_control + log_p
        if model.restricted:
            inverse = np.exp(-np.interp(place, u_nodes, cut[c, :, 0]))
            beyond = integral_above(g, cumulative) * inverse
            below = integral_below(f * inverse, cumulative)
        else:
            beyond = np.broadcast_to(g.sum(axis=2, keepdims=True), g.shape)
            below = np.broadcast_to(f.sum(axis=2, keepdims=True), f.shape)
        parts_case.append((g * below, offset))
        parts_control.append((f * beyond, offset))
    top_same = same.max(axis=2, keepdims=True)
    null = (np.exp(same - top_same), np.log1p(-q.pi) + top_same + log_p)
    return _mix([null, *parts_case]), _mix([null, *parts_control])


def _mix(parts: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    top = np.max([offset.max(axis=1, keepdims=True) for _, offset in parts], axis=0)
    total = np.sum([mass * np.exp(offset - top) for mass, offset in parts], axis=0)
    mixed: FloatArray = total / total.sum(axis=(1, 2), keepdims=True)
    return mixed


def _summary(table: Table, mass: FloatArray, levels: tuple[float, ...]) -> Rate:
    mu = expit(table.x)
    mean = (mass * mu).sum(axis=(1, 2))
    sd = np.sqrt((mass * (mu - mean[:, None, None]) ** 2).sum(axis=(1, 2)))
    cumulative = quadrature.sinc_cumulative(mass.shape[-1])
    cdf = np.maximum.accumulate(integral_below(mass, cumulative), axis=2)
    density = mass / np.exp(table.log_weight)
    return Rate(mean, sd, expit(mixture_quantiles(table.x, cdf, density, np.array(levels))))


def mixture_quantiles(
    x: FloatArray, cdf: FloatArray, density: FloatArray, levels: FloatArray
) -> FloatArray:
    """Return quantiles [U, L] of x, by bisection.

    Parameters
    ----------
    x
        [U, Q, K] nodes, of one grid each for Q parts of the distribution.
    cdf, density
        [U, Q, K] mass of the part below the node, and density in x there; between nodes the
        CDF is a cubic Hermite polynomial.
    levels
        [L].
    """
    shape = (len(x), len(levels))
    low = np.broadcast_to(x[:, :, 0].min(axis=1)[:, None], shape).copy()
    high = np.broadcast_to(x[:, :, -1].max(axis=1)[:, None], shape).copy()
    total = cdf[:, :, -1].sum(axis=1)[:, None]
    for _ in range(60):
        at = 0.5 * (low + high)
        left = np.clip((x[:, None] <= at[:, :, None, None]).sum(axis=3) - 1, 0, x.shape[2] - 2)
        ends = [np.take_along_axis(v[:, None], (left + i)[..., None], 3)[..., 0]
                for v in (x, cdf, density) for i in (0, 1)]  # fmt: skip
        x0, x1, v0, v1, s0, s1 = ends
        f = np.clip((at[:, :, None] - x0) / (x1 - x0), 0.0, 1.0)
        s0, s1 = s0 * (x1 - x0), s1 * (x1 - x0)
        value = v0 + f * s0 + f**2 * (3 * (v1 - v0) - 2 * s0 - s1)
        value = np.clip(value + f**3 * (2 * (v0 - v1) + s0 + s1), v0, v1)
        value = np.where(at[:, :, None] <= x[:, None, :, 0], 0.0, value).sum(axis=2)
        low = np.where(value <= levels * total, at, low)
        high = np.where(value > levels * total, at, high)
    return np.asarray(0.5 * (low + high))


@dataclass(frozen=True)
class Derivatives:
    """Value [J], gradient [J, 3] and Hessian [J, 3, 3]."""

    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray


def mean_field_integrand(
    n_used: FloatArray, m: FloatArray, l1: FloatArray, l2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return N G and its first two derivatives in log M; [J, K] each."""
    mu, nu, m = np.exp(l1), np.exp(l2), m[:, None]
    a, b = m * mu, m * nu
    value = gammaln(m) - gammaln(a) - gammaln(b)
    first = m * (digamma(m) - mu * digamma(a) - nu * digamma(b))
    second = first + m * m * (
        polygamma(1, m) - mu * mu * polygamma(1, a) - nu * nu * polygamma(1, b)
    )
    count = n_used[:, None]
    return count * value, count * first, count * second


def _theta_terms(
    r: IntArray, n: IntArray, m: FloatArray, mean: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return P = sum_i log B(r + M m, n - r + M (1-m)), P_m, P_L, P_mm, P_mL, P_LL; L = log M."""
    used = n > 0
    big, share = m[:, None], mean[:, None]
    alpha, beta = r + big * share, n - r + big * (1.0 - share)
    total = n + big
    pa, pb, pt = digamma(alpha), digamma(beta), digamma(total)
    ta, tb, tt = polygamma(1, alpha), polygamma(1, beta), polygamma(1, total)

    def add(terms: FloatArray) -> FloatArray:
        return np.asarray(np.where(used, terms, 0.0).sum(axis=1))

    d = add(pa - pb)
    p_l = m * add(share * pa + (1.0 - share) * pb - pt)
    return (
        add(betaln(alpha, beta)),
        m * d,
        p_l,
        m**2 * add(ta + tb),
        m * d + m**2 * add(share * ta - (1.0 - share) * tb),
        p_l + m**2 * add(share**2 * ta + (1.0 - share) ** 2 * tb - tt),
    )


def _divergence(
    delta: FloatArray, gamma: FloatArray, a0: float, b0: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return -KL(q(mu) || prior), its gradient [J, 2] and Hessian [J, 2, 2]."""
    s = delta + gamma
    psi_s, tri_s, tet_s = digamma(s), polygamma(1, s), polygamma(2, s)
    left, right, rest = a0 - delta, b0 - gamma, a0 + b0 - s
    value = betaln(delta, gamma) - betaln(a0, b0)
    value += left * (digamma(delta) - psi_s) + right * (digamma(gamma) - psi_s)
    tri_d, tri_g = polygamma(1, delta), polygamma(1, gamma)
    gradient = np.stack([left * tri_d - rest * tri_s, right * tri_g - rest * tri_s], axis=1)
    cross = tri_s - rest * tet_s
    hessian = np.empty((len(s), 2, 2))
    hessian[:, 0, 0] = left * polygamma(2, delta) - tri_d + cross
    hessian[:, 1, 1] = right * polygamma(2, gamma) - tri_g + cross
    hessian[:, 0, 1] = hessian[:, 1, 0] = cross
    return value, gradient, hessian


def derivatives(
    r: IntArray,
    n: IntArray,
    delta: FloatArray,
    gamma: FloatArray,
    log_m: FloatArray,
    prior: tuple[float, float, float, float],
    size: int,
) -> Derivatives:
    """Return the bound of every location, without binomials, and its derivatives.

    Parameters
    ----------
    r, n
        [J, N] reads that do not show the reference, and depth.
    delta, gamma, log_m
        [J] the location's parameters.
    prior
        A0, B0, and mean and precision of the normal prior on log M (precision 0: none).
    size
        Nodes of the quadrature.
    """
    a0, b0, mean_log_m, precision = prior
    m, s = np.exp(log_m), delta + gamma
    l1, l2, w = beta_nodes(delta, gamma, size)
    f, f1, f2 = mean_field_integrand((n > 0).sum(axis=1).astype(float), m, l1, l2)
    mean_f = (w * f).sum(axis=1)
    c1 = l1 - (digamma(delta) - digamma(s))[:, None]
    c2 = l2 - (digamma(gamma) - digamma(s))[:, None]
    wf, wf1 = w * (f - mean_f[:, None]), w * (f1 - (w * f1).sum(axis=1)[:, None])
    value, gradient_q, hessian_q = _divergence(delta, gamma, a0, b0)
    value = value + mean_f
    gradient, hessian = np.zeros((len(s), 3)), np.zeros((len(s), 3, 3))
    gradient[:, :2], hessian[:, :2, :2] = gradient_q, hessian_q
    for i, ci in enumerate((c1, c2)):
        gradient[:, i] += (wf * ci).sum(axis=1)
        hessian[:, i, 2] += (wf1 * ci).sum(axis=1)
        for k, ck in enumerate((c1, c2)):
            hessian[:, i, k] += (wf * ci * ck).sum(axis=1)
    gradient[:, 2] += (w * f1).sum(axis=1)
    hessian[:, 2, 2] += (w * f2).sum(axis=1)
    p, p_m, p_l, p_mm, p_ml, p_ll = _theta_terms(r, n, m, delta / s)
    slope = np.stack([gamma, -delta], axis=1) / (s * s)[:, None]
    bend = np.array([[-2.0 * gamma, delta - gamma], [delta - gamma, 2.0 * delta]]) / s**3
    value += p
    gradient[:, :2] += p_m[:, None] * slope
    gradient[:, 2] += p_l
    hessian[:, :2, :2] += p_mm[:, None, None] * slope[:, :, None] * slope[:, None, :]
    hessian[:, :2, :2] += p_m[:, None, None] * np.moveaxis(bend, 2, 0)
    hessian[:, :2, 2] += p_ml[:, None] * slope
    hessian[:, 2, 2] += p_ll
    scale = np.stack([delta, gamma, np.ones_like(s)], axis=1)
    gradient *= scale
    hessian[:, 2, :2] = hessian[:, :2, 2]
    hessian *= scale[:, :, None] * scale[:, None, :]
    hessian[:, [0, 1], [0, 1]] += gradient[:, :2]
    off = log_m - mean_log_m
    value -= 0.5 * precision * off**2
    gradient[:, 2] -= precision * off
    hessian[:, 2, 2] -= precision
    return Derivatives(value, gradient, hessian)


def rvd2_sums(
    r: IntArray, n: IntArray, points: FloatArray, prior: FloatArray, size: int
) -> FloatArray:
    """Return [J, 4], see the kernel."""
    given = (float(prior[0]), float(prior[1]), float(prior[2]), float(prior[3]))
    delta, gamma, log_m = np.exp(points[:, 0]), np.exp(points[:, 1]), points[:, 2]
    here = derivatives(r, n, delta, gamma, log_m, given, size)
    total = digamma(delta + gamma)
    chosen = (gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1)
    return np.stack([here.value, digamma(delta) - total, digamma(gamma) - total, chosen], axis=1)


def rvd2_newton(
    r: IntArray,
    n: IntArray,
    start: FloatArray,
    prior: FloatArray,
    size: int,
    max_iter: int = 60,
) -> FloatArray:
    """Return [J, 3] (log delta, log gamma, log M).

    Newton with a Levenberg shift where minus the Hessian is not positive definite, steps of
    at most 1.5, and halving until the bound does not fall.
    """
    point = start.copy()
    given = (float(prior[0]), float(prior[1]), float(prior[2]), float(prior[3]))

    def at(p: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        d = derivatives(r[rows], n[rows], np.exp(p[:, 0]), np.exp(p[:, 1]), p[:, 2], given, size)
        return d.value, d.gradient, d.hessian

    active = np.arange(len(point))
    for _ in range(max_iter):
        if not active.size:
            break
        value, gradient, hessian = at(point[active], active)
        step = np.stack([_ascent(g, h) for g, h in zip(gradient, hessian, strict=True)])
        size_of = np.ones(len(active))
        far = np.abs(step).max(axis=1) >= 1e-4
        moved = point[active]
        for _ in range(30):
            trial = point[active] + size_of[:, None] * step
            trial[:, 2] = np.clip(trial[:, 2], *LIMITS_LOG_M)
            worse = far & ~(at(trial, active)[0] >= value - 1e-13 * np.abs(value))
            moved = np.where(worse[:, None], moved, trial)
            if not worse.any():
                break
            size_of = np.where(worse, 0.5 * size_of, size_of)
        change = np.abs(moved - point[active]).max(axis=1)
        point[active] = moved
        active = active[change >= 1e-7]
    return point


def _ascent(gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(-hessian)
    floor = 1e-8 * max(1.0, float(np.abs(values).max()))
    step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), floor))
    return np.asarray(step * min(1.0, 1.5 / max(float(np.abs(step).max()), 1e-300)))


class TwoGroupsInNumPy(TwoGroups):
    """The two groups without compiled loops."""

    fill = staticmethod(tabulate)
    passes = SimpleNamespace(reweigh=reweigh)


class BatchNullInNumPy(BatchNull):
    """The batch-aware null without compiled loops."""

    fill = staticmethod(tabulate)
    passes = SimpleNamespace(reweigh=reweigh_batch, widen=widen)


class PanelNullInNumPy(PanelNull):
    """The panel without compiled loops."""

    fill = staticmethod(tabulate)
    passes = SimpleNamespace(reweigh=reweigh_batch, widen=widen)
    members = SimpleNamespace(carry=carry, combine=combine, add_members=add_members)


class RVD2InNumPy(RVD2):
    """RVD2 without compiled loops."""

    passes = SimpleNamespace(newton=rvd2_newton, sums=rvd2_sums)


_IN_NUMPY: dict[type, type] = {
    TwoGroups: TwoGroupsInNumPy, BatchNull: BatchNullInNumPy, PanelNull: PanelNullInNumPy,
    RVD2: RVD2InNumPy,
}  # fmt: skip


def in_numpy(model: Any) -> Any:
    """Return the same model without compiled loops."""
    return _IN_NUMPY[type(model)](**{f.name: getattr(model, f.name) for f in fields(model)})
