"""What this model and others predict of rows without their labels: the table of tested rows.

Rows are tested that were held out of the fit, or all of them by folds: each is predicted by a fit
without its fold, which chooses its form, its scale and its strengths again. The others are fitted
to the same rows, scikit-learn's on the columns before they are scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from flows import storage
from flows.evaluate.fits import class_trees, multinomial
from flows.experts.input.design import Forms, read_batch, unit_numbers
from flows.experts.input.encoding import Encoding, raw_of
from flows.experts.input.units import read_units
from flows.experts.reasons import Picked, Row, Shown, Tested
from flows.experts.schema import probability_of, tested_rows
from flows.experts.scored import (
    WORST,
    NumberModel,
    Predicted,
    is_held_out,
    predict,
    reasons_of,
    truth_of,
    worst_of,
)
from flows.experts.settings import ExpertSettings
from flows.family import Each
from flows.records.runs import RunPaths
from flows.tables.roles import LABEL, WEIGHT
from vbmodels.core.fit import InProcess, drive
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.experts.additive.counts import mean_of
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.terms.step_rows import CountRows
from vbmodels.tables.encoding import encoded

OWN, BASE = "this model", "base rate"
"""This model, and what is the same for all rows: shares of the labels, or the mean."""
TREES = "boosted trees"
LOGISTIC, MULTINOMIAL = "logistic regression", "multinomial logistic regression"
RIDGE, POISSON = "ridge regression", "Poisson regression"
WITHOUT_EXPERTS = "this model without experts"
WITHOUT_PROCESS = "this model without the Gaussian process"
LARGEST = 20_000_000
"""Cells beyond which no trees are grown."""
FEW_ROWS = 2000
"""Rows below which trees grow with care."""


@dataclass(frozen=True)
class _Part:
    """Rows of a partition, or of all.

    Attributes
    ----------
    truth
        Labels as numbers, of a number in its own unit; NaN without; [N].
    unit, fitted, tested, weight
        Their units, whether the fit has seen them or they are tested, and their weights; [N].
    by_model
        What is predicted of each, by the model's name; [N, W].
    ends
        Ends of the intervals of numbers; [N, 2], else [N, 0].
    x
        The columns as they came, but for categories, which are columns of 0 and 1; a missing number
        is NaN; [N, D]. Where no trees are grown it has none.
    exposure
        Of counts, in that of the mean row; else 1; [N].
    seen
        Of the fitted rows: the sum of exposures, that of ridge regression's predictions, and that
        of their numbers, or their counts by class; [2 + W].
    """

    ARRAYS: ClassVar = ("truth", "unit", "fitted", "tested", "weight", "ends", "x", "exposure")

    truth: FloatArray
    unit: IntArray
    fitted: BoolArray
    tested: BoolArray
    weight: FloatArray
    by_model: Mapping[str, FloatArray]
    ends: FloatArray
    x: FloatArray
    exposure: FloatArray
    seen: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[_Part]) -> _Part:
        """Join partitions."""
        first, *_ = parts
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.ARRAYS
        }
        by_model = {
            name: np.concatenate([part.by_model[name] for part in parts]) for name in first.by_model
        }
        seen = np.sum([part.seen for part in parts], axis=0)
        return cls(**arrays, by_model=by_model, seen=seen)

    def of_tested_rows(self) -> _Part:
        """Return it without the other rows."""
        arrays = {name: getattr(self, name)[self.tested] for name in self.ARRAYS}
        by_model = {name: values[self.tested] for name, values in self.by_model.items()}
        return _Part(**arrays, by_model=by_model, seen=self.seen)


def write_tested(
    model: Any, q: Any, rows: Sequence[int], settings: ExpertSettings, paths: RunPaths, each: Each
) -> Tested | None:
    """Write the table of tested rows of a fit; return what is in it, None where there are none.

    ``rows`` are the numbers of rows of the partitions.
    """
    began = perf_counter()
    indices = list(range(len(rows)))
    _, units = read_units(paths, 0)
    forms = Forms.read(paths)
    with_trees = settings.baselines and len(forms.design.columns) * sum(rows) <= LARGEST
    encoding = forms.encoding
    if units.folds.size:
        folds = sorted({*units.folds.tolist()} - {-1})
        left = each(_fit_without, folds, model, indices, with_trees, settings, paths)
        if not left:
            return None
        by_model, ends = _assembled(left, sum(rows))
        tested = ~np.isnan(by_model[OWN][:, 0])
        worst = sorted((row for fold in left for row in fold.worst), key=lambda row: row[0])
        cuts = np.cumsum(rows)[:-1]
        for index, predicted in enumerate(np.split(by_model[OWN], cuts)):
            _write_without(index, predicted, encoding, paths)
        by_model, ends = {name: values[tested] for name, values in by_model.items()}, ends[tested]
        counts = [int(is_tested.sum()) for is_tested in np.split(tested, cuts)]
        result = Tested(tuple(by_model), len(folds), 0.0, tuple(worst[:WORST]))
    else:
        others = _others_of(model, q) if settings.baselines else {}
        parts = each(_held_out, indices, others, with_trees, paths)
        counts = [int(part.tested.sum()) for part in parts]
        if sum(counts) < 2:
            return None
        whole = _Part.joined(parts)
        by_model = _compared(whole, model, q, with_trees, encoding, settings)
        ends = whole.ends[whole.tested]
        result = Tested(tuple(by_model), 0, 0.0)
    stops = np.cumsum(counts)
    for index, rows_of in enumerate(zip(stops - counts, stops, strict=True)):
        here = slice(*rows_of)
        part = {name: values[here] for name, values in by_model.items()}
        _write_part(index, part, ends[here], encoding, paths)
    return replace(result, seconds=perf_counter() - began)


def _write_part(
    index: int,
    by_model: Mapping[str, FloatArray],
    ends: FloatArray,
    encoding: Encoding,
    paths: RunPaths,
) -> None:
    labels = encoding.labels if len(encoding.labels) > 2 else []
    rows = storage.read_table(paths.table("rows", index))
    given = [name for name in (WEIGHT,) if name in rows.column_names]
    schema = tested_rows(tuple(by_model), labels, encoding.target is not None, bool(given))
    keys, units = read_units(paths, index)
    # With folds a row that weighs nothing, and that no fold has, is held out and not tested.
    tested = pc.is_valid(rows["without_it"]) if units.folds.size else rows["held_out"]
    unit = pa.chunked_array([pa.array(units.number_of(keys.cells, keys.names))])
    arrays = [
        array.filter(tested)
        for array in (rows["id"], rows["label"], unit, *(rows[name] for name in given))
    ]
    numbers = [*ends.T, *(column for values in by_model.values() for column in values.T)]
    arrays += [pa.array(np.ascontiguousarray(values)) for values in numbers]
    storage.write_table(paths.table("tested", index), pa.table(arrays, schema=schema.arrow))


def _write_without(index: int, predicted: FloatArray, encoding: Encoding, paths: RunPaths) -> None:
    """Write what fits without their folds predict into the table of all rows."""
    url = paths.table("rows", index)
    rows = storage.read_table(url)
    known = ~np.isnan(predicted[:, 0])
    values = pa.array(predicted[:, 0], from_pandas=True)
    if predicted.shape[1] > 1:
        best = np.argmax(np.nan_to_num(predicted), axis=1)
        values = pa.array(encoding.labels, pa.string()).take(pa.array(best, mask=~known))
    position = rows.schema.get_field_index("without_it")
    storage.write_table(url, rows.set_column(position, rows.schema.field(position), values))


def _others_of(model: Any, q: Any) -> dict[str, Any]:
    """Return the fits that are this model less some of its parts."""
    if isinstance(model, NumberModel):
        return {RIDGE: model.baseline(q)}
    if not isinstance(model, AdditiveExperts):
        return {}
    others: dict[str, Any] = {LOGISTIC: model.baseline(q)}
    if q.additive.weight > 0.0:
        others[WITHOUT_PROCESS] = model.without_process(q)
    if q.points:
        others[WITHOUT_EXPERTS] = model.additive_part(q)
    return others


def _part_of(
    batch: Any,
    forms: Forms,
    predicted: Predicted,
    tested: BoolArray,
    others: Mapping[str, Any],
    with_trees: bool,
    table: pa.Table,
) -> _Part:
    truth, target, by_model = truth_of(batch), forms.encoding.target, {OWN: predicted.own}
    x = np.empty((len(truth), 0))
    exposure = batch.exposure if isinstance(batch, CountRows) else np.ones(len(truth))
    if target is not None:
        truth = target.values(table[LABEL].combine_chunks())[0]
    for name, model in others.items():
        if target is None:
            by_model[name] = predict(model, batch, forms).own
            continue
        mean = model.project(batch.rows)
        mean = exposure * mean_of(mean) if target.count else mean
        by_model[name] = target.predicted(mean, np.zeros(len(truth)))[0][:, None]
    if with_trees:
        raw, _ = raw_of(table, forms.encoding.kinds)
        x = encoded(raw, forms.encoding.columns, filled=False)
    fitted = (batch.weight > 0.0) & ~np.isnan(truth)
    ends = np.empty((len(truth), 0)) if predicted.ends is None else predicted.ends
    weight = table[WEIGHT].combine_chunks().fill_null(0.0).to_numpy() / forms.design.mean_weight
    y, w = truth[fitted], weight[fitted]
    lines = float((by_model[RIDGE][fitted, 0] * w).sum()) if RIDGE in by_model else 0.0
    classes = predicted.own.shape[1]
    sums = np.bincount(y.astype(int), w, classes) if classes > 1 else [(y * w).sum()]
    seen = np.array([(exposure[fitted] * w).sum(), lines, *sums], float)
    return _Part(
        truth, unit_numbers(batch), fitted, tested, weight, by_model, ends, x, exposure, seen
    )


def _held_out(index: int, others: Mapping[str, Any], with_trees: bool, paths: RunPaths) -> _Part:
    batch, forms = read_batch(paths, index), Forms.read(paths)
    rows = storage.read_table(paths.table("rows", index))
    labels, ends = forms.encoding.labels, None
    names = [probability_of(label) for label in (labels if len(labels) > 2 else labels[-1:])]
    if forms.encoding.target is not None:
        names, ends = ["predicted"], np.column_stack([rows["low"], rows["high"]])
    predicted = Predicted(np.column_stack([rows[name] for name in names]), ends)
    table = storage.read_table(paths.part("rows", index))
    part = _part_of(batch, forms, predicted, is_held_out(batch), others, with_trees, table)
    return part if with_trees else part.of_tested_rows()


@dataclass(frozen=True)
class _Left:
    """What a fit without a fold says of its rows: their places among all rows, and predictions."""

    places: IntArray
    by_model: Mapping[str, FloatArray]
    ends: FloatArray
    worst: Picked = field(default=())


def _fit_without(
    fold: int,
    model: Any,
    indices: Sequence[int],
    with_trees: bool,
    settings: ExpertSettings,
    paths: RunPaths,
) -> _Left:
    """Fit all rows but those of a fold, and predict these."""
    forms = Forms.without(fold, indices, settings, paths)
    tables = [storage.read_table(paths.part("rows", index)) for index in indices]
    batches, tested = [], []
    for index, table in zip(indices, tables, strict=True):
        keys, units = read_units(paths, index)
        raw, _ = raw_of(table, forms.encoding.kinds)
        out = units.held_out(keys, fold)
        batches.append(forms.batch(table, raw, units.number_of(keys.cells, keys.names), ~out))
        tested.append(out)
    q = drive(
        model,
        InProcess(model, batches),
        seed=settings.seed,
        tol=settings.tol,
        max_iter=settings.max_iter,
    ).q
    posterior = model.posterior(q)
    others = _others_of(model, q) if settings.baselines else {}
    parts = []
    worst: list[tuple[float, Row]] = []
    for index, table, batch, out in zip(indices, tables, batches, tested, strict=True):
        predicted = predict(posterior, batch, forms)
        parts.append(_part_of(batch, forms, predicted, out, others, with_trees, table))
        rows = storage.read_table(paths.table("rows", index), ["id", "label"])
        reasons = reasons_of(model, posterior, forms, paths, index)
        shown = Shown(rows, predicted.own, predicted.ends, forms.encoding, reasons)
        worst += worst_of(shown, batch, out, forms)["worst"]
    whole = _Part.joined(parts)
    by_model = _compared(whole, model, q, with_trees, forms.encoding, settings)
    return _Left(np.flatnonzero(whole.tested), by_model, whole.ends[whole.tested], tuple(worst))


def _assembled(left: Sequence[_Left], rows: int) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return what folds say in the order of all rows, NaN where no fold has a row.

    What some folds lack, such as a model less a part that a fold's fit has not, is left out.
    """
    names = [name for name in left[0].by_model if all(name in fold.by_model for fold in left)]
    by_model = {name: np.full((rows, left[0].by_model[name].shape[1]), np.nan) for name in names}
    ends = np.full((rows, left[0].ends.shape[1]), np.nan)
    for fold in left:
        ends[fold.places] = fold.ends
        for name in names:
            by_model[name][fold.places] = fold.by_model[name]
    return by_model, ends


def _compared(
    whole: _Part,
    model: Any,
    q: Any,
    with_trees: bool,
    encoding: Encoding,
    settings: ExpertSettings,
) -> dict[str, FloatArray]:
    """Return what each model predicts of the tested rows, this one and the base first; [n, W]."""
    fitted, tested, target = whole.fitted, whole.tested, encoding.target
    size, lines_in_all, *sums = whole.seen
    others = {name: values[tested] for name, values in whole.by_model.items()}
    by_model = {OWN: others.pop(OWN)}
    classes = by_model[OWN].shape[1]
    by_model[BASE] = np.outer(whole.exposure[tested], np.array(sums) / size)
    if RIDGE in others:
        lines = others.pop(RIDGE)
        assert target is not None
        if q.chosen is not None and q.chosen.form == "lines" and not q.chosen.pairs_weight:
            lines = by_model[OWN]
        elif target.logged:  # from the median to the mean (Duan 1983)
            lines = lines * (sums[0] / lines_in_all)
        others[POISSON if target.count else RIDGE] = lines
    by_model |= others
    if not with_trees:
        return by_model
    x, new, y = whole.x[fitted], whole.x[tested], whole.truth[fitted]
    exposure, weight = whole.exposure[fitted], whole.weight[fitted] * whole.exposure[fitted]
    known = None if (weight == 1.0).all() else weight
    if target is not None:
        trees = _number_trees(x, y / exposure, known, settings.seed, target.count)
        by_model[TREES] = (trees(new) * whole.exposure[tested])[:, None]
        return by_model
    codes, columns = y.astype(int), slice(None) if classes > 1 else slice(1, 2)
    by_model[TREES] = class_trees(x, codes, settings.seed, y.size < FEW_ROWS, known)(new)[
        :, columns
    ]
    linear = MULTINOMIAL if classes > 1 else LOGISTIC
    if linear not in by_model:
        by_model[linear] = multinomial(x, codes, known)(new)[:, columns]
    return by_model


def _number_trees(
    x: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    is_count: bool,
) -> Callable[[FloatArray], FloatArray]:
    """Grow trees; of counts for the mean exposure, which ``weight`` has."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    how: dict[str, Any] = {"loss": "poisson" if is_count else "squared_error", "random_state": seed}
    if len(y) < FEW_ROWS:
        how |= {"learning_rate": 0.05, "max_features": 0.3}
    model = HistGradientBoostingRegressor(**how)
    with threadpool_limits(1):
        return model.fit(x, y, weight).predict
