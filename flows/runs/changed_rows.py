"""What became of rows between two runs, in words, and lists of both runs to read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import ceil, comb, log

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.report.labels import LABELS, share_in_words
from flows.runs.predictions import GAINED, LOST, MOST_ROWS, Change, Moved, in_digits
from vbmodels.core.state import BoolArray, IntArray

_ROWS = {"keywords": "keyphrases", "loci": "variants"}  # what the rows of a selection are
_EVERY = {"keywords": "candidate phrases"}  # what all rows of a table are
NAMES = {**LABELS, "term": "phrase"}  # what columns that name rows are called
DRAWN = 20  # rows of a selection, to be read


WHY = "Why the "
"""How a decision begins whose run the headline names."""


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
            ("added", one.gained or 0, one.gained_alone, one.gained_right, _before(one), "second",
             ""),
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


def _before(one: Moved) -> float | None:
    """Return how many new rows the first run expects to be right; None where it lacks some."""
    return None if one.gained_alone else one.gained_before


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
        said = f"{before:,.0f} (by the first run) to {right:,.0f} (by the second) of them expected "
        said += "to be right"
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


def drawn_rows(one: Moved, texts: Mapping[str, str] | None = None) -> list[Change]:
    """Draw rows that only one run selects, to be read: the new ones, else those that are gone.

    The draw is the same for the same rows, and in no order. Where enough of them are of documents
    with a text, it is of these: reports show a random sample of the texts.
    """
    places, _ = _to_draw_from(one)
    if texts and "doc_id" in one.every.keys:
        names = one.every.every["doc_id"].take(pa.array(places, pa.int64())).to_pylist()
        shown = places[np.fromiter((str(name) in texts for name in names), bool, len(names))]
        places = shown if len(shown) >= min(DRAWN, len(places)) else places
    order = np.random.default_rng(0).permutation(len(places))[:DRAWN]
    return one.every.changes(places[order], GAINED if one.gained else LOST)


def _to_draw_from(one: Moved) -> tuple[IntArray, str]:
    """Return which rows that one run alone selects are drawn from, and where they are, in words.

    New keyphrases are of documents without known ones, if these have enough: in the others each is
    wrong if the list is complete.
    """
    places = one.places.get(GAINED if one.gained else LOST, np.empty(0, np.int64))
    known = _in_lists(one, places)
    if one.gained and known.any() and np.sum(~known) >= DRAWN:
        return places[~known], " in documents without known ones"
    return places, ""


def _in_lists(one: Moved, places: IntArray) -> BoolArray:
    """Say which rows are of documents with known keyphrases, [n]."""
    every = one.every.every
    if one.truth != "observed" or "doc_id" not in one.every.keys:
        return np.zeros(len(places), bool)
    with_known = every.filter(every[one.truth])["doc_id"].unique()
    names = every["doc_id"].take(pa.array(places, pa.int64()))
    within: BoolArray = pc.is_in(names, with_known).to_numpy(zero_copy_only=False)
    return within


def known_in_words(one: Moved) -> str:
    """Say how many of the new rows are in documents with known keyphrases; empty if none is."""
    count = int(_in_lists(one, one.places.get(GAINED, np.empty(0, np.int64))).sum())
    said = f"{count:,} are in documents with known ones, so wrong where these are complete"
    return said * (count > 0)


def advised_run(one: Moved) -> str:
    """Return the run to use: the one that selects more, if half of these are right; "" for none."""
    count, right, _, (alone, other) = _of_one_run(one)
    return "" if not count else other if right < 0.5 * count else alone


def _of_one_run(one: Moved) -> tuple[int, float, str, tuple[str, str]]:
    """Return how many rows one run alone selects, how many are right, and which run that is."""
    if one.gained:
        return one.gained, one.gained_right, GAINED, ("second", "first")
    return one.lost or 0, one.lost_right, LOST, ("first", "second")


def decision_in_words(one: Moved, why: str = "") -> str:
    """Say how rows that are drawn at random decide between the runs; empty where none is.

    ``why`` is what else speaks of the run that is advised.
    """
    count, right, what, which = _of_one_run(one)
    if not count:
        return ""
    number, share = min(count, DRAWN), right / count
    rows = f"the {number:,} {what}"
    if number < count:
        places, where = _to_draw_from(one)
        rows = f"these {number:,}, drawn at random from the {len(places):,} {what}{where}"
    if count == 1:
        own, keep = (which[1], "keep") if share < 0.5 else (which[0], "not keep")
        return f"Use the {own} run, unless you would {keep} the one {what}."
    expects = f"the {which[0]} run expects {number * share:.0f} right"
    before = _before(one) if what == GAINED else None
    if before is not None:
        expects += f", the first {number * before / count:.0f}"
    if share < 0.5 and before and (said := _test(one)):
        reason = why if why.startswith(":") else f": most added are wrong{why}"
        return f"{WHY}{which[1]} run{reason}. {said}"
    if share < 0.5:
        reading = f"10 more {_ROWS.get(one.table, 'rows')} for about"
        if share < 0.05:
            reading = reading.replace("10", "20").replace("about", "at most")
        worth = counted(f"{max(round(10.0 * share), 1)}", "right ones")
        return (
            f"Use the {which[1]} run{why}. Take the {which[0]} if you accept reading {reading} "
            f"{worth}.\nTo decide, count the right ones of {rows}: {expects}."
        )
    middle, away = number * share, 1.645 * (number * share * (1.0 - share)) ** 0.5
    least = max(ceil(middle - away), 1)
    enough = f"fewer than {least:,}" if least > 1 else "none"
    return f"Use the {which[0]} run{why}, unless you would keep {enough} of {rows} ({expects})."


def _test(one: Moved) -> str:
    """Say how drawn rows decide whose probabilities to believe; empty where so few do not."""
    places, where = _to_draw_from(one)
    count = len(places)
    first, second = (float(np.mean(run[places])) for run in (one.every.first, one.every.second))
    number = min(count, DRAWN)
    if not (rule := _rule(number, first, second)):
        return ""
    rows = f"these {number:,}, drawn at random from the {count:,} {GAINED}{where}"
    return (
        f"Of 10 added {_ROWS.get(one.table, 'rows')}{where} {10.0 * first:.1f} are right by the "
        f"first run, {10.0 * second:.1f} by the second.\nThe test shows whose probabilities to "
        f"believe, of the likely ones too. Count the right ones, those that you would choose "
        f"yourself, of {rows if number < count else f'the {number:,} {GAINED}{where}'}: {rule}"
    )


def _rule(number: int, first: float, second: float) -> str:
    """Say how many right ones speak for either share, and how often rightly; "" if too rarely.

    >>> _rule(20, 0.15, 0.3)
    '5 or more speak for the second run, 4 or fewer for the first (rightly in 80 % of cases).'
    >>> _rule(20, 0.3, 0.32)
    ''
    """
    if not 0.0 < first < second < 1.0:
        return ""
    odds = log(second * (1.0 - first) / (first * (1.0 - second)))
    least = ceil(number * log((1.0 - first) / (1.0 - second)) / odds)
    fewer, more = (
        sum(comb(number, k) * p**k * (1.0 - p) ** (number - k) for k in range(least))
        for p in (first, second)
    )
    right = 0.5 * (fewer + 1.0 - more)
    if right < 0.65:  # so few rows do not separate them
        return ""
    rule = f"{least} or more speak for the second run, {least - 1} or fewer for the first"
    return f"{rule} (rightly in {100.0 * right:.0f} % of cases)."
