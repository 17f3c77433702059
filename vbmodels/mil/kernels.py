"""Compiled loops over instances; each has a NumPy form that is its tested reference."""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

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


@numba.njit(cache=True)
def _tail(size: float) -> tuple[float, float]:
    """Return log Phi(-size) and phi/Phi(-size), size >= 0."""
    if size < 36.0:
        tail = 0.5 * math.erfc(size * _ROOT_HALF)
        return math.log(tail), _DENSITY * math.exp(-0.5 * size * size) / tail
    # The asymptotic series of Mills' ratio: its next term is below rounding here.
    square = size * size
    series = (1.0 - 1.0 / square + 3.0 / (square * square)) / size
    return -0.5 * square + math.log(_DENSITY * series), 1.0 / series


@numba.njit(cache=True)
def _logs(x: float) -> tuple[float, float, float, float]:
    """Return log Phi(x), log Phi(-x), phi/Phi(x), phi/Phi(-x)."""
    log_tail, tail_mills = _tail(abs(x))
    tail = math.exp(log_tail)
    log_rest, rest_mills = math.log1p(-tail), tail_mills * tail / (1.0 - tail)
    if x > 0.0:
        return log_rest, log_tail, rest_mills, tail_mills
    return log_tail, log_rest, tail_mills, rest_mills


@numba.njit(cache=True, fastmath=_REASSOCIATE)
def sweep(
    features: tuple[FloatArray, ...],
    offsets: tuple[IntArray, ...],
    centres: tuple[FloatArray, ...],
    inverses: tuple[FloatArray, ...],
    starts: IntArray,
    own: FloatArray,
    sign: FloatArray,
    theta: FloatArray,
    covariance: FloatArray,
    gates: tuple[FloatArray, ...],
    carried: tuple[FloatArray, ...],
    carry: bool,
    primary: tuple[FloatArray, ...],
    centre: FloatArray,
) -> None:
    """Update q(y*) and q(delta) of every bag in place; see `local.sweep`."""
    width = theta.size
    r, vr, u, phi = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    for i in range(sign.size):
        r[:] = 0.0
        r[0] = 1.0
        for f in range(own.shape[1]):
            r[1 + f] = own[i, f]
        for k in range(len(features)):
            x, at = features[k], starts[k]
            for j in range(offsets[k][i], offsets[k][i + 1]):
                p = primary[k][j]
                for d in range(x.shape[1]):
                    r[at + d] += p * (x[j, d] - centres[k][d]) * inverses[k][d]
        mu = 0.0
        vr[:] = 0.0
        for a in range(width):
            mu += r[a] * theta[a]
            for b in range(width):
                vr[b] += r[a] * covariance[a, b]
        _, _, up, down = _logs(mu)
        star = mu + up if sign[i] > 0.0 else mu - down
        for k in range(len(features)):
            x, at, gate = features[k], starts[k], gates[k]
            for j in range(offsets[k][i], offsets[k][i + 1]):
                eta, s, linear, square = gate[0], 0.0, 0.0, 0.0
                u[:] = 0.0
                for d in range(x.shape[1]):
                    phi[d] = (x[j, d] - centres[k][d]) * inverses[k][d]
                    for b in range(width):
                        u[b] += phi[d] * covariance[at + d, b]
                for d in range(x.shape[1]):
                    eta += phi[d] * gate[1 + d]
                    s += phi[d] * theta[at + d]
                    linear += phi[d] * vr[at + d]
                    square += phi[d] * u[at + d]
                p = primary[k][j]
                up, down, _, _ = _logs(eta)
                logit = up - down + s * (star - mu) - linear
                logit += (p - 0.5) * (s * s + square)
                if carry:
                    logit += carried[k][j]
                    carried[k][j] = logit
                change = 1.0 / (1.0 + math.exp(-logit)) - p
                primary[k][j] = p + change
                mu += change * s
                for b in range(width):
                    vr[b] += change * u[b]
        centre[i] = mu


@numba.njit(cache=True, fastmath=_REASSOCIATE, error_model="numpy")
def instance_sums(
    features: FloatArray,
    first: int,
    last: int,
    centre: FloatArray,
    inverse: FloatArray,
    gate: FloatArray,
    primary: FloatArray,
    weighted: FloatArray,
    latent: FloatArray,
    printed: FloatArray,
) -> float:
    """Add one modality's sums over instances first..last; see `local.instance_sums`."""
    width = features.shape[1]
    phi = np.empty(width)
    total = 0.0
    for j in range(first, last):
        e = gate[0]
        for d in range(width):
            phi[d] = (features[j, d] - centre[d]) * inverse[d]
            e += phi[d] * gate[1 + d]
        p = primary[j]
        log_up, log_down, up, down = _logs(e)
        mean = e + p * up - (1.0 - p) * down
        total += 0.5 * e * e - mean * e
        if p > 0.0:
            total += p * (log_up - math.log(p))
        if p < 1.0:
            total += (1.0 - p) * (log_down - math.log(1.0 - p))
        root = math.sqrt(p * (1.0 - p))
        latent[0] += mean
        for d in range(width):
            weighted[j - first, d] = root * phi[d]
            latent[1 + d] += mean * phi[d]
        if printed.size:
            # (2p - 1) phi(e) / (p Phi(e) + (1 - p) Phi(-e)), with phi divided out.
            below = (p / up if p > 0.0 else 0.0) + ((1.0 - p) / down if p < 1.0 else 0.0)
            mean = e + (2.0 * p - 1.0) / below
            printed[0] += mean
            for d in range(width):
                printed[1 + d] += mean * phi[d]
    return total


@numba.njit(cache=True)
def draw_indicators(
    offsets: IntArray,
    odds: FloatArray,
    score: FloatArray,
    uniform: FloatArray,
    residual: FloatArray,
    delta: NDArray[np.bool_],
) -> None:
    """Draw one modality's indicators in place; see `gibbs._draw_by_position`."""
    for i in range(offsets.size - 1):
        left = residual[i]
        for j in range(offsets[i], offsets[i + 1]):
            if delta[j]:
                left += score[j]
            delta[j] = uniform[j] < 1.0 / (1.0 + math.exp(-odds[j] - score[j] * left))
            if delta[j]:
                left -= score[j]
        residual[i] = left
