"""Standard errors of the differences between case and control, from the observed information.

With g the score of the log likelihood in (b, log A, log B) of one substitution, H = -dg/d(b, A, B)
is its observed information, by central differences: six passes over the units after the fit. What
the error rates A and B do not explain of b is D = H_bb - H_b,AB inv(H_AB,AB) H_AB,b, of 26 errors
in the case and 18 in the control about 1 / (1/26 + 1/18); and cov(b) = inv(D + inv(K)), with K the
prior covariance of b, b_0 integrated out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma

from vbmodels.core.state import FloatArray, Stats
from vbmodels.variants.counts import N_TYPES, Counts, Units
from vbmodels.variants.two_groups.batch_null import SHIFT_SD, BatchGlobal, BatchNull, ShiftErrors
from vbmodels.variants.two_groups.contexts import CONTEXT_SD
from vbmodels.variants.two_groups.model import ERROR_PRIOR

STEP = 0.1  # not far below the distance of two nodes, between which likelihoods are linear
_LEAST = 1e-3  # eigenvalue of the information of log A and log B


@dataclass(frozen=True)
class Information(Stats, kind="variants/two_groups.Information"):
    """A partition's observed information, C = 1 where differences are by substitution alone.

    Attributes
    ----------
    shifts
        [12, C] of the differences, of which no two share a unit.
    between
        [12, C, 2] of them and log A, log B.
    rates
        [12, 2, 2] of log A and log B.
    """

    shifts: FloatArray
    between: FloatArray
    rates: FloatArray


def observed_information(model: BatchNull, q: BatchGlobal, batch: Counts | Units) -> Information:
    """Return the observed information of a partition at the fit ``q``."""
    table = model.local_step(q, batch, None)
    base = replace(q, looks=0)

    def slopes(raised: BatchGlobal, lowered: BatchGlobal) -> tuple[FloatArray, FloatArray]:
        (up, rates_up), (down, rates_down) = (
            _scores(moved, model.suff_stats(moved, batch, table)) for moved in (raised, lowered)
        )
        return (down - up) / (2.0 * STEP), (rates_down - rates_up) / (2.0 * STEP)

    shifts, _ = slopes(_shifted(base, STEP), _shifted(base, -STEP))
    factor = np.exp(STEP)
    of_a = slopes(replace(base, a=q.a * factor), replace(base, a=q.a / factor))
    of_b = slopes(replace(base, b=q.b * factor), replace(base, b=q.b / factor))
    rates = np.stack([of_a[1], of_b[1]], axis=2)
    return Information(
        shifts, np.stack([of_a[0], of_b[0]], axis=2), 0.5 * (rates + rates.transpose(0, 2, 1))
    )


def _shifted(q: BatchGlobal, by: float) -> BatchGlobal:
    if q.of_context is None:
        return replace(q, shift=q.shift + by)
    return replace(q, of_context=q.of_context + by)


def _scores(q: BatchGlobal, stats: Any) -> tuple[FloatArray, FloatArray]:
    """Return the slopes of the log likelihood in the differences, [12, C], and log A, log B."""
    n, s1, s2 = stats.errors.T
    both = digamma(q.a + q.b)
    of_rates = [q.a * (s1 - n * (digamma(q.a) - both)), q.b * (s2 - n * (digamma(q.b) - both))]
    return stats.shift[:, 2].reshape(N_TYPES, -1), np.stack(of_rates, axis=1)


def standard_errors(information: Information) -> ShiftErrors:
    """Return the standard errors of the differences, given the information of all partitions."""
    of_log_a, of_rate = ERROR_PRIOR.log_a_precision, ERROR_PRIOR.log_rate_precision
    rates = information.rates + np.array([[of_log_a + of_rate, -of_rate], [-of_rate, of_rate]])
    value, vector = np.linalg.eigh(rates)
    covariance = (vector / np.maximum(value, _LEAST)[:, None]) @ vector.transpose(0, 2, 1)
    n_contexts = information.shifts.shape[1]
    data = information.shifts[:, :, None] * np.eye(n_contexts)
    data = data - information.between @ covariance @ information.between.transpose(0, 2, 1)
    value, vector = np.linalg.eigh(data)
    data = (vector * np.maximum(value, 0.0)[:, None]) @ vector.transpose(0, 2, 1)
    # First the differences that units have, by type and context, then their means by type.
    of_type = np.repeat(np.arange(N_TYPES), n_contexts)
    if n_contexts == 1:
        prior = SHIFT_SD**2 * np.eye(N_TYPES) + 1.0
    else:
        every = np.concatenate([of_type, np.arange(N_TYPES)])
        prior = SHIFT_SD**2 * (every[:, None] == every) + 1.0
        of_contexts = np.where(np.arange(len(every)) < len(of_type), CONTEXT_SD**2, 0.0)
        prior += np.diag(of_contexts)
    precision = np.linalg.inv(prior)
    for t in range(N_TYPES):
        index = np.flatnonzero(of_type == t)
        precision[np.ix_(index, index)] += data[t]
    posterior = np.linalg.inv(precision)
    error = np.sqrt(np.diag(posterior))
    mean = float(np.sqrt(posterior[-N_TYPES:, -N_TYPES:].mean()))
    if n_contexts == 1:
        return ShiftErrors(error, mean)
    return ShiftErrors(error[-N_TYPES:], mean, error[:-N_TYPES].reshape(N_TYPES, n_contexts))
