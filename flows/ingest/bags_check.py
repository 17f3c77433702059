"""What is wrong with files of bags: every fault, before anything is computed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.faults import Fault
from flows.ingest.bag_classes import label_faults, with_label
from flows.ingest.check import _faults, _invalid_text
from flows.schemas import INSTANCES_IN
from vbmodels.state import IntArray

_TYPES = {column.name: column.type for column in INSTANCES_IN.columns}
NOT_KNOWN = -1


@dataclass(frozen=True)
class Runs:
    """The bags of one file: where their rows stand, side by side or scattered.

    Attributes
    ----------
    bag_ids
        Name of the bag of each run of rows.
    starts
        First row of each run, and the number of rows.
    labels
        0, 1 or -1 of each run.
    widths
        Features of an instance, by modality ("" where there is none).
    own
        Features of a bag; None where the file has bags without a row of them.
    """

    bag_ids: tuple[str, ...]
    starts: IntArray
    labels: NDArray[np.int8]
    widths: dict[str, int]
    own: int


def check_bags(table: pa.Table, file: str, multi: bool = False) -> tuple[list[Fault], Runs | None]:
    """List all faults of one file, and say where its bags stand if there is none.

    Parameters
    ----------
    table
        The whole file.
    file
        Its name, for messages.
    multi
        Whether the model takes bags with labels of several classes.
    """
    faults = INSTANCES_IN.faults(table.schema, file)
    if not len(table):
        found = Fault(file, "at least one row", "0 rows", remedy="leave the file out or fill it")
        return [*faults, found], None
    if faults:
        return faults, None
    for name in ("bag_id", "instance_id", "modality"):
        if name in table.column_names and pa.types.is_string(table[name].type):
            faults += _invalid_text(table[name], name, file)
    if faults:
        return faults, None
    faults = label_faults(table, file, multi)
    if faults:
        return faults, None
    label, faults = _labels(with_label(table) if multi else table, file)
    plain = {
        name: table[name].cast(kind).combine_chunks()
        for name, kind in _TYPES.items()
        if name in table.column_names and name not in ("label", "labels")
    }
    faults += _names(plain, file)
    widths, more = _features(plain, file)
    own, lack = _own(plain, file)
    faults += more + lack
    if faults:
        return faults, None
    codes = plain["bag_id"].dictionary_encode()
    number = codes.indices.to_numpy()
    per_bag, faults = _one_label(number, label, plain["bag_id"], file)
    faults += _own_repeated(plain, number, file) + _instances_twice(plain, number, file)
    starts = np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1, [len(number)]])
    names = codes.dictionary.to_pylist()
    first = number[starts[:-1]]
    runs = Runs(tuple(names[i] for i in first), starts, per_bag[first], widths, own)
    return faults, runs if not faults else None


def check_together(files: Sequence[str], runs: Sequence[Runs]) -> list[Fault]:
    """List what files that are each right say differently: labels and numbers of features."""
    faults: list[Fault] = []
    label: dict[str, tuple[int, str]] = {}
    width: dict[str, tuple[int, str]] = {}
    own: tuple[int, str] | None = None
    for file, found in sorted(zip(files, runs, strict=True), key=lambda pair: pair[0]):
        for bag, value, row in zip(found.bag_ids, found.labels, found.starts, strict=False):
            before = label.setdefault(bag, (int(value), file))
            if NOT_KNOWN in (value, before[0]):
                label[bag] = max(before, (int(value), file))
            elif value != before[0]:
                faults.append(
                    _differs(file, "label", f"{before[0]}, bag {bag!r} in {before[1]}",
                             str(value), int(row) + 1, "give every bag one label")
                )  # fmt: skip
        for modality, value in found.widths.items():
            known = width.setdefault(modality, (value, file))
            if value != known[0]:
                told = f"{known[0]} features{_of(modality)}, as in {known[1]}"
                faults.append(_differs(file, "features", told, str(value), None, _SAME_LENGTH))
        own = own or (found.own, file)
        if found.own != own[0]:
            told = f"{own[0]} features of a bag, as in {own[1]}"
            faults.append(_differs(file, "bag_features", told, str(found.own), None, _SAME_LENGTH))
    return faults[:100]


def check_to_fit(source: str, runs: Sequence[Runs]) -> list[Fault]:
    """List what a fit lacks: labelled bags of both classes."""
    labels = np.concatenate([r.labels for r in runs])
    found = {value: int(np.count_nonzero(labels == value)) for value in (0, 1)}
    if all(found.values()):
        return []
    known = sum(found.values())
    text = "no bag with a label" if not known else f"label {int(found[1] > 0)} only"
    return [
        Fault(
            file=source,
            column="label",
            expected="bags labelled 0 and bags labelled 1",
            found=text,
            remedy="label some bags of each class, or score these with a run that is fitted",
        )
    ]


_SAME_LENGTH = "give every instance of a modality, and every bag, equally many numbers"


def _of(modality: str) -> str:
    return f" of modality {modality!r}" if modality else ""


def _differs(
    file: str, column: str, expected: str, found: str, row: int | None, remedy: str
) -> Fault:
    return Fault(file, expected, found, column=column, row=row, remedy=remedy)


def _labels(table: pa.Table, file: str) -> tuple[NDArray[np.int8], list[Fault]]:
    """Return labels with -1 for null, and what is neither 0 nor 1."""
    column = table["label"].combine_chunks()
    if pa.types.is_null(column.type):
        return np.full(len(table), NOT_KNOWN, np.int8), []
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    given = pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(float)
    wrong = np.flatnonzero(given & ~np.isin(values, (0.0, 1.0)))
    faults = _faults(
        wrong,
        lambda row: _differs(file, "label", "0, 1 or null", f"{values[row]:g}", row + 1,
                             "code the label as 0 or 1, null where it is not known"),
    )  # fmt: skip
    clean = np.where(given & np.isin(values, (0.0, 1.0)), values, NOT_KNOWN)
    return clean.astype(np.int8), faults


def _names(plain: dict[str, Any], file: str) -> list[Fault]:
    names = plain["bag_id"]
    empty = pc.or_kleene(pc.is_null(names), pc.equal(pc.fill_null(names, ""), ""))
    faults = _faults(
        np.flatnonzero(empty),
        lambda row: _differs(file, "bag_id", "the name of a bag", "none", row + 1,
                             "name the bag of every row"),
    )  # fmt: skip
    if "modality" in plain:
        unnamed = np.asarray(pc.is_null(plain["modality"])) & np.asarray(
            pc.is_valid(plain["features"])
        )
        if unnamed.any() and plain["modality"].null_count < len(names):
            faults += _faults(
                np.flatnonzero(unnamed),
                lambda row: _differs(file, "modality", "the name of a modality", "null", row + 1,
                                     "name the modality of every instance, or of none"),
            )  # fmt: skip
    return faults


def _features(plain: dict[str, Any], file: str) -> tuple[dict[str, int], list[Fault]]:
    """Return the number of features by modality, and rows that are not finite or differ."""
    faults = _not_finite(plain["features"], "features", file)
    lengths = pc.fill_null(pc.list_value_length(plain["features"]), -1).to_numpy(
        zero_copy_only=False
    )
    modality = plain.get("modality", pa.nulls(len(lengths), pa.string()))
    codes = pc.fill_null(modality, "").dictionary_encode()
    number, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    widths = {}
    for k, name in enumerate(names):
        rows = np.flatnonzero((number == k) & (lengths >= 0))
        if rows.size:
            widths[name] = width = int(lengths[rows[0]])
            faults += _lengths(file, "features", lengths, rows, width, _of(name))
    return widths, faults


def _lengths(
    file: str, column: str, lengths: IntArray, rows: IntArray, width: int, what: str
) -> list[Fault]:
    if width == 0:
        return [_differs(file, column, f"at least one number{what}", "an empty list",
                         int(rows[0]) + 1, "give the features, or null")]  # fmt: skip
    return _faults(
        rows[lengths[rows] != width],
        lambda row: _differs(file, column, f"{width} numbers{what}, as in row {rows[0] + 1}",
                             str(lengths[row]), row + 1, _SAME_LENGTH),
    )  # fmt: skip


def _not_finite(column: Any, name: str, file: str) -> list[Fault]:
    flat = column.flatten()
    values = flat.to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(values))
    if not wrong.size:
        return []
    parents = np.asarray(pc.list_parent_indices(column))
    rows, first = np.unique(parents[wrong], return_index=True)
    begin = dict(zip(*np.unique(parents, return_index=True), strict=True))
    found = {
        int(row): (int(wrong[i] - begin[row]) + 1, flat[int(wrong[i])].as_py())
        for row, i in zip(rows, first, strict=True)
    }
    return _faults(
        rows,
        lambda row: _differs(file, name, "finite numbers",
                             f"{_shown(found[row][1])} at place {found[row][0]}", row + 1,
                             "fill the gap or leave the row out"),
    )  # fmt: skip


def _shown(value: float | None) -> str:
    return "null" if value is None else "NaN" if value != value else str(value)


def _own(plain: dict[str, Any], file: str) -> tuple[int, list[Fault]]:
    if "bag_features" not in plain or plain["bag_features"].null_count == len(plain["bag_id"]):
        return 0, []
    column = plain["bag_features"]
    faults = _not_finite(column, "bag_features", file)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths >= 0)
    width = int(lengths[rows[0]])
    return width, faults + _lengths(file, "bag_features", lengths, rows, width, "")


def _one_label(
    number: IntArray, label: NDArray[np.int8], names: Any, file: str
) -> tuple[NDArray[np.int8], list[Fault]]:
    """Return every bag's label, and rows that give their bag another one."""
    per_bag = np.full(int(number.max()) + 1, NOT_KNOWN, np.int8)
    known = np.flatnonzero(label != NOT_KNOWN)[::-1]
    per_bag[number[known]] = label[known]  # the first of several wins: it is written last
    other = np.flatnonzero((label != NOT_KNOWN) & (label != per_bag[number]))
    faults = _faults(
        other,
        lambda row: _differs(file, "label",
                             f"{per_bag[number[row]]}, as before for bag {names[row].as_py()!r}",
                             str(label[row]), row + 1, "give every bag one label"),
    )  # fmt: skip
    return per_bag, faults


def _own_repeated(plain: dict[str, Any], number: IntArray, file: str) -> list[Fault]:
    """Rows whose bag_features differ from those of their bag's first row, and bags with none."""
    if "bag_features" not in plain or plain["bag_features"].null_count == len(number):
        return []
    column = plain["bag_features"]
    given = np.flatnonzero(np.asarray(pc.is_valid(column)))
    values = column.flatten().to_numpy(zero_copy_only=False).reshape(given.size, -1)
    bags, first = np.unique(number[given], return_index=True)
    reference = np.zeros(int(number.max()) + 1, np.int64)
    reference[bags] = first
    differ = given[np.any(values != values[reference[number[given]]], axis=1)]
    faults = _faults(
        differ,
        lambda row: _differs(file, "bag_features", "the same numbers in all rows of a bag",
                             "others", row + 1, "repeat the bag's features, or give them once"),
    )  # fmt: skip
    without = np.flatnonzero(~np.isin(number, bags))
    return faults + _faults(
        without,
        lambda row: _differs(file, "bag_features", "features for every bag or for none", "null",
                             row + 1, "give this bag its features"),
    )  # fmt: skip


def _instances_twice(plain: dict[str, Any], number: IntArray, file: str) -> list[Fault]:
    if "instance_id" not in plain:
        return []
    ids = pc.fill_null(plain["instance_id"], "").dictionary_encode().indices.to_numpy()
    kinds = np.zeros(len(number), np.int64)
    if "modality" in plain:
        kinds = pc.fill_null(plain["modality"], "").dictionary_encode().indices.to_numpy()
    named = np.flatnonzero(np.asarray(pc.is_valid(plain["instance_id"])))
    keys = np.stack([number[named], kinds[named], ids[named]], axis=1)
    order = np.lexsort(keys.T[::-1])
    same = np.all(keys[order][1:] == keys[order][:-1], axis=1)
    again = {int(named[order[i + 1]]): int(named[order[i]]) for i in np.flatnonzero(same)}
    return _faults(
        sorted(again),
        lambda row: _differs(file, "instance_id", "a name used once in its bag and modality",
                             f"{plain['instance_id'][row].as_py()!r}, which row "
                             f"{again[row] + 1} has too", row + 1,
                             "give every instance its own name"),
    )  # fmt: skip


def bounds_of(runs: Sequence[Runs]) -> list[list[tuple[int, int, int]]]:
    """Return, for every bag in order of appearance, its (file, first row, last row + 1)."""
    places: dict[str, list[tuple[int, int, int]]] = {}
    for i, found in enumerate(runs):
        limits = itertools.pairwise(found.starts.tolist())
        for bag, (start, stop) in zip(found.bag_ids, limits, strict=True):
            places.setdefault(bag, []).append((i, start, stop))
    return list(places.values())
