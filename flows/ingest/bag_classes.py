"""Labels of several classes a bag: one multiple-instance problem for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.faults import Fault
from vbmodels.mil.batch import UNLABELLED
from vbmodels.state import BoolArray, IntArray

WANTED = "one list of classes a bag, the same in all its rows"


def with_label(table: pa.Table) -> pa.Table:
    """Say in 'label' whether a bag has any of its classes, where that column says nothing."""
    if "labels" not in table.column_names:
        return table
    some = pc.greater(pc.list_value_length(table["labels"]), 0).cast(pa.int8())
    if "label" not in table.column_names:
        return table.append_column("label", some)
    place = table.column_names.index("label")
    given = table["label"].cast(pa.int8())
    return table.set_column(place, "label", pc.coalesce(given, some))


def label_faults(table: pa.Table, file: str, multi: bool) -> list[Fault]:
    """List what is wrong with the columns label and labels of a file.

    ``multi`` says whether the model takes several classes.
    """
    names = table.column_names
    if "label" in names or ("labels" in names and multi):
        return _differing(table, file) if "labels" in names and multi else []
    remedy = "give bags a label"
    if "labels" in names:
        remedy = "take model=gp_probit, which fits every class of labels, or give bags a label"
    return [
        Fault(
            file=file,
            column="label",
            expected="a column of type int8",
            found=f"none; the columns are {', '.join(names)}",
            remedy=remedy,
        )
    ]


def _differing(table: pa.Table, file: str) -> list[Fault]:
    seen: dict[Any, Any] = {}
    faults = []
    rows = zip(table["bag_id"].to_pylist(), table["labels"].to_pylist(), strict=True)
    for row, (bag, classes) in enumerate(rows):
        if classes is None:
            continue
        if None in classes:
            found = "a null in the list"
        elif seen.setdefault(bag, set(classes)) != set(classes):
            found = f"others for bag {bag!r}"
        else:
            continue
        faults.append(
            Fault(file, WANTED, found, column="labels", row=row + 1, remedy="repeat the bag's list")
        )
    return faults[:100]


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
