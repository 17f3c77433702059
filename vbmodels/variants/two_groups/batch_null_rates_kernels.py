# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled posteriors of both samples' rates under the batch-aware null."""

from __future__ import annotations

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import exp, total
from vbmodels.variants.two_groups.batch_null_kernels import (
    above_at,
    cells_of,
    edges_of,
    error_logs,
    errors,
    far_masses,
    near_masses,
    reach_of,
    relative,
    room_of,
)
from vbmodels.variants.two_groups.pass_kernels import (
    inverse_survival,
    log_alternatives,
    log_rates,
    survival_places,
)
from vbmodels.variants.two_groups.rates_kernels import mix


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_null(here, edges, a, case, b, under, work, out):
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
        found = 0.0
        for i in range(low, high):
            value = (1.0 - under.v) * a[k] * case[i] * row[i - low]
            out[0, i] += value
            found += value
        far_masses(edges, centre, under.wide, work)
        for i in range(size):
            value = under.v * a[k] * case[i] * row[i]
            out[0, i] += value
            found += value
        out[2, k] += found


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_alternatives(here, b, of, a, room, back, out):
    """Add H1's masses of the case to out[1] and of the control to out[3].

    ``back`` is room of [K] for cells, parts and a density: where the case's nodes less b lie.
    """
    size = here.shape[0]
    back_cell, back_part, cut = back
    at, edges, g, above, inverse = room.at, room.edges, room.g, room.above, room.inverse
    cell, within, width, place, basis = (
        room.cell, room.within, room.inverse_width, room.place, room.basis,
    )  # fmt: skip
    survive, slope, survival, restricted = room.survive, room.slope, of.survival, of.restricted
    if restricted:
        for k in range(size):
            at[k] = here[k] + b
        survival_places(at, survival.shape[1], place, basis)
        cells_of(edges, at, cell, within, width)
        for k in range(size):
            at[k] = here[k] - b
        cells_of(edges, at, back_cell, back_part, width)
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
        inverse_survival(place, basis, survival[c], inverse)
        above_at(cell, within, width, g[c], above, survive, slope)
        for k in range(size):
            cut[k] = a[k] * inverse[k]
            out[3, k] += cut[k] * survive[k]
        above_at(back_cell, back_part, width, cut, above, survive, slope)
        everything = above[0]
        for k in range(size):
            out[1, k] += g[c, k] * max(everything - survive[k], 0.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def posteriors(table, group, under, levels, result):
    """Fill [U, 2, 2 + L]: mean and sd of mu and quantiles of x, for mu_case and mu_control.

    ``table`` is of `table.Grids`, ``under`` of `batch_null.Shifted`; ``group`` [U] is which of the
    shifts each unit has.
    """
    x, log_weight, log_case, log_control, kind = table
    of, alternatives = under.of, under.of.alternatives
    n_units, n_m, size = x.shape
    room = room_of(alternatives.shape[0], size)
    rates, lmu, lnu, a = room.rates, room.lmu, room.lnu, np.empty(size)
    back = (np.empty(size, np.int64), np.empty(size), np.empty(size))
    spike = np.empty(4)
    broad = np.array([of.log_w, alternatives[0, 0], alternatives[0, 2]])
    parts, offsets = np.empty((n_m, 4, size)), np.empty((n_m, 2))
    mu, mass, cdf = np.empty((n_m, size)), np.empty((n_m, size)), np.empty((n_m, size))
    backward = of.cumulative[::-1].copy()
    for u in range(n_units):
        b = under.shift[group[u]]
        spike[0] = of.log_not_w
        spike[1:] = of.e_beta[:, kind[u]]
        parts[:] = 0.0
        for q in range(n_m):
            here, out = x[u, q], parts[q]
            log_rates(here, lmu, lnu)
            top = error_logs(log_weight[u, q], log_control[u, q], lmu, lnu, spike, broad, rates)
            errors(rates, top)
            for k in range(size):
                mu[q, k] = exp(lmu[k])
                a[k] = rates[0, k] + rates[1, k]
            edges_of(here, room.edges)
            top_case = relative(log_case[u, q], room.case)
            _add_null(here, room.edges, a, room.case, b, under, room.work, out)
            top_g = log_alternatives(
                log_weight[u, q], log_case[u, q], lmu, lnu, alternatives, room.g
            )
            offsets[q, 0] = of.log_not_pi + of.log_p[q] + top + top_case
            offsets[q, 1] = of.log_pi + of.log_p[q] + top + top_g
            _add_alternatives(here, b, of, a, room, back, out)
        mix(x[u], log_weight[u], parts, offsets, mu, levels, backward, mass, cdf, result[u])
