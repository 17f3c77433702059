"""Simpler models of the same table: latent classes, and one latent scale.

Latent class analysis by EM, with the number of classes that the BIC chooses, is the usual rival:

    c_n ~ Cat(pi),  x_nd | c_n = k ~ Cat(theta_kd)

over the cells that a row has (Goodman 1974; as poLCA, Linzer and Lewis 2011, but for `SMOOTH`,
which keeps categories that a class has not shown from being impossible in it). Of K classes

    BIC = -2 log p(X | pi, theta) + (K - 1 + K sum_d (R_d - 1)) log N.

One latent scale by marginal maximum likelihood is that of yes-or-no features and of classes:

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
from scipy.special import log_softmax, logsumexp

from vbmodels.core.state import FloatArray, IntArray

SMOOTH = 0.1
"""Added to the count of every class, and of every category in it."""
NUMBERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 30, 40)
"""Numbers of classes that are tried, in turn, until the BIC has risen twice."""
FEW = (2, 3, 4)
"""Numbers of classes that a run of features is compared with."""
STARTS, FIRST, LONGEST = 3, 15, 300
"""Starts of each number, their sweeps before the best goes on, and its sweeps at most."""
TOLERANCE = 1e-6
"""Relative rise of the log-likelihood that ends a fit."""


@dataclass(frozen=True)
class LatentClasses:
    """A fit.

    Attributes
    ----------
    log_share
        log pi; [K].
    log_chance
        log theta of every category of all columns; [K, C].
    log_likelihood
        log p(X | pi, theta).
    bic
        See the module's text; lower is better.
    """

    log_share: FloatArray
    log_chance: FloatArray
    log_likelihood: float
    bic: float

    @property
    def number(self) -> int:
        """K."""
        return len(self.log_share)

    def categories(self, x: FloatArray) -> FloatArray:
        """Return P(category) of every column given the row's other cells; [N, C].

        ``x`` [N, C] are indicators of the cells that rows have. A cell that is there is not left
        out: use it for missing ones alone.
        """
        r = np.exp(log_softmax(self.log_share + x @ self.log_chance.T, axis=1))
        return np.asarray(r @ np.exp(self.log_chance))


def latent_classes(
    x: FloatArray,
    levels: IntArray,
    number: int,
    rng: np.random.Generator,
    starts: int = STARTS,
    count: FloatArray | None = None,
) -> LatentClasses:
    """Fit so many classes from some starts, of which the best goes on.

    Parameters
    ----------
    x
        [N, C] indicators of the cells' categories, 0 where missing; see
        `vbmodels.features.imputation.latent.one_hot`.
    levels
        [D] categories of each column.
    number
        K.
    rng
        Draws the starts.
    starts
        How many there are.
    count
        [N] how many rows each row counts for; by default 1.
    """
    count = np.ones(len(x)) if count is None else count
    best, r = -np.inf, np.zeros((len(x), 0))
    for _ in range(starts):
        drawn = rng.dirichlet(np.full(number, 0.3), len(x))
        value, made, _ = _climbed(x, levels, count, drawn, FIRST if starts > 1 else LONGEST)
        if value > best:
            best, r = value, made
    value, r, (log_share, log_chance) = _climbed(x, levels, count, r, LONGEST)
    free = number - 1 + number * int(np.sum(levels - 1))
    bic = -2.0 * value + free * np.log(count.sum())
    return LatentClasses(log_share, log_chance, value, float(bic))


def few_classes(x: FloatArray, levels: IntArray, count: FloatArray) -> list[LatentClasses]:
    """Return the fits of one class, the columns' shares, and of `FEW` on weighted rows [N]."""
    return [
        latent_classes(x, levels, k, np.random.default_rng([k, 0]), STARTS if k > 1 else 1, count)
        for k in (1, *FEW)
        if k <= len(x)
    ]


def by_bic(x: FloatArray, levels: IntArray, seed: int) -> LatentClasses:
    """Return the fit of the number of classes with the lowest BIC; see `NUMBERS`."""
    best, risen = latent_classes(x, levels, 1, np.random.default_rng(seed), 1), 0
    for number in NUMBERS[1:]:
        if risen == 2 or number >= len(x):
            break
        one = latent_classes(x, levels, number, np.random.default_rng([seed, number]))
        risen = 0 if one.bic < best.bic else risen + 1
        best = min(best, one, key=lambda fit: fit.bic)
    return best


def _climbed(
    x: FloatArray, levels: IntArray, count: FloatArray, r: FloatArray, most: int
) -> tuple[float, FloatArray, tuple[FloatArray, FloatArray]]:
    """Return log-likelihood, responsibilities [N, K] and parameters after EM from ``r``."""
    first = np.concatenate([[0], np.cumsum(levels)[:-1]]).astype(np.intp)
    before, value = -np.inf, -np.inf
    for _ in range(most):
        rows = count @ r + SMOOTH
        log_share = np.log(rows / rows.sum())
        counts = (r * count[:, None]).T @ x + SMOOTH
        log_chance = np.log(counts / np.repeat(np.add.reduceat(counts, first, 1), levels, axis=1))
        joint = log_share + x @ log_chance.T
        value = float(count @ logsumexp(joint, axis=1))
        r = np.exp(log_softmax(joint, axis=1))
        if value - before < TOLERANCE * abs(value):
            break
        before = value
    return value, r, (log_share, log_chance)


NODES = 41
"""Places on the scale at which the likelihood is taken."""
SD = 5.0
"""Prior standard deviation of a slope: a logit of 5 for each standard deviation of the scale."""
MOST_STEPS = 500
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
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    a, b = parts(found.x)
    likelihood = -float(found.fun) + 0.5 * float(b @ b) / SD**2
    bic = -2.0 * likelihood + 2 * len(free) * np.log(count.sum())
    return LatentScale(a, b, likelihood, float(bic))
