"""What a user is told about mu: the two-groups posterior, lfdr times H0 plus the rest H1.

The posterior under one sample alone covers true variants far too rarely (.42 to .88 for a
95 % interval): which sites are looked at is decided by the data. The mixture does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln, expit

from vbmodels.core.state import FloatArray
from vbmodels.variants import batch_null_rates_kernels as batch_kernels
from vbmodels.variants import quadrature
from vbmodels.variants import rates_kernels as kernels
from vbmodels.variants.batch_null import BatchNull
from vbmodels.variants.hyperparameters import log_normal_weights
from vbmodels.variants.table import Table, survival_tables
from vbmodels.variants.two_groups import Global, TwoGroups

LEVELS = (0.025, 0.05, 0.95, 0.975)


@dataclass(frozen=True)
class Rate:
    """The posterior of one sample's mu.

    Attributes
    ----------
    mean, sd
        [U].
    quantiles
        [U, 4] at 2.5, 5, 95 and 97.5 %.
    """

    mean: FloatArray
    sd: FloatArray
    quantiles: FloatArray


def rates(model: TwoGroups, q: Any, table: Any) -> tuple[Rate, Rate]:
    """Return the posteriors of mu_case and mu_control for every unit of a table.

    Parameters
    ----------
    model, q
        The fitted model.
    table
        Likelihoods of the units, made with ``model.anchored(q)``.
    """
    if isinstance(model, BatchNull):
        found = np.empty((len(table), 2, 2 + len(LEVELS)))
        under, at = model.shifted(q, np.empty(0)), model.resolved(q, table)
        batch_kernels.posteriors(at.widened, under, np.array(LEVELS), found)
        return _rates(found)
    if not model.compiled:
        masses = _densities(model, q, table)
        return _summary(table, masses[0]), _summary(table, masses[1])
    found = np.empty((len(table), 2, 2 + len(LEVELS)))
    kernels.posteriors(table.grids, model.hypotheses(q), np.array(LEVELS), found)
    return _rates(found)


def _rates(found: FloatArray) -> tuple[Rate, Rate]:
    case, control = (Rate(f[:, 0], f[:, 1], expit(f[:, 2:])) for f in found.swapaxes(0, 1))
    return case, control


def _densities(model: TwoGroups, q: Global, table: Table) -> tuple[FloatArray, FloatArray]:
    """Return the mass of every node, [U, Q, K], for mu_case and mu_control; sums are 1.

    With `_summary` the NumPy reference of `kernels.posteriors`.
    """
    x, cumulative = table.x, quadrature.sinc_cumulative(table.x.shape[-1])
    l1, l2 = quadrature.log_mu(x)
    a, b = (v[table.kind][:, None, None] for v in (q.a, q.b))
    spike = np.log1p(-q.w) + a * l1 + b * l2 - betaln(a, b)
    broad = np.log(q.w) + quadrature.BROAD * (l1 + l2) - betaln(*[quadrature.BROAD] * 2)
    e = np.logaddexp(spike, broad) + table.log_control
    log_p = log_normal_weights(model.log_m, q.log_m_mean, q.log_m_sd)[None, :, None]
    weight = table.log_weight
    same = e + table.log_case + weight
    top_control = (e + weight).max(axis=2, keepdims=True)
    f = np.exp(e + weight - top_control)
    components = np.array(model.alternatives)
    cut = survival_tables(components)
    u_nodes = np.linspace(-6.0, 6.0, cut.shape[1])
    place = np.arcsinh(0.5 * x)
    parts_case, parts_control = [], []
    for c, (alt_a, alt_b) in enumerate(model.alternatives):
        log_g = np.log(q.rho[c]) + alt_a * l1 + alt_b * l2 - betaln(alt_a, alt_b)
        log_g += table.log_case + weight
        top_case = log_g.max(axis=2, keepdims=True)
        g = np.exp(log_g - top_case)
        offset = np.log(q.pi) + top_case + top_control + log_p
        if model.restricted:
            inverse = np.exp(-np.interp(place, u_nodes, cut[c, :, 0]))
            beyond = quadrature.integral_above(g, cumulative) * inverse
            below = quadrature.integral_below(f * inverse, cumulative)
        else:
            beyond = np.broadcast_to(g.sum(axis=2, keepdims=True), g.shape)
            below = np.broadcast_to(f.sum(axis=2, keepdims=True), f.shape)
        parts_case.append((g * below, offset))
        parts_control.append((f * beyond, offset))
    top_same = same.max(axis=2, keepdims=True)
    null = (np.exp(same - top_same), np.log1p(-q.pi) + top_same + log_p)
    return _mix([null, *parts_case]), _mix([null, *parts_control])


def _mix(parts: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    top = np.max([offset.max(axis=1, keepdims=True) for _, offset in parts], axis=0)
    total = np.sum([mass * np.exp(offset - top) for mass, offset in parts], axis=0)
    mixed: FloatArray = total / total.sum(axis=(1, 2), keepdims=True)
    return mixed


def _summary(table: Table, mass: FloatArray) -> Rate:
    mu = expit(table.x)
    mean = (mass * mu).sum(axis=(1, 2))
    sd = np.sqrt((mass * (mu - mean[:, None, None]) ** 2).sum(axis=(1, 2)))
    cumulative = quadrature.sinc_cumulative(mass.shape[-1])
    cdf = np.maximum.accumulate(quadrature.integral_below(mass, cumulative), axis=2)
    density = mass / np.exp(table.log_weight)
    return Rate(mean, sd, expit(mixture_quantiles(table.x, cdf, density, np.array(LEVELS))))


def mixture_quantiles(
    x: FloatArray, cdf: FloatArray, density: FloatArray, levels: FloatArray
) -> FloatArray:
    """Return quantiles [U, L] of x, by bisection; the NumPy reference of the kernel.

    Parameters
    ----------
    x
        [U, Q, K] nodes, of one grid each for Q parts of the distribution.
    cdf, density
        [U, Q, K] mass of the part below the node, and density in x there; between nodes the
        CDF is a cubic Hermite polynomial.
    levels
        [L].
    """
    shape = (len(x), len(levels))
    low = np.broadcast_to(x[:, :, 0].min(axis=1)[:, None], shape).copy()
    high = np.broadcast_to(x[:, :, -1].max(axis=1)[:, None], shape).copy()
    total = cdf[:, :, -1].sum(axis=1)[:, None]
    for _ in range(60):
        at = 0.5 * (low + high)
        left = np.clip((x[:, None] <= at[:, :, None, None]).sum(axis=3) - 1, 0, x.shape[2] - 2)
        ends = [np.take_along_axis(v[:, None], (left + i)[..., None], 3)[..., 0]
                for v in (x, cdf, density) for i in (0, 1)]  # fmt: skip
        x0, x1, v0, v1, s0, s1 = ends
        f = np.clip((at[:, :, None] - x0) / (x1 - x0), 0.0, 1.0)
        s0, s1 = s0 * (x1 - x0), s1 * (x1 - x0)
        value = v0 + f * s0 + f**2 * (3 * (v1 - v0) - 2 * s0 - s1)
        value = np.clip(value + f**3 * (2 * (v0 - v1) + s0 + s1), v0, v1)
        value = np.where(at[:, :, None] <= x[:, None, :, 0], 0.0, value).sum(axis=2)
        low = np.where(value <= levels * total, at, low)
        high = np.where(value > levels * total, at, high)
    return np.asarray(0.5 * (low + high))
