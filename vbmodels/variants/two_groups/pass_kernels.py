# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled form of the two-groups pass, whose equations are in `model`.

All work on the K nodes of a grid is done by loops over the nodes without a branch, which
the compiler turns into vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import dot, exp, log, softplus, total

_NEGLIGIBLE = -30.0
_LEAST = -690.0  # `exp` is held at -700: below, a density is 0, not e^-700
_ENDS = 6.0  # of the survival tables, in u = asinh(x / 2)
SPIKE, BROAD, LOG_MU, LOG_NU, OFFSET = range(5)
"""Of a node of M under a hypothesis: mass of the spike and of the broad component, the spike's
log mu and log(1 - mu), and the log of what all are relative to."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def log_rates(x, lmu, lnu):
    """Fill log mu and log(1 - mu) at x = logit(mu)."""
    for k in range(x.shape[0]):
        soft = softplus(exp(-abs(x[k])))
        lmu[k] = min(x[k], 0.0) - soft
        lnu[k] = -max(x[k], 0.0) - soft


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def survival_places(x, n, interval, basis):
    """Fill the table's interval of every node and the cubic Hermite basis [4, K] there.

    The table has ``n`` nodes, uniform in u = asinh(x / 2); basis functions are of the value
    and the slope at the left end, then of those at the right end.
    """
    step = 2.0 * _ENDS / (n - 1)
    for k in range(x.shape[0]):
        half = 0.5 * abs(x[k])
        u = log(half + math.sqrt(1.0 + half * half))
        position = ((u if x[k] >= 0.0 else -u) + _ENDS) / step
        position = min(max(position, 0.0), n - 1.000001)
        left = math.floor(position)
        f = position - left
        interval[k] = int(left)
        square = f * f
        cube = square * f
        basis[2, k] = 3.0 * square - 2.0 * cube
        basis[0, k] = 1.0 - basis[2, k]
        basis[1, k] = (f - 2.0 * square + cube) * step
        basis[3, k] = (cube - square) * step


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def inverse_survival(interval, basis, table, inverse):
    """Fill 1 / S at every node; ``table`` is [n, 2]: log S and its slope in u."""
    size = interval.shape[0]
    of_left, of_slope, of_right, of_last = basis[0], basis[1], basis[2], basis[3]
    for k in range(size):
        i = interval[k]
        value = of_left[k] * table[i, 0] + of_slope[k] * table[i, 1]
        inverse[k] = value + of_right[k] * table[i + 1, 0] + of_last[k] * table[i + 1, 1]
    for k in range(size):
        inverse[k] = exp(-inverse[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def sinc_above(g, cumulative, above):
    """Fill the integral of g above every node, by the sinc rule (`quadrature.sinc_cumulative`)."""
    size = g.shape[0]
    for k in range(size):
        above[k] = dot(g, cumulative[size - 1 - k : 2 * size - 1 - k])
    rest = 0.0
    for k in range(size - 1, -1, -1):
        # Deep in the tail the sinc rule is noise: the trapezoid has the size.
        coarse = rest + 0.5 * g[k]
        above[k] = min(max(above[k], 0.05 * coarse), 1.5 * coarse)
        rest += g[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def sinc_below(f, backward, below):
    """Fill the integral of f below every node; ``backward`` is the reversed `cumulative`."""
    size = f.shape[0]
    rest = 0.0
    for k in range(size):
        coarse = rest + 0.5 * f[k]
        value = dot(f, backward[size - 1 - k : 2 * size - 1 - k])
        below[k] = min(max(value, 0.05 * coarse), 1.5 * coarse)
        rest += f[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _largest(values):
    top = -np.inf
    for k in range(values.shape[0]):
        top = max(top, values[k])
    return top


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def spikes(log_weight, log_case, log_control, lmu, lnu, spike, broad, rates):
    """Fill [2, K] spike and broad densities times likelihood, of H0 and of the control alone.

    Both are relative to their largest value, which is returned for each of the two.
    ``spike`` is (log(1-w), A, B, log B(A, B)), ``broad`` (log w, a, log B(a, a)).
    """
    size = lmu.shape[0]
    of_spike, of_broad, joint_spike, joint_broad = rates[0], rates[1], rates[2], rates[3]
    offset_spike = spike[0] - spike[3]
    offset_broad = broad[0] - broad[2]
    for k in range(size):
        base = log_weight[k] + log_control[k]
        of_spike[k] = base + offset_spike + spike[1] * lmu[k] + spike[2] * lnu[k]
        of_broad[k] = base + offset_broad + broad[1] * (lmu[k] + lnu[k])
        joint_spike[k] = of_spike[k] + log_case[k]
        joint_broad[k] = of_broad[k] + log_case[k]
    top1 = max(_largest(of_spike), _largest(of_broad))
    top0 = max(_largest(joint_spike), _largest(joint_broad))
    for row in range(4):
        top = top1 if row < 2 else top0
        for k in range(size):
            off = rates[row, k] - top
            value = exp(off)
            rates[row, k] = value if off > _LEAST else 0.0
    return top0, top1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def log_alternatives(log_weight, log_case, lmu, lnu, alternatives, g):
    """Fill g [n_alt, K], relative to its largest value, which is returned."""
    n_alt, size = g.shape
    top = -np.inf
    for c in range(n_alt):
        a, b = alternatives[c, 0], alternatives[c, 1]
        shift = alternatives[c, 3] - alternatives[c, 2]
        values = g[c]
        for k in range(size):
            values[k] = log_weight[k] + log_case[k] + a * lmu[k] + b * lnu[k] + shift
        top = max(top, _largest(values))
    for c in range(n_alt):
        # A peak's tails lie below the broad component's, which is never cut off.
        least = _NEGLIGIBLE if c else _LEAST
        values = g[c]
        for k in range(size):
            off = values[k] - top
            value = exp(off)
            values[k] = value if off > least else 0.0
    return top


@njit(cache=True, inline="always")
def _fill_part(rates, lmu, lnu, tails, weights, offsets, part):
    """Fill one node's masses of H0 and H1 [2, 5]; ``tails`` is H1's mass above every node."""
    part[0, SPIKE] = total(rates[2])
    part[0, BROAD] = total(rates[3])
    part[0, LOG_MU] = dot(rates[2], lmu)
    part[0, LOG_NU] = dot(rates[2], lnu)
    for k in range(lmu.shape[0]):
        weights[k] = rates[0, k] * tails[k]
    part[1, SPIKE] = total(weights)
    part[1, BROAD] = dot(rates[1], tails)
    part[1, LOG_MU] = dot(weights, lmu)
    part[1, LOG_NU] = dot(weights, lnu)
    part[0, OFFSET], part[1, OFFSET] = offsets


@njit(cache=True, inline="always")
def _fill_unit(x, log_weight, log_case, log_control, under, spike, broad, room, part, z_alt):
    """Fill a unit's masses of H0 and H1 [Q, 2, 5] and of the alternatives [Q, n_alt]."""
    rates, g, lmu, lnu, above, inverse, tails, weights, interval, basis = room
    alternatives, survival, restricted = under.alternatives, under.survival, under.restricted
    log_p, cumulative = under.log_p, under.cumulative
    size = x.shape[1]
    for q in range(x.shape[0]):
        log_rates(x[q], lmu, lnu)
        top0, top1 = spikes(
            log_weight[q], log_case[q], log_control[q], lmu, lnu, spike, broad, rates
        )
        top_g = log_alternatives(log_weight[q], log_case[q], lmu, lnu, alternatives, g)
        if restricted:
            survival_places(x[q], survival.shape[1], interval, basis)
        for k in range(size):
            tails[k] = 0.0
            weights[k] = rates[0, k] + rates[1, k]
        for c in range(g.shape[0]):
            whole = total(g[c])
            if restricted and whole > 0.0:
                sinc_above(g[c], cumulative, above)
                inverse_survival(interval, basis, survival[c], inverse)
                for k in range(size):
                    above[k] *= inverse[k]
            else:
                for k in range(size):
                    above[k] = whole
            z_alt[q, c] = dot(weights, above)
            for k in range(size):
                tails[k] += above[k]
        offsets = (log_p[q] + top0, log_p[q] + top1 + top_g)
        _fill_part(rates, lmu, lnu, tails, weights, offsets, part[q])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def e_step(table, under, part, z_alt):
    """Fill the masses of every unit's hypotheses.

    Parameters
    ----------
    table, under
        `table.Grids` and `table.Hypotheses`.
    part
        [U, Q, 2, 5] to be filled with `SPIKE` to `OFFSET`, by node of M, under H0 and H1.
    z_alt
        [U, Q, n_alt] to be filled with the mass of each alternative.
    """
    x, log_weight, log_case, log_control, kind = table
    alternatives = under.alternatives
    n_units, size = x.shape[0], x.shape[2]
    row = np.empty((6, size))
    room = (
        np.empty((4, size)),
        np.empty((alternatives.shape[0], size)),
        row[0],
        row[1],
        row[2],
        row[3],
        row[4],
        row[5],
        np.empty(size, np.int64),
        np.empty((4, size)),
    )
    spike = np.empty(4)
    broad = np.array([under.log_w, alternatives[0, 0], alternatives[0, 2]])
    for u in range(n_units):
        spike[0] = under.log_not_w
        for i in range(3):
            spike[i + 1] = under.e_beta[i, kind[u]]
        _fill_unit(
            x[u],
            log_weight[u],
            log_case[u],
            log_control[u],
            under,
            spike,
            broad,
            room,
            part[u],
            z_alt[u],
        )
