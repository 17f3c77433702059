"""Exact draws of Polya-Gamma variables: for the sampler of BSS, and what tests compare with."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
from scipy.special import log_ndtr

from vbmodels.core.state import BoolArray, FloatArray

CUT = 0.64
"""Where the two proposals of a draw meet; Devroye (2009)."""


def draw_polya_gamma(c: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw w ~ PG(1, c) exactly, one for each entry of c; [...].

    Polson, Scott and Windle (2013), section 4, after Devroye (2009): PG(1, c) is a quarter of
    J*(1, z) with z = |c|/2, whose density is an alternating series that can be bracketed term
    by term. J* is proposed from an inverse Gaussian below `CUT` and from an exponential above.

    Examples
    --------
    >>> w = draw_polya_gamma(np.full(4000, 2.0), np.random.default_rng(0))
    >>> bool(abs(w.mean() - np.tanh(1.0) / 4.0) < 0.01)
    True
    """
    z = 0.5 * np.abs(np.asarray(c, dtype=np.float64)).ravel()
    drawn = np.empty_like(z)
    open_ = np.arange(z.size)
    while open_.size:
        x = _propose(z[open_], rng)
        good = _accept(x, rng)
        drawn[open_[good]] = 0.25 * x[good]
        open_ = open_[~good]
    return drawn.reshape(np.shape(c))


def _propose(z: FloatArray, rng: np.random.Generator) -> FloatArray:
    rate = pi**2 / 8.0 + 0.5 * z**2
    right = pi / (2.0 * rate) * np.exp(-rate * CUT)
    # 2 exp(-z) times the inverse-Gaussian distribution function at the cut.
    root = 1.0 / sqrt(CUT)
    left = 2.0 * (
        np.exp(log_ndtr(root * (CUT * z - 1.0)) - z) + np.exp(log_ndtr(-root * (CUT * z + 1.0)) + z)
    )
    x = CUT + rng.standard_exponential(z.size) / rate
    # Not ">": for |c| above 1490 both shares underflow, and all lies below the cut.
    below = rng.random(z.size) * (left + right) >= right
    x[below] = _short(z[below], rng)
    return x


def _short(z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw from the inverse Gaussian with mean 1/z and shape 1, given x < CUT."""
    x = np.empty_like(z)
    open_ = np.arange(z.size)
    while open_.size:
        tilt = z[open_]
        tried, good = np.empty_like(tilt), np.empty(tilt.size, dtype=bool)
        wide = tilt < 1.0 / CUT
        e, bar = rng.standard_exponential((2, int(wide.sum())))
        candidate = CUT / (1.0 + CUT * e) ** 2
        chance = np.exp(-0.5 * tilt[wide] ** 2 * candidate)
        tried[wide] = candidate
        good[wide] = (e**2 <= 2.0 * bar / CUT) & (rng.random(e.size) <= chance)
        tried[~wide] = rng.wald(1.0 / tilt[~wide], 1.0)
        good[~wide] = tried[~wide] < CUT
        x[open_[good]] = tried[good]
        open_ = open_[~good]
    return x


def _accept(x: FloatArray, rng: np.random.Generator) -> BoolArray:
    """Compare a uniform share of the series' first term with its partial sums."""
    total = _term(0, x)
    level = rng.random(x.size) * total
    accepted = np.zeros(x.size, dtype=bool)
    undecided = np.ones(x.size, dtype=bool)
    n = 0
    while undecided.any():
        n += 1
        odd = n % 2 == 1
        total = total + (-1.0 if odd else 1.0) * _term(n, x)
        decided = undecided & ((level <= total) if odd else (level > total))
        accepted[decided] = odd
        undecided &= ~decided
    return accepted


def _term(n: int, x: FloatArray) -> FloatArray:
    k = n + 0.5
    short = np.minimum(x, CUT)
    # By its logarithm: near 0 the power overflows where the exponential underflows.
    low = np.exp(1.5 * np.log(2.0 / (pi * short)) - 2.0 * k**2 / short)
    high = np.exp(-0.5 * k**2 * pi**2 * x)
    return pi * k * np.where(x <= CUT, low, high)
