"""Cut the rows of input files into partitions, by rows alone: never by the number of workers.

A partition's rows are read once, and checked as they are read (`checked`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from flows import storage
from flows.faults import Fault, InputError
from flows.storage import InputFile
from flows.tables import reading
from flows.tables.checks import Checker
from flows.tables.table import Table

Form = Callable[[pa.Table, str], pa.Table]
"""Makes of a file's rows, and its URL, the rows of a table."""


def _as_it_is(rows: pa.Table, _: str) -> pa.Table:
    return rows


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


def read_header(url: str, table: Table, form: Form = _as_it_is) -> tuple[Checker, pq.FileMetaData]:
    """Check what a file's footer says, its columns and whether it has rows; return both."""
    file = storage.parquet_file(url)
    checker = Checker(table, url)
    checker.read_header(form(file.schema_arrow.empty_table(), url), file.metadata.num_rows)
    return checker, file.metadata


def checked(
    part: Part, table: Table, form: Form = _as_it_is
) -> Iterator[tuple[Slice, Checker, pa.Table]]:
    """Read and check the rows that a partition has of each file.

    Yields
    ------
    slice, checker, rows
        Where they are; what takes further faults in them; the rows in declared types.

    Raises
    ------
    InputError
        If something is wrong with them. A check of all files reports everything (`Family.check`):
        here it is enough to know.
    """
    for s in part.slices:
        given = form(read_slice(s, table), s.url)
        checker = Checker(table, s.url)
        [rows] = checker.chunks([(s.start, given)])
        del given
        checker.refuse()
        checker.found.first = s.start
        yield s, checker, reading.filled(table, reading.named(table, rows, s.url, s.start))
        checker.refuse()


def checked_together(
    part: Part, table: Table, form: Form = _as_it_is
) -> Iterator[tuple[list[Checker], pa.Table]]:
    """Read and check a partition's rows; rows of neighbouring files alike in form come as one.

    Yields
    ------
    checkers, rows
        What has checked each file's rows, and all of these rows.

    Raises
    ------
    InputError
        If something is wrong with them.
    """
    checkers: list[Checker] = []
    held: list[pa.Table] = []
    for _, checker, rows in checked(part, table, form):
        alike = not held or (
            held[0].schema == rows.schema and checkers[0].separator == checker.separator
        )
        if not alike:
            yield checkers, pa.concat_tables(held)
            checkers, held = [], []
        checkers.append(checker)
        held.append(rows)
    if held:
        yield checkers, held[0] if len(held) == 1 else pa.concat_tables(held)


def unreadable(url: str, error: storage.StorageError) -> Fault:
    """Return the fault of a file that storage cannot read."""
    return Fault(url, "", str(error).replace(f"cannot read {url}", "cannot be read", 1))


def read_slice(s: Slice, table: Table) -> pa.Table:
    """Read some rows of a file as the file has them.

    Raises
    ------
    InputError
        If the file is damaged there. Whatever else keeps a file from being read that was looked
        at before is no fault of the input: access that was lost, say, or a disk that is full.
    """
    try:
        return storage.read_rows(s.url, s.start, s.stop, table.in_files)
    except storage.DamagedError as error:
        raise InputError([unreadable(s.url, error)]) from error


def merge(pieces: Sequence[pa.Table], table: Table) -> pa.Table:
    """Put the rows of several files together."""
    if not pieces:
        return table.arrow.empty_table()
    return pa.concat_tables([rows.select(pieces[0].column_names) for rows in pieces])


SLAB = 64 * 2**20
"""Bytes of a file, decoded, that are checked at once; a smaller file is one slab."""

LEAST = 4  # bytes of a cell in memory, where dictionaries are spelt out
ROWS = 2**20  # of a slab; a cell may be a word that is stored once for all rows
PARTS = 8  # in which a slab is read


def chunks(url: str, most: int | None = None) -> Iterator[tuple[int, pa.Table]]:
    """Yield (number of its first row, rows) of every slab of a file.

    Parameters
    ----------
    most
        Rows of a slab, where checking a row takes much more memory than the row; by default
        `ROWS`.
    """
    most = most or ROWS
    metadata = storage.parquet_file(url).metadata
    size = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
    size = max(size, LEAST * metadata.num_rows * metadata.num_columns)
    if size <= SLAB and metadata.num_rows <= most:
        yield 0, storage.read_table(url)
        return
    # What a file says of its size is before its dictionaries are spelt out, so the rows that
    # are read are counted as they are in memory.
    rows = max(1, min(metadata.num_rows * SLAB // max(size, 1), most) // PARTS)
    yield from _in_slabs(storage.read_batches(url, rows, footer=metadata), most)


def _in_slabs(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[tuple[int, pa.Table]]:
    """Join the batches of a file to chunks."""
    held: list[pa.RecordBatch] = []
    first = rows = taken = 0
    for batch in batches:
        held.append(batch)
        rows, taken = rows + batch.num_rows, taken + batch.nbytes
        if taken > SLAB - SLAB // PARTS or rows - first > most - most // PARTS:
            yield first, _taken(held)
            first, taken = rows, 0
    if held:
        yield first, _taken(held)


def _taken(held: list[pa.RecordBatch]) -> pa.Table:
    """Make a slab of batches, and keep none: who reads it may let it go."""
    table = pa.Table.from_batches(held)
    held.clear()
    return table
