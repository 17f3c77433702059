"""Sections of the features report: the text's tables 1 to 5 and its figures 5, 7 and 8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.features.patterns import Occurrence, Selection

MOST_COLUMNS = 12  # of the input, shown for each feature
MOST_PAIRS = 12  # features in the tables of pairs
MOST_CATEGORIES = 60  # in one figure of all columns
Weights = dict[str, list[Any]]


def _names(n: int) -> list[str]:
    return [f"feature {k + 1}" for k in range(n)]


def occurrence_sections(found: Occurrence, chosen: Selection) -> list[Section]:
    """Tables 1 to 5: single and joint occurrence, conditional shares, frequent patterns."""
    n = len(found.total)
    plot = plots.bars(_names(n), (100 * found.total).tolist(), "% of the rows", "Prevalence")
    marks = [" (complement)" if f else "" for f in chosen.flipped]
    rows = [
        (f"{name}{mark}", _percent(t), _percent(s))
        for name, mark, t, s in zip(_names(n), marks, found.total, found.single, strict=True)
    ]
    rows.append(("none", _percent(found.none), ""))
    sections = [
        Section(
            "How common the features are",
            "Share of the rows that have each feature with probability above one half, and of "
            "those that have no other.",
            (plot,) if n else (),
            (Grid(("feature", "total", "single"), rows),),
        )
    ]
    if n > 1:
        sections.append(_pair_section(found))
    frequent = [
        (", ".join(str(k + 1) for k in on) or "none", count) for on, count in found.frequent
    ]
    sections.append(
        Section(
            "Most frequent patterns",
            "Features that are active together, and no others.",
            (),
            (Grid(("features", "rows"), frequent),),
        )
    )
    return sections


def _pair_section(found: Occurrence) -> Section:
    n = min(len(found.total), MOST_PAIRS)
    names = [str(k + 1) for k in range(n)]
    joint = [
        (names[i], *(
            "" if i == j else _percent(found.joint[i, j] if j > i else found.product[i, j])
            for j in range(n)
        ))
        for i in range(n)
    ]  # fmt: skip
    given = [(names[i], *(_percent(v) for v in found.conditional[i, :n])) for i in range(n)]
    return Section(
        "Features together",
        f"The {n} most common features.",
        (),
        (
            Grid(
                ("", *names),
                joint,
                "Share of rows with both: found (above the diagonal), and expected were features "
                "independent (below).",
            ),
            Grid(
                ("given", *names), given, "Share of the rows with the first that have the second."
            ),
        ),
    )


def profile_sections(weights: Weights, n: int) -> list[Section]:
    """Figures 5, 7 and 8 as a heat map; then, for none and each feature, what changes most."""
    rows = list(zip(*weights.values(), strict=True))
    sections = _figures(rows, n)
    for k in range(n + 1):
        mine = [row for row in rows if row[2] == k and (k == 0 or row[3] is not None)]
        mine.sort(key=lambda row: -abs(np.log(max(row[6], 1e-12))))
        shown = [
            (column, category, p, p / ratio if ratio else 0.0, ratio)
            for column, category, _, _, _, p, ratio in mine[:MOST_COLUMNS]
        ]
        labels = [f"{column} = {category}" for column, category, *_ in shown]
        title = "Rows without any feature" if k == 0 else f"Feature {k} alone"
        plot = plots.bars(
            labels, [float(row[4]) for row in shown], "probability over that of all rows", title
        )
        grid = Grid(("column", "category", "probability", "all rows", "ratio"), shown)
        text = "The categories whose probability differs most from the share of all rows."
        sections.append(Section(title, text, (plot,) if shown else (), (grid,)))
    return sections


def _figures(rows: Sequence[tuple[Any, ...]], n: int) -> list[Section]:
    """All columns at once: what no feature, or a single one, adds to every share."""
    table: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for column, category, k, _, _, p, ratio in rows:
        table.setdefault((column, category), {})[k] = (p, ratio)
    first = {column: category for column, category in reversed(table)}
    keys = [key for key in table if first[key[0]] != key[1]]
    if len(keys) > MOST_CATEGORIES:
        spread = {key: np.ptp([np.log(max(r, 1e-12)) for _, r in table[key].values()])
                  for key in keys}  # fmt: skip
        kept = set(sorted(keys, key=lambda key: -spread[key])[:MOST_CATEGORIES])
        keys = [key for key in keys if key in kept]
    categories = Counter(column for column, _ in table)
    two = {column for column, count in categories.items() if count == 2}
    labels = [c if c in two else f"{c} = {r}" for c, r in keys]
    lines = ["no feature", *(f"feature {k}" for k in range(1, n + 1))]
    base = [p / ratio if ratio else 0.0 for p, ratio in (table[key][0] for key in keys)]
    none = [table[key][0][0] - b for key, b in zip(keys, base, strict=True)]
    alone = [
        [table[key][k][0] - b for key, b in zip(keys, base, strict=True)] for k in range(1, n + 1)
    ]
    drawn = plots.heat_map(
        lines, labels, [none, *alone], "Probability of each category less its share of all rows"
    )
    shown = (
        "" if len(table) - len(first) == len(keys)
        else f" The {MOST_CATEGORIES} categories that features change most."
    )  # fmt: skip
    text = (
        "Each column's categories but its most frequent one." + shown + " Their probability where "
        "no feature is on, and where a single one is, less their share of all rows: blue is more, "
        "orange less, the fullest colour the largest difference."
    )
    return [Section("What features change", text, (drawn,), ())] if keys else []


def column_section(columns: Sequence[Any]) -> Section:
    """The column dictionary."""
    rows = []
    for c in columns:
        common = list(zip(c.levels, c.counts, strict=True))[:6]
        listed = ", ".join(f"{text} ({n:,})" for text, n in common)
        rows.append((c.name, len(c.levels), listed, c.missing))
    return Section(
        "Categories",
        "Categories are in the order of how often they occur.",
        (),
        (Grid(("column", "categories", "the most frequent", "missing"), rows),),
    )


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.2f}\u00a0%"
