"""Which rows of which files a partition of bags is made of, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from flows.data import partition, reading, storage
from flows.data.partition import Part, Slice
from flows.data.storage import InputFile
from flows.data.table import Table

MANY_SLICES = 16


def slices_of(
    files: Sequence[InputFile], places: Sequence[Sequence[tuple[int, int, int]]]
) -> tuple[Slice, ...]:
    """Join neighbouring rows of one file, in the order of files and rows."""
    slices: list[Slice] = []
    for i, start, stop in sorted(run for rows in places for run in rows):
        before = slices[-1] if slices else None
        if before is not None and (before.url, before.stop) == (files[i].url, start):
            slices[-1] = replace(before, stop=stop)
        else:
            slices.append(Slice(files[i].url, start, stop, files[i].fingerprint, files[i].size))
    return tuple(slices)


def read_rows(part: Part, table: Table) -> pa.Table:
    """Read a partition's rows; where they are scattered, all between the first and the last."""
    if len(part.slices) <= MANY_SLICES:
        return partition.read(part, table)
    tables = []
    for url in sorted({s.url for s in part.slices}):
        own = [s for s in part.slices if s.url == url]
        first = own[0].start
        given = storage.read_rows(url, first, own[-1].stop, table.in_files)
        rows = np.concatenate([np.arange(s.start, s.stop) for s in own]) - first
        tables.append(reading.read(table, reading.given(table, given.take(pa.array(rows)))))
    return pa.concat_tables(tables)
