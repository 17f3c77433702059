"""What one cell of text is: missing, a number, a date, or a category.

A number may have a decimal point or comma, groups of thousands, a currency, a percent sign, one
unit, or an apostrophe before it. Whole numbers with leading zeros are text (codes, zip codes).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

Kind = Literal["number", "yes or no", "date", "category"]
Order = Literal["dmy", "mdy", "ymd"]

MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "Null", "<NA>", ".", "?",
    "--", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#NV", "#N/D", "#WERT!",
    "#BEZUG!", "#ZAHL!", "#VALEUR!", "#NOMBRE!",
)  # fmt: skip
"""Cells of text that are missing cells; `DASH` is one too, unless the column has a + as well."""
DASH, PLUS = "-", "+"
NOT_ASKED = "(not asked)"
"""What stands for words of missing cells, such as N/A, beside cells that say yes or are blank."""

NUMBER = r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?"
"""A number as computers write it."""
LEADING_ZERO = r"[-+]?0\d+"

_CURRENCY = r"[$€£¥₹]|US\$|USD|EUR|GBP|CHF|JPY"
IS_MONEY = re.compile(_CURRENCY).fullmatch
UNITS = (
    "%", "‰", "°", "°C", "°F", "kg", "g", "mg", "µg", "μg", "ug", "ng", "lb", "lbs", "oz", "t",
    "km", "m", "cm", "mm", "µm", "μm", "nm", "mi", "ft", "in", "m²", "m2", "km²", "ha", "l", "L",
    "dl", "dL", "ml", "mL", "µl", "μl", "h", "hr", "hrs", "min", "s", "sec", "ms", "y", "yr",
    "yrs", "d", "mmHg", "bpm", "Hz", "kHz", "MHz", "GHz", "V", "kV", "W", "kW", "kWh", "mmol/L",
    "mmol/l", "mg/dL", "mg/dl", "g/dL", "g/dl", "ng/mL", "ng/ml", "U/L", "IU/L", "kg/m²", "kg/m2",
    "km/h", "mph",
)  # fmt: skip
"""Units that may follow a number at once; any other word needs a blank between."""
_KNOWN = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_WORD = r"[A-Za-zµμ]+[²³.]?(?:/[A-Za-zµμ0-9]+[²³]?)?"
DECORATED = (
    rf"(?P<quote>'?)\s*(?P<sign>[-+−(]?)\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-−]?)"
    r"(?P<digits>[0-9][0-9.,'’\x{a0}\x{202f} ]*[0-9]|[0-9]+[.]?|[.,][0-9]+)"
    rf"(?P<power>[eE][-+]?[0-9]+)?\s*(?P<after>{_CURRENCY}|{_KNOWN}|\s{_WORD})?\s*(?P<trail>[-−]?)\s*\)?"
)
"""A number as people write it, for RE2; `IS_DECORATED` is for Python."""

_GAP = r"['’\x{a0}\x{202f} ]"
POINT = rf"[0-9]+(\.[0-9]*)?|\.[0-9]+|[1-9][0-9]{{0,2}}(,[0-9]{{3}})+(\.[0-9]+)?|[0-9]{{1,3}}({_GAP}[0-9]{{3}})+(\.[0-9]+)?"  # noqa: E501
COMMA = rf"[0-9]+|[0-9]*,[0-9]+|[1-9][0-9]{{0,2}}(\.[0-9]{{3}})+(,[0-9]+)?|[0-9]{{1,3}}({_GAP}[0-9]{{3}})+(,[0-9]+)?"  # noqa: E501
"""Digits with a decimal point, and with a decimal comma."""
DOT_GROUPS, COMMA_GROUPS = r"[1-9][0-9]{0,2}\.[0-9]{3}", r"[1-9][0-9]{0,2},[0-9]{3}"
"""Digits that can be a group of thousands, or three decimals."""
GROUPS = rf"{_GAP}|[.,][0-9]+[.,]"
"""What digits with groups of thousands have, whatever the decimal sign."""


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


IS_DECORATED, _POINT, _COMMA = _python(DECORATED), _python(POINT), _python(COMMA)
IS_PLAIN, HAS_LEADING_ZERO = re.compile(NUMBER), re.compile(LEADING_ZERO)
HAS_GROUPS = _python(GROUPS)
IS_DOT_GROUP, IS_COMMA_GROUP = re.compile(DOT_GROUPS), re.compile(COMMA_GROUPS)


def number_of(text: str, decimal: str = ".") -> float | None:
    """Return the number that a text is; None where it is none.

    >>> number_of("$1,234.50"), number_of("1.234,5 kg", ","), number_of("-(3"), number_of("28 %")
    (1234.5, 1234.5, None, 28.0)
    >>> number_of("30.1-"), number_of("-30.1-")
    (-30.1, None)
    """
    if decimal == "." and IS_PLAIN.fullmatch(text):
        return _finite(text)
    match = IS_DECORATED.fullmatch(text)
    if not match or not (_COMMA if decimal == "," else _POINT).fullmatch(match["digits"]):
        return None
    if (match["sign"] == "(") != text.rstrip().endswith(")"):
        return None
    if match["trail"] and match["sign"] + match["inner"] not in ("", "+"):
        return None
    digits = re.sub("[^0-9,.]", "", match["digits"])
    if decimal == ",":
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.replace(",", "")
    minus = match["sign"] in ("-", "−", "(") or bool(match["inner"] + match["trail"])
    return _finite(("-" if minus else "") + digits + (match["power"] or ""))


def _finite(text: str) -> float | None:
    value = float(text)
    return value if abs(value) < float("inf") else None


_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
    r"(?:Z| ?[+-]\d{2}:?\d{2})?)?"
)
# A zone is left out: the times of one export have one.
_HALF = r"(?: ?([AaPp])\.?[Mm]\.?)?(?: ?(?:GMT|UTC|Z|[A-Z]{3,4})?(?:[+-]\d{1,2}(?::?\d{2})?)?)?"
_TIME = r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?" + _HALF + ")?"
_SLASHED = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})" + _TIME)
_YEAR_FIRST = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})" + _TIME)
_NAMED = re.compile(r"\d{1,2}[ -.]+[A-Za-z]{3,9}\.?[ ,-.]+\d{2,4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}")
_NAMED_FORMS = (
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%B-%Y",
    "%b %d %Y",
    "%B %d %Y",
    "%d-%b-%y",
    "%d %b %y",
)
_FIRST = datetime(1970, 1, 1)


def days_of(text: str, order: Order = "ymd") -> float | None:
    """Return the days since 1970-01-01 of a date, with its time; None where it is none.

    >>> days_of("02/01/1970", "dmy"), days_of("1970-01-02T12:00"), days_of("3 Jan 1970")
    (1.0, 1.5, 2.0)
    >>> days_of("01/02/1970 12:00:00 PM", "mdy"), days_of("1970/01/02 6:00:00 PM GMT+1")
    (1.5, 1.75)
    """
    match = _DATE.fullmatch(text)
    if match:
        parts = [int(part or 0) for part in match.groups()]
        return _days(*parts[:6], int((match[7] or "0").ljust(6, "0")))
    match = _YEAR_FIRST.fullmatch(text)
    if match:
        return _days(int(match[1]), int(match[2]), int(match[3]), *_time(match))
    match = _SLASHED.fullmatch(text)
    if match:
        if order == "ymd":
            return None
        a, b, year = int(match[1]), int(match[2]), int(match[3])
        if len(match[3]) == 2:
            year += 2000 if year < 69 else 1900
        day, month = (a, b) if order == "dmy" else (b, a)
        return _days(year, month, day, *_time(match))
    if _NAMED.fullmatch(text):
        plain = text.replace(",", " ").replace(".", " ")
        plain = " ".join(plain.split())
        for form in _NAMED_FORMS:
            try:
                return (datetime.strptime(plain, form) - _FIRST).total_seconds() / 86_400.0
            except ValueError:
                continue
    return None


def _time(match: re.Match[str]) -> tuple[int, int, int]:
    """Return hour, minute and second of a date; 12 AM is midnight."""
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    half = (match[7] or "").lower()
    if half and hour == 12:
        hour = 0
    return hour + 12 * (half == "p"), minute, second


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
    by_order: Counter[str] = Counter()
    for text, count in counts:
        if not text[:1].isalnum() or len(text) > 32:
            continue
        if days_of(text) is not None:
            by_order.update(dict.fromkeys(("ymd", "dmy", "mdy"), count))
            continue
        dmy, mdy = days_of(text, "dmy"), None
        if "." not in text[:6]:
            mdy = days_of(text, "mdy")
        by_order["dmy"] += count if dmy is not None else 0
        by_order["mdy"] += count if mdy is not None else 0
        by_order["same"] += count if dmy is not None and dmy == mdy else 0
    return {order: count for order, count in by_order.items() if count}
