"""The likelihood of a mixture of logistic experts with z summed out, at a point or under N(m, s^2).

With h = X eta', b = X beta', t = 2 y - 1, r = softmax_k(h + log sigma(t b)), pi = softmax(h):

    L = sum_n w [ lse_k(h + log sigma(t b)) - lse_k(h) ],
    dL/dbeta_k = sum w r t sigma(-t b) x,   dL/deta_k = sum w (r - pi) x.

Under q = N(m, diag s^2) the sums h and b are normal in each row: h + sqrt(v) eps with
v = sum s^2 x^2, so E L is averaged over draws eps that are fixed for each row, and
dE L/ds^2 = sum x^2 E[dL/dh eps] / (2 sqrt v). Not printed in Xie, Zhu and Xing (2016), whose
bounds (12)-(17) this replaces.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit

from vbmodels.core.state import FloatArray
from vbmodels.experts.rows import Rows

CHUNK = 512
"""Rows that are worked on at once, so that what they need stays in cache."""
_LEAST = 1e-30  # of a variance
_FAR = -300.0


INTERCEPT_PRECISION = 0.1


@lru_cache(maxsize=64)
def prior_precision(tau: float, columns: int) -> FloatArray:
    """Return the prior precision of one gate's or expert's coefficients, intercept last; [p]."""
    result = np.append(np.full(columns - 1, tau), INTERCEPT_PRECISION)
    result.flags.writeable = False
    return result


def row_terms(
    h: FloatArray, b: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log p(y | x) [..., N] and its slopes in h and b [..., K, N]; t is +1 or -1.

    With e = exp(-|t b|), sigma(t b) is 1 / (1 + e) or e / (1 + e), so two exponentials an
    expert suffice. Where a sum of them could underflow, logarithms are taken all along.
    """
    tb = t * b
    if tb.min(initial=0.0) < _FAR:
        return _far_row_terms(h, tb, t)
    e = np.exp(-np.abs(tb))
    positive = tb > 0.0
    e1 = 1.0 / (1.0 + e)
    right = np.where(positive, e1, e * e1)
    wrong = np.where(positive, e * e1, e1)
    pi = np.exp(h - h.max(-2)[..., None, :])
    pi /= pi.sum(-2)[..., None, :]
    r = pi * right
    likelihood = r.sum(-2)
    r /= likelihood[..., None, :]
    wrong *= r
    wrong *= t
    r -= pi
    return np.log(likelihood), r, wrong


def _far_row_terms(
    h: FloatArray, tb: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r, log_joint = softmax_and_log(h - np.logaddexp(0.0, -tb))
    pi, log_gates = softmax_and_log(h)
    return log_joint - log_gates, r - pi, r * t * expit(-tb)


def softmax_and_log(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return softmax and logsumexp over the last axis but one, in one pass."""
    top = logits.max(-2)
    weights = np.exp(logits - top[..., None, :])
    total = weights.sum(-2)
    weights /= total[..., None, :]
    return weights, top + np.log(total)


def at_points(
    batch: Rows, mean: FloatArray, weight: FloatArray, offset: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return log p(y | x) of every row [R, N], and gradients of its weighted sums [R, 2, K, p].

    ``mean`` [R, 2, K, p] are R gates and experts; ``offset`` [N] is added to every expert's sums.
    """
    linear = batch.project(mean.reshape(-1, batch.n_columns)).reshape(*mean.shape[:3], batch.size)
    if offset is not None:
        linear[:, 1] += offset
    value = np.empty((len(mean), batch.size))
    slopes = np.empty_like(linear)
    for start in range(0, batch.size, CHUNK):
        rows = slice(start, start + CHUNK)
        t = np.where(batch.t[rows] == 0.0, 1.0, batch.t[rows])
        h, b = linear[:, 0, :, rows], linear[:, 1, :, rows]
        value[:, rows], gate, expert = row_terms(h, b, t)
        slopes[:, 0, :, rows] = gate * weight[rows]
        slopes[:, 1, :, rows] = expert * weight[rows]
    return value, batch.collect(slopes.reshape(mean[..., 0].size, batch.size)).reshape(mean.shape)


def under_gaussian(
    batch: Rows,
    mean: FloatArray,
    variance: FloatArray,
    draws: int,
    weight: FloatArray,
    offset: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return E log p(y | x) of every row, and the gradient of its weighted sum in the variances.

    Parameters
    ----------
    batch
        The rows.
    mean, variance
        Of gates and experts, [2, K, p].
    draws
        Fixed draws of each row; even.
    weight
        [N].
    offset
        Added to every expert's sums; [N], or None for nothing.

    Returns
    -------
    value
        [N].
    in_variance
        [2, K, p].
    """
    _, k, p = mean.shape
    linear = batch.project(mean.reshape(2 * k, p))
    if offset is not None:
        linear[k:] += offset
    spread = batch.project_squares(variance.reshape(2 * k, p))
    noise = batch.noise(draws, 2 * k)
    value = np.empty(batch.size)
    widths = np.empty_like(linear)
    for start in range(0, batch.size, CHUNK):
        rows = slice(start, start + CHUNK)
        t = np.where(batch.t[rows] == 0.0, 1.0, batch.t[rows])
        sd = np.sqrt(np.maximum(spread[:, rows], _LEAST))
        eps = noise[:, :, rows]
        at = linear[:, rows] + sd * eps
        found, gate, expert = row_terms(at[:, :k], at[:, k:], t)
        value[rows] = found.mean(0)
        both = np.concatenate([gate, expert], axis=1)
        widths[:, rows] = (both * eps).mean(0) / (2.0 * sd) * weight[rows]
    return value, batch.collect_squares(widths).reshape(2, k, p)
