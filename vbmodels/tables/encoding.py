"""Tables as they come: sums of raw columns, and how they become the columns that a model sees.

A table arrives as raw cells [N, D] of floats: a number as it is, a category as a number made from
its text (`level_key`), a missing cell as NaN. From sums that add over partitions (`ColumnSums`)
`read_numbers` and `read_categories` decide what becomes of each column:

- numbers: one column, with a missing cell at the mean of the others, and a further column that
  says where cells were missing, where enough of them are;
- categories: of two levels one column that says where the larger is; of more a column of 0 and
  1 for each level that is not rare. Rare levels, levels beyond the most that are kept, and levels
  that the fit never saw have 0 in all of these: they are the reference. A missing cell is a level.

Ridge on the columns is the shrinkage, so no level has to be dropped for the sake of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from vbmodels.core.draws import GOLDEN
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.tables.columns import Reason
from vbmodels.tables.levels import MOST, Levels, rare_levels

SPARSE = 0.25
"""Rows are kept sparse below this share of cells that are not 0."""

LARGEST = 1e100
"""Largest size of a scaled cell: sums of squares of larger ones overflow."""

FURTHEST = 6.0
"""Standard deviations beyond which the additive form holds a cell."""


@dataclass(frozen=True)
class ColumnSums:
    """Sums over some rows that add up: count, mean and standard deviation of every column.

    A missing cell, NaN, is in none of them but the last.

    Attributes
    ----------
    sd
        Standard deviation, not its square, which overflows and underflows sooner; [D].
    nonzero
        Number of cells that are not 0; [D].
    binary
        Whether every cell is 0 or 1; [D].
    least, most
        Smallest and largest cell; [D].
    prints
        Digest of each column's cells: equal for columns that are the same.
    positive, negative
        Rows with the label 1, with the label 0, in the fit.
    gaps
        Number of missing cells; [D].
    """

    rows: int
    mean: FloatArray
    sd: FloatArray
    nonzero: FloatArray
    binary: Any
    least: FloatArray
    most: FloatArray
    prints: tuple[str, ...]
    positive: int
    negative: int
    gaps: FloatArray

    @classmethod
    def of(cls, x: FloatArray, t: FloatArray) -> ColumnSums:
        """Sum up one partition."""
        gone = np.isnan(x)
        sums = cls._of(np.where(gone, 0.0, x) if gone.any() else x, t)
        for j in np.flatnonzero(gone.any(0)):
            sums._mend(int(j), x[~gone[:, j], j : j + 1])
        sums.gaps[:] = gone.sum(0)
        columns = (np.ascontiguousarray(column).tobytes() for column in x.T)
        prints = tuple(hashlib.blake2b(cells, digest_size=8).hexdigest() for cells in columns)
        return replace(sums, prints=prints)

    def _mend(self, j: int, cells: FloatArray) -> None:
        """Put the sums of a column's given cells [n, 1] in place of those with gaps."""
        self.mean[j] = self.sd[j] = self.nonzero[j] = 0.0
        self.binary[j], self.least[j], self.most[j] = True, np.inf, -np.inf
        if len(cells):
            sums = self._of(cells, np.zeros(len(cells)))
            for name in ("mean", "sd", "nonzero", "binary", "least", "most"):
                getattr(self, name)[j] = getattr(sums, name)[0]

    @classmethod
    def _of(cls, x: FloatArray, t: FloatArray) -> ColumnSums:
        # Powers of two change no digit, and keep sums and squares within range.
        power = np.frexp(np.abs(x).max(0))[1]
        unit = np.ldexp(x, -power)
        mean = unit.mean(0)
        return cls(
            len(x),
            np.ldexp(mean, power),
            np.ldexp(np.sqrt(((unit - mean) ** 2).mean(0)), power),
            np.count_nonzero(x, axis=0).astype(np.float64),
            ((x == 0.0) | (x == 1.0)).all(0),
            x.min(0),
            x.max(0),
            (),
            int(np.sum(t > 0)),
            int(np.sum(t < 0)),
            np.zeros(x.shape[1]),
        )

    def __add__(self, other: ColumnSums) -> ColumnSums:
        """Add another partition's (Chan, Golub and LeVeque 1983)."""
        counts, others = self.rows - self.gaps, other.rows - other.gaps
        share = others / np.maximum(counts + others, 1.0)
        between = np.sqrt(share * (1.0 - share))
        gap = between * other.mean - between * self.mean
        within = np.hypot(np.sqrt(1.0 - share) * self.sd, np.sqrt(share) * other.sd)
        return ColumnSums(
            self.rows + other.rows,
            (1.0 - share) * self.mean + share * other.mean,
            np.hypot(within, gap),
            self.nonzero + other.nonzero,
            self.binary & other.binary,
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
            tuple(a + b for a, b in zip(self.prints, other.prints, strict=True)),
            self.positive + other.positive,
            self.negative + other.negative,
            self.gaps + other.gaps,
        )

    @property
    def constant(self) -> Any:
        """Columns with one value, or too little else for a standard deviation; [D]."""
        return (self.least == self.most) | (self.sd == 0.0)

    def scaling(self, standardise: bool) -> tuple[FloatArray, FloatArray]:
        """Return what is taken off every column and what it is divided by; [D] each.

        A column with one value is divided by infinity: next to the intercept it says nothing, and
        of other values in new rows nothing was learned.
        """
        stays = self.binary | (not standardise)
        centre = np.where(stays, 0.0, self.mean)
        scale = np.where(stays, 1.0, self.sd)
        return np.where(self.constant, self.least, centre), np.where(self.constant, np.inf, scale)

    def density(self, centre: FloatArray) -> float:
        """Return the share of cells that are not 0 after scaling."""
        full = np.where(centre != 0.0, self.rows, self.nonzero) * ~self.constant
        return float(full.sum() / (self.rows * max(1, full.size)))


def cell_keys(x: FloatArray) -> IntArray:
    """Return a number from each row's cells, wherever the row is; [N].

    Copies of a row have the same one; the order of the columns counts.

    >>> one, two = cell_keys(np.array([[1.0, 2.0], [2.0, 1.0]])), cell_keys(np.array([[2.0, 1.0]]))
    >>> bool(one[1] == two[0]), bool(one[0] == one[1])
    (True, False)
    """
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    odd = 2 * np.arange(x.shape[1], dtype=np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = (bits ^ (bits >> np.uint64(29))) * (odd * GOLDEN)
        total = np.sum(mixed ^ (mixed >> np.uint64(32)), axis=1, dtype=np.uint64)
    return np.asarray(total).astype(np.int64)


def scaled(x: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Return rows x [N, D] on the scale of the fit; columns with an infinite scale become 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        result: FloatArray = (x - centre) / scale
    result[:, np.isinf(scale)] = 0.0
    return result


def too_large(x: FloatArray) -> tuple[int, int] | None:
    """Return row and column of the first scaled cell that overflows in a fit; None without one."""
    bad = ~(np.abs(x) <= LARGEST)
    if not bad.any():
        return None
    row, column = np.argwhere(bad)[0]
    return int(row), int(column)


Kind = Literal["number", "yes or no", "date", "category"]

_BITS = 2**52 - 1  # whole numbers up to it are floats that differ from their neighbours


@dataclass(frozen=True)
class Encoded:
    """One column of the input and what it becomes.

    Attributes
    ----------
    name
        Its name.
    kind
        What its cells are; all but categories are numbers to the model, dates in days since
        1970-01-01.
    levels
        Levels with a column of their own.
    reference
        Levels that have none.
    fill
        The value of a missing number.
    missing
        Whether a column says where cells are missing.
    cells
        Cells of each of ``levels``, then of the reference, then missing ones, in the fit.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    fill: float = 0.0
    missing: bool = False
    cells: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model's columns that it becomes."""
        columns = [f"{self.name} = {level}" for level in self.levels]
        if self.kind != "category":
            columns = [self.name]
        return (*columns, *([f"{self.name} (missing)"] if self.missing else []))

    @property
    def usual(self) -> float:
        """A raw cell that says least: the mean of numbers, the most frequent of the others."""
        if self.kind != "category":
            return float(round(self.fill)) if self.kind == "yes or no" else self.fill
        mode = int(np.argmax(self.cells))
        if mode == len(self.cells) - 1:
            return float("nan")
        return level_key(self.levels[mode]) if mode < len(self.levels) else -1.0  # the reference


def level_key(text: str) -> float:
    """Return a whole number below 2**52 made from a level's text, as a float.

    >>> level_key("car") == level_key("car"), level_key("car") == level_key("bus")
    (True, False)
    """
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") & _BITS)


def read_numbers(
    name: str, kind: Kind, mean: float, present: int, missing: int, rare_below: int
) -> Encoded:
    """Return what a column of numbers becomes.

    Parameters
    ----------
    name, kind
        Of the column.
    mean
        Of the cells that are given.
    given, missing
        How many are, and how many are not.
    rare_below
        Missing cells from which on a column says where they are.
    """
    marked = missing > 0 and rare_below <= missing
    return Encoded(name, kind, fill=float(mean), missing=marked, cells=(present, missing))


def read_categories(
    name: str, counts: Mapping[str, int], missing: int, rare_below: int, max_levels: int
) -> Encoded | None:
    """Return what a column of categories becomes; None where no level has enough cells.

    Parameters
    ----------
    name
        Of the column.
    counts
        Cells of each level.
    missing
        Cells without one.
    rare_below
        Levels with fewer cells are joined to the reference, where there are several.
    max_levels
        Most levels with a column of their own; the least frequent of more join the reference.

    Examples
    --------
    >>> found = read_categories("by", {"car": 50, "bus": 30, "foot": 3, "ski": 2}, 12, 10, 100)
    >>> found.names, found.reference, found.cells
    (('by = car', 'by = bus', 'by (missing)'), ('foot', 'ski'), (50, 30, 5, 12))
    >>> read_categories("seen", {"no": 7, "yes": 9}, 0, 10, 100).names
    ('seen = yes',)
    >>> read_categories("name", {"Ann": 1, "Bob": 1, "Eve": 1}, 0, 10, 100) is None
    True
    """
    marked = missing > 0 and rare_below <= missing
    if not counts:
        return None
    rare = rare_levels(counts, rare_below, max_levels)
    apart = set(rare)
    levels = sorted((t for t in counts if t not in apart), key=lambda t: (-counts[t], t))
    if rare and counts[levels[0]] < rare_below:
        return None
    if len(levels) == 2 and not rare and not marked:
        rare, levels = [min(levels)], [max(levels)]
    cells = [counts[text] for text in levels]
    return Encoded(
        name,
        "category",
        tuple(levels),
        tuple(rare),
        missing=marked,
        cells=(*cells, sum(counts[text] for text in rare), missing),
    )


def why_no_column(levels: Levels, rare_below: int) -> Reason:
    """Return why nothing can be learned with a column of categories that becomes no column.

    >>> str(why_no_column(Levels({"a": 1}, 0), 10)), str(why_no_column(Levels({}, 3), 10))
    ('no level with 10 cells', 'no cell at all')
    """
    few = f"no level with {rare_below} cells" if levels.counts else "no cell at all"
    return Reason("other", f"more than {MOST:,} levels" if levels.many else few)


def constant_columns(columns: Sequence[Encoded], constant: BoolArray) -> list[str]:
    """Return the columns of the input of which nothing varies.

    Parameters
    ----------
    columns
        What they become.
    constant
        Which of the model's columns have one value; [D'].
    """
    first, names = 0, []
    for column in columns:
        size = len(column.names)
        names += [column.name] if constant[first : first + size].all() else []
        first += size
    return names


ONE_VALUE = Reason("other", "one value")
"""Why a column that does not vary is left out."""


def encoded(raw: FloatArray, columns: Sequence[Encoded], filled: bool = True) -> FloatArray:
    """Return the model's columns of raw cells.

    Parameters
    ----------
    raw
        Cells, one column for each of ``columns``, NaN where one is missing; [N, D].
    columns
        What they become.
    filled
        Whether a missing number becomes its column's mean; else it stays NaN.

    Returns
    -------
    x
        [N, D'], in the order of `names_of`; a table of numbers without gaps is returned itself.
    """
    if plain(columns) and not (filled and np.isnan(raw).any()):
        return raw
    parts = []
    for cells, column in zip(raw.T, columns, strict=True):
        gone = np.isnan(cells)
        if column.kind != "category":
            parts.append(np.where(gone, column.fill, cells) if filled else cells)
        else:
            parts += [(cells == level_key(level)).astype(np.float64) for level in column.levels]
        if column.missing:
            parts.append(gone.astype(np.float64))
    return np.column_stack(parts) if parts else np.empty((len(raw), 0))


def plain(columns: Sequence[Encoded]) -> bool:
    """Say whether every column is one of numbers without a column for its gaps."""
    return all(column.kind != "category" and not column.missing for column in columns)


def names_of(columns: Sequence[Encoded]) -> list[str]:
    """Return the names of the model's columns."""
    return [name for column in columns for name in column.names]


def blocks_of(columns: Sequence[Encoded]) -> IntArray:
    """Return a number for each of the model's columns that the levels of a category share; [D'].

    >>> blocks_of([Encoded("age", "number", missing=True), Encoded("by", "category", ("a", "b"))])
    array([0, 1, 2, 2])
    """
    blocks: list[int] = []
    for column in columns:
        first, size = max(blocks, default=-1) + 1, len(column.names)
        blocks += [first] * size if column.kind == "category" else range(first, first + size)
    return np.array(blocks, np.int64)


def unseen(cells: FloatArray, column: Encoded) -> BoolArray:
    """Say which cells [N] of a column hold a level that the fit never saw; [N]."""
    if column.kind != "category":
        return np.zeros(len(cells), bool)
    known = [level_key(text) for text in (*column.levels, *column.reference)]
    return np.asarray(~np.isin(cells, known) & ~np.isnan(cells))


def encoded_sums(sums: ColumnSums, columns: Sequence[Encoded]) -> ColumnSums:
    """Return the sums of the model's columns.

    Parameters
    ----------
    sums
        Of the columns of numbers alone, in their order.
    columns
        All columns that are kept.
    """
    if plain(columns) and len(columns) == sums.mean.size and not sums.gaps.any():
        return sums
    rows, j = sums.rows, 0
    figures: list[tuple[float, float, float, bool, float, float, str]] = []
    for column in columns:
        if column.kind != "category":
            fill_counts = sums.gaps[j] if column.fill != 0.0 else 0.0
            figures.append(
                (
                    float(sums.mean[j]),
                    float(sums.sd[j]),
                    float(sums.nonzero[j] + fill_counts),
                    bool(sums.binary[j]),
                    float(sums.least[j]),
                    float(sums.most[j]),
                    sums.prints[j],
                )
            )
            j += 1
        flags = [(name, n) for name, n in zip(column.names, column.cells, strict=False)]
        if column.kind != "category":
            flags = []
        if column.missing:
            flags = [*flags[: len(column.levels)], (column.names[-1], column.cells[-1])]
        for name, n in flags:
            p = n / rows
            ends = float(n == rows), float(n > 0)
            figures.append((p, float(np.sqrt(p * (1.0 - p))), float(n), True, *ends, name))
    mean, sd, nonzero, binary, least, most, prints = zip(*figures, strict=True)
    return ColumnSums(
        rows,
        np.array(mean),
        np.array(sd),
        np.array(nonzero),
        np.array(binary),
        np.array(least),
        np.array(most),
        prints,
        sums.positive,
        sums.negative,
        np.zeros(len(mean)),
    )
