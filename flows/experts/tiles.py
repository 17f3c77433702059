"""The numbers at the head of the experts report, its comparison in words, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from flows.report.baselines import baseline_tile
from flows.report.labels import UNKNOWN, label
from flows.report.page import NextStep, Tile

OTHER_MODELS = (
    "boosted trees", "logistic regression", "multinomial logistic regression",
    "ridge regression", "Poisson regression",
)  # fmt: skip
"""Baselines of the headline and of the tile; the others are this model less one of its parts."""


def tested_rows(applied: bool) -> str:
    """Return what rows are called that say how good predictions are.

    ``applied``: the fit is an earlier one, which may have seen them.
    """
    return "scored rows with a label" if applied else "held-out rows"


def of_tested_rows(n: float, applied: bool) -> str:
    """Say of which rows the figures of a part are."""
    if applied:
        return (
            f"All figures are of the {n:,.0f} scored rows with a label. Of rows that the fit has "
            "seen they are too good."
        )
    return f"All figures are of the {n:,.0f} labelled rows that were held out of the fit."


def tiles_of(results: Mapping[str, Any], applied: bool = False) -> list[Tile]:
    """Return how well labels are predicted on rows that were not fitted, and against what."""
    if "accuracy" not in results:
        return [Tile(label("accuracy"), UNKNOWN, "no labelled row was held out")]
    rows = f"{results['test_rows']:,} {tested_rows(applied)}"
    name, value, interval = label("accuracy"), percent(results["accuracy"]), "accuracy_interval"
    digits = ".1%"
    if "auroc" in results:
        name, value, interval, digits = (
            label("auroc"),
            f"{results['auroc']:.3f}",
            "auroc_interval",
            ".3f",
        )
    note = f"{in_range(results, interval, digits)}{rows}; higher is better"
    tiles = [Tile(name, value, note)]
    note = f"{in_range(results, 'log_loss_interval', '.3f')}lower is better"
    if "share_log_loss" in results:
        note += f"; the best constant has {results['share_log_loss']:.3f}"
    tiles.append(Tile(label("log_loss"), f"{results['log_loss']:.3f}", note))
    others = results.get("baselines", {})
    compared = {name: others[name] for name in OTHER_MODELS if name in others}
    return [*tiles, *baseline_tile({"baselines": compared})]


def in_range(results: Mapping[str, Any], name: str, digits: str) -> str:
    """Return a 95 % interval as a note begins with it; nothing where it is not known."""
    if name not in results:
        return ""
    low, high = results[name]
    return f"{low:{digits}} to {high:{digits}} (95%); ".replace("%", "\u00a0%")


def percent(share: float) -> str:
    """Return a share in per cent, with a digit.

    >>> percent(0.957).replace("\u00a0", " ")
    '95.7 %'
    """
    return f"{100.0 * share:.1f}\u00a0%"


def compared_in_words(results: Mapping[str, Any], value: str) -> str:
    """Say how the model compares with other models, the better ones first.

    >>> trees = {"r2": 0.9, "more": -0.1, "interval": [-0.2, -0.05]}
    >>> ridge = {"r2": 0.7, "more": 0.1, "interval": [-0.1, 0.2]}
    >>> baselines = {"boosted trees": trees, "ridge regression": ridge, "the mean": trees}
    >>> compared_in_words({"baselines": baselines}, "r2")
    ': worse than boosted trees (0.900), not clearly better than ridge regression (0.700)'
    >>> tree = {"boosted trees": {"log_loss": 0.4, "more": -0.1, "interval": [-0.2, 0.1]}}
    >>> compared_in_words({"baselines": tree}, "log_loss")
    ': log loss not clearly worse than boosted trees (0.400)'
    """
    others = results.get("baselines", {})
    groups: dict[str, list[str]] = {one: [] for one in _VERDICTS}
    for name in OTHER_MODELS:
        if name in others:
            one = others[name]
            groups[_verdict(one["more"], *one["interval"])].append(f"{name} ({one[value]:.3f})")
    parts = [
        f"{verdict} {(' or ' if verdict.startswith('not') else ' and ').join(names)}"
        for verdict, names in groups.items()
        if names
    ]
    named = "log loss " if value == "log_loss" else ""
    return f": {named}{', '.join(parts)}" if parts else ""


_VERDICTS = ("worse than", "not clearly worse than", "not clearly better than", "better than")


def _verdict(more: float, low: float, high: float) -> str:
    if high < 0.0:
        return _VERDICTS[0]
    if low > 0.0:
        return _VERDICTS[3]
    return _VERDICTS[1] if more < 0.0 else _VERDICTS[2]


def next_steps(column: str = "") -> tuple[NextStep, ...]:
    """Return what to do next; rows are sorted by ``column``, of the table rows."""
    first = NextStep("See the predicted label of every row:", "vbflows show {run} rows")
    if column:
        sort = shlex.quote(column)
        first = NextStep(
            f"See the rows with the largest {column}:", f"vbflows show {{run}} rows --sort {sort}"
        )
    new = "vbflows score {run} NEW_TABLE scored/"
    return first, NextStep("Predict new rows, with the same columns:", new, True)
