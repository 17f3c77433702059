"""Rows from a mixture of logistic experts, with the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from vbmodels.core.state import FloatArray, IntArray


@dataclass(frozen=True)
class Truth:
    """What was drawn: gates and experts [2, K, p], the expert [N] and P(y = 1 | x) [N] of rows."""

    coefficients: FloatArray
    expert: IntArray
    probability: FloatArray


def simulate(
    rng: np.random.Generator,
    rows: int,
    features: int = 4,
    n_experts: int = 3,
    gate_scale: float = 3.0,
    expert_scale: float = 3.0,
) -> tuple[FloatArray, FloatArray, Truth]:
    """Draw x [N, features], t = 2 y - 1 [N] and the truth.

    Gates and experts are N(0, scale^2) for each column; the intercepts, last, are N(0, 1/4).
    """
    x = rng.standard_normal((rows, features))
    scale = np.array([gate_scale, expert_scale])[:, None, None]
    coefficients = rng.standard_normal((2, n_experts, features + 1))
    coefficients[..., :-1] *= scale
    coefficients[..., -1] *= 0.5
    linear = coefficients @ np.column_stack([x, np.ones(rows)]).T
    gates, right = softmax(linear[0], axis=0), expit(linear[1])
    above = rng.random(rows) < np.cumsum(gates, axis=0)
    expert = np.argmax(above, axis=0)
    t = np.where(rng.random(rows) < right[expert, np.arange(rows)], 1.0, -1.0)
    return x, t, Truth(coefficients, expert, np.sum(gates * right, axis=0))
