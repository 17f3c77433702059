"""Tables of categories: turned to text, checked and coded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from flows.data import partition
from flows.data.checks import Checker
from flows.data.levels import Levels, count_levels, merge_levels
from flows.data.names import as_text
from flows.data.partition import slabs
from flows.data.storage import InputFile
from flows.family import Checked, CheckedPiece, names_of
from flows.faults import InputError
from flows.features.schema import CATEGORIES_IN
from flows.features.settings import FeatureSettings
from vbmodels.core.levels import rare_levels
from vbmodels.core.state import IntArray

_TOLD: TypeAdapter[dict[str, Levels]] = TypeAdapter(dict[str, Levels])


@dataclass(frozen=True)
class CheckedTable(Checked):
    """What the check of one file found, with its columns."""

    columns: Mapping[str, Levels] = field(default_factory=dict)


def checked_file(file: InputFile, settings: FeatureSettings) -> CheckedTable:
    """Read a file piece by piece; list its faults and count its categories."""
    checker = Checker(CATEGORIES_IN.of(settings), file.url)
    levels: list[dict[str, Levels]] = []
    try:
        for table in checker.slabs(slabs(file.url)):
            cells = in_columns(table)
            cells.pop(ID, None)
            levels.append(levels_of(cells, settings.missing))
    except InputError as error:
        return CheckedTable(0, error.faults)
    found = tuple(checker.found.faults())
    return CheckedTable(checker.rows, found, checker.names, merge_levels(levels))


def look(file: InputFile, settings: FeatureSettings) -> CheckedTable:
    """List the faults of a file's columns."""
    table = CATEGORIES_IN.of(settings)
    try:
        checker, _ = partition.look(file.url, table)
    except InputError as error:
        return CheckedTable(0, error.faults)
    columns = {name: Levels({}, 0) for name in table.others_in(list(checker.columns))}
    keys = (file.url,) if checker.named else ()
    return CheckedTable(checker.rows, tuple(checker.found.faults()), keys, columns)


def piece(checker: Checker, cells: Mapping[str, pa.Array]) -> CheckedPiece:
    """Tell of rows of a file, given as text without the missing cells, what its check needs.

    That is of each column whether it has a category, and another one.
    """
    some = {}
    for name, text in cells.items():
        counts = count_levels(text).counts
        some[name] = Levels(dict(islice(counts.items(), 2)), 0)
    told = _TOLD.dump_python(some, mode="json")
    return CheckedPiece(checker.found.file, checker.rows, as_text(checker.digests), told)


def joined(pieces: Sequence[CheckedPiece]) -> CheckedTable:
    """Return what the pieces of a file say of it."""
    columns = merge_levels([_TOLD.validate_python(one.told) for one in pieces])
    return CheckedTable(sum(one.rows for one in pieces), (), names_of(pieces), columns)


ID = "id"
RARE = "(rare)"


@dataclass(frozen=True)
class Column:
    """One column as it is modelled: its categories, most frequent first (ties by name).

    ``joined`` are the rare ones that stand as one category, called `RARE`.
    """

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int
    joined: tuple[str, ...] = ()


def in_columns(table: pa.Table) -> dict[str, pa.Array]:
    """Return a table's columns, each in one piece."""
    return {name: table[name].combine_chunks() for name in table.column_names}


def without(text: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Turn texts that stand for missing cells into nulls."""
    if not missing:
        return text
    gone = pc.is_in(text, value_set=pa.array(list(missing), pa.string()))
    return pc.if_else(gone, pa.scalar(None, pa.string()), text)


def levels_of(columns: Mapping[str, pa.Array], missing: Sequence[str]) -> dict[str, Levels]:
    """Count the categories of columns; texts in ``missing`` stand for missing cells."""
    return {name: count_levels(without(text, missing)) for name, text in columns.items()}


def order_levels(name: str, levels: Levels, least: int = 0, most: int = 10_000) -> Column:
    """Put the categories into stick-breaking order, rare ones joined; see `rare_levels`."""
    joined = rare_levels(levels.counts, least, most)
    rare = set(joined)
    counts = {text: n for text, n in levels.counts.items() if text not in rare}
    if joined:
        label = RARE
        while label in counts:
            label = f"({label})"
        counts[label] = sum(levels.counts[text] for text in joined)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    names, cells = zip(*ordered, strict=True) if ordered else ((), ())
    return Column(name, tuple(names), tuple(cells), levels.missing, tuple(joined))


def _place_of_joined(column: Column) -> int:
    """Return the number of the category that rare ones are joined into."""
    labels = [i for i, text in enumerate(column.levels) if text.strip("()") == RARE.strip("()")]
    return max(labels, key=lambda i: len(column.levels[i]))


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
        if column.joined:
            rare = pc.is_in(text, value_set=pa.array(column.joined, pa.string()))
            index = pc.if_else(rare, pa.scalar(_place_of_joined(column), pa.int32()), index)
        codes.append(index.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
        strange = count_levels(text.filter(pc.and_(pc.is_null(index), pc.is_valid(text)))).counts
        if strange:
            unknown[column.name] = dict(strange)
    return np.stack(codes, axis=1), unknown
