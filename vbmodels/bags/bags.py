"""The data of multiple-instance models: bags, their instances by modality, a label a bag."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray, State

UNLABELLED = -1


@dataclass(frozen=True)
class Instances(State, kind="bags.Instances"):
    """The instances of one modality, those of a bag side by side, in the order of the bags.

    Attributes
    ----------
    features
        One row an instance, [N, D]; float64 or float32.
    offsets
        Rows of bag i are ``offsets[i]:offsets[i + 1]``, [B + 1]; a bag may have none.
    known
        0 or 1 of an instance whose own label is known, else ``UNLABELLED``, [N]; [0] where there
        is none. A positive instance makes its bag positive.
    """

    features: NDArray[np.floating]
    offsets: IntArray
    known: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))

    def __post_init__(self) -> None:
        if self.features.ndim != 2:
            raise ValueError(f"expected features [N, D], got shape {self.features.shape}")
        ends = self.offsets[[0, -1]].tolist() if self.offsets.size else None
        if ends != [0, len(self.features)] or np.any(np.diff(self.offsets) < 0):
            raise ValueError(
                f"expected offsets that rise from 0 to {len(self.features)}, one more than there "
                f"are bags, got {self.offsets.size} from {ends}"
            )
        if self.known.size not in (0, len(self.features)):
            raise ValueError(
                f"expected {len(self.features)} instance labels, got {self.known.size}"
            )

    @classmethod
    def from_rows(
        cls,
        bag: NDArray[np.integer],
        features: NDArray[np.floating],
        n_bags: int,
        known: NDArray[np.int8] | None = None,
    ) -> Instances:
        """Group rows by their bag's number, [N]; the order within a bag is kept."""
        if bag.size and not 0 <= bag.min() <= bag.max() < n_bags:
            raise ValueError(f"expected bag numbers in 0..{n_bags - 1}")
        offsets = np.zeros(n_bags + 1, dtype=np.int64)
        np.cumsum(np.bincount(bag, minlength=n_bags), out=offsets[1:])
        sorted_already = bool(np.all(bag[1:] >= bag[:-1]))
        labels = np.zeros(0, np.int8) if known is None else known
        if sorted_already:
            return cls(np.ascontiguousarray(features), offsets, labels)
        order = np.argsort(bag, kind="stable")
        ordered = labels[order] if labels.size else labels
        return cls(np.ascontiguousarray(features[order]), offsets, ordered)

    @property
    def n_features(self) -> int:
        """Features of an instance, D."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> IntArray:
        """Instances in each bag, [B]."""
        return np.diff(self.offsets)

    @property
    def bag(self) -> IntArray:
        """Number of each instance's bag, [N]."""
        return np.repeat(np.arange(self.offsets.size - 1), self.sizes)

    def take(self, bags: IntArray) -> Instances:
        """Return the instances of some bags, in the order in which these are given."""
        sizes = self.sizes[bags]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[bags] - offsets[:-1], sizes)
        known = self.known[rows] if self.known.size else self.known
        return Instances(self.features[rows], offsets, known)


@dataclass(frozen=True)
class Bags(State, kind="bags.Bags"):
    """Bags with the instances of one or more modalities.

    Attributes
    ----------
    modalities
        Instances of each modality; all have the same bags.
    label
        0, 1 or ``UNLABELLED`` for each bag, [B], int8.
    bag_features
        Features of the bags themselves, [B, F]; F may be 0.
    partition
        Number of this partition: random numbers of its local steps are spawned from it.
    group
        Number of each bag's group, [B]: a patient's slides, or copies of a bag. Bags of a group are
        left out together. [0] where every bag is a group of its own.
    target
        The number of each bag, [B], where numbers are predicted; NaN for an unlabelled one. [0]
        where there are none. The label is then whether it is among the larger half.
    """

    modalities: tuple[Instances, ...]
    label: NDArray[np.int8]
    bag_features: FloatArray
    partition: int = 0
    group: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    target: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not self.modalities:
            raise ValueError("expected at least one modality, got none")
        counts = [m.offsets.size - 1 for m in self.modalities] + [len(self.bag_features)]
        if any(count != self.label.size for count in counts):
            raise ValueError(
                f"expected {self.label.size} bags, one a label, in every modality and in the "
                f"bags' own features, got {counts}"
            )
        if not np.isin(self.label, (0, 1, UNLABELLED)).all():
            raise ValueError(f"expected labels 0, 1 or {UNLABELLED} (unlabelled)")
        if self.group.size not in (0, self.label.size):
            raise ValueError(f"expected {self.label.size} numbers of groups, got {self.group.size}")
        if self.target.size not in (0, self.label.size):
            raise ValueError(f"expected {self.label.size} targets, got {self.target.size}")

    @property
    def n_bags(self) -> int:
        """Number of bags, B."""
        return int(self.label.size)

    @property
    def n_instances(self) -> int:
        """Instances of all modalities."""
        return sum(len(m.features) for m in self.modalities)

    @cached_property
    def sign(self) -> FloatArray:
        """+1 for a positive bag, -1 for a negative one, 0 for one without label, [B]."""
        return np.where(self.label == UNLABELLED, 0.0, 2.0 * self.label - 1.0)

    def take(self, bags: IntArray) -> Bags:
        """Return some bags, in the order in which their numbers are given."""
        return Bags(
            modalities=tuple(m.take(bags) for m in self.modalities),
            label=self.label[bags],
            bag_features=self.bag_features[bags],
            partition=self.partition,
            group=self.group[bags] if self.group.size else self.group,
            target=self.target[bags] if self.target.size else self.target,
        )

    def labelled(self) -> Bags:
        """Return the bags that have a label (this very object when all have).

        Where they come first nothing is copied.
        """
        known = self.label != UNLABELLED
        count = int(np.count_nonzero(known))
        if count == known.size:
            return self
        if not known[:count].all():
            return self.take(np.flatnonzero(known))
        return Bags(
            modalities=tuple(
                Instances(
                    m.features[: m.offsets[count]],
                    m.offsets[: count + 1],
                    m.known[: m.offsets[count]],
                )
                for m in self.modalities
            ),
            label=self.label[:count],
            bag_features=self.bag_features[:count],
            partition=self.partition,
            group=self.group[:count],
            target=self.target[:count],
        )


def bags(
    modalities: Sequence[Instances],
    label: NDArray[np.integer] | Sequence[int],
    bag_features: NDArray[np.floating] | None = None,
    partition: int = 0,
    group: NDArray[np.integer] | Sequence[int] = (),
) -> Bags:
    """Put bags together; without features of their own they get [B, 0]."""
    labels = np.asarray(label, dtype=np.int8)
    own = np.empty((labels.size, 0)) if bag_features is None else np.asarray(bag_features, float)
    return Bags(tuple(modalities), labels, own, partition, np.asarray(group, np.int64))


def split(data: Bags, n: int) -> list[Bags]:
    """Split into ``n`` partitions of whole bags, side by side, with about as many instances each.

    There are never more partitions than bags.
    """
    sizes = np.sum([m.sizes for m in data.modalities], axis=0)
    bounds = even_bounds(1 + sizes, n)
    return [
        replace(data.take(np.arange(first, last)), partition=i)
        for i, (first, last) in enumerate(itertools.pairwise(bounds))
    ]


def even_bounds(weights: IntArray, n: int) -> list[int]:
    """Cut items into at most ``n`` groups side by side of about equal weight, none empty.

    >>> even_bounds(np.array([1, 1, 1, 1, 4]), 2)
    [0, 4, 5]
    """
    n = max(1, min(n, weights.size))
    ends = np.cumsum(weights)
    total = int(ends[-1]) if ends.size else 0
    cuts = np.searchsorted(ends, total * np.arange(1, n) / n, side="left") + 1
    bounds = [0]
    for i, cut in enumerate(cuts.tolist()):
        bounds.append(min(max(int(cut), bounds[-1] + 1), weights.size - (n - 1 - i)))
    return [*bounds, weights.size]


def known_of(parts: Sequence[Instances]) -> NDArray[np.int8]:
    """Return the known labels of instances one after another; [0] where none has any."""
    if not any(part.known.size for part in parts):
        return np.zeros(0, np.int8)
    none = [np.full(len(part.features), UNLABELLED, np.int8) for part in parts]
    return np.concatenate(
        [p.known if p.known.size else n for p, n in zip(parts, none, strict=True)]
    )


def with_targets(data: Bags, target: FloatArray) -> Bags:
    """Return bags with numbers to predict, [B], NaN for those without one."""
    known = ~np.isnan(target)
    half = (target >= np.median(target[known])).astype(np.int8) if known.any() else np.int8(0)
    return replace(data, label=np.where(known, half, np.int8(UNLABELLED)), target=target)


def few_bags(bags: float, features: int) -> str:
    """Say that the labelled bags are few for the features; nothing where they are enough."""
    if bags >= 2.0 * features:
        return ""
    return (
        f"{bags:,.0f} labelled bags for {features:,} features: the fit rests on its prior; use "
        "fewer features, or compare with a regression on each bag's mean."
    )
