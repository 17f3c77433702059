"""Cut the rows of input files into partitions, by rows alone: never by the number of workers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flows.data import reading, storage
from flows.data.storage import InputFile
from flows.data.table import Table


@dataclass(frozen=True)
class Slice:
    """Rows ``start`` to ``stop`` (not included) of one file."""

    url: str
    start: int
    stop: int
    fingerprint: str  # of the file
    size: int = 0  # bytes of the file, where they are known


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
        text = "|".join(f"{s.url} {s.fingerprint} {s.start} {s.stop}" for s in self.slices)
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


def pieces(part: Part, table: Table) -> Iterator[pa.Table]:
    """Yield the rows that a partition has of each file, as a table of the declared types."""
    for s in part.slices:
        rows = storage.read_rows(s.url, s.start, s.stop, table.in_files, s.size)
        given = reading.named(table, reading.given(table, rows), s.url, s.start)
        yield reading.read(table, given)


def read(part: Part, table: Table) -> pa.Table:
    """Read a partition's rows as a table of the declared types; absent columns are null."""
    read = list(pieces(part, table))
    if not read:
        return table.arrow.empty_table()
    return pa.concat_tables([rows.select(read[0].column_names) for rows in read])
