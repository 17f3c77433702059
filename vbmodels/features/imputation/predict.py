"""What the members say of missing cells, from the draws that they keep.

Some of the rows that learned, with the cells that were hidden, to score baselines on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_features, row_keys
from vbmodels.features.ibp.predict import break_probabilities, fingerprints_of, missing_cells
from vbmodels.features.imputation.latent import class_shares, column_shares, draw_rows
from vbmodels.features.imputation.states import MEMBERS, Completion, CompletionLocal, learning
from vbmodels.features.table import FeatureBatch, unit_offsets

FIRST, SWEEPS = 6, 2
"""Draws of a row given the first kept draw, and given each of the others."""
PIECE = 500_000
"""Rows times units that are worked on at once, about."""
_BINARY, _OMEGA, _TRAITS = 41, 42, 43


def filled(q: Completion, batch: FeatureBatch) -> FloatArray:
    """Return P(category) of every missing cell of a partition, in the order of `missing_cells`.

    Rows that answered the same have the same probabilities, in the fit and in any later score.

    Returns
    -------
    cells
        [M, R], 0 beyond R_d.
    """
    rows, columns = missing_cells(batch)
    needed, place = np.unique(batch.row_of[rows], return_inverse=True)
    found = np.zeros((len(rows), int(q.levels.max())))
    for part, cells in in_pieces(place, len(needed), q):
        own = needed[part]
        said = said_of(
            q, batch.codes[own], batch.sign[own], place[cells] - part.start, columns[cells]
        )
        found[cells] = np.tensordot(q.weights, said, 1)
    return found


def in_pieces(
    place: NDArray[np.intp], n_rows: int, q: Completion
) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Yield few rows at a time, and which cells are theirs: memory does not follow the table.

    Parameters
    ----------
    place
        [H] row of each cell to predict, from 0 to ``n_rows`` - 1.
    n_rows
        N.
    q
        The members, by whose units a piece is measured.
    """
    size = int(np.clip(PIECE // q.kept.weights.shape[1], 64, 4096))
    order = np.argsort(place, kind="stable")
    edges = np.append(np.arange(0, n_rows, size), n_rows)
    ends = np.searchsorted(place[order], edges)
    for i in range(len(edges) - 1):
        yield slice(int(edges[i]), int(edges[i + 1])), order[ends[i] : ends[i + 1]]


def said_of(
    q: Completion,
    codes: NDArray[np.int16],
    sign: NDArray[np.int8],
    place: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> FloatArray:
    """Return what each member says of cells.

    Parameters
    ----------
    q
        The members.
    codes, sign
        [N, D] cells of rows and [N, J] their answers.
    place, columns
        [H] row and column of each cell to predict.

    Returns
    -------
    said
        [M, H, R] P(category), 0 beyond R_d.
    """
    answers = fingerprints_of(codes)
    said = np.zeros((len(MEMBERS), len(place), int(q.levels.max())))
    if not len(place):
        return said
    draws = len(q.kept.weights)
    cells = _Cells.of(place, columns, q.levels)
    z = np.zeros((len(codes), q.kept.log_odds.shape[1]), np.int8)
    u = np.zeros((len(codes), q.kept.loadings.shape[2] - 1))
    for s in range(draws):
        weights, loadings = q.kept.weights[s], q.kept.loadings[s]
        for i in range(SWEEPS if s else FIRST):
            keys = [row_keys(answers, q.seed, s, i, word) for word in (_BINARY, _OMEGA, _TRAITS)]
            draw_features(sign, weights, q.kept.log_odds[s], z, keys[0])
            u, _ = draw_rows(loadings, sign, u, keys[1], keys[2])
        cells.add(said[0], weights[:, 0] + z @ weights[:, 1:].T, draws)
        cells.add(said[1], loadings[:, 0] + u @ loadings[:, 1:].T, draws)
    for m, shares in zip((2, 3), class_shares(q.classes, codes, q.levels), strict=True):
        said[m] = _picked(shares, place, q.levels, columns)
    shares = column_shares(q.classes, q.levels)[None]
    said[4] = _picked(shares, np.zeros_like(place), q.levels, columns)
    return said


@dataclass(frozen=True)
class _Cells:
    """Cells column by column: categories, first unit, which cells and their rows."""

    columns: list[tuple[int, int, NDArray[np.intp], NDArray[np.intp]]]

    @classmethod
    def of(cls, place: NDArray[np.intp], columns: NDArray[np.intp], levels: IntArray) -> _Cells:
        first, found = unit_offsets(levels), []
        for d in np.unique(columns):
            own = np.flatnonzero(columns == d)
            found.append((int(levels[d]), int(first[d]), own, place[own]))
        return cls(found)

    def add(self, said: FloatArray, psi: FloatArray, draws: int) -> None:
        """Add one draw of ``draws`` to what is said [H, R], at the rows' log-odds [N, J]."""
        for r, first, own, rows in self.columns:
            said[own, :r] += break_probabilities(psi[rows, first : first + r - 1]) / draws


def _picked(
    shares: FloatArray, place: NDArray[np.intp], levels: IntArray, columns: NDArray[np.intp]
) -> FloatArray:
    """Return the categories [H, R] of each cell's own column out of those of all columns [N, C]."""
    first = np.concatenate([[0], np.cumsum(levels)])
    found = np.zeros((len(columns), int(levels.max())))
    for d in np.unique(columns):
        own = np.flatnonzero(columns == d)
        found[own, : levels[d]] = shares[place[own], first[d] : first[d + 1]]
    return found


MOST_ROWS = 2000
"""Rows of the whole table that are taken, about."""


@dataclass(frozen=True)
class HiddenCells:
    """Rows with hidden cells, and what the mixture of the fit says of these.

    Parameters
    ----------
    codes
        [N, D] categories, -1 where missing or hidden.
    rows, columns, truth
        [H] places of the hidden cells and their categories.
    log_p
        [H] log probability that the mixture gives them.
    row_id
        [N] numbers of the rows in the whole table.
    """

    codes: NDArray[np.int16]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    truth: NDArray[np.int16]
    log_p: FloatArray
    row_id: IntArray


def hidden_cells(
    q: Completion, batch: FeatureBatch, local: CompletionLocal, n_rows: float
) -> HiddenCells:
    """Return a partition's part of `MOST_ROWS` of the table's ``n_rows`` rows."""
    whole = learning(batch, q.share, q.seed, hide=True)
    some = learning(batch, min(q.share, MOST_ROWS / max(n_rows, 1.0)), q.seed, hide=True)
    kept = np.isin(whole.row_id, some.row_id)[whole.rows]
    log_p = np.log(local.density[kept] @ q.weights)
    return HiddenCells(some.codes, some.rows, some.columns, some.truth, log_p, some.row_id)


def together(parts: list[HiddenCells]) -> HiddenCells:
    """Join the parts of several partitions."""
    first = np.cumsum([0, *(len(part.codes) for part in parts)])
    return HiddenCells(
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.rows + at for part, at in zip(parts, first, strict=False)]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.log_p for part in parts]),
        np.concatenate([part.row_id for part in parts]),
    )
