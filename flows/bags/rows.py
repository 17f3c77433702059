"""Which rows of which files a partition of bags is made of, and how they are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from flows.data.partition import Part, Slice, read_slice
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


def rows_by_file(part: Part, table: Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows that a partition has of each file, as the file has them.

    Where they are scattered, all between the first and the last are read.
    """
    many = len(part.slices) > MANY_SLICES
    for url, group in itertools.groupby(part.slices, key=lambda s: s.url):
        own = list(group)
        if not many:
            yield url, pa.concat_tables([read_slice(s, table) for s in own])
            continue
        first = own[0].start
        given = read_slice(replace(own[0], stop=own[-1].stop), table)
        rows = np.concatenate([np.arange(s.start, s.stop) for s in own]) - first
        yield url, given.take(pa.array(rows))
