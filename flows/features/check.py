"""What is wrong with tables of categories, and which categories their columns have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa
from pydantic import TypeAdapter

from flows.data import partition
from flows.data.checks import Checker
from flows.data.levels import Levels, count_levels, merge_levels
from flows.data.names import as_text
from flows.data.slabs import slabs
from flows.data.storage import InputFile
from flows.family import Checked, CheckedPiece, names_of
from flows.faults import InputError
from flows.features import ingest as tables_of
from flows.features.schema import CATEGORIES_IN
from flows.features.settings import FeatureSettings

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
            cells = tables_of.in_columns(table)
            cells.pop(tables_of.ID, None)
            levels.append(tables_of.levels_of(cells, settings.missing))
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
