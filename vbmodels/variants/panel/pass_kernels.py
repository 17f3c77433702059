# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled passes over the members of a panel; `panel` has the equations."""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import total
from vbmodels.variants.two_groups.batch_null_kernels import _near, _near_moments, relative
from vbmodels.variants.two_groups.pass_kernels import log_alternatives, log_rates

_FLOOR = 1e-290
_SLIGHT = 1e-10  # nodes of less probability add nothing to the sums


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def carry(x, log_weight, log_member, alternatives, carried):
    """Fill log int L_p g [U, Q] for one member, g the sum of the alternatives.

    ``alternatives`` is [n_alt, 4]: a, b, log B(a, b) and the log weight of a Beta.
    """
    n_units, n_m, size = x.shape
    lmu, lnu, g = np.empty(size), np.empty(size), np.empty((alternatives.shape[0], size))
    for u in range(n_units):
        for q in range(n_m):
            log_rates(x[u, q], lmu, lnu)
            top = log_alternatives(log_weight[u, q], log_member[u, q], lmu, lnu, alternatives, g)
            whole = 0.0
            for c in range(g.shape[0]):
                whole += total(g[c])
            carried[u, q] = top + math.log(max(whole, _FLOOR))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _slopes(x, values, slopes):
    for i in range(x.shape[0] - 1):
        slopes[i] = (values[i + 1] - values[i]) / (x[i + 1] - x[i])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _either(a, b):
    """Return log(e^a + e^b)."""
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def combine(x, kind, panel, under, log_panel):
    """Fill log L_panel at the nodes x of the site's rate, [U, Q, K]."""
    nodes, log_member, carried, seen, log_people = panel
    shift, tau, eps, common, matched = under
    n_units, n_m, size = x.shape
    n_members, fine = nodes.shape[1], nodes.shape[3]
    values, slopes = np.empty(fine), np.empty(fine)
    work = np.empty((4, fine + 1))
    others = np.empty(size)
    for u in range(n_units):
        for q in range(n_m):
            out = log_panel[u, q]
            out[:] = 0.0
            others[:] = 0.0
            for p in range(n_members):
                if not seen[u, p]:
                    continue
                own = nodes[u, p, q]
                top = relative(log_member[u, p, q], values)
                _slopes(own, values, slopes)
                lost = carried[u, p, q]
                for k in range(size):
                    mass = _near(own, x[u, q, k] + shift[p, kind[u]], tau, values, slopes, work)
                    value = top + math.log(max(mass, _FLOOR))
                    if eps[p] > 0.0:
                        value = _either(math.log1p(-eps[p]) + value, math.log(eps[p]) + lost)
                    if p < matched:
                        others[k] += value
                    else:
                        out[k] += value
            if common > 0.0:
                for k in range(size):
                    out[k] = _either(
                        math.log1p(-common) + out[k], math.log(common) + log_people[u, q]
                    )
            for k in range(size):
                out[k] += others[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_members(x, kind, panel, under, probability, sums, spread):
    """Add to ``sums`` [P, 12, 3] and to ``spread`` [2] what the members say.

    By member and type: expected units whose member does not carry the allele, score and observed
    information in b_pt (Louis 1982); score and information in log tau. With a_p = z_p (u_p^2 - 1)
    and S = sum_p a_p, the information is 2 sum_p E[z_p u_p^2] - E[S^2] + E[S]^2, where
    E[S^2 | x] = (sum_p E a_p)^2 + sum_p Var a_p. What the members' scores have in common with the
    case's is left out: it makes a step in tau shorter, and the maximum is the same.
    ``probability`` [U, Q, K] is the posterior of every node of M and x.
    """
    nodes, log_member, carried, seen, log_people = panel
    shift, tau, eps, common, matched = under
    n_units, n_m, size = x.shape
    n_members, fine = nodes.shape[1], nodes.shape[3]
    values, slopes = np.empty((n_members, fine)), np.empty((n_members, fine))
    tops = np.empty(n_members)
    work = np.empty((4, fine + 1))
    row = np.empty((n_members, 4))  # weight near, E u, E (u^2 - 1), E (u^2 - 1)^2
    of = np.empty((n_members, 3))
    for u in range(n_units):
        of[:] = 0.0
        first = second = squares = 0.0
        for q in range(n_m):
            largest = 0.0
            for k in range(size):
                largest = max(largest, probability[u, q, k])
            if largest <= _SLIGHT:
                continue
            for p in range(n_members):
                if seen[u, p]:
                    tops[p] = relative(log_member[u, p, q], values[p])
                    _slopes(nodes[u, p, q], values[p], slopes[p])
            for k in range(size):
                weight = probability[u, q, k]
                if weight <= _SLIGHT:
                    continue
                row[:] = 0.0
                told = 0.0
                for p in range(n_members):
                    if not seen[u, p]:
                        continue
                    centre = x[u, q, k] + shift[p, kind[u]]
                    m0, m1, m2, m4 = _near_moments(
                        nodes[u, p, q], centre, tau, values[p], slopes[p], work
                    )
                    if m0 <= _FLOOR:
                        m0, m1, m2, m4 = _FLOOR, 0.0, 0.0, 0.0
                    near = 1.0
                    value = tops[p] + math.log(m0)
                    if eps[p] > 0.0:
                        lost = carried[u, p, q]
                        whole = _either(math.log1p(-eps[p]) + value, math.log(eps[p]) + lost)
                        near = math.exp(math.log1p(-eps[p]) + value - whole)
                        value = whole
                    told += value if p >= matched else 0.0
                    row[p, 0] = near
                    row[p, 1] = near * m1 / m0
                    row[p, 2] = near * (m2 / m0 - 1.0)
                    row[p, 3] = near * ((m4 - 2.0 * m2) / m0 + 1.0)
                own = 1.0  # probability that the panel says something
                if common > 0.0:
                    told += math.log1p(-common)
                    own = math.exp(told - _either(told, math.log(common) + log_people[u, q]))
                a = b = a_sq = b_sq = 0.0
                for p in range(n_members):
                    by = weight if p < matched else weight * own
                    of[p, 0] += by * row[p, 0]
                    of[p, 1] += by * row[p, 1]
                    of[p, 2] += by * (row[p, 2] + row[p, 0])
                    rest = row[p, 3] - row[p, 2] * row[p, 2]
                    if p < matched:
                        b += row[p, 2]
                        b_sq += rest
                    else:
                        a += row[p, 2]
                        a_sq += rest
                first += weight * (own * a + b)
                second += weight * (
                    own * ((a + b) * (a + b) + a_sq + b_sq) + (1.0 - own) * (b * b + b_sq)
                )
        for p in range(n_members):
            score = of[p, 1] / tau
            sums[p, kind[u], 0] += of[p, 0]
            sums[p, kind[u], 1] += score
            sums[p, kind[u], 2] += (of[p, 0] - of[p, 2]) / (tau * tau) + score * score
            squares += of[p, 2]
        spread[0] += first
        spread[1] += 2.0 * squares - second + first * first
