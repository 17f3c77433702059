# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled form of the likelihood tables of `table`.

All work on the K nodes of a grid is done by loops over the nodes without a branch, which
the compiler turns into vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import (
    exp,
    log,
    log_gamma_any,
    log_gamma_large,
    log_rising,
    polygammas,
    softplus,
)

_TAIL = 18.0
_BROAD = 0.1
_WIDTH = 0.7
_FEW = 12
_MOST_FACTORS = 40  # each at most 1e6 + 12, so their product is below 1e308
_CLOSE = 3e-4


@njit(cache=True, inline="always")
def _centre(r, n, member, m, start):
    """Return mode and scale in x of one sample's likelihood times sqrt(mu (1-mu))."""
    x = start
    curvature = -1.0
    for _ in range(12):
        mu = 1.0 / (1.0 + math.exp(-x))
        nu = 1.0 / (1.0 + math.exp(x))
        a = m * mu
        b = m * nu
        slope = 0.0
        bend = 0.0
        psi_a, tri_a = polygammas(a)
        psi_b, tri_b = polygammas(b)
        for i in range(r.shape[0]):
            if member[i] and n[i] > 0:
                psi, tri = polygammas(b + (n[i] - r[i]))
                slope += psi_b - psi
                bend += tri - tri_b
                if r[i] > 0:
                    psi, tri = polygammas(a + r[i])
                    slope += psi - psi_a
                    bend += tri - tri_a
        u = mu * nu
        slope *= m
        curvature = u * u * m * m * bend + u * (nu - mu) * slope - u
        stiff = max(-curvature, 0.1)
        step = (u * slope + 0.5 * (nu - mu)) / stiff
        step = min(max(step, -2.0), 2.0)
        x += step
        if abs(step) <= 0.05 / math.sqrt(stiff):
            break
    return x, 1.0 / math.sqrt(max(-curvature, 0.1))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _stretch(x, centres, scales):
    """Return t(x) and dt/dx of the grid: t(x) = sum_i asinh((x - m_i) / c_i)."""
    product = 1.0
    density = 0.0
    for i in range(centres.shape[0]):
        y = x - centres[i]
        s = math.sqrt(scales[i] * scales[i] + y * y)
        if y >= 0.0:
            product *= (y + s) / scales[i]
        else:
            product *= scales[i] / (s - y)
        density += 1.0 / s
    return math.log(product), density


@njit(cache=True, inline="always")
def _stretch_nodes(x, centres, scales, work):
    """Fill work[0:3] with t(x), dt/dx and d2t/dx2 at all nodes, with one logarithm each."""
    t, density, bend, under = work[0], work[1], work[2], work[3]
    size = x.shape[0]
    for k in range(size):
        t[k] = 1.0
        under[k] = 1.0
        density[k] = 0.0
        bend[k] = 0.0
    for i in range(centres.shape[0]):
        centre = centres[i]
        square = scales[i] * scales[i]
        inverse_scale = 1.0 / scales[i]
        for k in range(size):
            y = x[k] - centre
            s = math.sqrt(square + y * y)
            factor = (abs(y) + s) * inverse_scale
            inverse = 1.0 / s
            t[k] *= factor if y >= 0.0 else 1.0
            under[k] *= 1.0 if y >= 0.0 else factor
            density[k] += inverse
            bend[k] -= y * inverse * inverse * inverse
    for k in range(size):
        t[k] = log(t[k] / under[k])


@njit(cache=True, inline="always")
def _predict(centres, scales, low, high, step, x):
    """Fill x with nodes near their places, one after the other by midpoint steps."""
    node = low
    x[0] = low
    for k in range(1, x.shape[0]):
        density = _stretch(node, centres, scales)[1]
        middle = _stretch(node + 0.5 * step / density, centres, scales)[1]
        node = min(node + step / middle, high)
        x[k] = node


@njit(cache=True, inline="always")
def _nodes(centres, scales, low, high, warm, x, log_weight, work):
    """Fill nodes and log weights; ``warm``: x holds a guess. See `quadrature`."""
    size = x.shape[0]
    t_low = _stretch(low, centres, scales)[0]
    step = (_stretch(high, centres, scales)[0] - t_low) / (size - 1)
    t, density, bend = work[0], work[1], work[2]
    for attempt in range(60):
        if attempt == 13 or (attempt == 0 and not warm):
            _predict(centres, scales, low, high, step, x)
        _stretch_nodes(x, centres, scales, work)
        worst = 0.0
        for k in range(size):
            miss = t[k] - (t_low + step * k)
            ratio = miss / density[k]
            move = ratio / max(1.0 - 0.5 * ratio * bend[k] / density[k], 0.3)
            x[k] = min(max(x[k] - move, low), high)
            # Halley's error is the third power: no need to look again when all are close.
            density[k] -= bend[k] * move
            t[k] = abs(miss)
        for k in range(size):
            worst = max(worst, t[k])
        if worst < _CLOSE:
            break
        if attempt >= 24:
            _bisect(centres, scales, low, high, t_low, step, x)
    for k in range(size):
        log_weight[k] = log(step / density[k])


@njit(cache=True, inline="always")
def _bisect(centres, scales, low, high, t_low, step, x):
    """Fill x by bisection: for the odd grid on which Halley's method wanders."""
    for k in range(x.shape[0]):
        below, above = low, high
        for _ in range(60):
            middle = 0.5 * (below + above)
            if _stretch(middle, centres, scales)[0] < t_low + step * k:
                below = middle
            else:
                above = middle
        x[k] = 0.5 * (below + above)


@njit(cache=True, inline="always")
def _likelihoods(r, n, case, most, m, x, log_case, log_control, work):
    """Fill the log likelihoods of both samples on one grid; ``work`` is [6, K], ``most`` r's."""
    size = x.shape[0]
    a, b, log_a = work[0], work[1], work[2]
    gamma_a, gamma_b, product = work[3], work[4], work[5]
    log_m = math.log(m)
    for k in range(size):
        e = exp(-abs(x[k]))
        large = m / (1.0 + e)
        small = large * e
        above = x[k] >= 0.0
        a[k] = large if above else small
        b[k] = small if above else large
        log_a[k] = log_m + min(x[k], 0.0) - softplus(e)
    for k in range(size):
        gamma_b[k] = log_gamma_any(b[k])
    if most > _FEW:
        for k in range(size):
            gamma_a[k] = log_gamma_any(a[k])
    for side in range(2):
        out = log_case if side == 0 else log_control
        base = 0.0
        hits = 0
        factors = 0
        for k in range(size):
            product[k] = 1.0
            out[k] = 0.0
        for i in range(r.shape[0]):
            if case[i] != (side == 0) or n[i] == 0:
                continue
            base -= log_rising(m, n[i])
            rest = float(n[i] - r[i])
            if rest >= 10.0:
                for k in range(size):
                    out[k] += log_gamma_large(b[k] + rest) - gamma_b[k]
            elif rest > 0.0:
                for k in range(size):
                    out[k] += log_gamma_any(b[k] + rest) - gamma_b[k]
            if r[i] > _FEW:
                hit = float(r[i])
                for k in range(size):
                    out[k] += log_gamma_large(a[k] + hit) - gamma_a[k]
            elif r[i] > 0:
                # The factor a itself, which may be as small as e^-180, goes in as its log.
                hits += 1
                for j in range(1, r[i]):
                    factor = float(j)
                    for k in range(size):
                        product[k] *= a[k] + factor
                    factors += 1
                    if factors == _MOST_FACTORS:
                        factors = 0
                        for k in range(size):
                            out[k] += log(product[k])
                            product[k] = 1.0
        if factors > 0:
            for k in range(size):
                out[k] += log(product[k])
        for k in range(size):
            out[k] += base + hits * log_a[k]


@njit(cache=True, inline="always")
def _samples(r, n, case, members, hits, rest, modes):
    """Fill what a unit's three samples are: case, control, and both; return the most reads.

    Parameters
    ----------
    r, n, case
        [R] reads with the allele, all reads, and whether the replicate is of the case.
    members
        [3, R] to be filled: whether the replicate is in the sample.
    hits, rest
        [3] to be filled: replicates that show the allele, and that show others.
    modes
        [3 or more] to be filled with where the search for the likelihood's mode begins.
    """
    most = 0
    for s in range(3):
        with_allele = reads = 0.0
        hits[s] = rest[s] = 0
        for i in range(r.shape[0]):
            members[s, i] = s == 2 or case[i] == (s == 0)
            if members[s, i]:
                most = max(most, r[i])
                with_allele += r[i]
                reads += n[i]
                hits[s] += r[i] > 0
                rest[s] += n[i] > r[i]
        modes[s] = math.log((with_allele + 0.5) / (reads - with_allele + 0.5))
    return most


@njit(cache=True, inline="always")
def _grid_ends(hits, rest, centres, scales):
    """Return where every sample's integrand has fallen by `_TAIL` nats on either side."""
    low, high = np.inf, -np.inf
    for s in range(3):
        low = min(low, centres[s] - _TAIL / (_BROAD + hits[s]) - 3.0 * scales[s])
        high = max(high, centres[s] + _TAIL / (_BROAD + rest[s]) + 3.0 * scales[s])
    return low, high


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def tabulate(r, n, case, m_nodes, anchor_x, anchor_scale, x, log_weight, log_case, log_control):
    """Fill nodes, log weights and log likelihoods.

    ``r`` and ``n`` are [U, R], the nodes of M [Q], the anchors [U], the four tables [U, Q, K]. The
    grid's centres are the modes of the likelihoods of the case, of the control and of both (each
    times sqrt(mu (1-mu))), and the peak of the error rates. Its ends are where every integrand has
    fallen by 18 nats: left of a mode the likelihood falls by at least one nat per unit of x for
    every replicate that shows the allele, and Beta(.1, .1) by .1.
    """
    n_m, size = x.shape[1], x.shape[2]
    members = np.empty((3, r.shape[1]), np.bool_)
    hits, rest = np.empty(3, np.int64), np.empty(3, np.int64)
    centres, scales = np.empty(4), np.empty(4)
    work = np.empty((6, size))
    for u in range(x.shape[0]):
        most = _samples(r[u], n[u], case, members, hits, rest, centres)
        centres[3] = anchor_x[u]
        for q in range(n_m - 1, -1, -1):
            for s in range(3):
                centres[s], scales[s] = _centre(r[u], n[u], members[s], m_nodes[q], centres[s])
            scales[3] = anchor_scale[u]
            low, high = _grid_ends(hits, rest, centres, scales)
            for i in range(4):
                scales[i] *= _WIDTH
            here = x[u, q]
            warm = q < n_m - 1
            if warm:
                # Grids change slowly with M: go on where the last two lead.
                far = min(q + 2, n_m - 1)
                for k in range(size):
                    here[k] = min(max(2.0 * x[u, q + 1, k] - x[u, far, k], low), high)
            _nodes(centres, scales, low, high, warm, here, log_weight[u, q], work)
            of_case, of_control = log_case[u, q], log_control[u, q]
            _likelihoods(r[u], n[u], case, most, m_nodes[q], here, of_case, of_control, work)
