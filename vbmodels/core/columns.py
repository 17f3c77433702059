"""What a column holds, by all of its cells: one rule for files and for tables in memory.

Every distinct cell is compared with a few patterns; the counts (`Seen`) add over parts of a
column, so that a column is read the same for any partitioning, and whether a file types its cells
or writes them as text. `read_as` decides from the sum.

A number may have a decimal point or comma, groups of thousands, a currency, a percent sign, one
unit, or an apostrophe before it. Whole numbers with leading zeros are text (codes, zip codes).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from vbmodels.core.levels import NEARLY, NO, YES
from vbmodels.core.sampling import mix
from vbmodels.core.state import FloatArray, IntArray

Kind = Literal["number", "yes or no", "date", "category"]
Order = Literal["dmy", "mdy", "ymd"]

MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "Null", "<NA>", ".", "?",
    "--", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!",
)  # fmt: skip
"""Cells of text that are missing cells; `DASH` is one too, unless the column has a + as well."""
DASH, PLUS = "-", "+"

NUMBER = r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?"
"""A number as computers write it."""
LEADING_ZERO = r"[-+]?0\d+"

_CURRENCY = r"[$€£¥₹]|US\$|USD|EUR|GBP|CHF|JPY"
_IS_MONEY = re.compile(_CURRENCY).fullmatch
UNITS = (
    "%", "‰", "°", "°C", "°F", "kg", "g", "mg", "µg", "μg", "ug", "ng", "lb", "lbs", "oz", "t",
    "km", "m", "cm", "mm", "µm", "μm", "nm", "mi", "ft", "in", "m²", "m2", "km²", "ha",
    "l", "L", "dl", "dL", "ml", "mL", "µl", "μl", "h", "hr", "hrs", "min", "s", "sec", "ms",
    "y", "yr", "yrs", "d", "mmHg", "bpm", "Hz", "kHz", "MHz", "GHz", "V", "kV", "W", "kW", "kWh",
    "mmol/L", "mmol/l", "mg/dL", "mg/dl", "g/dL", "g/dl", "ng/mL", "ng/ml",
    "U/L", "IU/L", "kg/m²", "kg/m2", "km/h", "mph",
)  # fmt: skip
"""Units that may follow a number at once; any other word needs a blank between."""
_KNOWN = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_WORD = r"[A-Za-zµμ]+[²³.]?(?:/[A-Za-zµμ0-9]+[²³]?)?"
DECORATED = (
    rf"(?P<quote>'?)\s*(?P<sign>[-+−(]?)\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-−]?)"
    r"(?P<digits>[0-9][0-9.,'’\x{a0}\x{202f} ]*[0-9]|[0-9]+[.]?|[.,][0-9]+)"
    rf"(?P<power>[eE][-+]?[0-9]+)?\s*(?P<after>{_CURRENCY}|{_KNOWN}|\s{_WORD})?\s*\)?"
)
"""A number as people write it, for RE2; see `decorated` for Python's."""

_GAP = r"['’\x{a0}\x{202f} ]"
POINT = rf"[0-9]+(\.[0-9]*)?|\.[0-9]+|[1-9][0-9]{{0,2}}(,[0-9]{{3}})+(\.[0-9]+)?|[0-9]{{1,3}}({_GAP}[0-9]{{3}})+(\.[0-9]+)?"  # noqa: E501
COMMA = rf"[0-9]+|[0-9]*,[0-9]+|[1-9][0-9]{{0,2}}(\.[0-9]{{3}})+(,[0-9]+)?|[0-9]{{1,3}}({_GAP}[0-9]{{3}})+(,[0-9]+)?"  # noqa: E501
"""Digits with a decimal point, and with a decimal comma."""
DOT_GROUPS, COMMA_GROUPS = r"[1-9][0-9]{0,2}\.[0-9]{3}", r"[1-9][0-9]{0,2},[0-9]{3}"
"""Digits that can be a group of thousands, or three decimals."""
GROUPS = rf"{_GAP}|[.,][0-9]+[.,]"
"""What digits with groups of thousands have, whatever the decimal sign."""

DECIMAL_POINT, DECIMAL_COMMA, IN_GROUPS = "decimal point", "decimal comma", "thousands separators"
DOT_OR_GROUP, COMMA_OR_GROUP = "thousands point or decimals", "thousands comma or decimals"
"""What numbers of text may have, beyond doubt and not: of each, and of units, `Seen` has a cell."""
QUOTE, BRACKET = "'", "("
"""What is around numbers and no unit: the brackets of a negative one."""

SENTINELS = (
    -1.0, -7.0, -8.0, -9.0, -77.0, -88.0, -99.0, -777.0, -888.0, -999.0, -9999.0,
    9.0, 77.0, 88.0, 97.0, 98.0, 99.0, 777.0, 888.0, 997.0, 998.0, 999.0, 9999.0, 99999.0,
)  # fmt: skip
"""Numbers that often are codes of missing cells."""

_MOST_EXAMPLES = 5
_AT_ONCE = 4096  # distinct cells that are added up together
_ID_NAME = re.compile(
    r"(row|record|case|subject|respondent|participant|patient|person|sample|user|customer|client|"
    r"student|member|response|study|household)?[ _.-]?(id|ids|uuid|guid|key|nr|no|number|index)"
    r"|respondent|participant|subject|caseid|case|patient|seqn|rowname|uid|pid|index|unnamed: 0",
    re.IGNORECASE,
)
_WEIGHT_NAME = re.compile(
    r"(.*[_. ])?(weight|weights|wt|wgt|wts|finalwt|pweight|sampleweight|survey_?weight)(_?\d+)?",
    re.IGNORECASE,
)
_DESIGN_NAME = re.compile(
    r"(psu|strata|stratum|cluster|sdmvpsu|sdmvstra|varpsu|varstrat)", re.IGNORECASE
)
DISTINCT = 0.9
"""Share of distinct cells from which on a column of text names or describes its rows."""
LEAST_DISTINCT = 20  # cells of a column of which so much can be said
LONG = 40  # characters of a cell, on average, that is free text


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
    for one in fields(Seen):
        found = [part for part in map(attrgetter(one.name), parts) if part]
        if one.name in ("low", "high", "comma_low", "comma_high"):
            ends = [end for end in map(attrgetter(one.name), parts) if end is not None]
            values[one.name] = (min if one.name.endswith("low") else max)(ends, default=None)
        elif one.name == "examples":
            values[one.name] = {form: cell for part in found[::-1] for form, cell in part.items()}
        elif one.name in ("words", "dates", "units", "sentinels"):
            total: dict[str, int] = {}
            for counts in found:
                for word, count in counts.items():
                    total[word] = total.get(word, 0) + count
            values[one.name] = total
        elif one.name in ("odd", "order"):
            several = tuple(dict.fromkeys(text for texts in found for text in texts))
            values[one.name] = several[:_MOST_EXAMPLES] if one.name == "odd" else several
        else:
            values[one.name] = sum(found) & _MASK
    return Seen(**values)


@dataclass(frozen=True)
class Rule:
    """How a column's cells are read.

    Attributes
    ----------
    kind
        What they are.
    decimal
        The decimal sign of numbers.
    order
        Of day, month and year.
    blank_is_no
        Whether a missing cell is a no: the column has yes or nothing.
    yes
        The word that is a yes in such a column, where it is none of `YES`; in small letters.
    dash_is_missing
        Whether - is a missing cell.
    remark
        What of this is not plain, in words.
    """

    kind: Kind = "category"
    decimal: str = "."
    order: Order = "ymd"
    blank_is_no: bool = False
    yes: str = ""
    dash_is_missing: bool = True
    remark: str = ""


@dataclass(frozen=True)
class Wishes:
    """What the user says of all columns.

    Attributes
    ----------
    categories
        Columns that are categories whatever they hold.
    decimal, thousands
        The decimal sign, and what sets groups of thousands apart; None to find out.
    dates
        The order of day and month; None to find out.
    """

    categories: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    dates: Order | None = None


class Unclear(ValueError):
    """A column cannot be read without a word of the user.

    Attributes
    ----------
    expected, found, remedy
        Parts of a sentence.
    has_odd
        Whether some of its cells are wrong, and not how all of them are meant.
    """

    def __init__(self, expected: str, found: str, remedy: str, has_odd: bool = False) -> None:
        self.has_odd = has_odd
        super().__init__(f"expected {expected}, found {found}; {remedy}")
        self.expected, self.found, self.remedy = expected, found, remedy


def read_as(name: str, seen: Seen, wishes: Wishes | None = None, commas: bool = False) -> Rule:
    """Return how a column is read.

    Raises `Unclear` if a part of the cells is of one kind and a part is not, or dates can be read
    two ways.

    Parameters
    ----------
    name
        Of the column.
    seen
        What all of its cells are.
    wishes
        What the user says.
    commas
        Whether other columns of the table have decimal commas.

    Examples
    --------
    >>> of = lambda *cells: seen_in(Counter(cells))
    >>> read_as("a", of("1", "2.5", "")).kind, read_as("a", of("yes", "No")).kind
    ('number', 'yes or no')
    >>> read_as("a", of("12,5", "3,25")).decimal, read_as("a", of("02139", "10001")).kind
    (',', 'category')
    >>> read_as("a", of("33,413", "12,500")).remark
    'thousands separators removed, cells fit both: --set decimal=, reads decimals'
    >>> read_as("a", of("13/02/2020", "01/02/2020")).order
    'dmy'
    """
    wishes = wishes or Wishes()
    dash = not seen.pluses
    cells = seen.cells
    if name in wishes.categories:
        return Rule(dash_is_missing=dash, remark="named in categories")
    if seen.declared or not cells:
        return Rule(dash_is_missing=dash)
    if seen.typed_flags == cells:
        return Rule("yes or no")
    if seen.zeros and seen.plain == cells:
        remark = f"text, as {seen.zeros:,} cells have leading zeros"
        return Rule(dash_is_missing=dash, remark=remark)
    number = _as_number(seen, wishes, commas)
    if number is not None:
        return number
    if seen.flags == cells:
        return _as_flag(seen)
    if date := _as_date(seen, wishes):
        return date
    if mark := _mark_of(seen):
        remark = f"only {seen.odd[0]!r} or blank: {seen.missing:,} blank cells are no"
        return Rule("yes or no", blank_is_no=True, yes=mark, remark=remark)
    if NEARLY * cells <= max(seen.dates.values(), default=0):
        raise _unclear(seen, "a date", max(seen.dates.values()))
    partly = 2 * seen.numbers >= cells and seen.measured
    nearly = NEARLY * cells <= seen.numbers or (partly and not seen.zeros)
    if nearly and seen.numbers < cells:
        raise _unclear(seen, "a number", seen.numbers)
    remark = ""
    if seen.numbers and not seen.units:
        remark = f"not numbers: {cells - seen.numbers:,} cells, such as {_listed(seen.odd)}"
    return Rule(dash_is_missing=dash, remark=remark)


def rules_of(
    seen: Mapping[str, Seen], wishes: Wishes | None = None
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return how every column of a table is read, and why some cannot be: these as categories."""
    commas = any(one.comma == one.cells > one.point and one.cells for one in seen.values())
    rules: dict[str, Rule] = {}
    unclear: dict[str, Unclear] = {}
    for name, one in seen.items():
        try:
            rules[name] = read_as(name, one, wishes, commas)
        except Unclear as error:
            rules[name], unclear[name] = Rule(), error
    return rules, unclear


def _unclear(seen: Seen, what: str, parsed: int) -> Unclear:
    odd = [cell for cell in seen.odd if what != "a date" or not dates_in([(cell, 1)])]
    such = f", such as {_listed(odd)}" if odd else ""
    others = seen.cells - parsed
    remedy = "correct these cells"
    if others == 1 and odd and odd[0].strip(" :").lower() in _TOTALS:
        remedy = "remove the line if it is one of totals, correct the cell"
    word = odd[0] if odd and re.fullmatch(r"[\w.?/-]{1,30}", odd[0]) else "WORD"
    return Unclear(
        f"{what} in every cell, as in {parsed:,} of {seen.cells:,}",
        f"{others:,} other cell{'s' * (others != 1)}{such}",
        f"{remedy}, name {'its word' if others == 1 else 'their words'} as missing "
        f"(--set missing={word}), or name the column in categories (--set categories=COLUMN)",
        has_odd=True,
    )


_TOTALS = (
    "total",
    "totals",
    "sum",
    "summe",
    "gesamt",
    "somme",
    "totale",
    "suma",
    "mean",
    "average",
)
"""What the last line of a sheet is often called."""


def _listed(cells: Sequence[str]) -> str:
    return ", ".join(repr(cell[:40]) for cell in cells)


def _as_number(seen: Seen, wishes: Wishes, commas: bool) -> Rule | None:
    """Return how a column of numbers is read; None where it is none."""
    if wishes.decimal is None and max(seen.point, seen.comma) < seen.cells and not seen.odd:
        raise Unclear(
            "one decimal sign",
            f"{seen.cells - seen.point:,} numbers with a decimal comma"
            f"{_such(seen, DECIMAL_COMMA)} and {seen.cells - seen.comma:,} with a decimal point"
            f"{_such(seen, DECIMAL_POINT)}",
            "write all with one of them",
        )
    decimal = wishes.decimal or (
        {",": ".", ".": ","}.get(wishes.thousands or "") if wishes.thousands else None
    )
    unsure = False
    if decimal is None:
        either = seen.point == seen.comma == seen.cells
        unsure = either and bool(seen.comma_groups or seen.dot_groups)
        if either:
            thousands = commas and seen.dot_groups > 0
            written = seen.comma_groups > 0 and (commas or seen.semicolons > 0)
            decimal = "," if thousands or written else "."
        else:
            decimal = "," if seen.comma > seen.point else "."
    if (seen.comma if decimal == "," else seen.point) < seen.cells:
        return None
    units = [unit for unit in seen.units if unit not in (QUOTE, BRACKET)]
    if len(units) > 1:
        parts = ", ".join(f"{unit!r} ({seen.units[unit]:,})" for unit in units[:5])
        if len(units) > 3 or not all(unit in UNITS or _IS_MONEY(unit) for unit in units):
            return None
        raise Unclear(
            "numbers of one unit", f"several: {parts}",
            "convert them to one unit, or name the column in categories (--set categories=COLUMN)",
        )  # fmt: skip
    remarks = []
    if decimal == ",":
        remarks.append("decimal comma")
    if seen.groups or (seen.dot_groups if decimal == "," else seen.comma_groups):
        remarks.append("thousands separators removed")
    if unsure:
        sign = "," if seen.comma_groups else "."
        other = (
            f"thousands={sign} reads thousands"
            if decimal == sign
            else f"decimal={sign} reads decimals"
        )
        remarks.append(f"cells fit both: --set {other}")
    if QUOTE in seen.units:
        remarks.append("apostrophes removed")
    if BRACKET in seen.units:
        remarks.append("in brackets: negative")
    for unit in units:
        some = "" if seen.units[unit] == seen.cells else f" from {seen.units[unit]:,} cells"
        remarks.append(f"{unit} removed{some}")
    only_ones = seen.ones == seen.cells and seen.missing > 0 and not (seen.units or seen.words)
    if only_ones:
        return _as_flag(seen)
    return Rule("number", decimal=decimal, remark=", ".join(remarks))


def _such(seen: Seen, form: str) -> str:
    """Name a cell of a form, and where it is."""
    cell, where = seen.examples.get(form, ("", ""))
    return f" ({' in '.join(filter(None, (cell, where)))})" if cell else ""


def _as_flag(seen: Seen) -> Rule:
    blank = seen.ones == seen.cells and seen.missing > 0 and not seen.words
    remark = f"only yes or blank: {seen.missing:,} blank cells are no" if blank else ""
    return Rule("yes or no", blank_is_no=blank, remark=remark)


def _mark_of(seen: Seen) -> str:
    """Return the one word of a column that has it or is blank, as boxes to tick; else nothing."""
    words = {cell.strip().lower() for cell in seen.odd}
    blank = seen.missing > 0 and not seen.words
    all_seen = len(seen.odd) < _MOST_EXAMPLES and not (seen.numbers or seen.flags)
    return words.pop() if blank and all_seen and len(words) == 1 and seen.cells > 1 else ""


def _as_date(seen: Seen, wishes: Wishes) -> Rule | None:
    orders: list[Order] = [o for o in ("ymd", "dmy", "mdy") if seen.dates.get(o) == seen.cells]
    if not orders:
        return None
    if len(orders) == 1:
        order = orders[0]
    elif wishes.dates in orders:
        order = wishes.dates
    elif seen.dates.get("same") == seen.cells or "ymd" in orders:
        order = orders[0]
    else:
        raise Unclear(
            "dates of a known order of day and month",
            f"{seen.cells:,} that can be read both ways, such as {_listed(seen.odd)}",
            "say which: --set dates=dmy (day first) or --set dates=mdy (month first)",
        )
    words = {"dmy": "day/month/year", "mdy": "month/day/year", "ymd": ""}
    return Rule("date", order=order, remark=words[order])


@dataclass(frozen=True)
class NumberForm:
    """A way in which numbers are written otherwise than computers write them.

    Attributes
    ----------
    name
        What they have: thousands separators, a decimal comma, or what is around them.
    count
        Cells of it.
    cell, where
        The first, and where it is ("" where that is not known).
    value
        As which it is read.
    """

    name: str
    count: int
    cell: str
    where: str
    value: float


def number_forms(seen: Seen, rule: Rule) -> list[NumberForm]:
    """Return the forms of a column's numbers; none where it is read as something else.

    >>> cells = seen_in(Counter({"33,413": 2, "12.5": 1, "(3)": 1}))
    >>> [(one.name, one.count, one.value) for one in number_forms(cells, Rule("number"))]
    [('thousands separators', 2, 33413.0), ('brackets', 1, -3.0)]
    """
    if rule.kind != "number":
        return []
    comma = rule.decimal == ","
    groups, single = (
        (seen.dot_groups, DOT_OR_GROUP) if comma else (seen.comma_groups, COMMA_OR_GROUP)
    )
    found: list[tuple[str, int, tuple[str, ...]]] = [
        (IN_GROUPS, seen.groups + groups, (IN_GROUPS, single))
    ]
    if comma:
        count = seen.cells - seen.point + seen.comma_groups
        found.insert(0, (f"a {DECIMAL_COMMA}", count, (DECIMAL_COMMA, COMMA_OR_GROUP)))
    in_words = {QUOTE: "an apostrophe before them", BRACKET: "brackets"}
    found += [(in_words.get(unit, unit), count, (unit,)) for unit, count in seen.units.items()]
    forms = []
    for name, count, keys in found:
        examples = (seen.examples[key] for key in keys if key in seen.examples)
        cell, where = next(examples, ("", ""))
        value = number_of(cell, rule.decimal)
        if count and value is not None:
            forms.append(NumberForm(name, count, cell, where, value))
    return forms


def doubtful(seen: Seen, rule: Rule) -> NumberForm | None:
    """Return the cells whose comma is read as one of decimals or thousands and may be the other.

    That is a comma before three digits, where no cell has a decimal point, and none a decimal comma
    in a file whose columns are set apart by semicolons. None where there is no such cell.

    >>> of = lambda *cells: doubtful(seen_in(Counter(cells)), read_as("a", seen_in(Counter(cells))))
    >>> of("1,234", "0,5").value, of("1,234", "500").value, of("1,234", "0.5")
    (1.234, 1234.0, None)
    """
    sure = seen.comma < seen.cells
    if rule.decimal == ",":
        sure = seen.semicolons > 0 and seen.point < seen.cells
    if rule.kind != "number" or not seen.comma_groups or sure:
        return None
    cell, where = seen.examples[COMMA_OR_GROUP]
    value = number_of(cell, rule.decimal)
    assert value is not None
    return NumberForm(COMMA_OR_GROUP, seen.comma_groups, cell, where, value)


def names_rows(name: str, seen: Seen, distinct: int | None, kind: str) -> str:
    """Say why a column names or describes its rows, so that it predicts nothing; else nothing.

    Parameters
    ----------
    name, seen
        The column.
    distinct
        How many different cells it has; None where they were not counted.
    kind
        As which it is read.

    Examples
    --------
    >>> ids = seen_in(Counter(map(str, range(1, 51))))
    >>> names_rows("patient", ids, 50, "number")
    'id: numbers the rows from 1 to 50'
    """
    cells = seen.cells
    if cells < LEAST_DISTINCT or kind in ("date", "yes or no") or seen.declared:
        return ""
    if kind == "number":
        whole = not seen.fractions and seen.low is not None and seen.high is not None
        if not whole or seen.low is None or seen.high is None:
            return ""
        low, high = ends_of(seen)
        if high - low + 1 == cells and seen.prints == prints_of_range(int(low), int(high)):
            return f"id: numbers the rows from {low:g} to {high:g}"
        if _ID_NAME.fullmatch(name.strip()) and high - low >= cells // 4:
            return "id, by its name"
        return ""
    if distinct is None or distinct < DISTINCT * cells:
        return ""
    what = "text" if seen.characters > LONG * cells else "id"
    share = f"all {cells:,}" if distinct == cells else f"{distinct:,} of {cells:,}"
    return f"{what}: {share} cells differ"


def ends_of(seen: Seen, decimal: str = ".") -> tuple[float, float]:
    """Return the smallest and the largest number, by the decimal sign of a column."""
    if decimal == "," and seen.comma_low is not None and seen.comma_high is not None:
        return seen.comma_low, seen.comma_high
    ends = [v for v in (seen.low, seen.high) if v is not None]
    ends += [float(word) for word in seen.sentinels]
    return min(ends, default=0.0), max(ends, default=0.0)


def sentinels_of(seen: Seen) -> dict[str, int]:
    """Return numbers that look like codes of missing cells: far from all others; with their cells.

    >>> sentinels_of(seen_in(Counter({"1": 5, "2": 9, "5": 3, "-9": 4, "99": 2})))
    {'-9': 4, '99': 2}
    """
    if seen.low is None or seen.high is None:
        return {}
    width = seen.high - seen.low
    found = {}
    for word, count in seen.sentinels.items():
        value = float(word)
        negative = value <= -7.0 and seen.low >= 0.0
        far = value < seen.low - 0.5 * width or value > seen.high + 0.5 * width
        if count >= 2 and width > 0.0 and (negative or far):
            found[word] = count
    return found


def looks_like_weight(name: str) -> bool:
    """Say whether a column is named like one of survey weights."""
    return bool(_WEIGHT_NAME.fullmatch(name.strip()))


def looks_like_design(name: str) -> bool:
    """Say whether a column is named like one of a survey's design."""
    return bool(_DESIGN_NAME.fullmatch(name.strip()))


def level_text(text: str) -> str:
    """Return a category as it is compared: 4, 4.0 and " 4" are one; leading zeros stay.

    >>> [level_text(text) for text in ("4", "4.0", " 4", "04", "1.10", "a")]
    ['4', '4', '4', '04', '1.10', 'a']
    """
    text = text.strip()
    return WHOLE.sub(r"\1", text) if WHOLE.fullmatch(text) else text


WHOLE = re.compile(r"([-+]?(?:0|[1-9]\d*))\.0*")
"""A whole number that is written with a point."""


def _python(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\x\{(\w+)\}", lambda m: chr(int(m[1], 16)), pattern))


_DECORATED, _POINT, _COMMA = _python(DECORATED), _python(POINT), _python(COMMA)
_PLAIN, _ZERO = re.compile(NUMBER), re.compile(LEADING_ZERO)
_GROUPS = _python(GROUPS)
_DOT_GROUPS, _COMMA_GROUPS = re.compile(DOT_GROUPS), re.compile(COMMA_GROUPS)


def number_of(text: str, decimal: str = ".") -> float | None:
    """Return the number that a text is; None where it is none.

    >>> number_of("$1,234.50"), number_of("1.234,5 kg", ","), number_of("-(3"), number_of("28 %")
    (1234.5, 1234.5, None, 28.0)
    """
    if decimal == "." and _PLAIN.fullmatch(text):
        return _finite(text)
    found = _DECORATED.fullmatch(text)
    if not found or not (_COMMA if decimal == "," else _POINT).fullmatch(found["digits"]):
        return None
    if (found["sign"] == "(") != text.rstrip().endswith(")"):
        return None
    digits = re.sub("[^0-9,.]", "", found["digits"])
    if decimal == ",":
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.replace(",", "")
    minus = found["sign"] in ("-", "−", "(") or bool(found["inner"])
    return _finite(("-" if minus else "") + digits + (found["power"] or ""))


def _finite(text: str) -> float | None:
    value = float(text)
    return value if abs(value) < float("inf") else None


_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?Z?)?"
)
_SLASHED = re.compile(
    r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
_YEAR_FIRST = re.compile(
    r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
_NAMED = re.compile(r"\d{1,2}[ -.]+[A-Za-z]{3,9}\.?[ ,-.]+\d{2,4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}")
_NAMED_FORMS = (
    "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%d-%B-%Y", "%b %d %Y", "%B %d %Y", "%d-%b-%y",
    "%d %b %y",
)  # fmt: skip
_FIRST = datetime(1970, 1, 1)


def days_of(text: str, order: Order = "ymd") -> float | None:
    """Return the days since 1970-01-01 of a date, with its time; None where it is none.

    >>> days_of("02/01/1970", "dmy"), days_of("1970-01-02T12:00"), days_of("3 Jan 1970")
    (1.0, 1.5, 2.0)
    """
    found = _DATE.fullmatch(text) or _YEAR_FIRST.fullmatch(text)
    if found:
        parts = [int(part or 0) for part in found.groups()]
        micro = int((found[7] or "0").ljust(6, "0")) if found.re is _DATE else 0
        return _days(parts[0], parts[1], parts[2], *parts[3:6], micro)
    found = _SLASHED.fullmatch(text)
    if found:
        if order == "ymd":
            return None
        a, b, year = int(found[1]), int(found[2]), int(found[3])
        if len(found[3]) == 2:
            year += 2000 if year < 69 else 1900
        day, month = (a, b) if order == "dmy" else (b, a)
        return _days(year, month, day, *(int(part or 0) for part in found.groups()[3:6]))
    if _NAMED.fullmatch(text):
        plain = text.replace(",", " ").replace(".", " ")
        plain = " ".join(plain.split())
        for form in _NAMED_FORMS:
            try:
                return (datetime.strptime(plain, form) - _FIRST).total_seconds() / 86_400.0
            except ValueError:
                continue
    return None


def _days(year: int, month: int, day: int, *time: int) -> float | None:
    hour, minute, second, micro = (*time, 0, 0, 0, 0)[:4]
    try:
        moment = datetime(year, month, day, hour, minute, second, micro)
    except ValueError:
        return None
    return (moment - _FIRST).total_seconds() / 86_400.0


def dates_in(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Count cells that are dates, by order; ``same`` are those that are one date in both orders.

    A date with points between is day first.
    """
    found: Counter[str] = Counter()
    for text, count in counts:
        if not text[:1].isalnum() or len(text) > 32:
            continue
        if days_of(text) is not None:
            found.update(dict.fromkeys(("ymd", "dmy", "mdy"), count))
            continue
        dmy, mdy = days_of(text, "dmy"), None
        if "." not in text[:6]:
            mdy = days_of(text, "mdy")
        found["dmy"] += count if dmy is not None else 0
        found["mdy"] += count if mdy is not None else 0
        found["same"] += count if dmy is not None and dmy == mdy else 0
    return {order: count for order, count in found.items() if count}


def prints_of_range(low: int, high: int) -> int:
    """Return the sum of the digests of all whole numbers from one to another.

    >>> prints_of_range(1, 2) == (print_of(1) + print_of(2)) & (2**64 - 1)
    True
    """
    return int(prints_of(np.arange(low, high + 1, dtype=np.int64)))


def print_of(value: int) -> int:
    """Return the digest of a whole number."""
    return prints_of_range(value, value)


def prints_of(values: Any) -> int:
    """Return the sum of the digests of whole numbers, modulo 2**64."""
    x = np.asarray(values).astype(np.int64).astype(np.uint64)
    with np.errstate(over="ignore"):
        return int(mix(x).sum(dtype=np.uint64))


def seen_in(counts: Mapping[str, int]) -> Seen:
    """Return what distinct cells of text are, with how often each occurs; for tables in memory.

    >>> seen_in(Counter(["1", "NA", "x"])).cells
    2
    """
    cells, total = list(counts.items()), Seen()
    for first in range(0, len(cells), _AT_ONCE):
        some = cells[first : first + _AT_ONCE]
        total += _added([_one(text.strip(), count) for text, count in some])
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
    kept = values if n == len(values) else values[finite]
    ones = int(np.count_nonzero(kept == 1.0))
    flags = ones + int(np.count_nonzero(kept == 0.0))
    return Seen(
        len(finite), missing, plain=n, point=n, comma=n, flags=flags, ones=ones,
        words=dict(words or {}), odd=() if n == len(finite) else ("inf",),
        **ends_in(kept, np.ones(len(kept), np.int64)),
    )  # fmt: skip


def ends_in(values: FloatArray, counts: IntArray) -> dict[str, Any]:
    """Return what `Seen` has of numbers, each of which occurs so often."""
    if not values.size:
        return {}
    whole = values == np.floor(values)
    fractions = 0 if whole.all() else int(counts[~whole].sum())
    low, high = float(values.min()), float(values.max())
    found: dict[str, Any] = {"fractions": fractions}
    rest = values
    sentinels = {}
    for value in SENTINELS:
        if low <= value <= high and (hits := values == value).any():
            sentinels[f"{value:g}"] = int(counts[hits].sum())
            rest = rest[rest != value]
    if sentinels:
        found["sentinels"] = sentinels
    if not fractions:
        exact = max(-low, high) < 2**53
        if not exact:
            kept = np.abs(values) < 2**53
            values, counts = values[kept], counts[kept]
        found["prints"] = _prints_of(values, counts)
    if rest.size:
        found |= {"low": float(rest.min()), "high": float(rest.max())}
    return found


def _prints_of(values: FloatArray, counts: IntArray) -> int:
    if (counts == 1).all():
        return prints_of(values)
    return sum(prints_of(values[counts == n]) * int(n) for n in np.unique(counts)) & _MASK


def _exact(value: float) -> bool:
    return value.is_integer() and abs(value) < 2**53


def _one(text: str, n: int) -> Seen:
    if text in MISSING or text == DASH:
        return Seen(missing=n, words={text: n} if text else {})
    word, plain = text.lower(), _PLAIN.fullmatch(text) is not None
    point, comma = number_of(text), number_of(text, ",")
    value = point if point is not None else comma
    parts = _DECORATED.fullmatch(text)
    units: dict[str, int] = {}
    if parts and not plain and value is not None:
        bracket = BRACKET if parts["sign"] == BRACKET else ""
        around = (parts["quote"], parts["before"], parts["after"], bracket)
        units = {u.strip(): n for u in around if u}
    whole = value is not None and value.is_integer()
    digits = parts["digits"] if parts else ""
    sentinel = whole and value in SENTINELS
    dot_group, comma_group = _DOT_GROUPS.fullmatch(digits), _COMMA_GROUPS.fullmatch(digits)
    group = value is not None and _GROUPS.search(digits)
    forms = {
        DECIMAL_POINT: point is not None and comma is None,
        DECIMAL_COMMA: comma is not None and point is None,
        IN_GROUPS: group, DOT_OR_GROUP: dot_group, COMMA_OR_GROUP: comma_group, **units,
    }  # fmt: skip
    return Seen(
        cells=n,
        plain=n * (plain and point is not None),
        point=n * (point is not None),
        comma=n * (comma is not None),
        dot_groups=n * bool(dot_group),
        comma_groups=n * bool(comma_group),
        groups=n * bool(group),
        examples={form: (text, "") for form, has in forms.items() if has},
        zeros=n * bool(_ZERO.fullmatch(text)),
        fractions=n * (value is not None and not whole),
        flags=n * (word in YES or word in NO),
        ones=n * (word in YES),
        characters=n * len(text),
        pluses=n * (text == PLUS),
        dates=dates_in([(text, n)]) if value is None else {},
        units=units,
        sentinels={f"{value:g}": n} if sentinel else {},
        low=None if sentinel else value,
        high=None if sentinel else value,
        comma_low=comma,
        comma_high=comma,
        odd=() if value is not None else (text,),
        prints=(n * print_of(int(value))) & _MASK if value is not None and _exact(value) else 0,
    )
