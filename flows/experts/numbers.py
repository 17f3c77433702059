"""Results of a label that is a number: what is predicted, how well, and what simple forms get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

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
from flows.experts.encoding import Encoding, Target
from flows.experts.labels import LABEL
from flows.experts.predictions import OfScore
from flows.experts.schema import EXPERTS, number_rows
from flows.experts.settings import ExpertSettings
from flows.experts.summary import FEW_ROWS, LARGEST
from flows.experts.units import read_names
from flows.experts.weights import table_of
from flows.family import Each
from flows.report.baselines import resampled_means
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.counts import (
    CountAdditive,
    CountChoice,
    CountPosterior,
    CountState,
    mean_of,
)
from vbmodels.experts.additive.gaussian import (
    GaussianAdditive,
    GaussianChoice,
    GaussianState,
    TargetRows,
)
from vbmodels.experts.additive.likelihoods import poisson_deviance
from vbmodels.experts.additive.posterior import AdditivePosterior, Part
from vbmodels.experts.columns import encoded
from vbmodels.experts.effects import Effect, PairEffect
from vbmodels.experts.forms import names_of

NumberModel = GaussianAdditive | CountAdditive
NumberState = GaussianState | CountState
BINS, ENDS = 20, 2.5
"""Bins of predictions, and where the outermost begin, in standard deviations of the label."""


@dataclass(frozen=True)
class NumberBaseline:
    """A simple baseline on held-out rows.

    ``r2`` is the share of the labels' variance (of counts: of their deviance) that it explains, and
    ``more`` the model's less its own, with its 95 % interval: above 0 the model is better.
    """

    name: str
    rmse: float
    r2: float
    more: float
    low: float
    high: float


@dataclass(frozen=True)
class NumberSummary(OfScore):
    """What one partition adds to the report; in standard deviations of the label.

    Attributes
    ----------
    held_out
        Over the rows kept from the fit: number, sums of y, y^2, e^2 and e^4 (e is y less its
        prediction), and rows within their 95 % interval; [6].
    bins
        Over the same rows by bin of the prediction: rows, sums of predictions, of y and y^2;
        [4, BINS].
    deviance
        Of counts, over the same rows: sums of the deviance, of its square, and of that of the mean
        of the fit; [3].
    """

    rows: int
    held_out: FloatArray
    bins: FloatArray
    deviance: FloatArray
    effects: tuple[Effect, ...] = ()
    pairs: tuple[PairEffect, ...] = ()
    encoding: Encoding | None = None
    chosen: GaussianChoice | CountChoice | None = None
    baselines: tuple[NumberBaseline, ...] = ()
    baseline_seconds: float = 0.0


def score(
    model: NumberModel, q: NumberState, batch: TargetRows, index: int, settings: ExpertSettings,
    paths: RunPaths, new: bool,
) -> NumberSummary:  # fmt: skip
    """Write the predicted number of every row and the standard deviation around it."""
    posterior, encoding = model.posterior(q), working_encoding(paths)  # type: ignore[arg-type]
    target = encoding.target
    assert target is not None
    mean, sd, low, high = target.predicted(*posterior.predict(batch.rows))
    named, groups = read_names(paths, index, settings)
    labels = target.values(named[LABEL].combine_chunks())[0]
    kept = _kept(batch)
    arrays = [
        named[tables_of.ID], pa.array(labels, from_pandas=True),
        *map(pa.array, (mean, sd, low, high, kept & (not new))), *groups,
    ]  # fmt: skip
    schema = number_rows(bool(groups)).arrow
    storage.write_table(paths.table("rows", index), pa.table(arrays, schema=schema))
    given = labels[kept]
    deviance = np.zeros(3)
    if target.count:
        own = poisson_deviance(given, mean[kept])
        deviance = np.array(
            [own.sum(), own @ own, poisson_deviance(given, np.full(given.size, target.mean)).sum()]
        )
    y, at = ((v - target.mean) / target.sd for v in (given, mean[kept]))
    e = y - at
    inside = np.sum((low[kept] < given) & (given < high[kept]))
    edges = np.linspace(-ENDS, ENDS, BINS - 1)
    place = np.searchsorted(edges, at)
    summary = NumberSummary(
        rows=batch.size,
        held_out=np.array([len(y), y.sum(), y @ y, e @ e, np.sum(e**4), inside]),
        bins=np.array([np.bincount(place, w, BINS) for w in (np.ones(len(y)), at, y, y**2)]),
        deviance=deviance,
    )
    if index > 0:
        return summary
    design, basis = read_design(paths, work=True), read_basis(paths, work=True)
    alone = AdditivePosterior(posterior.part, ())
    table = pa.table(table_of(alone, names_of(alone, design.columns, basis)), schema=EXPERTS.arrow)
    storage.write_table(paths.table("experts", 0), table)
    effects, pairs = effects_in(posterior, encoding, design, basis)
    return replace(summary, effects=effects, pairs=pairs, encoding=encoding, chosen=q.chosen)


def _kept(batch: TargetRows) -> np.ndarray:
    """Say which rows have a number and were kept from the fit; [N]."""
    return np.asarray((batch.rows.t != 0.0) & (batch.weight == 0.0))


def parameters(model: NumberModel, q: NumberState) -> list[Parameter]:
    """Return every weight, on the scale of the fit, and the noise's sd or the dispersion."""
    posterior = model.posterior(q)  # type: ignore[arg-type]
    pairs = zip(posterior.part.coefficients, posterior.part.sd, strict=True)
    found = [Parameter("additive", str(d), float(m), float(s)) for d, (m, s) in enumerate(pairs)]
    if isinstance(posterior, CountPosterior):
        return [*found, Parameter("dispersion", "0", posterior.dispersion, 0.0)]
    return [*found, Parameter("noise sd", "0", float(np.sqrt(posterior.noise)), 0.0)]


@dataclass(frozen=True)
class _Left:
    """What a partition returns: labels, the predictions of all and of lines in their unit, whether
    fitted or held out, and the units of rows; [N]."""

    y: FloatArray
    own: FloatArray
    lines: FloatArray
    fitted: np.ndarray
    held: np.ndarray
    group: IntArray
    x: FloatArray


def with_baselines(
    summaries: Sequence[NumberSummary], model: NumberModel, q: NumberState, columns: int,
    settings: ExpertSettings, paths: RunPaths, each: Each,
) -> list[NumberSummary]:  # fmt: skip
    """Return the summaries, the first with what simple forms get on the rows left out."""
    if not settings.baselines or sum(s.held_out[0] for s in summaries) < 2:
        return list(summaries)
    began = perf_counter()
    small = columns * sum(s.rows for s in summaries) <= LARGEST
    indices = list(range(len(summaries)))
    lines_of = model.baseline(q)  # type: ignore[arg-type]
    parts = each(_left, indices, lines_of, small, paths)
    y, own, lines, fitted, held, group = (
        np.concatenate([getattr(p, name) for p in parts])
        for name in ("y", "own", "lines", "fitted", "held", "group")
    )
    target = working_encoding(paths).target
    assert target is not None
    name = "Poisson regression" if target.count else "ridge regression"
    if q.chosen is not None and q.chosen.form == "lines" and not q.chosen.pairs_weight:
        lines = own
    elif target.logged:  # from the median to the mean (Duan 1983)
        lines = lines * (y[fitted].mean() / lines[fitted].mean())
    predicted = {"the mean": np.full(int(held.sum()), target.mean), name: lines[held]}
    if small:
        x = np.concatenate([p.x for p in parts])
        predicted["boosted trees"] = _trees(
            x[fitted], y[fitted], x[held], settings.seed, target.count
        )
    found = tuple(
        _compared(name, p, own[held], y[held], target, settings.seed, group[held])
        for name, p in predicted.items()
    )
    first = replace(summaries[0], baselines=found, baseline_seconds=perf_counter() - began)
    return [first, *summaries[1:]]


def _trees(x: np.ndarray, y: FloatArray, new: np.ndarray, seed: int, count: bool) -> FloatArray:
    from sklearn.ensemble import HistGradientBoostingRegressor

    how: dict[str, Any] = {"loss": "poisson" if count else "squared_error", "random_state": seed}
    if len(y) < FEW_ROWS:
        how |= {"learning_rate": 0.05, "max_features": 0.3}
    model = HistGradientBoostingRegressor(**how)
    with threadpool_limits(1):
        return np.asarray(model.fit(x, y).predict(new))


def _compared(
    name: str, p: FloatArray, own: FloatArray, y: FloatArray, target: Target, seed: int,
    group: IntArray,
) -> NumberBaseline:  # fmt: skip
    loss = poisson_deviance if target.count else _squares
    constant = float(loss(y, np.full(y.size, y.mean())).mean())
    constant = constant if constant > 1e-100 else 1.0  # all are alike: nothing to explain
    mine, theirs = loss(y, own), loss(y, p)
    away = (theirs - mine) / constant
    low, high = np.quantile(resampled_means(away, group, seed), [0.025, 0.975])
    rmse = float(np.sqrt(_squares(y, p).mean())) / target.sd
    r2 = 1.0 - float(theirs.mean()) / constant
    return NumberBaseline(name, rmse, r2, float(away.mean()), float(low), float(high))


def _squares(y: FloatArray, p: FloatArray) -> FloatArray:
    return np.asarray((y - p) ** 2)


def _left(index: int, lines: Part, with_columns: bool, paths: RunPaths) -> _Left:
    batch = read_batch(paths, index)
    assert isinstance(batch, TargetRows)
    x = np.empty((batch.size, 0))
    encoding = working_encoding(paths)
    target = encoding.target
    assert target is not None
    if with_columns:
        table = storage.read_table(paths.part("rows", index))
        raw, _ = tables_of.raw_of(table, encoding.kinds)
        x = encoded(raw, encoding.columns, filled=False)
    fitted = (batch.weight > 0.0) & (batch.rows.t != 0.0)
    other = lines.project(batch.rows)
    if target.count:
        other = mean_of(other)
    other = target.predicted(other, np.zeros(batch.size))[0]
    rows = storage.read_table(paths.table("rows", index), ["label", "predicted"])
    y, own = (np.asarray(rows[name].to_numpy()) for name in ("label", "predicted"))
    return _Left(y, own, other, fitted, _kept(batch), unit_numbers(batch), x)
