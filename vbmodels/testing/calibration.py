"""Item 8: does what users act on hold? Truths from the prior, fits by default, many short runs.

A row draws the truth from the model's own generative process, fits the data as a user would
and returns what that user reads with what is true. There are two kinds of reading:

`Forecast`
    What was expected (a probability, a share of false calls, the level of an interval) and
    what came true (0 or 1). Figures: the mean of realised less expected ("in the large"),
    by the slope of a logistic regression of what came true on the logit of what was expected
    (below 1: over-confident), and by ten bins of what was expected.
`Ranks`
    The truth's rank among thinned draws of a sampler (Talts et al. 2018): uniform where the
    sampler draws from the posterior, by a chi-square test and by the mean rank. A sampler that
    never looked at the data would pass where only parameters are ranked.

Things of one run depend on one another, runs do not: standard errors are over runs. An exact
posterior is calibrated, so its range is the point 0 (slope 1); an approximation has the range
that was measured, with a margin, and the row says what that was. A figure fails where it lies
more than `ERRORS` standard errors outside its range, so few runs demand less than many. Every run
has a seed of its own: the figures are the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.testing.case import Bounds, Calibration, Figures, Forecast, Identity, Ranks, Readings

CALIBRATED = Identity(8, "probabilities, intervals and ranks hold as often as they say")
ERRORS = 3.5
"""One figure of an exact form in 2,000 fails by chance."""
BINS = 10
LARGEST_LOGIT = 12.0


@dataclass(frozen=True)
class Figure:
    """One number of a reading, its standard error, and the range that it must keep.

    ``most`` is how many standard errors it may lie outside.
    """

    reading: str
    name: str
    value: float
    error: float
    low: float
    high: float
    most: float

    @property
    def excess(self) -> float:
        """How many standard errors the value lies outside its range; 0 within."""
        away = max(self.low - self.value, self.value - self.high, 0.0)
        return away / self.error if away else 0.0


def most_errors(runs: int) -> float:
    """Return `ERRORS` for a standard error that is itself of so many runs: Student's quantile."""
    return float(stats.t.isf(stats.norm.sf(ERRORS), max(runs - 1, 1)))


def collect(item: Calibration, runs: int, seed: int = 0) -> list[Readings]:
    """Return the readings of ``runs`` runs; each has a generator of its own."""
    return [item.run(np.random.default_rng([seed, i])) for i in range(runs)]


def figures_of(item: Calibration, runs: list[Readings]) -> list[Figure]:
    """Return every figure of every reading."""
    figures: list[Figure] = []
    for name in runs[0]:
        parts = [readings[name] for readings in runs]
        if isinstance(parts[0], Ranks):
            figures += rank_figures(name, [p for p in parts if isinstance(p, Ranks)])
        else:
            figures += forecast_figures(
                name, [p for p in parts if isinstance(p, Forecast)], item.bounds[name]
            )
    return figures


def check(item: Calibration, runs: list[Readings], power: bool) -> Figures:
    """Fail where a figure lies outside its range; with ``power`` also where the errors are wide.

    Raises
    ------
    ContractBroken
        With the figure, its error and its range.
    """
    figures = figures_of(item, runs)
    for f in figures:
        where = f"{item.form}, {f.reading}, {f.name}, over {len(runs)} runs"
        CALIBRATED.holds(
            f.excess <= f.most,
            where,
            f"{f.value:.4g} +- {f.error:.2g}, expected {f.low:.4g} to {f.high:.4g} "
            f"({f.excess:.1f} standard errors outside)",
        )
        if power and f.name == "in the large":
            most = item.bounds[f.reading].largest_se
            CALIBRATED.holds(
                f.error <= most,
                where,
                f"no power: the standard error is {f.error:.3g}, allowed {most:.3g}",
            )
    return {f"{f.reading}: {f.name}": f.value for f in figures}


# Forecast.


def forecast_figures(name: str, parts: list[Forecast], bounds: Bounds) -> list[Figure]:
    """Return the figures of one reading over all runs."""
    run = np.repeat(np.arange(len(parts)), [p.expected.size for p in parts])
    expected = np.concatenate([p.expected for p in parts])
    realised = np.concatenate([p.realised for p in parts]).astype(float)
    most = most_errors(len(parts))
    figures = [
        Figure(name, "in the large", *mean_of(realised - expected, run), *bounds.large, most)
    ]
    if bounds.slope is not None:
        slope = slope_of(expected, realised, run)
        figures.append(Figure(name, "slope", *slope, *bounds.slope, most))
    if bounds.bins is not None:
        for low, gap, error in binned(expected, realised, run):
            label = f"bin from {low:.1f}"
            figures.append(Figure(name, label, gap, error, -bounds.bins, bounds.bins, most))
    return figures


def mean_of(value: FloatArray, run: IntArray) -> tuple[float, float]:
    """Return the mean over all things and its standard error over runs."""
    mean = float(value.mean())
    sums = np.bincount(run, value - mean)
    error = np.sqrt(np.sum(sums**2)) / value.size
    # No run differs from any other where nothing happened: a Bernoulli's error is the least.
    return mean, max(float(error), 0.5 / value.size)


def slope_of(expected: FloatArray, realised: FloatArray, run: IntArray) -> tuple[float, float]:
    """Return the slope of realised on logit expected, and its standard error over runs."""
    x = np.clip(logit(expected), -LARGEST_LOGIT, LARGEST_LOGIT)
    design = np.column_stack([np.ones_like(x), x])
    coefficients = np.array([0.0, 1.0])
    for _ in range(50):
        p = expit(design @ coefficients)
        information = (design.T * (p * (1.0 - p))) @ design
        step = np.linalg.solve(information, design.T @ (realised - p))
        coefficients = coefficients + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-10:
            break
    score = design * (realised - expit(design @ coefficients))[:, None]
    sums = np.stack([np.bincount(run, s) for s in score.T], axis=1)
    bread = np.linalg.inv(information)
    return float(coefficients[1]), float(np.sqrt((bread @ sums.T @ sums @ bread)[1, 1]))


def binned(
    expected: FloatArray, realised: FloatArray, run: IntArray
) -> list[tuple[float, float, float]]:
    """Return of every bin where it begins, realised less expected, and its standard error.

    Bins in which fewer than 5 of either outcome are expected say nothing and are left out.
    """
    bins = []
    which = np.minimum((expected * BINS).astype(int), BINS - 1)
    for b in np.unique(which):
        here = which == b
        if min(expected[here].sum(), (1.0 - expected[here]).sum()) >= 5.0:
            bins.append((b / BINS, *mean_of((realised - expected)[here], run[here])))
    return bins


# Ranks.


def rank_figures(name: str, parts: list[Ranks]) -> list[Figure]:
    """Return for each quantity how far the chi-square of its ranks lies above what chance gives.

    The value is the normal deviate of the p-value, `ERRORS` at most: a level of 2e-4 a quantity.
    """
    n_draws = parts[0].of
    rank = np.concatenate([np.atleast_2d(p.rank) for p in parts])
    cells = min(n_draws + 1, max(2, len(rank) // 10))
    # Whole numbers of ranks a cell, so that every rank's chance is counted exactly.
    cell = np.arange(n_draws + 1) * cells // (n_draws + 1)
    chance = np.bincount(cell) / (n_draws + 1)
    figures = []
    for k, column in enumerate(rank.T):
        counts = np.bincount(cell[column], minlength=cells)
        p = stats.chisquare(counts, chance * len(rank)).pvalue
        z = float(stats.norm.isf(np.clip(p, 1e-300, 1.0 - 1e-12)))
        mean = (column.mean() - n_draws / 2) / np.sqrt(n_draws * (n_draws + 2) / 12 / len(rank))
        figures.append(Figure(name, f"ranks {k}", z, 1.0, -np.inf, 0.0, ERRORS))
        figures.append(Figure(name, f"mean rank {k}", float(mean), 1.0, 0.0, 0.0, ERRORS))
    return figures


def ranked(truth: FloatArray, draws: FloatArray, rng: np.random.Generator) -> Ranks:
    """Rank truths [...] among draws [S, ...]; ties are broken at random."""
    below = (draws < truth).sum(0)
    ties = (draws == truth).sum(0)
    return Ranks(below + rng.integers(0, ties + 1), len(draws))


def inside(low: FloatArray, high: FloatArray, truth: FloatArray, level: float = 0.95) -> Forecast:
    """Return the coverage of intervals as a reading."""
    came_true = (low <= truth) & (truth <= high)
    return Forecast(np.full(truth.shape, level), came_true.astype(np.float64))


SHARE: dict[str, Any] = {"slope": None, "bins": None}
"""Options of `Bounds` for intervals and shares, where what is expected hardly varies."""
