"""A Parquet file checked piece by piece: no more of it is held than a slab."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from flows.data import storage
from flows.data.row_faults import MAX_ROWS
from flows.faults import Fault

SLAB = 64 * 2**20
"""Bytes of a file, decoded, that are checked at once; a smaller file is one slab."""

ROWS = 2**20  # of a slab; a cell may be a word that is stored once for all rows
PARTS = 8  # in which a slab is read

_ROW = re.compile(r"\brow (\d+)\b")
_REST = re.compile(r"the same in (\d+) more rows")


def slabs(url: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield (number of its first row, rows) of every slab of a file."""
    metadata = storage.parquet_file(url).metadata
    size = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
    if size <= SLAB and metadata.num_rows <= ROWS:
        yield 0, storage.read_table(url)
        return
    # What a file says of its size is before its dictionaries are spelt out, so the rows that
    # are read are counted as they are in memory.
    rows = max(1, min(metadata.num_rows * SLAB // max(size, 1), ROWS) // PARTS)
    first, held, taken = 0, [], 0
    for batch in storage.read_batches(url, rows):
        held.append(batch)
        taken += batch.nbytes
        if taken > SLAB - SLAB // PARTS:
            table = pa.Table.from_batches(held)
            yield first, table
            first, held, taken = first + table.num_rows, [], 0
    if held:
        yield first, pa.Table.from_batches(held)


def joined_faults(found: Sequence[tuple[int, Sequence[Fault]]]) -> list[Fault]:
    """Join the faults of slabs to those of the file: by their rows in it, and as many.

    Parameters
    ----------
    found
        (first row, faults) of every slab, in order.
    """
    if len(found) == 1:
        return list(found[0][1])
    groups: dict[tuple[str | None, str | None], list[Fault]] = {}
    more: dict[tuple[str | None, str | None], int] = {}
    for first, faults in found:
        for fault in faults:
            key = (fault.column, fault.remedy)
            rest = _REST.fullmatch(fault.found)
            if rest:
                more[key] = more.get(key, 0) + int(rest[1])
            elif (own := _moved(fault, first)) not in groups.setdefault(key, []):
                groups[key].append(own)
    joined = []
    for key, own in groups.items():
        joined += own[:MAX_ROWS]
        count = more.get(key, 0) + len(own[MAX_ROWS:])
        if count:
            found_more = f"the same in {count} more rows"
            joined.append(replace(own[0], found=found_more, row=None))
    return joined


def _moved(fault: Fault, first: int) -> Fault:
    """Count rows from the start of the file, also where the text names another one."""
    if fault.row is None:
        return fault
    text = _ROW.sub(lambda match: f"row {int(match[1]) + first}", fault.found)
    return replace(fault, row=fault.row + first, found=text)
