"""A column as it is shown: as what it was read, what it holds, whether it is used, and why not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vbmodels.tables import cells as rules
from vbmodels.tables.columns import Reason, Rule
from vbmodels.tables.levels import Levels, order_of
from vbmodels.tables.seen import Seen, ends_of

USED = "yes"
_SHOWN = 3  # levels


@dataclass(frozen=True)
class ColumnRead:
    """A column of the input.

    Attributes
    ----------
    name
        Its name.
    read_as
        Number, category, ordered category, date, yes/no, text or id, and what is not plain of it.
    missing
        Cells without a value; None where they were not counted.
    holds
        Its range, or its levels.
    used
        `USED`, its role, or in words why it is left out.
    reason
        Why it is left out; None where it is not.
    """

    name: str
    read_as: str
    missing: int | None = 0
    holds: str = ""
    used: str = USED
    reason: Reason | None = None

    @classmethod
    def of(
        cls, name: str, read_as: str, missing: int | None, holds: str, use: str | Reason
    ) -> ColumnRead:
        """Return a column with its role, or why it is left out."""
        if isinstance(use, str):
            return cls(name, read_as, missing, holds, use)
        return cls(name, read_as, missing, holds, f"left out: {use}", use)

    @property
    def left_out(self) -> bool:
        """Whether it is not used."""
        return self.reason is not None


def column_read(
    name: str,
    rule: Rule,
    seen: Seen,
    levels: Levels | None,
    use: str | Reason,
    codes: bool = False,
) -> ColumnRead:
    """Describe a column.

    Parameters
    ----------
    name, rule, seen
        The column, as which it is read, and what its cells are.
    levels
        Its categories, where they were counted.
    use
        `USED`, its role, or why it is left out.
    codes
        Whether its numbers are codes of categories.
    """
    kind = _kind(rule, seen, levels)
    if codes and kind == "number":
        kind, rule = "category", replace(rule, kind="category")
    if isinstance(use, Reason) and use.kind in ("id", "text"):
        kind = use.kind
    words = [rule.remark] if rule.remark else []
    missing = seen.missing
    if not rule.dash_is_missing:
        missing -= seen.words.get(rules.DASH, 0)
    markers = {w: n for w, n in seen.words.items() if rule.dash_is_missing or w != rules.DASH}
    if markers:
        words.append("missing: " + ", ".join(f"{w!r} {n:,}" for w, n in list(markers.items())[:4]))
    if rule.blank_is_no:
        missing = sum(seen.words.values())
    note = f" ({'; '.join(words)})" if words else ""
    holds = holds_of(rule, seen, levels)
    if kind in ("id", "text") and levels is not None and levels.counts:
        holds = f"{len(levels.counts):,} different, such as {next(iter(levels.counts))[:20]}"
    return ColumnRead.of(name, kind + note, missing, holds, use)


def _kind(rule: Rule, seen: Seen, levels: Levels | None) -> str:
    if not seen.cells:
        return "empty"
    if rule.kind == "yes or no" or (rule.kind == "number" and seen.flags == seen.cells):
        return "yes/no"
    if rule.kind == "category" and (seen.order or (levels and order_of(list(levels.counts)))):
        return "ordered category"
    return rule.kind


def holds_of(rule: Rule, seen: Seen, levels: Levels | None) -> str:
    """Say a column's range or levels."""
    if not seen.cells:
        return ""
    if rule.kind == "yes or no" or (rule.kind == "number" and seen.flags == seen.cells):
        yes = seen.cells if rule.yes else seen.ones
        no = seen.cells - yes + (seen.missing - sum(seen.words.values()) if rule.blank_is_no else 0)
        return f"yes {yes:,}, no {no:,}"
    if rule.kind == "number":
        low, high = ends_of(seen, rule.decimal)
        return f"{_number(low)} to {_number(high)}"
    if levels is None:
        return ""
    if levels.many:
        return "more than 10,000 levels"
    if rule.kind == "date":
        return ""
    names = _in_order(seen, levels)
    listed = ", ".join(f"{name[:20]} {levels.counts[name]:,}" for name in names[:_SHOWN])
    count = f"{len(names):,} level{'' if len(names) == 1 else 's'}"
    return f"{count}: {listed}{', ...' if len(names) > _SHOWN else ''}"


def _in_order(seen: Seen, levels: Levels) -> list[str]:
    """Return the levels in the order of the file, of their words or numbers, or of their counts."""
    if seen.order:
        return [name for name in seen.order if name in levels.counts]
    names = list(levels.counts)
    if ordered := order_of(names):
        return ordered
    numbers = {name: rules.number_of(name) for name in names}
    if None not in numbers.values():
        return sorted(names, key=lambda name: numbers[name] or 0.0)
    return sorted(names, key=lambda name: (-levels.counts[name], name))


def _number(value: float) -> str:
    whole = value.is_integer() and abs(value) < 1e15
    return f"{value:,.0f}" if whole or 1e4 <= abs(value) < 1e15 else f"{value:,.4g}"
