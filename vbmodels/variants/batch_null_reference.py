"""The batch-aware evidence of a table's units and its sums: NumPy, for the compiled pass.

With A_k = w_k e_t(x_k) L_control(x_k) on the nodes,

    m0 = sum_k A_k [(1-v) E L_case(x_k + b + tau u) + v E L_case(x_k + b + 1.2 u)],  u ~ N(0, 1)
    m1 = sum_k A_k sum_c rho_c G_c(x_k + b) / S_c(x_k + b),

where for the first expectation L_case is linear between its nodes and constant beyond them;
the second, which is vague and depends on no parameter but b, is tabulated at the nodes, where
L_case is constant in blocks of cells at least .4 wide, and its log is a cubic polynomial
between them; and the
integral G_c of g_c L_case above a place is linear within a node's cell. A cell ends at the
midpoints between nodes. All moments of u between two places are closed, by
m_i = (i-1) m_(i-2) + z^(i-1) phi(z), left minus right. So the objective is smooth in b and tau
even where tau is far below the distance of two nodes, and tau -> 0 at b = 0 gives the sum over
nodes of the exchangeable null.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants import quadrature
from vbmodels.variants.batch import N_TYPES
from vbmodels.variants.evidence import Hypotheses, _log_cut
from vbmodels.variants.table import PEAK_FLOOR, Grids

N_TAU = 6
BLOCK = 0.4
FLOOR = 1e-290


class Shifted(NamedTuple):
    """The global parameters of the batch-aware null as a pass over a table takes them.

    Attributes
    ----------
    of
        Those that both nulls have.
    shift
        [G] b: difference of case and control in x = logit mu, by `Widened.group`.
    tau, wide
        Sd of the differences between sites around b, and that of the wide component.
    v
        Weight of the wide component.
    profile
        Values of tau at which the log likelihood is evaluated side by side.
    """

    of: Hypotheses
    shift: FloatArray
    tau: float
    wide: float
    v: float
    profile: FloatArray


def size_of_sums(n_alt: int, n_tau: int, n_groups: int = N_TYPES) -> int:
    """Return how many numbers a pass returns."""
    return 5 + n_alt + 3 * N_TYPES + 4 * n_groups + N_TAU + n_tau


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


class Widened(NamedTuple):
    """What a pass over units reads: their grids, and the wide component of the null.

    Attributes
    ----------
    of
        The grids.
    log_far, far_slope
        [U, Q, K] log E[L_case(x + 1.2 u)], u ~ N(0, 1), at the nodes and its slope in x.
    group
        [U] which of the shifts each unit has.
    """

    of: Grids
    log_far: FloatArray
    far_slope: FloatArray
    group: IntArray


def widened(x: FloatArray, log_case: FloatArray, wide: float) -> tuple[FloatArray, FloatArray]:
    """Return log E[L_case(x + wide u)] and its slope, [U, Q, K]; reference of `widen`."""
    log_far, slope = np.empty_like(x), np.empty_like(x)
    ends = cell_ends(x)
    for at in np.ndindex(*x.shape[:-1]):
        top = log_case[at].max()
        places, heights = _blocks(ends[at], np.exp(log_case[at] - top))
        places[0], places[-1] = -np.inf, np.inf
        whole, down = (m @ heights for m in moments_between(places, x[at], wide, 1))
        log_far[at] = top + np.log(np.maximum(whole, FLOOR))
        slope[at] = down / wide / np.maximum(whole, FLOOR)
    return log_far, slope


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


def reweigh_reference(
    table: Widened, under: Shifted, log_m0: FloatArray, log_m1: FloatArray, sums: FloatArray,
    nodes: FloatArray,
) -> None:  # fmt: skip
    """Fill log m0, log m1 and the sums; the NumPy reference of the compiled `reweigh`.

    Parameters
    ----------
    table, under
        The units, and the global parameters.
    log_m0, log_m1, sums
        The results, [U], [U] and `size_of_sums`; sums are added to: those of the exchangeable
        form; by group (weight near, weight far, score in b, observed information in b); score
        and information in log tau; information in logit v; the units' variance of log M, its
        covariance with log^2 M and the variance of that; then the log likelihood at each tau of
        the profile.
    nodes
        [U, Q, K] filled with the posterior probability of each node of M and of x; or empty.
    """
    x, log_weight, log_case, log_control, kind = table.of
    of = under.of
    if not len(x):
        return
    lmu, lnu = quadrature.log_mu(x)
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
    l1, l2 = quadrature.log_mu(centre)
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
