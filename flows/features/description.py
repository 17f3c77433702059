"""What each feature is, in words and pictures: the direction of answers, or the category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.features.check import Column
from flows.features.naming import NAMED, ColumnContrast, Meaning
from flows.report.page import Grid, Section
from vbmodels.features.forms import Stability

MOST_COLUMNS = 12  # of the input, in the table of a feature
NAMED_ANSWERS = 5
"""Columns in a name where all of them have an order."""
STRONG = 0.1
"""A column with less than this share of the information of the first one is not in a name."""

DIRECTIONS = {
    "agreement": ("agrees more with", "agrees less with"),
    "frequency": ("more often", "less often"),
    "satisfaction": ("more satisfied with", "less satisfied with"),
    "importance": ("finds more important", "finds less important"),
    "likelihood": ("more likely", "less likely"),
    "quality": ("rates better", "rates worse"),
    "amount": ("more", "less"),
    "numbers": ("higher", "lower"),
}
"""By kind of scale: answers that are higher with the feature, and lower."""


MOST_NAME = 60
"""Characters of a short name, about."""


def feature_name(meaning: Meaning, columns: Sequence[Column]) -> str:
    """Return a feature's name in full: its strongest columns by direction, or by category."""
    found: dict[str, list[str]] = {}
    for c in _strong(meaning, columns):
        direction = _direction(c, columns)
        if direction is None:
            more = c.with_it >= c.without_it
            words = "more often have" if more else "less often have"
            found.setdefault(words, []).append(_cell((c.column, c.category), columns))
        else:
            found.setdefault(f"{direction}:", []).append(columns[c.column].shown)
    return "; ".join(f"{words} {', '.join(names)}" for words, names in found.items())


def short_name(meaning: Meaning, columns: Sequence[Column]) -> str:
    """Return a feature's name in about 60 characters: as many of its strongest columns as fit."""
    found: dict[str, list[str]] = {}
    name = ""
    for c in _strong(meaning, columns):
        column, direction = columns[c.column], _direction(c, columns)
        words = direction
        if words is None:
            more = "more often in" if c.with_it >= c.without_it else "less often in"
            words = f'"{column.levels[c.category]}" {more}'
        found.setdefault(words, []).append(column.shown)
        longer = "; ".join(f"{words} {', '.join(names)}" for words, names in found.items())
        if len(longer) > MOST_NAME:
            return f"{name}, ..." if name else f"{longer[: MOST_NAME - 3]}..."
        name = longer
    whole = [len(names) for names in found.values()] == [max(len(columns), 3)]
    every = f"all {len(columns)} columns" * (whole and direction is None)
    return "; ".join(f"{words} {every or _all_of(names)}" for words, names in found.items())


def _all_of(names: Sequence[str]) -> str:
    """Return names as a sentence has them."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _strong(meaning: Meaning, columns: Sequence[Column]) -> list[ColumnContrast]:
    """Return the contrasts that name a feature."""
    top = meaning.contrasts[:NAMED_ANSWERS]
    strong = [c for c in top if c.sure_nats > STRONG * top[0].sure_nats] or list(top[:1])
    if any(_direction(c, columns) is None for c in strong):
        strong = strong[:NAMED]
    return strong


def _direction(contrast: ColumnContrast, columns: Sequence[Column]) -> str | None:
    """Return which way the feature moves the answers; None where that is not clear."""
    answers = contrast.answers
    if answers is None or not answers.clear:
        return None
    more, less = DIRECTIONS[columns[contrast.column].scale]
    return more if answers.shift > 0.0 else less


def _cell(place: tuple[int, int], columns: Sequence[Column]) -> str:
    column = columns[place[0]]
    return f"{column.shown} = {column.levels[place[1]]}"


def meaning_results(
    found: Sequence[Meaning], columns: Sequence[Column], stable: Stability
) -> list[dict[str, Any]]:
    """Return what the features are, for run.json."""
    found_by = stable.found_by
    return [
        {
            "feature": k + 1,
            "name": feature_name(meaning, columns),
            "short_name": short_name(meaning, columns),
            "prevalence": meaning.prevalence,
            "prevalence_interval": meaning.interval() if meaning.whole else None,
            "sure_rows": meaning.sure,
            "other_starts": stable.of if found_by is not None else None,
            "found_by": int(found_by[k]) if found_by is not None else None,
            "columns": [_contrast_result(c, columns) for c in meaning.contrasts[:MOST_COLUMNS]],
        }
        for k, meaning in enumerate(found)
    ]


def _contrast_result(c: ColumnContrast, columns: Sequence[Column]) -> dict[str, Any]:
    answers = c.answers
    return {
        "column": columns[c.column].name,
        "category": columns[c.column].levels[c.category],
        "with": c.with_it,
        "without": c.without_it,
        "sd": c.sd,
        "nats": c.nats,
        "mean_answer": None
        if answers is None
        else {"with": answers.with_it, "without": answers.without_it, "sd": answers.sd},
    }


_WHAT = (
    "A feature is a yes-or-no property that the model assumes, and nobody observed: it makes some "
    "answers likelier, not certain. Rows with it are one group, rows without it the other. Which "
    "of the two counts as having it is arbitrary: here the smaller one does."
)


def meaning_sections(
    found: Sequence[Meaning], columns: Sequence[Column], stable: Stability
) -> list[Section]:
    """The features in words, and the answers with the strongest, then the contrasts of each."""
    if not found:
        return []
    found_by = stable.found_by if stable.of else None
    cautions = [
        f"Feature {k + 1} was not found by the other starts: search again with --set starts=10."
        for k in range(len(found))
        if found_by is not None and not found_by[k]
    ]
    rows: list[tuple[object, ...]] = [
        (
            f"{k + 1}: {short_name(meaning, columns)}",
            share_in_words(meaning),
            percent(meaning.sure),
            "" if found_by is None else f"{found_by[k] + 1} of {stable.of + 1}",
        )
        for k, meaning in enumerate(found)
    ]
    heads = [
        "feature", "share of the rows", "sure rows", "starts that found it",
    ]  # fmt: skip
    if found_by is None:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    within = _WITHIN * found[0].whole
    defined = [
        f"Share of the rows: the mean of their probabilities of the feature{within}.",
        _DEFINED,
        *([_STARTS.format(stable.of + 1)] if found_by is not None else []),
    ]
    text = "\n".join(
        [_WHAT, *cautions, " ".join(defined), *([] if found[0].whole else [_TOO_SURE])]
    )
    grids = (Grid(heads, rows),)
    return [Section("What the features are", text, (), grids), _changes(found, columns)]


def percent(share: float) -> str:
    """Return a share as it is read."""
    return f"{100.0 * share:.0f}\u00a0%"


def chance_in_words(p: float) -> str:
    """Return a probability, and of one near 0 or 1 only the end that it is near.

    >>> chance_in_words(0.001), chance_in_words(0.496), chance_in_words(0.999)
    ('below 1\\xa0%', '49.6\\xa0%', 'above 99\\xa0%')
    """
    if not 0.005 <= p < 0.995:
        return f"{'below 1' if p < 0.5 else 'above 99'}\u00a0%"
    return f"{100.0 * p:.1f}\u00a0%" if 0.495 <= p < 0.505 else percent(p)


def share_in_words(meaning: Meaning, of: str = "") -> str:
    """Return the share of rows with a feature, and its interval, ``of`` 95 %, if there is one."""
    low, high = meaning.interval()
    within = f" ({of}{100.0 * low:.0f} to {percent(high)})" if meaning.whole else ""
    return f"{percent(meaning.prevalence)}{within}"


def again_in_words(k: int, stable: Stability) -> str:
    """Say how many starts of the search found a feature, where that is no good evidence.

    >>> again_in_words(0, Stability(np.array([1]), 1))
    'both of only 2 starts of the search found it'
    >>> again_in_words(0, Stability(np.array([2]), 3))
    'only 3 of the 4 starts of the search found it'
    """
    if stable.found_by is None or not stable.of:
        return ""
    found = int(stable.found_by[k]) + 1
    if stable.of == 1 and found == 2:
        return "both of only 2 starts of the search found it"
    some = found < stable.of + 1
    return f"only {found} of the {stable.of + 1} starts of the search found it" if some else ""


def summary_of(meaning: Meaning, columns: Sequence[Column]) -> str:
    """Return what a feature does most."""
    c, name = meaning.contrasts[0], short_name(meaning, columns)
    column, answers = columns[c.column], c.answers
    most = f"{column.shown} {percent(c.with_it)} against {percent(c.without_it)}"
    if answers is not None and answers.clear:
        most = f"{column.shown} {answers.with_it:.2f} against {answers.without_it:.2f}"
    elif f'"{column.levels[c.category]}"' not in name:
        most = f'"{column.levels[c.category]}" in {most}'
    return f"{name} ({most})"


def strongest(found: Sequence[Meaning]) -> int:
    """Return the number of the feature that says most of the columns, in all."""
    return int(np.argmax([sum(c.sure_nats for c in one.contrasts) for one in found]))


def _each(found: Sequence[Meaning]) -> str:
    """Return of whom a share is: of several features it is as if all rows, or none, had one."""
    return "each group" if len(found) == 1 else "the rows"


def _changes(found: Sequence[Meaning], columns: Sequence[Column]) -> Section:
    """Return a table for each feature: the columns that it changes most."""
    text = f"% of {_each(found)} who give the answer"
    if len(found) > 1:
        text += ", if all rows had the feature and if none had it, their other features as they are"
    text += "; the column that says most first."
    if any(
        _direction(c, columns) is not None for one in found for c in one.contrasts[:MOST_COLUMNS]
    ):
        text += " Of answers on a scale: the mean answer; words of a scale count as 1, 2, 3 ..."
    if len(found) > 1:
        text += " The table weights/ has shares of rows with one feature and no other."
    text += "" if found[0].whole else _NO_DOUBT
    heads = ("answer", "with it", "without", "difference (95 % interval)")
    grids = [
        Grid(
            heads,
            [_contrast_row(c, columns) for c in one.contrasts[:MOST_COLUMNS]],
            f"Feature {k + 1}: {short_name(one, columns)}" if len(found) > 1 else "",
        )
        for k, one in enumerate(found)
    ]
    return Section("What each feature changes", text, (), tuple(grids), needs_fit=True)


_TOO_SURE = (
    'Read 95 % as "likely", not as 19 in 20: on 20 simulated tables probabilities of rows by '
    "multinomial were too sure (slope .74; 1 is right), and laplace was not checked."
)
_DEFINED = "Sure rows: those with a probability below 10 % or above 90 %."
_STARTS = "Starts that found it: those of {} random ones that contained it (correlation above 0.8)."
_WITHIN = ", with a 95 % interval for a population like them (in simulations slightly too narrow)"
_NO_DOUBT = (
    " Intervals are by the model and take as known which rows have a feature: where few "
    "rows are sure they are too short."
)


def _contrast_row(c: ColumnContrast, columns: Sequence[Column]) -> tuple[str, ...]:
    answers, name = c.answers, columns[c.column].shown
    if answers is not None and answers.clear:
        away, half = answers.with_it - answers.without_it, 1.96 * answers.sd
        return (
            f"{name} (mean, from {answers.low:g} to {answers.high:g})",
            f"{answers.with_it:.2f}", f"{answers.without_it:.2f}",
            f"{away:+.2f} ({away - half:+.2f} to {away + half:+.2f})",
        )  # fmt: skip
    away, half = 100.0 * (c.with_it - c.without_it), 196.0 * c.sd
    return (
        _cell((c.column, c.category), columns), percent(c.with_it), percent(c.without_it),
        f"{away:+.0f} points ({away - half:+.0f} to {away + half:+.0f})",
    )  # fmt: skip
