"""Cells of a table beside the categories of all columns: indicators and softmax sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.batch import FeatureBatch


def indicators(codes: NDArray[np.int16], levels: IntArray) -> FloatArray:
    """Return 1 where a row has a category; [U, L]."""
    column = np.repeat(np.arange(len(levels)), levels)
    category = np.concatenate([np.arange(r) for r in levels])
    result: FloatArray = (codes[:, column] == category).astype(np.float64)
    return result


def cells_of(batch: FeatureBatch, rows: slice) -> tuple[FloatArray, FloatArray]:
    """Return the indicators [B, L] and which cells are there [B, D]."""
    codes = batch.codes[rows]
    return indicators(codes, batch.levels), (codes >= 0).astype(np.float64)


def normalised(
    log_p: FloatArray, values: FloatArray, asked: FloatArray, levels: IntArray
) -> FloatArray:
    """Return exp(values) / sum of exp(log_p) over each column's categories, 0 if missing."""
    column = np.repeat(np.arange(len(levels)), levels)
    total = _log_sums(log_p, levels)
    result: FloatArray = np.exp(values - total[:, column]) * asked[:, column]
    return result


def log_totals(log_p: FloatArray, levels: IntArray, asked: FloatArray) -> FloatArray:
    """log sum of exp over each column's categories, 0 where the cell is missing; [B, D]."""
    return _log_sums(log_p, levels) * asked


def _log_sums(log_p: FloatArray, levels: IntArray) -> FloatArray:
    """log sum of exp over each column's categories; [B, D]."""
    first = np.concatenate([[0], np.cumsum(levels)[:-1]])
    column = np.repeat(np.arange(len(levels)), levels)
    top = np.maximum.reduceat(log_p, first, axis=1)
    total = np.add.reduceat(np.exp(log_p - top[:, column]), first, axis=1)
    result: FloatArray = top + np.log(total)
    return result
