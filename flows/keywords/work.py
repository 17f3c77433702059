"""What a run of keywords keeps of a partition while it works: where, and in which form.

Arrays are stored with whole numbers as short as they are, and read back to 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from flows import storage
from flows.records import json_files
from flows.records.runs import RunPaths
from flows.records.states import read_state
from vbmodels.core.state import State, to_bytes
from vbmodels.text.reading import Report
from vbmodels.text.result_rows import ListedPhrase

S = TypeVar("S", bound=State)


class AboutPart(json_files.Form):
    """The contents of ``about/part-*.json``.

    Documents with a candidate word, and those of them that are copies of others; rows of the tables
    of counts; known keyphrases that were found, and those of them that have several words;
    documents for whose keywords nobody has looked, copies left out, and complete ones.
    """

    documents: int
    copies: int = 0
    rows: dict[str, int]
    known: int
    several: int
    unlabelled: int
    complete: int
    report: Report


_LISTED = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("term", pa.string(), nullable=False),
        pa.field("stem", pa.string(), nullable=False),
        pa.field("forms", pa.list_(pa.string()), nullable=False),
        pa.field("words", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("start", pa.list_(pa.int64()), nullable=False),
        pa.field("size", pa.list_(pa.int64()), nullable=False),
    ]
)


def write_listed(listed: Sequence[ListedPhrase], index: int, paths: RunPaths) -> None:
    """Write a partition's known keyphrases that are no candidates."""
    rows = [phrase._asdict() for phrase in listed]
    storage.write_table(paths.part("listed", index), pa.Table.from_pylist(rows, schema=_LISTED))


def read_listed(index: int, paths: RunPaths) -> list[ListedPhrase]:
    """Return what `write_listed` wrote."""
    rows = storage.read_table(paths.part("listed", index)).to_pylist()
    return [ListedPhrase(**row) for row in rows]


def about_url(paths: RunPaths, index: int) -> str:
    """Return the place of a partition's sizes."""
    return paths.part("about", index, "json")


def write_narrow(url: str, state: State) -> None:
    """Write a state whose signed whole numbers take 8 to 64 bits, as the largest needs."""
    storage.write_bytes(url, to_bytes(_changed(state, _narrowed)))


def read_wide(url: str, kind: type[S]) -> S:
    """Return a state that `write_narrow` wrote, with whole numbers of 64 bits."""
    return _changed(read_state(url, kind), lambda values: values.astype(np.int64))


def _changed(state: S, change: Any) -> S:
    arrays = {f.name: getattr(state, f.name) for f in fields(state)}
    changed = {
        name: change(value)
        for name, value in arrays.items()
        if isinstance(value, np.ndarray) and value.dtype.kind == "i"
    }
    return replace(state, **changed)


def _narrowed(values: np.ndarray) -> np.ndarray:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return values.astype(np.result_type(_signed(low), _signed(high)))


def _signed(value: int) -> np.dtype:
    """Return the shortest signed type that holds ``value``."""
    return np.min_scalar_type(-value - 1 if value >= 0 else value)
