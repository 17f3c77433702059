"""What each feature is, in words and pictures: the direction of answers, or the category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.features.check import Column
from flows.features.naming import DRAWS, NAMED, ColumnContrast, Meaning
from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.core.scales import numbers_of
from vbmodels.features.forms import Stability

MOST_COLUMNS = 12  # of the input, in the table of a feature
MOST_CATEGORIES = 60  # in the heat map
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


def feature_name(meaning: Meaning, columns: Sequence[Column]) -> str:
    """Return a feature's name: its strongest columns by direction, or by category."""
    top = meaning.contrasts[:NAMED_ANSWERS]
    strong = [c for c in top if c.sure_nats > STRONG * top[0].sure_nats] or list(top[:1])
    if any(_direction(c, columns) is None for c in strong):
        strong = strong[:NAMED]
    found: dict[str, list[str]] = {}
    for c in strong:
        direction = _direction(c, columns)
        if direction is None:
            more = c.with_it >= c.without_it
            words = "answers more often" if more else "answers less often"
            found.setdefault(words, []).append(_cell((c.column, c.category), columns))
        else:
            found.setdefault(direction, []).append(columns[c.column].name)
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in found.items())


def _direction(contrast: ColumnContrast, columns: Sequence[Column]) -> str | None:
    """Return which way the feature moves the answers; None where that is not clear."""
    answers = contrast.answers
    if answers is None or not answers.clear:
        return None
    more, less = DIRECTIONS[columns[contrast.column].scale]
    return more if answers.shift > 0.0 else less


def _cell(place: tuple[int, int], columns: Sequence[Column]) -> str:
    column = columns[place[0]]
    return f"{column.name} = {column.levels[place[1]]}"


def meaning_results(
    found: Sequence[Meaning], columns: Sequence[Column], stable: Stability
) -> list[dict[str, Any]]:
    """Return what the features are, for run.json."""
    found_by = stable.found_by
    return [
        {
            "feature": k + 1,
            "name": feature_name(meaning, columns),
            "prevalence": meaning.prevalence,
            "sure_rows": meaning.sure,
            "covariance": meaning.covariance,
            "other_starts": stable.of if found_by is not None else None,
            "found_by": int(found_by[k]) if found_by is not None else None,
            "columns": [_contrast_result(c, columns) for c in meaning.contrasts[:MOST_COLUMNS]],
            "pairs": [
                {
                    "first": _cell(p.first, columns),
                    "second": _cell(p.second, columns),
                    "covariance": p.observed,
                    "explained": p.explained,
                }
                for p in meaning.pairs
            ],
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
    "A feature is a yes-or-no property of a row that nobody recorded and that makes some answers "
    "likelier, not certain; of the two sides the rarer one is named. The table rows/ has the "
    "probability of each feature for every row: use it to select or to compare rows."
)
MOST_SHOWN = 8
"""Columns in the picture of a feature."""


def meaning_sections(
    found: Sequence[Meaning], columns: Sequence[Column], stable: Stability
) -> list[Section]:
    """The features in words and as a heat map, then the contrasts of each."""
    if not found:
        return []
    found_by = stable.found_by if stable.of else None
    sentences = [
        _sentence(k, meaning, columns) + ("" if found_by is None else _caution(int(found_by[k])))
        for k, meaning in enumerate(found)
    ]
    rows = [
        (
            k + 1,
            feature_name(meaning, columns),
            f"{meaning.prevalence:.1%}",
            f"{meaning.sure:.0%}",
            "" if meaning.covariance is None else f"{meaning.covariance:.0%}",
            "" if found_by is None else f"{found_by[k]} of {stable.of}",
        )
        for k, meaning in enumerate(found)
    ]
    heads = ("feature", "name", "rows", "sure rows", "of the covariance", "other starts with it")
    note = (
        "A feature is named after the answers that it changes most clearly. Rows: the share of "
        "rows that have it; sure rows: those with a probability below .1 or above .9 (on simulated "
        "tables these probabilities were too sure); of the covariance: how much of the association "
        "between columns it explains."
    )
    text = "\n".join([_WHAT, *sentences])
    pictures = [_strongest(found, columns)]
    if len(found) > 1:
        pictures.append(_heat_map(found, columns))
    sections = [Section("What the features are", text, pictures, (Grid(heads, rows, note),))]
    return sections + [_one(k, meaning, columns) for k, meaning in enumerate(found)]


def _caution(found: int) -> str:
    """Say so where a feature is not in every chain, or in no other start."""
    return "" if found else " Not reproduced by other starts: search again with --set starts=6."


def _sentence(k: int, meaning: Meaning, columns: Sequence[Column]) -> str:
    first = meaning.contrasts[0]
    of_rows = (
        f"Feature {k + 1} ({feature_name(meaning, columns)}) is in {meaning.prevalence:.0%} of the "
        "rows: "
    )
    column, answers = columns[first.column], first.answers
    if answers is not None and answers.clear:
        return (
            f"{of_rows}their mean answer to {column.name} is {answers.with_it:.3g}, that of the "
            f"others {answers.without_it:.3g} ({scale_in_words(column)}), other features equal."
        )
    return (
        f"{of_rows}of those with it {first.with_it:.0%} have "
        f"{_cell((first.column, first.category), columns)}, of those without "
        f"{first.without_it:.0%}, other features equal."
    )


def scale_in_words(column: Column) -> str:
    """Return a scale by its ends."""
    low, high = column.ordered[0], column.ordered[-1]
    if numbers_of(column.ordered) is not None:
        return f"on a scale from {low} to {high}"
    return f"1 is {low}, {len(column.ordered)} is {high}"


def again_in_words(k: int, stable: Stability) -> str:
    """Say whether other starts of the search found a feature too, at the end of a sentence.

    >>> again_in_words(0, Stability(np.array([1]), 1))
    '; found again by the one other start'
    >>> again_in_words(0, Stability(np.array([2]), 3))
    '; found again by 2 of 3 other starts'
    """
    if stable.found_by is None or not stable.of:
        return ""
    if stable.of == 1:
        again = "found again by" if stable.found_by[k] else "not found by"
        return f"; {again} the one other start"
    return f"; found again by {stable.found_by[k]} of {stable.of} other starts"


def strongest(found: Sequence[Meaning]) -> int:
    """Return the number of the feature that says most of the columns, in all."""
    return int(np.argmax([sum(c.sure_nats for c in one.contrasts) for one in found]))


def _strongest(found: Sequence[Meaning], columns: Sequence[Column]) -> plots.Spec:
    """Draw what the strongest feature does: each answer with it and without it."""
    k = strongest(found)
    names, on, off, means = [], [], [], 0
    for c in found[k].contrasts[:MOST_SHOWN]:
        answers = c.answers
        if answers is not None and answers.clear:
            size = answers.high - answers.low
            names.append(f"{columns[c.column].name} (mean)")
            means += 1
            on.append(100.0 * (answers.with_it - answers.low) / size)
            off.append(100.0 * (answers.without_it - answers.low) / size)
        else:
            names.append(_cell((c.column, c.category), columns))
            on.append(100.0 * c.with_it)
            off.append(100.0 * c.without_it)
    title = f"How rows with feature {k + 1} answer, and rows without it"
    series = ((f"with feature {k + 1}", on), ("without it", off))
    shares = ["% of the rows with this answer"] if means < len(names) else []
    unit = " or ".join([*shares, *(["mean answers in % of their scale"] if means else [])])
    return plots.paired_bars(names, series, unit, title)


def _heat_map(found: Sequence[Meaning], columns: Sequence[Column]) -> plots.Spec:
    """Draw every feature's shift of the mean answer in every column, or of its category."""
    best: dict[int, ColumnContrast] = {}
    for meaning in found:
        for c in meaning.contrasts:
            if c.column not in best or c.sure_nats > best[c.column].sure_nats:
                best[c.column] = c
    kept = sorted(best, key=lambda d: -best[d].sure_nats)[:MOST_CATEGORIES]
    values = []
    for meaning in found:
        own = {c.column: c for c in meaning.contrasts}
        values.append([_shift_at(own[d], best[d]) for d in kept])
    names = [_labelled(best[d], columns) for d in kept]
    lines = [f"feature {k + 1}" for k in range(len(found))]
    parts = [
        ("the mean answer, as a share of its scale", any(columns[d].ordered for d in kept)),
        ("the probability of a category", not all(columns[d].ordered for d in kept)),
    ]
    title = f"What each feature adds to {' or to '.join(words for words, on in parts if on)}"
    return plots.heat_map(lines, names, values, title, legend="change, of at most 1")


def _shift_at(own: ColumnContrast, shown: ColumnContrast) -> float:
    """Return a feature's shift of the mean answer, or of the category that is shown."""
    return own.differences[shown.category] if own.answers is None else own.answers.shift


def _labelled(shown: ColumnContrast, columns: Sequence[Column]) -> str:
    column = columns[shown.column]
    return column.name if column.ordered else f"{column.name} = {column.levels[shown.category]}"


def _one(k: int, meaning: Meaning, columns: Sequence[Column]) -> Section:
    rows = [_contrast_row(c, columns[c.column]) for c in meaning.contrasts[:MOST_COLUMNS]]
    pairs = [
        (_cell(p.first, columns), _cell(p.second, columns), f"{p.observed:+.4f}",
         f"{p.explained:+.4f}")
        for p in meaning.pairs
    ]  # fmt: skip
    grids = [
        Grid(
            ("column", "answer", "with it", "without it", "difference", "nats a row"),
            rows,
            "Mean answer, or mean probability of the category, if all rows had the feature and if "
            "none had it, their other features as they are. Words of a scale count as 1, 2, 3 and "
            f"so on. Here they are means of {DRAWS} draws from the posterior; weights/ has the "
            "expectation for a row with this feature and no other, which differs a little.",
        )
    ]
    if pairs:
        grids.append(
            Grid(
                ("category", "and", "covariance", "by the feature"),
                pairs,
                "The pairs of columns that the feature ties most.",
            )
        )
    title = f"Feature {k + 1}: {feature_name(meaning, columns)}"
    return Section(title, "", (), tuple(grids))


def _contrast_row(c: ColumnContrast, column: Column) -> tuple[str, ...]:
    answers = c.answers
    if answers is not None and answers.clear:
        shown, on, off, sd = "mean answer", answers.with_it, answers.without_it, answers.sd
    else:
        shown, on, off, sd = column.levels[c.category], c.with_it, c.without_it, c.sd
    return (
        column.name, shown, f"{on:.3f}", f"{off:.3f}", f"{on - off:+.3f} \u00b1 {sd:.3f}",
        f"{c.nats:.4f}",
    )  # fmt: skip
