"""SQUAREM for many documents at once, each with its own stride and its own guard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.keywords.vbss.coordinate_ascent import (
    Block,
    Factors,
    Prior,
    bound,
    choose,
    mark_converged,
    sweep,
)

TINY = 1e-30

SHRINK = 4.0
"""Factor of the longest stride after a leap that failed, or that reached it."""


def cycle(block: Block, prior: Prior, f: Factors, tolerance: float) -> Factors:
    """Make two sweeps, leap along their differences, and sweep once more.

    SQUAREM, scheme S3 of Varadhan and Roland (2008), in the coordinates that a sweep starts
    from: x = (a, b, ln var b, ln rate, ln hidden, theta). With r = x1 - x0 and
    v = (x2 - x1) - r the leap goes to x0 + 2 s r + s^2 v, s = |r|/|v| but no longer than the
    document's present stride. Where the bound is then lower than after the two sweeps, or not
    finite, the document stays where they led: its bound never falls. A document whose second
    sweep moved no more than ``tolerance`` has settled; see `mark_converged`.
    """
    first = sweep(block, prior, f)
    second = mark_converged(block, first, sweep(block, prior, first), tolerance)
    start, leap = _leap(block, f, first, second)
    leapt = sweep(block, prior, start)
    with np.errstate(invalid="ignore"):
        better = bound(block, prior, leapt) >= bound(block, prior, second)
    stride = np.where(leap >= f.stride, SHRINK * f.stride, f.stride)
    refused = np.maximum(1.0, f.stride / SHRINK)
    done = choose(block, better, leapt, second)
    return replace(done, stride=np.where(better, stride, refused), sweeps=leapt.sweeps)


def _leap(block: Block, f0: Factors, f1: Factors, f2: Factors) -> tuple[Factors, FloatArray]:
    """Return ``f2`` moved to the point that the three extrapolate to, and s [D]."""
    x0, x1, x2 = (_coordinates(block, f) for f in (f0, f1, f2))
    r = [q - p for p, q in zip(x0, x1, strict=True)]
    v = [(q - p) - d for p, q, d in zip(x1, x2, r, strict=True)]
    length, norm = _square(block, r), _square(block, v)
    ratio = np.divide(length, norm, out=np.ones_like(norm), where=norm > 0.0)
    stride = np.clip(np.sqrt(ratio), 1.0, f2.stride)
    x = [
        p + 2.0 * s * d + s**2 * e
        for p, d, e in zip(x0, r, v, strict=True)
        for s in [stride if len(p) == len(stride) else stride[block.document]]
    ]
    a, b, b_var, rate, hidden, theta = x
    # A leap of more than e^20 is no extrapolation; the guard would refuse it anyway.
    b_var, rate, hidden = (np.exp(np.clip(u, -60.0, 60.0)) for u in (b_var, rate, hidden))
    moved = replace(f2, a=a, b=b, b_var=b_var, rate=rate, hidden=hidden, theta=theta)
    return moved, stride


def _coordinates(block: Block, f: Factors) -> list[FloatArray]:
    # Where every word is observed nothing is hidden, whose logarithm must not spread.
    hidden = np.log(np.maximum(f.hidden, TINY))
    return [f.a, f.b, np.log(f.b_var), np.log(f.rate), hidden, f.theta]


def _square(block: Block, x: list[FloatArray]) -> FloatArray:
    """Sum of squares over each document's coordinates [D]."""
    total = np.zeros(len(block.n))
    for u in x:
        total += u**2 if len(u) == len(total) else block.total(u**2)
    return total
