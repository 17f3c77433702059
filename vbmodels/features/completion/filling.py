"""What the members say of missing cells, from the draws that they keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.batch import FeatureBatch
from vbmodels.features.completion.classes import FEW, MANY, class_shares, column_shares
from vbmodels.features.completion.continuous import draw_rows
from vbmodels.features.completion.states import Completion
from vbmodels.features.gibbs import missing_cells
from vbmodels.features.gibbs_kernels import draw_features, row_keys
from vbmodels.features.predict import category_probabilities
from vbmodels.features.yardstick import fingerprints_of

FIRST, SWEEPS = 6, 2
"""Draws of a row given the first kept draw, and given each of the others."""
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
    asked, place = np.unique(batch.row_of[rows], return_inverse=True)
    said = said_of(q, batch.codes[asked], batch.sign[asked], place, columns)
    return np.asarray(np.tensordot(q.weights, said, 1))


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
        [H] row and column of each cell that is asked about.

    Returns
    -------
    said
        [M, H, R] P(category), 0 beyond R_d.
    """
    answers = fingerprints_of(codes)
    said = np.zeros((5, len(place), int(q.levels.max())))
    if not len(place):
        return said
    draws = len(q.kept.weights)
    z = np.zeros((len(codes), q.kept.log_odds.shape[1]), np.int8)
    u = np.zeros((len(codes), q.kept.loadings.shape[2] - 1))
    for s in range(draws):
        weights, loadings = q.kept.weights[s], q.kept.loadings[s]
        for i in range(SWEEPS if s else FIRST):
            keys = [row_keys(answers, q.seed, s, i, word) for word in (_BINARY, _OMEGA, _TRAITS)]
            draw_features(sign, weights, q.kept.log_odds[s], z, keys[0])
            u, _ = draw_rows(loadings, sign, u, keys[1], keys[2])
        for m, psi in enumerate(
            (weights[:, 0] + z @ weights[:, 1:].T, loadings[:, 0] + u @ loadings[:, 1:].T)
        ):
            said[m] += category_probabilities(psi[place], q.levels, columns) / draws
    for m, size in ((2, FEW), (3, MANY)):
        said[m] = _picked(class_shares(q.classes, codes, q.levels, size)[place], q.levels, columns)
    shares = np.broadcast_to(column_shares(q.classes, q.levels), (len(place), int(q.levels.sum())))
    said[4] = _picked(shares, q.levels, columns)
    return said


def _picked(shares: FloatArray, levels: IntArray, columns: NDArray[np.intp]) -> FloatArray:
    """Return the categories [H, R] of each row's own column out of those of all columns [H, C]."""
    first = np.concatenate([[0], np.cumsum(levels)])
    found = np.zeros((len(columns), int(levels.max())))
    for d in np.unique(columns):
        rows = np.flatnonzero(columns == d)
        found[rows, : levels[d]] = shares[rows, first[d] : first[d + 1]]
    return found
