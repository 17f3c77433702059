"""Newton's steps of the corpus model, and what another scale of the features does to weights."""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray

FARTHEST = 0.5
"""Most that one step moves log pi by."""


def inverse(precision: FloatArray, prior_variance: FloatArray) -> FloatArray:
    """Return the inverse, with no eigenvalue in prior units below 1 in size or below 0 in sign."""
    root = np.sqrt(prior_variance)
    scaled = root[:, None] * precision * root
    values, axes = np.linalg.eigh(0.5 * (scaled + scaled.T))
    turned = axes * root[:, None]
    return np.asarray((turned / np.maximum(np.abs(values), 1.0)) @ turned.T)


def newton_step(
    bend: FloatArray, gradient: FloatArray, variance: FloatArray, rate: BoolArray
) -> FloatArray:
    """Return Newton's step, or where it moves log pi too far the best that moves it `FARTHEST`."""
    step: FloatArray = inverse(bend, variance) @ gradient
    if not (np.abs(step[rate]) > FARTHEST).any():
        return step
    others = ~rate
    step[rate] = np.sign(step[rate]) * FARTHEST
    rest = gradient[others] - bend[np.ix_(others, rate)] @ step[rate]
    step[others] = inverse(bend[np.ix_(others, others)], variance[others]) @ rest
    return step


def change_of_scale(
    before: tuple[FloatArray, FloatArray], after: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Return A [P, P] from (location, scale) before and after; column 0 is the constant.

    Coefficients belong to standardised features: with the slope of a raw feature kept, w' = A w. A
    feature that is constant before or after (of infinite scale) keeps its coefficient.
    """
    (location, scale), (new_location, new_scale) = before, after
    change = np.eye(len(scale))
    varies = np.isfinite(scale) & np.isfinite(new_scale)
    varies[0] = False
    change[varies, varies] = new_scale[varies] / scale[varies]
    change[0, varies] = (new_location - location)[varies] / scale[varies]
    return change
