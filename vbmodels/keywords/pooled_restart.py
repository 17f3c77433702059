"""Starting pooled VBSS near an earlier fit to other documents.

The profile of the bound over everything but the mean m of q(w) has the gradient

    g = sum_d X_d'(E[z_d] - eta_d) - S0^-1 m

and the curvature J = S0^-1 + sum_d curvature_d (`pooled_information`). Both are sums over
documents, so what unchanged documents left at the earlier optimum, with what new ones give
there, makes one Newton step m + J^-1 g at the cost of the new documents alone.

Coefficients belong to standardised features. With the slope of a raw feature kept, a change
of location and scale is linear: w' = A w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.core.state import FloatArray, Stats


@dataclass(frozen=True)
class Slope(Stats):
    """One partition's part of the gradient [P] and of the curvature [P, P]."""

    gradient: FloatArray
    curvature: FloatArray


def change_of_scale(
    before: tuple[FloatArray, FloatArray], after: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Return A [P, P] from (location, scale) before and after; column 0 is the constant.

    A feature that is constant before or after (of infinite scale) keeps its coefficient.
    """
    (location, scale), (new_location, new_scale) = before, after
    change = np.eye(len(scale))
    varies = np.isfinite(scale) & np.isfinite(new_scale)
    varies[0] = False
    change[varies, varies] = new_scale[varies] / scale[varies]
    change[0, varies] = (new_location - location)[varies] / scale[varies]
    return change


def newton_step(
    mean: FloatArray,
    prior_variance: FloatArray,
    change: FloatArray,
    known: Slope,
    new: Slope,
) -> FloatArray:
    """Return the mean after one Newton step, ``mean`` where the curvature is not positive.

    Parameters
    ----------
    mean
        m [P] on the present scale.
    prior_variance
        Diagonal [P] of S0.
    change
        A [P, P], from the scale of ``known`` to the present one.
    known, new
        Sums over documents, on the earlier scale and on the present one.
    """
    back = np.linalg.inv(change)
    gradient = back.T @ known.gradient + new.gradient - mean / prior_variance
    curvature = back.T @ known.curvature @ back + new.curvature + np.diag(1.0 / prior_variance)
    try:
        step: FloatArray = cho_solve(cho_factor(0.5 * (curvature + curvature.T)), gradient)
    except np.linalg.LinAlgError:
        return mean
    return mean + step
