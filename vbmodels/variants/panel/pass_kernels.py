# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled passes over the members of a panel; `panel` has the equations."""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import total
from vbmodels.variants.two_groups.difference_kernels import _near, _near_moments, relative
from vbmodels.variants.two_groups.pass_kernels import _largest, log_alternatives, log_rates

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
                grid = nodes[u, p, q]
                top = relative(log_member[u, p, q], values)
                _slopes(grid, values, slopes)
                lost = carried[u, p, q]
                for k in range(size):
                    mass = _near(grid, x[u, q, k] + shift[p, kind[u]], tau, values, slopes, work)
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _member(x, nodes, values, slopes, top, lost, eps, tau, work):
    """Return log p(a member's reads | the site's rate is x), and four moments.

    The probability that it does not carry the allele, and that times E u, E (u^2 - 1) and
    E (u^2 - 1)^2.

    Parameters
    ----------
    x
        The site's rate, shifted as the member's type is.
    own, values, slopes
        The member's nodes, and its likelihood there and the slopes; relative to e^top.
    lost, eps
        Log likelihood if the member carries the allele, and how probable that is.
    """
    m0, m1, m2, m4 = _near_moments(nodes, x, tau, values, slopes, work)
    if m0 <= _FLOOR:
        m0, m1, m2, m4 = _FLOOR, 0.0, 0.0, 0.0
    near = 1.0
    value = top + math.log(m0)
    if eps > 0.0:
        whole = _either(math.log1p(-eps) + value, math.log(eps) + lost)
        near = math.exp(math.log1p(-eps) + value - whole)
        value = whole
    high, fourth = near * (m2 / m0 - 1.0), near * ((m4 - 2.0 * m2) / m0 + 1.0)
    return value, near, near * m1 / m0, high, fourth


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_node(weight, p_panel, rows, matched, of_members):
    """Add a node's moments of the members to ``of_members`` [P, 3]; return E[S | x], E[S^2 | x].

    ``rows`` [P, 4] are of `_member`, ``weight`` is the node's probability, ``p_panel`` that the
    panel says something there.
    """
    a = b = a_sq = b_sq = 0.0
    for p in range(rows.shape[0]):
        by = weight if p < matched else weight * p_panel
        of_members[p, 0] += by * rows[p, 0]
        of_members[p, 1] += by * rows[p, 1]
        of_members[p, 2] += by * (rows[p, 2] + rows[p, 0])
        rest = rows[p, 3] - rows[p, 2] * rows[p, 2]
        if p < matched:
            b += rows[p, 2]
            b_sq += rest
        else:
            a += rows[p, 2]
            a_sq += rest
    square = p_panel * ((a + b) * (a + b) + a_sq + b_sq) + (1.0 - p_panel) * (b * b + b_sq)
    return p_panel * a + b, square


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_unit(of_members, moments, tau, sums, spread):
    """Add a unit's moments ``of_members`` [P, 3], and its E[S] and E[S^2], to the sums."""
    first, second = moments
    squares = 0.0
    for p in range(of_members.shape[0]):
        score = of_members[p, 1] / tau
        sums[p, 0] += of_members[p, 0]
        sums[p, 1] += score
        sums[p, 2] += (of_members[p, 0] - of_members[p, 2]) / (tau * tau) + score * score
        squares += of_members[p, 2]
    spread[0] += first
    spread[1] += 2.0 * squares - second + first * first


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
    tops, work = np.empty(n_members), np.empty((4, fine + 1))
    rows, of_members = np.empty((n_members, 4)), np.empty((n_members, 3))
    for u in range(n_units):
        t = kind[u]
        of_members[:] = 0.0
        first = second = 0.0
        for q in range(n_m):
            if _largest(probability[u, q]) <= _SLIGHT:
                continue
            for p in range(n_members):
                if seen[u, p]:
                    tops[p] = relative(log_member[u, p, q], values[p])
                    _slopes(nodes[u, p, q], values[p], slopes[p])
            for k in range(size):
                weight = probability[u, q, k]
                if weight <= _SLIGHT:
                    continue
                rows[:] = 0.0
                others = 0.0
                for p in range(n_members):
                    if seen[u, p]:
                        value, rows[p, 0], rows[p, 1], rows[p, 2], rows[p, 3] = _member(
                            x[u, q, k] + shift[p, t],
                            nodes[u, p, q],
                            values[p],
                            slopes[p],
                            tops[p],
                            carried[u, p, q],
                            eps[p],
                            tau,
                            work,
                        )
                        others += value if p >= matched else 0.0
                p_panel = 1.0  # probability that the panel says something
                if common > 0.0:
                    others += math.log1p(-common)
                    p_panel = math.exp(
                        others - _either(others, math.log(common) + log_people[u, q])
                    )
                mean, square = _add_node(weight, p_panel, rows, matched, of_members)
                first += weight * mean
                second += weight * square
        _add_unit(of_members, (first, second), tau, sums[:, t], spread)
