"""Which rows learn to fill missing cells, and which of their cells are hidden to judge by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.table import MISSING, FeatureBatch, signs_of

MOST_ROWS = 20_000
"""Rows that learn, about: what more of them would add is less than what the models differ by."""
HIDDEN = 0.08
"""Share of the cells that are hidden while the members learn for the first time."""
_TAKEN, _HIDDEN = 31, 32


@dataclass(frozen=True)
class Learning:
    """The rows of a partition that learn, each for itself.

    Parameters
    ----------
    codes
        [N, D] categories, -1 where missing or hidden.
    sign
        [N, J] answers.
    row_id
        [N] numbers of the rows in the whole table.
    count
        [N] rows that each row counts for.
    rows, columns, truth
        [H] places of the hidden cells among these rows, and their categories.
    """

    codes: NDArray[np.int16]
    sign: NDArray[np.int8]
    row_id: IntArray
    count: FloatArray
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    truth: NDArray[np.int16]


def learning(batch: FeatureBatch, share: float, seed: int, hide: bool) -> Learning:
    """Return the rows of a partition that learn; what is chosen hangs on row numbers alone.

    Parameters
    ----------
    batch
        The partition.
    share
        Share of the rows that learn.
    seed
        Of what is chosen.
    hide
        Whether cells are hidden.
    """
    lot: FloatArray = draw_uniform(row_keys(batch.row_id, seed, _TAKEN), 1)[:, 0]
    taken = np.flatnonzero(lot < share)
    codes, row_id = batch.codes[batch.row_of[taken]], batch.row_id[taken]
    hidden: BoolArray = np.zeros(codes.shape, bool)
    if hide:
        lots = draw_uniform(row_keys(row_id, seed, _HIDDEN), codes.shape[1])
        hidden = (lots < HIDDEN) & (codes != MISSING)
    rows, columns = np.nonzero(hidden)
    truth = codes[rows, columns]
    codes = np.where(hidden, np.int16(MISSING), codes)
    sign = signs_of(codes, batch.levels)
    return Learning(codes, sign, row_id, batch.row_count[taken], rows, columns, truth)
