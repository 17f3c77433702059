# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled passes over units for `batch_null`, whose docstring has the equations.

Loops over cells have no branch, so that the compiler turns them into vector instructions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.elementary_kernels import exp, total
from vbmodels.variants.two_groups.difference_kernels import (
    _near,
    _near_moments,
    edges_of,
    far_moments,
    relative,
)
from vbmodels.variants.two_groups.pass_kernels import (
    BROAD,
    LOG_MU,
    LOG_NU,
    OFFSET,
    SPIKE,
    _largest,
    inverse_survival,
    log_alternatives,
    log_rates,
    survival_places,
)

_LEAST = -690.0
_SKIPPED = -14.0  # nodes of M that can hold no more than e^-14 of the whole are left out
_SLIGHT = 1e-8  # so are nodes of x that can add no more than this share
NEAR, FAR, RISE = 0, 4, 7
"""Moments of the difference u: E[u^i] near (i = 0, 1, 2, 4), E[u^i] far (i = 0, 1, 2), and the
slope of H1's mass in b."""


class Masses(NamedTuple):
    """What a pass fills of every unit, by node of M; all 0 before.

    Attributes
    ----------
    part
        [U, Q, 2, 5] `SPIKE` to `OFFSET` under H0 and H1.
    z_alt
        [U, Q, n_alt] mass of each alternative.
    extra
        [U, Q, 8] `NEAR`, `FAR` and `RISE`.
    at_tau
        [U, Q, n_tau] mass under H0 at each tau of the profile.
    nodes
        [U, Q, 2, K] mass under H0 and H1 at the nodes of x; or none.
    """

    part: FloatArray
    z_alt: FloatArray
    extra: FloatArray
    at_tau: FloatArray
    nodes: FloatArray


class Room(NamedTuple):
    """Room for one node of M: densities by node of x, as their functions fill them.

    ``edges`` and ``above`` are [K + 1], ``work`` [4, K + 1], ``moments`` [K, 4]. Names with ``at``
    are of the shifted nodes x + b.
    """

    g: FloatArray
    case: FloatArray
    slopes: FloatArray
    far: FloatArray
    work: FloatArray
    kept: IntArray
    moments: FloatArray
    edges: FloatArray
    above: FloatArray
    at: FloatArray
    lmu_at: FloatArray
    lnu_at: FloatArray
    inverse: FloatArray
    survive: FloatArray
    slope: FloatArray
    place: IntArray
    basis: FloatArray
    cell: IntArray
    within: FloatArray
    inverse_width: FloatArray


class Unit(NamedTuple):
    """Room for one unit, by node of M.

    Attributes
    ----------
    tops, bound
        [Q, 2] and [Q] logs of what likelihoods are relative to, and of what a node can hold.
    rates
        [Q, 2, K] spike and broad density of the error rates, their logs before a node is looked at.
    lmu, lnu
        [Q, K] log mu and log(1 - mu).
    """

    tops: FloatArray
    bound: FloatArray
    rates: FloatArray
    lmu: FloatArray
    lnu: FloatArray


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


@njit(cache=True, inline="always")
def errors(rates, top):
    """Turn logs [2, K] into values relative to e^top."""
    for row in range(2):
        values = rates[row]
        for k in range(values.shape[0]):
            off = values[k] - top
            value = exp(off)
            values[k] = value if off > _LEAST else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def cells_of(edges, places, cell, part, inverse_width):
    """Fill in which cell rising places lie and what part of it is above them.

    Before the first cell: all of it, and slope 0; beyond the last none of it.
    """
    size = edges.shape[0] - 1
    i = 0
    for k in range(places.shape[0]):
        while i < size - 1 and edges[i + 1] <= places[k]:
            i += 1
        cell[k] = i
        width = edges[i + 1] - edges[i]
        part[k] = (edges[i + 1] - places[k]) / width
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


@njit(cache=True, inline="always")
def cut_slope(shape, floor, lmu, lnu, inverse, survive, slope):
    """Turn an integral above places and its slope into those of its ratio to the survival."""
    for k in range(survive.shape[0]):
        density = exp(shape[0] * lmu[k] + shape[1] * lnu[k] - shape[2])
        hazard = (1.0 - floor) * density * inverse[k]
        slope[k] = (slope[k] + survive[k] * hazard) * inverse[k]
        survive[k] *= inverse[k]


@njit(cache=True, inline="always")
def room_of(n_alt, size):
    """Return empty room for nodes of M."""
    rows, ends = np.empty((9, size)), np.empty((2, size + 1))
    return Room(
        np.empty((n_alt, size)),
        rows[0],
        rows[1],
        np.empty((3, size)),
        np.empty((4, size + 1)),
        np.empty(size, np.int64),
        np.empty((size, 4)),
        ends[0],
        ends[1],
        rows[2],
        rows[3],
        rows[4],
        rows[5],
        rows[6],
        rows[7],
        np.empty(size, np.int64),
        np.empty((4, size)),
        np.empty(size, np.int64),
        np.empty(size),
        rows[8],
    )


@njit(cache=True, inline="always")
def _bounds(x, log_weight, log_case, log_control, log_p, spike, broad, unit, part):
    """Fill what a unit's nodes of M are relative to and what they can hold."""
    for q in range(x.shape[0]):
        lmu, lnu = unit.lmu[q], unit.lnu[q]
        log_rates(x[q], lmu, lnu)
        unit.tops[q, 0] = _largest(log_case[q])
        unit.tops[q, 1] = error_logs(
            log_weight[q], log_control[q], lmu, lnu, spike, broad, unit.rates[q]
        )
        part[q, 0, OFFSET] = log_p[q] + unit.tops[q, 0] + unit.tops[q, 1]
        unit.bound[q] = part[q, 0, OFFSET] + math.log(2.0 * x.shape[1])
        part[q, 1, OFFSET] = -np.inf


@njit(cache=True, inline="always")
def _near_nodes(here, rates, b, tau, v, room):
    """Fill the moments [K, 4] of the difference near the nodes that count; return how many do.

    `Room.kept` are these nodes, from the largest error rate's density down to lower rates, then up.
    """
    case, slopes, moments = room.case, room.slopes, room.moments
    count, size = 0, here.shape[0]
    of_spike = of_broad = 0.0
    for k in range(size - 1):
        slopes[k] = (case[k + 1] - case[k]) / (here[k + 1] - here[k])
    start, top = 0, -np.inf
    for k in range(size):
        a = rates[0, k] + rates[1, k]
        if a > top:
            start, top = k, a
    for i in range(size):
        k = start - i if i <= start else i
        if rates[0, k] + rates[1, k] <= _SLIGHT * (of_spike + of_broad):
            continue
        m0, m1, m2, m4 = _near_moments(here, here[k] + b, tau, case, slopes, room.work)
        both = (1.0 - v) * m0 + v * room.far[0, k]
        of_spike += rates[0, k] * both
        of_broad += rates[1, k] * both
        moments[k, 0], moments[k, 1], moments[k, 2], moments[k, 3] = m0, m1, m2, m4
        room.kept[count] = k
        count += 1
    return count


@njit(cache=True, inline="always")
def _add_null(nodes, rates, lmu, lnu, v, room, part, extra, masses):
    """Add a node of M to what a unit is under H0; ``masses`` [2, K] are of `Masses.nodes`."""
    for k in nodes:
        a = rates[0, k] + rates[1, k]
        both = (1.0 - v) * room.moments[k, 0] + v * room.far[0, k]
        of_spike = rates[0, k] * both
        if masses.shape[1]:
            masses[0, k] = a * both
        part[SPIKE] += of_spike
        part[BROAD] += rates[1, k] * both
        part[LOG_MU] += of_spike * lmu[k]
        part[LOG_NU] += of_spike * lnu[k]
        for j in range(4):
            extra[NEAR + j] += a * (1.0 - v) * room.moments[k, j]
        for j in range(3):
            extra[FAR + j] += a * v * room.far[j, k]


@njit(cache=True, inline="always")
def _add_profile(here, rates, b, profile, v, nodes, room, at_tau):
    """Add what a node of M is under H0 at each tau of the profile."""
    for k in nodes:
        a, away = rates[0, k] + rates[1, k], v * room.far[0, k]
        for j in range(profile.shape[0]):
            near = _near(here, here[k] + b, profile[j], room.case, room.slopes, room.work)
            at_tau[j] += a * (away + (1.0 - v) * near)


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    forceinline=True,
    fastmath={"reassoc", "nsz", "contract"},
)
def _other_sums(rates, survive, slope, lmu, lnu):
    """Return an alternative's mass of the spike and of the broad component, the spike's log mu and
    log(1 - mu), and the slope of the mass in b."""
    of_spike = of_broad = of_mu = of_nu = rise = 0.0
    for k in range(survive.shape[0]):
        spike = rates[0, k] * survive[k]
        of_spike += spike
        of_broad += rates[1, k] * survive[k]
        of_mu += spike * lmu[k]
        of_nu += spike * lnu[k]
        rise += (rates[0, k] + rates[1, k]) * slope[k]
    return of_spike, of_broad, of_mu, of_nu, rise


@njit(cache=True, inline="always")
def _best(best, part):
    """Return the larger of ``best`` and the log of a node's mass."""
    whole = part[SPIKE] + part[BROAD]
    return max(best, part[OFFSET] + math.log(whole)) if whole > 0.0 else best


@njit(cache=True, inline="always")
def _place(here, b, n, room):
    """Fill where the shifted nodes of x are: in cells, in survival tables, and their logs."""
    edges_of(here, room.edges)
    for k in range(here.shape[0]):
        room.at[k] = here[k] + b
    survival_places(room.at, n, room.place, room.basis)
    log_rates(room.at, room.lmu_at, room.lnu_at)
    cells_of(room.edges, room.at, room.cell, room.within, room.inverse_width)


@njit(cache=True, inline="always")
def _largest_first(values, order):
    """Fill the places of values from the largest down, of equal ones in their order."""
    for i in range(values.shape[0]):
        j = i
        while j > 0 and values[order[j - 1]] < values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@njit(cache=True, inline="always")
def _fill_other(u, q, here, b, log_weight, log_case, log_top, hypotheses, room, unit, masses):
    """Fill node q of M under H1; ``log_top``: the log of its mass but for the alternatives."""
    lmu, lnu, rates, part = unit.lmu[q], unit.lnu[q], unit.rates[q], masses.part[u, q, 1]
    nodes, survive, slope = masses.nodes[u, q, 1], room.survive, room.slope
    part[OFFSET] = log_top + log_alternatives(
        log_weight, log_case, lmu, lnu, hypotheses.alternatives, room.g
    )
    if hypotheses.restricted:
        _place(here, b, hypotheses.survival.shape[1], room)
    for c in range(room.g.shape[0]):
        whole = total(room.g[c])
        if whole <= 0.0:
            continue
        if hypotheses.restricted:
            g = room.g[c]
            above_at(room.cell, room.within, room.inverse_width, g, room.above, survive, slope)
            inverse_survival(room.place, room.basis, hypotheses.survival[c], room.inverse)
            shape, floor = hypotheses.alternatives[c], 0.05 if c else 0.0
            cut_slope(shape, floor, room.lmu_at, room.lnu_at, room.inverse, survive, slope)
        else:
            survive[:], slope[:] = whole, 0.0
        of_spike, of_broad, of_mu, of_nu, rise = _other_sums(rates, survive, slope, lmu, lnu)
        masses.z_alt[u, q, c] = of_spike + of_broad
        part[SPIKE] += of_spike
        part[BROAD] += of_broad
        part[LOG_MU] += of_mu
        part[LOG_NU] += of_nu
        masses.extra[u, q, RISE] += rise
        for k in range(nodes.shape[0]):
            nodes[k] += (rates[0, k] + rates[1, k]) * survive[k]


@njit(cache=True, inline="always")
def _fill_unit(table, u, under, spike, broad, room, unit, masses):
    """Fill one unit's masses; nodes of M that can hold next to nothing are skipped."""
    log_p, profile, tau, wide, v = under.of.log_p, under.profile, under.tau, under.wide, under.v
    b, grids = under.shift[table.group[u]], table.of
    x, log_weight, log_case = grids.x[u], grids.log_weight[u], grids.log_case[u]
    log_control, log_far, far_slope = grids.log_control[u], table.log_far[u], table.far_slope[u]
    _bounds(x, log_weight, log_case, log_control, log_p, spike, broad, unit, masses.part[u])
    best0 = best1 = -np.inf
    order = np.empty(x.shape[0], np.int64)
    _largest_first(unit.bound, order)
    for q in order:
        of_null, of_other = unit.bound[q] > best0 + _SKIPPED, unit.bound[q] + 3.0 > best1 + _SKIPPED
        if not (of_null or of_other):
            continue
        here, top, rates = x[q], unit.tops[q, 1], unit.rates[q]
        errors(rates, top)
        if of_null:
            relative(log_case[q], room.case)
            far_moments(here, log_far[q], far_slope[q], unit.tops[q, 0], b, wide, room.far)
            near = room.kept[: _near_nodes(here, rates, b, tau, v, room)]
            _add_null(
                near,
                rates,
                unit.lmu[q],
                unit.lnu[q],
                v,
                room,
                masses.part[u, q, 0],
                masses.extra[u, q],
                masses.nodes[u, q],
            )
            _add_profile(here, rates, b, profile, v, near, room, masses.at_tau[u, q])
            best0 = _best(best0, masses.part[u, q, 0])
        if of_other:
            _fill_other(
                u,
                q,
                here,
                b,
                log_weight[q],
                log_case[q],
                log_p[q] + top,
                under.of,
                room,
                unit,
                masses,
            )
            best1 = _best(best1, masses.part[u, q, 1])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def e_step(table, under, masses):
    """Fill the `Masses` of every unit of a `batch_null.Widened` under a `batch_null.Shifted`."""
    hypotheses, kind = under.of, table.of.kind
    n_units, n_m, size = table.of.x.shape
    room = room_of(hypotheses.alternatives.shape[0], size)
    unit = Unit(
        np.empty((n_m, 2)),
        np.empty(n_m),
        np.empty((n_m, 2, size)),
        np.empty((n_m, size)),
        np.empty((n_m, size)),
    )
    spike = np.empty(4)
    broad = np.array(
        [hypotheses.log_w, hypotheses.alternatives[0, 0], hypotheses.alternatives[0, 2]]
    )
    for u in range(n_units):
        spike[0] = hypotheses.log_not_w
        for i in range(3):
            spike[i + 1] = hypotheses.e_beta[i, kind[u]]
        _fill_unit(table, u, under, spike, broad, room, unit, masses)
