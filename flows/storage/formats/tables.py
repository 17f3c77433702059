"""Tables: written as Parquet whole or not at all, read in pieces no larger than what is needed.

What is read may be in another format: see `flows.storage.formats.converted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from flows.storage.errors import TransientStorageError, storage_errors
from flows.storage.formats.converted import as_parquet, small_text
from flows.storage.formats.row_groups import LARGE, Decoded, decoded
from flows.storage.objects.access import arrow, filesystem
from flows.storage.objects.contents import listed_file, small_content
from flows.storage.objects.retry import expect, with_retry
from flows.storage.objects.seal import (
    Sealed,
    check_footer,
    footer_size,
    is_table,
    is_working,
    with_footer_seal,
)
from flows.storage.objects.store import read_bytes, write_bytes

BUFFER = 4 * 2**20  # bytes of a column that are fetched at once from a large row group
_FOOTER = 2**16  # bytes of a file's end, in which most footers are


def parquet_file(url: str, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a table for reading, by its footer where that is known.

    A large row group is fetched piece by piece.
    """
    small = small_text(url)
    if small is not None:
        return _file(pa.BufferReader(small), metadata=footer)
    listed, url = url, as_parquet(url)
    if url == listed and (content := small_content(url)) is not None:
        with storage_errors("read", url):
            return _file(pa.BufferReader(content), metadata=footer)

    def opened() -> pq.ParquetFile:
        with storage_errors("read", url):
            fs, path = arrow(url)
            source = fs.open_input_file(path)
            known = footer or (_checked_footer(source, url) if is_table(url) else None)
            file = _file(source, metadata=known, pre_buffer=True)
            if max(_sizes(file.metadata), default=0) <= LARGE:
                return file
            return _file(source, metadata=file.metadata, pre_buffer=False, buffer_size=BUFFER)

    return with_retry("read", url, opened)


_file = partial(pq.ParquetFile, page_checksum_verification=True)


def _checked_footer(source: pa.NativeFile, url: str) -> pq.FileMetaData:
    """Return the footer of a published table, which pages' checksums leave out."""
    size = source.size()
    end = source.read_at(min(size, _FOOTER), max(size - _FOOTER, 0))
    if (needed := footer_size(end)) > len(end):
        end = source.read_at(min(size, needed), max(size - needed, 0))
    check_footer(end, url)
    return pq.read_metadata(pa.BufferReader(end))


def _whole(url: str) -> pq.ParquetFile:
    """Open a table to read all of it; one that is sealed is checked."""
    if is_working(url):
        return pq.ParquetFile(pa.BufferReader(read_bytes(url)))
    return parquet_file(url)


def _sizes(metadata: pq.FileMetaData) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        yield metadata.row_group(number).total_byte_size


def read_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one table whole."""

    def read() -> pa.Table:
        with storage_errors("read", url):
            file = _whole(url)
            expect(sum(_sizes(file.metadata)))
            return file.read(columns=list(columns) if columns is not None else None)

    return with_retry("read", url, read)


def read_rows(url: str, start: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows ``start`` to ``stop`` of a table; row groups outside are not touched."""
    file = listed_file(url)
    held, version = (Decoded(), "") if file is None else (decoded, file.fingerprint)

    def read() -> pa.Table:
        with storage_errors("read", url):
            return held.rows(url, version, partial(parquet_file, url), start, stop, columns)

    return with_retry("read", url, read)


def read_overlapping(url: str, column: str, low: int, high: int) -> pa.Table:
    """Read the row groups of a table whose numbers in a column may be from ``low`` to ``high``."""

    def read() -> pa.Table:
        with storage_errors("read", url):
            sealed = is_working(url)
            file = pq.ParquetFile(Sealed(*filesystem(url), url)) if sealed else parquet_file(url)
            place = file.schema_arrow.get_field_index(column)
            groups = []
            for number in range(file.metadata.num_row_groups):
                bounds = file.metadata.row_group(number).column(place).statistics
                unknown = bounds is None or not bounds.has_min_max
                if unknown or (bounds.min <= high and bounds.max >= low):
                    groups.append(number)
            expect(sum(file.metadata.row_group(n).total_byte_size for n in groups))
            return file.read_row_groups(groups, use_threads=False)

    return with_retry("read", url, read)


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

    while (found := with_retry("read", url, following)) is not None:
        group, done, batch = found
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
    for at in range(group, file.metadata.num_row_groups):
        with storage_errors("read", url):
            expect(min(file.metadata.row_group(at).total_byte_size, LARGE))
            for number, batch in enumerate(file.iter_batches(rows, [at], wanted), 1):
                if at > group or number > done:
                    yield at, number, batch


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
