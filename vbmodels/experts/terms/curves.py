"""The levels of columns, and the functions over them that curves and pairs of columns are made of.

A number's levels are parted by up to `KNOTS` quantiles; a category's are its own and the reference.
A curve over a number's levels is f = T c with c ~ N(0, v I), T the eigenfunctions, each times the
root of its eigenvalue, of a random walk whose steps have the variance (u (1 - u))^-1/2, u the share
of rows above: rows at the ends are few, and what they say is not held to their neighbours'. It is
centred and scaled on the rows' shares, so that v is the variance that the curve gives. The first
functions are smooth (`Curves.count`); the others refine them, and are a block of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats

KNOTS = 64
"""Most knots of a curve."""
SMOOTH, FEWEST, BUDGET = 16, 5, 400
"""Most and fewest smooth functions of a curve, and how many all curves share."""
MOST = 800
"""Lines and smooth functions of all columns beyond which there are no curves."""
COMMON = 0.5
"""A value that a larger share of the rows has is a knot; the others part the rest."""
_SMALLEST = 1e-9


@dataclass(frozen=True)
class Terms(State, kind="experts/additive.Terms"):
    """Which blocks there are in addition to lines and smooth functions.

    Attributes
    ----------
    refined
        Columns of the table (`Curves.blocks`) whose curves are refined; [R].
    pairs
        Pairs of these with a surface (`pairs`); [Q, 2].
    """

    refined: IntArray
    pairs: IntArray = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @classmethod
    def none(cls) -> Terms:
        """Return lines and smooth functions alone."""
        return cls(np.zeros(0, np.int64))


@dataclass(frozen=True)
class Curves(Stats, kind="experts/additive.Curves"):
    """The levels of every column of the table; the same in all partitions, so a sum is either.

    Attributes
    ----------
    blocks
        Column of the table, from 0, that each line is of: those of a category share one; [D].
    counts
        Number of knots of every column of the table; [S].
    knots
        Of one column after another, on the scale of the fit; [K].
    shares
        Of the rows of a sample, for every level of one column after another; [L].
    low, high
        Ends of the sample's cells on the scale of the fit; [D].
    """

    blocks: IntArray
    counts: IntArray
    knots: FloatArray
    shares: FloatArray
    low: FloatArray
    high: FloatArray

    def __add__(self, other: Curves) -> Curves:
        return self

    def scaled(self, by: float) -> Curves:
        """Return the same: it counts nothing."""
        return self

    @classmethod
    def of(
        cls,
        lines: FloatArray,
        given: BoolArray,
        copies: FloatArray,
        fixed: BoolArray,
        blocks: IntArray,
        always: bool = False,
    ) -> Curves | None:
        """Find the levels in a sample of rows.

        Parameters
        ----------
        lines
            The rows on the scale of the fit; [M, D].
        given
            Which cells are not missing; [M, D].
        copies
            How many rows are like each; [M].
        fixed
            Columns without curves; [D].
        blocks
            See the attribute.
        always
            Whether columns without curves are wanted, too, where there is none.

        Returns
        -------
        Curves or None
            None where no column can have a curve, or columns are too many.
        """
        free = np.flatnonzero(~fixed)
        if not free.size or not len(lines) or _smooth_count(free.size, len(blocks)) < 1:
            if not always:
                return None
            free = free[:0]
        knots = [np.zeros(0)] * (int(blocks.max()) + 1)
        for j in free:
            here = given[:, j]
            values, index = np.unique(lines[here, j], return_inverse=True)
            weights = np.bincount(index, copies[here], len(values))
            knots[blocks[j]] = quantile_knots(values, np.asarray(weights, float), KNOTS)
        counts = np.array([at.size for at in knots])
        if not counts.any() and not always:
            return None
        ends = lines.min(0), lines.max(0)
        bare = cls(blocks, counts, np.concatenate(knots), np.zeros(0), *ends)
        shares = []
        for at, size in zip(bare.levels_of(lines).T, bare.sizes, strict=True):
            found = np.bincount(at, copies, size) + _SMALLEST
            shares.append(found / found.sum())
        return replace(bare, shares=np.concatenate(shares))

    @cached_property
    def lines(self) -> tuple[IntArray, ...]:
        """The lines of every column of the table."""
        return tuple(np.flatnonzero(self.blocks == s) for s in range(len(self.counts)))

    @cached_property
    def curved(self) -> IntArray:
        """Columns of the table with a curve; [C]."""
        return np.flatnonzero(self.counts)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of levels of every column of the table; [S]."""
        lines = np.array([own.size for own in self.lines])
        return np.asarray(np.where(self.counts > 0, self.counts, lines) + 1, np.int64)

    @property
    def count(self) -> int:
        """Smooth functions of a curve, where it has so many levels."""
        return _smooth_count(self.curved.size, self.blocks.size)

    def share(self, s: int) -> FloatArray:
        """Return the shares of a column's levels; [L]."""
        end = int(self.sizes[: s + 1].sum())
        return self.shares[end - int(self.sizes[s]) : end]

    def knots_of(self, s: int) -> FloatArray:
        """Return the knots of a column of the table."""
        end = int(self.counts[: s + 1].sum())
        return self.knots[end - int(self.counts[s]) : end]

    def smooth(self, s: int) -> FloatArray:
        """Return the smooth functions of a column of the table at its levels; [L, q]."""
        return _curve(self.share(s).tobytes())[:, : self.count]

    def fine(self, s: int) -> FloatArray:
        """Return the functions that refine these; [L, r]."""
        return _curve(self.share(s).tobytes())[:, self.count :]

    def levels_of(self, lines: FloatArray) -> np.ndarray:
        """Return the level of every row in every column of the table; [N, S].

        Of a column of two values the larger one is the first level.
        """
        middle = np.where(self.low < self.high, 0.5 * (self.low + self.high), 0.5)
        found = np.zeros((len(lines), len(self.counts)), np.uint16)
        for s, own in enumerate(self.lines):
            at = self.knots_of(s)
            if at.size:
                found[:, s] = np.searchsorted(at, lines[:, own[0]], "left")
            else:
                there = lines[:, own] > middle[own]
                found[:, s] = np.where(there.any(1), there.argmax(1), own.size)
        return found

    def tables(self, terms: Terms) -> list[tuple[int, FloatArray]]:
        """Return column and functions at its levels [L, q] of every curve, in order.

        The coefficients of a fit have this order, after the lines' and before the pairs'.
        """
        found = [(int(s), self.smooth(s)) for s in self.curved]
        return found + [(int(s), self.fine(s)) for s in terms.refined]

    def functions(self, column: int, x: FloatArray, terms: Terms) -> FloatArray:
        """Return the functions of one column of the fit at some of its cells, 0 for others'.

        Parameters
        ----------
        column
            Its number among lines.
        x
            Cells on the scale of the fit; [n].
        terms
            Which blocks there are.

        Returns
        -------
        functions
            In the order of the coefficients of `tables`; [n, F].
        """
        own = self.blocks[column]
        level = np.searchsorted(self.knots_of(int(own)), x, "left")
        parts = [
            table[level] if s == own else np.zeros((len(x), table.shape[1]))
            for s, table in self.tables(terms)
        ]
        return np.hstack([np.zeros((len(x), 0)), *parts])

    def places(self, column: int) -> FloatArray:
        """Return where a curve is drawn, on the scale of the fit: both ends of every level.

        From the lowest to the highest cell; a column without knots has those two alone.
        """
        low, high = self.low[column], self.high[column]
        knots = self.knots_of(int(self.blocks[column]))
        edges = np.concatenate([[low], np.clip(knots, low, high), [high]])
        # A little inside each level, so that rounding to the column's own unit changes none.
        inside = 1e-6 * np.diff(edges)
        at = np.column_stack([edges[:-1] + inside, edges[1:] - inside]).ravel()
        if len(edges) > 2 and edges[0] == edges[1]:
            at[:2] -= 1e-9 * (high - low)
        return at if len(edges) > 2 else np.array([low, high])

    def heights(self, coefficients: FloatArray, terms: Terms) -> dict[int, FloatArray]:
        """Return what every level of a column adds; [L] by column."""
        found: dict[int, FloatArray] = {}
        at = self.blocks.size
        for s, table in self.tables(terms):
            own = table @ coefficients[at : at + table.shape[1]]
            at += table.shape[1]
            found[s] = found[s] + own if s in found else own
        return found


def _smooth_count(curves: int, lines: int) -> int:
    """Return how many smooth functions each of so many curves has."""
    count = min(SMOOTH, max(FEWEST, BUDGET // max(1, curves)))
    return min(count, max(0, MOST - lines) // max(1, curves))


@lru_cache(maxsize=1024)
def _curve(shares: bytes) -> FloatArray:
    """Return the functions of a curve over levels with these shares; [L, L - 1]."""
    share = np.frombuffer(shares)
    up = 1.0 - np.cumsum(share)[:-1]
    kernel = centred(walk(np.maximum(up * (1.0 - up), 1e-3) ** -0.5), share)
    found, _ = eigenfunctions(kernel, np.full(share.size, 1.0 / share.size))
    # Levels weigh alike in what is smooth, and by their rows in how much it moves.
    return np.asarray(found / np.sqrt(share @ np.diag(kernel)))


def walk(variance: FloatArray) -> FloatArray:
    """Return the covariance of a random walk with steps of these variances; [L, L]."""
    after = np.tri(variance.size + 1, variance.size, -1)
    return np.asarray((after * variance) @ after.T)


def centred(kernel: FloatArray, share: FloatArray) -> FloatArray:
    """Return the covariance of the same less its mean over levels with these shares; [L, L]."""
    centre = np.eye(share.size) - share
    return np.asarray(centre @ kernel @ centre.T)


def eigenfunctions(kernel: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return functions [L, q], times the roots of their eigenvalues, and these, largest first."""
    root = np.sqrt(weight)
    size, axes = np.linalg.eigh(root[:, None] * kernel * root)
    size, axes = size[::-1], axes[:, ::-1]
    kept = size > _SMALLEST * size[0]
    size, axes = size[kept], axes[:, kept]
    # A walk's functions are nowhere 0 at the first level: their signs are known.
    axes = axes * np.where(axes[0] < 0.0, -1.0, 1.0)
    return axes / root[:, None] * np.sqrt(size), size


def quantile_knots(values: FloatArray, copies: FloatArray, count: int) -> FloatArray:
    """Return at most ``count`` knots, of values in order and how many rows have each."""
    if len(values) <= 2:
        return values[:0]
    if len(values) <= count + 1:
        return values[:-1]
    often = int(np.argmax(copies))
    if copies[often] <= COMMON * copies.sum():
        return np.unique(_quantiles(values[:-1], copies, count))
    rest = np.where(np.arange(len(values)) == often, 0.0, copies)
    found = np.append(_quantiles(values[:-1], rest, count - 1), values[often])
    return np.unique(found[found < values[-1]])


def _quantiles(values: FloatArray, copies: FloatArray, count: int) -> FloatArray:
    below = np.cumsum(copies) / copies.sum()
    at = np.searchsorted(below, np.arange(1, count + 1) / (count + 1))
    return values[np.minimum(at, len(values) - 1)]
