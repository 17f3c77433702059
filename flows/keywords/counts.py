"""Counts of candidates (`vbmodels.keywords.candidate_counts`) as tables."""

from __future__ import annotations

import pyarrow as pa

from vbmodels.keywords.candidate_counts import Rows

COUNTS = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("documents", pa.int32(), nullable=False),
        pa.field("looked_at", pa.int32(), nullable=False),
        pa.field("labels", pa.int32(), nullable=False),
    ]
)


def rows_of(table: pa.Table) -> Rows:
    """Return a table's columns as arrays."""
    return Rows(*(table[name].to_numpy() for name in COUNTS.names))


def table_of(rows: Rows) -> pa.Table:
    """Return rows as a table."""
    columns = (getattr(rows, name) for name in COUNTS.names)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, COUNTS, strict=True)]
    return pa.table(arrays, schema=COUNTS)
