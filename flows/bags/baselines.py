"""Simple baselines on the bags that are tested: what a model must beat to be worth its while.

The base rate of all fitted bags; boosted trees on pooled features (mean, largest, smallest, sd,
number of instances); boosted trees on instances with their bag's label copied, whose scores out of
their fold a logistic regression turns into a bag's probability. All are fitted to the bags that the
model was fitted to; where none was held out, the trees in folds of groups, as far as that takes
seconds. Differences are of paired bags, with 95 % intervals by the bootstrap over groups of bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flows.bags.settings import BagSettings
from flows.bags.summary import BagSummary
from flows.data import storage
from flows.data.names import digests_of
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.report.baselines import Baseline, compared, trees
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.pools import pooled, sizes_of
from vbmodels.bags.multilabel import FOLDS, fold_of_groups
from vbmodels.core.state import FloatArray, IntArray

LARGEST = 20_000_000
"""Numbers of all instances beyond which there is no baseline on instances."""
LARGEST_IN_FOLDS = 2_000_000
"""Numbers of all pooled features beyond which there are no baselines in folds."""
INNER_FOLDS = 3


@dataclass(frozen=True)
class Held:
    """What the baselines read of a partition.

    Attributes
    ----------
    pooled
        [B, P].
    label
        As given, [B]; -1 where there is none.
    held
        Which bags were held out, [B].
    probability
        The model's, of fitted bags without their own label; NaN where it has none, [B].
    rows, bag
        Instances of the first modality and their bags' numbers; none where they are too many.
    group
        A number of each bag's group, [B]: its bags are in one fold.
    """

    pooled: FloatArray
    label: IntArray
    held: np.ndarray
    probability: FloatArray
    rows: np.ndarray
    bag: IntArray
    group: IntArray


def with_baselines(
    summaries: Sequence[Sequence[BagSummary]], settings: BagSettings, paths: RunPaths, each: Each
) -> list[Sequence[BagSummary]]:
    """Return the summaries, the first with the baselines' results on the bags that are tested."""
    flat = [summary for one in summaries for summary in one]
    label, out, without = (
        np.concatenate([getattr(s, name) for s in flat])
        for name in ("label", "held_out", "without")
    )
    held = bool(out.any())
    tested = (label >= 0) & (out if held else ~np.isnan(without))
    if flat[0].of_class is not None or not settings.baselines or np.unique(label[tested]).size < 2:
        return list(summaries)
    places = list(range(len(summaries)))
    of_rows, of_bags = np.sum(each(_sizes, places, paths), axis=0).tolist()
    if not held and of_bags > LARGEST_IN_FOLDS:
        return list(summaries)
    of = _joined(each(_read, places, paths, held, held and of_rows <= LARGEST))
    first = replace(summaries[0][0], baselines=fit_baselines(of, settings.seed))
    return [(first, *summaries[0][1:]), *summaries[1:]]


def fit_baselines(of: Held, seed: int) -> tuple[Baseline, ...]:
    """Fit the baselines and compare them on the bags held out, or in folds where there are none."""
    known = of.label != UNLABELLED
    fold = fold_of_groups(of.group)
    tested = known & (of.held if of.held.any() else ~np.isnan(of.probability))
    splits = [(known & (fold != f), tested & (fold == f)) for f in range(FOLDS)]
    if of.held.any():
        splits = [(known & ~of.held, tested)]
    predicted: dict[str, FloatArray] = {}
    for fit, test in splits:
        seen, new = np.flatnonzero(fit), np.flatnonzero(test)
        if not new.size:
            continue
        for name, p in _predicted(of, seen, new, seed).items():
            predicted.setdefault(name, np.full(tested.size, np.nan))[new] = p
    truth, own, group = of.label[tested], of.probability[tested], of.group[tested]
    fitted = of.label[known & ~of.held]
    share = (fitted.sum() + 0.5) / (fitted.size + 1.0)
    predicted["base rate"] = np.full(tested.size, share)
    return tuple(compared(name, p[tested], own, truth, seed, group)
                 for name, p in predicted.items())  # fmt: skip


def _predicted(of: Held, seen: IntArray, new: IntArray, seed: int) -> dict[str, FloatArray]:
    """Return what each baseline says of the ``new`` bags after those that it has ``seen``."""
    y = of.label[seen]
    rate = np.full(new.size, (y.sum() + 0.5) / (y.size + 1.0))
    several = np.unique(y).size == 2
    found = {"boosted trees on pooled features": rate}
    if several:
        found["boosted trees on pooled features"] = trees(of.pooled[seen], y, seed)(of.pooled[new])
    if len(of.rows):
        found["boosted trees on instances"] = by_instances(of, seen, new, seed) if several else rate
    return found


def by_instances(of: Held, seen: IntArray, held: IntArray, seed: int) -> FloatArray:
    """Return P of the held bags by instances' scores: mean and largest, out of their fold."""
    rng = np.random.default_rng(seed)
    fold = np.full(of.label.size, -1)
    for value in (0, 1):
        members = rng.permutation(seen[of.label[seen] == value])
        _, first, place = np.unique(of.group[members], return_index=True, return_inverse=True)
        fold[members] = np.argsort(np.argsort(first))[place] % INNER_FOLDS
    score = np.zeros(len(of.rows))
    labels = of.label[of.bag]
    for f in range(INNER_FOLDS):
        fit = (fold[of.bag] >= 0) & (fold[of.bag] != f)
        test = fold[of.bag] == f
        if np.unique(labels[fit]).size == 2 and test.any():
            score[test] = trees(of.rows[fit], labels[fit], seed)(of.rows[test])
    everything = fold[of.bag] >= 0
    new = np.isin(of.bag, held)
    if new.any():
        score[new] = trees(of.rows[everything], labels[everything], seed)(of.rows[new])
    logit = np.log(np.clip(score, 1e-4, 1 - 1e-4) / np.clip(1 - score, 1e-4, 1 - 1e-4))
    size = np.bincount(of.bag, minlength=of.label.size)
    mean = np.bincount(of.bag, logit, minlength=of.label.size) / np.maximum(size, 1)
    high = np.full(of.label.size, -10.0)
    np.maximum.at(high, of.bag, logit)
    pooled_scores = np.column_stack([mean, high, np.log1p(size)])
    pooled_scores = (pooled_scores - pooled_scores[seen].mean(0)) / np.maximum(
        pooled_scores[seen].std(0), 1e-9
    )
    from sklearn.linear_model import LogisticRegression

    head = LogisticRegression().fit(pooled_scores[seen], of.label[seen])
    found: FloatArray = head.predict_proba(pooled_scores[held])[:, 1]
    return found


def _sizes(index: int, paths: RunPaths) -> tuple[int, int]:
    """Count the numbers of a partition's instances, and of the pooled features of its bags."""
    data = _bags(index, paths)
    of_one = _pooled(data.take(np.arange(min(data.n_bags, 1)))).shape[1]
    return sum(m.features.size for m in data.modalities), data.n_bags * of_one


def _pooled(data: Bags) -> FloatArray:
    return np.hstack([*map(pooled, data.modalities), sizes_of(data), data.bag_features])


def _bags(index: int, paths: RunPaths) -> Bags:
    return read_state(paths.part("partitions", index, "npz"), Bags)


def _read(index: int, paths: RunPaths, held: bool, with_rows: bool) -> Held:
    data = _bags(index, paths)
    rows = storage.read_table(paths.part("bag_rows", index))
    scored = storage.read_table(paths.table("bags", index), ["probability", "without_it"])
    first = data.modalities[0]
    several = len(data.modalities) > 1
    return Held(
        pooled=_pooled(data),
        label=rows["label"].cast("int64").fill_null(UNLABELLED).to_numpy(),
        held=rows["held_out"].to_numpy(zero_copy_only=False),
        probability=scored["probability" if held else "without_it"].to_numpy(),
        rows=first.features.astype(np.float32) if with_rows and not several else np.empty((0, 0)),
        bag=first.bag if with_rows and not several else np.empty(0, np.int64),
        group=data.group if data.group.size else digests_of(rows["bag_id"].to_pylist()),
    )


def _joined(parts: Sequence[Held]) -> Held:
    counts = np.cumsum([0, *(part.label.size for part in parts)])
    return Held(
        pooled=np.concatenate([p.pooled for p in parts]),
        label=np.concatenate([p.label for p in parts]),
        held=np.concatenate([p.held for p in parts]),
        probability=np.concatenate([p.probability for p in parts]),
        rows=np.concatenate([p.rows for p in parts]),
        bag=np.concatenate([p.bag + at for p, at in zip(parts, counts, strict=False)]),
        group=np.concatenate([p.group for p in parts]),
    )
