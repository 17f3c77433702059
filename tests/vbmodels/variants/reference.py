"""What the kernels of the two groups compute, in NumPy and SciPy."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import betaincc, betaln, digamma, expit, logsumexp, polygamma

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.batch import N_TYPES
from vbmodels.variants.quadrature import BROAD, N_NODES, TAIL, log_beta_binomial, log_mu
from vbmodels.variants.table import PEAK_FLOOR, Grids, Hypotheses
from vbmodels.variants.two_groups import TwoGroups

WIDTH = 0.7


def integral_above(f: FloatArray, cumulative: FloatArray) -> FloatArray:
    """Return the integral above every node, [..., K], from values times weights f, [..., K].

    The sinc rule errs by 1e-8 or so of the whole, which deep in a tail is noise; so it is
    held within a factor of the trapezoid rule, which never mistakes the size of a tail.
    """
    size = f.shape[-1]
    index = np.arange(size)[:, None] - np.arange(size)[None, :] + size - 1
    coarse = np.cumsum(f[..., ::-1], axis=-1)[..., ::-1] - 0.5 * f
    return np.asarray(np.clip(f @ cumulative[index], 0.05 * coarse, 1.5 * coarse))


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


class TwoGroupsInNumPy(TwoGroups):
    """The two groups without compiled loops."""

    fill = staticmethod(tabulate)
    passes = SimpleNamespace(reweigh=reweigh)


def in_numpy(model: TwoGroups) -> TwoGroups:
    """Return the same model without compiled loops."""
    return TwoGroupsInNumPy(**{f.name: getattr(model, f.name) for f in fields(model)})
