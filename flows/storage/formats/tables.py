"""Tables: written as Parquet whole or not at all, read in pieces no larger than what is needed.

What is read may be in another format: see `flows.storage.formats.converted`.

Row groups that several partitions share are decoded once, not once a partition: partitions are cut
by rows, and a row group may hold a million of them. The last few row groups stay decoded for the
next partition, and a large one is read on from where the thread's last partition ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from flows.storage.errors import TransientStorageError, storage_errors
from flows.storage.file_options import file_options
from flows.storage.formats.converted import as_parquet, small_text
from flows.storage.objects.access import arrow, filesystem
from flows.storage.objects.contents import Once, small_content, version_of
from flows.storage.objects.retry import asks_storage, calling_thread, expect, with_retry
from flows.storage.objects.seal import (
    Sealed,
    check_footer,
    footer_size,
    is_table,
    is_working,
    with_footer_seal,
)
from flows.storage.objects.store import read_bytes, write_bytes

LARGE = 64 * 2**20  # bytes of a row group that is not decoded as one
PIECE = 8 * 2**20  # bytes of a large one that are decoded at once
BUFFER = 4 * 2**20  # bytes of a column that are fetched at once from a large row group
_THREADED = 2**20  # bytes of a row group that are worth several threads
_FOOTER = 2**16  # bytes of a file's end, in which most footers are


def parquet_file(url: str, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a table for reading, by its footer where that is known.

    A large row group is fetched piece by piece.
    """
    small = small_text(url)
    if small is not None:
        return _file(pa.BufferReader(small), metadata=footer)
    path = as_parquet(url)
    if path == url and (content := small_content(url)) is not None:
        with storage_errors("read", url):
            return _file(pa.BufferReader(content), metadata=footer)
    return _opened(path, footer)


@asks_storage("read")
def _opened(url: str, footer: pq.FileMetaData | None) -> pq.ParquetFile:
    fs, path = arrow(url)
    source = fs.open_input_file(path)
    known = footer or (_checked_footer(source, url) if is_table(url) else None)
    file = _file(source, metadata=known, pre_buffer=True)
    if max(_sizes(file.metadata), default=0) <= LARGE:
        return file
    return _file(source, metadata=file.metadata, pre_buffer=False, buffer_size=BUFFER)


_file = partial(pq.ParquetFile, page_checksum_verification=True)


def _checked_footer(source: pa.NativeFile, url: str) -> pq.FileMetaData:
    """Return the footer of a published table, which pages' checksums leave out."""
    size = source.size()
    end = source.read_at(min(size, _FOOTER), max(size - _FOOTER, 0))
    if (needed := footer_size(end)) > len(end):
        end = source.read_at(min(size, needed), max(size - needed, 0))
    check_footer(end, url)
    return pq.read_metadata(pa.BufferReader(end))


def _sizes(metadata: pq.FileMetaData) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        yield metadata.row_group(number).total_byte_size


@asks_storage("read")
def read_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one table whole; one that is sealed is checked."""
    if is_working(url):
        file = pq.ParquetFile(pa.BufferReader(read_bytes(url)))
    else:
        file = parquet_file(url)
    expect(sum(_sizes(file.metadata)))
    return file.read(columns=list(columns) if columns is not None else None)


Opened = Callable[[], pq.ParquetFile]
"""Opens a file when it is first called."""


@dataclass(frozen=True)
class _Footer:
    """What a file's footer says of its row groups."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    groups: tuple[tuple[int, int, int], ...]  # first row, end, bytes


@lru_cache(maxsize=64)
def _footer_of(url: str, _version: str) -> _Footer:
    file, groups, first = parquet_file(url), [], 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        groups.append((first, first + group.num_rows, group.total_byte_size))
        first += group.num_rows
    return _Footer(file.metadata, file.schema_arrow, tuple(groups))


class _Group(NamedTuple):
    """Columns of a row group of a version of a file."""

    url: str
    version: str
    number: int
    columns: tuple[str, ...]

    def read(self, opened: Opened, threads: bool = True) -> pa.Table:
        """Decode it."""
        columns = list(self.columns)
        return opened().read_row_group(self.number, columns=columns, use_threads=threads)


@lru_cache(maxsize=2)
def _shared(_group: _Group) -> Once[pa.Table]:
    """Return what one of several threads decodes of a row group."""
    return Once()


@dataclass
class _Stream:
    """A large row group as it is read piece by piece, with the last piece."""

    group: _Group
    pieces: Iterator[pa.RecordBatch]
    first: int  # row of the file, of the last piece
    last: pa.RecordBatch | None = None

    def rows(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Return rows of the file, none of them before the last piece."""
        batches = []
        while True:
            if self.last is not None:
                low, high = max(start - self.first, 0), min(stop - self.first, len(self.last))
                if low < high:
                    batches.append(self.last.slice(low, high - low))
                if self.first + len(self.last) >= stop:
                    return batches
                self.first += len(self.last)
            expect()
            self.last = next(self.pieces, None)
            if self.last is None:
                raise pa.ArrowInvalid(f"it ends before row {stop:,}, which its footer lists")


_streams: dict[int, _Stream] = {}  # by thread


def release_decoded() -> None:
    """Drop what this process holds decoded."""
    _footer_of.cache_clear()
    _shared.cache_clear()
    _streams.clear()


@asks_storage("read")
def read_rows(url: str, start: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows ``start`` to ``stop`` of a table; row groups outside are not touched.

    Of ``columns`` those that the file has not are left out.
    """
    version = version_of(url) + str(file_options())  # read in another way it has other rows
    footer = _footer_of(url, version)
    names = footer.schema.names
    wanted = tuple(names if columns is None else (name for name in columns if name in names))
    opened: Opened = cache(partial(parquet_file, url, footer.metadata))
    tables = []
    for number, (first, end, size) in enumerate(footer.groups):
        low, high = max(first, start), min(end, stop)
        if low >= high:
            continue
        expect(min(size, LARGE))
        group = _Group(url, version, number, wanted)
        if size > LARGE:
            tables.append(_read_on(group, footer, opened, low, high))
        elif (low, high) == (first, end):
            tables.append(group.read(opened, threads=size > _THREADED))
        else:
            whole = _shared(group).get(partial(group.read, opened))
            tables.append(whole.slice(low - first, high - low))
    if not tables:
        return pa.schema([footer.schema.field(name) for name in wanted]).empty_table()
    return pa.concat_tables(tables)


def _read_on(group: _Group, footer: _Footer, opened: Opened, low: int, high: int) -> pa.Table:
    """Read rows of a large row group, from where this thread's last reading ended."""
    thread = calling_thread()
    stream = _streams.pop(thread, None)
    if stream is None or stream.group != group or low < stream.first:
        first, end, size = footer.groups[group.number]
        rows, columns = max(1, (end - first) * PIECE // size), list(group.columns)
        pieces = opened().iter_batches(rows, row_groups=[group.number], columns=columns)
        stream = _Stream(group, pieces, first)
    batches = stream.rows(low, high)
    _streams[thread] = stream  # only when nothing failed: one that broke is opened again
    return pa.Table.from_batches(batches)


@asks_storage("read")
def read_overlapping(url: str, column: str, low: int, high: int) -> pa.Table:
    """Read the row groups of a table whose numbers in a column may be from ``low`` to ``high``."""
    sealed = is_working(url)
    file = pq.ParquetFile(Sealed(*filesystem(url), url)) if sealed else parquet_file(url)
    index = file.schema_arrow.get_field_index(column)
    groups = []
    for number in range(file.metadata.num_row_groups):
        bounds = file.metadata.row_group(number).column(index).statistics
        unknown = bounds is None or not bounds.has_min_max
        if unknown or (bounds.min <= high and bounds.max >= low):
            groups.append(number)
    expect(sum(file.metadata.row_group(n).total_byte_size for n in groups))
    return file.read_row_groups(groups, use_threads=False)


def read_batches(
    url: str,
    rows: int,
    columns: Sequence[str] | None = None,
    footer: pq.FileMetaData | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a table as record batches of at most ``rows`` rows, by its footer where that is known.

    One row group is in memory at a time, and of a large one only a part. When an object
    store stops answering, reading goes on where it was.
    """
    reading = _batches(url, rows, columns, footer)
    group, done = 0, 0

    def following() -> tuple[int, int, pa.RecordBatch] | None:
        nonlocal reading
        try:
            return next(reading, None)
        except TransientStorageError:
            reading = _batches(url, rows, columns, None, group, done)
            raise

    while (item := with_retry("read", url, following)) is not None:
        group, done, batch = item
        yield batch


def _batches(
    url: str,
    rows: int,
    columns: Sequence[str] | None,
    footer: pq.FileMetaData | None,
    group: int = 0,
    done: int = 0,
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Read a table from a row group on, without so many batches of that.

    Each comes with its row group and how many of that have been read.
    """
    file = parquet_file(url, footer)
    names = file.schema_arrow.names
    wanted = None if columns is None else [name for name in columns if name in names]
    for index in range(group, file.metadata.num_row_groups):
        with storage_errors("read", url):
            expect(min(file.metadata.row_group(index).total_byte_size, LARGE))
            for number, batch in enumerate(file.iter_batches(rows, [index], wanted), 1):
                if index > group or number > done:
                    yield index, number, batch


def write_table(url: str, table: pa.Table, group: int | None = None) -> None:
    """Write one Parquet file, whole or not at all.

    Parameters
    ----------
    group
        Rows of a row group; by default as many as Parquet's writer takes.
    """
    # One request, so that a failure half-way leaves no object; a table is a partition's at most.
    write_bytes(url, table_bytes(table, group), durable=False)


def table_bytes(table: pa.Table, group: int | None = None) -> bytes:
    """Return the bytes of a Parquet file; see `write_table`."""
    sink = pa.BufferOutputStream()
    leaves = (leaf for field in table.schema for leaf in _leaves(field.name, field.type))
    # Numbers with a point repeat too seldom for a dictionary to be worth it.
    coded = [path for path, kind in leaves if not pa.types.is_floating(kind)]
    pq.write_table(
        table,
        sink,
        row_group_size=group,
        compression="zstd",
        use_dictionary=coded,
        write_page_checksum=True,
    )
    return with_footer_seal(sink.getvalue().to_pybytes())


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the columns that Parquet makes of one, by their paths there."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path, kind
