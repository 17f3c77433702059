"""Cut the rows of input files into partitions, by rows alone: never by the number of workers.

A partition's rows are read once, and checked as they are read (`checked`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows import storage
from flows.faults import Fault
from flows.storage import InputFile
from flows.tables import reading
from flows.tables.checks import Checker, Found
from flows.tables.table import Table
from vbmodels.core.state import FloatArray, IntArray


@dataclass(frozen=True)
class Slice:
    """Rows ``start`` to ``stop`` (not included) of one file."""

    url: str
    start: int
    stop: int
    fingerprint: str  # of the file
    size: int = 0  # bytes of the file, where they are known

    @property
    def file(self) -> InputFile:
        """The version of the file."""
        return InputFile(self.url, self.size, self.fingerprint)

    @property
    def described(self) -> str:
        """All that what is read of it depends on."""
        return f"{self.url} {self.fingerprint} {self.start} {self.stop}"


@dataclass(frozen=True)
class Part:
    """One partition before it is read: its id and its rows, file by file."""

    index: int
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(s.stop - s.start for s in self.slices)

    @property
    def files(self) -> list[InputFile]:
        """The files that have them."""
        return sorted({s.file for s in self.slices}, key=lambda file: file.url)

    @property
    def fingerprint(self) -> str:
        """What changes when any of its rows may have changed."""
        text = "|".join(s.described for s in self.slices)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def cut(
    files: Sequence[InputFile], rows: Sequence[int], per_partition: int, partitions: int | None
) -> list[Part]:
    """Cut files into partitions of nearly equal numbers of rows, in the order of their names.

    Parameters
    ----------
    files
        The input; its order does not matter.
    rows
        Rows of each file.
    per_partition
        Most rows in a partition.
    partitions
        Number of partitions instead; no more than there are rows.
    """
    ordered = sorted(zip(files, rows, strict=True), key=lambda pair: pair[0].url)
    total = sum(rows)
    wanted = partitions if partitions is not None else -(-total // per_partition)
    count = max(1, min(wanted, total))
    parts = []
    place, before = 0, 0  # the first file that is not used up, and the rows before it
    for index in range(count):
        low, high = total * index // count, total * (index + 1) // count
        slices = []
        while low < high:
            file, n = ordered[place]
            stop = min(high, before + n)
            if low < stop:
                slices.append(
                    Slice(file.url, low - before, stop - before, file.fingerprint, file.size)
                )
                low = stop
            if low == before + n:
                place, before = place + 1, before + n
        parts.append(Part(index, tuple(slices)))
    return parts


def read_header(url: str, table: Table) -> tuple[Checker, pq.FileMetaData]:
    """Check what a file's footer says, its columns and whether it has rows; return both."""
    file = storage.parquet_file(url)
    checker = Checker(table, url)
    checker.read_header(file.schema_arrow.empty_table(), file.metadata.num_rows)
    return checker, file.metadata


def checked(part: Part, table: Table) -> Iterator[tuple[Checker, pa.Table]]:
    """Read and check the rows that a partition has of each file.

    Yields
    ------
    checker, rows
        What takes further faults in them; the rows in declared types, null what cannot be read.
    """
    for s in part.slices:
        checker = Checker(table, s.url, s.start)
        given = read_slice(s, table, checker.found)
        rows = pa.table({}) if given is None else checker.read(given)
        del given
        yield checker, reading.filled(table, reading.named(table, rows, s.url, s.start))


class Together(NamedTuple):
    """Rows of neighbouring files, alike in form, that were checked.

    ``checkers``: one a file. ``ends``: how many rows there are up to the end of each.
    """

    checkers: list[Checker]
    ends: list[int]
    rows: pa.Table

    def split(self, rows: IntArray) -> Iterator[tuple[Checker, int, IntArray]]:
        """Yield what has checked each file, the row at which it begins, and which rows it has."""
        start = 0
        for checker, end in zip(self.checkers, self.ends, strict=True):
            yield checker, start, rows[(rows >= start) & (rows < end)]
            start = end

    def report(
        self, rows: IntArray, column: str, expected: str, values: FloatArray, remedy: str
    ) -> None:
        """Keep faults of rows, of which all have a value, with those of their files."""
        for checker, start, own in self.split(rows):
            at = values[start:]
            checker.found.rows(
                own - start, column, expected, lambda row, at=at: str(at[row]), remedy
            )


def checked_together(part: Part, table: Table) -> Iterator[Together]:
    """Read and check a partition's rows; rows of neighbouring files alike in form come as one."""
    held: list[tuple[Checker, pa.Table]] = []
    for checker, rows in checked(part, table):
        alike = not held or (
            held[0][1].schema == rows.schema and held[0][0].separator == checker.separator
        )
        if not alike:
            yield _together(held)
            held = []
        held.append((checker, rows))
    if held:
        yield _together(held)


def _together(held: list[tuple[Checker, pa.Table]]) -> Together:
    checkers, rows = zip(*held, strict=True)
    return Together([*checkers], np.cumsum([*map(len, rows)]).tolist(), pa.concat_tables(rows))


def unreadable(url: str, error: storage.StorageError) -> Fault:
    """Return the fault of a file that storage cannot read."""
    return Fault(url, "", str(error).replace(f"cannot read {url}", "cannot be read", 1))


def read_slice(s: Slice, table: Table, found: Found) -> pa.Table | None:
    """Read some rows of a file as the file has them; report one that is damaged there.

    Whatever else keeps a file from being read that was looked at before is no fault of the input:
    access that was lost, say, or a disk that is full.
    """
    try:
        return storage.read_rows(s.url, s.start, s.stop, table.in_files)
    except storage.DamagedError as error:
        found.add(unreadable(s.url, error))
        return None


def merge(pieces: Sequence[pa.Table], table: Table) -> pa.Table:
    """Put the rows of several files together."""
    if not pieces:
        return table.arrow.empty_table()
    return pa.concat_tables([rows.select(pieces[0].column_names) for rows in pieces])


ROWS = 2**20  # of a batch of one column
