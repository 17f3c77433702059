"""Rows of bags: what the columns of a file say of each bag, and what is wrong between its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.tables.checks import Found, lengths_of
from flows.tables.names import digests_of
from vbmodels.core.state import FloatArray, IntArray

NOT_KNOWN = -1
ONE_LABEL = "give every bag one label"
SAME_LENGTH = "give every instance of a modality, and every bag, equally many numbers"
_NUMBERS = ("features", "bag_features")


def of_modality(modality: str) -> str:
    """Say of which modality, where there are several."""
    return f" of modality {modality!r}" if modality else ""


@dataclass(frozen=True)
class Thin:
    """Rows of a file of bags without the numbers in them, which need not be held together.

    Attributes
    ----------
    table
        Every column but ``features`` and ``bag_features``.
    lengths, own
        Numbers in these two of each row, -1 for null.
    prints
        Digest of each row's ``bag_features``.
    """

    table: pa.Table
    lengths: IntArray
    own: IntArray
    prints: NDArray[np.int64]


def thinned(table: pa.Table) -> Thin:
    """Keep of a slab what the check of the whole file needs."""
    own = pa.nulls(len(table), pa.list_(pa.float64()))
    if "bag_features" in table.column_names:
        own = table["bag_features"].combine_chunks()
    return Thin(
        table.drop_columns([name for name in _NUMBERS if name in table.column_names]),
        lengths_of(table["features"].combine_chunks()),
        lengths_of(own),
        _prints(own),
    )


def join_rows(parts: Sequence[Thin]) -> Thin:
    """Join the chunks of a file."""
    return Thin(
        pa.concat_tables([part.table for part in parts]).combine_chunks(),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.own for part in parts]),
        np.concatenate([part.prints for part in parts]),
    )


def _prints(column: pa.ListArray) -> NDArray[np.int64]:
    """Digest every row's numbers; 0.0 and -0.0 are the same number."""
    values = np.nan_to_num(column.flatten().to_numpy(zero_copy_only=False)) + 0.0
    ends = np.cumsum(np.maximum(lengths_of(column), 0))
    digests = (
        hashlib.blake2b(values[a:b].tobytes(), digest_size=8).digest()
        for a, b in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True)
    )
    return np.frombuffer(b"".join(digests), np.int64)


def check_modalities(thin: Thin, found: Found) -> None:
    """Report instances without the name of a modality where others have one."""
    if "modality" not in thin.table.column_names:
        return
    modality = thin.table["modality"]
    if modality.null_count < len(modality):
        unnamed = np.asarray(modality.is_null()) & (thin.lengths >= 0)
        found.rows(
            np.flatnonzero(unnamed),
            "modality",
            "the name of a modality",
            "null",
            "name the modality of every instance, or of none",
        )


def feature_widths(thin: Thin, found: Found) -> dict[str, int]:
    """Return the number of features by modality; report rows that differ."""
    number, names = _kinds(thin.table)
    widths = {}
    for k, name in enumerate(names):
        rows = np.flatnonzero((number == k) & (thin.lengths >= 0))
        if rows.size:
            widths[name] = check_width(thin.lengths, rows, "features", of_modality(name), found)
    return widths


def check_width(lengths: IntArray, rows: IntArray, column: str, what: str, found: Found) -> int:
    """Return the number of features in the lists of some rows; report rows that differ."""
    width = int(lengths[rows[0]])
    if width == 0:
        found.rows(
            rows[:1],
            column,
            f"at least one number{what}",
            "an empty list",
            "give the features, or null",
        )
    else:
        found.rows(
            rows[lengths[rows] != width],
            column,
            f"{width} numbers{what}, as in row {rows[0] + 1}",
            lambda row: str(lengths[row]),
            SAME_LENGTH,
        )
    return width


def _kinds(table: pa.Table) -> tuple[IntArray, list[str]]:
    """Return the number of each row's modality, and their names."""
    if "modality" not in table.column_names:
        return np.zeros(len(table), np.int64), [""]
    codes = pc.fill_null(table["modality"], "").combine_chunks().dictionary_encode()
    return codes.indices.to_numpy(), codes.dictionary.to_pylist()


_NAMED = 3  # bags with two labels that are named; the rest is counted


def label_of_bags(
    table: pa.Table, number: IntArray, column: str, found: Found
) -> NDArray[np.float64]:
    """Return every bag's label, NaN without; name the first row that gives its bag another one."""
    per_bag = np.full(int(number.max()) + 1, np.nan)
    if column not in table.column_names:
        return per_bag
    label = table[column].cast(pa.float64()).fill_null(np.nan).to_numpy()
    known = np.flatnonzero(~np.isnan(label))[::-1]
    per_bag[number[known]] = label[known] + 0.0  # the first of several wins: it is written last
    other = np.sort(known[label[known] != per_bag[number[known]]])
    other = other[np.sort(np.unique(number[other], return_index=True)[1])]
    found.rows(
        other,
        "label",
        lambda row: f"{per_bag[number[row]]:g}, as before for bag {table['bag_id'][row].as_py()!r}",
        lambda row: f"{label[row]:g}",
        ONE_LABEL,
        _NAMED,
    )
    return per_bag


def label_by_instances(
    table: pa.Table, number: IntArray, per_bag: FloatArray, found: Found
) -> FloatArray:
    """Return every bag's label, positive where it has none and an instance's own label is 1.

    Report the instances that are labelled 1 in a bag that is labelled 0.
    """
    positive = positive_instances(table)
    found.rows(
        positive[per_bag[number[positive]] == 0],
        "instance_label",
        lambda row: f"0 or null, as bag {table['bag_id'][row].as_py()!r} has the label 0",
        "1",
        "correct the instance's label, or its bag's",
    )
    per_bag[number[positive]] = np.fmax(per_bag[number[positive]], 1.0)
    return per_bag


def positive_instances(table: pa.Table) -> IntArray:
    """Return the rows of instances that are labelled 1."""
    if "instance_label" not in table.column_names:
        return np.zeros(0, np.int64)
    return np.flatnonzero(pc.fill_null(table["instance_label"].cast(pa.int8()), -1).to_numpy() == 1)


def check_own(thin: Thin, number: IntArray, found: Found) -> None:
    """Report rows whose bag_features are not those of their bag, and bags with none."""
    given = np.flatnonzero(thin.own >= 0)
    if not given.size:
        return
    values = thin.prints
    bags, first = np.unique(number[given], return_index=True)
    reference = np.zeros(int(number.max()) + 1, np.int64)
    reference[bags] = first
    found.rows(
        given[values[given] != values[given[reference[number[given]]]]],
        "bag_features",
        "the same numbers in all rows of a bag",
        "others",
        "repeat the bag's features, or give them once",
    )
    without = np.flatnonzero(~np.isin(number, bags))
    expected = "features for every bag or for none"
    found.rows(without, "bag_features", expected, "null", "give this bag its features")


def check_instances(table: pa.Table, number: IntArray, found: Found) -> None:
    """Report rows whose instance has the name of an earlier one of its bag and modality."""
    if "instance_id" not in table.column_names:
        return
    names = table["instance_id"].combine_chunks()
    ids = pc.fill_null(names, "").dictionary_encode().indices.to_numpy()
    named = np.flatnonzero(np.asarray(names.is_valid()))
    keys = np.stack([number[named], _kinds(table)[0][named], ids[named]], axis=1)
    order = np.lexsort(keys.T[::-1])
    same = np.all(keys[order][1:] == keys[order][:-1], axis=1)
    again = {int(named[order[i + 1]]): int(named[order[i]]) for i in np.flatnonzero(same)}
    found.rows(
        sorted(again),
        "instance_id",
        "a name used once in its bag and modality",
        lambda row: f"{names[row].as_py()!r}, which row {again[row] + 1} has too",
        "give every instance its own name",
    )


def named_instances(table: pa.Table) -> tuple[IntArray, IntArray]:
    """Return digests of the instances that have a name, and their rows."""
    if "instance_id" not in table.column_names:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows = np.flatnonzero(np.asarray(table["instance_id"].is_valid()))
    named = table.take(pa.array(rows))
    names = [named[c].to_pylist() for c in ("bag_id", "instance_id")]
    has_kinds = "modality" in table.column_names
    kinds = named["modality"].to_pylist() if has_kinds else [""] * len(rows)
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
