"""Simpler models of the rows and of hidden cells, and how the features compare with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from flows.evaluate.estimate import Estimate, mean_of
from flows.evaluate.rivals import LABEL, Rival, compare, label_loss
from flows.features.input.categories import Column
from flows.features.input.pairs import PairTest, test_pairs
from flows.features.schema import HIDDEN
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.forms import searched
from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.imputation.predict import HiddenCells
from vbmodels.features.rivals import by_bic, few_classes, latent_scale
from vbmodels.features.search.states import SearchGlobal
from vbmodels.features.table import MISSING, FeatureBatch

MOST_ROWS = 5000
"""Rows that simpler models are fitted to, about."""
MOST_CELLS = 2_000_000
"""Rows times categories that these models are fitted to; of wider tables fewer rows."""
LOOSE, CLOSE = 15.0, 3.0
"""Nats a feature by which the bound may be below the log probability; nats between two BICs."""
Kind = Literal["shares", "classes", "scale", "features"]
_STREAM = 11
LEAST_POWER = 0.8
"""Power of a test of the columns from which on it is said that they are not related."""


@dataclass(frozen=True)
class RowSample:
    """Rows of a partition: codes [U, D], how many rows have them and how much these weigh [U]."""

    codes: NDArray[np.int16]
    rows: FloatArray
    count: FloatArray


def sample_rows(batch: FeatureBatch, n_rows: float) -> RowSample:
    """Return a partition's part of about `MOST_ROWS` of ``n_rows`` rows; of fewer, all."""
    most = min(MOST_ROWS, MOST_CELLS / float(batch.levels.sum()))
    lots: FloatArray = draw_uniform(row_keys(batch.row_id, _STREAM), 1)[:, 0]
    taken = np.flatnonzero(lots * n_rows < most)
    rows = np.bincount(batch.row_of[taken], minlength=len(batch.count)).astype(np.float64)
    count = np.bincount(batch.row_of[taken], batch.row_count[taken], len(batch.count))
    there = np.flatnonzero(count)
    return RowSample(batch.codes[there], rows[there], count[there].astype(np.float64))


@dataclass(frozen=True)
class RowModel:
    """A model of the rows.

    Attributes
    ----------
    kind, number
        What it is made of, and of how many.
    nats
        log p(rows), approximately: -BIC / 2, or of several features the bound.
    gain
        The same a row, less that by the columns' shares.
    """

    kind: Kind
    number: int
    nats: float
    gain: float


@dataclass(frozen=True)
class SimplerModels:
    """How well the features describe the rows, and how well simpler models do.

    Attributes
    ----------
    rows
        Rows that the models were fitted to, as often as each counts.
    models
        All of them, the columns' shares first. A single feature is the same model as two classes.
    rival
        The best of those that are not the features' own.
    ahead
        Nats a row of the features above the rival, between the ends of a margin within which no
        difference is clear; it is no 95 % interval. None where it is not known.
    grouped
        Whether two groups or more are clearly better than the columns' shares.
    pairs
        A test of whether the columns are related at all.
    """

    rows: float
    models: tuple[RowModel, ...]
    rival: RowModel
    ahead: Estimate | None
    grouped: bool
    pairs: PairTest

    @property
    def unfound(self) -> Literal["described", "related", "few cells", "unrelated"]:
        """What is known of rows in which no feature was found."""
        if self.rival.gain > 0.0:
            return "described"
        if self.pairs.related:
            return "related"
        return "few cells" if self.pairs.power < LEAST_POWER else "unrelated"


def compare_models(
    samples: Sequence[RowSample], columns: Sequence[Column], q: Any, n_rows: float, features: int
) -> SimplerModels | None:
    """Fit simpler models to the sampled rows; None where there is no row or no two classes."""
    codes = np.concatenate([sample.codes for sample in samples])
    count = np.concatenate([sample.count for sample in samples])
    levels = np.array([len(column.levels) for column in columns])
    cells_of = one_hot(codes, levels)
    fits = few_classes(cells_of, levels, count)
    if len(fits) < 2:
        return None
    # More parameters than different rows can have: such a model is not determined.
    free, cells = int(np.sum(levels - 1)), np.prod(levels.astype(float)) - 1.0
    shares, *classes = [
        -0.5 * fit.bic for k, fit in enumerate(fits, 1) if k < 3 or k * free + k - 1 <= cells
    ]
    rows = float(count.sum())

    def row_model(kind: Kind, number: int, nats: float) -> RowModel:
        return RowModel(kind, number, nats, (nats - shares) / rows)

    rivals = [row_model("classes", k, nats) for k, nats in enumerate(classes, 2)]
    if 2 * free <= cells:
        scale = latent_scale(cells_of, levels, count, fits[1])
        rivals.append(row_model("scale", 1, -0.5 * scale.bic))
    ours: list[RowModel] = []
    if features == 1:
        ours = [row_model("features", 1, rivals.pop(0).nats)]
    elif features and (bound := _bound_of(q)) is not None:
        ours = [row_model("features", features, bound * rows / n_rows)]
    base = row_model("shares", 1, shares)
    rival = max(rivals, key=lambda model: model.nats, default=base)
    pairs = test_pairs(columns, cells_of.T @ (cells_of * count[:, None]))
    return SimplerModels(
        rows,
        (base, *ours, *rivals),
        rival,
        _ahead(ours[0], rival, rows) if ours else None,
        max(classes) - shares > CLOSE,
        pairs,
    )


def _ahead(ours: RowModel, rival: RowModel, rows: float) -> Estimate:
    ahead = ours.gain - rival.gain
    margin = (CLOSE if ours.number == 1 else LOOSE * ours.number) / rows
    return Estimate(ahead, ahead - margin, ahead + margin)


def _bound_of(q: Any) -> float | None:
    """Return the bound on log p(all rows) of a search; None where it was not measured."""
    search = searched(q)
    if not isinstance(search, SearchGlobal) or search.fit is None:
        return None
    bound = max(search.fit.bound, search.fit.value)
    return bound if np.isfinite(bound) else None  # max_iter came before it was measured


MOST_COLUMNS = 50
"""Columns that are regressed on all others; of more, so many evenly chosen ones."""
MOST_WORK = 5e8
"""Cells times categories over all regressions: half a minute, or a few. Of wide tables with columns
of many categories fewer columns are regressed."""
RIDGE = 0.1
"""Inverse strength of the penalty: the best of a few values on surveys (benchmarks/ibp.py)."""
MOST_INDICATORS = 1_000_000
"""Rows times categories that latent classes are learned from: of larger tables some rows."""
_LEAST = 1e-9


def hidden_table(
    hidden: HiddenCells, names: Sequence[str], columns: Sequence[Column]
) -> pa.Table:  # rows' names [N]
    """Return every hidden cell with what the mixture and the simpler models say of it."""
    levels = np.array([len(column.levels) for column in columns])
    places = zip(hidden.columns.tolist(), hidden.truth.tolist(), strict=True)
    return pa.table(
        [
            pa.array([names[n] for n in hidden.rows.tolist()]),
            pa.array([columns[d].name for d in hidden.columns.tolist()]),
            pa.array([columns[d].levels[r] for d, r in places]),
            np.exp(hidden.log_p),
            pa.array(by_logistic(hidden, levels), from_pandas=True),  # NaN is empty
            by_classes(hidden, levels),
            by_shares(hidden, levels),
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
        known = ~np.isnan(p)
        if known.sum() > 1:
            (comparison,) = compare(LABEL, right[known], ours[known], {name: p[known]}, row[known])
            rivals.append(CellRival(comparison, int(known.sum())))
    rivals.sort(key=lambda cell_rival: cell_rival.rival.more.value)
    loss = mean_of(label_loss(right, ours), row)
    return CellTest(len(table), int(row.max()) + 1, loss, tuple(rivals))


RIVALS = "logistic", "classes", "shares"
"""Columns of the table of hidden cells."""


def by_logistic(hidden: HiddenCells, levels: IntArray) -> FloatArray:
    """Return the probability of each hidden cell by a regression of its column on the others; [H].

    A missing or hidden cell is a category of its own. NaN where the column is not regressed: where
    the work would be too much, or where there is no other.
    """
    chance = np.full(len(hidden.truth), np.nan)
    if len(levels) < 2:
        return chance
    seen = _indicators(hidden.codes, levels)
    edges = np.concatenate([[0], np.cumsum(levels + 1)])
    for d in _regressed(levels, len(hidden.codes)):
        cells = np.flatnonzero(hidden.columns == d)
        if cells.size:
            others = sparse.hstack([seen[:, : edges[d]], seen[:, edges[d + 1] :]], format="csr")
            chance[cells] = _of_column(hidden, others, cells, int(d))
    return chance


def by_classes(hidden: HiddenCells, levels: IntArray) -> FloatArray:
    """Return the probability of each hidden cell by latent classes, their number by the BIC; [H].

    They are fitted by EM.
    """
    x = one_hot(hidden.codes, levels)
    fit = by_bic(x[:: -(-x.size // MOST_INDICATORS)], levels, seed=0)
    needed, back = np.unique(hidden.rows, return_inverse=True)
    return np.maximum(fit.categories(x[needed])[back, _category(hidden, levels)], _LEAST)


def by_shares(hidden: HiddenCells, levels: IntArray) -> FloatArray:
    """Return the share of each hidden cell's category among its column's known cells; [H]."""
    counts = one_hot(hidden.codes, levels).sum(0)
    first = (np.cumsum(levels) - levels).astype(np.intp)
    share = counts / np.maximum(np.repeat(np.add.reduceat(counts, first), levels), 1.0)
    return np.maximum(share[_category(hidden, levels)], _LEAST)


def _category(hidden: HiddenCells, levels: IntArray) -> IntArray:
    """Return the number of each hidden cell's category among those of all columns; [H]."""
    return np.asarray((np.cumsum(levels) - levels)[hidden.columns] + hidden.truth)


def _regressed(levels: IntArray, n_rows: int) -> IntArray:
    """Return the columns that are regressed: evenly chosen, as many as the work allows."""
    work = float(n_rows) * len(levels) * levels.mean()
    most = int(np.clip(MOST_WORK / max(work, 1.0), 1, MOST_COLUMNS))
    return np.unique(np.linspace(0, len(levels) - 1, most).round().astype(int))


def _of_column(
    hidden: HiddenCells, others: sparse.csr_array, cells: IntArray, d: int
) -> FloatArray:
    codes = hidden.codes[:, d]
    known = codes != MISSING
    rows, truth = hidden.rows[cells], hidden.truth[cells]
    chance = np.full(len(cells), _LEAST)
    kinds = np.unique(codes[known])
    if len(kinds) < 2:
        chance[np.isin(truth, kinds)] = 1.0
        return chance
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=RIDGE, max_iter=300).fit(others[known], codes[known])
    predicted = model.predict_proba(others[rows])
    position = np.searchsorted(model.classes_, truth)
    there = (position < len(model.classes_)) & np.isin(truth, model.classes_)
    chance[there] = np.maximum(predicted[np.flatnonzero(there), position[there]], _LEAST)
    return chance


def _indicators(codes: NDArray[np.int16], levels: IntArray) -> sparse.csr_array:
    """Return an indicator of each column's categories, the missing one first; one a cell."""
    first = np.concatenate([[0], np.cumsum(levels + 1)])
    position = (first[:-1] + codes + 1).ravel()
    ends = np.arange(len(codes) + 1) * len(levels)
    shape = (len(codes), int(first[-1]))
    return sparse.csr_array((np.ones(position.size), position, ends), shape=shape)
