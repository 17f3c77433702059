"""Columns brought to mean 0 and standard deviation 1, by sums over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.faults import Fault, InputError
from vbmodels.core.moments import Moments
from vbmodels.core.state import FloatArray, State, to_bytes

R = TypeVar("R", bound=State)


@dataclass(frozen=True)
class Scale(State):
    """Mean and standard deviation of every column, [F] each; 1 where a column is constant."""

    mean: FloatArray
    sd: FloatArray


def features_of(table: pa.Table, name: str) -> FloatArray:
    """Return a column of lists as an array [N, F].

    Raises
    ------
    InputError
        If a row has another number of features than the first.
    """
    lists = table["features"].combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy())
    wide = int(lengths[0]) if len(lengths) else 0
    other = np.flatnonzero(lengths != wide)
    if len(other):
        row = table["id"][int(other[0])].as_py()
        expected, found = f"{wide} features in every row", f"{lengths[other[0]]} in row {row}"
        raise InputError([Fault(name, expected, found, remedy="give every row the same columns")])
    return lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, wide)


def moments(url: str, kind: type[R]) -> Moments:
    """Return the moments of a partition's columns, ``x`` of its rows."""
    rows: Any = read_state(url, kind)
    return Moments.of(rows.x)


def merged(parts: Sequence[Moments]) -> Scale:
    """Return the scale of all partitions together, added in their order.

    Raises
    ------
    InputError
        If partitions have different numbers of columns.
    """
    widths = sorted({len(one.mean) for one in parts})
    if len(widths) > 1:
        expected = "the same number of features in every file"
        raise InputError([Fault("the rows", expected, f"{widths[0]} and {widths[-1]}")])
    whole = reduce(add, parts)
    sd = whole.sd()
    return Scale(whole.mean, np.where(np.isfinite(sd), sd, 1.0))


def scaled(urls: tuple[str, str], scale: str, kind: type[R], constant: bool = False) -> None:
    """Write a partition with its columns scaled, behind a column of ones if so asked.

    Raises
    ------
    InputError
        If it has another number of columns than the scale.
    """
    source, target = urls
    by = read(scale)
    rows: Any = read_state(source, kind)
    if rows.x.shape[1] != len(by.mean):
        expected, found = f"{len(by.mean)} features, as the fit had", f"{rows.x.shape[1]}"
        raise InputError([Fault("the rows", expected, found)])
    x = (rows.x - by.mean) / by.sd
    if constant:
        x = np.column_stack([np.ones(len(x)), x])
    storage.write_bytes(target, to_bytes(replace(rows, x=x)))


def read(url: str) -> Scale:
    """Return a scale that was written."""
    return read_state(url, Scale)


def scale_url(paths: RunPaths) -> str:
    """Where a run keeps the scale of its columns: scores of new rows need it."""
    return storage.join(paths.root, "posterior", "scale.npz")
