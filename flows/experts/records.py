"""Parts of the answer that partitions make: rows with what is predicted of them, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """A cell, its column's name first, and what it adds to the log odds of its row.

    With it go ``more`` cells, of columns that measure much the same.
    """

    cell: str
    adds: float
    more: int = 0


@dataclass(frozen=True)
class Why:
    """What moves the log odds of a row most.

    Attributes
    ----------
    moves
        Cells, each compared with the mean or the most frequent level of its column.
    others, rest
        How many other cells there are, and what they add.
    start
        Log odds of a row of means and most frequent levels.
    total
        Those of the row, the sum of all.
    """

    moves: tuple[Move, ...]
    others: int
    rest: float
    start: float
    total: float


@dataclass(frozen=True)
class Row:
    """A row and what is predicted of it; of a tested one without its label.

    Attributes
    ----------
    name, label
        As the file has them; no label where there is none.
    predicted
        The predicted number, or the most probable of several classes.
    chance
        Probability of the positive one of two labels, or of the most probable class.
    low, high
        95 % interval of a number.
    why
        What moves it.
    outside
        Whether a number of its is outside the range of the fit.
    """

    name: str
    label: float | str | None
    predicted: float | str | None = None
    chance: float | None = None
    low: float | None = None
    high: float | None = None
    why: Why | None = None
    outside: bool = False


@dataclass(frozen=True)
class Outside:
    """A number outside the range that its column had in the fit."""

    row: str
    column: str
    value: float
    low: float
    high: float


Picked = tuple[tuple[float, Row], ...]
"""Rows with what they are sorted by, the smallest first."""


@dataclass(frozen=True)
class Tested:
    """What there is in the table of tested rows.

    Attributes
    ----------
    models
        This model, the base, and others.
    folds
        How many there were; 0 where rows were held out.
    seconds
        What fitting folds and others took.
    worst
        With folds, the rows that are predicted worst.
    """

    models: tuple[str, ...]
    folds: int
    seconds: float
    worst: Picked = ()
