# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled posteriors of mu, of both samples, under the exchangeable and the batch-aware null."""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import dot, exp, total
from vbmodels.variants.two_groups.batch_null_kernels import (
    above_at,
    cells_of,
    error_logs,
    errors,
    room_of,
)
from vbmodels.variants.two_groups.difference_kernels import (
    edges_of,
    far_masses,
    near_masses,
    reach_of,
    relative,
)
from vbmodels.variants.two_groups.pass_kernels import (
    inverse_survival,
    log_alternatives,
    log_rates,
    sinc_above,
    sinc_below,
    spikes,
    survival_places,
)

MU = 4
_NO_MASS = 1e-10  # a grid with less does not move a quantile


@njit(cache=True, inline="always")
def _mixture_cdf(point, x, cdf, density, least):
    total = 0.0
    n_m, size = x.shape
    for q in range(n_m):
        if point <= x[q, 0] or cdf[q, size - 1] < least:
            continue
        if point >= x[q, size - 1]:
            total += cdf[q, size - 1]
            continue
        low, high = 0, size - 1
        while high - low > 1:
            middle = (low + high) // 2
            if x[q, middle] <= point:
                low = middle
            else:
                high = middle
        width = x[q, high] - x[q, low]
        f = (point - x[q, low]) / width
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


@njit(cache=True, inline="always")
def mixture_quantiles(x, cdf, density, levels, result):
    """Fill quantiles [L] of x from CDFs on nodes [Q, K]."""
    whole, lowest, highest, last = 0.0, np.inf, -np.inf, x.shape[1] - 1
    for q in range(x.shape[0]):
        whole += cdf[q, last]
        lowest, highest = min(lowest, x[q, 0]), max(highest, x[q, last])
    least = _NO_MASS * whole
    for i in range(levels.shape[0]):
        low, high = lowest, highest
        target = levels[i] * whole
        f_low = -target
        f_high = whole - target
        side = 0
        point = low
        for attempt in range(100):
            # Illinois, with a bisection every fourth step: tails are hundreds long.
            if attempt % 4 == 3:
                point = 0.5 * (low + high)
            else:
                point = low - f_low * (high - low) / (f_high - f_low)
            value = _mixture_cdf(point, x, cdf, density, least) - target
            if value <= 0.0:
                low, f_low = point, value
                if side == -1:
                    f_high *= 0.5
                side = -1
            else:
                high, f_high = point, value
                if side == 1:
                    f_low *= 0.5
                side = 1
            if abs(value) < 1e-7 * whole or high - low < 1e-7:
                break
        result[i] = point


@njit(cache=True, inline="always")
def _add_hypotheses(unit, under, spike, broad, backward, work, out):
    """Fill ``out`` [4, K]: H0 and H1 of the case, H0 and H1 of the control.

    ``unit`` is (x, log weight, log likelihood of the case, of the control) on one grid.
    Returns the logs of what H0's and H1's are relative to.
    """
    x, log_weight, log_case, log_control = unit
    lmu, lnu, rates, g, above, inverse, f, interval, basis = work
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
        survival_places(x, survival.shape[1], interval, basis)
    of_f = total(f)
    for c in range(g.shape[0]):
        whole = total(g[c])
        if restricted and whole > 0.0:
            inverse_survival(interval, basis, survival[c], inverse)
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
def posteriors(table, under, parts, offsets):
    """Fill what `mix` takes, under the exchangeable null.

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
    backward = cumulative[::-1].copy()
    for u in range(n_units):
        spike[0] = under.log_not_w
        for i in range(3):
            spike[i + 1] = under.e_beta[i, kind[u]]
        for q in range(n_m):
            unit = (x[u, q], log_weight[u, q], log_case[u, q], log_control[u, q])
            out = parts[u, q]
            top0, top1 = _add_hypotheses(unit, under, spike, broad, backward, work, out)
            offsets[u, q, 0] = log_not_pi + log_p[q] + top0
            offsets[u, q, 1] = log_pi + log_p[q] + top1
            for k in range(size):
                out[MU, k] = exp(lmu[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def mix(x, log_weight, parts, offsets, levels, backward, result):
    """Fill [U, 2, 2 + L]: mean and sd of mu and quantiles of x, for mu_case and mu_control.

    ``parts`` [U, Q, 5, K] are relative to ``offsets`` [U, Q, 2]: H0 and H1 of the case, H0 and H1
    of the control, and mu.
    """
    n_units, n_m, size = x.shape
    mass, cdf = np.empty((n_m, size)), np.empty((n_m, size))
    for u in range(n_units):
        part, offset, top = parts[u], offsets[u], -np.inf
        for q in range(n_m):  # the largest of what has mass: H1's offset may belong to none
            top = max(top, offset[q, 0])
            other = max(total(part[q, 1]), total(part[q, 3]))
            if other > 0.0:
                top = max(top, offset[q, 1] + math.log(other))
        for side in range(2):
            moments = _weigh_side(part, offset, top, side, backward, mass, cdf)
            result[u, side, 0], result[u, side, 1] = moments
            for q in range(n_m):  # from mass to density in x
                row, weight = mass[q], log_weight[u, q]
                for k in range(size):
                    row[k] *= exp(-weight[k])
            mixture_quantiles(x[u], cdf, mass, levels, result[u, side, 2:])


@njit(cache=True, inline="always")
def _weigh_side(part, offset, top, side, backward, mass, cdf):
    """Fill a sample's probabilities [Q, K] and those below each node; return mean and sd of mu."""
    n_m, size = mass.shape
    whole = mean = square = 0.0
    for q in range(n_m):
        null, other = math.exp(offset[q, 0] - top), math.exp(min(offset[q, 1] - top, 700.0))
        of_null, of_other, row = part[q, 2 * side], part[q, 2 * side + 1], mass[q]
        for k in range(size):
            row[k] = null * of_null[k] + other * of_other[k]
        whole += total(row)
    for q in range(n_m):
        row, below = mass[q], cdf[q]
        for k in range(size):
            row[k] /= whole
        sinc_below(row, backward, below)
        mean += dot(row, part[q, MU])
        for k in range(1, size):
            below[k] = max(below[k], below[k - 1])
    for q in range(n_m):
        row, rate = mass[q], part[q, MU]
        for k in range(size):
            off = rate[k] - mean
            square += row[k] * off * off
    return mean, math.sqrt(square)


@njit(cache=True, inline="always")
def _add_batch_null(here, edges, a, case, b, under, work, out):
    """Add H0's masses of the case to out[0] and of the control to out[2].

    The difference from a node of the control to a cell of the case has the mass of its normal
    components there.
    """
    size = here.shape[0]
    row = work[3]
    for k in range(size):
        if a[k] < 1e-30:
            continue
        centre = here[k] + b
        low, high = reach_of(edges, centre, under.tau)
        near_masses(edges[low : high + 1], centre, under.tau, work)
        added = 0.0
        for i in range(low, high):
            value = (1.0 - under.v) * a[k] * case[i] * row[i - low]
            out[0, i] += value
            added += value
        far_masses(edges, centre, under.wide, work)
        for i in range(size):
            value = under.v * a[k] * case[i] * row[i]
            out[0, i] += value
            added += value
        out[2, k] += added


@njit(cache=True, inline="always")
def _add_batch_alternatives(here, b, hypotheses, a, room, back, out):
    """Add H1's masses of the case to out[1] and of the control to out[3].

    ``back`` is room of [K] for cells, parts and a density: where the case's nodes less b lie.
    """
    size = here.shape[0]
    back_cell, back_part, cut = back
    places, edges, g, above, inverse = room.at, room.edges, room.g, room.above, room.inverse
    cell, within, width, interval, basis = (
        room.cell,
        room.within,
        room.inverse_width,
        room.place,
        room.basis,
    )
    survive, slope, survival, restricted = (
        room.survive,
        room.slope,
        hypotheses.survival,
        hypotheses.restricted,
    )
    if restricted:
        for k in range(size):
            places[k] = here[k] + b
        survival_places(places, survival.shape[1], interval, basis)
        cells_of(edges, places, cell, within, width)
        for k in range(size):
            places[k] = here[k] - b
        cells_of(edges, places, back_cell, back_part, width)
    for c in range(g.shape[0]):
        whole = total(g[c])
        if whole <= 0.0:
            continue
        if not restricted:
            everything = total(a)
            for k in range(size):
                out[3, k] += a[k] * whole
                out[1, k] += g[c, k] * everything
            continue
        inverse_survival(interval, basis, survival[c], inverse)
        above_at(cell, within, width, g[c], above, survive, slope)
        for k in range(size):
            cut[k] = a[k] * inverse[k]
            out[3, k] += cut[k] * survive[k]
        above_at(back_cell, back_part, width, cut, above, survive, slope)
        everything = above[0]
        for k in range(size):
            out[1, k] += g[c, k] * max(everything - survive[k], 0.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def batch_posteriors(table, group, under, parts, offsets):
    """Fill what `mix` takes, under the batch-aware null.

    ``table`` is of `table.Grids`, ``under`` of `batch_null.Shifted`; ``group`` [U] is which of the
    shifts each unit has.
    """
    x, log_weight, log_case, log_control, kind = table
    hypotheses, alternatives = under.of, under.of.alternatives
    n_units, n_m, size = x.shape
    room = room_of(alternatives.shape[0], size)
    rates, lmu, lnu, a = np.empty((2, size)), np.empty(size), np.empty(size), np.empty(size)
    back = (np.empty(size, np.int64), np.empty(size), np.empty(size))
    spike = np.empty(4)
    broad = np.array([hypotheses.log_w, alternatives[0, 0], alternatives[0, 2]])
    for u in range(n_units):
        b = under.shift[group[u]]
        spike[0] = hypotheses.log_not_w
        for i in range(3):
            spike[i + 1] = hypotheses.e_beta[i, kind[u]]
        for q in range(n_m):
            here, out = x[u, q], parts[u, q]
            out[:] = 0.0
            log_rates(here, lmu, lnu)
            top = error_logs(log_weight[u, q], log_control[u, q], lmu, lnu, spike, broad, rates)
            errors(rates, top)
            for k in range(size):
                out[MU, k] = exp(lmu[k])
                a[k] = rates[0, k] + rates[1, k]
            edges_of(here, room.edges)
            top_case = relative(log_case[u, q], room.case)
            _add_batch_null(here, room.edges, a, room.case, b, under, room.work, out)
            top_g = log_alternatives(
                log_weight[u, q], log_case[u, q], lmu, lnu, alternatives, room.g
            )
            offsets[u, q, 0] = hypotheses.log_not_pi + hypotheses.log_p[q] + top + top_case
            offsets[u, q, 1] = hypotheses.log_pi + hypotheses.log_p[q] + top + top_g
            _add_batch_alternatives(here, b, hypotheses, a, room, back, out)
