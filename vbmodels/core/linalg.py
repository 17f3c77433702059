"""Symmetric positive definite matrices through their Cholesky factors; packed triangles; moments.

Everything is vectorised over leading axes. No inverse is formed but where it is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri

from vbmodels.core.state import FloatArray, IntArray, Stats


def cholesky(matrix: FloatArray, name: str = "the matrix", jitter: float = 0.0) -> FloatArray:
    """Return the lower factor L of L L' = matrix + jitter mean(diag) I; [..., D, D].

    ``jitter`` is relative to the mean of each diagonal, so it has no unit.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is not positive definite; the message has ``name`` and what was found.
    """
    if jitter > 0.0:
        scale = np.diagonal(matrix, axis1=-2, axis2=-1).mean(-1)
        matrix = matrix + (jitter * scale)[..., None, None] * np.eye(matrix.shape[-1])
    try:
        factor = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        problem = f"its smallest eigenvalue is {np.linalg.eigvalsh(matrix).min():.3g}"
    else:
        if np.isfinite(factor).all():
            return factor
        problem = "it holds a number that is not finite"
    raise np.linalg.LinAlgError(
        f"{name} must be positive definite ({problem}); "
        "rescale the columns, drop duplicates of them, or strengthen the prior"
    )


def log_det(factor: FloatArray) -> FloatArray:
    """Return log det(L L'); [...]."""
    return np.asarray(2.0 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(-1))


def solve_lower(factor: FloatArray, right: FloatArray, transposed: bool = False) -> FloatArray:
    """Return L^-1 right, or L'^-1 right; right is [..., D, M].

    One matrix goes through LAPACK's triangular solve, a stack through NumPy's general one,
    which has its loop in C.
    """
    if factor.ndim == 2 and right.ndim == 2:
        return np.asarray(
            solve_triangular(
                factor, right, lower=True, trans=1 if transposed else 0, check_finite=False
            )
        )
    left = np.swapaxes(factor, -1, -2) if transposed else factor
    return np.asarray(np.linalg.solve(left, right), dtype=np.float64)


def solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Return (L L')^-1 right for vectors; right is [..., D]."""
    return solve_lower(factor, solve_lower(factor, right[..., None]), transposed=True)[..., 0]


def inverse(factor: FloatArray) -> FloatArray:
    """Return (L L')^-1, symmetric to the last bit; [..., D, D]."""
    half = solve_lower(factor, np.broadcast_to(np.eye(factor.shape[-1]), factor.shape))
    full: FloatArray = np.swapaxes(half, -1, -2) @ half
    return 0.5 * (full + np.swapaxes(full, -1, -2))


def inverse_diagonal(factor: FloatArray) -> FloatArray:
    """Return the diagonal of (L L')^-1, in a sixth of the time of all of it; [D]."""
    half, _ = dtrtri(factor.T, lower=0)
    return np.asarray(np.einsum("ij,ij->i", half, half))


def pack(matrix: FloatArray) -> FloatArray:
    """Return the lower triangles of symmetric matrices, row by row; [..., D (D+1) / 2]."""
    rows, columns = _triangle(matrix.shape[-1])
    return matrix[..., rows, columns]


def unpack(packed: FloatArray) -> FloatArray:
    """Return the symmetric matrices behind `pack`; [..., D, D]."""
    size = int(np.sqrt(2 * packed.shape[-1]))
    if size * (size + 1) // 2 != packed.shape[-1]:
        raise ValueError(f"{packed.shape[-1]} numbers are not the triangle of a square matrix")
    rows, columns = _triangle(size)
    matrix = np.empty((*packed.shape[:-1], size, size))
    matrix[..., rows, columns] = packed
    matrix[..., columns, rows] = packed
    return matrix


@lru_cache(maxsize=16)
def _triangle(size: int) -> tuple[IntArray, IntArray]:
    """Return rows and columns of a lower triangle: finding them takes as long as using them."""
    triangle = np.tril_indices(size)
    for places in triangle:
        places.flags.writeable = False
    return triangle


CONSTANT = 1e-9
"""A column whose standard deviation is this share of its size or less counts as constant."""


@dataclass(frozen=True)
class Moments(Stats, kind="core.Moments"):
    """Weight, mean and centred scatter of rows x [P].

    Raw sums of squares lose the digits that the mean eats up; the scatter about the mean
    of each part does not, and two parts merge exactly (Chan, Golub and LeVeque 1979):
    S = S_1 + S_2 + (v_1 v_2 / v) (mean_1 - mean_2)(mean_1 - mean_2)'.

    Parameters
    ----------
    weight
        v, the sum of the rows' weights.
    mean
        [P] weighted mean; zero where the weight is zero.
    scatter
        [P, P] sum of weight (x - mean)(x - mean)'.
    """

    weight: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, rows: NDArray[np.floating[Any]], weights: FloatArray | None = None) -> Self:
        """Return the moments of rows [N, P] with weights [N] (1 by default), in float64."""
        total = float(len(rows)) if weights is None else float(weights.sum())
        if total <= 0.0:
            p = rows.shape[1]
            return cls(0.0, np.zeros(p), np.zeros((p, p)))
        if weights is None:
            mean = rows.sum(axis=0, dtype=float) / total
            centred = rows - mean
            return cls(total, mean, centred.T @ centred)
        mean = weights @ rows / total
        centred = rows - mean
        return cls(total, mean, (centred * weights[:, None]).T @ centred)

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                "moments of two partitions differ in their number of columns: "
                f"{len(self.mean)} and {len(other.mean)}"
            )
        total = self.weight + other.weight
        if total <= 0.0:
            return self
        share = other.weight / total
        step = other.mean - self.mean
        between = self.weight * share * np.outer(step, step)
        return type(self)(total, self.mean + share * step, self.scatter + other.scatter + between)

    def scaled(self, by: float) -> Self:
        """Return the moments as if every row had ``by`` times its weight."""
        return type(self)(self.weight * by, self.mean, self.scatter * by)

    def about(self, centre: FloatArray) -> FloatArray:
        """Return the scatter [P, P] about another centre."""
        step = self.mean - centre
        return self.scatter + self.weight * np.outer(step, step)

    def sd(self) -> FloatArray:
        """Return each column's standard deviation [P], infinite for a constant column.

        Divided by it, a constant column is zero: it is dropped without a special case. What
        counts as constant does not depend on the column's unit.
        """
        if self.weight <= 0.0:
            return np.full(len(self.mean), np.inf)
        sd = np.sqrt(np.maximum(np.diag(self.scatter), 0.0) / self.weight)
        # Above, not from: a column of zeros has no size, and is constant too.
        return np.where(sd > CONSTANT * np.hypot(self.mean, sd), sd, np.inf)
