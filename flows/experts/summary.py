"""What one partition of rows adds to the report, and what simple forms get on the same rows.

Logistic regression, the additive form where there is one, and scikit-learn's boosted trees on the
columns before they are scaled, all fitted to the rows that the model was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.experts import ingest as tables_of
from flows.experts.design import read_batch, read_design, unit_numbers, working_encoding
from flows.experts.encoding import Encoding
from flows.experts.predictions import OfScore, Picked, Reasons, chance, label_text
from flows.experts.settings import ExpertSettings
from flows.experts.thresholds import count_scores
from flows.family import Each
from flows.report.baselines import SHARE, Baseline, class_trees, compared_classes, multinomial
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.one_vs_rest import ClassRows
from vbmodels.experts.columns import encoded
from vbmodels.experts.effects import Effect, GroupEffect, PairEffect
from vbmodels.experts.posterior import Predicted, unweighted
from vbmodels.experts.rows import Rows

BINS = 10
WORST = 10
"""Rows predicted worst that are listed."""
DRAWS = 20
"""Draws of the posterior under which shares are summed up."""
_LEAST = 1e-12


@dataclass(frozen=True)
class ExpertSummary(OfScore):
    """What one partition adds to the report.

    Attributes
    ----------
    responsible
        Rows for which each expert has the largest share; [K].
    share
        Sum of shares; [K].
    drawn
        The same under draws of the posterior, which are those of every partition; [draws, K].
    calibration
        Rows, sum of probabilities and of labels by bin of probability, over the rows kept
        from the fit; [3, BINS].
    held_out
        Over the same rows: number, right ones, sums of log loss and of its squares; [4].
    baselines
        What simple forms get on these rows; with the first partition.
    baseline_seconds
        What fitting them took.
    scores
        Over the same rows, by label, rows between thresholds of the probability; see
        `flows.experts.thresholds.count_scores`.
    effects, pairs, groups
        What columns, pairs and groups of columns add; with the first partition.
    encoding
        What became of the columns and labels; with the first partition.
    fitted
        Rows that were fitted, and those of them with the label 1; [2].
    worst
        Of these rows those of the largest log loss; see `worst_rows`.
    """

    rows: int
    responsible: FloatArray
    share: FloatArray
    drawn: FloatArray
    calibration: FloatArray
    held_out: FloatArray
    scores: FloatArray
    columns: tuple[str, ...]
    fitted: FloatArray
    worst: Picked = ()
    baselines: tuple[Baseline, ...] = ()
    baseline_seconds: float = 0.0
    effects: tuple[Effect, ...] = ()
    pairs: tuple[PairEffect, ...] = ()
    groups: tuple[GroupEffect, ...] = ()
    encoding: Encoding | None = None


def summarise(
    batch: Rows, found: Predicted, drawn: FloatArray, columns: tuple[str, ...]
) -> ExpertSummary:
    """Summarise one partition."""
    best = np.argmax(found.responsibility, axis=0)
    kept = (batch.t != 0.0) & (batch.weight == 0.0)
    y, p = batch.t[kept] > 0, found.probability[kept]
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    calibration = np.array([np.bincount(bins, w, BINS) for w in (np.ones(len(p)), p, y)])
    loss = _loss(y, p)
    return ExpertSummary(
        rows=batch.size,
        responsible=np.bincount(best, minlength=len(found.responsibility)).astype(float),
        share=found.responsibility.sum(1),
        drawn=drawn,
        calibration=calibration,
        held_out=np.array([len(p), np.sum((p > 0.5) == y), loss.sum(), loss @ loss]),
        scores=count_scores(y, p),
        columns=tuple(str(c) for c in columns),
        fitted=np.array([np.sum(batch.weight > 0.0), np.sum(batch.t[batch.weight > 0.0] > 0)]),
    )


def worst_rows(batch: Rows, probability: FloatArray, names: pa.Table, reasons: Reasons) -> Picked:
    """Return the rows kept from the fit that are predicted worst, the least probable label first.

    With each: name, probability, label, and why (`Reasons.why`).
    """
    kept = np.flatnonzero((batch.t != 0.0) & (batch.weight == 0.0))
    given = np.where(batch.t > 0, probability, 1.0 - probability)[kept]
    first = np.argsort(given, kind="stable")[:WORST]
    picked = kept[first]
    some = names.take(picked)
    ids, labels = some["id"].to_pylist(), map(label_text, some["label"].to_pylist())
    text = map(chance, probability[picked].tolist())
    rows = zip(ids, text, labels, reasons.why(picked), strict=True)
    return tuple(zip(given[first].tolist(), rows, strict=True))


def _loss(y: Any, p: FloatArray) -> FloatArray:
    return -np.log(np.maximum(np.where(y, p, 1.0 - p), _LEAST))


LARGEST = 20_000_000
"""Cells beyond which no trees are grown."""
FEW_ROWS = 2000
"""Rows below which trees grow with care."""


@dataclass(frozen=True)
class _Rows:
    """What a partition returns: classes and units [N], whether fitted, P and that of others [N, K].

    ``x`` has the columns as they came, but for categories, which are columns of 0 and
    1; a missing number is NaN; [N, D]. Where no trees are grown it has no rows.
    """

    classes: IntArray
    group: IntArray
    fitted: np.ndarray
    own: FloatArray
    others: tuple[FloatArray, ...]
    x: FloatArray


def with_baselines(
    summaries: Sequence[Any], others: Mapping[str, Any], columns: int, settings: ExpertSettings,
    paths: RunPaths, each: Each,
) -> list[Any]:  # fmt: skip
    """Return the summaries, the first with what simple forms get on the rows left out.

    ``others`` are posteriors of two classes by name, for the partitions' own arrays.
    """
    if not settings.baselines or not any(s.held_out[0] > 0 for s in summaries):
        return list(summaries)
    small = columns * sum(s.rows for s in summaries) <= LARGEST
    parts = each(_rows, list(range(len(summaries))), tuple(others.values()), small, paths)
    classes, group, fitted, own = (
        np.concatenate([getattr(p, name) for p in parts])
        for name in ("classes", "group", "fitted", "own")
    )
    seen, held = fitted & (classes >= 0), ~fitted & (classes >= 0)
    y, truth, k = classes[seen], classes[held], own.shape[1]
    if np.unique(truth).size < 2:
        return list(summaries)
    predicted = {
        name: np.concatenate([p.others[i] for p in parts])[held] for i, name in enumerate(others)
    }
    began = perf_counter()
    predicted[SHARE] = np.tile(np.bincount(y, minlength=k) / y.size, (truth.size, 1))
    if small:
        x = np.concatenate([p.x for p in parts])
        predicted["boosted trees"] = class_trees(x[seen], y, settings.seed, y.size < FEW_ROWS)(
            x[held]
        )
        name = "logistic regression" if k == 2 else "multinomial logistic regression"
        if name not in predicted:
            predicted[name] = multinomial(x[seen], y)(x[held])
    found = tuple(
        compared_classes(name, p, own[held], truth, settings.seed, group[held])
        for name, p in predicted.items()
    )
    first = replace(summaries[0], baselines=found, baseline_seconds=perf_counter() - began)
    return [first, *summaries[1:]]


def _rows(index: int, others: tuple[Any, ...], with_columns: bool, paths: RunPaths) -> _Rows:
    batch, encoding = read_batch(paths, index), working_encoding(paths)
    table = storage.read_table(paths.table("rows", index))
    x = np.empty((0, 0))
    if with_columns:
        raw, _ = tables_of.raw_of(storage.read_table(paths.part("rows", index)), encoding.kinds)
        x = encoded(raw, encoding.columns, filled=False)
    group, fitted = unit_numbers(batch), batch.weight > 0.0
    if isinstance(batch, ClassRows):
        own = np.column_stack([table[f"probability_{one}"].to_numpy() for one in encoding.labels])
        return _Rows(batch.classes, group, fitted, own, (), x)
    classes = np.where(batch.t == 0.0, -1, batch.t > 0.0).astype(np.int64)
    weights = read_design(paths, work=True).weights
    theirs = tuple(_both(unweighted(one.predict(batch).probability, weights)) for one in others)
    own = _both(table[f"probability_{encoding.labels[-1]}"].to_numpy())
    return _Rows(classes, group, fitted, own, theirs, x)


def _both(p: FloatArray) -> FloatArray:
    """Return the probabilities of both classes, [N, 2]."""
    return np.column_stack([1.0 - p, p])
