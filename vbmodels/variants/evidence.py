"""The evidence of a table's units and the EM's sums: the NumPy reference of the compiled pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincc, betaln, expit, logsumexp

from vbmodels.core.state import FloatArray
from vbmodels.variants import quadrature
from vbmodels.variants.batch import N_TYPES
from vbmodels.variants.table import PEAK_FLOOR, Grids


def _log_cut(x: FloatArray, a: float, b: float, floor: float) -> FloatArray:
    far = np.exp(-b * np.maximum(x, 0.0) - np.log(b) - betaln(a, b))
    tail = np.where(x > 20.0, far, betaincc(a, b, expit(x)))
    return np.asarray(np.log(floor + (1.0 - floor) * np.maximum(tail, np.finfo(float).tiny)))


class Hypotheses(NamedTuple):
    """The global parameters as a pass over a table takes them.

    Attributes
    ----------
    log_pi, log_not_pi, log_w, log_not_w
        Logs of pi, 1-pi, w, 1-w.
    log_p, log_m
        [Q] log prior weights and the nodes of log M.
    e_beta
        [3, 12] A, B and log B(A, B).
    alternatives
        [n_alt, 4] a, b, log B(a, b) and log rho.
    survival
        Interpolation tables of the compiled form.
    restricted
        Whether H1 asks for mu_case > mu_control.
    cumulative
        `quadrature.sinc_cumulative`.
    """

    log_pi: float
    log_not_pi: float
    log_w: float
    log_not_w: float
    log_p: FloatArray
    log_m: FloatArray
    e_beta: FloatArray
    alternatives: FloatArray
    survival: FloatArray
    restricted: bool
    cumulative: FloatArray


def reweigh_reference(
    table: Grids, under: Hypotheses, log_m0: FloatArray, log_m1: FloatArray, sums: FloatArray
) -> None:
    """Fill log m0, log m1 and the EM's sums; the NumPy reference of `kernels.reweigh`.

    Parameters
    ----------
    table, under
        The units, and the global parameters.
    log_m0, log_m1, sums
        The results, [U], [U] and [5 + n_alt + 36]; sums are added to.
    """
    x, log_weight, log_case, log_control, kind = table
    log_pi, log_not_pi, log_w, log_not_w, log_p, log_m = under[:6]
    alternatives, cumulative = under.alternatives, under.cumulative
    if not len(x):
        return
    lmu, lnu = quadrature.log_mu(x)
    a, b, log_beta = (row[kind][:, None, None] for row in under.e_beta)
    weight = log_weight + log_p[None, :, None]
    spike = log_not_w + a * lmu + b * lnu - log_beta + log_control + weight
    broad_a, broad_b, log_broad = alternatives[0, :3]
    broad = log_w + broad_a * lmu + broad_b * lnu - log_broad + log_control + weight
    parts = {(0, c): (spike + log_case, broad + log_case) for c in range(1)}
    for c, (alt_a, alt_b, log_alt, log_rho) in enumerate(alternatives):
        log_g = alt_a * lmu + alt_b * lnu - log_alt + log_rho + log_case + log_weight
        top = log_g.max(axis=2, keepdims=True)
        g = np.exp(log_g - top)
        if under.restricted:
            above = quadrature.integral_above(g, cumulative)
            log_cut = -_log_cut(x, alt_a, alt_b, PEAK_FLOOR if c else 0.0)
        else:
            above, log_cut = g.sum(axis=2, keepdims=True), np.zeros_like(x)
        with np.errstate(divide="ignore"):
            log_above = np.log(above) + top + log_cut
        parts[1, c] = (spike + log_above, broad + log_above)
    log_m0[:] = logsumexp(np.logaddexp(*parts[0, 0]), axis=(1, 2))
    others = [parts[1, c] for c in range(len(alternatives))]
    log_m1[:] = logsumexp([logsumexp(np.logaddexp(*p), axis=(1, 2)) for p in others], axis=0)
    total = np.logaddexp(log_not_pi + log_m0, log_pi + log_m1)
    sums[0] += total.sum()
    sums[1] += len(total)
    rows: list[tuple[float, Any, int | None]] = [(log_not_pi, parts[0, 0], None)]
    rows += [(log_pi, part, c) for c, part in enumerate(others)]
    first = 5 + len(alternatives)
    for log_prior, (log_spike, log_broad_part), member in rows:
        offset = log_prior - total[:, None, None]
        s, d = np.exp(log_spike + offset), np.exp(log_broad_part + offset)
        node = (s + d).sum(axis=2)
        sums[2] += d.sum()
        sums[3] += (node * log_m).sum()
        sums[4] += (node * log_m**2).sum()
        if member is not None:
            sums[5 + member] += (s + d).sum()
        for v, value in enumerate((np.ones_like(x), lmu, lnu)):
            sums[first + v :: 3][:N_TYPES] += np.bincount(
                kind, (s * value).sum(axis=(1, 2)), N_TYPES
            )
