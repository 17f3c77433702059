"""The tables that a run of bags leaves, class by class where labels are of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows.bags import classes as bag_classes
from flows.bags.models import Scores
from flows.bags.schema import BAGS, INSTANCES


@dataclass(frozen=True)
class Written:
    """What is told of one partition and one class.

    Attributes
    ----------
    bags, instances
        Rows of the tables of these names.
    shown, known
        The bags, and each instance's bag and truth, as the report takes them: with the class
        in the bag's name.
    """

    name: str | None
    bags: pa.Table
    instances: pa.Table
    shown: pa.Table
    known: pa.Table


def written(
    found: Sequence[Scores], rows: pa.Table, told: pa.Table, about: dict[str, Any],
    form: dict[str, Any], held_out: Any,
) -> Iterator[Written]:  # fmt: skip
    """Yield the tables of every class, or of the one problem that there is.

    Parameters
    ----------
    found
        What the model says, class by class.
    rows, told
        The partition's bags and instances; see `flows.bags.instances.Read`.
    about, form
        The partition's own modalities, and the form of all partitions.
    held_out
        Whether each bag's label was kept from the fit.
    """
    classes = form.get("classes") or []
    labels = bag_classes.matrix(rows["labels"].to_pylist(), classes)
    for c, scores in enumerate(found):
        name, label = None, rows["label"]
        if classes:
            name = classes[c]
            label = pa.array(labels[:, c], pa.int8(), mask=labels[:, c] < 0)
        bags = pa.table(
            [rows["bag_id"], label, pa.array(scores.bags), held_out,
             _or_nulls(scores.bag_bald, rows.num_rows),
             pa.array([name] * rows.num_rows, pa.string())],
            schema=BAGS.arrow,
        )  # fmt: skip
        instances = _instance_table(scores, told, rows["bag_id"], about, form, name)
        yield Written(name, bags, instances, *_for_report(bags, told, name))


def named(bag: str, name: str | None) -> str:
    """Name a bag, and the class where there are several."""
    return bag if name is None else f"{bag}, class {name}"


def _for_report(bags: pa.Table, told: pa.Table, name: str | None) -> tuple[pa.Table, pa.Table]:
    """Name the class with each bag; whether an instance is primary is not told by class."""
    if name is None:
        return bags, told
    names = pa.array([named(bag, name) for bag in bags["bag_id"].to_pylist()], pa.string())
    place = told.column_names.index("primary")
    unknown = pa.nulls(len(told), pa.bool_())
    return bags.set_column(0, "bag_id", names), told.set_column(place, "primary", unknown)


def _or_nulls(values: np.ndarray | None, size: int) -> pa.Array:
    return pa.nulls(size, pa.float64()) if values is None else pa.array(values)


def _instance_table(
    found: Scores, told: pa.Table, bag_ids: Any, about: dict[str, Any],
    form: dict[str, Any], name: str | None,
) -> pa.Table:  # fmt: skip
    """Put the modalities' instances back into one table, bag by bag."""
    local = told["modality"].to_numpy()
    kind = np.array([form["modalities"].index(m) if m in form["modalities"] else -1
                     for m in about["modalities"]])[local]  # fmt: skip

    def gathered(columns: Sequence[np.ndarray]) -> pa.Array:
        values = np.empty(kind.size)
        for k, column in enumerate(columns):
            values[kind == k] = column
        return pa.array(values)

    names = pa.array([name or None for name in form["modalities"]], pa.string())
    contribution, bald = (
        pa.nulls(kind.size, pa.float64()) if columns is None else gathered(columns)
        for columns in (found.contribution, found.bald)
    )
    return pa.table(
        [
            bag_ids.take(told["bag"].combine_chunks()),
            told["instance_id"],
            names.take(pa.array(kind)),
            gathered(found.probability),
            gathered(found.score),
            contribution,
            bald,
            pa.array([name] * kind.size, pa.string()),
        ],
        schema=INSTANCES.arrow,
    )
