"""One latent scale by marginal maximum likelihood: the rival of yes-or-no features and of classes.

    z_n ~ N(0, 1),  x_nd | z ~ Cat(softmax(a_d + b_d z))

over the cells that a row has: the nominal response model (Bock 1972), which for columns of two
categories is the two-parameter logistic model of item response theory (Bock and Aitkin 1981). The
first category of each column has a = b = 0, and 41 nodes of Gauss and Hermite integrate over z.
Slopes have a weak prior (`SD`), so that a column that one side of the scale always answers alike
has a finite one. With R_d categories

    BIC = -2 log p(X | a, b) + 2 sum_d (R_d - 1) log N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.latent_class_analysis import LatentClasses

NODES = 41
"""Places on the scale at which the likelihood is taken."""
SD = 5.0
"""Prior standard deviation of a slope: a logit of 5 for each standard deviation of the scale."""
LONGEST = 500
"""Steps of a fit at most."""


@dataclass(frozen=True)
class LatentScale:
    """A fit.

    Attributes
    ----------
    intercept, slope
        a and b of every category of all columns; [C] each.
    log_likelihood
        log p(X | a, b).
    bic
        See the module's text; lower is better.
    """

    intercept: FloatArray
    slope: FloatArray
    log_likelihood: float
    bic: float


def latent_scale(
    x: FloatArray, levels: IntArray, count: FloatArray, start: LatentClasses
) -> LatentScale:
    """Fit one scale, starting with two classes at its places -1 and 1.

    Parameters
    ----------
    x
        [N, C] indicators of the cells' categories, 0 where missing; see
        `vbmodels.features.imputation.latent.one_hot`.
    levels
        [D] categories of each column.
    count
        [N] how many rows each row counts for.
    start
        Two classes of the same rows.
    """
    first = np.concatenate([[0], np.cumsum(levels)[:-1]]).astype(np.intp)
    free = np.setdiff1d(np.arange(x.shape[1]), first)
    places, weights = np.polynomial.hermite_e.hermegauss(NODES)
    log_weight = np.log(weights / weights.sum())

    def parts(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        a, b = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        a[free], b[free] = flat.reshape(2, -1)
        return a, b

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        a, b = parts(flat)
        score = a + places[:, None] * b
        score -= np.repeat(np.logaddexp.reduceat(score, first, axis=1), levels, axis=1)
        at = x @ score.T + log_weight  # of rows and places, changed where it is: it is large
        top = at.max(axis=1)
        np.maximum(np.subtract(at, top[:, None], out=at), -300.0, out=at)  # no denormal: slow
        np.exp(at, out=at)
        whole = at.sum(axis=1)
        total = np.log(whole) + top
        at *= (count / whole)[:, None]
        # Of each place: rows with each category, less those expected among rows with such a cell.
        seen = at.T @ x
        there = np.repeat(np.add.reduceat(seen, first, axis=1), levels, axis=1)
        excess = seen - there * np.exp(score)
        slopes = places @ excess - b / SD**2
        value = float(count @ total) - 0.5 * float(b @ b) / SD**2
        return -value, -np.concatenate([excess.sum(0)[free], slopes[free]])

    level = start.log_chance - np.repeat(start.log_chance[:, first], levels, axis=1)
    begin = np.concatenate([level.mean(0)[free], 0.5 * (level[1] - level[0])[free]])
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": LONGEST})
    a, b = parts(found.x)
    likelihood = -float(found.fun) + 0.5 * float(b @ b) / SD**2
    bic = -2.0 * likelihood + 2 * len(free) * np.log(count.sum())
    return LatentScale(a, b, likelihood, float(bic))
