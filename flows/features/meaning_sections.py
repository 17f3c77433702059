"""What the features are, in words, in a heat map and in a table each: the opening of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.features.models import Stability
from flows.features.naming import NAMED, ColumnContrast, Meaning
from flows.report import plots
from flows.report.page import Grid, Section

MOST_COLUMNS = 12  # of the input, in the table of a feature
MOST_CATEGORIES = 60  # in the heat map


def feature_name(meaning: Meaning, columns: Sequence[Any]) -> str:
    """Return a feature's name: its strongest columns, each with the category it changes most.

    A column that tells less than a tenth of what the first one tells is not in the name.
    """
    top = meaning.contrasts[:NAMED]
    strong = [c for c in top if c.sure_nats > 0.1 * top[0].sure_nats]
    return " & ".join(_said(c, columns) for c in strong or top[:1])


def _said(contrast: ColumnContrast, columns: Sequence[Any]) -> str:
    column = columns[contrast.column]
    text = f"{column.name} = {column.levels[contrast.category]}"
    return text if contrast.with_it >= contrast.without_it else f"not {text}"


def meaning_results(
    found: Sequence[Meaning], columns: Sequence[Any], stable: Stability
) -> list[dict[str, Any]]:
    """Return what the features are, for run.json."""
    told = stable.found_by
    return [
        {
            "feature": k + 1,
            "name": feature_name(meaning, columns),
            "prevalence": meaning.prevalence,
            "prevalence_sd": meaning.prevalence_sd,
            "sure_rows": meaning.sure,
            "covariance": meaning.covariance,
            "other_starts": stable.of if told is not None else None,
            "found_by": int(told[k]) if told is not None else None,
            "columns": [
                {
                    "column": columns[c.column].name,
                    "category": columns[c.column].levels[c.category],
                    "with": c.with_it,
                    "without": c.without_it,
                    "sd": c.sd,
                    "nats": c.nats,
                }
                for c in meaning.contrasts[:MOST_COLUMNS]
            ],
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


def _cell(place: tuple[int, int], columns: Sequence[Any]) -> str:
    column = columns[place[0]]
    return f"{column.name} = {column.levels[place[1]]}"


def meaning_sections(
    found: Sequence[Meaning], columns: Sequence[Any], stable: Stability
) -> list[Section]:
    """The features in words and as a heat map, then the contrasts of each."""
    if not found:
        return []
    told = stable.found_by if stable.of else None
    text = "\n".join(
        _sentence(k, meaning, columns) + ("" if told is None else _found_by(int(told[k]), stable))
        for k, meaning in enumerate(found)
    )
    rows = [
        (
            k + 1,
            feature_name(meaning, columns),
            f"{meaning.prevalence:.1%} \u00b1 {meaning.prevalence_sd:.1%}",
            f"{meaning.sure:.0%}",
            "" if meaning.covariance is None else f"{meaning.covariance:.0%}",
            "" if told is None else f"{told[k]} of {stable.of}",
        )
        for k, meaning in enumerate(found)
    ]
    heads = ("feature", "name", "rows", "sure rows", "of the covariance", "other starts with it")
    note = (
        "A name has the columns that the feature changes most, doubt counted against them. Rows: "
        "share with the feature, and what the doubt about rows adds to it; sure rows: "
        "a probability below .1 or above .9; covariance: share of the squared covariances "
        "between columns that goes with the feature."
    )
    sections = [
        Section(
            "What the features are", text, (_heat_map(found, columns),), (Grid(heads, rows, note),)
        )
    ]
    return sections + [_one(k, meaning, columns) for k, meaning in enumerate(found)]


def _found_by(found: int, stable: Stability) -> str:
    """Say so where a feature is not in every chain, or in no other start."""
    return "" if found else " No other start has it: take it with care."


def _sentence(k: int, meaning: Meaning, columns: Sequence[Any]) -> str:
    first = meaning.contrasts[0]
    cell = _cell((first.column, first.category), columns)
    return (
        f"Feature {k + 1} ({feature_name(meaning, columns)}) is in {meaning.prevalence:.0%} of the "
        f"rows: of those with it {first.with_it:.0%} have {cell}, of those without "
        f"{first.without_it:.0%}, other features alike."
    )


def _heat_map(found: Sequence[Meaning], columns: Sequence[Any]) -> str:
    """Draw p1 - p0 of every feature in every column, at the category that it changes most."""
    best: dict[int, ColumnContrast] = {}
    for meaning in found:
        for c in meaning.contrasts:
            if c.column not in best or c.sure_nats > best[c.column].sure_nats:
                best[c.column] = c
    kept = sorted(best, key=lambda d: -best[d].sure_nats)[:MOST_CATEGORIES]
    values = []
    for meaning in found:
        own = {c.column: c for c in meaning.contrasts}
        values.append([own[d].with_it - own[d].without_it if d in own else np.nan for d in kept])
    names = [columns[d].name for d in kept]
    lines = [f"feature {k + 1}" for k in range(len(found))]
    title = "What each feature adds to the probability of the category that it changes most"
    return plots.heat_map(lines, names, values, title)


def _one(k: int, meaning: Meaning, columns: Sequence[Any]) -> Section:
    rows = [
        (
            columns[c.column].name,
            columns[c.column].levels[c.category],
            f"{c.with_it:.3f}",
            f"{c.without_it:.3f}",
            f"{c.with_it - c.without_it:+.3f} \u00b1 {c.sd:.3f}",
            f"{c.nats:.4f}",
        )
        for c in meaning.contrasts[:MOST_COLUMNS]
    ]
    pairs = [
        (_cell(p.first, columns), _cell(p.second, columns), f"{p.observed:+.4f}",
         f"{p.explained:+.4f}")
        for p in meaning.pairs
    ]  # fmt: skip
    grids = [
        Grid(
            ("column", "category", "with it", "without it", "difference", "nats a row"),
            rows,
            "Mean probability of the category over the rows, were they all with the feature or all "
            "without it, their other features as they are.",
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
