"""Coordinate ascent that leaps along its way, guarded by the bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Save, Show
from vbmodels.core.cavi import evaluate
from vbmodels.core.protocol import Accelerable

LONGEST = 4.0
"""Longest stride of the first leap."""


def squarem(model: Any, q: Any) -> Algorithm:
    """SQUAREM (Varadhan and Roland 2008, scheme S3) guarded by the bound.

    From theta0 take two plain steps to theta1 and theta2; with r = theta1 - theta0 and
    v = (theta2 - theta1) - r, try theta0 - 2 a r + a^2 v at a = -|r|/|v|, no longer than
    the present stride. The trial holds if its bound is finite and not below the bound at
    theta1, else theta2 does: the bound never falls. Only accepted points are shown, so
    iteration numbers (sweeps) may skip.

    The model must be `Accelerable`.
    """
    stats, elbo, stride = None, 0.0, LONGEST
    while True:
        q, stats, elbo, stride = yield Save((q, stats, elbo, stride))
        if stats is None:
            q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo)
        before = q
        q, stats, elbo = yield from evaluate(model, model.global_step(q, stats))
        yield Show(q, elbo)
        ahead = model.global_step(q, stats)
        trial, length = extrapolate(model, before, q, ahead, stride)
        if trial is not None:
            leapt = yield from evaluate(model, trial)
            if math.isfinite(leapt[2]) and leapt[2] >= elbo:
                (q, stats, elbo), stride = leapt, grown(stride, length)
                continue
        # At stride 1 the trial is theta2 itself: there is nothing to guard, and room to grow.
        stride = grown(stride, length) if length == 1.0 else max(1.0, stride / 4.0)
        q, stats, elbo = yield from evaluate(model, ahead, again=trial is not None)


def grown(stride: float, length: float) -> float:
    """Return the longest stride after one that held."""
    return 4.0 * stride if length >= stride else stride


def extrapolate(
    model: Accelerable, before: Any, q: Any, ahead: Any, stride: float
) -> tuple[Any, float]:
    """Return the trial and its stride; None where that is theta2 or runs out of numbers."""
    theta0, theta1, theta2 = (model.to_vector(x) for x in (before, q, ahead))
    r = theta1 - theta0
    v = (theta2 - theta1) - r
    norm = float(np.linalg.norm(v))
    length = min(max(float(np.linalg.norm(r)) / norm, 1.0), stride) if norm > 0 else 1.0
    vector = theta0 + 2.0 * length * r + length**2 * v
    if length == 1.0 or not np.isfinite(vector).all():
        return None, length
    return model.from_vector(ahead, vector), length
