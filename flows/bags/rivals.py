"""Simpler models, and what they predict of the bags that are tested: the table rivals.

Of labels and levels boosted trees on pooled features (mean, largest, smallest, sd, number of
instances), of labels also those on the number of instances alone, which may depend on how bags
were sampled, and those on instances with their bag's label copied, whose scores out of their fold
a logistic regression turns into a bag's probability; of numbers ridge regression and boosted trees
on pooled features. All are fitted to the bags that the model was fitted to; where none was held
out, in folds of groups, as far as that takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from flows import storage
from flows.bags.input.form import read_form
from flows.bags.rows import Rows, joined_rows
from flows.bags.schema import rivals_of
from flows.bags.settings import BagSettings
from flows.evaluate.fits import class_trees, within_range
from flows.family import Each
from flows.records.runs import RunPaths
from flows.records.states import read_state
from flows.tables.names import digests_of
from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.pools import pooled, sizes_of
from vbmodels.bags.multilabel import FOLDS, fold_of_groups
from vbmodels.core.state import BoolArray, FloatArray, IntArray

LARGEST = 20_000_000
"""Numbers of all instances beyond which there is no rival on instances."""
LARGEST_IN_FOLDS = 2_000_000
"""Numbers of all pooled features beyond which there are no rivals in folds."""
INNER_FOLDS = 3
TREES, BY_INSTANCES = "boosted trees on pooled features", "boosted trees on instances"
RIDGE, BY_SIZE = "ridge regression on pooled features", "number of instances alone"


@dataclass(frozen=True)
class Held:
    """What the rivals read of a partition.

    Attributes
    ----------
    pooled, sizes
        [B, P] and, of them, the logs of the numbers of instances, [B, K].
    label
        As given, or a level's place from 0, [B]; NaN where there is none.
    held
        Which bags were held out, [B].
    tested
        Bags with a label that the model predicted without it, [B].
    rows, bag
        Instances of the first modality and their bags' numbers; none where they are too many.
    group
        A number of each bag's group, [B]: its bags are in one fold.
    """

    pooled: FloatArray
    sizes: FloatArray
    label: FloatArray
    held: BoolArray
    tested: BoolArray
    rows: np.ndarray
    bag: IntArray
    group: IntArray


def write(
    rows: Sequence[Rows], settings: BagSettings, paths: RunPaths, each: Each
) -> dict[str, FloatArray]:
    """Write the table rivals, where there is something to compare; ``rows`` are of all partitions.

    Return what each predicts of all bags; NaN of those that are not tested.
    """
    if not settings.baselines or read_form(paths).classes:
        return {}
    every, places = joined_rows(rows, {}), list(range(len(rows)))
    is_tested = every.known & every.is_unseen
    only_held = bool((every.held & is_tested).any())
    fitted_on = every.held & is_tested if only_held else is_tested
    if np.unique(every.label[fitted_on]).size < 2:
        return {}
    of_rows, of_bags = np.sum(each(_sizes, places, paths), axis=0).tolist()
    if not only_held and of_bags > LARGEST_IN_FOLDS:
        return {}
    with_rows = not settings.numeric and only_held and of_rows <= LARGEST
    items = list(zip(places, rows, strict=True))
    parts = each(_read, items, paths, only_held, with_rows)
    predicted = predict(_joined(parts), settings)
    if not predicted:  # all bags are of one group
        return predicted
    ends = np.cumsum([part.label.size for part in parts])
    for index, (part, end) in enumerate(zip(parts, ends.tolist(), strict=True)):
        of_part = {
            name: p[end - part.label.size : end][part.tested] for name, p in predicted.items()
        }
        ids = storage.read_table(paths.table("bags", index), ["bag_id"])["bag_id"]
        table = _table(of_part, ids.filter(pa.array(part.tested)), settings.label_order)
        storage.write_table(paths.table("rivals", index), table)
    return predicted


def predict(bags: Held, settings: BagSettings) -> dict[str, FloatArray]:
    """Return what each rival predicts of the bags that are tested, [B] or [B, K]; else NaN.

    They are fitted to all others with a label where bags are held out, else in folds.
    """
    known = ~np.isnan(bags.label)
    fold = fold_of_groups(bags.group)
    splits = [(known & (fold != f), bags.tested & (fold == f)) for f in range(FOLDS)]
    if bags.held.any():
        splits = [(known & ~bags.held, bags.tested)]
    predicted: dict[str, FloatArray] = {}
    for fit, test in splits:
        seen, new = np.flatnonzero(fit), np.flatnonzero(test)
        if not (new.size and seen.size):
            continue
        for name, p in _predicted(bags, seen, new, settings).items():
            predicted.setdefault(name, np.full((known.size, *p.shape[1:]), np.nan))[new] = p
    return predicted


def _predicted(
    bags: Held, seen: IntArray, new: IntArray, settings: BagSettings
) -> dict[str, FloatArray]:
    """Return what each rival says of the ``new`` bags after those that it has ``seen``."""
    x, y, x_new = bags.pooled[seen], bags.label[seen], bags.pooled[new]
    if settings.label_order:
        return {TREES: _levels(x, y.astype(int), x_new, settings)}
    if settings.numeric:
        return _numbers(x, y, x_new, settings.seed)
    rate = np.full(new.size, (y.sum() + 0.5) / (y.size + 1.0))
    several, seed = np.unique(y).size == 2, settings.seed
    columns = {TREES: bags.pooled, BY_SIZE: bags.sizes}
    predicted = {
        name: class_trees(of[seen], y.astype(int), seed)(of[new])[:, 1] if several else rate
        for name, of in columns.items()
        if np.ptp(of, axis=0).any()
    }
    if len(bags.rows):
        predicted[BY_INSTANCES] = by_instances(bags, seen, new, seed) if several else rate
    return predicted


def _levels(x: FloatArray, y: IntArray, new: FloatArray, settings: BagSettings) -> FloatArray:
    """Return chances of all levels; one that is not among those seen has hardly any."""
    there, code = np.unique(y, return_inverse=True)
    chances = np.full((len(new), len(settings.label_order)), 0.5 / (len(y) + 1.0))
    chances[:, there] = class_trees(x, code, settings.seed)(new) if there.size > 1 else 1.0
    return chances / chances.sum(axis=1, keepdims=True)


def _numbers(x: FloatArray, y: FloatArray, new: FloatArray, seed: int) -> dict[str, FloatArray]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = {
        RIDGE: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2.0, 5.0, 15))),
        TREES: HistGradientBoostingRegressor(
            random_state=seed,
            learning_rate=0.05,
            max_features=0.3,
            min_samples_leaf=int(np.clip(len(y) // 4, 1, 20)),
        ),
    }
    x, new = within_range(x), within_range(new)
    with threadpool_limits(1):
        return {name: np.asarray(model.fit(x, y).predict(new)) for name, model in models.items()}


def by_instances(bags: Held, seen: IntArray, wanted: IntArray, seed: int) -> FloatArray:
    """Return P of the wanted bags by instances' scores: mean and largest, out of their fold."""
    rng = np.random.default_rng(seed)
    fold = np.full(bags.label.size, -1)
    for value in (0, 1):
        members = rng.permutation(seen[bags.label[seen] == value])
        _, first, group = np.unique(bags.group[members], return_index=True, return_inverse=True)
        fold[members] = np.argsort(np.argsort(first))[group] % INNER_FOLDS
    score = np.zeros(len(bags.rows))
    label = np.nan_to_num(bags.label, nan=-1.0).astype(int)
    labels = label[bags.bag]
    for f in range(INNER_FOLDS):
        fit = (fold[bags.bag] >= 0) & (fold[bags.bag] != f)
        test = fold[bags.bag] == f
        if np.unique(labels[fit]).size == 2 and test.any():
            _, score[test] = class_trees(bags.rows[fit], labels[fit], seed)(bags.rows[test]).T
    everything = fold[bags.bag] >= 0
    new = np.isin(bags.bag, wanted)
    if new.any():
        _, score[new] = class_trees(bags.rows[everything], labels[everything], seed)(
            bags.rows[new]
        ).T
    logit = np.log(np.clip(score, 1e-4, 1 - 1e-4) / np.clip(1 - score, 1e-4, 1 - 1e-4))
    size = np.bincount(bags.bag, minlength=bags.label.size)
    mean = np.bincount(bags.bag, logit, minlength=bags.label.size) / np.maximum(size, 1)
    high = np.full(bags.label.size, -10.0)
    np.maximum.at(high, bags.bag, logit)
    pooled_scores = np.column_stack([mean, high, np.log1p(size)])
    pooled_scores = (pooled_scores - pooled_scores[seen].mean(0)) / np.maximum(
        pooled_scores[seen].std(0), 1e-9
    )
    from sklearn.linear_model import LogisticRegression

    head = LogisticRegression().fit(pooled_scores[seen], label[seen])
    return np.asarray(head.predict_proba(pooled_scores[wanted])[:, 1])


def _table(
    predicted: dict[str, FloatArray], ids: pa.ChunkedArray, order: Sequence[str]
) -> pa.Table:
    """Return the predictions of some bags, [n] or [n, K], rival by rival."""
    schema = rivals_of(order).arrow
    parts = [
        pa.table(
            [ids, pa.array([name] * len(ids), pa.string()), *map(pa.array, np.atleast_2d(p.T))],
            schema=schema,
        )
        for name, p in predicted.items()
    ]
    return pa.concat_tables(parts)


def _sizes(index: int, paths: RunPaths) -> tuple[int, int]:
    """Count the numbers of a partition's instances, and of the pooled features of its bags."""
    data = _bags(index, paths)
    of_one = _pooled(data.take(np.arange(min(data.n_bags, 1)))).shape[1]
    return sum(m.features.size for m in data.modalities), data.n_bags * of_one


def _pooled(data: Bags) -> FloatArray:
    return np.hstack([*map(pooled, data.modalities), sizes_of(data), data.bag_features])


def _bags(index: int, paths: RunPaths) -> Bags:
    return read_state(paths.part("partitions", index, "npz"), Bags)


def _read(item: tuple[int, Rows], paths: RunPaths, only_held: bool, with_rows: bool) -> Held:
    index, rows = item
    data = _bags(index, paths)
    ids = storage.read_table(paths.part("bag_rows", index), ["bag_id"])["bag_id"].to_pylist()
    first = data.modalities[0]
    with_rows &= len(data.modalities) == 1
    return Held(
        pooled=_pooled(data),
        sizes=sizes_of(data),
        label=rows.label,
        held=rows.held,
        tested=rows.known & rows.is_unseen & (rows.held | (not only_held)),
        rows=first.features.astype(np.float32) if with_rows else np.empty((0, 0)),
        bag=first.bag if with_rows else np.empty(0, np.int64),
        group=data.group if data.group.size else digests_of(ids),
    )


def _joined(parts: Sequence[Held]) -> Held:
    counts = np.cumsum([0, *(part.label.size for part in parts)])
    return Held(
        pooled=np.concatenate([p.pooled for p in parts]),
        sizes=np.concatenate([p.sizes for p in parts]),
        label=np.concatenate([p.label for p in parts]),
        held=np.concatenate([p.held for p in parts]),
        tested=np.concatenate([p.tested for p in parts]),
        rows=np.concatenate([p.rows for p in parts]),
        bag=np.concatenate([p.bag + offset for p, offset in zip(parts, counts, strict=False)]),
        group=np.concatenate([p.group for p in parts]),
    )
