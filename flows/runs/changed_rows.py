"""What became of rows between two runs, in words, and lists of both runs to read."""

from __future__ import annotations

import re
from collections import Counter

from flows.report.labels import LABELS, share_in_words
from flows.runs.predictions import GAINED, LOST, MOST_ROWS, Moved, in_digits

_ROWS = {"keywords": "keyphrases", "loci": "variants"}  # what the rows of a selection are
_EVERY = {"keywords": "candidate phrases"}  # what all rows of a table are
NAMES = {**LABELS, "term": "phrase"}  # what columns that name rows are called


def rows_in_words(one: Moved) -> str:
    """Say how many rows of a table changed: their selection where it has one."""
    if one.lost is None:
        count = f"{one.crossed:,}" if one.crossed else "none"
        return f"{count} of {one.shared:,} probabilities crossed 0.5"
    rows = _ROWS.get(one.table, "rows")
    if one.lost == one.gained == 0:
        return f"both runs select the same {counted(f'{one.selected[0]:,}', rows)}"
    stay = one.selected[0] - one.lost
    parts = [
        f"{counted(f'{count:,}', rows)} {what}"
        + (f" ({alone:,} of these only the {which} run has)" if alone else "")
        + f", {expected_in_words(count, right, before)}{by}"
        for what, count, alone, right, before, which, by in (
            ("added", one.gained or 0, one.gained_alone, one.gained_right,
             None if one.gained_alone else one.gained_before, "second", ""),
            ("dropped", one.lost, one.lost_alone, one.lost_right, None, "first",
             " by the first run"),
        )
        if count
    ]  # fmt: skip
    which = f"the other {stay:,}" if one.lost else f"all {stay:,} of the first run"
    parts += [f"{which} {'stays' if stay == 1 else 'stay'}"] * (stay > 0)
    return "; ".join(parts)


def counted(number: str, name: str) -> str:
    """Write a number of things, one in the singular."""
    return re.sub(r"^1 (.*[^s])s$", r"1 \1", f"{number} {name}")  # 1 feature


def expected_in_words(count: int, right: float, before: float | None = None) -> str:
    """Say how many rows are expected to be right, by the run that selects them and by the other.

    >>> expected_in_words(222, 54.6), expected_in_words(40, 39.7), expected_in_words(1, 0.98)
    ('about 1 in 4 of them right (55 expected)', 'nearly all right (40 expected)', \
'probability 0.98')
    >>> expected_in_words(222, 54.6, 30.2)
    '30 (by the first run) to 55 (by the second) of them expected to be right'
    """
    if count == 1:
        return f"probability {in_digits(right)[0]}"
    said = f"{share_in_words(right / count, ' of them')} right ({right:,.0f} expected)"
    if before is not None and f"{before:,.0f}" != f"{right:,.0f}":
        said = (
            f"{before:,.0f} (by the first run) to {right:,.0f} (by the second) of them expected "
            "to be right"
        )
    return said


def moved_in_words(one: Moved) -> str:
    """Say in a line how the probabilities of a table moved."""
    alone = ", ".join(
        f"{count:,} only in the {which} run"
        for count, which in ((one.only_first, "first"), (one.only_second, "second"))
        if count
    )
    rows = every_row_of(one)
    text = f"{one.shared:,} {rows} are in both runs{f' ({alone})' if alone else ''}"
    if not one.largest:
        text += ", and no probability differs."
    else:
        text += f"; {one.crossed:,} crossed 0.5, {one.moved:,} moved by more than 0.1. "
        text += _direction(one)
    return text + (f" Only the first {MOST_ROWS:,} rows of each run were read." if one.cut else "")


def _direction(one: Moved) -> str:
    """Say how many probabilities rose and fell, and by how much."""
    of = "" if one.free == one.shared else " that are not known"
    mean, most = (f"{v:.2f}" if v >= 0.005 else f"{v:.1g}" for v in (one.mean_size, one.largest))
    text = f"Of the {one.free:,}{of}, {one.rose:,} rose and {one.fell:,} fell"
    return f"{text}; they moved by {mean} on average, {most} at most."


def reasons_in_words(one: Moved) -> str:
    """Say why rows left and entered the selection, where that is known; empty where not."""
    lines = []
    for what, here in ((LOST, "second"), (GAINED, "first")):
        counts = Counter(why.removeprefix("just ") for why in one.reasons(what) if why)
        if counts:
            parts = [f"{why} ({count:,})" for why, count in counts.most_common()]
            these = f"the {sum(counts.values()):,} {what}"
            lines.append(f"Why the {here} run does not select {these}: {', '.join(parts)}.")
    return " ".join(lines)


def every_row_of(one: Moved) -> str:
    """Return what the rows of a table are."""
    return _EVERY.get(one.table, "rows")
