"""What the cells of a column were seen to be, counted: the sum of two parts is that of both.

Every distinct cell is compared with a few patterns (`vbmodels.tables.cells`), so that a column is
read the same for any partitioning, and whether a file types its cells or writes them as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import numpy as np

from vbmodels.core.draws import mix
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.tables.cells import (
    DASH,
    HAS_GROUPS,
    HAS_LEADING_ZERO,
    IS_COMMA_GROUP,
    IS_DECORATED,
    IS_DOT_GROUP,
    IS_PLAIN,
    MISSING,
    PLUS,
    dates_in,
    number_of,
)
from vbmodels.tables.levels import NO, YES

DECIMAL_POINT, DECIMAL_COMMA, IN_GROUPS = "decimal point", "decimal comma", "thousands separators"
DOT_OR_GROUP, COMMA_OR_GROUP = "thousands point or decimals", "thousands comma or decimals"
"""What numbers of text may have, beyond doubt and not: of each, and of units, `Seen` has a cell."""
QUOTE, BRACKET, TRAILING = "'", "(", "-"
"""What is around numbers and no unit: the brackets, or the minus after it, of a negative one."""
PERCENT = "%"

SENTINELS = (
    -1.0, -7.0, -8.0, -9.0, -77.0, -88.0, -99.0, -777.0, -888.0, -999.0, -9999.0, 9.0, 77.0, 88.0,
    97.0, 98.0, 99.0, 777.0, 888.0, 997.0, 998.0, 999.0, 9999.0, 99999.0,
)  # fmt: skip
"""Numbers that often are codes of missing cells."""

MOST_EXAMPLES = 5
_AT_ONCE = 4096  # distinct cells that are added up together


@dataclass(frozen=True)
class Seen:
    """What a column's cells were seen to be; the sum of two is that of both.

    Attributes
    ----------
    cells
        Cells that are given.
    missing
        Cells that are not, and ``words`` by what they say.
    plain
        Cells that are, or read as, finite numbers as computers write them.
    point, comma
        Those that read as numbers with a decimal point; with a decimal comma.
    groups
        Those with groups of thousands beyond doubt.
    dot_groups, comma_groups
        Those that can be groups of thousands or a number with three decimals.
    zeros, fractions
        Whole numbers with leading zeros; numbers that are not whole.
    flags, ones
        Yes or no, true or false, 1 or 0; the former of each.
    typed_flags
        Cells that a file calls true or false.
    dates
        Dates by the order of day, month and year.
    declared
        Those of a dictionary: the file calls them categories.
    semicolons
        Cells of a file whose columns are set apart by semicolons.
    units
        What is before, after or around numbers.
    examples
        The first cell of each form, and where it is ("" where that is not known).
    shares
        Numbers from 0 to 1 without a unit.
    sentinels
        Cells with each of `SENTINELS`.
    low, high
        Ends of all numbers that are no sentinels, with a decimal point where a cell allows it.
    comma_low, comma_high
        Ends of all numbers in text that have, or may have, a decimal comma.
    odd
        Some cells that are no numbers.
    order
        The categories in order, where the file says one.
    characters
        Of all cells of text.
    prints
        Sum of digests of whole numbers, which says whether they count the rows.
    """

    cells: int = 0
    missing: int = 0
    plain: int = 0
    point: int = 0
    comma: int = 0
    groups: int = 0
    dot_groups: int = 0
    comma_groups: int = 0
    zeros: int = 0
    fractions: int = 0
    flags: int = 0
    ones: int = 0
    typed_flags: int = 0
    declared: int = 0
    semicolons: int = 0
    characters: int = 0
    prints: int = 0
    pluses: int = 0
    shares: int = 0
    words: Mapping[str, int] = field(default_factory=dict)
    dates: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sentinels: Mapping[str, int] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    comma_low: float | None = None
    comma_high: float | None = None
    odd: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def __add__(self, other: Seen) -> Seen:
        if not (other.cells or other.missing or other.order):
            return self
        if not (self.cells or self.missing or self.order):
            return other
        return _added((self, other))

    @property
    def measured(self) -> bool:
        """Whether its numbers are measurements rather than codes: fractions, or a wide range."""
        wide = self.low is not None and self.high is not None and self.high - self.low > 50.0
        return bool(self.fractions) or wide

    @property
    def numbers(self) -> int:
        """Cells that read as numbers, with the decimal sign that more of them have."""
        return max(self.point, self.comma)


_MASK = 2**64 - 1


def _added(parts: Sequence[Seen]) -> Seen:
    """Return what parts of a column hold together."""
    values: dict[str, Any] = {}
    for item in fields(Seen):
        present = [part for part in map(attrgetter(item.name), parts) if part]
        if item.name in ("low", "high", "comma_low", "comma_high"):
            ends = [end for end in map(attrgetter(item.name), parts) if end is not None]
            values[item.name] = (min if item.name.endswith("low") else max)(ends, default=None)
        elif item.name == "examples":
            values[item.name] = {
                form: cell for part in present[::-1] for form, cell in part.items()
            }
        elif item.name in ("words", "dates", "units", "sentinels"):
            total: dict[str, int] = {}
            for counts in present:
                for word, count in counts.items():
                    total[word] = total.get(word, 0) + count
            values[item.name] = total
        elif item.name in ("odd", "order"):
            several = tuple(dict.fromkeys(text for texts in present for text in texts))
            values[item.name] = several[:MOST_EXAMPLES] if item.name == "odd" else several
        else:
            values[item.name] = sum(present) & _MASK
    return Seen(**values)


def ends_of(seen: Seen, decimal: str = ".") -> tuple[float, float]:
    """Return the smallest and the largest number, by the decimal sign of a column."""
    if decimal == "," and seen.comma_low is not None and seen.comma_high is not None:
        return seen.comma_low, seen.comma_high
    ends = [v for v in (seen.low, seen.high) if v is not None]
    ends += [float(word) for word in seen.sentinels]
    return min(ends, default=0.0), max(ends, default=0.0)


def sentinels_of(seen: Seen) -> dict[str, int]:
    """Return numbers that look like codes of missing cells: far from all others; with their cells.

    >>> sentinels_of(seen_in({"1": 5, "2": 9, "5": 3, "-9": 4, "99": 2}))
    {'-9': 4, '99': 2}
    """
    if seen.low is None or seen.high is None:
        return {}
    width = seen.high - seen.low
    sentinels = {}
    for word, count in seen.sentinels.items():
        value = float(word)
        negative = value <= -7.0 and seen.low >= 0.0
        far = value < seen.low - 0.5 * width or value > seen.high + 0.5 * width
        if count >= 2 and width > 0.0 and (negative or far):
            sentinels[word] = count
    return sentinels


def prints_of_range(low: int, high: int) -> int:
    """Return the sum of the digests of all whole numbers from one to another.

    >>> prints_of_range(1, 2) == (prints_of_range(1, 1) + prints_of_range(2, 2)) & (2**64 - 1)
    True
    """
    return int(prints_of(np.arange(low, high + 1, dtype=np.int64)))


def prints_of(values: Any) -> int:
    """Return the sum of the digests of whole numbers, modulo 2**64."""
    x = np.asarray(values).astype(np.int64).astype(np.uint64)
    with np.errstate(over="ignore"):
        return int(mix(x).sum(dtype=np.uint64))


def seen_in(counts: Mapping[str, int]) -> Seen:
    """Return what distinct cells of text are, with how often each occurs; for tables in memory.

    >>> seen_in({"1": 1, "NA": 1, "x": 1}).cells
    2
    """
    cells, total = list(counts.items()), Seen()
    for first in range(0, len(cells), _AT_ONCE):
        chunk = cells[first : first + _AT_ONCE]
        total += _added([_one(text.strip(), count) for text, count in chunk])
    return total


def seen_numbers(values: FloatArray, missing: int, words: Mapping[str, int] | None = None) -> Seen:
    """Return what numbers are.

    Parameters
    ----------
    values
        The cells that are given.
    missing
        How many are not.
    words
        Those of them that say something.

    Examples
    --------
    >>> seen_numbers(np.array([1.0, 2.5]), 1).fractions
    1
    """
    finite = np.isfinite(values)
    n = int(np.count_nonzero(finite))
    numbers = values if n == len(values) else values[finite]
    ones = int(np.count_nonzero(numbers == 1.0))
    flags = ones + int(np.count_nonzero(numbers == 0.0))
    return Seen(
        len(finite),
        missing,
        plain=n,
        point=n,
        comma=n,
        flags=flags,
        ones=ones,
        words=dict(words or {}),
        odd=() if n == len(finite) else ("inf",),
        **ends_in(numbers, np.ones(len(numbers), np.int64)),
    )


def ends_in(values: FloatArray, counts: IntArray) -> dict[str, Any]:
    """Return what `Seen` has of numbers, each of which occurs so often."""
    if not values.size:
        return {}
    whole = values == np.floor(values)
    fractions = 0 if whole.all() else int(counts[~whole].sum())
    low, high = float(values.min()), float(values.max())
    shares = int(counts[(values >= 0.0) & (values <= 1.0)].sum())
    figures: dict[str, Any] = {"fractions": fractions, "shares": shares}
    rest = values
    sentinels = {}
    for value in SENTINELS:
        if low <= value <= high and (hits := values == value).any():
            sentinels[f"{value:g}"] = int(counts[hits].sum())
            rest = rest[rest != value]
    if sentinels:
        figures["sentinels"] = sentinels
    if not fractions:
        exact = max(-low, high) < 2**53
        if not exact:
            in_range = np.abs(values) < 2**53
            values, counts = values[in_range], counts[in_range]
        if (counts == 1).all():
            figures["prints"] = prints_of(values)
        else:
            each = (prints_of(values[counts == n]) * int(n) for n in np.unique(counts))
            figures["prints"] = sum(each) & _MASK
    if rest.size:
        figures |= {"low": float(rest.min()), "high": float(rest.max())}
    return figures


def _one(text: str, n: int) -> Seen:
    if text in MISSING or text == DASH:
        return Seen(missing=n, words={text: n} if text else {})
    word, plain = text.lower(), IS_PLAIN.fullmatch(text) is not None
    point, comma = number_of(text), number_of(text, ",")
    value = point if point is not None else comma
    parts = IS_DECORATED.fullmatch(text)
    units: dict[str, int] = {}
    if parts and not plain and value is not None:
        bracket = BRACKET if parts["sign"] == BRACKET else ""
        trailing = TRAILING if parts["trail"] else ""
        around = (parts["quote"], parts["before"], parts["after"], bracket, trailing)
        units = {u.strip(): n for u in around if u}
    whole = value is not None and value.is_integer()
    digits = parts["digits"] if parts else ""
    sentinel = whole and value in SENTINELS
    dot_group, comma_group = IS_DOT_GROUP.fullmatch(digits), IS_COMMA_GROUP.fullmatch(digits)
    group = value is not None and HAS_GROUPS.search(digits)
    forms = {
        DECIMAL_POINT: point is not None and comma is None,
        DECIMAL_COMMA: comma is not None and point is None,
        IN_GROUPS: group,
        DOT_OR_GROUP: dot_group,
        COMMA_OR_GROUP: comma_group,
        **units,
    }

    def cells_if(holds: object) -> int:
        return n if holds else 0

    return Seen(
        cells=n,
        plain=cells_if(plain and point is not None),
        point=cells_if(point is not None),
        comma=cells_if(comma is not None),
        dot_groups=cells_if(dot_group),
        comma_groups=cells_if(comma_group),
        groups=cells_if(group),
        examples={form: (text, "") for form, has in forms.items() if has},
        zeros=cells_if(HAS_LEADING_ZERO.fullmatch(text)),
        fractions=cells_if(value is not None and not whole),
        flags=cells_if(word in YES or word in NO),
        ones=cells_if(word in YES),
        shares=cells_if(value is not None and 0.0 <= value <= 1.0 and not units),
        characters=n * len(text),
        pluses=cells_if(text == PLUS),
        dates=dates_in([(text, n)]) if value is None else {},
        units=units,
        sentinels={f"{value:g}": n} if sentinel else {},
        low=None if sentinel else value,
        high=None if sentinel else value,
        comma_low=comma,
        comma_high=comma,
        odd=() if value is not None else (text,),
        prints=(n * prints_of_range(int(value), int(value))) & _MASK
        if value is not None and whole and abs(value) < 2**53
        else 0,
    )
