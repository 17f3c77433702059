# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled passes over units for `batch_null`, whose docstring has the equations.

Loops over cells have no branch, so that the compiler turns them into vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import dot, exp, total
from vbmodels.variants.two_groups.pass_kernels import (
    _largest,
    _log_sum,
    inverse_survival,
    log_alternatives,
    log_rates,
    survival_places,
)

_LEAST = -690.0
_FAR = 37.0  # standard deviations: phi is 1e-298 there
_REACH = 6.5  # of the narrow component; beyond, the wide one is all there is
_BLOCK = 0.4  # least width of a block of cells, against the wide component's sd of 1.2
_SKIPPED = -14.0  # nodes of M that can hold no more than e^-14 of the whole are left out
_SLIGHT = 1e-8  # so are nodes of x that can add no more than this share
_TINY = 1e-300
_FLOOR = 1e-290


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def mills(z):
    """Return the normal tail over the normal density, for z >= 0, to 6e-11 of itself.

    (1 + z) R(z) as a polynomial in (z - 4)/(z + 4), as Shepherd and Laframboise (1981) do.
    """
    t = (z - 4.0) / (z + 4.0)
    p = -2.998500290392106e-06
    p = p * t - 5.224899477846173e-06
    p = p * t + 2.9296166522684932e-05
    p = p * t + 4.848559789917838e-05
    p = p * t - 0.00021644766197429286
    p = p * t - 0.0002331716462559475
    p = p * t + 0.0017401730642410034
    p = p * t - 0.0007173636463629237
    p = p * t - 0.012538691631817242
    p = p * t + 0.044959421253558764
    p = p * t - 0.0807080599294186
    p = p * t + 0.07169045444957664
    p = p * t + 0.03509188258442094
    p = p * t - 0.24239966981134586
    p = p * t + 1.183261914549703
    return p / (1.0 + z)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def edges_of(x, edges):
    """Fill the ends [K + 1] of the nodes' cells: midpoints, and as far beyond the outer two."""
    size = x.shape[0]
    for k in range(1, size):
        edges[k] = 0.5 * (x[k - 1] + x[k])
    edges[0] = 2.0 * x[0] - edges[1]
    edges[size] = 2.0 * x[size - 1] - edges[size - 1]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def blocks_of(edges, mass, ends, height):
    """Fill ends and mean likelihoods of blocks of cells at least `_BLOCK` wide; return how many.

    ``mass`` [K] is the likelihood's integral over each cell.
    """
    size = mass.shape[0]
    count = 0
    ends[0] = edges[0]
    whole = 0.0
    for k in range(size):
        whole += mass[k]
        width = edges[k + 1] - ends[count]
        if width >= _BLOCK or k == size - 1:
            height[count] = whole / width
            count += 1
            ends[count] = edges[k + 1]
            whole = 0.0
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _tails(places, centre, tau, z, phi, tail):
    """Fill standardised places, the densities there and the tails beyond |z|."""
    scale = 1.0 / tau
    for i in range(places.shape[0]):
        z[i] = min(max((places[i] - centre) * scale, -_FAR), _FAR)
    for i in range(places.shape[0]):
        phi[i] = 0.3989422804014327 * exp(-0.5 * z[i] * z[i])
    for i in range(places.shape[0]):
        tail[i] = phi[i] * mills(abs(z[i]))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _masses(z, tail, d):
    """Fill the normal masses between places, each by the tails on its own side."""
    for i in range(d.shape[0]):
        below = tail[i + 1] - tail[i]
        across = 1.0 - tail[i] - tail[i + 1]
        d[i] = below if z[i + 1] <= 0.0 else (-below if z[i] >= 0.0 else across)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def first_beyond(places, at):
    """Return the index of the last place that is at most ``at``; 0 if there is none."""
    low, high = 0, places.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if places[middle] <= at:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def reach_of(x, centre, tau):
    """Return the first and the last node of the intervals within reach of the narrow component."""
    low = first_beyond(x, centre - _REACH * tau)
    high = first_beyond(x, centre + _REACH * tau) + 1
    return low, min(high, x.shape[0] - 1)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def near_masses(x, centre, tau, work):
    """Fill work[3] with the masses of N(centre, tau^2) between the nodes."""
    size = x.shape[0]
    _tails(x, centre, tau, work[0, :size], work[1, :size], work[2, :size])
    _masses(work[0, :size], work[2, :size], work[3, : size - 1])


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "nsz", "contract"},
    forceinline=True,
)
def _linear(x, centre, tau, case, slope, phi, d):
    """Return E[C(centre + tau u)] between the nodes."""
    whole = 0.0
    for i in range(d.shape[0]):
        level = case[i] + slope[i] * (centre - x[i])
        whole += level * d[i] + slope[i] * tau * (phi[i] - phi[i + 1])
    return whole


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _near(x, centre, tau, case, slope, work):
    """Return E[C(centre + tau u)] of the case's likelihood, linear between its nodes."""
    low, high = reach_of(x, centre, tau)
    here = x[low : high + 1]
    size = here.shape[0]
    near_masses(here, centre, tau, work)
    whole = _linear(
        here, centre, tau, case[low : high + 1], slope[low:high], work[1, :size],
        work[3, : size - 1],
    )  # fmt: skip
    if low == 0:
        whole += case[0] * (work[2, 0] if work[0, 0] <= 0.0 else 1.0 - work[2, 0])
    if high == x.shape[0] - 1:
        end = size - 1
        whole += case[high] * (work[2, end] if work[0, end] >= 0.0 else 1.0 - work[2, end])
    return max(whole, 0.0)


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "nsz", "contract"},
    forceinline=True,
)
def _linear_moments(x, centre, tau, case, slope, z, phi, d):
    """Return E[u^i C(centre + tau u)] between the nodes for i = 0, 1, 2, 4."""
    s0 = s1 = s2 = s4 = 0.0
    for i in range(d.shape[0]):
        a, b, p, r = z[i], z[i + 1], phi[i], phi[i + 1]
        ap, br = a * p, b * r
        m1 = p - r
        m2 = d[i] + ap - br
        m3 = 2.0 * m1 + a * ap - b * br
        m4 = 3.0 * m2 + a * a * ap - b * b * br
        m5 = 4.0 * m3 + a * a * a * ap - b * b * b * br
        rise = slope[i] * tau
        level = case[i] + slope[i] * (centre - x[i])
        s0 += level * d[i] + rise * m1
        s1 += level * m1 + rise * m2
        s2 += level * m2 + rise * m3
        s4 += level * m4 + rise * m5
    return s0, s1, s2, s4


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _near_moments(x, centre, tau, case, slope, work):
    """Return E[u^i C(centre + tau u)] for i = 0, 1, 2, 4; C is constant beyond its nodes.

    Between two nodes, with z their standardised places and differences left minus right:
    m1 = phi, m2 = D + z phi, m3 = 2 m1 + z^2 phi, m4 = 3 m2 + z^3 phi, m5 = 4 m3 + z^4 phi.
    """
    low, high = reach_of(x, centre, tau)
    here = x[low : high + 1]
    size = here.shape[0]
    near_masses(here, centre, tau, work)
    z, phi, tail = work[0, :size], work[1, :size], work[2, :size]
    s0, s1, s2, s4 = _linear_moments(
        here, centre, tau, case[low : high + 1], slope[low:high], z, phi, work[3, : size - 1]
    )
    if low == 0:
        a, p, c = z[0], phi[0], case[0]
        below = tail[0] if a <= 0.0 else 1.0 - tail[0]
        s0 += c * below
        s1 -= c * p
        s2 += c * (below - a * p)
        s4 += c * (3.0 * (below - a * p) - a * a * a * p)
    if high == x.shape[0] - 1:
        a, p, c = z[size - 1], phi[size - 1], case[high]
        above = tail[size - 1] if a >= 0.0 else 1.0 - tail[size - 1]
        s0 += c * above
        s1 += c * p
        s2 += c * (above + a * p)
        s4 += c * (3.0 * (above + a * p) + a * a * a * p)
    return max(s0, 0.0), s1, s2, s4


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def far_masses(ends, centre, wide, work):
    """Fill work[3] with the masses of N(centre, wide^2) in blocks; the outer two are open."""
    size = ends.shape[0]
    z, phi, tail = work[0, :size], work[1, :size], work[2, :size]
    _tails(ends, centre, wide, z, phi, tail)
    z[0], z[size - 1] = -_FAR, _FAR
    phi[0] = phi[size - 1] = tail[0] = tail[size - 1] = 0.0
    _masses(z, tail, work[3, : size - 1])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def widen(x, log_case, wide, log_far, far_slope):
    """Fill log E[L_case(x + wide u)], u ~ N(0, 1), and its slope in x, [U, Q, K]."""
    n_units, n_m, size = x.shape
    case, mass, height = np.empty(size), np.empty(size), np.empty(size)
    edges, ends = np.empty(size + 1), np.empty(size + 1)
    work = np.empty((4, size + 1))
    for u in range(n_units):
        for q in range(n_m):
            here = x[u, q]
            edges_of(here, edges)
            top = relative(log_case[u, q], case)
            for k in range(size):
                mass[k] = case[k] * (edges[k + 1] - edges[k])
            count = blocks_of(edges, mass, ends, height)
            for k in range(size):
                # Blocks so far away that they add less than e^-23 of what the node's own adds.
                own = height[first_beyond(ends[:count], here[k])]
                reach = wide * math.sqrt(2.0 * (23.0 - math.log(max(own, _FLOOR))))
                low = first_beyond(ends[:count], here[k] - reach)
                high = first_beyond(ends[:count], here[k] + reach) + 1
                far_masses(ends[low : high + 1], here[k], wide, work)
                whole = dot(height[low:high], work[3, : high - low])
                down = 0.0
                for i in range(low, high):
                    down += height[i] * (work[1, i - low] - work[1, i - low + 1])
                log_far[u, q, k] = top + math.log(max(whole, _FLOOR))
                far_slope[u, q, k] = down / wide / max(whole, _FLOOR)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def far_moments(x, log_far, far_slope, top, b, wide, far):
    """Fill far [3, K]: E[u^i L_case(x + b + wide u)] e^-top for i = 0, 1, 2.

    The log is a cubic Hermite polynomial between nodes, which is exact for a normal; so with
    s its slope, E[u] = wide s E, E[u^2] = (1 + wide^2 (s^2 + s')) E.
    """
    size = x.shape[0]
    zero, first, second = far[0], far[1], far[2]
    i = 0
    for k in range(size):
        at = x[k] + b
        while i < size - 2 and x[i + 1] <= at:
            i += 1
        while i > 0 and x[i] > at:
            i -= 1
        width = x[i + 1] - x[i]
        f = (at - x[i]) / width
        low, high = log_far[i], log_far[i + 1]
        left, right = far_slope[i] * width, far_slope[i + 1] * width
        rise = high - low
        bend, twist = 3.0 * rise - 2.0 * left - right, left + right - 2.0 * rise
        if f < 0.0:
            zero[k], first[k], second[k] = low + f * left, left / width, 0.0
        elif f > 1.0:
            zero[k], first[k], second[k] = high + (f - 1.0) * right, right / width, 0.0
        else:
            zero[k] = low + f * (left + f * (bend + f * twist))
            first[k] = (left + f * (2.0 * bend + 3.0 * f * twist)) / width
            second[k] = (2.0 * bend + 6.0 * f * twist) / (width * width)
    for k in range(size):
        value = exp(zero[k] - top)
        s = first[k]
        zero[k] = value
        first[k] = wide * s * value
        second[k] = (1.0 + wide * wide * (s * s + second[k])) * value


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def error_logs(log_weight, log_control, lmu, lnu, spike, broad, rates):
    """Fill [2, K] log spike and broad densities of the control's rate with likelihood and weight.

    Returns the largest of both.
    """
    size = lmu.shape[0]
    offset_spike = spike[0] - spike[3]
    offset_broad = broad[0] - broad[2]
    of_spike, of_broad = rates[0], rates[1]
    for k in range(size):
        base = log_weight[k] + log_control[k]
        of_spike[k] = base + offset_spike + spike[1] * lmu[k] + spike[2] * lnu[k]
        of_broad[k] = base + offset_broad + broad[1] * (lmu[k] + lnu[k])
    return max(_largest(of_spike), _largest(of_broad))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def errors(rates, top):
    """Turn logs [2, K] into values relative to e^top."""
    for row in range(2):
        values = rates[row]
        for k in range(values.shape[0]):
            off = values[k] - top
            value = exp(off)
            values[k] = value if off > _LEAST else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def relative(log_case, case):
    """Fill the case's likelihood relative to its largest value, which is returned."""
    top = _largest(log_case)
    for k in range(log_case.shape[0]):
        off = log_case[k] - top
        value = exp(off)
        case[k] = value if off > _LEAST else 0.0
    return top


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def cells_of(edges, at, cell, part, inverse_width):
    """Fill in which cell rising places lie and what part of it is above them.

    Before the first cell: all of it, and slope 0; beyond the last none of it.
    """
    size = edges.shape[0] - 1
    i = 0
    for k in range(at.shape[0]):
        while i < size - 1 and edges[i + 1] <= at[k]:
            i += 1
        cell[k] = i
        width = edges[i + 1] - edges[i]
        part[k] = (edges[i + 1] - at[k]) / width
        inside = 0.0 <= part[k] <= 1.0
        part[k] = min(max(part[k], 0.0), 1.0)
        inverse_width[k] = 1.0 / width if inside else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def above_at(cell, part, inverse_width, g, above, survive, slope):
    """Fill the integral of g above each place and its slope there; g [K] is mass by cell."""
    size = g.shape[0]
    above[size] = 0.0
    for i in range(size - 1, -1, -1):
        above[i] = above[i + 1] + g[i]
    for k in range(size):
        i = cell[k]
        survive[k] = above[i + 1] + g[i] * part[k]
        slope[k] = -g[i] * inverse_width[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def cut_slope(shape, floor, lmu, lnu, inverse, survive, slope):
    """Turn an integral above places and its slope into those of its ratio to the survival."""
    for k in range(survive.shape[0]):
        density = exp(shape[0] * lmu[k] + shape[1] * lnu[k] - shape[2])
        hazard = (1.0 - floor) * density * inverse[k]
        slope[k] = (slope[k] + survive[k] * hazard) * inverse[k]
        survive[k] *= inverse[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def reweigh(table, under, log_m0, log_m1, sums, nodes):
    """One pass over a table: log m0 and log m1 of every unit, and the sums.

    ``table`` is of `batch_null.Widened`, ``under`` of `batch_null.Shifted`. To ``sums``, of
    `batch_null.size_of_sums`, are added: those of `two_groups`; by group (weight near, weight far,
    score in b, observed information in b); score and information in log tau; information in
    logit v; the units' variance of log M, its covariance with log^2 M and the variance of that;
    then the log likelihood at each tau of the profile. ``nodes`` [U, Q, K] is filled with the
    posterior probability of each node of M and of x; it may be empty.
    """
    of_nodes = nodes.shape[0] > 0
    x, log_weight, log_case, log_control, kind = table.of
    of, shift, group = under.of, under.shift, table.group
    log_p = of.log_p
    alternatives, survival, restricted = of.alternatives, of.survival, of.restricted
    tau, wide, v = under.tau, under.wide, under.v
    profile = under.profile
    n_units, n_m, size = x.shape
    n_alt, n_tau = alternatives.shape[0], profile.shape[0]
    rates = np.empty((2, size))
    lmu, lnu = np.empty(size), np.empty(size)
    case, slopes, far = np.empty(size), np.empty(size), np.empty((3, size))
    edges = np.empty(size + 1)
    g = np.empty((n_alt, size))
    work = np.empty((4, size + 1))
    at = np.empty(size)
    lmu_at, lnu_at = np.empty(size), np.empty(size)
    inverse, survive, slope = np.empty(size), np.empty(size), np.empty(size)
    place, basis = np.empty(size, np.int64), np.empty((4, size))
    cell, within, inverse_width = np.empty(size, np.int64), np.empty(size), np.empty(size)
    above = np.empty(size + 1)
    spike = np.empty(4)
    broad = np.array([of.log_w, alternatives[0, 0], alternatives[0, 2]])
    part = np.empty((n_m, 2, 5))
    extra = np.empty((n_m, 8))
    z_alt = np.empty((n_m, n_alt))
    at_tau = np.empty((n_m, n_tau))
    here_0, here_1 = np.empty((n_m, size)), np.empty((n_m, size))
    scale = np.empty((n_m, 2))
    tops = np.empty((n_m, 2))
    bound = np.empty(n_m)
    row = np.empty(4)
    for u in range(n_units):
        t = kind[u]
        b = shift[group[u]]
        spike[0] = of.log_not_w
        spike[1:] = of.e_beta[:, t]
        for q in range(n_m):
            log_rates(x[u, q], lmu, lnu)
            tops[q, 0] = _largest(log_case[u, q])
            tops[q, 1] = error_logs(
                log_weight[u, q], log_control[u, q], lmu, lnu, spike, broad, rates
            )
            bound[q] = log_p[q] + tops[q, 0] + tops[q, 1] + math.log(2.0 * size)
        part[:] = 0.0
        extra[:] = 0.0
        z_alt[:] = 0.0
        at_tau[:] = 0.0
        here_0[:] = 0.0
        here_1[:] = 0.0
        best0 = best1 = -np.inf
        order = np.argsort(-bound)
        for rank in range(n_m):
            q = int(order[rank])
            part[q, 0, 4] = log_p[q] + tops[q, 0] + tops[q, 1]
            part[q, 1, 4] = -np.inf
            of_null, of_other = bound[q] > best0 + _SKIPPED, bound[q] + 3.0 > best1 + _SKIPPED
            if not (of_null or of_other):
                continue
            here = x[u, q]
            edges_of(here, edges)
            log_rates(here, lmu, lnu)
            error_logs(log_weight[u, q], log_control[u, q], lmu, lnu, spike, broad, rates)
            errors(rates, tops[q, 1])
            if of_null:
                relative(log_case[u, q], case)
                for k in range(size - 1):
                    slopes[k] = (case[k + 1] - case[k]) / (here[k + 1] - here[k])
                far_moments(
                    here, table.log_far[u, q], table.far_slope[u, q], tops[q, 0], b, wide, far
                )
                start = int(np.argmax(rates[0] + rates[1]))
                for i in range(size):
                    k = start - i if i <= start else i
                    a = rates[0, k] + rates[1, k]
                    if a <= _SLIGHT * (part[q, 0, 0] + part[q, 0, 1]):
                        continue
                    centre = here[k] + b
                    row[0], row[1], row[2], row[3] = _near_moments(
                        here, centre, tau, case, slopes, work
                    )
                    away = v * far[0, k]
                    both = (1.0 - v) * row[0] + away
                    of_spike = rates[0, k] * both
                    here_0[q, k] = a * both
                    part[q, 0, 0] += of_spike
                    part[q, 0, 1] += rates[1, k] * both
                    part[q, 0, 2] += of_spike * lmu[k]
                    part[q, 0, 3] += of_spike * lnu[k]
                    for j in range(4):
                        extra[q, j] += a * (1.0 - v) * row[j]
                    for j in range(3):
                        extra[q, 4 + j] += a * v * far[j, k]
                    for j in range(n_tau):
                        near = _near(here, centre, profile[j], case, slopes, work)
                        at_tau[q, j] += a * (away + (1.0 - v) * near)
                found = part[q, 0, 0] + part[q, 0, 1]
                if found > 0.0:
                    best0 = max(best0, part[q, 0, 4] + math.log(found))
            if not of_other:
                continue
            top_g = log_alternatives(log_weight[u, q], log_case[u, q], lmu, lnu, alternatives, g)
            part[q, 1, 4] = log_p[q] + tops[q, 1] + top_g
            if restricted:
                for k in range(size):
                    at[k] = here[k] + b
                survival_places(at, survival.shape[1], place, basis)
                log_rates(at, lmu_at, lnu_at)
                cells_of(edges, at, cell, within, inverse_width)
            for c in range(n_alt):
                whole = total(g[c])
                if whole <= 0.0:
                    continue
                if restricted:
                    above_at(cell, within, inverse_width, g[c], above, survive, slope)
                    inverse_survival(place, basis, survival[c], inverse)
                    floor = 0.05 if c else 0.0
                    cut_slope(alternatives[c], floor, lmu_at, lnu_at, inverse, survive, slope)
                    extra[q, 7] += dot(rates[0], slope) + dot(rates[1], slope)
                else:
                    for k in range(size):
                        survive[k] = whole
                of_spike, of_broad = dot(rates[0], survive), dot(rates[1], survive)
                z_alt[q, c] = of_spike + of_broad
                part[q, 1, 0] += of_spike
                part[q, 1, 1] += of_broad
                if of_nodes:
                    for k in range(size):
                        here_1[q, k] += (rates[0, k] + rates[1, k]) * survive[k]
                for k in range(size):
                    survive[k] *= rates[0, k]
                part[q, 1, 2] += dot(survive, lmu)
                part[q, 1, 3] += dot(survive, lnu)
            found = part[q, 1, 0] + part[q, 1, 1]
            if found > 0.0:
                best1 = max(best1, part[q, 1, 4] + math.log(found))
        log_m0[u], log_m1[u] = _add_unit(
            part, z_alt, extra, at_tau, under, t, group[u], sums, scale
        )  # fmt: skip
        if of_nodes:
            for q in range(n_m):
                for k in range(size):
                    nodes[u, q, k] = scale[q, 0] * here_0[q, k] + scale[q, 1] * here_1[q, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_unit(part, z_alt, extra, at_tau, under, t, group, sums, scale):
    """Return one unit's log m0 and log m1, and add to the sums of both steps.

    ``scale`` [Q, 2] is filled with what turns masses at nodes under H0 and H1 into probabilities.
    """
    of = under.of
    log_pi, log_not_pi, log_m = of.log_pi, of.log_not_pi, of.log_m
    tau, wide, v = under.tau, under.wide, under.v
    n_m, n_alt = z_alt.shape
    n_tau = at_tau.shape[1]
    mass = np.empty((n_m, 2))
    for q in range(n_m):
        for h in range(2):
            whole = part[q, h, 0] + part[q, h, 1]
            mass[q, h] = part[q, h, 4] + math.log(whole) if whole > 0.0 else -np.inf
    log_m0 = max(_log_sum(mass[:, 0]), _largest(part[:, 0, 4]) + math.log(_TINY))
    log_m1 = max(_log_sum(mass[:, 1]), _largest(part[:, 1, 4]) + math.log(_TINY))
    f0, f1 = log_not_pi + log_m0, log_pi + log_m1
    top = max(f0, f1)
    marginal = top + math.log(math.exp(f0 - top) + math.exp(f1 - top))
    sums[0] += marginal
    sums[1] += 1.0
    of_kind = 5 + n_alt + 3 * t
    moment = np.zeros(8)
    power = np.zeros(5)
    for q in range(n_m):
        p0 = math.exp(mass[q, 0] + log_not_pi - marginal)
        p1 = math.exp(mass[q, 1] + log_pi - marginal)
        w0 = p0 / (part[q, 0, 0] + part[q, 0, 1]) if p0 > 0.0 else 0.0
        w1 = p1 / (part[q, 1, 0] + part[q, 1, 1]) if p1 > 0.0 else 0.0
        scale[q, 0], scale[q, 1] = w0, w1
        node = p0 + p1
        sums[2] += w0 * part[q, 0, 1] + w1 * part[q, 1, 1]
        sums[3] += node * log_m[q]
        sums[4] += node * log_m[q] * log_m[q]
        for c in range(n_alt):
            sums[5 + c] += w1 * z_alt[q, c]
        for i in range(3):
            source = 0 if i == 0 else i + 1
            sums[of_kind + i] += w0 * part[q, 0, source] + w1 * part[q, 1, source]
        raised = node
        for i in range(1, 5):
            raised *= log_m[q]
            power[i] += raised
        for i in range(7):
            moment[i] += w0 * extra[q, i]
        moment[7] += w1 * extra[q, 7]
    near, far = moment[0], moment[4]
    score = moment[1] / tau + moment[5] / wide
    first = 5 + n_alt + 36 + 4 * group
    sums[first] += near
    sums[first + 1] += far
    sums[first + 2] += score + moment[7]
    sums[first + 3] += (
        (near - moment[2]) / (tau * tau) + (far - moment[6]) / (wide * wide) + score * score
    )
    of_tau = 5 + n_alt + 36 + 4 * under.shift.shape[0]
    gap = moment[2] - near
    sums[of_tau] += gap
    sums[of_tau + 1] += 4.0 * moment[2] - moment[3] - near + gap * gap
    share = far - v * (near + far)
    rest = 1.0 - v
    sums[of_tau + 2] += v * rest * (near + far) - (far * rest * rest + near * v * v)
    sums[of_tau + 2] += share * share
    sums[of_tau + 3] += power[2] - power[1] * power[1]
    sums[of_tau + 4] += power[3] - power[1] * power[2]
    sums[of_tau + 5] += power[4] - power[2] * power[2]
    for j in range(n_tau):
        values = np.empty(n_m)
        for q in range(n_m):
            whole = at_tau[q, j]
            values[q] = part[q, 0, 4] + math.log(whole) if whole > 0.0 else -np.inf
        other = max(_log_sum(values), _largest(part[:, 0, 4]) + math.log(_TINY)) + log_not_pi
        top = max(other, f1)
        sums[of_tau + 6 + j] += top + math.log(math.exp(other - top) + math.exp(f1 - top))
    return log_m0, log_m1
