"""How every figure is written: one rule, so that no two numbers of a page contradict.

A count as it is; a share in whole per cent; a chance in two decimals; an estimate, and all that is
compared with it, to the second figure of its interval's half. What is said of an estimate, such as
"better", is said of what is printed. A figure keeps its number for sorting and downloads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Literal

from markupsafe import Markup

from flows.evaluate.estimate import Estimate

Verdict = Literal["above", "below", "neither"]
_BLANKS, _PER_CENT = re.compile(r"[ \t\r\n]+"), re.compile(r"(?<=\d) %(?!})")
_MOST_NAMES = 8  # in a setting, shown one by one


class Figure(str):
    """A number as it is written, with the number."""

    exact: float | None

    def __new__(cls, text: str, exact: float | None = None) -> Figure:
        """Write ``exact`` as ``text``."""
        made = super().__new__(cls, text)
        made.exact = exact
        return made


def count(n: float) -> Figure:
    """Write a count.

    >>> count(1234.0)
    '1,234'
    """
    return Figure(f"{n:,.0f}", n)


def share(part: float, whole: float = 1.0) -> Figure:
    r"""Write a share.

    >>> share(44, 49), share(0.001), share(0.999), share(0.0)
    ('90\xa0%', '< 1\xa0%', '> 99\xa0%', '0\xa0%')
    """
    value = 100.0 * part / whole if whole else 0.0
    text = f"{value:.0f}\u00a0%"
    if 0.0 < value < 0.5:
        text = "< 1\u00a0%"
    elif 99.5 <= value < 100.0:
        text = "> 99\u00a0%"
    return Figure(text, value / 100.0)


def chance(p: float | None) -> Figure:
    """Write a probability.

    >>> chance(0.004), chance(0.5), chance(None)
    ('< 0.01', '0.50', '')
    """
    if p is None:
        return Figure("")
    text = f"{p:.2f}"
    if p < 0.005:
        text = "< 0.01"
    elif p > 0.995:
        text = "> 0.99"
    return Figure(text, p)


def one_in(p: float) -> Figure:
    """Write a small probability.

    >>> one_in(2.63e-6), one_in(1e-9), one_in(0.125)
    ('1 in 380,000', 'below 1 in 1,000,000', '1 in 8')
    """
    many = float(f"{1.0 / max(p, 1e-7):.2g}")
    return Figure(f"1 in {many:,.0f}" if many <= 1e6 else "below 1 in 1,000,000", p)


def places(estimate: Estimate) -> int:
    """Return the decimals of an estimate: two figures of its interval's half.

    Beyond four decimals are those of a small number that is clearly not 0.

    >>> places(Estimate(0.078, 0.005, 0.167)), places(Estimate(28.3, 22.1, 35.0))
    (3, 1)
    >>> places(Estimate(9.8e-5, 8.7e-5, 10.9e-5)), places(Estimate(1e-5, -2e-5, 4e-5))
    (6, 4)
    """
    if estimate.low is None or estimate.high is None:
        return 3
    half = max(0.5 * (estimate.high - estimate.low), 1e-9)
    most = max(4, 2 - floor(log10(abs(estimate.value)))) if abs(estimate.value) > 2.0 * half else 4
    return min(max(1 - floor(log10(half)), 0), most)


def fixed(x: float | None, digits: int, sign: bool = False) -> Figure:
    """Write a number; nothing is minus nothing.

    >>> fixed(-0.0004, 3), fixed(0.0004, 3, sign=True), fixed(1234.5, 0)
    ('0.000', '0.000', '1,234')
    """
    if x is None:
        return Figure("")
    value = round(x, digits) + 0.0
    return Figure(f"{value:{'+' if sign and value else ''},.{digits}f}", x)


def short_number(x: float | None) -> Figure:
    """Write a number of any size to three figures.

    >>> short_number(0.012345), short_number(123456.0)
    ('0.0123', '123,456')
    """
    if x is None:
        return Figure("")
    return Figure(f"{x:,.0f}" if abs(x) >= 1000.0 else f"{x:.3g}", x)


def ends(estimate: Estimate, digits: int | None = None, sign: bool = False) -> str:
    """Write an interval; nothing where there is none.

    >>> ends(Estimate(0.0, -0.0546, 0.0532))
    '-0.055 to 0.053'
    """
    if estimate.low is None:
        return ""
    digits = places(estimate) if digits is None else digits
    return f"{fixed(estimate.low, digits, sign)} to {fixed(estimate.high, digits, sign)}"


def verdict(estimate: Estimate) -> Verdict:
    """Say whether an estimate is above 0, below, or neither, as it is printed.

    >>> [verdict(Estimate(*d)) for d in ((0.08, 0.005, 0.17), (0.02, 0.0001, 0.04))]
    ['above', 'neither']
    """
    if estimate.low is None or estimate.high is None:
        return "neither"
    digits = places(estimate)
    if round(estimate.low, digits) > 0.0:
        return "above"
    return "below" if round(estimate.high, digits) < 0.0 else "neither"


def negative(estimate: Estimate) -> Estimate:
    """Return minus an estimate.

    >>> negative(Estimate(1.0, 0.5, 2.0))
    Estimate(value=-1.0, low=-2.0, high=-0.5)
    """
    if estimate.low is None or estimate.high is None:
        return Estimate(-estimate.value)
    return Estimate(-estimate.value, -estimate.high, -estimate.low)


def plural(n: float, one: str, more: str = "") -> str:
    """Write a count with its noun.

    >>> plural(1, "bag"), plural(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{count(n)} {one if n == 1 else more or one + 's'}"


def short(text: str, most: int = 20) -> str:
    """Cut a name; one that is escaped stays so.

    >>> short("diagnosis after review", 10), short(Markup("R&amp;D in Europe"), 4)
    ('diagnosis…', Markup('R&amp;D…'))
    """
    if isinstance(text, Markup):
        return Markup.escape(short(text.unescape(), most))
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def fit(parts: Sequence[str], most: int) -> str:
    """Join the parts of a sentence, the last ones left out where it would be too long.

    >>> fit(["right for 9 of 10", ": 90 %", " (60 to 98 %)"], 25)
    'right for 9 of 10: 90 %'
    """
    if any(isinstance(part, Markup) for part in parts):
        plain = [part.unescape() if isinstance(part, Markup) else part for part in parts]
        return Markup.escape(fit(plain, most))
    text = "".join(parts)
    return text if len(text) <= most or len(parts) == 1 else fit(parts[:-1], most)


def named(names: Sequence[str], most: int = 3, longest: int = 300) -> str:
    """Name the first of some, each by so many letters at most.

    >>> named(["a", "b", "c"]), named(["abcd", "b", "c", "d"], longest=3)
    ('a, b, c', 'ab\u2026, b, c, ...')
    """
    return ", ".join(
        [*(short(name, longest) for name in names[:most]), *(["..."] if len(names) > most else [])]
    )


def squeeze(text: str) -> str:
    r"""Put a text on one line, the blanks that hold it together kept; one that is escaped stays so.

    >>> squeeze(" right:\n 90\u00a0% ")
    'right: 90\xa0%'
    """
    return type(text)(_BLANKS.sub(" ", text).strip())


def plain(text: str) -> str:
    r"""Put a text on one line of plain blanks.

    >>> plain(" right:\n 90\u00a0% ")
    'right: 90 %'
    """
    return " ".join(text.split())


def unbroken(text: str) -> str:
    r"""Keep a per cent sign with its number.

    >>> unbroken("right: 90 % (60 to 98 %)")
    'right: 90\xa0% (60 to 98\xa0%)'
    """
    return _PER_CENT.sub("\u00a0%", text)


def aligned(text: str) -> str:
    r"""Align columns of lines of cells with tabs between them; numbers stand right.

    >>> print(aligned("bag\tP\nS1\t0.50\nS100\t0.1"))
    bag      P
    S1    0.50
    S100   0.1
    """
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.strip("\n").splitlines()]
    if not rows:
        return ""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) for cells in columns]
    right = [_are_numbers(cells[1:]) for cells in columns]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _are_numbers(cells: Sequence[str]) -> bool:
    plain = [cell.strip("<>+-% \u00a0").replace(",", "").replace(".", "") for cell in cells]
    return bool(plain) and all(cell.isdigit() or not cell for cell in plain)


def setting(value: object) -> object:
    """Return a setting as a reader wants it.

    >>> setting({"label": "diagnosis"}), setting(["a", "b"]), setting(None)
    ('label=diagnosis', 'a, b', 'none')
    >>> setting({"features": ",".join(f"f{i}" for i in range(64))})
    'features=64: f0, f1, f2, ...'
    """
    if isinstance(value, Mapping):
        parts = ((name, _first_of(str(part).split(","))) for name, part in value.items())
        return ", ".join(f"{name}={v}" for name, v in parts) or "none"
    if isinstance(value, (list, tuple)):
        return _first_of([str(v) for v in value]) or "none"
    return "none" if value is None else value


def _first_of(names: Sequence[str]) -> str:
    """Return names, or their number and the first of many; run.json has all."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(name.strip() for name in names)
    return f"{len(names):,}: {', '.join(name.strip() for name in names[:3])}, ..."


FILTERS = {
    one.__name__: one
    for one in (
        count,
        share,
        chance,
        one_in,
        places,
        fixed,
        short_number,
        ends,
        verdict,
        negative,
        plural,
        short,
        fit,
        named,
        squeeze,
        unbroken,
        aligned,
        setting,
    )
}
