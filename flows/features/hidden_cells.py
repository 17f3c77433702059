"""Known cells that were hidden from the fit: what simpler models, which saw neither, say of them.

One logistic regression for each column; latent classes, their number by the BIC; and the columns'
shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from flows.evaluate.estimate import Estimate, mean_of
from flows.evaluate.rivals import LABEL, Rival, compare, label_loss
from flows.features.input.categories import Column
from flows.features.schema import HIDDEN
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


def hidden_table(
    found: HiddenCells, names: Sequence[str], columns: Sequence[Column]
) -> pa.Table:  # rows' names [N]
    """Return every hidden cell with what the mixture and the simpler models say of it."""
    levels = np.array([len(column.levels) for column in columns])
    places = zip(found.columns.tolist(), found.truth.tolist(), strict=True)
    return pa.table(
        [
            pa.array([names[n] for n in found.rows.tolist()]),
            pa.array([columns[d].name for d in found.columns.tolist()]),
            pa.array([columns[d].levels[r] for d, r in places]),
            np.exp(found.log_p),
            pa.array(by_logistic(found, levels), from_pandas=True),  # NaN is empty
            by_classes(found, levels),
            by_shares(found, levels),
        ],
        schema=HIDDEN.arrow,
    )


@dataclass(frozen=True)
class CellRival:
    """Another model on the hidden cells that it predicts: how it compares, and how many."""

    rival: Rival
    cells: int


@dataclass(frozen=True)
class CellTest:
    """How well hidden cells are predicted.

    Attributes
    ----------
    cells, rows
        How many cells were hidden, and in how many rows.
    loss
        Log loss of the mixture.
    rivals
        Other models, the best first; cells of one row are drawn together.
    """

    cells: int
    rows: int
    loss: Estimate
    rivals: tuple[CellRival, ...]


def evaluate_cells(table: pa.Table) -> CellTest | None:
    """Compare the models on the hidden cells of a run's table; None where there are too few."""
    if len(table) < 2:
        return None
    ours, row = table["mixture"].to_numpy(), np.unique(table["id"], return_inverse=True)[1]
    right, rivals = np.ones(len(table)), []
    for name in RIVALS:
        p = table[name].to_numpy()
        said = ~np.isnan(p)
        if said.sum() > 1:
            (one,) = compare(LABEL, right[said], ours[said], {name: p[said]}, row[said])
            rivals.append(CellRival(one, int(said.sum())))
    rivals.sort(key=lambda one: one.rival.more.value)
    loss = mean_of(label_loss(right, ours), row)
    return CellTest(len(table), int(row.max()) + 1, loss, tuple(rivals))


RIVALS = "logistic", "classes", "shares"
"""Columns of the table of hidden cells."""


def by_logistic(found: HiddenCells, levels: IntArray) -> FloatArray:
    """Return the probability of each hidden cell by a regression of its column on the others; [H].

    A missing or hidden cell is a category of its own. NaN where the column is not regressed: where
    the work would be too much, or where there is no other.
    """
    chance = np.full(len(found.truth), np.nan)
    if len(levels) < 2:
        return chance
    seen = _indicators(found.codes, levels)
    edges = np.concatenate([[0], np.cumsum(levels + 1)])
    for d in _regressed(levels, len(found.codes)):
        cells = np.flatnonzero(found.columns == d)
        if cells.size:
            others = sparse.hstack([seen[:, : edges[d]], seen[:, edges[d + 1] :]], format="csr")
            chance[cells] = _of_column(found, others, cells, int(d))
    return chance


def by_classes(found: HiddenCells, levels: IntArray) -> FloatArray:
    """Return the probability of each hidden cell by latent classes, their number by the BIC; [H].

    They are fitted by EM.
    """
    x = one_hot(found.codes, levels)
    fit = by_bic(x[:: -(-x.size // MOST_INDICATORS)], levels, seed=0)
    needed, back = np.unique(found.rows, return_inverse=True)
    return np.maximum(fit.categories(x[needed])[back, _category(found, levels)], _LEAST)


def by_shares(found: HiddenCells, levels: IntArray) -> FloatArray:
    """Return the share of each hidden cell's category among its column's known cells; [H]."""
    counts = one_hot(found.codes, levels).sum(0)
    first = (np.cumsum(levels) - levels).astype(np.intp)
    share = counts / np.maximum(np.repeat(np.add.reduceat(counts, first), levels), 1.0)
    return np.maximum(share[_category(found, levels)], _LEAST)


def _category(found: HiddenCells, levels: IntArray) -> IntArray:
    """Return the number of each hidden cell's category among those of all columns; [H]."""
    return np.asarray((np.cumsum(levels) - levels)[found.columns] + found.truth)


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
        return chance
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=RIDGE, max_iter=300).fit(others[known], own[known])
    said = model.predict_proba(others[rows])
    place = np.searchsorted(model.classes_, truth)
    there = (place < len(model.classes_)) & np.isin(truth, model.classes_)
    chance[there] = np.maximum(said[np.flatnonzero(there), place[there]], _LEAST)
    return chance


def _indicators(codes: NDArray[np.int16], levels: IntArray) -> sparse.csr_array:
    """Return an indicator of each column's categories, the missing one first; one a cell."""
    first = np.concatenate([[0], np.cumsum(levels + 1)])
    place = (first[:-1] + codes + 1).ravel()
    ends = np.arange(len(codes) + 1) * len(levels)
    shape = (len(codes), int(first[-1]))
    return sparse.csr_array((np.ones(place.size), place, ends), shape=shape)
