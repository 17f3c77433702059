# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled form of the posteriors of mu."""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import dot, exp, total
from vbmodels.variants.two_groups.pass_kernels import (
    inverse_survival,
    log_alternatives,
    log_rates,
    sinc_above,
    sinc_below,
    spikes,
    survival_places,
)

_NO_MASS = 1e-10  # a grid with less does not move a quantile


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _mixture_cdf(at, x, cdf, density, least):
    total = 0.0
    n_m, size = x.shape
    for q in range(n_m):
        if at <= x[q, 0] or cdf[q, size - 1] < least:
            continue
        if at >= x[q, size - 1]:
            total += cdf[q, size - 1]
            continue
        low, high = 0, size - 1
        while high - low > 1:
            middle = (low + high) // 2
            if x[q, middle] <= at:
                low = middle
            else:
                high = middle
        width = x[q, high] - x[q, low]
        f = (at - x[q, low]) / width
        v0, v1 = cdf[q, low], cdf[q, high]
        s0, s1 = density[q, low] * width, density[q, high] * width
        value = (
            v0
            + f * s0
            + f * f * (3.0 * (v1 - v0) - 2.0 * s0 - s1)
            + f * f * f * (2.0 * (v0 - v1) + s0 + s1)
        )
        total += min(max(value, v0), v1)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def mixture_quantiles(x, cdf, density, levels, result):
    """Fill quantiles [L] of x from CDFs on nodes [Q, K]; see `posterior.mixture_quantiles`."""
    whole = cdf[:, -1].sum()
    least = _NO_MASS * whole
    for i in range(levels.shape[0]):
        low, high = x[:, 0].min(), x[:, -1].max()
        target = levels[i] * whole
        f_low = -target
        f_high = whole - target
        side = 0
        at = low
        for attempt in range(100):
            # Illinois, with a bisection every fourth step: tails are hundreds long.
            if attempt % 4 == 3:
                at = 0.5 * (low + high)
            else:
                at = low - f_low * (high - low) / (f_high - f_low)
            value = _mixture_cdf(at, x, cdf, density, least) - target
            if value <= 0.0:
                low, f_low = at, value
                if side == -1:
                    f_high *= 0.5
                side = -1
            else:
                high, f_high = at, value
                if side == 1:
                    f_low *= 0.5
                side = 1
            if abs(value) < 1e-7 * whole or high - low < 1e-7:
                break
        result[i] = at


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_hypotheses(unit, under, spike, broad, backward, work, out):
    """Fill ``out`` [4, K]: H0 and H1 of the case, H0 and H1 of the control.

    ``unit`` is (x, log weight, log likelihood of the case, of the control) on one grid.
    Returns the logs of what H0's and H1's are relative to.
    """
    x, log_weight, log_case, log_control = unit
    lmu, lnu, rates, g, above, inverse, f, place, basis = work
    alternatives, survival = under.alternatives, under.survival
    restricted, cumulative = under.restricted, under.cumulative
    size = x.shape[0]
    log_rates(x, lmu, lnu)
    top0, top1 = spikes(log_weight, log_case, log_control, lmu, lnu, spike, broad, rates)
    top_g = log_alternatives(log_weight, log_case, lmu, lnu, alternatives, g)
    for k in range(size):
        f[k] = rates[0, k] + rates[1, k]
        out[0, k] = out[2, k] = rates[2, k] + rates[3, k]
        out[1, k] = 0.0
        out[3, k] = 0.0
    if restricted:
        survival_places(x, survival.shape[1], place, basis)
    of_f = total(f)
    for c in range(g.shape[0]):
        whole = total(g[c])
        if restricted and whole > 0.0:
            inverse_survival(place, basis, survival[c], inverse)
            sinc_above(g[c], cumulative, above)
            for k in range(size):
                out[3, k] += f[k] * above[k] * inverse[k]
                inverse[k] *= f[k]
            sinc_below(inverse, backward, above)
            for k in range(size):
                out[1, k] += g[c, k] * above[k]
        else:
            for k in range(size):
                out[1, k] += g[c, k] * of_f
                out[3, k] += f[k] * whole
    return top0, top1 + top_g


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def posteriors(table, under, levels, result):
    """Fill [U, 2, 2 + L]: mean and sd of mu and quantiles of x, for mu_case and mu_control.

    ``table`` is of `table.Grids`, ``under`` of `table.Hypotheses`.
    """
    x, log_weight, log_case, log_control, kind = table
    alternatives, cumulative = under.alternatives, under.cumulative
    log_pi, log_not_pi, log_p = under.log_pi, under.log_not_pi, under.log_p
    n_units, n_m, size = x.shape
    n_alt = alternatives.shape[0]
    lmu = np.empty(size)
    lnu = np.empty(size)
    work = (
        lmu,
        lnu,
        np.empty((4, size)),
        np.empty((n_alt, size)),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty((4, size)),
    )
    spike = np.empty(4)
    broad = np.array([under.log_w, alternatives[0, 0], alternatives[0, 2]])
    parts = np.empty((n_m, 4, size))
    offsets = np.empty((n_m, 2))
    mu = np.empty((n_m, size))
    mass = np.empty((n_m, size))
    cdf = np.empty((n_m, size))
    backward = cumulative[::-1].copy()
    for u in range(n_units):
        spike[0] = under.log_not_w
        spike[1:] = under.e_beta[:, kind[u]]
        for q in range(n_m):
            unit = (x[u, q], log_weight[u, q], log_case[u, q], log_control[u, q])
            top0, top1 = _add_hypotheses(unit, under, spike, broad, backward, work, parts[q])
            offsets[q, 0] = log_not_pi + log_p[q] + top0
            offsets[q, 1] = log_pi + log_p[q] + top1
            for k in range(size):
                mu[q, k] = exp(lmu[k])
        mix(x[u], log_weight[u], parts, offsets, mu, levels, backward, mass, cdf, result[u])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def mix(x, log_weight, parts, offsets, mu, levels, backward, mass, cdf, result):
    """Fill one unit's [2, 2 + L] from ``parts`` [Q, 4, K] relative to ``offsets`` [Q, 2]."""
    n_m = x.shape[0]
    size = x.shape[1]
    top = -np.inf  # of what has mass: H1's offset may belong to none
    for q in range(n_m):
        top = max(top, offsets[q, 0])
        other = max(total(parts[q, 1]), total(parts[q, 3]))
        if other > 0.0:
            top = max(top, offsets[q, 1] + math.log(other))
    for side in range(2):
        whole = 0.0
        for q in range(n_m):
            null, other = (
                math.exp(offsets[q, 0] - top),
                math.exp(min(offsets[q, 1] - top, 700.0)),
            )
            of_null, of_other, row = parts[q, 2 * side], parts[q, 2 * side + 1], mass[q]
            for k in range(size):
                row[k] = null * of_null[k] + other * of_other[k]
            whole += total(row)
        mean = square = 0.0
        for q in range(n_m):
            row, rate, below = mass[q], mu[q], cdf[q]
            for k in range(size):
                row[k] /= whole
            sinc_below(row, backward, below)
            mean += dot(row, rate)
        for q in range(n_m):
            row, rate, below, weight = mass[q], mu[q], cdf[q], log_weight[q]
            for k in range(size):
                off = rate[k] - mean
                square += row[k] * off * off
                # From mass to density in x.
                row[k] *= exp(-weight[k])
            for k in range(1, size):
                below[k] = max(below[k], below[k - 1])
        result[side, 0] = mean
        result[side, 1] = math.sqrt(square)
        mixture_quantiles(x, cdf, mass, levels, result[side, 2:])
