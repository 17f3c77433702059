"""Tables of categories: read from Parquet or CSV, turned to text, checked and coded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data import storage
from flows.data.row_faults import invalid_text, is_text, wrong_names
from flows.data.slabs import SLAB, slabs
from flows.faults import Fault
from flows.features.nesarc import Form, read_nesarc
from vbmodels.core.state import IntArray

ID = "id"
SUFFIXES = (".parquet", ".csv")
EXACT = 2**53  # what a float tells apart from its neighbours is below
_NULLS = ["", "NA", "NaN", "nan", "null", "NULL"]


@dataclass(frozen=True)
class Levels:
    """One column: how often each category occurs and how many cells are missing."""

    counts: Mapping[str, int]
    missing: int


@dataclass(frozen=True)
class Column:
    """One column as it is modelled: its categories, most frequent first (ties by name)."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int


def read_file(url: str, start: int = 0, stop: int | None = None, form: Form = "table") -> pa.Table:
    """Read rows of one file; a CSV file as text, with its usual marks of missing cells."""
    table = _read_rows(url, start, stop)
    return table if form == "table" else read_nesarc(table, form, url).combine_chunks()


def read_slabs(url: str, form: Form = "table") -> Iterator[tuple[int, pa.Table]]:
    """Yield (first row, rows) of a file piece by piece."""
    found = _csv_slabs(url) if url.endswith(".csv") else slabs(url)
    for first, table in found:
        of_form = table if form == "table" else read_nesarc(table, form, url)
        yield first, of_form.combine_chunks()


def _csv_slabs(url: str) -> Iterator[tuple[int, pa.Table]]:
    first, held, size = 0, [], 0
    for batch in storage.csv_batches(url, _NULLS):
        held.append(batch)
        size += batch.nbytes
        if size > SLAB:
            table = pa.Table.from_batches(held)
            yield first, table
            first, held, size = first + table.num_rows, [], 0
    if held:
        yield first, pa.Table.from_batches(held)


def _read_rows(url: str, start: int, stop: int | None) -> pa.Table:
    if not url.endswith(".csv"):
        table = storage.read_table(url) if stop is None else storage.read_rows(url, start, stop)
        return table.combine_chunks()
    return pa.Table.from_batches(storage.csv_batches(url, _NULLS, start, stop)).combine_chunks()


def read_pieces(
    pieces: Sequence[tuple[str, int, int]], form: Form
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Return the names of rows and their columns, from (URL, first row, end) of some files."""
    ids, columns = [], []
    for url, start, stop in pieces:
        table = read_file(url, start, stop, form)
        ids.append(row_names(table, url, start))
        columns.append({name: table[name] for name in table.column_names if name != ID})
    first = columns[0]
    joined = {
        name: pa.concat_arrays([as_text(t[name]) for t in columns if name in t]) for name in first
    }
    return pa.concat_arrays(ids), joined


def row_names(table: pa.Table, url: str, start: int) -> pa.Array:
    """Return the column ``id`` as text; where there is none, file name and row number."""
    if ID in table.column_names:
        return as_text(table[ID])
    name = file_name(url)
    return pa.array([f"{name}:{start + i + 1}" for i in range(table.num_rows)], pa.string())


def file_name(url: str) -> str:
    """Return the last part of a URL, after which rows without a name are named."""
    return url.rstrip("/").rsplit("/", 1)[-1]


def as_text(column: pa.ChunkedArray) -> pa.Array:
    """Return categories as text: whole numbers without a point, booleans as true and false."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column).cast(pa.int64())
    text = column.cast(pa.string())
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def without(text: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Turn texts that stand for missing cells into nulls."""
    if not missing:
        return text
    gone = pc.is_in(text, value_set=pa.array(list(missing), pa.string()))
    return pc.if_else(gone, pa.scalar(None, pa.string()), text)


def count_levels(text: pa.Array) -> Levels:
    """Count the categories of a column."""
    counted = pc.value_counts(text.drop_null())
    pairs = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(),
                strict=True)  # fmt: skip
    return Levels(dict(pairs), int(text.null_count))


def merge_levels(parts: Sequence[Mapping[str, Levels]]) -> dict[str, Levels]:
    """Add the counts of several partitions or files."""
    counts: dict[str, Counter[str]] = {}
    missing: Counter[str] = Counter()
    for part in parts:
        for name, levels in part.items():
            counts.setdefault(name, Counter()).update(levels.counts)
            missing[name] += levels.missing
    return {name: Levels(dict(counts[name]), missing[name]) for name in counts}


def order_levels(name: str, levels: Levels) -> Column:
    """Put the categories into stick-breaking order."""
    ordered = sorted(levels.counts.items(), key=lambda pair: (-pair[1], pair[0]))
    names, counts = zip(*ordered, strict=True) if ordered else ((), ())
    return Column(name, tuple(names), tuple(counts), levels.missing)


def encode(columns: Mapping[str, pa.Array], known: Sequence[Column]) -> tuple[IntArray, Any]:
    """Return codes [N, D], -1 where missing or unknown, and what categories were unknown.

    Returns
    -------
    codes, unknown
        The latter by column: category to number of cells.
    """
    codes, unknown = [], {}
    for column in known:
        text = columns[column.name]
        index = pc.index_in(text, value_set=pa.array(column.levels, pa.string()))
        codes.append(index.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
        strange = count_levels(text.filter(pc.and_(pc.is_null(index), pc.is_valid(text)))).counts
        if strange:
            unknown[column.name] = dict(strange)
    return np.stack(codes, axis=1), unknown


def check_table(
    table: pa.Table, file: str, max_levels: int, missing: Sequence[str]
) -> tuple[list[Fault], dict[str, Levels], tuple[str, ...]]:
    """List the faults of one file; return its categories and the names of its rows too."""
    if not table.num_rows:
        return [Fault(file, "at least one row", "0 rows", remedy="leave the file out")], {}, ()
    repeated = [n for n, c in Counter(table.column_names).items() if c > 1]
    if repeated:
        return [
            Fault(file, "column names used once", f"{n!r} more than once", column=n)
            for n in repeated
        ], {}, ()  # fmt: skip
    names = [name for name in table.column_names if name != ID]
    faults: list[Fault] = []
    if not names:
        faults.append(Fault(file, "columns of categories beside id", "none"))
    found: dict[str, Levels] = {}
    for name in names:
        fault = _type_fault(table[name], name, file)
        broken = [] if fault is not None else _broken_text(table[name], name, file)
        faults += broken
        if fault is None and not broken:
            levels = count_levels(without(as_text(table[name]), missing))
            found[name] = levels
            fault = too_many(name, levels, file, max_levels)
        if fault is not None:
            faults.append(fault)
    if ID not in table.column_names:
        return faults, found, ()
    odd = wrong_names(table[ID], ID, file)
    faults += odd or _id_faults(table, file)
    return faults, found, () if odd else tuple(as_text(table[ID]).to_pylist())


def too_many(name: str, levels: Levels, file: str, most: int) -> Fault | None:
    """Refuse a column with more categories than the limit."""
    if len(levels.counts) <= most:
        return None
    return Fault(
        file=file,
        column=name,
        expected=f"at most {most:,} different categories (max_levels)",
        found=f"{len(levels.counts):,}",
        remedy="leave the column out, join rare categories, or raise max_levels",
    )


def _type_fault(column: pa.ChunkedArray, name: str, file: str) -> Fault | None:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    whole = (is_text, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    if any(test(kind) for test in whole):
        return None
    if not pa.types.is_floating(kind):
        return Fault(
            file=file,
            column=name,
            expected="categories (text, whole numbers, booleans or a dictionary of them)",
            found=f"type {column.type}",
            remedy="turn the column into categories or leave it out",
        )
    value = column.cast(kind).to_numpy().astype(np.float64)
    whole_number = np.isfinite(value) & (value == np.floor(value)) & (np.abs(value) < EXACT)
    broken = ~np.isnan(value) & ~whole_number
    if not broken.any():
        return None
    row = int(np.argmax(broken))
    return Fault(
        file=file,
        column=name,
        row=row + 1,
        expected="whole numbers as codes of categories, below 2**53",
        found=f"{value[row]:g}",
        remedy="cut the column into classes or leave it out",
    )


def _broken_text(column: pa.ChunkedArray, name: str, file: str) -> list[Fault]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return invalid_text(column, name, file) if is_text(kind) else []


def _id_faults(table: pa.Table, file: str) -> list[Fault]:
    faults = []
    names = table[ID].to_pylist()
    for row, name in enumerate(names):
        if name is None:
            faults.append(Fault(file, "a name", "null", ID, row + 1, "give every row a name"))
            break
    for name, count in Counter(n for n in names if n is not None).most_common(1):
        if count > 1:
            row = len(names) - names[::-1].index(name)
            faults.append(
                Fault(file, "a name used once", f"{name!r} {count} times", ID, row,
                      "give every row its own name")
            )  # fmt: skip
    return faults
