"""Compiled sums of the features' moments: omega at its mean, rows' features, units' weights.

Symmetric matrices are packed: the lower triangle, row by row, as in `vbmodels.core.linalg`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray

LARGEST_LOGIT = 35.0
_NEAR = 1e-3
"""Below this c the mean of omega is 1/4 - c^2 / 48, whose next term is below rounding."""
_FACTORS = 512
"""Factors between 1 and 2 in one product."""


@njit(cache=True)
def packed_moments(z: FloatArray) -> FloatArray:
    """Return E[z z'] of every row [B, P] for independent bits with means z [B, D]."""
    rows, size = z.shape
    found = np.empty((rows, size * (size + 1) // 2))
    for n in range(rows):
        p = 0
        for a in range(size):
            for b in range(a):
                found[n, p] = z[n, a] * z[n, b]
                p += 1
            found[n, p] = z[n, a]
            p += 1
    return found


@njit(error_model="numpy")
def _log_of_product(ends, more):  # type: ignore[no-untyped-def]
    """Return the log of the product of numbers from 1 to 2, plus the sum of ``more``."""
    total, units = 0.0, len(ends)
    for start in range(0, units, _FACTORS):
        stop = min(start + _FACTORS, units)
        first, second, odd, even = 1.0, 1.0, 0.0, 0.0
        for j in range(start, stop - 1, 2):
            first *= ends[j]
            second *= ends[j + 1]
            odd += more[j]
            even += more[j + 1]
        if (stop - start) % 2:
            first *= ends[stop - 1]
            odd += more[stop - 1]
        total += math.log(first * second) + odd + even
    return total


@njit(cache=True, error_model="numpy")
def _tilted(c, e, sign, omega, cost):  # type: ignore[no-untyped-def]
    rows, units = c.shape
    ends, halves = np.empty(units), np.empty(units)
    for n in range(rows):
        for j in range(units):
            answered = abs(float(sign[n, j]))
            safe = max(c[n, j], _NEAR)
            mean = (1.0 - e[n, j]) / ((1.0 + e[n, j]) * (safe + safe))
            near = 0.25 - c[n, j] * c[n, j] / 48.0
            omega[n, j] = answered * (mean if c[n, j] >= _NEAR else near)
            ends[j], halves[j] = 1.0 + answered * e[n, j], answered * (0.5 * c[n, j])
        cost[n] = _log_of_product(ends, halves)


def tilted(square: FloatArray, sign: NDArray[np.int8]) -> tuple[FloatArray, FloatArray]:
    """Return the mean of omega at its best and what that costs the bound.

    Parameters
    ----------
    square
        [B, J] c^2 = E[psi^2].
    sign
        [B, J] answers.

    Returns
    -------
    omega, cost
        [B, J] tanh(c / 2) / (2 c), 0 without an answer, and [B] the sum of log(2 cosh(c / 2)) over
        the units with one.
    """
    omega, cost = np.empty(square.shape), np.empty(len(square))
    c = np.sqrt(square)  # NumPy takes roots and exponentials of many numbers at once
    _tilted(c, np.exp(-c), sign, omega, cost)
    return omega, cost


@njit(cache=True, error_model="numpy")
def _sum_log_sigmoid(sign, psi, e, found):  # type: ignore[no-untyped-def]
    rows, units = psi.shape
    ends, against = np.empty(units), np.empty(units)
    for n in range(rows):
        for j in range(units):
            ends[j] = 1.0 + abs(float(sign[n, j])) * e[n, j]
            against[j] = max(-float(sign[n, j]) * psi[n, j], 0.0)
        found[n] = -_log_of_product(ends, against)


def sum_log_sigmoid(sign: NDArray[np.int8], psi: FloatArray) -> FloatArray:
    """Return the sum over the units with an answer, of log sigma(sign psi); [N]."""
    found = np.empty(len(psi))
    _sum_log_sigmoid(sign, psi, np.exp(-np.abs(psi)), found)
    return found


@njit(cache=True)
def _visit(nu, pull, gram, features):  # type: ignore[no-untyped-def]
    rows, size = nu.shape[0], nu.shape[1] + 1
    for n in range(rows):
        for k in features:
            a = k + 1
            start = a * (a + 1) // 2
            total = gram[n, start]
            for b in range(1, a):
                total += gram[n, start + b] * nu[n, b - 1]
            for b in range(a + 1, size):
                total += gram[n, b * (b + 1) // 2 + a] * nu[n, b - 1]
            logit = pull[n, k] - total - 0.5 * gram[n, start + a]
            logit = min(max(logit, -LARGEST_LOGIT), LARGEST_LOGIT)
            nu[n, k] = 1.0 / (1.0 + math.exp(-logit))


def visit(nu: FloatArray, pull: FloatArray, gram: FloatArray, features: Sequence[int]) -> None:
    """Set q(z) of some features in turn, nu [B, K] in place.

    Parameters
    ----------
    nu
        [B, K] chances before and after.
    pull, gram
        [B, K] what is linear in z, and [B, P] sum_j E[omega] E[w w'], packed.
    features
        Their numbers.
    """
    _visit(nu, pull, gram, np.array(features, dtype=np.int64))


@njit(cache=True)
def _inverted(data, linear, prior, mean, covariance):  # type: ignore[no-untyped-def]
    """Invert data + diag(prior) of every unit; False where one is not positive definite."""
    units, size = linear.shape
    low = np.zeros((size, size))
    for j in range(units):
        # The factor, then its inverse in the same place.
        for a in range(size):
            for b in range(a + 1):
                total = data[j, a, b]
                if a == b:
                    total += prior[a]
                for c in range(b):
                    total -= low[a, c] * low[b, c]
                if a > b:
                    low[a, b] = total / low[b, b]
                elif total > 0.0:
                    low[a, a] = math.sqrt(total)
                else:
                    return False
        for a in range(size):
            low[a, a] = 1.0 / low[a, a]
            for b in range(a):
                total = 0.0
                for c in range(b, a):
                    total -= low[a, c] * low[c, b]
                low[a, b] = total * low[a, a]
        for a in range(size):
            for b in range(a + 1):
                total = 0.0
                for c in range(a, size):
                    total += low[c, a] * low[c, b]
                covariance[j, a, b] = total
                covariance[j, b, a] = total
        for a in range(size):
            total = 0.0
            for b in range(size):
                total += covariance[j, a, b] * linear[j, b]
            mean[j, a] = total
    return True


def posterior_weights(
    data: FloatArray, linear: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Return means [J, D] and covariances [J, D, D] of all units' weights.

    Parameters
    ----------
    data, linear
        Q [J, D, D] and b [J, D].
    prior
        [D] precisions.

    Returns
    -------
    mean, covariance
        C b and C = (Q + diag(prior))^-1; None where a matrix is not positive definite.
    """
    mean, covariance = np.empty(linear.shape), np.empty(data.shape)
    good = _inverted(np.ascontiguousarray(data), linear, prior, mean, covariance)
    return (mean, covariance) if good and np.isfinite(mean).all() else None
