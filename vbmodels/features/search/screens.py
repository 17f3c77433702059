"""What the rows add up so that the driver can screen proposals without touching rows again.

With omega held at its optimum for the present fit, the bound of any proposed nu' needs sums of
E[z'], of s E[z'] / 2 and of E[omega] E[z' z''] only (`proposals`). Here are those of features that
wait in the pool.

Features that the search missed show in what the rows leave unexplained.
The slope of the bound in psi_nj is the residual r_nj = s_nj / 2 - E[omega_nj] E[psi_nj]. A feature
that the fit lacks, and that a share p of the rows has, adds p d d' to the second moments of the
residuals, d their mean in the rows that have it; scaled to unit variance, all that chance adds to
the eigenvalues is 2 sqrt(J / N) + J / N, and the feature's direction shows from p |d|^2 >
sqrt(J / N) on (Baik, Ben Arous and Peche 2005): of 73 units at 100,000 rows and |d|^2 = 20, from
p = .0014. So the moments [J, J], which add up over partitions, show features that a sample of
the rows, or a chain whose slots the common ones filled, has too few rows of.

Rows whose residual goes far along a leading direction are then a feature's start. In all others
its chance must be far below its share: where it stays at a few per cent, as it may at other
starts, they outnumber the rows that have it, and coordinate ascent loses it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray
from vbmodels.features.ibp.model import (
    FeatureGlobal,
    best_omega,
    blocks,
    entropy_of,
    second_moments,
    with_one,
)
from vbmodels.features.search.states import Edit, PoolStats, ScreenStats
from vbmodels.features.table import FeatureBatch

BORN_SURE = 0.05
"""How far from 0 and 1 the nu of born features are kept."""
LEAST_LOOKED_AT = 500
"""Rows from which on residuals are looked at. Of 1,050 rows, 13 with answers of their own in three
of three columns are a feature by them that no chain starts with."""
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


def edited(
    edit: Edit,
    fits: tuple[FloatArray, ...],
    pool: tuple[FloatArray, ...],
    residue: FloatArray | None = None,
) -> FloatArray:
    """Make a proposal's nu [U, K] from that of its source."""
    nu = fits[edit.source]
    nu = nu[:, edit.columns]
    nu = np.where(edit.flipped, 1.0 - nu, nu)
    start, feature = edit.born
    if start == len(pool) and residue is not None:
        return np.column_stack([nu, residue[:, feature]])
    if start >= 0:
        born = np.clip(pool[start][:, feature], BORN_SURE, 1.0 - BORN_SURE)
        nu = np.column_stack([nu, born])
    return nu


def screen_sums(
    q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray, pool: tuple[FloatArray, ...]
) -> ScreenStats:
    """Sum what the screen of the pool needs, omega at its optimum for q and nu."""
    n, second = batch.count, second_moments(q)
    pool = tuple(np.clip(p, BORN_SURE, 1.0 - BORN_SURE) for p in pool)
    waiting = [_nothing(batch.n_units, p.shape[1], nu.shape[1] + 1) for p in pool]
    for rows in blocks(len(nu), batch.n_units):
        at, sign, count = nu[rows], batch.sign[rows], n[rows]
        omega = (best_omega(at, sign, second) * count[:, None]).T
        half, z = 0.5 * (sign * count[:, None]).T, with_one(at)
        waiting = [
            total + _pool_sums(omega, half, count, z, p[rows])
            for total, p in zip(waiting, pool, strict=True)
        ]
    return ScreenStats(n @ nu**2, tuple(waiting))


def residue_sums(
    q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray, starts: FloatArray
) -> ScreenStats:
    """Sum what the screen of features to come needs, whose ``starts`` [U, C] are taken as is."""
    n, second = batch.count, second_moments(q)
    total = _nothing(batch.n_units, starts.shape[1], nu.shape[1] + 1)
    for rows in blocks(len(nu), batch.n_units):
        at, sign, count = nu[rows], batch.sign[rows], n[rows]
        omega = (best_omega(at, sign, second) * count[:, None]).T
        half = 0.5 * (sign * count[:, None]).T
        total = total + _pool_sums(omega, half, count, with_one(at), starts[rows])
    return ScreenStats(n @ nu**2, (total,))


def _nothing(units: int, c: int, size: int) -> PoolStats:
    flat = np.zeros(c)
    return PoolStats(
        np.zeros((units, c)), np.zeros((units, c, size)), flat, flat, flat, np.zeros((c, size))
    )


def _pool_sums(
    omega: FloatArray, half: FloatArray, count: FloatArray, z: FloatArray, p: FloatArray
) -> PoolStats:
    products = (p[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    return PoolStats(
        linear=half @ p,
        quadratic=(omega @ products).reshape(len(omega), p.shape[1], z.shape[1]),
        on=count @ p,
        square=count @ p**2,
        entropy=count @ entropy_of(p),
        cross=(count[:, None] * p).T @ z,
    )


# Residuals.


def residuals(q: FeatureGlobal, sign: NDArray[np.int8], nu: FloatArray) -> FloatArray:
    """Return r of some rows; [B, J], 0 where a unit has no answer."""
    omega = best_omega(nu, sign, second_moments(q))
    return 0.5 * sign - omega * (with_one(nu) @ q.mean.T)


def residual_moments(q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray) -> FloatArray:
    """Return sum_n r_n r_n' of a partition, packed; [J (J + 1) / 2]."""
    total = np.zeros((batch.n_units, batch.n_units))
    for rows in blocks(len(nu), batch.n_units):
        r = residuals(q, batch.sign[rows], nu[rows])
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
    for rows in blocks(len(nu), batch.n_units):
        r = residuals(q, batch.sign[rows], nu[rows])
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
