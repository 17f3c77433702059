"""Some of the rows that learned, with the cells that were hidden, for rivals to be judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray
from vbmodels.features.imputation.hidden_cells import learning
from vbmodels.features.imputation.states import Completion, CompletionLocal
from vbmodels.features.table import FeatureBatch

MOST_ROWS = 2000
"""Rows of the whole table that are taken, about."""


@dataclass(frozen=True)
class Judged:
    """Rows with hidden cells, and what the mixture of the fit says of these.

    Parameters
    ----------
    codes
        [N, D] categories, -1 where missing or hidden.
    rows, columns, truth
        [H] places of the hidden cells and their categories.
    log_p
        [H] log probability that the mixture gives them.
    """

    codes: NDArray[np.int16]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    truth: NDArray[np.int16]
    log_p: FloatArray


def judged(q: Completion, batch: FeatureBatch, local: CompletionLocal, n_rows: float) -> Judged:
    """Return a partition's part of `MOST_ROWS` of the table's ``n_rows`` rows."""
    whole = learning(batch, q.share, q.seed, hide=True)
    share = min(q.share, MOST_ROWS / max(n_rows, 1.0))
    some = learning(batch, share, q.seed, hide=True)
    kept = np.isin(whole.row_id, some.row_id)[whole.rows]
    log_p = np.log(local.density[kept] @ q.weights)
    return Judged(some.codes, some.rows, some.columns, some.truth, log_p)


def together(parts: list[Judged]) -> Judged:
    """Join the parts of several partitions."""
    first = np.cumsum([0, *(len(part.codes) for part in parts)])
    return Judged(
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.rows + at for part, at in zip(parts, first, strict=False)]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.log_p for part in parts]),
    )
