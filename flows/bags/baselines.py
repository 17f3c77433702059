"""Simple baselines on the bags that were held out: what a model must beat to be worth its while.

The base rate; boosted trees on pooled features (mean, largest, smallest, sd, number of instances);
boosted trees on instances with their bag's label copied, whose scores out of their fold a logistic
regression turns into a bag's probability. All are fitted to the bags that the model was fitted to.
Differences are of paired bags, with 95 % intervals by the bootstrap over groups of bags.
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
from vbmodels.core.state import FloatArray, IntArray

LARGEST = 20_000_000
"""Numbers of all instances beyond which there is no baseline on instances."""
FOLDS = 3


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
        The model's, [B].
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
    """Return the summaries, the first with the baselines' results where bags were held out."""
    flat = [summary for one in summaries for summary in one]
    several = flat[0].of_class is not None
    held = np.concatenate([s.held_out & (s.label >= 0) for s in flat])
    label = np.concatenate([s.label for s in flat])[held]
    if several or not settings.baselines or np.unique(label).size < 2:
        return list(summaries)
    sizes = each(_size, list(range(len(summaries))), paths)
    with_rows = sum(sizes) <= LARGEST
    parts = each(_read, list(range(len(summaries))), paths, with_rows)
    first = replace(summaries[0][0], baselines=fit_baselines(_joined(parts), settings.seed))
    return [(first, *summaries[0][1:]), *summaries[1:]]


def fit_baselines(of: Held, seed: int) -> tuple[Baseline, ...]:
    """Fit the baselines and compare them on the bags held out."""
    known = of.label != UNLABELLED
    seen, held = np.flatnonzero(known & ~of.held), np.flatnonzero(known & of.held)
    y, truth = of.label[seen], of.label[held]
    rate = (y.sum() + 0.5) / (y.size + 1.0)
    predicted = {
        "base rate": np.full(held.size, rate),
        "boosted trees on pooled features": trees(of.pooled[seen], y, seed)(of.pooled[held]),
    }
    if len(of.rows):
        predicted["boosted trees on instances"] = by_instances(of, seen, held, seed)
    own = of.probability[held]
    group = of.group[held]
    return tuple(compared(name, p, own, truth, seed, group) for name, p in predicted.items())


def by_instances(of: Held, seen: IntArray, held: IntArray, seed: int) -> FloatArray:
    """Return P of the held bags by instances' scores: mean and largest, out of their fold."""
    rng = np.random.default_rng(seed)
    fold = np.full(of.label.size, -1)
    for value in (0, 1):
        members = rng.permutation(seen[of.label[seen] == value])
        _, first, place = np.unique(of.group[members], return_index=True, return_inverse=True)
        fold[members] = np.argsort(np.argsort(first))[place] % FOLDS
    score = np.zeros(len(of.rows))
    labels = of.label[of.bag]
    for f in range(FOLDS):
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


def _size(index: int, paths: RunPaths) -> int:
    return sum(m.features.size for m in _bags(index, paths).modalities)


def _bags(index: int, paths: RunPaths) -> Bags:
    return read_state(paths.part("partitions", index, "npz"), Bags)


def _read(index: int, paths: RunPaths, with_rows: bool) -> Held:
    data = _bags(index, paths)
    rows = storage.read_table(paths.part("bag_rows", index))
    scored = storage.read_table(paths.table("bags", index), ["probability"])
    first = data.modalities[0]
    several = len(data.modalities) > 1
    return Held(
        pooled=np.hstack([*map(pooled, data.modalities), sizes_of(data), data.bag_features]),
        label=rows["label"].cast("int64").fill_null(UNLABELLED).to_numpy(),
        held=rows["held_out"].to_numpy(zero_copy_only=False),
        probability=scored["probability"].to_numpy(),
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
