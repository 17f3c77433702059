"""What is wrong inside the columns of a file of bags, and what they say of each bag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.faults import Fault
from flows.ingest.row_faults import row_faults
from vbmodels.state import IntArray

NOT_KNOWN = -1
SAME_LENGTH = "give every instance of a modality, and every bag, equally many numbers"


def of_modality(modality: str) -> str:
    """Say of which modality, where there are several."""
    return f" of modality {modality!r}" if modality else ""


def differs(
    file: str, column: str, expected: str, found: str, row: int | None, remedy: str
) -> Fault:
    """Make a fault of one place of a file."""
    return Fault(file, expected, found, column=column, row=row, remedy=remedy)


def known_labels(table: pa.Table, file: str) -> tuple[NDArray[np.int8], list[Fault]]:
    """Return labels with -1 for null, and what is neither 0 nor 1."""
    column = table["label"].combine_chunks()
    if pa.types.is_null(column.type):
        return np.full(len(table), NOT_KNOWN, np.int8), []
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    given = pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(float)
    wrong = np.flatnonzero(given & ~np.isin(values, (0.0, 1.0)))
    faults = row_faults(
        wrong,
        lambda row: differs(file, "label", "0, 1 or null", f"{values[row]:g}", row + 1,
                            "code the label as 0 or 1, null where it is not known"),
    )  # fmt: skip
    clean = np.where(given & np.isin(values, (0.0, 1.0)), values, NOT_KNOWN)
    return clean.astype(np.int8), faults


def name_faults(plain: dict[str, Any], file: str) -> list[Fault]:
    """List rows without the name of a bag, and instances without that of a modality."""
    names = plain["bag_id"]
    empty = pc.or_kleene(pc.is_null(names), pc.equal(pc.fill_null(names, ""), ""))
    faults = row_faults(
        np.flatnonzero(empty),
        lambda row: differs(file, "bag_id", "the name of a bag", "none", row + 1,
                            "name the bag of every row"),
    )  # fmt: skip
    if "modality" in plain:
        unnamed = np.asarray(pc.is_null(plain["modality"])) & np.asarray(
            pc.is_valid(plain["features"])
        )
        if unnamed.any() and plain["modality"].null_count < len(names):
            faults += row_faults(
                np.flatnonzero(unnamed),
                lambda row: differs(file, "modality", "the name of a modality", "null", row + 1,
                                    "name the modality of every instance, or of none"),
            )  # fmt: skip
    return faults


def feature_widths(plain: dict[str, Any], file: str) -> tuple[dict[str, int], list[Fault]]:
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
            faults += _lengths(file, "features", lengths, rows, width, of_modality(name))
    return widths, faults


def _lengths(
    file: str, column: str, lengths: IntArray, rows: IntArray, width: int, what: str
) -> list[Fault]:
    if width == 0:
        return [differs(file, column, f"at least one number{what}", "an empty list",
                        int(rows[0]) + 1, "give the features, or null")]  # fmt: skip
    return row_faults(
        rows[lengths[rows] != width],
        lambda row: differs(file, column, f"{width} numbers{what}, as in row {rows[0] + 1}",
                            str(lengths[row]), row + 1, SAME_LENGTH),
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
    return row_faults(
        rows,
        lambda row: differs(file, name, "finite numbers",
                            f"{_shown(found[row][1])} at place {found[row][0]}", row + 1,
                            "fill the gap or leave the row out"),
    )  # fmt: skip


def _shown(value: float | None) -> str:
    return "null" if value is None else "NaN" if value != value else str(value)


def own_width(plain: dict[str, Any], file: str) -> tuple[int, list[Fault]]:
    """Return the number of a bag's own features, and rows that are not finite or differ."""
    if "bag_features" not in plain or plain["bag_features"].null_count == len(plain["bag_id"]):
        return 0, []
    column = plain["bag_features"]
    faults = _not_finite(column, "bag_features", file)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths >= 0)
    width = int(lengths[rows[0]])
    return width, faults + _lengths(file, "bag_features", lengths, rows, width, "")


def label_of_bags(
    number: IntArray, label: NDArray[np.int8], names: Any, file: str
) -> tuple[NDArray[np.int8], list[Fault]]:
    """Return every bag's label, and rows that give their bag another one."""
    per_bag = np.full(int(number.max()) + 1, NOT_KNOWN, np.int8)
    known = np.flatnonzero(label != NOT_KNOWN)[::-1]
    per_bag[number[known]] = label[known]  # the first of several wins: it is written last
    other = np.flatnonzero((label != NOT_KNOWN) & (label != per_bag[number]))
    faults = row_faults(
        other,
        lambda row: differs(file, "label",
                            f"{per_bag[number[row]]}, as before for bag {names[row].as_py()!r}",
                            str(label[row]), row + 1, "give every bag one label"),
    )  # fmt: skip
    return per_bag, faults


def differing_own(plain: dict[str, Any], number: IntArray, file: str) -> list[Fault]:
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
    faults = row_faults(
        differ,
        lambda row: differs(file, "bag_features", "the same numbers in all rows of a bag",
                            "others", row + 1, "repeat the bag's features, or give them once"),
    )  # fmt: skip
    without = np.flatnonzero(~np.isin(number, bags))
    return faults + row_faults(
        without,
        lambda row: differs(file, "bag_features", "features for every bag or for none", "null",
                            row + 1, "give this bag its features"),
    )  # fmt: skip


def repeated_instances(plain: dict[str, Any], number: IntArray, file: str) -> list[Fault]:
    """List rows whose instance has the name of an earlier one of its bag and modality."""
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
    return row_faults(
        sorted(again),
        lambda row: differs(file, "instance_id", "a name used once in its bag and modality",
                            f"{plain['instance_id'][row].as_py()!r}, which row "
                            f"{again[row] + 1} has too", row + 1,
                            "give every instance its own name"),
    )  # fmt: skip
