"""Compiled loops over instances; each has a NumPy form that is its tested reference."""

from __future__ import annotations

import math

import numba

from vbmodels.state import FloatArray, IntArray

_REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def bag_moments(
    features: FloatArray,
    offsets: IntArray,
    first: int,
    last: int,
    gate: FloatArray,
    gate0: float,
    slope: FloatArray,
    slope0: float,
    primary: FloatArray,
    density: FloatArray,
    score: FloatArray,
    mean: FloatArray,
    var: FloatArray,
) -> None:
    """Add one modality's moments to those of bags first..last; see `likelihood.bag_moments`."""
    width = features.shape[1]
    at = 0
    for i in range(first, last):
        total, spread = 0.0, 0.0
        for j in range(offsets[i], offsets[i + 1]):
            eta, s = gate0, slope0
            for d in range(width):
                eta += features[j, d] * gate[d]
                s += features[j, d] * slope[d]
            p = 0.5 * math.erfc(-eta * _ROOT_HALF)
            primary[at] = p
            density[at] = _DENSITY * math.exp(-0.5 * eta * eta)
            score[at] = s
            total += p * s
            spread += p * (1.0 - p) * s * s
            at += 1
        mean[i - first] += total
        var[i - first] += spread


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def bag_jacobian(
    features: FloatArray,
    offsets: IntArray,
    first: int,
    last: int,
    centre: FloatArray,
    inverse: FloatArray,
    primary: FloatArray,
    density: FloatArray,
    score: FloatArray,
    shrink: FloatArray,
    bend: FloatArray,
    slopes: FloatArray,
    gates: FloatArray,
) -> None:
    """Fill one modality's columns of dz/dt for bags first..last; see `likelihood.bag_jacobian`."""
    width = features.shape[1]
    at = 0
    for i in range(first, last):
        row = i - first
        r, c = shrink[row], bend[row]
        for d in range(width):
            slopes[row, d] = 0.0
            gates[row, 1 + d] = 0.0
        to_slopes, to_gate = 0.0, 0.0
        for j in range(offsets[i], offsets[i + 1]):
            p, s = primary[at], score[at]
            u = p * (r - 2.0 * c * (1.0 - p) * s)
            g = density[at] * s * (r - c * (1.0 - 2.0 * p) * s)
            to_slopes += u
            to_gate += g
            for d in range(width):
                slopes[row, d] += u * features[j, d]
                gates[row, 1 + d] += g * features[j, d]
            at += 1
        gates[row, 0] = to_gate
        for d in range(width):
            slopes[row, d] = (slopes[row, d] - to_slopes * centre[d]) * inverse[d]
            gates[row, 1 + d] = (gates[row, 1 + d] - to_gate * centre[d]) * inverse[d]
