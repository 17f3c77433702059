"""Labels of several classes a bag: one multiple-instance problem for each class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.faults import Fault
from flows.tables.checks import Found
from vbmodels.bags.bags import UNLABELLED
from vbmodels.core.state import BoolArray, IntArray

MASK = "bag_label_mask"
MASK_BITS = 63


def has_classes(columns: Sequence[str]) -> bool:
    """Whether bags have labels of several classes, as lists or as a mask."""
    return "labels" in columns or MASK in columns


def with_lists(table: pa.Table) -> pa.Table:
    """Turn masks of classes into lists in the column labels, where those say nothing."""
    if MASK not in table.column_names or table[MASK].null_count == len(table):
        return table
    lists = pa.array(
        [None if mask is None else _classes_of(mask) for mask in table[MASK].to_pylist()],
        pa.list_(pa.string()),
    )
    if "labels" in table.column_names:
        if table["labels"].null_count < len(table):
            return table
        table = table.drop_columns("labels")
    return table.append_column("labels", lists)


@cache
def _classes_of(mask: int) -> list[str]:
    return [f"{k:02d}" for k in range(MASK_BITS) if mask >> k & 1]


def with_label(table: pa.Table) -> pa.Table:
    """Say in 'label' whether a bag has any of its classes, where that column says nothing.

    Without a column of labels no bag has one.
    """
    if "labels" not in table.column_names:
        if "label" in table.column_names:
            return table
        return table.append_column("label", pa.nulls(len(table), pa.int8()))
    some = pc.greater(pc.list_value_length(table["labels"]), 0).cast(pa.int8())
    if "label" not in table.column_names:
        return table.append_column("label", some)
    place = table.column_names.index("label")
    given = table["label"].cast(pa.int8())
    return table.set_column(place, "label", pc.coalesce(given, some))


def check_label_columns(columns: Sequence[str], several: bool, found: Found) -> None:
    """Report classes in two columns, and classes that the model does not take.

    ``several`` says whether the model takes several classes.
    """
    if {"labels", MASK} <= set(columns):
        found.add(
            Fault(found.file, "classes of bags in one column", f"labels and {MASK}", MASK,
                  remedy="leave one of the two columns out")
        )  # fmt: skip
    if "label" in columns or several or not has_classes(columns):
        return
    remedy = "take model=gp_probit for labels, or give bags a label"
    listed = f"none; the columns are {', '.join(columns)}"
    found.add(Fault(found.file, "a column of labels", listed, "label", remedy=remedy))


def check_classes(table: pa.Table, column: str, found: Found) -> None:
    """Report rows that give their bag other classes than an earlier row does."""
    seen: dict[Any, Any] = {}
    other = {}
    rows = zip(table["bag_id"].to_pylist(), table["labels"].to_pylist(), strict=True)
    for row, (bag, classes) in enumerate(rows):
        if classes is not None and seen.setdefault(bag, set(classes)) != set(classes):
            other[row] = bag
    found.rows(
        list(other), column, "one list of classes a bag, the same in all its rows",
        lambda row: f"others for bag {other[row]!r}", "repeat the bag's classes",
    )  # fmt: skip


def of_bags(table: pa.Table, number: IntArray, n: int) -> pa.Array:
    """Return the list of classes of each numbered bag, null where none is given."""
    lists: list[list[str] | None] = [None] * n
    for bag, classes in zip(number.tolist(), table["labels"].to_pylist(), strict=True):
        if classes is not None:
            lists[bag] = sorted(set(classes))
    return pa.array(lists, pa.list_(pa.string()))


def names_of(lists: pa.Array) -> list[str]:
    """Return all classes of some bags, sorted."""
    return sorted({name for name in lists.flatten().to_pylist()})


def one_each(lists: pa.Array) -> bool:
    """Whether each bag with known classes has exactly one."""
    return bool(pc.all(pc.equal(pc.list_value_length(lists.drop_null()), 1)).as_py() is not False)


def matrix(lists: Sequence[list[str] | None], classes: Sequence[str]) -> NDArray[np.int8]:
    """Return 1, 0 or ``UNLABELLED`` for each bag and class, [B, C]."""
    found = np.zeros((len(lists), len(classes)), np.int8)
    place = {name: c for c, name in enumerate(classes)}
    for b, own in enumerate(lists):
        if own is None:
            found[b] = UNLABELLED
        else:
            found[b, [place[name] for name in own if name in place]] = 1
    return found


def hidden(labels: NDArray[np.int8], held_out: BoolArray) -> NDArray[np.int8]:
    """Return the labels without those of bags that are held out."""
    result: NDArray[np.int8] = np.where(held_out[:, None], np.int8(UNLABELLED), labels)
    return result


def one_sided(classes: Sequence[str], counts: IntArray) -> list[str]:
    """Warn of classes whose labelled bags are all alike; counts are [C, 2]."""
    return [
        f"Class {name} has {positive} positive and {negative} negative bags: its probabilities "
        "rest on the prior."
        for name, (negative, positive) in zip(classes, counts.tolist(), strict=True)
        if not (negative and positive)
    ]
