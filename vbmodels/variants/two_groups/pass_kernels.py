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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def log_rates(x, lmu, lnu):
    """Fill log mu and log(1 - mu) at x = logit(mu)."""
    for k in range(x.shape[0]):
        soft = softplus(exp(-abs(x[k])))
        lmu[k] = min(x[k], 0.0) - soft
        lnu[k] = -max(x[k], 0.0) - soft


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def survival_places(x, n, place, basis):
    """Fill the table's interval of every node and the cubic Hermite basis [4, K] there.

    The table has ``n`` nodes, uniform in u = asinh(x / 2); basis functions are of the value
    and the slope at the left end, then of those at the right end.
    """
    step = 2.0 * _ENDS / (n - 1)
    for k in range(x.shape[0]):
        half = 0.5 * abs(x[k])
        u = log(half + math.sqrt(1.0 + half * half))
        at = ((u if x[k] >= 0.0 else -u) + _ENDS) / step
        at = min(max(at, 0.0), n - 1.000001)
        left = math.floor(at)
        f = at - left
        place[k] = int(left)
        square = f * f
        cube = square * f
        basis[2, k] = 3.0 * square - 2.0 * cube
        basis[0, k] = 1.0 - basis[2, k]
        basis[1, k] = (f - 2.0 * square + cube) * step
        basis[3, k] = (cube - square) * step


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def inverse_survival(place, basis, table, inverse):
    """Fill 1 / S at every node; ``table`` is [n, 2]: log S and its slope in u."""
    size = place.shape[0]
    of_left, of_slope, of_right, of_last = basis[0], basis[1], basis[2], basis[3]
    for k in range(size):
        i = place[k]
        value = of_left[k] * table[i, 0] + of_slope[k] * table[i, 1]
        inverse[k] = value + of_right[k] * table[i + 1, 0] + of_last[k] * table[i + 1, 1]
    for k in range(size):
        inverse[k] = exp(-inverse[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def sinc_above(g, cumulative, above):
    """Fill the integral of g above every node; see `quadrature.integral_above`."""
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
        of = g[c]
        for k in range(size):
            of[k] = log_weight[k] + log_case[k] + a * lmu[k] + b * lnu[k] + shift
        top = max(top, _largest(of))
    for c in range(n_alt):
        # A peak's tails lie below the broad component's, which is never cut off.
        least = _NEGLIGIBLE if c else _LEAST
        of = g[c]
        for k in range(size):
            off = of[k] - top
            value = exp(off)
            of[k] = value if off > least else 0.0
    return top


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def reweigh(table, under, log_m0, log_m1, sums):
    """One pass over a table: log m0 and log m1 of every unit, and the sums of the EM.

    ``table`` is of `table.Grids`, ``under`` of `table.Hypotheses`; ``sums`` [6 + n_alt - 1 + 36] is
    filled with (log marginal, units, sum w, sum log M, sum log^2 M, sum z by alternative,
    then weight, sum log mu and sum log (1-mu) for each of 12 types).
    """
    x, log_weight, log_case, log_control, kind = table
    log_w, log_not_w, log_p = under.log_w, under.log_not_w, under.log_p
    e_beta, alternatives, survival = under.e_beta, under.alternatives, under.survival
    restricted, cumulative = under.restricted, under.cumulative
    n_units, n_m, size = x.shape
    n_alt = alternatives.shape[0]
    rates = np.empty((4, size))
    lmu = np.empty(size)
    lnu = np.empty(size)
    g = np.empty((n_alt, size))
    above = np.empty(size)
    inverse = np.empty(size)
    tails = np.empty(size)
    weights = np.empty(size)
    place = np.empty(size, np.int64)
    basis = np.empty((4, size))
    spike = np.empty(4)
    broad = np.array([log_w, alternatives[0, 0], alternatives[0, 2]])
    # By node of M: H0 then H1; spike mass, broad mass, spike log mu, spike log(1-mu), offset.
    part = np.empty((n_m, 2, 5))
    z_alt = np.empty((n_m, n_alt))
    first_kind = 5 + n_alt
    for u in range(n_units):
        t = kind[u]
        spike[0] = log_not_w
        spike[1:] = e_beta[:, t]
        for q in range(n_m):
            log_rates(x[u, q], lmu, lnu)
            top0, top1 = spikes(
                log_weight[u, q], log_case[u, q], log_control[u, q], lmu, lnu, spike, broad, rates
            )
            top_g = log_alternatives(log_weight[u, q], log_case[u, q], lmu, lnu, alternatives, g)
            if restricted:
                survival_places(x[u, q], survival.shape[1], place, basis)
            for k in range(size):
                tails[k] = 0.0
                weights[k] = rates[0, k] + rates[1, k]
            for c in range(n_alt):
                whole = total(g[c])
                if restricted and whole > 0.0:
                    sinc_above(g[c], cumulative, above)
                    inverse_survival(place, basis, survival[c], inverse)
                    for k in range(size):
                        above[k] *= inverse[k]
                else:
                    for k in range(size):
                        above[k] = whole
                z_alt[q, c] = dot(weights, above)
                for k in range(size):
                    tails[k] += above[k]
            part[q, 0, 0] = total(rates[2])
            part[q, 0, 1] = total(rates[3])
            part[q, 0, 2] = dot(rates[2], lmu)
            part[q, 0, 3] = dot(rates[2], lnu)
            part[q, 0, 4] = log_p[q] + top0
            for k in range(size):
                weights[k] = rates[0, k] * tails[k]
            part[q, 1, 0] = total(weights)
            part[q, 1, 1] = dot(rates[1], tails)
            part[q, 1, 2] = dot(weights, lmu)
            part[q, 1, 3] = dot(weights, lnu)
            part[q, 1, 4] = log_p[q] + top1 + top_g
        log_m0[u], log_m1[u] = _add_unit(part, z_alt, under, first_kind + 3 * t, sums)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _log_sum(values):
    top = _largest(values)
    if top == -np.inf:
        return top
    whole = 0.0
    for k in range(values.shape[0]):
        whole += math.exp(values[k] - top)
    return top + math.log(whole)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_unit(part, z_alt, under, of_kind, sums):
    """Return one unit's log m0 and log m1 from its parts, and add to the EM's sums."""
    log_pi, log_not_pi, log_m = under.log_pi, under.log_not_pi, under.log_m
    n_m, n_alt = z_alt.shape
    mass = np.empty((n_m, 2))
    for q in range(n_m):
        for h in range(2):
            whole = part[q, h, 0] + part[q, h, 1]
            mass[q, h] = part[q, h, 4] + math.log(whole) if whole > 0.0 else -np.inf
    log_m0 = _log_sum(mass[:, 0])
    log_m1 = _log_sum(mass[:, 1])
    f0 = log_not_pi + log_m0
    f1 = log_pi + log_m1
    top = max(f0, f1)
    marginal = top + math.log(math.exp(f0 - top) + math.exp(f1 - top))
    sums[0] += marginal
    sums[1] += 1.0
    for q in range(n_m):
        # By what the node's mass is, never by its offset alone: e^offset may overflow.
        p0 = math.exp(mass[q, 0] + log_not_pi - marginal)
        p1 = math.exp(mass[q, 1] + log_pi - marginal)
        w0 = p0 / (part[q, 0, 0] + part[q, 0, 1])
        w1 = p1 / (part[q, 1, 0] + part[q, 1, 1]) if p1 > 0.0 else 0.0
        node = p0 + p1
        sums[2] += w0 * part[q, 0, 1] + w1 * part[q, 1, 1]
        sums[3] += node * log_m[q]
        sums[4] += node * log_m[q] * log_m[q]
        for c in range(n_alt):
            sums[5 + c] += w1 * z_alt[q, c]
        for v in range(3):
            source = 0 if v == 0 else v + 1
            sums[of_kind + v] += w0 * part[q, 0, source] + w1 * part[q, 1, source]
    return log_m0, log_m1
