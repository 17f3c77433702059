"""Columns as they are modelled: their categories, and cells as codes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.tables import mixed
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.table import MISSING
from vbmodels.tables.columns import Rule
from vbmodels.tables.levels import Levels, match_levels, numbers_of, rare_levels

RARE = "(rare)"
DIGITS = 6, 9, 12, 17
"""Of the ends of classes of numbers: the fewest that set them apart."""


@dataclass(frozen=True)
class Column:
    """One column as it is modelled: its categories, most frequent first (ties by name).

    Attributes
    ----------
    joined
        Rare categories that are one here, called `RARE`.
    weights
        Sums of the weights of the rows with each category.
    rule
        How its cells are read.
    cuts
        Ends of the classes that its numbers are cut into.
    structural
        Where cells are missing because of another column: that column and its categories.
    ordered, scale
        The categories from the lowest to the highest and the kind of their scale (see
        `vbmodels.tables.levels`), where they have an order.
    halves
        The half of the scale that each answer is in, where ``levels`` are its two halves.
    label
        The name without tags, and without what columns of one question all begin with.
    question
        The column of the table that this is one answer of, where cells have several.
    """

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int
    joined: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    rule: Rule = field(default_factory=Rule)
    cuts: tuple[float, ...] = ()
    structural: tuple[str, tuple[str, ...]] | None = None
    ordered: tuple[str, ...] = ()
    scale: str = ""
    halves: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    question: str = ""

    @property
    def source(self) -> str:
        """The column of the table that it is read from."""
        return self.question or self.name

    @property
    def shown(self) -> str:
        """The name as reports have it."""
        return self.label or self.name

    @property
    def points(self) -> FloatArray | None:
        """[R] place of each category on its scale: numbers as they are, else 1 to n."""
        if not self.ordered:
            return None
        numbers = numbers_of(self.ordered) or []
        rising = numbers if numbers == sorted(numbers) else []
        point_of = dict(zip(self.ordered, rising or range(1, len(self.ordered) + 1), strict=True))
        return np.array([point_of[level] for level in self.levels], np.float64)

    @property
    def places(self) -> dict[str, int]:
        """The code of each category, and of each that was joined."""
        codes = {level: code for code, level in enumerate(self.levels)}
        labels = [text for text in self.levels if text.strip("()") == RARE.strip("()")]
        for name in self.joined:
            codes[name] = codes[max(labels, key=len)]
        return codes | {answer: codes[half] for answer, half in self.halves.items()}

    def texts(self, cells: pa.Array) -> pa.Array:
        """Return cells, as `flows.tables.mixed.parse` gives them, as categories."""
        if self.cuts:
            return classes_of(mixed.numbers(cells, self.rule)[0], self.cuts)
        return mixed.texts(cells, self.rule)


def classes_of(values: FloatArray, cuts: Sequence[float]) -> pa.Array:
    """Return the class of each number as text, null for NaN.

    >>> classes_of(np.array([1.0, 5.0, 9.0, np.nan]), [3.0, 7.0]).to_pylist()
    ['below 3', '3 to 7', '7 and above', None]
    """
    ends = [
        next(text for digits in DIGITS if float(text := f"{cut:.{digits}g}") == cut) for cut in cuts
    ]
    inner = [f"{low} to {high}" for low, high in itertools.pairwise(ends)]
    names = np.array([f"below {ends[0]}", *inner, f"{ends[-1]} and above"])
    position = np.searchsorted(np.asarray(cuts), values, side="right")
    return pa.array(names[position], pa.string(), mask=np.isnan(values))


def halve(column: Column, cut: int) -> Column:
    """Return a column of ordered answers as the two halves of its scale; the lower has ``cut``.

    >>> column = Column("q", ("2", "3", "1"), (5, 4, 1), 0, ordered=("1", "2", "3"))
    >>> halve(column, 2).levels, halve(column, 2).counts, halve(column, 2).halves["1"]
    (('1 to 2', '3'), (6, 4), '1 to 2')
    """
    counts = dict(zip(column.levels, column.counts, strict=True))
    weights = dict(zip(column.levels, column.weights or column.counts, strict=True))
    halves: dict[str, str] = {}
    sums: dict[str, tuple[int, float]] = {}
    for half in (column.ordered[:cut], column.ordered[cut:]):
        name = half[0] if len(half) == 1 else f"{half[0]} to {half[-1]}"
        halves |= dict.fromkeys(half, name)
        sums[name] = sum(counts[level] for level in half), sum(weights[level] for level in half)
    levels = sorted(sums, key=lambda name: (-sums[name][0], name))
    return replace(
        column,
        levels=tuple(levels),
        counts=tuple(sums[name][0] for name in levels),
        weights=tuple(sums[name][1] for name in levels),
        ordered=(),
        halves=halves,
    )


def recoded(levels: Levels, rule: Rule, cuts: Sequence[float] = ()) -> Levels:
    """Return the counts of categories as a rule reads them."""
    column = Column("", (), (), 0, rule=rule, cuts=tuple(cuts))
    names = pa.array(list(levels.counts), pa.string())
    counts: Counter[str] = Counter()
    missing = 0
    for name, count in zip(column.texts(names).to_pylist(), levels.counts.values(), strict=True):
        if name is None:
            missing += count
        else:
            counts[name] += count
    if rule.blank_is_no:
        counts["no"] += levels.missing
    else:
        missing += levels.missing
    return Levels(dict(counts), missing, levels.many)


def order_levels(name: str, levels: Levels, least: int = 0, most: int = 10_000) -> Column:
    """Put the categories into stick-breaking order, rare ones joined; see `rare_levels`."""
    joined = rare_levels(levels.counts, least, most)
    rare = set(joined)
    counts = {text: n for text, n in levels.counts.items() if text not in rare}
    if joined:
        label = RARE
        while label in counts:
            label = f"({label})"
        counts[label] = sum(levels.counts[text] for text in joined)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    names, cells = zip(*ordered, strict=True) if ordered else ((), ())
    return Column(name, tuple(names), tuple(cells), levels.missing, tuple(joined))


@dataclass(frozen=True)
class Encoded:
    """Codes of some rows, and how their cells differ from those of the fit.

    Attributes
    ----------
    codes
        [N, D] categories, -1 where missing or unknown.
    unknown
        By column, cells of categories that are not known.
    respelt
        By column, cells of categories that are known by another case, or other blanks.
    """

    codes: IntArray
    unknown: dict[str, dict[str, int]]
    respelt: dict[str, dict[str, int]]


def encode(columns: Mapping[str, pa.Array], known: Sequence[Column]) -> Encoded:
    """Return the codes of cells, as `flows.tables.mixed.parse` gives them."""
    codes: list[IntArray] = []
    unknown: dict[str, dict[str, int]] = {}
    respelt: dict[str, dict[str, int]] = {}
    for column in known:
        given = columns[column.source]
        # What the column's rule cannot read is a category that the fit never saw.
        words = mixed.texts(mixed.without_words(given, column.rule))
        cells = pc.coalesce(column.texts(given), words).dictionary_encode()
        names = cells.dictionary.to_pylist()
        indices = cells.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        matched = match_levels(names, column.places)
        code_of = [column.places[matched[name]] if name in matched else MISSING for name in names]
        codes.append(np.array([*code_of, MISSING], np.int64)[indices])
        count = np.bincount(indices, minlength=len(names) + 1).tolist()
        for name, cells_of in zip(names, count, strict=False):
            if name not in matched:
                unknown.setdefault(column.name, {})[name] = cells_of
            elif matched[name] != name:
                respelt.setdefault(column.name, {})[name] = cells_of
    return Encoded(np.stack(codes, axis=1), unknown, respelt)
