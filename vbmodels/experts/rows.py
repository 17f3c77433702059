"""One partition's rows: dense or sparse, with labels, weights and noise that belongs to a row.

Everything is laid out [column, row] or [expert, row], rows last, so that sums over the few
experts run along whole rows of memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.sparse import csr_array
from scipy.special import ndtri

from vbmodels.core.draws import hashed
from vbmodels.core.linalg import pack
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats

_CHUNK = 256
_PAIR_CHUNK = 4096
_TOGETHER = 10
"""Matrices whose forms are computed at once."""


@dataclass(frozen=True)
class Rows(State, kind="experts.Rows"):
    """Rows x with labels; the last column is the intercept, all ones.

    Attributes
    ----------
    t
        1 and -1 for the labels 1 and 0; 0 where there is none; [N].
    weight
        Weight of each row in the likelihood; [N].
    key
        A number of each row's own, from its id; [N].
    group
        A number of each row's unit, which decides its fold, so that copies of a row are not
        on both sides of a hold-out; [N].
    dense
        [N, p]; None where the rows are sparse.
    values, indices, indptr
        The same in compressed sparse rows; None where the rows are dense.
    n_columns
        p, with the intercept.
    """

    t: FloatArray
    weight: FloatArray
    key: IntArray
    group: IntArray
    dense: FloatArray | None
    values: FloatArray | None
    indices: IntArray | None
    indptr: IntArray | None
    n_columns: int

    @classmethod
    def of(
        cls,
        x: FloatArray,
        t: FloatArray,
        key: IntArray,
        weight: FloatArray | None = None,
        sparse: bool = False,
        group: IntArray | None = None,
    ) -> Rows:
        """Make a batch of columns x [N, p - 1]; the intercept is added here.

        Without ``group`` every row is one of its own.
        """
        group = key if group is None else group
        full = np.column_stack([x, np.ones(len(x))])
        weight = np.ones(len(x)) if weight is None else weight
        if not sparse:
            return cls(t, weight, key, group, full, None, None, None, full.shape[1])
        found = csr_array(full)
        indices, indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
        return cls(t, weight, key, group, None, found.data, indices, indptr, full.shape[1])

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.t.size)

    def relabelled(self, t: FloatArray) -> Rows:
        """Return the rows with other labels [N], which share what depends on the cells alone."""
        found = replace(self, t=t)
        kept = ("_square",) if self.dense is not None else ("_rows", "_columns", "_square")
        vars(found).update({name: getattr(self, name) for name in kept})
        return found

    @cached_property
    def used(self) -> FloatArray:
        """Weight of each row in a fit: 0 without a label; [N]."""
        return self.weight * np.abs(self.t)

    @cached_property
    def _rows(self) -> csr_array:
        shape = (self.size, self.n_columns)
        narrow = (np.asarray(a).astype(np.int32) for a in (self.indices, self.indptr))
        return csr_array((self.values, *narrow), shape=shape)

    @cached_property
    def _columns(self) -> csr_array:
        """The rows transposed, row by row: [p, N]."""
        return csr_array(self._rows.T)

    @cached_property
    def _square(self) -> FloatArray | csr_array:
        return self._rows.power(2) if self.dense is None else self.dense**2

    @cached_property
    def _square_columns(self) -> csr_array:
        return self._columns.power(2)

    def without(self, folds: int, fold: int) -> tuple[IntArray, Rows]:
        """Return the places of the rows that are not in a part, and these rows; kept."""
        kept = self._without
        if (folds, fold) not in kept:
            at = np.flatnonzero(self.fold(folds) != fold)
            own = (self.t[at], self.weight[at], self.key[at], self.group[at])
            if self.dense is not None:
                rows = Rows(*own, self.dense[at], None, None, None, self.n_columns)
            else:
                x = self._rows[at]
                indices, indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
                rows = Rows(*own, None, x.data, indices, indptr, self.n_columns)
            kept[folds, fold] = at, rows
        return kept[folds, fold]

    @cached_property
    def _without(self) -> dict[tuple[int, int], tuple[IntArray, Rows]]:
        return {}

    def lines(self, rows: slice) -> FloatArray:
        """Return some rows' columns without the intercept, dense; [n, p - 1]."""
        if self.dense is not None:
            return self.dense[rows, :-1]
        return np.asarray(self._rows[rows].toarray()[:, :-1])

    def project(self, coefficients: FloatArray) -> FloatArray:
        """Return coefficients [M, p] times every row: [M, N]."""
        if self.dense is not None:
            return coefficients @ self.dense.T
        return np.ascontiguousarray((self._rows @ coefficients.T).T)

    def project_squares(self, variances: FloatArray) -> FloatArray:
        """Return variances [M, p] times every row's squares: [M, N]."""
        if self.dense is not None:
            return np.asarray(variances @ np.asarray(self._square).T)
        return np.ascontiguousarray((self._square @ variances.T).T)

    def collect(self, slopes: FloatArray) -> FloatArray:
        """Return sum_n slopes[:, n] x_n for slopes [M, N]: [M, p]."""
        if self.dense is not None:
            return slopes @ self.dense
        return np.ascontiguousarray((self._columns @ slopes.T).T)

    def collect_squares(self, slopes: FloatArray) -> FloatArray:
        """Return sum_n slopes[:, n] x_n^2, column by column: [M, p]."""
        if self.dense is not None:
            return np.asarray(slopes @ np.asarray(self._square))
        return np.ascontiguousarray((self._square_columns @ slopes.T).T)

    # Second moments: all products of two columns, packed as `vbmodels.core.linalg.pack` does.

    @cached_property
    def _pairs(self) -> csr_array:
        """Products of two nonzero entries of a row; [N, p (p + 1) / 2]."""
        rows, (indptr, indices) = self._rows, (self._rows.indptr, self._rows.indices)
        counts = np.diff(indptr)
        size = counts * (counts + 1) // 2
        first = np.concatenate([[0], np.cumsum(size)])
        columns, values = np.empty(first[-1], np.int32), np.empty(first[-1])
        for count in np.unique(counts):
            i, j = np.tril_indices(int(count))
            chosen = np.flatnonzero(counts == count)
            at = indptr[chosen][:, None]
            high = np.maximum(indices[at + i], indices[at + j]).astype(np.int64)
            low = np.minimum(indices[at + i], indices[at + j])
            place = first[chosen][:, None] + np.arange(i.size)
            columns[place] = high * (high + 1) // 2 + low
            values[place] = rows.data[at + i] * rows.data[at + j]
        shape = (self.size, self.n_columns * (self.n_columns + 1) // 2)
        return csr_array((values, columns, first.astype(np.int32)), shape=shape)

    @cached_property
    def _pair_columns(self) -> tuple[csr_array, ...]:
        """The same transposed, some rows at a time, so that their weights stay in cache."""
        starts = range(0, self.size, _PAIR_CHUNK)
        return tuple(csr_array(self._pairs[start : start + _PAIR_CHUNK].T) for start in starts)

    def quadratic(self, matrices: FloatArray) -> FloatArray:
        """Return x' M x of every row for symmetric matrices [M, p, p]: [M, N].

        Dense rows: |L'x|^2 with M = L L', half the work of M x; where one has no such factor,
        that.
        """
        if self.dense is not None:
            factors = [_lower(m) for m in matrices]
            found = np.empty((len(matrices), self.size))
            for first in range(0, len(matrices), _TOGETHER):
                some = slice(first, first + _TOGETHER)
                if any(factor is None for factor in factors[some]):
                    for k, m in enumerate(matrices[some], first):
                        found[k] = np.einsum("ni,ni->n", self.dense @ m, self.dense)
                else:
                    self._squared_lengths(np.array(factors[some]), found[some])
            return found
        twice = 2.0 * matrices
        diagonal = np.arange(self.n_columns)
        twice[:, diagonal, diagonal] *= 0.5
        return np.ascontiguousarray((self._pairs @ pack(twice).T).T)

    def _squared_lengths(self, factors: FloatArray, out: FloatArray) -> None:
        """Write |L'x|^2 of every row for lower factors L [M, p, p]; [M, N].

        A product for each block of columns of all L at once, which leaves out the rows above
        it, where they are 0.
        """
        size = self.n_columns
        cuts = np.linspace(0, size, max(2, min(5, size // 16 + 1))).astype(int)
        blocks = [
            (a, b, factors[:, a:, a:b].transpose(2, 0, 1).reshape(-1, size - a))
            for a, b in itertools.pairwise(cuts)
        ]
        for rows in self._slices():
            x = np.asarray(self.dense)[rows]
            total = np.zeros((len(factors), len(x)))
            for a, b, block in blocks:
                half = block @ x[:, a:].T
                np.square(half, out=half)
                total += half.reshape(b - a, *total.shape).sum(0)
            out[:, rows] = total

    def gram(self, weights: FloatArray) -> FloatArray:
        """Return sum_n weights[m, n] x_n x_n', packed: [M, p (p + 1) / 2]."""
        size = self.n_columns
        if self.dense is None:
            found = np.zeros((size * (size + 1) // 2, len(weights)))
            for i, pairs in enumerate(self._pair_columns):
                rows = slice(i * _PAIR_CHUNK, (i + 1) * _PAIR_CHUNK)
                found += pairs @ np.ascontiguousarray(weights[:, rows].T)
            return np.ascontiguousarray(found.T)
        totals = [np.zeros((size, size), order="F") for _ in weights]
        used = np.flatnonzero(weights.any(axis=0))
        for part in self._slices():
            x, root = self.dense[used[part]], np.sqrt(weights[:, used[part], None])
            for w, total in zip(root, totals, strict=True):
                dsyrk(1.0, (x * w).T, beta=1.0, c=total, overwrite_c=1, lower=1)
        return np.array([pack(total) for total in totals]).reshape(len(weights), -1)

    def _slices(self) -> Iterator[slice]:
        """Cut the rows so that what a product needs stays in cache."""
        for start in range(0, self.size, _CHUNK):
            yield slice(start, start + _CHUNK)

    # What belongs to a row whatever partition it is in.

    def uniforms(self, stream: int, count: int) -> FloatArray:
        """Return ``count`` numbers in (0, 1) for every row, from its key alone; [count, N]."""
        return hashed(self.key, stream, count)

    def noise(self, draws: int, count: int) -> FloatArray:
        """Return standard normal numbers of every row, each with its opposite; [draws, count, N].

        ``draws`` is even; the second half is the first one negated.
        """
        kept: dict[tuple[int, int], FloatArray] = self._noise
        if (draws, count) not in kept:
            half = ndtri(self.uniforms(1, draws // 2 * count))
            half = half.reshape(draws // 2, count, self.size)
            kept[draws, count] = np.concatenate([half, -half])
        return kept[draws, count]

    @cached_property
    def _noise(self) -> dict[tuple[int, int], FloatArray]:
        return {}

    def fold(self, folds: int) -> IntArray:
        """Return the number of the part, 0 to folds - 1, that holds each row; [N].

        Rows of one group are in one part.
        """
        return part_of(self.group, folds)


def _lower(matrix: FloatArray) -> FloatArray | None:
    """Return the lower Cholesky factor, or None where there is none."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return None


def part_of(group: IntArray, parts: int) -> IntArray:
    """Return the part, 0 to ``parts`` - 1, of rows with these cells; [N]."""
    return np.asarray(np.floor(hashed(group, 2, 1)[0] * parts), np.int64)


FOLDS, HELD = 4, 2
"""Parts of the rows, and how many are held out in turn while a form is chosen: of few rows, all."""


def never_held(group: IntArray) -> BoolArray:
    """Say which rows are in parts that are held out of a fit to few rows alone; [N]."""
    return np.asarray(part_of(group, FOLDS) >= HELD)


@dataclass(frozen=True)
class Observed(Stats, kind="experts.Observed"):
    """What is known of the labelled rows before a fit.

    Attributes
    ----------
    rows, positive
        Number of labelled rows, and of those with the label 1.
    squares
        sum w x^2 of every column; [p].
    """

    rows: float
    positive: float
    squares: FloatArray

    @classmethod
    def of(cls, batch: Rows) -> Observed:
        """Count one partition."""
        return cls(
            float(np.count_nonzero(batch.used)),
            float(np.count_nonzero(batch.used * (batch.t > 0))),
            batch.collect_squares(batch.used[None])[0],
        )

    def refuse_one_class(self) -> None:
        """Raise ValueError unless both labels are there."""
        if not 0.0 < self.positive < self.rows:
            raise ValueError(
                "expected rows with the label 1 and rows with the label 0, got "
                f"{self.positive:.0f} ones among {self.rows:.0f} labelled rows"
            )
