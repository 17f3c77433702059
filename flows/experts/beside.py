"""Simple forms beside the model on the rows that were left out of the fit.

Logistic regression, the additive form where there is one, and scikit-learn's boosted trees on the
columns before they are scaled, all fitted to the rows that the model was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flows.data import storage
from flows.data.runs import RunPaths
from flows.experts import ingest as tables_of
from flows.experts.design import read_batch, work_url, working_encoding
from flows.experts.settings import ExpertSettings
from flows.experts.summary import ExpertSummary
from flows.family import Each
from flows.report.baselines import compared, trees
from vbmodels.core.state import FloatArray
from vbmodels.experts.encoding import encoded

LARGEST = 20_000_000
"""Cells beyond which no trees are grown."""
FEW_ROWS = 2000
"""Rows below which trees grow with care."""


@dataclass(frozen=True)
class Left:
    """What a partition tells: labels [N], whether fitted, the model's P, and those of others.

    ``x`` has the columns as they came, but for categories, which are columns of 0 and 1; a missing
    number is NaN; [N, D]. Where no trees are grown it has no rows, and N
    counts the rows left out alone.
    """

    label: FloatArray
    fitted: np.ndarray
    own: FloatArray
    others: tuple[FloatArray, ...]
    x: FloatArray


def with_baselines(
    summaries: Sequence[ExpertSummary], others: Mapping[str, Any], columns: int,
    settings: ExpertSettings, paths: RunPaths, each: Each,
) -> list[ExpertSummary]:  # fmt: skip
    """Return the summaries, the first with what simple forms get on the rows left out.

    ``others`` are posteriors by name, for the partitions' own arrays.
    """
    if not settings.baselines or not any(s.judged[0] > 0 for s in summaries):
        return list(summaries)
    small = columns * sum(s.rows for s in summaries) <= LARGEST
    indices = list(range(len(summaries)))
    parts = each(_left, indices, tuple(others.values()), small, paths)
    label = np.concatenate([p.label for p in parts])
    fitted = np.concatenate([p.fitted for p in parts])
    seen, held = fitted & (label != 0.0), ~fitted & (label != 0.0)
    truth = (label[held] > 0).astype(np.int64)
    if np.unique(truth).size < 2:
        return list(summaries)
    told = {
        name: np.concatenate([p.others[i] for p in parts])[held] for i, name in enumerate(others)
    }
    if small:
        x, y = np.concatenate([p.x for p in parts]), (label > 0).astype(np.int64)
        careful = int(seen.sum()) < FEW_ROWS
        told["boosted trees"] = trees(x[seen], y[seen], settings.seed, careful)(x[held])
    own = np.concatenate([p.own for p in parts])[held]
    found = tuple(compared(name, p, own, truth, settings.seed) for name, p in told.items())
    return [replace(summaries[0], baselines=found), *summaries[1:]]


def _left(index: int, others: tuple[Any, ...], with_columns: bool, paths: RunPaths) -> Left:
    batch = read_batch(paths, index)
    own = storage.read_table(paths.table("rows", index), ["probability"])["probability"].to_numpy()
    x = np.empty((0, 0))
    if with_columns:
        table = storage.read_table(work_url(paths, "rows", index))
        encoding = working_encoding(paths)
        raw, _ = tables_of.raw_of(table, encoding.kinds)
        x = encoded(raw, encoding.columns, filled=False)
    fitted = batch.weight > 0.0
    told = np.ones(len(fitted), bool) if with_columns else ~fitted
    return Left(
        label=batch.t[told],
        fitted=fitted[told],
        own=own[told],
        others=tuple(one.predict(batch).probability[told] for one in others),
        x=x,
    )
