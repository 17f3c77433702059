"""A family whose input is the rows of one declared table: what follows from the table alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from flows import storage
from flows.family import Checked, CheckedPiece, names_of
from flows.faults import Fault, InputError
from flows.settings import RunSettings
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import Checker, shared_names
from flows.tables.names import as_text
from flows.tables.partition import Part, chunks
from flows.tables.table import Table


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

    def check(self, file: InputFile, settings: RunSettings) -> Checked:
        """List what a file has that the table does not allow."""
        checker = Checker(self.table.of(settings), file.url)
        for _ in checker.chunks(chunks(file.url)):
            pass
        return Checked(checker.rows, tuple(checker.found.faults()), checker.names)

    def read_header(self, file: InputFile, settings: RunSettings) -> Checked:
        """List the faults that a file's footer shows."""
        try:
            checker, _ = partition.read_header(file.url, self.table.of(settings))
        except InputError as error:
            return Checked(0, error.faults)
        # Which names it has is not known yet; that it has some is.
        keys = (file.url,) if checker.named else ()
        return Checked(checker.rows, tuple(checker.found.faults()), keys)

    def merge(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: RunSettings
    ) -> Checked:
        """Return what the pieces of a file say of it."""
        return Checked(sum(piece.rows for piece in pieces), (), names_of(pieces))

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List rows that two files share."""
        return shared_names(self.table, [f.url for f in files], [c.keys for c in checked])

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: RunSettings
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
            pieces.append(CheckedPiece(s.url, checker.rows, as_text(checker.digests)))
        return partition.merge(rows, table), tuple(pieces)
