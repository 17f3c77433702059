"""Features that a search missed, by what the rows of a long table leave unexplained.

The slope of the bound in psi_nj is the residual r_nj = s_nj / 2 - E[omega_nj] E[psi_nj]. A feature
that the fit lacks, and that a share p of the rows has, adds p d d' to the second moments of the
residuals, d their mean in the rows that have it; scaled to unit variance, all that chance adds to
the eigenvalues is 2 sqrt(J / N) + J / N, and the feature's direction shows from p |d|^2 >
sqrt(J / N) on (Baik, Ben Arous and Peche 2005): of 73 units at 100,000 rows and |d|^2 = 20, from
p = .0014. So the moments [J, J], which add up over partitions, tell of features that a sample of
the rows, or a chain whose slots the common ones filled, has too few rows of.

Rows whose residual goes far along a leading direction are then a feature's start. In all others
its chance must be far below its share: where it stays at a few per cent, as it may at other
starts, they outnumber the rows that have it, and coordinate ascent loses it.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray
from vbmodels.features.ibp.model import FeatureGlobal, second_moments
from vbmodels.features.ibp.row_moments import blocks, mean_omega, tilt_of, with_one
from vbmodels.features.table import FeatureBatch

LEAST_ROWS = 10_000
"""Rows from which on residuals are looked at: of fewer no direction that they had was a feature."""
MOST_UNITS = 1000
"""More units than this have more moments than a sweep should send."""
BEYOND = 1.2
"""Times what chance adds, from which on an eigenvalue is looked at."""
LEADING = 3
"""Directions that are tried, either way."""
FAR = (2.0, 3.0)
"""Standard deviations along a direction from which on rows start with its feature."""
ELSEWHERE = (2e-3, 2e-4)
"""Chance of it in all other rows: a tenth of the share that lies so far by chance."""
FEWEST = 5.0
"""Rows that a start must have."""
HERE = 0.9
"""Chance of it in those rows."""


def residuals(q: FeatureGlobal, sign: FloatArray, nu: FloatArray) -> FloatArray:
    """Return r of some rows; [B, J], 0 where a unit was not asked."""
    omega = mean_omega(tilt_of(nu, second_moments(q)), sign)
    result: FloatArray = 0.5 * sign - omega * (with_one(nu) @ q.mean.T)
    return result


def residual_moments(q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray) -> FloatArray:
    """Return sum_n r_n r_n' of a partition, packed; [J (J + 1) / 2]."""
    total = np.zeros((batch.n_units, batch.n_units))
    for rows in blocks(len(nu)):
        r = residuals(q, batch.sign[rows].astype(np.float64), nu[rows])
        total += r.T @ (r * batch.count[rows, None])
    return linalg.pack(total)


def directions_of(moments: FloatArray, n_rows: float) -> FloatArray:
    """Return the directions along which rows are tried as a feature's; [C, J].

    A row starts with the feature where ``direction @ r`` is above 1. They stand in the order of
    eigenvalues, ``2 * len(FAR)`` for each; none where no eigenvalue is beyond what chance adds.
    """
    full = linalg.unpack(moments) / n_rows
    size = np.sqrt(np.diagonal(full))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)
    scaled = full * scale[:, None] * scale
    np.fill_diagonal(scaled, 0.0)
    value, vector = np.linalg.eigh(scaled)
    found = []
    for i in range(len(value) - 1, max(-1, len(value) - 1 - LEADING), -1):
        share = len(value) / n_rows
        if value[i] <= BEYOND * (2.0 * np.sqrt(share) + share):
            break
        v = vector[:, i] * np.sign(vector[np.abs(vector[:, i]).argmax(), i]) * scale
        v = v / np.sqrt(v @ full @ v)
        found += [way * v / far for far in FAR for way in (1.0, -1.0)]
    return np.array(found).reshape(-1, len(value))


def starts_along(
    q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray, directions: FloatArray
) -> FloatArray:
    """Return the chance of each direction's feature in every distinct row at its start; [U, C]."""
    low = _elsewhere(len(directions))
    found = np.empty((len(nu), len(directions)))
    for rows in blocks(len(nu)):
        r = residuals(q, batch.sign[rows].astype(np.float64), nu[rows])
        found[rows] = np.where(r @ directions.T > 1.0, HERE, low)
    return found


def heavier_sides(on: FloatArray, n_rows: float) -> list[int]:
    """Return of each direction in turn the starts on the side where more rows lie far out.

    A feature that few rows have is a tail. (What its crude start is worth at the screen is no
    guide: of two starts the one with fewer rows loses less.) Starts that hardly a row is in are
    left out; ``on`` [C] are sums of chances.

    >>> heavier_sides(np.array([200.0, 60.0, 90.0, 2.0, 30.0, 70.0, 1.0, 9.0]), 1000.0)
    [0, 2, 5, 7]
    """
    rows = ((on - n_rows * _elsewhere(len(on))) / HERE).reshape(-1, len(FAR), 2)
    found = []
    for d, of in enumerate(rows):
        side = int(of[-1, 1] > of[-1, 0])
        ways = 2 * (len(FAR) * d + np.arange(len(FAR))) + side
        found += [int(c) for c, n in zip(ways, of[:, side], strict=True) if n >= FEWEST]
    return found


def _elsewhere(count: int) -> FloatArray:
    return np.resize(np.repeat(ELSEWHERE, 2), count)
