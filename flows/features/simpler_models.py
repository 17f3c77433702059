"""The features against simpler models of the same rows: shares, latent classes, and one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flows.evaluate.estimate import Estimate
from flows.features.input.categories import Column
from flows.features.input.pairs import PairTest, test_pairs
from vbmodels.core.state import FloatArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.forms import searched
from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.latent_class_analysis import few_classes
from vbmodels.features.latent_scale import latent_scale
from vbmodels.features.search.states import SearchGlobal
from vbmodels.features.table import FeatureBatch

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
    codes = np.concatenate([one.codes for one in samples])
    count = np.concatenate([one.count for one in samples])
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

    def made(kind: Kind, number: int, nats: float) -> RowModel:
        return RowModel(kind, number, nats, (nats - shares) / rows)

    rivals = [made("classes", k, nats) for k, nats in enumerate(classes, 2)]
    if 2 * free <= cells:
        scale = latent_scale(cells_of, levels, count, fits[1])
        rivals.append(made("scale", 1, -0.5 * scale.bic))
    own: list[RowModel] = []
    if features == 1:
        own = [made("features", 1, rivals.pop(0).nats)]
    elif features and (bound := _bound_of(q)) is not None:
        own = [made("features", features, bound * rows / n_rows)]
    base = made("shares", 1, shares)
    rival = max(rivals, key=lambda one: one.nats, default=base)
    pairs = test_pairs(columns, cells_of.T @ (cells_of * count[:, None]))
    return SimplerModels(
        rows,
        (base, *own, *rivals),
        rival,
        _ahead(own[0], rival, rows) if own else None,
        max(classes) - shares > CLOSE,
        pairs,
    )


def _ahead(own: RowModel, rival: RowModel, rows: float) -> Estimate:
    more = own.gain - rival.gain
    margin = (CLOSE if own.number == 1 else LOOSE * own.number) / rows
    return Estimate(more, more - margin, more + margin)


def _bound_of(q: Any) -> float | None:
    """Return the bound on log p(all rows) of a search; None where it was not measured."""
    at = searched(q)
    if not isinstance(at, SearchGlobal) or at.fit is None:
        return None
    bound = max(at.fit.bound, at.fit.value)
    return bound if np.isfinite(bound) else None  # max_iter came before it was measured
