"""A Parquet file checked piece by piece: no more of it is held than a slab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from flows.data import storage

SLAB = 64 * 2**20
"""Bytes of a file, decoded, that are checked at once; a smaller file is one slab."""

ROWS = 2**20  # of a slab; a cell may be a word that is stored once for all rows
PARTS = 8  # in which a slab is read


def slabs(url: str, most: int | None = None) -> Iterator[tuple[int, pa.Table]]:
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
    if size <= SLAB and metadata.num_rows <= most:
        yield 0, storage.read_table(url)
        return
    # What a file says of its size is before its dictionaries are spelt out, so the rows that
    # are read are counted as they are in memory.
    rows = max(1, min(metadata.num_rows * SLAB // max(size, 1), most) // PARTS)
    yield from joined(storage.read_batches(url, rows), most)


def joined(batches: Iterable[pa.RecordBatch], most: int = ROWS) -> Iterator[tuple[int, pa.Table]]:
    """Join the batches of a file to slabs."""
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
