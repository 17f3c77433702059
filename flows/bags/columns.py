"""What is wrong inside the columns of a file of bags, and what they say of each bag."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.data.row_faults import row_faults
from flows.data.slabs import joined_faults
from flows.faults import Fault
from vbmodels.core.moments import LARGEST
from vbmodels.core.state import IntArray

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


@dataclass(frozen=True)
class Thin:
    """Rows of a file of bags without the numbers in them, which need not be held together.

    Attributes
    ----------
    table
        Every column but ``features`` and ``bag_features``.
    lengths, own
        Numbers in these two of each row, -1 for null; ``own`` is empty where the file has none.
    prints
        Digest of each row's ``bag_features``.
    faults
        Numbers that are not finite, or too large to be squared.
    """

    table: pa.Table
    lengths: IntArray
    own: IntArray
    prints: NDArray[np.int64]
    faults: list[Fault]


_NUMBERS = ("features", "bag_features")


def thinned(pieces: Iterable[tuple[int, pa.Table]], file: str) -> Thin:
    """Look at the numbers of a file piece by piece, given as (first row, rows)."""
    tables, lengths, own, prints = [], [], [], []
    found: dict[str, list[tuple[int, list[Fault]]]] = {name: [] for name in _NUMBERS}
    for first, table in pieces:
        columns = {
            name: table[name].cast(pa.list_(pa.float64())).combine_chunks()
            for name in _NUMBERS
            if name in table.column_names
        }
        for name, column in columns.items():
            found[name].append((first, _not_finite(column, name, file)))
        lengths.append(_lengths_of(columns["features"]))
        if "bag_features" in columns:
            own.append(_lengths_of(columns["bag_features"]))
            prints.append(_prints(columns["bag_features"]))
        tables.append(table.drop_columns(list(columns)))
    some = [joined_faults(each) for each in found.values() if each]
    return Thin(
        pa.concat_tables(tables),
        np.concatenate(lengths),
        np.concatenate(own) if own else np.zeros(0, np.int64),
        np.concatenate(prints) if prints else np.zeros(0, np.int64),
        [fault for faults in some for fault in faults],
    )


def _lengths_of(column: pa.ListArray) -> IntArray:
    lengths: IntArray = pc.fill_null(pc.list_value_length(column), -1).to_numpy(
        zero_copy_only=False
    )
    return lengths.astype(np.int64)


def _prints(column: pa.ListArray) -> NDArray[np.int64]:
    """Digest every row's numbers; 0.0 and -0.0 are the same number."""
    values = np.nan_to_num(column.flatten().to_numpy(zero_copy_only=False)) + 0.0
    ends = np.cumsum(np.maximum(_lengths_of(column), 0))
    digests = (
        hashlib.blake2b(values[a:b].tobytes(), digest_size=8).digest()
        for a, b in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True)
    )
    return np.frombuffer(b"".join(digests), np.int64)


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


def name_faults(plain: dict[str, Any], lengths: IntArray, file: str) -> list[Fault]:
    """List rows without the name of a bag, and instances without that of a modality."""
    names = plain["bag_id"]
    empty = pc.or_kleene(pc.is_null(names), pc.equal(pc.fill_null(names, ""), ""))
    faults = row_faults(
        np.flatnonzero(empty),
        lambda row: differs(file, "bag_id", "the name of a bag", "none", row + 1,
                            "name the bag of every row"),
    )  # fmt: skip
    if "modality" in plain:
        unnamed = np.asarray(pc.is_null(plain["modality"])) & (lengths >= 0)
        if unnamed.any() and plain["modality"].null_count < len(names):
            faults += row_faults(
                np.flatnonzero(unnamed),
                lambda row: differs(file, "modality", "the name of a modality", "null", row + 1,
                                    "name the modality of every instance, or of none"),
            )  # fmt: skip
    return faults


def feature_widths(
    plain: dict[str, Any], lengths: IntArray, file: str
) -> tuple[dict[str, int], list[Fault]]:
    """Return the number of features by modality, and rows that differ."""
    faults: list[Fault] = []
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
    values = flat.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
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
        lambda row: differs(file, name, _expected(found[row][1]),
                            f"{_shown(found[row][1])} at place {found[row][0]}", row + 1,
                            "fill the gap, rescale the numbers or leave the row out"),
    )  # fmt: skip


def _expected(value: float | None) -> str:
    if value is not None and np.isfinite(value):
        return f"numbers of at most {LARGEST:g} in size"
    return "finite numbers"


def _shown(value: float | None) -> str:
    return "null" if value is None else "NaN" if value != value else str(value)


def own_width(lengths: IntArray, file: str) -> tuple[int, list[Fault]]:
    """Return the number of a bag's own features, and rows that differ."""
    rows = np.flatnonzero(lengths >= 0)
    if not rows.size:
        return 0, []
    width = int(lengths[rows[0]])
    return width, _lengths(file, "bag_features", lengths, rows, width, "")


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


def differing_own(thin: Thin, number: IntArray, file: str) -> list[Fault]:
    """Rows whose bag_features differ from those of their bag's first row, and bags with none."""
    given = np.flatnonzero(thin.own >= 0)
    if not given.size:
        return []
    values = thin.prints
    bags, first = np.unique(number[given], return_index=True)
    reference = np.zeros(int(number.max()) + 1, np.int64)
    reference[bags] = first
    differ = given[values[given] != values[given[reference[number[given]]]]]
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


def named_instances(plain: dict[str, Any]) -> tuple[IntArray, IntArray]:
    """Return digests of the instances that have a name, and their rows."""
    if "instance_id" not in plain:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows = np.flatnonzero(np.asarray(pc.is_valid(plain["instance_id"])))
    take = pa.array(rows)
    names = [plain[c].take(take).to_pylist() for c in ("bag_id", "instance_id")]
    kinds = plain["modality"].take(take).to_pylist() if "modality" in plain else [""] * len(rows)
    return digests_of(
        "\0".join((bag, kind or "", name)) for bag, name, kind in zip(*names, kinds, strict=True)
    ), rows


def own_prints(thin: Thin, number: IntArray, n: int) -> IntArray:
    """Return a digest of the features of each bag, 0 where there are none."""
    prints = np.zeros(n, np.int64)
    given = np.flatnonzero(thin.own >= 0)
    prints[number[given]] = thin.prints[given]
    return prints


def class_prints(classes: pa.Array) -> IntArray:
    """Return a digest of the list of classes of each bag, 0 where there is none."""
    known = [0 if of is None else 1 for of in classes.to_pylist()]
    return digests_of("\0".join(of or ()) for of in classes.to_pylist()) * np.array(known)


def digests_of(texts: Iterable[str]) -> IntArray:
    """Return a number of each text's own."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.int64)
