"""How the files of a run are read, where their names do not say it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

NOTES = b"vbflows.notes"
"""Metadata of a table that was another file: what was found out of its form and is not plain."""


@dataclass(frozen=True)
class FileTable:
    """A table with a line a file of the input: where it is, its column of files, its version."""

    url: str
    key: str
    version: str


@dataclass(frozen=True)
class FileOptions:
    """What settings say of input files.

    Attributes
    ----------
    encoding
        Of text; None to find out.
    skip_rows
        Rows below the header that are not read; None for those of a survey's questions.
    sheet
        Of a workbook; None for the first one with a table.
    documents
        Whether a ``.txt`` file is one document; else it is a table.
    of_files
        Those of the columns FILE and FOLDER that every row has.
    file_table
        A table whose cells every row of a file has, from the file's line.
    """

    encoding: str | None = None
    skip_rows: int | None = None
    sheet: str | None = None
    documents: bool = True
    of_files: tuple[str, ...] = ()
    file_table: FileTable | None = None


_options: ContextVar[FileOptions] = ContextVar("file_options", default=FileOptions())  # noqa: B039


@contextmanager
def reading_with(options: FileOptions) -> Iterator[None]:
    """Read input files so, in this context."""
    token = _options.set(options)
    try:
        yield
    finally:
        _options.reset(token)


def file_options() -> FileOptions:
    """Return how input files are read here."""
    return _options.get()
