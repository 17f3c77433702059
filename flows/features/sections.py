"""Sections of the features report: the text's tables 1 to 5 and its figures 5, 7 and 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.features.check import Column
from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.features.patterns import Occurrence

MOST_PAIRS = 12  # features in the tables of pairs
MOST_CATEGORIES = 60  # in one figure of all columns
Weights = dict[str, list[Any]]


def _names(n: int) -> list[str]:
    return [f"feature {k + 1}" for k in range(n)]


def occurrence_sections(found: Occurrence, shares: Sequence[float]) -> list[Section]:
    """Tables 1 to 5: single and joint occurrence, conditional shares, frequent patterns.

    Parameters
    ----------
    found
        Counts of rows whose probability of a feature is above one half.
    shares
        [F] mean probability of each feature.
    """
    n = len(found.total)
    if not n:
        return []
    percent = [100.0 * one for one in shares]
    plot = plots.bars(_names(n), percent, "% of the rows", "Share of the rows")
    rows = [
        (name, *map(_percent, of))
        for name, *of in zip(_names(n), shares, found.total, found.single, strict=True)
    ]
    rows.append(("none", "", _percent(found.none), ""))
    sections = [
        Section(
            "How common the features are",
            "Share of the rows with each feature: the mean of its probability; the rows where it "
            "is above one half; and those of them with no other feature.",
            (plot,) if n > 1 else (),
            (Grid(("feature", "share", "above one half", "and no other"), rows),),
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
            "Features that are active together, and no others: those whose probability in a row is "
            "above one half. So counted, a feature can have fewer or more rows than its share "
            "says, which is the mean of its probability.",
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


def category_sections(weights: Weights, columns: Sequence[Column], n: int) -> list[Section]:
    """Figures 5, 7 and 8 for columns whose categories have no order, if there are more than two."""
    shown = {c.name for c in columns if not c.ordered and len(c.levels) > 2}
    rows = [row for row in zip(*weights.values(), strict=True) if row[0] in shown]
    return _figures(rows, n) if rows and n else []


def _figures(rows: Sequence[tuple[Any, ...]], n: int) -> list[Section]:
    """What no feature, or a single one, adds to the share of every category."""
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
    labels = [f"{c} = {r}" for c, r in keys]
    lines = ["no feature", *(f"feature {k}" for k in range(1, n + 1))]
    base = [p / ratio if ratio else 0.0 for p, ratio in (table[key][0] for key in keys)]
    none = [table[key][0][0] - b for key, b in zip(keys, base, strict=True)]
    alone = [
        [table[key][k][0] - b for key, b in zip(keys, base, strict=True)] for k in range(1, n + 1)
    ]
    title = "Probability of each category less its share of all rows"
    drawn = plots.heat_map(lines, labels, [none, *alone], title, legend="change, of at most 1")
    shown = (
        "" if len(table) - len(first) == len(keys)
        else f" The {MOST_CATEGORIES} categories that features change most."
    )  # fmt: skip
    text = (
        "Columns of more than two categories without an order: each category but the most "
        "frequent one." + shown + " Its probability where no feature is on, and where a single one "
        "is, less its share of all rows: blue is more, orange less."
    )
    return [Section("Which categories features change", text, (drawn,), ())] if keys else []


def column_section(columns: Sequence[Column]) -> Section:
    """The column dictionary."""
    rows = []
    for c in columns:
        counts = dict(zip(c.levels, c.counts, strict=True))
        common = list(c.ordered or c.levels)[:7]
        listed = ", ".join(f"{text} ({counts[text]:,})" for text in common)
        rows.append((c.name, "yes" if c.ordered else "", len(c.levels), listed, c.missing))
    return Section(
        "Categories",
        "The categories of ordered columns from the lowest to the highest, those of others by how "
        "often they occur.",
        (),
        (Grid(("column", "ordered", "categories", "cells of each", "missing"), rows),),
    )


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.2f}\u00a0%"
