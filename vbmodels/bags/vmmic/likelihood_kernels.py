"""Compiled loops over instances; tests compare each with NumPy."""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray

_REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def scaled(
    features: FloatArray, first: int, centre: FloatArray, inverse: FloatArray, out: FloatArray
) -> None:
    """Fill (x - centre) * inverse of the instances from ``first`` on, in one pass."""
    for j in range(out.shape[0]):
        for d in range(out.shape[1]):
            out[j, d] = (features[first + j, d] - centre[d]) * inverse[d]


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def linear(
    features: FloatArray,
    first: int,
    gate: FloatArray,
    gate0: float,
    slope: FloatArray,
    slope0: float,
    eta: FloatArray,
    exponent: FloatArray,
    score: FloatArray,
) -> None:
    """Fill eta = a + x b, -eta^2 / 2 and s = x beta of the instances from ``first`` on.

    Coefficients are float64 whatever the features' type, so that sums are: on features far from
    zero a and x b cancel.
    """
    width, whole = features.shape[1], eta.size // 4 * 4
    # Four instances at a time, so that their sums do not wait for one another.
    for j in range(0, whole, 4):
        e0, e1, e2, e3 = gate0, gate0, gate0, gate0
        s0, s1, s2, s3 = slope0, slope0, slope0, slope0
        for d in range(width):
            b, beta = gate[d], slope[d]
            x0, x1 = features[first + j, d], features[first + j + 1, d]
            x2, x3 = features[first + j + 2, d], features[first + j + 3, d]
            e0 += x0 * b
            e1 += x1 * b
            e2 += x2 * b
            e3 += x3 * b
            s0 += x0 * beta
            s1 += x1 * beta
            s2 += x2 * beta
            s3 += x3 * beta
        eta[j], eta[j + 1], eta[j + 2], eta[j + 3] = e0, e1, e2, e3
        score[j], score[j + 1], score[j + 2], score[j + 3] = s0, s1, s2, s3
    for j in range(whole, eta.size):
        e, s = gate0, slope0
        for d in range(width):
            e += features[first + j, d] * gate[d]
            s += features[first + j, d] * slope[d]
        eta[j] = e
        score[j] = s
    for j in range(eta.size):
        exponent[j] = -0.5 * eta[j] * eta[j]


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def bag_sums(
    offsets: IntArray,
    first: int,
    last: int,
    primary: FloatArray,
    score: FloatArray,
    mean: FloatArray,
    var: FloatArray,
) -> None:
    """Add sum p s and sum p (1 - p) s^2 of bags first..last."""
    base = offsets[first]
    for i in range(first, last):
        total, spread = 0.0, 0.0
        for j in range(offsets[i] - base, offsets[i + 1] - base):
            part = primary[j] * score[j]
            total += part
            spread += part * score[j] * (1.0 - primary[j])
        mean[i - first] += total
        var[i - first] += spread


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def bag_jacobian(
    features: FloatArray,
    offsets: IntArray,
    first: int,
    last: int,
    scaling: tuple[FloatArray, FloatArray],
    terms: tuple[FloatArray, FloatArray, FloatArray],
    shrink: FloatArray,
    bend: FloatArray,
    slopes: FloatArray,
    gates: FloatArray,
) -> None:
    """Fill one modality's columns dz/dbeta and dz/d(a, b) of dz/dt for bags first..last.

    With r = (1 + v)^-1/2 (``shrink``) and c = z r^2 / 2 (``bend``), dz = r dmu - c dv;
    dmu/dbeta = sum pi x, dv/dbeta = 2 sum pi (1 - pi) s x, dmu/db = sum phi s x,
    dv/db = sum (1 - 2 pi) phi s^2 x, with x scaled and phi = phi(eta). ``scaling`` is the centre
    and the inverse scale of the features, ``terms`` pi, phi and s of every instance.
    """
    centre, inverse = scaling
    primary, density, score = terms
    width = features.shape[1]
    base = offsets[first]
    # In double precision whatever the features' type: sums less their centre's share cancel.
    u, g = np.empty(4), np.empty(4)
    sums, gate_sums = np.empty(width), np.empty(width)
    for i in range(first, last):
        row = i - first
        r, c = shrink[row], bend[row]
        sums[:] = 0.0
        gate_sums[:] = 0.0
        to_slopes, to_gate = 0.0, 0.0
        # Four instances at a time: the sums are read and written a quarter as often.
        for j in range(offsets[i], offsets[i + 1], 4):
            count = min(4, offsets[i + 1] - j)
            for a in range(4):
                if a < count:
                    p, s = primary[j + a - base], score[j + a - base]
                    weight = p * (r - 2.0 * c * (1.0 - p) * s)
                    gate_weight = density[j + a - base] * s * (r - c * (1.0 - 2.0 * p) * s)
                    u[a], g[a] = weight, gate_weight
                    to_slopes += weight
                    to_gate += gate_weight
            if count == 4:
                u0, u1, u2, u3 = u[0], u[1], u[2], u[3]
                g0, g1, g2, g3 = g[0], g[1], g[2], g[3]
                for d in range(width):
                    x0, x1 = features[j, d], features[j + 1, d]
                    x2, x3 = features[j + 2, d], features[j + 3, d]
                    sums[d] += u0 * x0 + u1 * x1 + u2 * x2 + u3 * x3
                    gate_sums[d] += g0 * x0 + g1 * x1 + g2 * x2 + g3 * x3
            else:
                for a in range(count):
                    for d in range(width):
                        sums[d] += u[a] * features[j + a, d]
                        gate_sums[d] += g[a] * features[j + a, d]
        gates[row, 0] = to_gate
        for d in range(width):
            slopes[row, d] = (sums[d] - to_slopes * centre[d]) * inverse[d]
            gates[row, 1 + d] = (gate_sums[d] - to_gate * centre[d]) * inverse[d]


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def bag_totals(
    features: FloatArray,
    offsets: IntArray,
    first: int,
    last: int,
    weight: FloatArray,
    totals: FloatArray,
) -> None:
    """Fill sum_j weight x of bags first..last, [last - first, D]; rows from there."""
    width, base = features.shape[1], offsets[first]
    for i in range(first, last):
        row = i - first
        for d in range(width):
            totals[row, d] = 0.0
        begin, end = offsets[i] - base, offsets[i + 1] - base
        whole = begin + (end - begin) // 4 * 4
        for j in range(begin, whole, 4):
            w0, w1, w2, w3 = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
            for d in range(width):
                totals[row, d] += (
                    w0 * features[j, d]
                    + w1 * features[j + 1, d]
                    + w2 * features[j + 2, d]
                    + w3 * features[j + 3, d]
                )
        for j in range(whole, end):
            for d in range(width):
                totals[row, d] += weight[j] * features[j, d]


@numba.njit(cache=True)
def draw_indicators(
    offsets: IntArray,
    odds: FloatArray,
    score: FloatArray,
    uniform: FloatArray,
    residual: FloatArray,
    delta: NDArray[np.bool_],
) -> None:
    """Draw one modality's indicators in place.

    ``odds`` is log Phi(eta) - log Phi(-eta) - s^2 / 2, ``residual`` y* - mu of every bag.
    """
    for i in range(offsets.size - 1):
        left = residual[i]
        for j in range(offsets[i], offsets[i + 1]):
            if delta[j]:
                left += score[j]
            delta[j] = uniform[j] < 1.0 / (1.0 + math.exp(-odds[j] - score[j] * left))
            if delta[j]:
                left -= score[j]
        residual[i] = left
