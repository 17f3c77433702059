"""Columns brought to mean 0 and standard deviation 1, by sums over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.faults import Fault, InputError
from vbflows_logistic.model import Rows
from vbmodels.core.state import FloatArray, State, from_bytes, to_bytes


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


def moments(url: str) -> tuple[int, FloatArray, FloatArray]:
    """Return rows, mean and sum of squares about it of a partition's columns."""
    x = from_bytes(storage.read_bytes(url), Rows).x
    mean = x.mean(axis=0) if len(x) else np.zeros(x.shape[1])
    return len(x), mean, ((x - mean) ** 2).sum(axis=0)


def merged(parts: Sequence[tuple[int, FloatArray, FloatArray]]) -> Scale:
    """Return the scale of all partitions together (Chan, Golub and LeVeque 1979), in their order.

    Raises
    ------
    InputError
        If partitions have different numbers of columns.
    """
    widths = sorted({len(mean) for _, mean, _ in parts})
    if len(widths) > 1:
        expected, found = (
            "the same number of features in every file",
            f"{widths[0]} and {widths[-1]}",
        )
        raise InputError([Fault("the rows", expected, found)])
    rows, mean, squares = parts[0]
    for n, other, more in parts[1:]:
        gap = other - mean
        squares = squares + more + gap**2 * (rows * n / (rows + n))
        mean = mean + gap * (n / (rows + n))
        rows += n
    sd = np.sqrt(squares / rows)
    return Scale(mean, np.where(sd > 0.0, sd, 1.0))


def scaled(urls: tuple[str, str], scale: str) -> None:
    """Write a partition with its columns scaled, behind a column of ones."""
    source, target = urls
    by = from_bytes(storage.read_bytes(scale), Scale)
    rows = from_bytes(storage.read_bytes(source), Rows)
    if rows.x.shape[1] != len(by.mean):
        expected, found = f"{len(by.mean)} features, as the fit had", f"{rows.x.shape[1]}"
        raise InputError([Fault("the rows", expected, found)])
    x = np.column_stack([np.ones(len(rows.x)), (rows.x - by.mean) / by.sd])
    storage.write_bytes(target, to_bytes(Rows(x, rows.label)))


def scale_url(paths: RunPaths) -> str:
    """Where a run keeps the scale of its columns: scores of new rows need it."""
    return storage.join(paths.root, "posterior", "scale.npz")
