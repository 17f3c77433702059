"""Bags whose label is a number: what is predicted, how well, and what simple methods get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from flows.bags.form import form_url, read_about, read_form
from flows.bags.markers import explainer, marker_table
from flows.bags.schema import number_bags
from flows.bags.settings import BagSettings
from flows.bags.summary import Instance, Marker, foremost_of, markers_by_instance
from flows.bags.tables import Scores, instance_table, reasons_table
from flows.data import storage
from flows.data.names import digests_of
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.report.baselines import resampled_means, within_range
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.contributions import contributions
from vbmodels.bags.embedding.number import (
    NumberEmbedding,
    NumberModel,
    Numbers,
    numbers_of,
    predict_numbers,
)
from vbmodels.bags.embedding.pools import pooled, sizes_of
from vbmodels.core.state import BoolArray, FloatArray, IntArray

SHOWN = 5
"""Bags of each sort in the report."""
FOLDS = 5
"""Folds of the baselines, where no bags are held out."""


@dataclass(frozen=True)
class NumberBaseline:
    """A simple method on the bags that are tested.

    ``more`` is its mean squared error less the model's, as a share of the numbers' variance, with
    its 95 % interval: above 0 the model is better.
    """

    name: str
    rmse: float
    more: float
    low: float
    high: float


@dataclass(frozen=True)
class NumberExample:
    """A bag with its foremost instances; see `flows.bags.summary.Example`."""

    bag_id: str
    label: float | None
    predicted: float
    low: float
    high: float
    instances: tuple[Instance, ...]
    markers: dict[tuple[str, str], list[Marker]]


@dataclass(frozen=True)
class NumberSummary:
    """What one partition adds to the report, in the label's units.

    Attributes
    ----------
    label
        [B]; NaN where it is not known.
    predicted, low, high
        What is predicted of a bag with its 95 % interval: without the bag or its group where it
        was fitted, [B].
    held_out, group
        [B]; see `flows.bags.summary.BagSummary`.
    mean
        Mean of the fitted labels.
    examples
        Bags of the largest and smallest predictions, and those farthest from their number.
    chances
        Of levels in an order, without the bag where it was fitted, [B, k]; [B, 0] without order.
    """

    label: FloatArray
    predicted: FloatArray
    low: FloatArray
    high: FloatArray
    held_out: BoolArray
    group: IntArray
    mean: float
    instances: int
    modalities: tuple[str, ...]
    features: tuple[str, ...]
    new: bool
    examples: tuple[NumberExample, ...]
    chances: FloatArray
    baselines: tuple[NumberBaseline, ...] = ()


def score(
    model: NumberModel, q: NumberEmbedding, batch: Bags, local: Any, index: int, *,
    settings: BagSettings, paths: RunPaths, new: bool,
) -> NumberSummary:  # fmt: skip
    """Write the number that is predicted of every bag, and what instances add to it."""
    form, about = read_form(form_url(paths)), read_about(paths, index)
    rows = storage.read_table(paths.part("bag_rows", index))
    instance_rows = storage.read_table(paths.part("instance_rows", index))
    found = predict_numbers(q, batch)
    without = _without(model, q, batch, None if new else local)
    adds = tuple(q.scale * one for one in contributions(q, batch))
    names = (*q.map.names(), "mean and constant")
    shares = found.shares.copy()
    shares[:, -1] += q.centre
    scores = Scores(found.mean, None, adds, adds, reasons=shares, reason_names=names)
    held = pa.array(np.zeros(len(rows), bool)) if new else rows["held_out"]
    order, label = settings.label_order, rows["number"].fill_null(np.nan).to_numpy()
    levels: list[Any] = []
    if order:
        chances = found.level_chances(len(order))
        names_of = pa.array(order, pa.string())
        place = pa.array(label - 1.0, from_pandas=True).cast(pa.int64())
        levels = [names_of.take(place), names_of.take(pa.array(chances.argmax(axis=1))), *chances.T]
    bags = pa.table(
        [
            rows["bag_id"], rows["number"], *map(pa.array, (found.mean, found.sd)),
            *map(pa.array, (found.low, found.high)), held,
            pa.array(without.mean, from_pandas=True), *map(pa.array, levels),
        ],
        schema=number_bags(order).arrow,
    )  # fmt: skip
    instances = instance_table(scores, instance_rows, rows["bag_id"], about, form, None)
    reasons = reasons_table(scores, rows["bag_id"], form["modalities"])
    explain = explainer(model, q, batch)
    assert explain is not None
    assert reasons is not None
    markers = marker_table(instances, batch, form, explain)
    for name, table in (
        ("bags", bags), ("instances", instances), ("reasons", reasons), ("markers", markers),
    ):  # fmt: skip
        storage.write_table(paths.table(name, index), table)
    fitted = ~np.isnan(without.mean)
    best = [
        np.where(fitted, getattr(without, name), getattr(found, name))
        for name in ("mean", "low", "high")
    ]
    ids, bag = rows["bag_id"].to_pylist(), instance_rows["bag"].to_numpy()
    size = np.abs(instances["contribution"].to_numpy())
    predicted, low, high = best
    examples = tuple(
        NumberExample(
            bag_id=ids[i],
            label=None if np.isnan(label[i]) else float(label[i]),
            predicted=float(predicted[i]),
            low=float(low[i]),
            high=float(high[i]),
            instances=foremost_of(i, instances, bag, size),
            markers=markers_by_instance(ids[i], markers),
        )
        for i in _chosen(predicted, label, np.isin(ids, settings.show_bags))
    )
    return NumberSummary(
        label=label,
        predicted=predicted,
        low=low,
        high=high,
        held_out=held.to_numpy(zero_copy_only=False),
        group=batch.group,
        mean=q.centre,
        instances=instances.num_rows,
        modalities=tuple(form["modalities"]),
        features=tuple(form["names"]),
        new=new,
        examples=examples,
        chances=_chances(found, without, len(order)),
    )


def _chances(found: Numbers, without: Numbers, count: int) -> FloatArray:
    """Return the chances of levels, without the bag where it was fitted, [B, count]."""
    if not count:
        return np.empty((found.mean.size, 0))
    own = without.level_chances(count)
    return np.where(np.isnan(without.mean)[:, None], found.level_chances(count), own)


def _chosen(predicted: FloatArray, label: FloatArray, requested: BoolArray) -> list[int]:
    """Number the bags of the report: the ends of the predictions, and the largest errors."""
    order = np.argsort(-predicted, kind="stable")
    error = np.nan_to_num(np.abs(label - predicted), nan=-1.0)
    wrong = np.argsort(-error, kind="stable")[:SHOWN]
    picked = [*order[:SHOWN], *order[-SHOWN:], *wrong[error[wrong] >= 0.0]]
    return sorted({*map(int, picked), *map(int, np.flatnonzero(requested))})


def _without(model: NumberModel, q: NumberEmbedding, batch: Bags, local: Any) -> Numbers:
    """Return what is predicted of the fitted bags without them, NaN for others."""
    none = np.full(batch.n_bags, np.nan)
    if local is None:
        return Numbers(none, none, none, none, 1.0, none)
    known = np.flatnonzero(batch.label != UNLABELLED)
    found = numbers_of(q, model.left_out(q, batch, local), none)
    out = {name: none.copy() for name in ("mean", "sd", "low", "high")}
    for name, one in out.items():
        one[known] = getattr(found, name)
    return Numbers(**out, freedom=found.freedom, shares=none)


@dataclass(frozen=True)
class _Pooled:
    """What the baselines read of a partition: pooled features [B, P], and a number a bag, [B]."""

    pooled: FloatArray
    group: IntArray


def with_baselines(
    summaries: Sequence[NumberSummary], settings: BagSettings, paths: RunPaths, each: Each
) -> list[NumberSummary]:
    """Return the summaries, the first with what simple methods get on the bags that are tested.

    They are fitted to the bags of the fit where some are held out, else in folds of groups.
    """
    label, own, held = (
        np.concatenate([getattr(s, name) for s in summaries])
        for name in ("label", "predicted", "held_out")
    )
    known = ~np.isnan(label)
    if not settings.baselines or np.count_nonzero(known) < 2 * FOLDS:
        return list(summaries)
    parts = each(_read, list(range(len(summaries))), paths)
    x, group = (np.concatenate([getattr(p, n) for p in parts]) for n in ("pooled", "group"))
    tested = known & held if held.any() else known
    splits = [(known & ~held, tested)]
    if not held.any():
        fold = np.unique(group, return_inverse=True)[1] % FOLDS
        if not fold.any():  # one group: no bags to fit to without it
            return list(summaries)
        splits = [(known & (fold != f), known & (fold == f)) for f in range(FOLDS)]
    mean = np.full(int(tested.sum()), label[known & ~held].mean())
    found = [_compared("the mean", mean, own[tested], label[tested], group[tested], settings.seed)]
    for name, predict in (("ridge regression", _ridge), ("boosted trees", _trees)):
        out = np.full(label.size, np.nan)
        for seen, new in splits:
            if new.any():
                out[new] = predict(x[seen], label[seen], x[new], settings.seed)
        chosen = (out[tested], own[tested], label[tested], group[tested])
        found.append(_compared(name, *chosen, settings.seed))
    return [replace(summaries[0], baselines=tuple(found)), *summaries[1:]]


def _read(index: int, paths: RunPaths) -> _Pooled:
    data = read_state(paths.part("partitions", index, "npz"), Bags)
    ids = storage.read_table(paths.part("bag_rows", index), ["bag_id"])["bag_id"].to_pylist()
    return _Pooled(
        np.hstack([*map(pooled, data.modalities), sizes_of(data), data.bag_features]),
        data.group if data.group.size else digests_of(ids),
    )


def _ridge(x: FloatArray, y: FloatArray, new: FloatArray, seed: int) -> FloatArray:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2.0, 5.0, 15)))
    x, new = within_range(x), within_range(new)
    with threadpool_limits(1):
        return np.asarray(model.fit(x, y).predict(new))


def _trees(x: FloatArray, y: FloatArray, new: FloatArray, seed: int) -> FloatArray:
    from sklearn.ensemble import HistGradientBoostingRegressor

    least = int(np.clip(len(y) // 4, 1, 20))
    model = HistGradientBoostingRegressor(
        random_state=seed, learning_rate=0.05, max_features=0.3, min_samples_leaf=least
    )
    with threadpool_limits(1):
        return np.asarray(model.fit(x, y).predict(new))


def _compared(
    name: str, p: FloatArray, own: FloatArray, y: FloatArray, group: IntArray, seed: int
) -> NumberBaseline:
    square = (y - p) ** 2
    away = (square - (y - own) ** 2) / (float(np.var(y)) or 1.0)
    low, high = np.quantile(resampled_means(away, group, seed), [0.025, 0.975])
    rmse = float(np.sqrt(square.mean()))
    return NumberBaseline(name, rmse, float(away.mean()), float(low), float(high))
