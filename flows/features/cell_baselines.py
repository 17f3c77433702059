"""How simple baselines predict the hidden cells.

One logistic regression for each column; latent classes, their number by the BIC; and the columns'
shares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.imputation.predict import HiddenCells
from vbmodels.features.latent_class_analysis import by_bic
from vbmodels.features.table import MISSING

MOST_COLUMNS = 50
"""Columns that are regressed on all others; of more, so many evenly chosen ones."""
MOST_WORK = 5e8
"""Cells times categories over all regressions: half a minute, or a few. Of wide tables with columns
of many categories fewer columns are regressed."""
RIDGE = 0.1
"""Inverse strength of the penalty: the best of a few values on surveys (benchmarks/ibp_rivals)."""
MOST_INDICATORS = 1_000_000
"""Rows times categories that latent classes are learned from: of larger tables some rows."""
_LEAST = 1e-9


@dataclass(frozen=True)
class BaselineScore:
    """The mixture and a baseline on the same cells.

    Parameters
    ----------
    cells, rows
        How many cells were compared, and from how many rows the baseline learned.
    mixture, baseline
        Mean log probabilities.
    difference, error
        Of the mixture less the baseline, a cell, and its standard error.
    classes
        How many latent classes the baseline has, where it is these.
    """

    cells: int
    rows: int
    mixture: float
    baseline: float
    difference: float
    error: float
    classes: int | None = None


def score_logistic(found: HiddenCells, levels: IntArray) -> BaselineScore | None:
    """Compare the mixture with a logistic regression of each column on the others.

    A missing or hidden cell is a category of its own. None where there are fewer than two cells,
    or no other column to regress on.

    Parameters
    ----------
    found
        Rows with hidden cells.
    levels
        [D] categories of each column.
    """
    if len(levels) < 2:
        return None
    columns = _regressed(levels, len(found.codes))
    log_p = np.full(len(found.truth), np.nan)
    seen = _indicators(found.codes, levels)
    edges = np.concatenate([[0], np.cumsum(levels + 1)])
    for d in columns:
        cells = np.flatnonzero(found.columns == d)
        if not cells.size:
            continue
        others = sparse.hstack([seen[:, : edges[d]], seen[:, edges[d + 1] :]], format="csr")
        log_p[cells] = _of_column(found, others, cells, int(d))
    return _compared(found, log_p, len(found.codes))


def score_classes(found: HiddenCells, levels: IntArray) -> BaselineScore | None:
    """Compare the mixture with latent classes by EM, their number by the BIC.

    None where there are fewer than two cells, or no row to learn from.
    """
    if len(found.truth) < 2:
        return None
    x = one_hot(found.codes, levels)
    step = -(-x.size // MOST_INDICATORS)
    fit = by_bic(x[::step], levels, seed=0)
    needed, back = np.unique(found.rows, return_inverse=True)
    chance = fit.categories(x[needed])[back, _category(found, levels)]
    found_score = _compared(found, np.log(np.maximum(chance, _LEAST)), len(x[::step]))
    return None if found_score is None else replace(found_score, classes=fit.number)


def score_shares(found: HiddenCells, levels: IntArray) -> BaselineScore | None:
    """Compare the mixture with the shares of the columns' known cells; None for fewer than two."""
    counts = one_hot(found.codes, levels).sum(0)
    first = (np.cumsum(levels) - levels).astype(np.intp)
    share = counts / np.maximum(np.repeat(np.add.reduceat(counts, first), levels), 1.0)
    chance = np.maximum(share[_category(found, levels)], _LEAST)
    return _compared(found, np.log(chance), len(found.codes))


def _category(found: HiddenCells, levels: IntArray) -> IntArray:
    """Return the number of each hidden cell's category among those of all columns; [H]."""
    return np.asarray((np.cumsum(levels) - levels)[found.columns] + found.truth)


def _compared(found: HiddenCells, log_p: FloatArray, rows: int) -> BaselineScore | None:
    """Compare the mixture with a baseline's log probabilities [H], NaN where it says nothing."""
    known = ~np.isnan(log_p)
    if known.sum() < 2:
        return None
    gain = found.log_p[known] - log_p[known]
    return BaselineScore(
        cells=int(known.sum()),
        rows=rows,
        mixture=float(found.log_p[known].mean()),
        baseline=float(log_p[known].mean()),
        difference=float(gain.mean()),
        error=float(gain.std(ddof=1) / np.sqrt(gain.size)),
    )


def _regressed(levels: IntArray, n_rows: int) -> IntArray:
    """Return the columns that are regressed: evenly chosen, as many as the work allows."""
    work = float(n_rows) * len(levels) * levels.mean()
    most = int(np.clip(MOST_WORK / max(work, 1.0), 1, MOST_COLUMNS))
    return np.unique(np.linspace(0, len(levels) - 1, most).round().astype(int))


def _of_column(found: HiddenCells, others: sparse.csr_array, cells: IntArray, d: int) -> FloatArray:
    own = found.codes[:, d]
    known = own != MISSING
    rows, truth = found.rows[cells], found.truth[cells]
    chance = np.full(len(cells), _LEAST)
    kinds = np.unique(own[known])
    if len(kinds) < 2:
        chance[np.isin(truth, kinds)] = 1.0
        return np.asarray(np.log(chance))
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=RIDGE, max_iter=300).fit(others[known], own[known])
    said = model.predict_proba(others[rows])
    place = np.searchsorted(model.classes_, truth)
    there = (place < len(model.classes_)) & np.isin(truth, model.classes_)
    chance[there] = np.maximum(said[np.flatnonzero(there), place[there]], _LEAST)
    return np.asarray(np.log(chance))


def _indicators(codes: NDArray[np.int16], levels: IntArray) -> sparse.csr_array:
    """Return an indicator of each column's categories, the missing one first; one a cell."""
    first = np.concatenate([[0], np.cumsum(levels + 1)])
    place = (first[:-1] + codes + 1).ravel()
    ends = np.arange(len(codes) + 1) * len(levels)
    shape = (len(codes), int(first[-1]))
    return sparse.csr_array((np.ones(place.size), place, ends), shape=shape)
