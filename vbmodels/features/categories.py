"""Which columns of a table are modelled as categories, and which hold something else."""

from __future__ import annotations

from collections.abc import Mapping

from vbmodels.core.columns import Rule, Seen, Unclear, names_rows
from vbmodels.core.levels import Levels

FEW_VALUES = 20
"""Values of a column of numbers up to which they are codes."""
FEW_ROWS = 20
"""Rows a value, of more values, from which on they are codes."""


def is_measured(seen: Seen, levels: Levels, rule: Rule) -> bool:
    """Say whether a column of numbers or dates has measurements, and no codes."""
    if rule.kind != "number":
        return rule.kind == "date"
    values = len(levels.counts)
    return levels.many or (values > FEW_VALUES and seen.cells < FEW_ROWS * values)


def measured_in_words(rule: Rule) -> str:
    """Say why a column of measurements is left out."""
    return f"{'dates' if rule.kind == 'date' else 'measurements'}, not categories"


def take_codes(
    seen: Mapping[str, Seen], rules: Mapping[str, Rule], unclear: Mapping[str, Unclear]
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return rules by which columns of codes and a few words are categories; see `rules_of`."""
    codes = {
        name: one
        for name, one in unclear.items()
        if one.has_odd and seen[name].numbers and not seen[name].measured
    }
    read = {name: Rule(remark=f"codes and words: {one.found}") for name, one in codes.items()}
    return {**rules, **read}, {name: one for name, one in unclear.items() if name not in codes}


def why_left_out(name: str, rule: Rule, seen: Seen, levels: Levels, wanted: bool = False) -> str:
    """Say why a column is left out before it is compared with others; else nothing.

    Parameters
    ----------
    name, rule, seen, levels
        The column, how it is read, what it holds, and its categories.
    wanted
        Whether the user named it, so that it is none of ids or free text.
    """
    if not seen.cells:
        return "no cell"
    if not wanted and (why := names_rows(name, seen, len(levels.counts), rule.kind)):
        return why
    if rule.kind in ("number", "date") and levels.many:
        return ""
    if levels.many:
        return "more than 10,000 categories"
    return "one category only" if len(levels.counts) == 1 else ""
