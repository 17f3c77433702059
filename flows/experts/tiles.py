"""The numbers at the head of the experts report, its comparison in words, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from flows.report.baselines import UNCLEAR, baseline_tile
from flows.report.labels import UNKNOWN, label
from flows.report.page import NextStep, Tile

OTHER_MODELS = (
    "boosted trees", "logistic regression", "multinomial logistic regression",
    "ridge regression", "Poisson regression",
)  # fmt: skip
"""Baselines of the headline and of the tile; the others are this model less one of its parts."""


def tested_rows(applied: bool) -> str:
    """Return what tested rows are called; a fit that is ``applied`` may have seen them."""
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
        name, value = label("auroc"), f"{results['auroc']:.3f}"
        interval, digits = "auroc_interval", ".3f"
    note = f"{in_range(results, interval, digits)}{rows}; higher is better"
    tiles = [Tile(name, value, note)]
    note = f"{in_range(results, 'log_loss_interval', '.3f')}lower is better"
    if "share_log_loss" in results:
        share = percent(results["test_positives"] / results["test_rows"])
        note += f"; the best constant, {share}, has {results['share_log_loss']:.3f}"
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

    >>> trees = {"r2": 0.9, "interval": [-0.2, -0.05]}
    >>> ridge = {"r2": 0.7, "interval": [-0.1, 0.2]}
    >>> baselines = {"boosted trees": trees, "ridge regression": ridge, "the mean": trees}
    >>> compared_in_words({"baselines": baselines}, "r2")
    '; worse than boosted trees (0.900), no clear difference from ridge regression (0.700)'
    >>> tree = {"boosted trees": {"log_loss": 0.4, "interval": [-0.2, 0.1]}}
    >>> compared_in_words({"baselines": tree, "test_rows": 9}, "log_loss")
    '; no clear difference in log loss from boosted trees: with 9 rows neither can be called better'
    """
    others, losses = results.get("baselines", {}), value == "log_loss"
    groups: dict[str, list[str]] = {"worse than": [], "better than": [], f"{UNCLEAR} from": []}
    worse, better, unclear = groups.values()
    for name in OTHER_MODELS:
        if name in others:
            low, high = others[name]["interval"]
            said = name if losses else f"{name} ({others[name][value]:.3f})"
            (worse if high < 0.0 else better if low > 0.0 else unclear).append(said)
    parts = [
        f"{verdict} {(' or ' if names is unclear else ' and ').join(names)}"
        for verdict, names in groups.items()
        if names
    ]
    said = "by log loss " * losses + ", ".join(parts)
    if losses and unclear and not worse and not better:
        rows, none = results.get("test_rows", 0), "neither" if len(unclear) < 3 else "none"
        said = f"{UNCLEAR} in log loss from {' or '.join(unclear)}: with {rows:,} rows {none} can "
        said += "be called better"
    return f"; {said}" if parts else ""


LISTED = 1_000  # rows of a score that one command lists
FEW, TOO_FEW = 200, 100
"""Held-out rows below which calibration is rough, and below which it is not shown."""


def next_steps(column: str = "", tested: int = 0, scored: int = 0) -> tuple[NextStep, ...]:
    """Return what to do next; rows are sorted by ``column``; so many were held out, or scored."""
    first = NextStep("See the predicted label of every row:", "vbflows show {run} rows")
    if column:
        every = 0 < scored <= LISTED
        text = f"List all {scored:,} rows" if every else "See the rows"
        line = f"vbflows show {{run}} rows --sort {shlex.quote(column)}"
        line += f" --rows {scored}" * every
        first = NextStep(f"{text}, the largest {column} first:", line)
    new = "vbflows score {run} NEW_TABLE scored/"
    steps = first, NextStep("Predict new rows, with the same columns:", new, True)
    more = f"Measure on more than {tested:,} rows: fit again with --set test_share=0.3."
    return (*steps, NextStep(more, "", True)) if 0 < tested < FEW else steps
