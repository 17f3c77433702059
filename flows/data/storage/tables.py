"""Parquet files: written whole or not at all, read in pieces no larger than what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from flows.data.storage import retry
from flows.data.storage.access import arrow
from flows.data.storage.errors import (
    StorageError,
    TransientStorageError,
    storage_errors,
)
from flows.data.storage.objects import placed, read_bytes, write_bytes
from flows.data.storage.retry import persistent, waited
from flows.data.storage.urls import is_local

LARGE = 64 * 2**20  # bytes of a row group that is no longer fetched as one
BUFFER = 4 * 2**20  # bytes of a column that are fetched at once from a large row group
CSV_BLOCK = 2**20  # bytes of a CSV file that are parsed at once; Arrow reads some 30 ahead
SMALL = 8 * 2**20  # bytes of a Parquet file that is fetched whole
PIECE = 8 * 2**20  # bytes decoded at once where most of them may not be wanted


def parquet_file(url: str) -> pq.ParquetFile:
    """Open a Parquet file for reading; a large row group is fetched piece by piece."""

    def opened() -> pq.ParquetFile:
        with storage_errors("read", url):
            fs, path = arrow(url)
            source = fs.open_input_file(path)
            file = pq.ParquetFile(source, pre_buffer=True)
            if max(_sizes(file.metadata), default=0) <= LARGE:
                return file
            return pq.ParquetFile(
                source, metadata=file.metadata, pre_buffer=False, buffer_size=BUFFER
            )

    return persistent(is_local(url), opened)


def _sizes(metadata: pq.FileMetaData) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        yield metadata.row_group(number).total_byte_size


def read_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one Parquet file whole."""

    def read() -> pa.Table:
        with storage_errors("read", url):
            return parquet_file(url).read(columns=list(columns) if columns is not None else None)

    return persistent(is_local(url), read)


def read_rows(
    url: str, start: int, stop: int, columns: Sequence[str] | None = None, size: int = 0
) -> pa.Table:
    """Read rows ``start`` to ``stop`` of a Parquet file; row groups outside are not touched.

    Parameters
    ----------
    size
        Bytes of the file, where they are known: a small one comes with one request.
    """

    def read() -> pa.Table:
        with storage_errors("read", url):
            small = 0 < size <= SMALL and not is_local(url)
            return _rows(_in_memory(url) if small else parquet_file(url), start, stop, columns)

    return persistent(is_local(url), read)


def _in_memory(url: str) -> pq.ParquetFile:
    """Fetch a small file whole: asking for its size and its footer first would cost more."""
    return pq.ParquetFile(pa.BufferReader(read_bytes(url)))


def _rows(file: pq.ParquetFile, start: int, stop: int, columns: Sequence[str] | None) -> pa.Table:
    names = file.schema_arrow.names
    wanted = names if columns is None else [name for name in columns if name in names]
    groups, first, before = [], 0, 0
    for number, size in enumerate(_lengths(file.metadata)):
        if before < stop and before + size > start:
            first = first if groups else before
            groups.append(number)
        before += size
    size = sum(file.metadata.row_group(g).total_byte_size for g in groups)
    if size <= LARGE:
        return file.read_row_groups(groups, columns=wanted).slice(start - first, stop - start)
    kept, at = [], first
    rows = sum(file.metadata.row_group(g).num_rows for g in groups)
    for batch in file.iter_batches(max(1, rows * PIECE // size), row_groups=groups, columns=wanted):
        low, high = max(start - at, 0), min(stop - at, batch.num_rows)
        if low < high:
            kept.append(batch.slice(low, high - low))
        at += batch.num_rows
        if at >= stop:
            break
    schema = pa.schema([file.schema_arrow.field(name) for name in wanted])
    return pa.Table.from_batches(kept, schema=kept[0].schema if kept else schema)


def _lengths(metadata: pq.FileMetaData) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        yield metadata.row_group(number).num_rows


def row_count(url: str) -> int:
    """Return the number of rows of a Parquet file, from its footer."""
    return int(parquet_file(url).metadata.num_rows)


def read_batches(
    url: str, rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file as record batches of at most ``rows`` rows.

    One row group is in memory at a time, and of a large one only a part. When an object
    store stops answering, reading goes on where it was.
    """
    group, done, pauses = 0, 0, retry.CALL.pauses()
    file = parquet_file(url)
    while group < file.metadata.num_row_groups:
        try:
            for number, batch in enumerate(_group(url, file, group, rows, columns)):
                if number >= done:
                    done, pauses = number + 1, retry.CALL.pauses()
                    yield batch
        except TransientStorageError:
            if is_local(url) or not waited(pauses):
                raise
            file = parquet_file(url)
        else:
            group, done = group + 1, 0


def _group(
    url: str, file: pq.ParquetFile, group: int, rows: int, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    names = file.schema_arrow.names
    wanted = None if columns is None else [name for name in columns if name in names]
    with storage_errors("read", url):
        yield from file.iter_batches(rows, row_groups=[group], columns=wanted)


def csv_batches(
    url: str, null_values: Sequence[str], start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Read rows ``start`` to ``stop`` of a CSV file as text, a piece of it at a time.

    A file has no index of its rows, so it is read from its beginning. There is at least one
    batch, which may be empty. When an object store stops answering, it is read again up to
    where it was.
    """
    done, pauses, first = start, retry.CALL.pauses(), True
    while True:
        try:
            for batch in _csv_from(url, null_values, done, stop):
                if first or batch.num_rows:
                    done, pauses, first = done + batch.num_rows, retry.CALL.pauses(), False
                    yield batch
        except TransientStorageError:
            if is_local(url) or not waited(pauses):
                raise
        else:
            return


def _csv_from(
    url: str, null_values: Sequence[str], start: int, stop: int | None
) -> Iterator[pa.RecordBatch]:
    at = 0
    with _csv(url, null_values) as reader:
        yield pa.RecordBatch.from_pylist([], schema=reader.schema)
        while stop is None or at < stop:
            with storage_errors("read", url):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except pa.ArrowInvalid as error:
                    raise _not_csv(url, error) from error
            low = max(start - at, 0)
            high = batch.num_rows if stop is None else min(stop - at, batch.num_rows)
            at += batch.num_rows
            if low < high:
                yield batch.slice(low, high - low)


def _csv(url: str, null_values: Sequence[str]) -> pc.CSVStreamingReader:
    """Open a CSV file, every column as text."""
    read = pc.ReadOptions(block_size=CSV_BLOCK)
    lines = pc.ParseOptions(newlines_in_values=True)

    def opened() -> pc.CSVStreamingReader:
        with storage_errors("read", url):
            fs, path = arrow(url)
            try:
                with (
                    fs.open_input_stream(path) as stream,
                    pc.open_csv(stream, read, lines) as reader,
                ):
                    names = reader.schema.names
                _refuse_separators(url, names)
                # Where there is one column only, an empty line is a missing cell.
                lines.ignore_empty_lines = len(names) > 1
                convert = pc.ConvertOptions(
                    null_values=list(null_values),
                    strings_can_be_null=True,
                    column_types=dict.fromkeys(names, pa.string()),
                )
                reader = pc.open_csv(fs.open_input_stream(path), read, lines, convert)
                if reader.schema.names != names:
                    raise StorageError(
                        f"cannot read {url} as CSV: expected the names of the columns in its first "
                        "line, found an empty one; remove it"
                    )
                return reader
            except pa.ArrowInvalid as error:
                raise _not_csv(url, error) from error

    return persistent(is_local(url), opened)


def _refuse_separators(url: str, names: Sequence[str]) -> None:
    """Refuse a table whose columns are set apart by something else than commas."""
    found = next((mark for mark in (";", "\t") if len(names) == 1 and mark in names[0]), None)
    if found:
        raise StorageError(
            f"cannot read {url} as CSV: expected commas between columns, found "
            f"{'semicolons' if found == ';' else 'tabs'} and one column; write it with commas"
        )


def _not_csv(url: str, error: pa.ArrowInvalid) -> StorageError:
    return StorageError(f"cannot read {url} as CSV: {error}")


def write_table(url: str, table: pa.Table) -> None:
    """Write one Parquet file, whole or not at all."""
    if is_local(url):
        with storage_errors("write", url), placed(url) as partial:
            pq.write_table(table, partial, compression="zstd")
        return
    # One request, so that a failure half-way leaves no object; a table is a partition's at most.
    write_bytes(url, table_bytes(table))


def table_bytes(table: pa.Table) -> bytes:
    """Return the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data
