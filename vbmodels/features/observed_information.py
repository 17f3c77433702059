"""How unsure weights are where it is not known which rows have a feature.

q(weights) has the precision prior + sum_n E[omega] E[z z']: it takes features as known to their
probabilities, and omega of the Jaakkola-Jordan bound is above the curve of the likelihood. Near
the mode the posterior of theta, all units' weights and the log odds of the features, has by Louis
(1982) the precision

    prior + sum_n E[sigma'(psi_nj) z_n z_n'] - sum_n Cov[score_n],
    score_nj = (y_nj - sigma(psi_nj)) z_n,    score_nk = z_nk - pi_k,

with the covariance over z_n. Its first order under independent z_nk is
sum_k nu_nk (1 - nu_nk) g_nk g_nk', g_nk the change of the score with z_nk. What q counts too much,

    lost = sum_n E[omega - sigma'] z_n z_n' + Cov[score_n],

is a sum over rows. Standard deviations of what a feature does follow by the delta method at the
mean row, with at most `LARGEST` of the information in any direction lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from vbmodels.core import linalg
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.features.contrasts import places
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.ibp.model import best_omega, with_one
from vbmodels.features.moment_kernels import packed_moments
from vbmodels.features.table import signs_of, unit_offsets

MOST = 800
"""Weights and features together; of more the matrix is not made."""
LARGEST = 0.95
"""Share of the information in any direction that may be lost."""
DRAWS, CHANGES = 16, 2
"""Draws of the rows' features for the curve, and for the changes of the score."""
SURE = 1e-3
"""Rows whose nu (1 - nu) is below that are taken as sure."""
_STREAM = 13


def lost_information(
    nu: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    codes: NDArray[np.integer],
    levels: IntArray,
    row_id: IntArray,
    count: FloatArray,
) -> FloatArray | None:
    """Return ``lost`` [D, D] of some rows, D = J (F + 1) + F; None for more than `MOST`.

    Parameters
    ----------
    nu
        [N, F] probabilities of the features.
    mean, covariance
        [J, F + 1] and [J, F + 1, F + 1] of biases and weights.
    codes, levels
        [N, D] categories, -1 where missing, and how many each column has.
    row_id, count
        [N] numbers of the rows, and for how many each counts.
    """
    (units, size), features = mean.shape, nu.shape[1]
    total = units * size + features
    if total > MOST:
        return None
    sign = signs_of(codes, levels)
    second = linalg.pack(covariance + mean[:, :, None] * mean[:, None, :])
    omega = best_omega(nu, sign, second) * count[:, None]
    excess = omega.T @ packed_moments(with_one(nu))
    lost = np.zeros((total, total))
    doubt, uniform = nu * (1.0 - nu), draw_uniform(row_keys(row_id, _STREAM), features)
    for s in range(DRAWS):
        drawn = (uniform + s / DRAWS) % 1.0 < nu
        z = with_one(drawn.astype(np.float64))
        on = expit(z @ mean.T)
        own = on * (1.0 - on) * (sign != 0) * count[:, None]
        excess -= own.T @ packed_moments(z) / DRAWS
        for k in range(features if s % (DRAWS // CHANGES) == 0 else 0):
            rows = np.flatnonzero(doubt[:, k] > SURE)
            change = np.zeros((len(rows), total))
            change[:, : units * size] = _score_change(z[rows], k + 1, mean, sign[rows])
            change[:, units * size + k] = 1.0
            lost += (change * (doubt[rows, k] * count[rows] / CHANGES)[:, None]).T @ change
    place = np.arange(units * size).reshape(units, size)
    lost[place[:, :, None], place[:, None, :]] += linalg.unpack(excess)
    return lost


def _score_change(z: FloatArray, k: int, mean: FloatArray, sign: NDArray[np.int8]) -> FloatArray:
    """Return by how much a row's score [N, J (F + 1)] differs with z_k = 1 from that with 0."""
    scores = []
    for value in (1.0, 0.0):
        own = z.copy()
        own[:, k] = value
        residual = ((sign > 0) - expit(own @ mean.T)) * (sign != 0)
        scores.append((residual[:, :, None] * own[:, None, :]).reshape(len(z), mean.size))
    return np.asarray(scores[0] - scores[1])


def contrast_covariances(
    lost: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    share: FloatArray,
    n_rows: float,
    levels: IntArray,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield for every feature the covariance [C, C] of its contrasts p1 - p0, by q and whole.

    Parameters
    ----------
    lost
        Of all rows.
    mean, covariance
        As above.
    share
        [F] pi.
    n_rows
        N.
    levels
        [D] how many categories each column has.
    """
    (units, size), features = mean.shape, len(share)
    values, vectors = np.linalg.eigh(covariance)
    place = np.arange(units * size).reshape(units, size)
    root = np.zeros_like(lost)
    own = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    root[place[:, :, None], place[:, None, :]] = own
    sticks = np.arange(units * size, len(lost))
    root[sticks, sticks] = (n_rows * share * (1.0 - share) + 1.0) ** -0.5
    gone, axes = np.linalg.eigh(root.T @ lost @ root)
    left = 1.0 - np.clip(gone, 0.0, LARGEST)
    passed, stops = _steps(levels)
    for k in range(features):
        gradient = np.zeros((len(passed), len(lost)))
        for value, sign in ((1.0, 1.0), (0.0, -1.0)):
            z = np.concatenate([[1.0], share])
            z[k + 1] = value
            psi = mean @ z
            chance = np.exp(passed @ log_expit(psi) + stops @ log_expit(-psi))
            slope = chance[:, None] * (passed * expit(-psi) - stops * expit(psi))
            moved = (slope[:, :, None] * z).reshape(len(passed), -1)
            gradient[:, : units * size] += sign * moved
        half = gradient @ root
        along = half @ axes
        yield half @ half.T, (along / left) @ along.T


def _steps(levels: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return the units that each category goes on at, and the one where it stops; [C, J]."""
    column, category = places(levels)
    first, unit = unit_offsets(levels), np.arange(int(np.sum(levels - 1)))
    own = (unit >= first[column][:, None]) & (unit < first[column + 1][:, None])
    behind = unit - first[column][:, None]
    return own & (behind < category[:, None]), own & (behind == category[:, None])
