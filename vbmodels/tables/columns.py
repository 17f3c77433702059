"""What a column holds, by all of its cells: one rule for files and for tables in memory.

`read_as` decides from what was seen of the cells (`vbmodels.tables.seen`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vbmodels.tables.cells import IS_MONEY, UNITS, Kind, Order, dates_in, number_of
from vbmodels.tables.levels import NEARLY
from vbmodels.tables.seen import (
    BRACKET,
    COMMA_OR_GROUP,
    DECIMAL_COMMA,
    DECIMAL_POINT,
    DOT_OR_GROUP,
    IN_GROUPS,
    MOST_EXAMPLES,
    PERCENT,
    QUOTE,
    TRAILING,
    Seen,
    ends_of,
    prints_of_range,
)

_ID_NAME = re.compile(
    r"(row|record|case|subject|respondent|participant|patient|person|sample|user|customer|client|"
    r"student|member|response|study|household)?[ _.-]?(id|ids|uuid|guid|key|nr|no|number|index)"
    r"|respondent|participant|subject|caseid|case|patient|seqn|rowname|uid|pid|index|unnamed: 0",
    re.IGNORECASE,
)
_ID_WORDS = re.compile(
    r"person|user|customer|client|student|member|employee|worker|rater|pupil|child|e-?mail"
    r"|.+[ _.-](id|ids|uuid|guid|pid|token|e-?mail)|e-?mail.*",
    re.IGNORECASE,
)
_ID_HUMPS = re.compile(r".*[a-z](Id|ID|Uuid|UUID)")
_WEIGHT_NAME = re.compile(
    r"(.*[_. ])?(weight|weights|wt|wgt|wts|finalwt|pweight|sampleweight|survey_?weight)(_?\d+)?",
    re.IGNORECASE,
)
_EXPOSURE_NAME = re.compile(
    r"(.*[_. ])?(exposure|offset|(person|patient|device)[_. ]?(years?|days?|time)|follow[_. ]?up|"
    r"population|((years?|days?|time)[_. ])?at[_. ]risk)"
    r"([_. ]?[(\[]?(years?|days?|months?)[)\]]?)?",
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
    mark, answer
        What sets several answers of a cell apart, and which of them is a yes, where the column is
        one answer (`vbmodels.tables.answers`).
    others
        All answers of these cells.
    absent
        A category that is a missing cell.
    """

    kind: Kind = "category"
    decimal: str = "."
    order: Order = "ymd"
    blank_is_no: bool = False
    yes: str = ""
    dash_is_missing: bool = True
    remark: str = ""
    mark: str = ""
    answer: str = ""
    others: tuple[str, ...] = ()
    absent: str = ""


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
    mend
        What to do about some of its cells that are wrong; empty where the question is how all of
        them are meant.
    """

    def __init__(self, expected: str, found: str, remedy: str, mend: str = "") -> None:
        super().__init__(f"expected {expected}, found {found}; {remedy}")
        self.expected, self.found, self.remedy, self.mend = expected, found, remedy, mend


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
    >>> from collections import Counter
    >>> from vbmodels.tables.seen import seen_in
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
    seen: Mapping[str, Seen], wishes: Wishes | None = None, names: Sequence[str] = ()
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return how every column of a table is read, and why some cannot be: these as categories.

    ``names``: of the columns, where ``seen`` has others in place of them.
    """
    commas = any(
        column.comma == column.cells > column.point and column.cells for column in seen.values()
    )
    rules: dict[str, Rule] = {}
    unclear: dict[str, Unclear] = {}
    for name, column in seen.items():
        try:
            rules[name] = read_as(name, column, wishes, commas)
        except Unclear as error:
            rules[name], unclear[name] = Rule(), error
    for name in _boxes(dict(zip(seen, names or seen, strict=True)), seen, rules):
        rules[name] = _as_flag(seen[name], is_box=True)
    return rules, unclear


_BOX = re.compile(r"(.+?)(\[.*\]|___.+)", re.DOTALL)
"""A column of one answer to a question of several, as LimeSurvey and REDCap name them."""


def _boxes(
    names: Mapping[str, str], seen: Mapping[str, Seen], rules: Mapping[str, Rule]
) -> list[str]:
    """Return the columns of yes or blank, some of which say N/A, of questions with several."""
    groups: dict[str, list[str]] = {}
    for key, name in names.items():
        box, column = _BOX.fullmatch(name), seen[key]
        if box and rules[key].kind == "yes or no" and column.ones == column.cells:
            groups.setdefault(box[1], []).append(key)
    return [key for keys in groups.values() if len(keys) > 1 for key in keys]


def _unclear(seen: Seen, what: str, parsed: int) -> Unclear:
    odd = [cell for cell in seen.odd if what != "a date" or not dates_in([(cell, 1)])]
    others, such = seen.cells - parsed, f", such as {_listed(odd)}" if odd else ""
    remedy = "correct these cells"
    if others == 1 and odd and odd[0].strip(" :").lower() in _TOTALS:
        remedy = "remove the line if it is one of totals, correct the cell"
    word = odd[0] if odd and re.fullmatch(r"[\w.?/-]{1,30}", odd[0]) else "WORD"
    cells, words = ("cell", "its word") if others == 1 else ("cells", "their words")
    mend = f"{remedy}, name {words} as missing (--set missing={word})"
    return Unclear(
        f"{what} in every cell, as in {parsed:,} of {seen.cells:,}",
        f"{others:,} other {cells}{such}",
        f"{mend}, or name the column in categories (--set categories=COLUMN)",
        mend,
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
    units = [unit for unit in seen.units if unit not in (QUOTE, BRACKET, TRAILING)]
    bare = seen.cells - seen.units.get(PERCENT, 0)
    if units == [PERCENT] and 0 < bare <= 2 * seen.shares:
        raise Unclear(
            "numbers of one scale",
            f"{seen.units[PERCENT]:,} with a percent sign{_such(seen, PERCENT)} and {bare:,} "
            f"without, of which {seen.shares:,} are from 0 to 1",
            "write all as percent, or all as fractions",
        )
    if len(units) > 1:
        parts = ", ".join(f"{unit!r} ({seen.units[unit]:,})" for unit in units[:5])
        if len(units) > 3 or not all(unit in UNITS or IS_MONEY(unit) for unit in units):
            return None
        raise Unclear(
            "numbers of one unit",
            f"several: {parts}",
            "convert them to one unit, or name the column in categories (--set categories=COLUMN)",
        )
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
    if TRAILING in seen.units:
        remarks.append("with a minus after them: negative")
    for unit in units:
        extent = "" if seen.units[unit] == seen.cells else f" from {seen.units[unit]:,} cells"
        remarks.append(f"{unit} removed{extent}")
    only_ones = seen.ones == seen.cells and seen.missing > 0 and not (seen.units or seen.words)
    if only_ones:
        return _as_flag(seen)
    return Rule("number", decimal=decimal, remark=", ".join(remarks))


def _such(seen: Seen, form: str) -> str:
    """Name a cell of a form, and where it is."""
    cell, where = seen.examples.get(form, ("", ""))
    return f" ({' in '.join(filter(None, (cell, where)))})" if cell else ""


def _as_flag(seen: Seen, is_box: bool = False) -> Rule:
    blanks = seen.missing - sum(seen.words.values())
    blank = seen.ones == seen.cells and blanks > 0 and (is_box or not seen.words)
    remark = f"only yes or blank: {blanks:,} blank cells are no" if blank else ""
    return Rule("yes or no", blank_is_no=blank, remark=remark)


def _mark_of(seen: Seen) -> str:
    """Return the one word of a column that has it or is blank, as boxes to tick; else nothing."""
    words = {cell.strip().lower() for cell in seen.odd}
    blank = seen.missing > 0 and not seen.words
    all_seen = len(seen.odd) < MOST_EXAMPLES and not (seen.numbers or seen.flags)
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

    >>> from vbmodels.tables.seen import seen_in
    >>> cells = seen_in({"33,413": 2, "12.5": 1, "(3)": 1})
    >>> [(one.name, one.count, one.value) for one in number_forms(cells, Rule("number"))]
    [('thousands separators', 2, 33413.0), ('brackets', 1, -3.0)]
    """
    if rule.kind != "number":
        return []
    comma = rule.decimal == ","
    groups, single = (
        (seen.dot_groups, DOT_OR_GROUP) if comma else (seen.comma_groups, COMMA_OR_GROUP)
    )
    counted: list[tuple[str, int, tuple[str, ...]]] = [
        (IN_GROUPS, seen.groups + groups, (IN_GROUPS, single))
    ]
    if comma:
        count = seen.cells - seen.point + seen.comma_groups
        counted.insert(0, (f"a {DECIMAL_COMMA}", count, (DECIMAL_COMMA, COMMA_OR_GROUP)))
    in_words = {
        QUOTE: "an apostrophe before them",
        BRACKET: "brackets",
        TRAILING: "a minus after them",
    }
    counted += [(in_words.get(unit, unit), count, (unit,)) for unit, count in seen.units.items()]
    forms = []
    for name, count, keys in counted:
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

    >>> from collections import Counter
    >>> from vbmodels.tables.seen import seen_in
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


@dataclass(frozen=True)
class Reason:
    """Why a column is left out: what it holds instead of what is used, and that in words."""

    kind: Literal["id", "repeated ids", "text", "measured", "copy", "other"]
    words: str

    def __str__(self) -> str:
        return self.words


def names_rows(name: str, seen: Seen, distinct: int | None, kind: str) -> Reason | None:
    """Return why a column that names or describes its rows predicts nothing; None of any other.

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
    >>> from vbmodels.tables.seen import seen_in
    >>> ids = seen_in(dict.fromkeys(map(str, range(1, 51)), 1))
    >>> str(names_rows("patient", ids, 50, "number"))
    'id: numbers the rows from 1 to 50'
    """
    cells = seen.cells
    if cells < LEAST_DISTINCT or kind in ("date", "yes or no") or seen.declared:
        return None
    if kind == "number":
        if seen.fractions or seen.low is None or seen.high is None:
            return None
        low, high = ends_of(seen)
        if high - low + 1 == cells and seen.prints == prints_of_range(int(low), int(high)):
            return Reason("id", f"id: numbers the rows from {low:g} to {high:g}")
        named = looks_like_id(name) and high - low >= cells // 4
        return Reason("id", "id, by its name") if named else None
    if distinct is None or distinct < DISTINCT * cells:
        return None
    what: Literal["text", "id"] = "text" if seen.characters > LONG * cells else "id"
    share = f"all {cells:,}" if distinct == cells else f"{distinct:,} of {cells:,}"
    return Reason(what, f"{what}: {share} cells differ")


def looks_like_id(name: str) -> bool:
    """Say whether a column is named like one of ids.

    >>> [looks_like_id(name) for name in ("respondent", "worker_id", "WorkerId", "idea", "grid")]
    [True, True, True, False, False]
    """
    name = name.strip()
    return any(pattern.fullmatch(name) for pattern in (_ID_NAME, _ID_WORDS, _ID_HUMPS))


def looks_like_weight(name: str) -> bool:
    """Say whether a column is named like one of survey weights."""
    return bool(_WEIGHT_NAME.fullmatch(name.strip()))


def looks_like_exposure(name: str) -> bool:
    """Say whether a column is named like one of what counts are of, such as person-years.

    >>> [looks_like_exposure(name) for name in ("Exposure (years)", "days_at_risk", "years")]
    [True, True, False]
    """
    return bool(_EXPOSURE_NAME.fullmatch(name.strip()))


def looks_like_design(name: str) -> bool:
    """Say whether a column is named like one of a survey's design."""
    return bool(_DESIGN_NAME.fullmatch(name.strip()))
