"""What a model says of bags, and the tables that a run leaves of it, class by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from flows.bags.input import labels as bag_classes
from flows.bags.models.markers import Explain, marker_table
from flows.bags.schema import BAGS, INSTANCES, REASONS
from vbmodels.bags.bags import Bags
from vbmodels.core.state import FloatArray, IntArray


@dataclass(frozen=True)
class Written:
    """Result of one partition and one class.

    Attributes
    ----------
    bags, instances, reasons, markers
        Rows of the tables of these names; the latter two None where a model has none.
    """

    name: str | None
    bags: pa.Table
    instances: pa.Table
    reasons: pa.Table | None
    markers: pa.Table | None


def written(
    found: Sequence[Scores], rows: pa.Table, instance_rows: pa.Table, about: dict[str, Any],
    form: dict[str, Any], held_out: Any, data: Bags,
    explain: Explain | None,
) -> Iterator[Written]:  # fmt: skip
    """Yield the tables of every class, or of the one problem that there is.

    Parameters
    ----------
    found
        What the model says, class by class.
    rows, instance_rows
        The partition's bags and instances; see `flows.bags.input.instances.Read`.
    about, form
        The partition's own modalities, and the form of all partitions.
    held_out
        Whether each bag's label was kept from the fit.
    data, explain
        The bags, and what gives the features that add to instances' scores, if the model can.
    """
    classes = form.get("classes") or []
    labels = bag_classes.matrix(rows["labels"].to_pylist(), classes)
    predicted = pa.nulls(rows.num_rows, pa.string())
    if form["exclusive"]:
        found, best = normalised(found)
        predicted = pa.array(classes, pa.string()).take(pa.array(best))
    for c, scores in enumerate(found):
        name, label = None, rows["label"]
        if classes:
            name = classes[c]
            label = pa.array(labels[:, c], pa.int8(), mask=labels[:, c] < 0)
        bags = pa.table(
            [rows["bag_id"], label, pa.array(scores.bags), held_out,
             _or_nulls(scores.without, rows.num_rows),
             _or_nulls(scores.bag_bald, rows.num_rows),
             pa.array([name] * rows.num_rows, pa.string()), predicted, rows["given"],
             group_column(data)],
            schema=BAGS.arrow,
        )  # fmt: skip
        instances = instance_table(scores, instance_rows, rows["bag_id"], about, form, name)
        reasons = reasons_table(scores, rows["bag_id"], form["modalities"])
        markers = None if explain is None else marker_table(instances, data, form, explain)
        yield Written(name, bags, instances, reasons, markers)


def group_column(data: Bags) -> pa.Array:
    """Return the number of each bag's group, null where no bags belong together."""
    return pa.array(data.group) if data.group.size else pa.nulls(data.n_bags, pa.int64())


def normalised(found: Sequence[Scores]) -> tuple[list[Scores], IntArray]:
    """Return scores whose bags' probabilities sum to one over classes, and the largest of each."""
    chance = np.column_stack([one.bags for one in found])
    chance = np.maximum(chance, np.finfo(float).tiny)
    chance = chance / chance.sum(axis=1, keepdims=True)
    parts = [replace(one, bags=own) for one, own in zip(found, chance.T, strict=True)]
    return parts, chance.argmax(axis=1)


def block_named(block: str, modalities: Sequence[str]) -> str:
    """Return a block's name in words, with that of its modality for the modality's number.

    >>> block_named("1: smooth mean 2", ["image", "text"]), block_named("size", ["image"])
    ('text: mean similarity to landmarks, length 2', 'number of instances')
    """
    number, colon, name = block.rpartition(": ")
    kind, _, length = name.rpartition(" ")
    words = _BLOCKS.get(name) or (f"{_BLOCKS[kind]}, length {length}" if kind in _BLOCKS else name)
    return f"{modalities[int(number)]}: {words}" if colon else words


_BLOCKS = {
    "size": "number of instances",
    "max": "maximum",
    "min": "minimum",
    "sd": "spread",
    "own features": "the bag's own features",
    "smooth mean": "mean similarity to landmarks",
    "smooth max": "highest similarity to a landmark",
    "rank mean": "mean similarity to landmarks by ranks",
    "rank max": "highest similarity to a landmark by ranks",
    "trees": "similarity of bags by ranks of pooled features",
    "distribution": "similarity of bags by their distributions",
}


def reasons_table(
    found: Scores, bag_ids: pa.ChunkedArray, modalities: Sequence[str]
) -> pa.Table | None:
    """Return every bag's parts, one a row, bag by bag."""
    if found.reasons is None:
        return None
    n_bags, count = found.reasons.shape
    which = pa.array(np.repeat(np.arange(n_bags), count))
    block_names = [block_named(name, modalities) for name in found.reason_names]
    names = pa.array(block_names * n_bags, pa.string())
    columns = [bag_ids.take(which), names, pa.array(found.reasons.ravel())]
    return pa.table(columns, schema=REASONS.arrow)


def _or_nulls(values: np.ndarray | None, size: int) -> pa.Array:
    """Return values, null where they are NaN."""
    return pa.nulls(size, pa.float64()) if values is None else pa.array(values, from_pandas=True)


def instance_table(
    found: Scores, instance_rows: pa.Table, bag_ids: Any, about: dict[str, Any],
    form: dict[str, Any], name: str | None,
) -> pa.Table:  # fmt: skip
    """Put the modalities' instances back into one table, bag by bag."""
    local = instance_rows["modality"].to_numpy()
    kind = np.array([form["modalities"].index(m) if m in form["modalities"] else -1
                     for m in about["modalities"]])[local]  # fmt: skip

    def gathered(columns: Sequence[np.ndarray]) -> pa.Array:
        values = np.empty(kind.size)
        for k, column in enumerate(columns):
            values[kind == k] = column
        return pa.array(values)

    names = pa.array([name or None for name in form["modalities"]], pa.string())
    probability, contribution, bald = (
        pa.nulls(kind.size, pa.float64()) if columns is None else gathered(columns)
        for columns in (found.probability, found.contribution, found.bald)
    )
    return pa.table(
        [
            bag_ids.take(instance_rows["bag"].combine_chunks()),
            instance_rows["instance_id"],
            names.take(pa.array(kind)),
            probability,
            gathered(found.score),
            contribution,
            bald,
            pa.array([name] * kind.size, pa.string()),
        ],
        schema=INSTANCES.arrow,
    )


@dataclass(frozen=True)
class Scores:
    """What a model says of bags: P(y = 1) [B]; of their instances, [N_k] for each modality.

    ``probability`` is None where a model gives only the contributions of instances. ``bald`` and
    ``bag_bald`` are the information that a label is expected to bring, in nats, where a model knows
    it. ``without`` is P(y = 1) of fitted bags, predicted without them, NaN for others, [B].
    ``reasons`` are what each of some named parts adds to the bags' probit scores, [B, M].
    """

    bags: FloatArray
    probability: tuple[FloatArray, ...] | None
    score: tuple[FloatArray, ...]
    contribution: tuple[FloatArray, ...] | None
    bald: tuple[FloatArray, ...] | None = None
    bag_bald: FloatArray | None = None
    without: FloatArray | None = None
    reasons: FloatArray | None = None
    reason_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coefficients:
    """The posterior of one block of coefficients on scaled features.

    ``modality`` is its number, None for the bags' own features; ``of_class`` that of the class,
    where there are several.
    """

    name: str
    modality: int | None
    mean: FloatArray
    sd: FloatArray
    of_class: int | None = None
