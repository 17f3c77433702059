"""What the GP models read from bags: rows, labels a class, and the sums made before a fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from vbmodels.bags.bags import UNLABELLED, Bags, Instances
from vbmodels.core.draws import mix
from vbmodels.core.linalg import pack
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats

BLOCK = 16_384
"""Instances that are worked on at once; a block holds whole bags."""


@dataclass(frozen=True)
class MultiLabelBags(State, kind="bags.MultiLabelBags"):
    """Bags with one label a class: one multiple-instance problem a class, one pass over all.

    Attributes
    ----------
    bags
        The instances; the label in there is not read.
    labels
        0, 1 or ``UNLABELLED`` for each bag and class, [B, C], int8.
    """

    bags: Bags
    labels: NDArray[np.int8]

    def __post_init__(self) -> None:
        if self.labels.ndim != 2 or len(self.labels) != self.bags.n_bags:
            raise ValueError(
                f"expected labels [{self.bags.n_bags}, C], one row a bag, "
                f"got the shape {self.labels.shape}"
            )
        if not np.isin(self.labels, (0, 1, UNLABELLED)).all():
            raise ValueError(f"expected labels 0, 1 or {UNLABELLED} (unlabelled)")


Batch = Bags | MultiLabelBags


def bags_of(batch: Batch) -> Bags:
    """Return the bags of either kind of batch."""
    return batch.bags if isinstance(batch, MultiLabelBags) else batch


def labels_of(batch: Batch) -> NDArray[np.int8]:
    """Return the labels of every class, [B, C]; bags with one label have one class."""
    return batch.labels if isinstance(batch, MultiLabelBags) else batch.label[:, None]


def instances_of(batch: Batch) -> Instances:
    """Return the instances of a batch, which must be of one modality.

    Raises
    ------
    ValueError
        If the bags have several modalities: their instances have no features in common.
    """
    modalities = bags_of(batch).modalities
    if len(modalities) != 1:
        raise ValueError(
            f"expected bags of one modality, got {len(modalities)}; fit one modality at a time, "
            "or use vMMIC"
        )
    return modalities[0]


def rows_of(batch: Batch, bags: slice) -> FloatArray:
    """Return the features of some bags' instances, each followed by its bag's own, [n, D]."""
    instances, own = instances_of(batch), bags_of(batch).bag_features[bags]
    bounds = instances.offsets[bags.start : bags.stop + 1]
    rows = np.asarray(instances.features[bounds[0] : bounds[-1]], dtype=np.float64)
    if own.shape[1]:
        rows = np.hstack([rows, np.repeat(own, np.diff(bounds), axis=0)])
    return np.ascontiguousarray(rows)


def runs_of(instances: Instances) -> Iterator[slice]:
    """Cut a partition into runs of whole bags with about ``BLOCK`` instances each."""
    offsets, start = instances.offsets, 0
    while start < offsets.size - 1:
        end = int(np.searchsorted(offsets, offsets[start] + BLOCK, side="right")) - 1
        stop = min(max(end, start + 1), offsets.size - 1)
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True)
class Sample(Stats, kind="bags.Sample"):
    """Distinct rows with the smallest hashes: the same sample however the data are cut.

    Attributes
    ----------
    limit
        Most rows.
    priority
        Hash of each row, rising, [n].
    rows
        The rows, [n, D].
    """

    limit: int
    priority: NDArray[np.uint64]
    rows: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, limit: int, seed: int) -> Sample:
        """Sample from rows [n, D]."""
        priority = row_hash(rows, seed)
        if priority.size > 8 * limit:
            few = np.argpartition(priority, 4 * limit)[: 4 * limit]
            drawn = cls(limit, priority[few], rows[few])._smallest()
            if len(drawn.rows) == limit:
                return drawn
        return cls(limit, priority, rows)._smallest()

    def _smallest(self) -> Sample:
        kept, first = np.unique(self.priority, return_index=True)
        return Sample(self.limit, kept[: self.limit], self.rows[first[: self.limit]])

    def __add__(self, other: Self) -> Sample:
        priority = np.concatenate([self.priority, other.priority])
        return Sample(self.limit, priority, np.concatenate([self.rows, other.rows]))._smallest()


def row_hash(rows: FloatArray, seed: int) -> NDArray[np.uint64]:
    """Hash rows [n, D] by their bits, equal rows to equal numbers, [n].

    A sum of columns times random odd numbers, mixed.
    """
    odd = np.random.default_rng(seed).integers(2**64, size=rows.shape[1], dtype=np.uint64)
    # Zero has two signs; adding 0.0 leaves one.
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    sums = ((bits ^ (bits >> np.uint64(31))) * (odd | np.uint64(1))).sum(axis=1, dtype=np.uint64)
    return mix(sums)


FOLDS = 5
"""Folds of bags, by which the process of instances is weighed in the stack."""


def hash_bags(data: Bags) -> NDArray[np.uint64]:
    """Hash bags of one modality by their rows, in whatever order, equal to equal numbers, [B]."""
    found = [np.zeros(0, np.uint64)]
    for run in runs_of(instances_of(data)):
        total = np.cumsum(row_hash(rows_of(data, run), FOLDS), dtype=np.uint64)
        total = np.concatenate([[np.uint64(0)], total])
        offsets = data.modalities[0].offsets[run.start : run.stop + 1]
        found.append(np.diff(total[offsets - offsets[0]]))
    return np.concatenate(found)


def fold_of(data: Bags) -> IntArray:
    """Return the fold of each bag of one modality, [B]; that of its group, where it has one.

    Equal bags are in one fold, whatever their names and however the data are cut; so a bag that
    was fitted is scored out of its fold later too.
    """
    return fold_of_groups(data.group) if data.group.size else _fold(hash_bags(data))


def fold_of_groups(group: IntArray) -> IntArray:
    """Return the fold of each bag by the number of its group, [B]."""
    return _fold(mix(group.astype(np.uint64)))


def _fold(hashed: NDArray[np.uint64]) -> IntArray:
    return ((hashed >> np.uint64(11)) % np.uint64(FOLDS)).astype(np.int64)


def bag_prints(data: Bags) -> IntArray:
    """Return a number of what each bag holds, [B]; 0 for a bag that holds nothing.

    Bags with the same instances, in whatever order, and the same features have the same number.
    """
    total = np.zeros(data.n_bags, np.uint64)
    full = np.full(data.n_bags, data.bag_features.shape[1] > 0)
    for k, of in enumerate(data.modalities, start=1):
        one = Bags((of,), data.label, np.empty((data.n_bags, 0)))
        total += mix(hash_bags(one) * np.uint64(2 * k + 1))
        full |= of.sizes > 0
    if data.bag_features.shape[1]:
        total += row_hash(data.bag_features, 0)
    return np.where(full, mix(total), np.uint64(0)).view(np.int64)


ONE_GROUP = (
    "all bags are of one group, so none can be predicted without it: how good predictions are, and "
    "the weights of the stack, say nothing; name a finer group, or leave it out"
)


def join_groups(prints: IntArray, names: IntArray) -> IntArray:
    """Return the number of each bag's group, [B]: bags of one name and copies of them.

    [0] where no group has two bags. The numbers do not depend on the order of the bags, but for
    bags that hold nothing and have a name of their own.

    Parameters
    ----------
    prints
        Of `bag_prints`, [B].
    names
        A number of the name of each bag's group, [B]; [0] where groups are not named.
    """
    n = prints.size
    held = np.where(prints == 0, -1 - np.arange(n), prints)
    _, copy = np.unique(held, return_inverse=True)
    found = copy
    if names.size:
        _, name = np.unique(names, return_inverse=True)
        links = coo_array((np.ones(n), (name, copy + n)), shape=(2 * n, 2 * n))
        found = connected_components(links, directed=False)[1][name]
    if np.unique(found).size == n:
        return np.zeros(0, np.int64)
    least = np.full(int(found.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, found, held)
    return least[found]


@dataclass(frozen=True)
class Spread(Stats, kind="bags.Spread"):
    """Number, mean and squared deviations of rows; sums by Chan, Golub and LeVeque (1979)."""

    count: float
    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Spread:
        """Summarise rows [n, D]."""
        mean = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
        return cls(float(len(rows)), mean, ((rows - mean) ** 2).sum(axis=0))

    def __add__(self, other: Self) -> Spread:
        count = self.count + other.count
        if count == 0.0:
            return self
        away = other.mean - self.mean
        mean = self.mean + away * (other.count / count)
        cross = away**2 * (self.count * other.count / count)
        return Spread(count, mean, self.deviation + other.deviation + cross)


MOST_WORDS = 5000
"""Most columns of text: memory goes with their square, time with their cube (46 s of CPU)."""


FEWER_WORDS = (
    "keep those that stand in most instances, or bring them to a few hundred directions "
    "(TruncatedSVD of scikit-learn)"
)


def refuse_words(found: int) -> None:
    """Refuse text of more columns than `MOST_WORDS`."""
    if found > MOST_WORDS:
        raise ValueError(
            f"expected at most {MOST_WORDS:,} words (columns of rows of length 1, as TF-IDF has), "
            f"found {found:,}; {FEWER_WORDS}"
        )


def unit_rows(rows: FloatArray) -> BoolArray:
    """Say which rows [n, D] have length 1 or 0 and no negative number, as those of TF-IDF, [n]."""
    length = np.linalg.norm(rows, axis=1)
    unit: BoolArray = (np.abs(length - 1.0) < 1e-3) | (length == 0.0)
    return unit & (rows >= 0.0).all(axis=1)


@dataclass(frozen=True)
class Products(Stats, kind="bags.Products"):
    """sum x x' over rows of text, packed, [D (D + 1)/2]; [0] where there is none."""

    total: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Products:
        """Sum over rows [n, D]; of more than `MOST_WORDS` columns there is none."""
        known = len(rows) and rows.shape[1] <= MOST_WORDS
        return cls(pack(rows.T @ rows) if known else np.empty(0))

    def __add__(self, other: Self) -> Products:
        if not (self.total.size and other.total.size):
            return self if self.total.size else other
        return Products(self.total + other.total)


@dataclass(frozen=True)
class Observed(Stats, kind="bags.Observed"):
    """What a partition returns once, before the first evaluation.

    Attributes
    ----------
    spread
        Of the features of all instances.
    unit
        Instances of length 1 or 0, as rows of TF-IDF have; never negative in any feature.
    positive, negative
        Bags with each label, [C].
    samples
        Of instances of bags positive in none of the classes, and of each class's positive bags.
    products
        Of the instances of unit length, where they were requested.
    """

    spread: Spread
    unit: float
    positive: IntArray
    negative: IntArray
    samples: tuple[Sample, ...]
    products: Products

    @classmethod
    def of(cls, batch: Batch, limit: int, seed: int, products: bool = False) -> Observed:
        """Summarise one partition; samples have at most ``limit`` rows of each label.

        With several classes, each one's sample is smaller, so that all have 2 ``limit`` rows
        or some 100 each.
        """
        labels = labels_of(batch)
        groups = np.column_stack([(labels != 1).all(axis=1), labels == 1])
        limit = max(2 * limit // groups.shape[1], min(limit, 100))

        def of_block(part: slice) -> Observed:
            rows = rows_of(batch, part)
            unit = unit_rows(rows)
            own = np.repeat(groups[part], instances_of(batch).sizes[part], axis=0)
            return cls(
                spread=Spread.of(rows),
                unit=float(unit.sum()),
                positive=(labels[part] == 1).sum(axis=0),
                negative=(labels[part] == 0).sum(axis=0),
                samples=tuple(Sample.of(rows[chosen], limit, seed) for chosen in own.T),
                products=Products.of(rows[unit] if products else rows[:0]),
            )

        # A partition without bags still says how many features and classes there are.
        parts = list(runs_of(instances_of(batch))) or [slice(0, 0)]
        return reduce(add, map(of_block, parts))
