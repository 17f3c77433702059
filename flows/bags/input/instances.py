"""Rows of instances to bags of arrays, with the names that belong to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.bags.input import labels as bag_classes
from flows.bags.input.rows import positive_instances
from flows.bags.schema import LABEL_GIVEN, LABEL_NUMBER
from flows.bags.settings import BagSettings
from flows.faults import InputError
from flows.tables import mixed
from vbmodels.bags.bags import UNLABELLED, Bags, Instances, bags
from vbmodels.bags.multilabel import bag_prints
from vbmodels.core.state import IntArray
from vbmodels.tables.shared_labels import first_parts


@dataclass(frozen=True)
class Read:
    """One partition.

    Attributes
    ----------
    bags
        Arrays for the models. Bags that are fitted come first.
    modalities
        Names of its modalities, sorted ("" where there is none).
    bag_rows
        bag_id, label, number, held_out, group, place (in the order of the rows), time (what may
        decide which are held out), given, print, labels: one row a bag, in the order of ``bags``;
        bags that hold the same have the same print (`bag_prints`).
    instance_rows
        bag (its number), instance_id, modality (its number), primary: by bag, then as read.
    empty
        Names of bags without any instance.
    """

    bags: Bags
    modalities: tuple[str, ...]
    bag_rows: pa.Table
    instance_rows: pa.Table
    empty: tuple[str, ...]


def held(name: str, share: float, seed: int) -> bool:
    """Whether the labels of a bag, or a group of bags, are kept from the fit.

    That depends on its name and the seed alone.
    """
    digest = hashlib.blake2b(f"{seed}|{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2.0**64


def read(table: pa.Table, index: int, settings: BagSettings) -> Read:
    """Group a partition's rows, in the columns of `flows.bags.schema.INSTANCES_IN`, by bag."""
    codes = table["bag_id"].combine_chunks().dictionary_encode()
    number, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    table = bag_classes.with_label(table)
    label = pc.fill_null(table["label"], UNLABELLED).to_numpy()
    first = np.full(len(names), -1, np.int64)
    labelled = np.flatnonzero(label != UNLABELLED)[::-1]
    first[number[labelled]] = labelled  # the first of several is written last
    label = np.where(first < 0, UNLABELLED, label[first]).astype(np.int64)
    target = np.full(len(names), np.nan)
    if LABEL_NUMBER.name in table.column_names:
        target = np.where(first < 0, np.nan, table[LABEL_NUMBER.name].to_numpy()[first])
    positive = number[positive_instances(table)]
    positive = positive if LABEL_NUMBER.name not in table.column_names else positive[:0]
    label[positive] = np.where(label[positive] == UNLABELLED, 1, label[positive])
    groups = _groups(table, number, names)
    if settings.group_parts and table["group"].null_count == len(table):
        groups = [first_parts(name, settings.group_parts) for name in names]
    out = np.array([held(name, settings.share, settings.seed) for name in groups], bool)
    out &= label != UNLABELLED
    times = _one_of_bag(table, "held_out", number, names)
    order = np.argsort(out | (label == UNLABELLED), kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    number = rank[number]
    known = pc.fill_null(table["instance_label"], UNLABELLED).to_numpy().astype(np.int8)
    modalities, kind, parts = _instances(
        table, number, len(names), settings.precision, known.astype(np.int8)
    )
    bag_features = _own(table, number, len(names))
    filled = np.zeros(len(names), bool)
    filled[number[kind >= 0]] = True
    ordered = [names[i] for i in order]
    grouped = bags(parts, label[order].astype(np.int8), bag_features, partition=index)
    if LABEL_NUMBER.name in table.column_names:
        grouped = replace(grouped, target=target[order])
    bag_rows = pa.table(
        {
            "bag_id": pa.array(ordered, pa.string()),
            "label": pa.array(label[order], pa.int8(), mask=label[order] == UNLABELLED),
            "number": pa.array(target[order], from_pandas=True),
            "held_out": out[order],
            "group": [groups[i] for i in order],
            "place": order,
            "time": pa.array([times.get(i) for i in order.tolist()], pa.string()),
            "given": _given(table, first[order]),
            "print": bag_prints(grouped),
            "labels": bag_classes.of_bags(table, number, len(names)),
        }
    )
    return Read(
        bags=grouped,
        modalities=modalities,
        bag_rows=bag_rows,
        instance_rows=_instance_rows(table, number, kind),
        empty=tuple(name for name, ok in zip(ordered, filled, strict=True) if not ok),
    )


def _groups(table: pa.Table, number: IntArray, names: list[str]) -> list[str]:
    """Return the group of each bag, its own name where it has none."""
    by_bag = _one_of_bag(table, "group", number, names)
    groups = set(by_bag.values())
    # A bag without a group that is called as a group is not of it.
    return [
        by_bag.get(bag, f"\0{name}" if name in groups else name) for bag, name in enumerate(names)
    ]


def _one_of_bag(table: pa.Table, column: str, number: IntArray, names: list[str]) -> dict[int, str]:
    """Return the cell of each bag, as text, that has one in a column.

    Raises
    ------
    InputError
        If the rows of a bag have several.
    """
    cells = mixed.texts(mixed.parse(table[column])[0])
    by_bag: dict[int, str] = {}
    for bag, cell in zip(number.tolist(), cells.to_pylist(), strict=True):
        if cell is not None and by_bag.setdefault(bag, cell) != cell:
            raise InputError.of(
                file="the data",
                column=column,
                expected=f"one {column} for bag {names[bag]}",
                found=f"{by_bag[bag]} and {cell}",
                remedy="correct it, or name another column",
            )
    return by_bag


def widen(
    data: Bags, modalities: tuple[str, ...], wanted: tuple[str, ...], widths: IntArray, dtype: str
) -> Bags:
    """Bring a partition to the modalities of all: what it lacks, it has no instance of."""
    parts = []
    for name, width in zip(wanted, widths.tolist(), strict=True):
        instances = data.modalities[modalities.index(name)] if name in modalities else None
        if instances is not None and instances.n_features == width:
            parts.append(instances)
        else:
            offsets = np.zeros(data.n_bags + 1, np.int64)
            parts.append(Instances(np.empty((0, width), dtype), offsets))
    return replace(data, modalities=tuple(parts))


def _given(table: pa.Table, rows: IntArray) -> pa.ChunkedArray:
    """Return labels as the file writes them, null where it writes 1 and 0 or there is none."""
    if LABEL_GIVEN.name not in table.column_names:
        return pa.nulls(len(rows), pa.string())
    return table[LABEL_GIVEN.name].take(pa.array(rows, mask=rows < 0))


def _instances(
    table: pa.Table, number: IntArray, n: int, dtype: str, known: NDArray[np.int8]
) -> tuple[tuple[str, ...], IntArray, list[Instances]]:
    """Return the modalities' names, each row's modality (-1: no instance), their instances."""
    valid = np.asarray(pc.is_valid(table["features"]))
    codes = pc.fill_null(table["modality"], "").combine_chunks().dictionary_encode()
    present = sorted(
        {codes.dictionary[i].as_py() for i in np.unique(codes.indices.to_numpy()[valid])} or {""}
    )
    modality_of = np.array(
        [present.index(m) if m in present else -1 for m in codes.dictionary.to_pylist()]
    )
    kind = np.where(valid, modality_of[codes.indices.to_numpy()], -1)
    known = known if (known != UNLABELLED).any() else known[:0]
    ends = np.cumsum([len(chunk) for chunk in table["features"].chunks])
    parts = []
    for k in range(len(present)):
        of_chunks = np.split(kind == k, ends[:-1])
        pieces = [
            _numbers(chunk.filter(pa.array(chosen)), dtype)
            for chunk, chosen in zip(table["features"].chunks, of_chunks, strict=True)
            if chosen.any()
        ]
        rows = np.flatnonzero(kind == k)
        values = np.concatenate(pieces or [np.empty((0, 0), dtype)])
        parts.append(
            Instances.from_rows(number[rows], values, n, known[rows] if known.size else None)
        )
    return tuple(present), kind, parts


def _numbers(lists: pa.ListArray, dtype: str) -> NDArray[np.floating]:
    """Return lists as rows, in 32 bits where these hold the same numbers."""
    values = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)
    with np.errstate(over="ignore"):
        halved = values.astype(np.float32)
    return halved if np.array_equal(halved, values, equal_nan=True) else values.astype(dtype)


def _own(table: pa.Table, number: IntArray, n: int) -> np.ndarray | None:
    column = table["bag_features"].combine_chunks()
    rows = np.flatnonzero(np.asarray(pc.is_valid(column)))
    if not rows.size:
        return None
    values = column.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False)
    features = np.zeros((n, values.size // rows.size))
    features[number[rows]] = values.reshape(rows.size, -1)
    return features


def _instance_rows(table: pa.Table, number: IntArray, kind: IntArray) -> pa.Table:
    rows = np.flatnonzero(kind >= 0)
    rows = rows[np.argsort(number[rows], kind="stable")]
    names = table["instance_id"].combine_chunks().take(pa.array(rows))
    bags = number[rows]
    position = np.arange(rows.size) - np.searchsorted(bags, bags, side="left")
    names = pc.coalesce(names, pa.array(position + 1).cast(pa.string()))
    return pa.table(
        {
            "bag": bags,
            "instance_id": names,
            "modality": kind[rows],
            "primary": table["primary"].combine_chunks().take(pa.array(rows)),
        }
    )
