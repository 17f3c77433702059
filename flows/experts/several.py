"""Results of labels of more than two classes: probabilities, scores and curves of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.run_tables import Parameter
from flows.data.runs import RunPaths
from flows.experts import ingest as tables_of
from flows.experts.design import (
    effects_in,
    read_basis,
    read_batch,
    read_design,
    unit_numbers,
    working_encoding,
)
from flows.experts.encoding import Encoding
from flows.experts.labels import LABEL
from flows.experts.predictions import OfScore
from flows.experts.schema import CLASS_EXPERTS, class_rows
from flows.experts.settings import ExpertSettings
from flows.experts.summary import BINS, FEW_ROWS, LARGEST
from flows.experts.units import read_names
from flows.experts.weights import parameters_of, table_of
from flows.family import Each
from flows.report.baselines import SHARE, Baseline, class_trees, compared_classes, multinomial
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.one_vs_rest import (
    ClassRows,
    OneVersusRest,
    OneVersusRestState,
    SeveralPosterior,
)
from vbmodels.experts.columns import encoded
from vbmodels.experts.effects import Effect
from vbmodels.experts.forms import names_of
from vbmodels.experts.posterior import unweighted

EFFECTS = 3
"""Columns of each class that the report shows."""
_LEAST = 1e-12


@dataclass(frozen=True)
class ClassSummary(OfScore):
    """What one partition adds to the report.

    Attributes
    ----------
    predicted
        Rows of which each class is the most probable; [K].
    confusion
        Of the rows kept from the fit, by class and by most probable class; [K, K].
    calibration
        Over the same rows, for each class: rows, sum of probabilities and of rows of the class, by
        bin of its probability; [K, 3, BINS].
    held_out
        Over the same rows: number, sum of log loss, that of logistic regressions shared alike
        (NaN without), and the sum of squares of the log loss; [4].
    forms
        Of each class: the additive form, number of experts, tau.
    effects
        What columns add for each class; these and the next come with the first partition.
    """

    rows: int
    predicted: FloatArray
    confusion: FloatArray
    calibration: FloatArray
    held_out: FloatArray
    forms: tuple[tuple[str, int, float], ...] = ()
    effects: tuple[tuple[Effect, ...], ...] = ()
    encoding: Encoding | None = None
    baselines: tuple[Baseline, ...] = ()
    baseline_seconds: float = 0.0


def score(
    model: OneVersusRest, q: OneVersusRestState, batch: ClassRows, index: int,
    settings: ExpertSettings, paths: RunPaths, new: bool,
) -> ClassSummary:  # fmt: skip
    """Write the chance of every class in every row."""
    posterior = model.posterior(q)
    weights = read_design(paths, work=True).weights
    p = unweighted(posterior.probabilities(batch), weights)
    encoding = working_encoding(paths)
    best = np.argmax(p, axis=1)
    kept, groups = read_names(paths, index, settings)
    predicted = pa.array(encoding.labels, pa.string()).take(pa.array(best))
    held = (batch.classes >= 0) & (batch.weight == 0.0) & (not new)
    numbers = map(pa.array, (*np.ascontiguousarray(p.T), held))
    arrays = [kept[tables_of.ID], kept[LABEL], predicted, *numbers, *groups]
    schema = class_rows(encoding.labels, bool(groups)).arrow
    storage.write_table(paths.table("rows", index), pa.table(arrays, schema=schema))
    lines = model.baseline(q).probabilities(batch)
    lines = None if lines is None else unweighted(lines, weights)
    summary = _summarised(batch, p, lines)
    if index > 0:
        return summary
    design, basis = read_design(paths, work=True), read_basis(paths, work=True)
    rows: list[pa.Table] = []
    effects = []
    for label, one in zip(encoding.splits, posterior.parts, strict=True):
        columns = table_of(one, names_of(one, design.columns, basis))
        own = [pa.array([label] * len(columns[0]), pa.string()), *columns]
        rows.append(pa.table(own, schema=CLASS_EXPERTS.arrow))
        effects.append(effects_in(one, encoding, design, basis)[0][:EFFECTS])
    storage.write_table(paths.table("experts", 0), pa.concat_tables(rows))
    forms = _forms(q, posterior)
    return replace(summary, forms=forms, effects=tuple(effects), encoding=encoding)


def _summarised(batch: ClassRows, p: FloatArray, other: FloatArray | None) -> ClassSummary:
    k = batch.n_classes
    best = np.argmax(p, axis=1)
    kept = (batch.classes >= 0) & (batch.weight == 0.0)
    truth, chance, guess = batch.classes[kept], p[kept], best[kept]
    calibration = np.zeros((k, 3, BINS))
    for c in range(k):
        bins = np.minimum((chance[:, c] * BINS).astype(np.int64), BINS - 1)
        for row, weight in enumerate((np.ones(len(truth)), chance[:, c], truth == c)):
            calibration[c, row] = np.bincount(bins, weight, BINS)
    logistic = np.nan if other is None else float(_losses(other[kept], truth).sum())
    loss = _losses(chance, truth)
    return ClassSummary(
        rows=batch.size,
        predicted=np.bincount(best, minlength=k).astype(np.float64),
        confusion=np.bincount(truth * k + guess, minlength=k * k).reshape(k, k).astype(np.float64),
        calibration=calibration,
        held_out=np.array([len(truth), loss.sum(), logistic, loss @ loss]),
    )


def _losses(p: FloatArray, truth: IntArray) -> FloatArray:
    losses: FloatArray = -np.log(np.maximum(p[np.arange(len(truth)), truth], _LEAST))
    return losses


def _forms(
    q: OneVersusRestState, posterior: SeveralPosterior
) -> tuple[tuple[str, int, float], ...]:
    return tuple(
        (
            part.form,
            one.components[0].mean.shape[1] if one.mixtures else 0,
            float(part.parts[0].tau),
        )
        for part, one in zip(q.parts, posterior.parts, strict=True)
    )


def parameters(model: OneVersusRest, q: OneVersusRestState) -> list[Parameter]:
    """Return every weight, by the class's number."""
    return [
        replace(one, name=f"class {number + 1} {one.name}")
        for number, part in enumerate(model.posterior(q).parts)
        for one in parameters_of(part)
    ]


@dataclass(frozen=True)
class _Left:
    """What a partition returns: classes [N], whether fitted, the model's P [N, K], units
    of rows [N], and columns."""

    classes: IntArray
    fitted: np.ndarray
    own: FloatArray
    group: IntArray
    x: FloatArray


def with_baselines(
    summaries: Sequence[ClassSummary], columns: int, settings: ExpertSettings, paths: RunPaths,
    each: Each,
) -> list[ClassSummary]:  # fmt: skip
    """Return the summaries, the first with what simple forms get on the rows left out."""
    small = columns * sum(s.rows for s in summaries) <= LARGEST
    if not (settings.baselines and small and any(s.held_out[0] > 0 for s in summaries)):
        return list(summaries)
    parts = each(_left, list(range(len(summaries))), paths)
    classes = np.concatenate([p.classes for p in parts])
    fitted = np.concatenate([p.fitted for p in parts])
    own, x, group = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("own", "x", "group")
    )
    seen, held = fitted & (classes >= 0), ~fitted & (classes >= 0)
    careful = int(seen.sum()) < FEW_ROWS
    began = perf_counter()
    share = np.bincount(classes[seen], minlength=own.shape[1]) / int(seen.sum())
    others = {
        SHARE: np.tile(share, (int(held.sum()), 1)),
        "multinomial logistic regression": multinomial(x[seen], classes[seen])(x[held]),
        "boosted trees": class_trees(x[seen], classes[seen], settings.seed, careful)(x[held]),
    }
    found = tuple(
        compared_classes(name, p, own[held], classes[held], settings.seed, group[held])
        for name, p in others.items()
    )
    first = replace(summaries[0], baselines=found, baseline_seconds=perf_counter() - began)
    return [first, *summaries[1:]]


def _left(index: int, paths: RunPaths) -> _Left:
    batch = read_batch(paths, index)
    assert isinstance(batch, ClassRows)
    table = storage.read_table(paths.table("rows", index))
    encoding = working_encoding(paths)
    own = np.column_stack([table[f"probability_{one}"].to_numpy() for one in encoding.labels])
    raw, _ = tables_of.raw_of(storage.read_table(paths.part("rows", index)), encoding.kinds)
    x = encoded(raw, encoding.columns, filled=False)
    return _Left(batch.classes, batch.weight > 0.0, own, unit_numbers(batch), x)
