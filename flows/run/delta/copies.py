"""A run's tables as files below a folder of Delta tables: copied by the workers, committed later.

What is copied is noted among the run's working files, so that a run that was stopped between its
last table and its publication commits the same files when it is resumed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from flows.data import json_files, storage
from flows.data.runs import RunPaths
from flows.run.tables import parts_of, tables_of

_UNFIT = re.compile(r"[ ,;{}()\n\t=]")  # in the names of columns; engines refuse it there


class Copied(BaseModel):
    """One file of a table: where it is, and how much it holds."""

    name: str
    bytes: int
    rows: int


class Copies(json_files.Form):
    """The contents of ``work/delta.json``: files of every table below a folder."""

    folder: str
    tables: dict[str, list[Copied]]


def copy_tables(paths: RunPaths, folder: str, each: Callable[..., list[Any]]) -> Copies:
    """Copy what a run has found, and note it.

    Parameters
    ----------
    folder
        Where the Delta tables are.
    each
        Applies a function to items, on the workers where there are some.
    """
    named = [
        (table, part)
        for table in (*tables_of(paths), "posterior")
        for part in parts_of(paths, table)
    ]
    found = each(copied, named, paths, folder)
    tables: dict[str, list[Copied]] = {table: [] for table, _ in named}
    for (table, _), one in zip(named, found, strict=True):
        tables[table].append(one)
    copies = Copies(folder=folder, tables=tables)
    json_files.write(_url(paths), copies)
    return copies


def note_folder(paths: RunPaths, folder: str) -> None:
    """Note where a run's tables will be, so that a resumed run need not be told."""
    json_files.write(_url(paths), Copies(folder=folder, tables={}))


def noted(paths: RunPaths) -> Copies | None:
    """Return where an earlier attempt was to copy its tables, and what it has; or None.

    Raises
    ------
    DamagedError
        If its note cannot be read.
    """
    url = _url(paths)
    if not storage.exists(url):
        return None
    try:
        return json_files.read(url, Copies)
    except storage.DamagedError as error:
        said = f"{error}; name the folder of its Delta tables again, with --delta"
        raise storage.DamagedError(said, url) from error


def copied(named: tuple[str, str], paths: RunPaths, folder: str) -> Copied:
    """Copy one file of a table to where its Delta table is."""
    table, part = named
    source = storage.join(paths.table(table), part)
    name = f"{paths.run_id}-{part}"
    url = storage.join(folder, table, name)
    schema = storage.parquet_file(source).schema_arrow
    if schema.names == (names := fit_names(schema)):
        storage.copy(source, url)
    else:
        storage.write_table(url, storage.read_table(source).rename_columns(names))
    return Copied(name=name, bytes=storage.size_of(url), rows=storage.row_count(url))


def fit_names(schema: pa.Schema) -> list[str]:
    """Return the columns' names with ``_`` for what engines refuse in them.

    Most engines do not tell upper from lower case, so names that differ in nothing else are
    told apart by a ``_`` as well.

    >>> fit_names(pa.schema([("probability_Iris setosa", pa.float64()), ("a=b", pa.int64())]))
    ['probability_Iris_setosa', 'a_b']
    >>> fit_names(pa.schema([("probability_A", pa.float64()), ("probability_a", pa.float64())]))
    ['probability_A', 'probability_a_']
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in schema.names:
        fit = _UNFIT.sub("_", name)
        while fit.lower() in taken:
            fit += "_"
        found.append(fit)
        taken.add(fit.lower())
    return found


def _url(paths: RunPaths) -> str:
    return storage.join(paths.work, "delta.json")
