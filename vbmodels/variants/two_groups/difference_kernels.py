# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Masses and moments of the difference between samples: a narrow component near, a wide one far.

`batch_null` has the equations. Loops over cells have no branch, so that the compiler turns them
into vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.core.normal_kernels import DENSITY, tail_over_bell
from vbmodels.variants.elementary_kernels import dot, exp
from vbmodels.variants.two_groups.pass_kernels import _largest

_LEAST = -690.0
_FAR = 37.0  # standard deviations: phi is 1e-298 there
_REACH = 6.5  # of the narrow component; beyond, the wide one is all there is
_BLOCK = 0.4  # least width of a block of cells, against the wide component's sd of 1.2
_FLOOR = 1e-290


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
def edges_of(x, edges):
    """Fill the ends [K + 1] of the nodes' cells: midpoints, and as far beyond the outer two."""
    size = x.shape[0]
    for k in range(1, size):
        edges[k] = 0.5 * (x[k - 1] + x[k])
    edges[0] = 2.0 * x[0] - edges[1]
    edges[size] = 2.0 * x[size - 1] - edges[size - 1]


@njit(cache=True, inline="always")
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
        phi[i] = exp(-0.5 * z[i] * z[i])
    for i in range(places.shape[0]):
        tail[i] = phi[i] * tail_over_bell(abs(z[i]))
        phi[i] *= DENSITY


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _masses(z, tail, d):
    """Fill the normal masses between places, each by the tails on its own side."""
    for i in range(d.shape[0]):
        below = tail[i + 1] - tail[i]
        across = 1.0 - tail[i] - tail[i + 1]
        if z[i + 1] <= 0.0:
            d[i] = below
        elif z[i] >= 0.0:
            d[i] = -below
        else:
            d[i] = across


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def first_beyond(places, limit):
    """Return the index of the last place that is at most ``limit``; 0 if there is none."""
    low, high = 0, places.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if places[middle] <= limit:
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
        here,
        centre,
        tau,
        case[low : high + 1],
        slope[low:high],
        work[1, :size],
        work[3, : size - 1],
    )
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
                own_height = height[first_beyond(ends[:count], here[k])]
                reach = wide * math.sqrt(2.0 * (23.0 - math.log(max(own_height, _FLOOR))))
                low = first_beyond(ends[:count], here[k] - reach)
                high = first_beyond(ends[:count], here[k] + reach) + 1
                far_masses(ends[low : high + 1], here[k], wide, work)
                whole = dot(height[low:high], work[3, : high - low])
                down = 0.0
                for i in range(low, high):
                    down += height[i] * (work[1, i - low] - work[1, i - low + 1])
                log_far[u, q, k] = top + math.log(max(whole, _FLOOR))
                far_slope[u, q, k] = down / wide / max(whole, _FLOOR)


@njit(cache=True, inline="always")
def far_moments(x, log_far, far_slope, top, b, wide, far):
    """Fill far [3, K]: E[u^i L_case(x + b + wide u)] e^-top for i = 0, 1, 2.

    The log is a cubic Hermite polynomial between nodes, which is exact for a normal; so with
    s its slope, E[u] = wide s E, E[u^2] = (1 + wide^2 (s^2 + s')) E.
    """
    size = x.shape[0]
    zero, first, second = far[0], far[1], far[2]
    i = 0
    for k in range(size):
        point = x[k] + b
        while i < size - 2 and x[i + 1] <= point:
            i += 1
        while i > 0 and x[i] > point:
            i -= 1
        width = x[i + 1] - x[i]
        f = (point - x[i]) / width
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
