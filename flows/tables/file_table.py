"""A table with a line a file of the input, found among the sources: its cells are every row's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.faults import InputError
from flows.settings.base import FILE, RunSettings
from flows.settings.tables import FileTableSettings
from flows.storage import FileTable, InputFile, Sources, StorageError
from flows.tables.cells import is_number, is_text

MOST_TABLES = 10  # that are looked at
MOST_LINES = 200_000  # of a table that is one a file
ROLES = ("bag_id", "label", "group", FILE)  # that files and their lines may both say
LEAST_SHARE = 0.5  # of the files, or of the lines, that go together
_CALLED = re.compile(
    r"label|sample|meta|clinic|annot|case|slide|patient|dataset|split|keyword", re.IGNORECASE
)


def file_table_of(settings: RunSettings) -> FileTable | None:
    """Return where a run's table with a line a file is; None where it has none."""
    if not (isinstance(settings, FileTableSettings) and settings.file_version):
        return None
    return FileTable(settings.file_table or "", settings.columns[FILE], settings.file_version)


def without_table(files: Sequence[InputFile], settings: RunSettings) -> list[InputFile]:
    """Return the files but for the table that describes them."""
    table = file_table_of(settings)
    return [file for file in files if table is None or file.url != table.url]


def with_file_table(
    source: Sources, suffixes: Sequence[str], settings: FileTableSettings
) -> FileTableSettings:
    """Return the settings with the table that has a line a file, and its column of files.

    Raises
    ------
    InputError
        If a table that settings name cannot be read, or has no column of files.
    """
    found = "none"
    if settings.file_table == "":
        return settings
    try:
        files = storage.expand(source, suffixes)
        if settings.file_table is not None:
            tables = storage.expand(settings.file_table, suffixes)
        else:
            tables = _candidates(files, storage.given(source))
        for table in tables:
            urls = [file.url for file in files if file.url != table.url]
            if key := _key_of(table, urls, settings):
                return _with_table(settings, table, key, urls[0])
    except StorageError as error:
        found = str(error)
    if settings.file_table is None and FILE not in settings.columns:
        return settings  # what is wrong with the input the check says
    raise InputError.of(
        storage.shown(settings.file_table or storage.source_in_words(source)),
        "a column that names half of the files",
        found,
        settings.columns.get(FILE),
        remedy="name it (--column FILE=YOURS), or leave FILE, file_table out",
    )


def _with_table(
    settings: FileTableSettings, table: InputFile, key: str, file: str
) -> FileTableSettings:
    """Return the settings with a table, and what a file is where no column of a file says it.

    A column of ours that is the table's key is the file's name.
    """
    columns = {role: FILE if name == key else name for role, name in settings.columns.items()}
    if settings.file_is and settings.file_is not in storage.parquet_file(file).schema_arrow.names:
        columns.setdefault(settings.file_is, FILE)
    changed = {"file_table": table.url, "file_version": table.fingerprint}
    known = type(settings.columns)({**columns, FILE: key})
    return settings.model_copy(update={"columns": known, **changed})


def _candidates(files: Sequence[InputFile], given: Sequence[str]) -> list[InputFile]:
    """Return the tables that may have a line a file: among arrays or texts, given, called so."""
    others = (*storage.ARRAYS, *storage.DOCUMENTS)
    tables = [file for file in files if not file.url.lower().endswith(others)]
    if len(tables) == len(files):
        named = {storage.absolute(url) for url in given}
        tables = [t for t in tables if t.url in named or _CALLED.search(storage.stem_of(t.url))]
    return tables[:MOST_TABLES] if 0 < len(tables) < len(files) else []


def _key_of(table: InputFile, urls: Sequence[str], settings: FileTableSettings) -> str:
    """Return the column of a table that names most files; empty where none names enough.

    A table that repeats such names, or has columns of the files, has rows of its own.
    """
    parquet = storage.parquet_file(table.url)
    if not urls or parquet.metadata.num_rows > MOST_LINES:
        return ""
    rows = storage.read_table(table.url)
    columns = [field.name for field in rows.schema if is_text(field.type) or is_number(field.type)]
    if FILE in settings.columns:
        columns = [name for name in columns if name == settings.columns[FILE]]
    best, most = "", LEAST_SHARE * min(len(urls), max(len(rows), 1))
    for name in dict.fromkeys(columns):
        lines = storage.lines_of(rows, name)
        named = sum(lines.place_of(url) is not None for url in urls)
        if not lines.repeats and (named > most or (named == most and not best)):
            best, most = name, named
    in_files = {*storage.parquet_file(urls[0]).schema_arrow.names} - {best, *ROLES}
    holds = [name for name in rows.column_names if name in in_files and _holds_any(rows[name])]
    return "" if holds or rows.num_columns == 1 else best


def _holds_any(column: pa.ChunkedArray) -> bool:
    if is_text(column.type):
        column = column.filter(pc.not_equal(column, ""))
    return column.null_count < len(column)


@dataclass(frozen=True)
class Unmatched:
    """What of files and lines has no partner, by name; the table's name and its column of files."""

    table: str
    key: str
    files: tuple[str, ...]
    n_files: int
    lines: tuple[str, ...]
    n_lines: int


def unmatched(files: Sequence[InputFile], settings: RunSettings) -> Unmatched | None:
    """Return which files have no line and which lines no file; None without such a table."""
    table = file_table_of(settings)
    if table is None:
        return None
    lines = storage.lines_of_files(table)
    places = {file.url: lines.place_of(file.url) for file in files}
    names = lines.texts[table.key].to_pylist()
    used = set(places.values())
    return Unmatched(
        table.url.rpartition("/")[2],
        table.key,
        tuple(storage.stem_of(url) for url, place in places.items() if place is None),
        len(files),
        tuple(str(name) for place, name in enumerate(names) if place not in used),
        len(names),
    )
