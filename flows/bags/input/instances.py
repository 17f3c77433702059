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
from flows.faults import InputError
from vbmodels.bags.bags import UNLABELLED, Bags, Instances, bags
from vbmodels.bags.multilabel import bag_prints
from vbmodels.bags.shared_labels import first_parts
from vbmodels.core.state import IntArray


@dataclass(frozen=True)
class Read:
    """One partition.

    Attributes
    ----------
    bags
        Arrays for the models; the label of a bag that is held out is hidden. Bags that are
        fitted come first.
    modalities
        Names of its modalities, sorted ("" where there is none).
    bag_rows
        bag_id, label, number, held_out, group, given, print, labels: one row a bag, in the order
        of ``bags``; bags that hold the same have the same print (`bag_prints`).
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


def read(
    table: pa.Table, index: int, held_out: float, seed: int, dtype: str, group_parts: int = 0
) -> Read:
    """Group a partition's rows, in the columns of `flows.bags.schema.INSTANCES_IN`, by bag.

    ``group_parts``: first parts of a bag's name that name its group, where no column does.
    """
    codes = table["bag_id"].combine_chunks().dictionary_encode()
    number, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    table = bag_classes.with_label(table)
    label = pc.fill_null(table["label"], UNLABELLED).to_numpy()
    first = _first_known(number, label, len(names))
    label = np.where(first < 0, UNLABELLED, label[first]).astype(np.int64)
    target = np.full(len(names), np.nan)
    if LABEL_NUMBER.name in table.column_names:
        target = np.where(first < 0, np.nan, table[LABEL_NUMBER.name].to_numpy()[first])
    positive = number[positive_instances(table)]
    positive = positive if LABEL_NUMBER.name not in table.column_names else positive[:0]
    label[positive] = np.where(label[positive] == UNLABELLED, 1, label[positive])
    groups = _groups(table, number, names)
    if group_parts and table["group"].null_count == len(table):
        groups = [first_parts(name, group_parts) for name in names]
    out = np.array([held(name, held_out, seed) for name in groups], bool) & (label != UNLABELLED)
    seen = np.where(out, UNLABELLED, label)
    order = np.argsort(seen == UNLABELLED, kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    number = rank[number]
    known = pc.fill_null(table["instance_label"], UNLABELLED).to_numpy().astype(np.int8)
    known = np.where(out[order][number], UNLABELLED, known)
    modalities, kind, parts = _instances(table, number, len(names), dtype, known.astype(np.int8))
    own = _own(table, number, len(names))
    filled = np.zeros(len(names), bool)
    filled[number[kind >= 0]] = True
    ordered = [names[i] for i in order]
    found = bags(parts, seen[order].astype(np.int8), own, partition=index)
    if LABEL_NUMBER.name in table.column_names:
        seen_target = np.where(found.label == UNLABELLED, np.nan, target[order])
        found = replace(found, target=seen_target)
    bag_rows = pa.table(
        {
            "bag_id": pa.array(ordered, pa.string()),
            "label": pa.array(label[order], pa.int8(), mask=label[order] == UNLABELLED),
            "number": pa.array(target[order], from_pandas=True),
            "held_out": out[order],
            "group": [groups[i] for i in order],
            "given": _given(table, first[order]),
            "print": bag_prints(found),
            "labels": bag_classes.of_bags(table, number, len(names)),
        }
    )
    return Read(
        bags=found,
        modalities=modalities,
        bag_rows=bag_rows,
        instance_rows=_instance_rows(table, number, kind),
        empty=tuple(name for name, ok in zip(ordered, filled, strict=True) if not ok),
    )


def _groups(table: pa.Table, number: IntArray, names: list[str]) -> list[str]:
    """Return the group of each bag, its own name where it has none.

    Raises
    ------
    InputError
        If the rows of a bag name several groups.
    """
    cells = table["group"]
    own: dict[int, str] = {}
    for bag, group in zip(number.tolist(), cells.to_pylist(), strict=True):
        if group is not None and own.setdefault(bag, group) != group:
            raise InputError.of(
                file="the data",
                column="group",
                expected=f"one group for bag {names[bag]}",
                found=f"{own[bag]} and {group}",
                remedy="correct it, or name another column",
            )
    groups = set(own.values())
    # A bag without a group that is called as a group is not of it.
    return [own.get(bag, f"\0{name}" if name in groups else name) for bag, name in enumerate(names)]


def widen(
    data: Bags, modalities: tuple[str, ...], wanted: tuple[str, ...], widths: IntArray, dtype: str
) -> Bags:
    """Bring a partition to the modalities of all: what it lacks, it has no instance of."""
    parts = []
    for name, width in zip(wanted, widths.tolist(), strict=True):
        found = data.modalities[modalities.index(name)] if name in modalities else None
        if found is not None and found.n_features == width:
            parts.append(found)
        else:
            offsets = np.zeros(data.n_bags + 1, np.int64)
            parts.append(Instances(np.empty((0, width), dtype), offsets))
    return replace(data, modalities=tuple(parts))


def _first_known(number: IntArray, label: IntArray, n: int) -> IntArray:
    """Return each bag's first row with a label, -1 where it has none, [n]."""
    first = np.full(n, -1, np.int64)
    known = np.flatnonzero(label != UNLABELLED)[::-1]
    first[number[known]] = known
    return first


def _given(table: pa.Table, rows: IntArray) -> pa.ChunkedArray:
    """Return labels as the file writes them, null where it writes 1 and 0 or there is none."""
    if LABEL_GIVEN.name not in table.column_names:
        return pa.nulls(len(rows), pa.string())
    return table[LABEL_GIVEN.name].take(pa.array(rows, mask=rows < 0))


def _instances(
    table: pa.Table, number: IntArray, n: int, dtype: str, known: NDArray[np.int8]
) -> tuple[tuple[str, ...], IntArray, list[Instances]]:
    """Return the modalities' names, each row's modality (-1: no instance), their instances."""
    given = np.asarray(pc.is_valid(table["features"]))
    codes = pc.fill_null(table["modality"], "").combine_chunks().dictionary_encode()
    present = sorted(
        {codes.dictionary[i].as_py() for i in np.unique(codes.indices.to_numpy()[given])}
    )
    place = np.array(
        [present.index(m) if m in present else -1 for m in codes.dictionary.to_pylist()]
    )
    kind = np.where(given, place[codes.indices.to_numpy()], -1)
    features = table["features"].combine_chunks()
    known = known if (known != UNLABELLED).any() else known[:0]
    parts = []
    for k in range(len(present)):
        rows = np.flatnonzero(kind == k)
        flat = features.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False)
        values = flat.reshape(rows.size, -1).astype(dtype)
        parts.append(
            Instances.from_rows(number[rows], values, n, known[rows] if known.size else None)
        )
    if not parts:
        parts = [Instances(np.empty((0, 0), dtype), np.zeros(n + 1, np.int64))]
        present = [""]
    return tuple(present), kind, parts


def _own(table: pa.Table, number: IntArray, n: int) -> np.ndarray | None:
    column = table["bag_features"].combine_chunks()
    given = np.flatnonzero(np.asarray(pc.is_valid(column)))
    if not given.size:
        return None
    values = column.take(pa.array(given)).flatten().to_numpy(zero_copy_only=False)
    own = np.zeros((n, values.size // given.size))
    own[number[given]] = values.reshape(given.size, -1)
    return own


def _instance_rows(table: pa.Table, number: IntArray, kind: IntArray) -> pa.Table:
    rows = np.flatnonzero(kind >= 0)
    rows = rows[np.argsort(number[rows], kind="stable")]
    names = table["instance_id"].combine_chunks().take(pa.array(rows))
    bags = number[rows]
    place = np.arange(rows.size) - np.searchsorted(bags, bags, side="left")
    names = pc.coalesce(names, pa.array(place + 1).cast(pa.string()))
    return pa.table(
        {
            "bag": bags,
            "instance_id": names,
            "modality": kind[rows],
            "primary": table["primary"].combine_chunks().take(pa.array(rows)),
        }
    )
