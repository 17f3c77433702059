"""What is tested, from the table bags: what is predicted of each label, and the label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vbmodels.core.state import BoolArray, FloatArray, IntArray

Kind = Literal["label", "several", "classes", "levels", "number"]
"""Two labels, any of several classes, one of several classes, levels in an order, or numbers."""
Which = Literal["new", "held out", "without"]
"""Bags that are tested: new ones, those held out of the fit, or the fitted, each without itself."""


MOST_INSTANCES = 8
"""Instances of a bag, the foremost, whose features are written and shown."""


@dataclass(frozen=True)
class Rows:
    """What is tested, of all partitions: bags, or labels of bags with several classes.

    Attributes
    ----------
    label
        A label of 0 and 1, a number, or the number of a level or class; NaN where not known, [n].
    own, without
        What is predicted with and without the bag's own label, [n] or [n, K].
    low, high
        The interval of a number, [n].
    held, group
        Whether its label was held out; its group's number, [n] or [0].
    of_class
        With several classes, that of the label, [n]; else [0].
    rivals
        What others predict, by name; NaN where they do not, [n] or [n, K].
    """

    label: FloatArray
    own: FloatArray
    without: FloatArray
    low: FloatArray
    high: FloatArray
    held: BoolArray
    group: IntArray
    of_class: IntArray
    rivals: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def best(self) -> FloatArray:
        """What is predicted without the bag's own label where that is known."""
        return np.where(np.isnan(self.without), self.own, self.without)

    @property
    def is_unseen(self) -> BoolArray:
        """Which labels the prediction does not know, where they are known."""
        alone = self.without if self.without.ndim == 1 else self.without[:, 0]
        return np.asarray(self.held | ~np.isnan(alone))

    @property
    def known(self) -> BoolArray:
        """Which labels are known."""
        return ~np.isnan(self.label)

    @property
    def fitted(self) -> FloatArray:
        """Labels that the fit has seen."""
        return self.label[self.known & ~self.held]

    def is_tested(self, on: Which) -> BoolArray:
        """Return which rows have a label that their prediction does not know."""
        without = self.is_unseen & ~self.held
        choice = {"new": self.known, "held out": self.held, "without": without}[on]
        if on != "new" and self.group.size and np.unique(self.group).size == 1:
            return np.zeros(self.label.size, bool)
        return np.asarray(self.known & choice)


def rows_of(kind: Kind, bags: pa.Table, levels: Sequence[str]) -> Rows:
    """Return the rows of a table bags of one partition.

    ``levels`` are those of an order, or the classes.
    """
    group, of_class = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(bags) and not bags["group"].null_count:
        group = bags["group"].to_numpy()
    label, held_out = floats(bags["label"]), bags["held_out"].to_numpy(zero_copy_only=False)
    low = high = np.full(len(bags), np.nan)
    name = "predicted" if kind == "number" else "probability"
    if kind in ("number", "levels"):
        low, high = (without_or(bags, end, f"{end}_without_it") for end in ("low", "high"))
    if kind == "levels":
        label = label - 1.0
        predicted, without = (
            np.column_stack([floats(bags[f"{prefix}_{level}"]) for level in levels])
            for prefix in ("probability", "without_it")
        )
    else:
        predicted, without = (floats(bags[column]) for column in (name, "without_it"))
    if kind == "several":
        of_class = pc.index_in(bags["class"], pa.array(levels)).to_numpy()
    if kind == "classes":
        shape = len(levels), -1  # the rows of a class follow those of another
        predicted, without, labels = (
            array.reshape(shape).T for array in (predicted, without, label)
        )
        label = np.where(labels.max(axis=1) == 1.0, labels.argmax(axis=1), np.nan)
        held_out, low, high, group = (array[: len(label)] for array in (held_out, low, high, group))
    return Rows(label, predicted, without, low, high, held_out, group, of_class)


def joined_rows(parts: Sequence[Rows], rivals: Mapping[str, FloatArray]) -> Rows:
    """Join the rows of all partitions; ``rivals`` are of all, in their order."""
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("label", "own", "without", "low", "high", "held", "group", "of_class")
    }
    return Rows(**columns, rivals=dict(rivals))


def without_or(bags: pa.Table, column: str, without: str) -> FloatArray:
    """Return what is predicted without a bag where that is known, else with it, [B]."""
    without_it, with_it = floats(bags[without]), floats(bags[column])
    return np.where(np.isnan(without_it), with_it, without_it)


def rank_of(instances: pa.Table, is_number: bool) -> FloatArray:
    """Return by what instances are foremost, [n]: P(primary) where that is known, or the score.

    ``is_number``: what they add to a number may lower it too, so the size of it counts.
    """
    chance, score = floats(instances["probability"]), floats(instances["score"])
    return np.where(np.isnan(chance), np.abs(score) if is_number else score, chance)


def floats(column: pa.ChunkedArray) -> FloatArray:
    """Return a column's numbers, NaN for missing ones."""
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy())
