"""Results of labels of more than two classes: probabilities, scores and curves of each class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.run_tables import Parameter
from flows.data.runs import RunPaths
from flows.experts import ingest as tables_of
from flows.experts.design import (
    effects_in,
    read_basis,
    read_design,
    working_encoding,
)
from flows.experts.encoding import Encoding
from flows.experts.labels import LABEL
from flows.experts.predictions import OfScore
from flows.experts.schema import CLASS_EXPERTS, class_rows
from flows.experts.settings import ExpertSettings
from flows.experts.summary import BINS
from flows.experts.units import read_names
from flows.experts.weights import parameters_of, table_of
from flows.report.baselines import Baseline
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.one_vs_rest import (
    ClassRows,
    OneVersusRest,
    OneVersusRestState,
)
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
        Over the same rows: number, sums of the log loss and of its squares; [3].
    effects
        What columns add for each class; these and the next come with the first partition.
    """

    rows: int
    predicted: FloatArray
    confusion: FloatArray
    calibration: FloatArray
    held_out: FloatArray
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
    summary = _summarised(batch, p)
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
    return replace(summary, effects=tuple(effects), encoding=encoding)


def _summarised(batch: ClassRows, p: FloatArray) -> ClassSummary:
    k = batch.n_classes
    best = np.argmax(p, axis=1)
    kept = (batch.classes >= 0) & (batch.weight == 0.0)
    truth, chance, guess = batch.classes[kept], p[kept], best[kept]
    calibration = np.zeros((k, 3, BINS))
    for c in range(k):
        bins = np.minimum((chance[:, c] * BINS).astype(np.int64), BINS - 1)
        for row, weight in enumerate((np.ones(len(truth)), chance[:, c], truth == c)):
            calibration[c, row] = np.bincount(bins, weight, BINS)
    loss = _losses(chance, truth)
    return ClassSummary(
        rows=batch.size,
        predicted=np.bincount(best, minlength=k).astype(np.float64),
        confusion=np.bincount(truth * k + guess, minlength=k * k).reshape(k, k).astype(np.float64),
        calibration=calibration,
        held_out=np.array([len(truth), loss.sum(), loss @ loss]),
    )


def _losses(p: FloatArray, truth: IntArray) -> FloatArray:
    losses: FloatArray = -np.log(np.maximum(p[np.arange(len(truth)), truth], _LEAST))
    return losses


def parameters(model: OneVersusRest, q: OneVersusRestState) -> list[Parameter]:
    """Return every weight, by the class's number."""
    return [
        replace(one, name=f"class {number + 1} {one.name}")
        for number, part in enumerate(model.posterior(q).parts)
        for one in parameters_of(part)
    ]
