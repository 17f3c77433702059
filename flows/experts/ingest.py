"""Rows of numbers with a label as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flows.experts.schema import ROWS_IN
from vbmodels.core.state import FloatArray, IntArray

ID, LABEL = "id", "label"


def columns_of(table: pa.Table) -> list[str]:
    """Return the names of the columns that predict."""
    return ROWS_IN.others_in(table.column_names)


def numbers_of(table: pa.Table, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return x [N, D], and t [N]: 1 and -1 for the labels 1 and 0, 0 for null."""
    x = np.column_stack([table[name].to_numpy() for name in columns])
    label = table[LABEL].to_numpy()
    return x, np.where(np.isnan(label), 0.0, 2.0 * label - 1.0)


def keys_of(names: Sequence[str]) -> IntArray:
    """Return a number of each row's own, from its name alone; [N]."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
