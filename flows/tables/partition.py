"""Cut the rows of input files into partitions, by rows alone: never by the number of workers.

A partition's rows are read once, and checked as they are read (`checked`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from flows import storage
from flows.faults import Fault
from flows.storage import InputFile
from flows.tables import reading
from flows.tables.checks import Checker, FileFaults
from flows.tables.table import Table


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
    def fingerprint(self) -> str:
        """What changes when any of its rows may have changed."""
        text = "|".join(s.described for s in self.slices)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def files_in(parts: Sequence[Part]) -> list[InputFile]:
    """Return the files that have rows of some partitions."""
    return sorted({s.file for part in parts for s in part.slices}, key=lambda file: file.url)


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
    number, before = 0, 0  # the first file that is not used up, and the rows before it
    for index in range(count):
        low, high = total * index // count, total * (index + 1) // count
        slices = []
        while low < high:
            file, n = ordered[number]
            stop = min(high, before + n)
            if low < stop:
                slices.append(
                    Slice(file.url, low - before, stop - before, file.fingerprint, file.size)
                )
                low = stop
            if low == before + n:
                number, before = number + 1, before + n
        parts.append(Part(index, tuple(slices)))
    return parts


def read_header(url: str, table: Table) -> tuple[Checker, pq.FileMetaData]:
    """Check what a file's footer says, its columns and whether it has rows; return both."""
    file = storage.parquet_file(url)
    checker = Checker(table, url)
    checker.read_header(file.schema_arrow.empty_table(), file.metadata.num_rows)
    return checker, file.metadata


def check_rows(part: Part, table: Table) -> Iterator[tuple[Checker, pa.Table]]:
    """Read and check the rows that a partition has of each file.

    Yields
    ------
    checker, rows
        What takes further faults in them; the rows in declared types, null what cannot be read.
    """
    for s in part.slices:
        checker = Checker(table, s.url, s.start)
        raw = read_slice(s, table, checker.faults)
        rows = pa.table({}) if raw is None else checker.read(raw)
        del raw
        rows = reading.add_row_names(table, rows, s.url, s.start)
        yield checker, reading.add_absent_columns(table, rows)


def check_alike_files(part: Part, table: Table) -> Iterator[list[tuple[Checker, pa.Table]]]:
    """Read and check a partition's rows; yield those of neighbouring files alike in form at once.

    See `check_rows`.
    """
    for _, group in groupby(
        check_rows(part, table), lambda read: (read[1].schema, read[0].separator)
    ):
        yield list(group)


def unreadable(url: str, error: storage.StorageError) -> Fault:
    """Return the fault of a file that storage cannot read."""
    return Fault(url, "", str(error).replace(f"cannot read {url}", "cannot be read", 1))


def read_slice(s: Slice, table: Table, faults: FileFaults) -> pa.Table | None:
    """Read some rows of a file as the file has them; report one that is damaged there.

    Whatever else keeps a file from being read that was looked at before is no fault of the input:
    access that was lost, say, or a disk that is full.
    """
    try:
        return storage.read_rows(s.url, s.start, s.stop, table.in_files)
    except storage.DamagedError as error:
        faults.add(unreadable(s.url, error))
        return None


def merge(pieces: Sequence[pa.Table], table: Table) -> pa.Table:
    """Put the rows of several files together."""
    if not pieces:
        return table.arrow.empty_table()
    return pa.concat_tables([rows.select(pieces[0].column_names) for rows in pieces])


ROWS = 2**20  # of a batch of one column
