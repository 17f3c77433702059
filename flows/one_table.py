"""Families whose input is one declared table: what follows from the table alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from flows import storage
from flows.family import Checked, CheckedPiece, names_of
from flows.faults import Fault, InputError
from flows.settings import RunSettings
from flows.settings.tables import TableSettings
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import MAX_ROWS, Checker
from flows.tables.names import as_text, other_columns, shared_names
from flows.tables.partition import Part, chunks
from flows.tables.roles import LABEL, Contents, OddCell, Taken, odd_cells, take
from flows.tables.table import Table
from vbmodels.tables.seen import Seen

_CONTENTS = TypeAdapter(Contents)


class ReadsOneTable:
    """Checks, cuts and reads one declared table, every byte once; see `flows.family.Family`.

    A family derives from it, and reads its rows in ``ingest`` by `read`.

    Attributes
    ----------
    table
        What every file is to be.
    suffixes
        Endings of files that are read.
    checked_rows
        Most rows that are checked at once, where checking takes much more memory than the rows.
    """

    table: Table
    suffixes: tuple[str, ...] = storage.SUFFIXES
    checked_rows: int | None = None

    def about(self, rows: pa.Table) -> Any:
        """Return what else `whole` needs to know of some rows of a file, as plain values."""

    def column_faults(self, file: str, columns: Sequence[str]) -> Sequence[Fault]:
        """List what is wrong between a file's columns that the table does not say."""
        return ()

    def whole(self, file: str, checked: Checked, about: Sequence[Any], settings: Any) -> Checked:
        """Return the check of a file, with what its rows are about; no rows: of its header."""
        return checked

    def check(self, file: InputFile, settings: Any) -> Checked:
        """List what a file has that the table does not allow."""
        checker = Checker(self.table.of(settings), file.url)
        slabs = checker.chunks(chunks(file.url, self.checked_rows))
        about = [self.about(rows) for rows in slabs]
        checker.found.add(*self.column_faults(file.url, checker.columns))
        found = Checked(checker.rows, tuple(checker.found.faults()), checker.names)
        return self.whole(file.url, found, about, settings)

    def read_header(self, file: InputFile, settings: Any) -> Checked:
        """List the faults that a file's footer shows."""
        try:
            checker, _ = partition.read_header(file.url, self.table.of(settings))
        except InputError as error:
            return Checked(0, error.faults)
        # Which names it has is not known yet; that it has some is.
        keys = (file.url,) if checker.named else ()
        checker.found.add(*self.column_faults(file.url, checker.columns))
        return self._of_columns(checker, keys, settings)

    def _of_columns(self, checker: Checker, keys: tuple[str, ...], settings: Any) -> Checked:
        found = Checked(checker.rows, tuple(checker.found.faults()), keys)
        return self.whole(checker.found.file, found, (), settings)

    def merge(self, file: InputFile, pieces: Sequence[CheckedPiece], settings: Any) -> Checked:
        """Return what the pieces of a file say of it."""
        found = Checked(sum(piece.rows for piece in pieces), (), names_of(pieces))
        return self.whole(file.url, found, [piece.about for piece in pieces], settings)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List rows that two files share."""
        return shared_names(self.table, [f.url for f in files], [c.keys for c in checked])

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: Any
    ) -> list[Part]:
        """Cut the rows by number."""
        rows = [one.rows for one in checked]
        return partition.cut(files, rows, settings.rows_per_partition, settings.partitions)

    def read(self, part: Part, settings: RunSettings) -> tuple[pa.Table, tuple[CheckedPiece, ...]]:
        """Return a partition's rows, checked, and what `Ingested.checked` is to say of them.

        Raises
        ------
        InputError
            If the table does not allow one of them.
        """
        table = self.table.of(settings)
        rows, pieces = [], []
        for s, checker, own in partition.checked(part, table):
            rows.append(own)
            digests = as_text(checker.digests)
            pieces.append(CheckedPiece(s.url, checker.rows, digests, self.about(own)))
        return partition.merge(rows, table), tuple(pieces)


@dataclass(frozen=True)
class CheckedColumns(Checked):
    """What a check found of a file's columns, and the settings of the run.

    ``odd`` are the first cells that are no numbers, of columns of which others are.
    """

    contents: Contents = field(default_factory=Contents)
    odd: Mapping[str, tuple[OddCell, ...]] = field(default_factory=dict)
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

    def check(self, file: InputFile, settings: Any) -> CheckedColumns:
        """List what a file has that the table does not allow, and count what it holds."""
        checker = Checker(self.table.of(settings), file.url)
        contents = Contents()
        odd: dict[str, tuple[OddCell, ...]] = {}
        try:
            for rows in checker.chunks(chunks(file.url)):
                taken = take(rows, checker, settings)
                contents += taken.contents
                self.check_cells(checker, taken)
                for name in taken.cells:
                    odd[name] = odd.get(name, ())
                    odd[name] += odd_cells(
                        taken, name, checker.found.first, MAX_ROWS - len(odd[name])
                    )
                del rows, taken  # before the next are read
        except InputError as error:
            return CheckedColumns(0, error.faults)
        numbers = {name: cells for name, cells in odd.items() if contents.seen[name].numbers}
        faults = tuple(checker.found.faults())
        return CheckedColumns(checker.rows, faults, checker.names, contents, numbers, settings)

    def check_cells(self, checker: Checker, taken: Taken) -> None:
        """Report what a family does not take among cells of columns without a role."""

    def _of_columns(self, checker: Checker, keys: tuple[str, ...], settings: Any) -> Checked:
        seen = dict.fromkeys(checker.table.others_in(list(checker.columns)), Seen())
        faults = tuple(checker.found.faults())
        return CheckedColumns(checker.rows, faults, keys, Contents(seen), settings=settings)

    def merge(self, file: InputFile, pieces: Sequence[CheckedPiece], settings: Any) -> Checked:
        """Return what the pieces of a file say of it."""
        contents = reduce(add, (_CONTENTS.validate_python(one.about) for one in pieces))
        rows = sum(one.rows for one in pieces)
        return CheckedColumns(rows, (), names_of(pieces), contents, settings=settings)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List files with other columns than the first, and rows that two files share."""
        tables = columns_of(checked)
        labelled = LABEL in [column.name for column in self.table.columns] and not any(
            one.contents.labels.counts or LABEL in one.settings.columns for one in tables
        )
        columns = [one.contents.seen for one in tables]
        faults = other_columns([file.url for file in files], columns, labelled)
        return faults + super().validate_dataset(files, checked)

    def read_rows(self, part: Part, settings: TableSettings) -> Rows:
        """Return a partition's rows, checked.

        Raises
        ------
        InputError
            If the table, or the family, does not allow one of them.
        """
        taken, pieces = [], []
        for checkers, rows in partition.checked_together(part, self.table.of(settings)):
            first = checkers[0]
            taken.append(take(rows, first, settings, len(checkers) == 1))
            self.check_cells(first, taken[-1])
            first.refuse()
            # What rows of several files hold is said of the first: it is added up over files.
            contents = taken[-1].contents
            for checker in checkers:
                about = _CONTENTS.dump_python(contents, mode="json", exclude_defaults=True)
                digests = as_text(checker.digests)
                pieces.append(CheckedPiece(checker.found.file, checker.rows, digests, about))
                contents = Contents(dict.fromkeys(contents.seen, Seen()))
            del rows  # before the next are read
        contents = reduce(add, (one.contents for one in taken))
        return Rows(tuple(taken), contents, tuple(pieces))


def columns_of(checked: Sequence[Checked]) -> list[CheckedColumns]:
    """Return checks of files that could be read, as `ReadsColumns` makes them."""
    return [one for one in checked if isinstance(one, CheckedColumns)]
