"""Families whose input is one declared table: what follows from the table alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from flows import storage
from flows.family import Checked, CheckedPiece, names_of, refuse_wrong
from flows.faults import Fault
from flows.settings import RunSettings
from flows.settings.tables import TableSettings
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import MAX_ROWS, Checker, add_up, faults_of, repeated_names
from flows.tables.names import other_columns, shared_names
from flows.tables.partition import Part
from flows.tables.roles import LABEL, Contents, OddCell, Taken, odd_cells, take
from flows.tables.table import Table
from vbmodels.tables.seen import Seen


class ReadsOneTable:
    """Checks, cuts and reads one declared table, every byte once; see `flows.family.Family`.

    A family derives from it, and reads its rows in ``ingest`` by `read`.

    Attributes
    ----------
    table
        What every file is to be.
    suffixes
        Endings of files that are read.
    """

    table: Table
    suffixes: tuple[str, ...] = storage.SUFFIXES

    def about(self, rows: pa.Table) -> Any:
        """Return what else `whole` needs to know of some rows of a file, as plain values."""

    def column_faults(self, file: str, columns: Sequence[str]) -> Sequence[Fault]:
        """List what is wrong between a file's columns that the table does not say."""
        return ()

    def whole(self, file: str, checked: Checked, about: Sequence[Any], settings: Any) -> Checked:
        """Return the check of a file, with what its rows are about; no rows: of its header."""
        return checked

    def read_header(self, file: InputFile, settings: Any) -> Checked:
        """List the faults that a file's footer shows."""
        checker, _ = partition.read_header(file.url, self.table.of(settings))
        # Which names it has is not known yet; that it has some is.
        keys = (file.url,) if checker.named else ()
        checker.faults.add(*self.column_faults(file.url, checker.columns))
        header = Checked(checker.rows, checker.faults.listed(), keys)
        return self._of_header(header, checker, settings)

    def _of_header(self, header: Checked, checker: Checker, settings: Any) -> Checked:
        return self.whole(checker.faults.file, header, (), settings)

    def check(self, part: Part, settings: Any) -> tuple[CheckedPiece, ...]:
        """Say what is wrong in a partition's rows, and what they hold."""
        return self._read(part, self.table.of(settings))[1]

    def merge(
        self, file: InputFile, header: Checked, pieces: Sequence[CheckedPiece], settings: Any
    ) -> Checked:
        """Return the check of a whole file."""
        return self.whole(
            file.url,
            self._sum(file, header, pieces, settings),
            [piece.about for piece in pieces],
            settings,
        )

    def _sum(
        self, file: InputFile, header: Checked, pieces: Sequence[CheckedPiece], settings: Any
    ) -> Checked:
        rows, names = sum(piece.rows for piece in pieces), names_of(pieces)
        # Of the columns that a file has, a partition knows those that it reads.
        reported = {(fault.column, fault.expected) for fault in header.faults}
        in_rows = faults_of(add_up(piece.faults for piece in pieces))
        new = (fault for fault in in_rows if (fault.column, fault.expected) not in reported)
        faults = (*header.faults, *new)
        if len(names) == rows:
            faults += tuple(repeated_names(self.table.of(settings), file.url, names))
        return Checked(rows, faults, names)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List rows that two files share."""
        return shared_names(self.table, [f.url for f in files], [c.keys for c in checked])

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: Any
    ) -> list[Part]:
        """Cut the rows by number."""
        rows = [c.rows for c in checked]
        return partition.cut(files, rows, settings.rows_per_partition, settings.partitions)

    def read(self, part: Part, settings: RunSettings) -> tuple[pa.Table, tuple[CheckedPiece, ...]]:
        """Return a partition's rows, checked, and what `Ingested.checked` is to say of them.

        Raises
        ------
        WrongRows
            If the table does not allow one of them.
        """
        table = self.table.of(settings)
        rows, pieces = self._read(part, table)
        refuse_wrong(pieces)
        return partition.merge(rows, table), pieces

    def _read(self, part: Part, table: Table) -> tuple[list[pa.Table], tuple[CheckedPiece, ...]]:
        rows, pieces = [], []
        for checker, file_rows in partition.check_rows(part, table):
            checker.faults.add(*self.column_faults(checker.faults.file, checker.columns))
            rows.append(file_rows)
            pieces.append(_piece(checker, self.about(file_rows)))
        return rows, tuple(pieces)


def _piece(checker: Checker, about: Any) -> CheckedPiece:
    names = json.dumps(checker.names) if checker.names else ""
    return CheckedPiece(checker.faults.file, checker.rows, checker.faults.kinds, names, about)


@dataclass(frozen=True)
class AboutColumns:
    """What rows of a file hold; the sum of two is that of both.

    ``odd`` are the first cells that are no numbers, of columns of which others are.
    """

    contents: Contents = field(default_factory=Contents)
    odd: dict[str, list[OddCell]] = field(default_factory=dict)

    def __add__(self, other: AboutColumns) -> AboutColumns:
        odd = {
            name: (self.odd.get(name, []) + other.odd.get(name, []))[:MAX_ROWS]
            for name in dict.fromkeys([*self.odd, *other.odd])
        }
        return AboutColumns(self.contents + other.contents, odd)


_ABOUT = TypeAdapter(AboutColumns)


@dataclass(frozen=True)
class CheckedColumns(Checked):
    """What a check found of a file's columns, and the settings of the run."""

    about: AboutColumns = field(default_factory=AboutColumns)
    settings: Any = None


@dataclass(frozen=True)
class Rows:
    """A partition's rows as they are kept, file by file; what all hold, and a check of each."""

    taken: tuple[Taken, ...]
    contents: Contents
    checked: tuple[CheckedPiece, ...]


class ReadsColumns(ReadsOneTable):
    """Reads a declared table whose other columns are taken as they come.

    A family reads its rows in ``ingest`` by `read_rows`; what else keeps a fit from them,
    ``require_labels`` lists.
    """

    def check_cells(self, checker: Checker, rows: pa.Table) -> None:
        """Report what a family does not take among a file's cells of columns without a role."""

    def _of_header(self, header: Checked, checker: Checker, settings: Any) -> Checked:
        seen = dict.fromkeys(checker.table.others_in(list(checker.columns)), Seen())
        about = AboutColumns(Contents(seen))
        return CheckedColumns(header.rows, header.faults, header.keys, about, settings)

    def check(self, part: Part, settings: Any) -> tuple[CheckedPiece, ...]:
        """Say what is wrong in a partition's rows, and what they hold."""
        return tuple(piece for _, pieces in self._taken(part, settings) for piece in pieces)

    def merge(
        self, file: InputFile, header: Checked, pieces: Sequence[CheckedPiece], settings: Any
    ) -> Checked:
        """Return the check of a whole file."""
        whole = self._sum(file, header, pieces, settings)
        about = reduce(add, (_ABOUT.validate_python(piece.about) for piece in pieces))
        return CheckedColumns(whole.rows, whole.faults, whole.keys, about, settings)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List files with other columns than the first, and rows that two files share."""
        tables = columns_of(checked)
        labelled = LABEL in [column.name for column in self.table.columns] and not any(
            c.about.contents.labels.counts or LABEL in c.settings.columns for c in tables
        )
        columns = [c.about.contents.seen for c in tables]
        faults = other_columns([file.url for file in files], columns, labelled)
        return faults + super().validate_dataset(files, checked)

    def read_rows(self, part: Part, settings: TableSettings) -> Rows:
        """Return a partition's rows, checked.

        Raises
        ------
        WrongRows
            If the table, or the family, does not allow one of them.
        """
        taken, pieces = [], []
        for rows, checked in self._taken(part, settings):
            taken.append(rows)
            pieces += checked
        refuse_wrong(pieces)
        contents = reduce(add, (t.contents for t in taken))
        return Rows(tuple(taken), contents, tuple(pieces))

    def _taken(
        self, part: Part, settings: TableSettings
    ) -> Iterator[tuple[Taken, list[CheckedPiece]]]:
        """Yield rows as they are kept, and what is found in those of each file."""
        for files in partition.check_alike_files(part, self.table.of(settings)):
            rows = pa.concat_tables([r for _, r in files])
            taken = take(rows, files[0][0], settings, len(files) == 1)
            # What rows of several files hold is said of the first: it is added up over files.
            contents, pieces = taken.contents, []
            for (checker, file_rows), odd in zip(files, odd_cells(taken, files), strict=True):
                self.check_cells(checker, file_rows)
                about = AboutColumns(contents, odd)
                plain = _ABOUT.dump_python(about, mode="json", exclude_defaults=True)
                pieces.append(_piece(checker, plain))
                contents = Contents(dict.fromkeys(contents.seen, Seen()))
            del rows, files, file_rows  # before the next are read
            yield taken, pieces


def columns_of(checked: Sequence[Checked]) -> list[CheckedColumns]:
    """Return checks of files that could be read, as `ReadsColumns` makes them."""
    return [c for c in checked if isinstance(c, CheckedColumns)]
