"""The numbers at the head of the experts report, its comparison in words, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flows.data.names import listed
from flows.report.baselines import SHARE, baseline_tile
from flows.report.labels import AGAINST, UNKNOWN, label
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
    of = "labelled rows that were held out of the fit"
    of = "scored rows with a label, and hold if the fit has seen none of them" if applied else of
    return f"All figures are of the {n:,.0f} {of}."


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
        note += f"; always saying {share} has {results['share_log_loss']:.3f}"
    tiles.append(Tile(label("log_loss"), f"{results['log_loss']:.3f}", note))
    others = results.get("baselines", {})
    compared = {name: others[name] for name in OTHER_MODELS if name in others}
    for tile in baseline_tile({"baselines": compared}):
        best = compared[tile.label.removeprefix(AGAINST)]
        if "auroc" in best and "auroc" in results:
            both = f"AUROC {best['auroc']:.3f}, log loss {best['log_loss']:.3f}; "
            tile = replace(tile, note=both + tile.note)
        tiles.append(tile)
    return tiles


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


def with_rivals(said: str, results: Mapping[str, Any]) -> str:
    """Say after a sentence which models do better, or whether a simpler one does about as well.

    >>> trees, line = {"interval": [-0.2, -0.05]}, {"interval": [-0.1, 0.2]}
    >>> found = {"boosted trees": trees, "ridge regression": line}
    >>> with_rivals("R2 0.800", {"baselines": found, "test_rows": 46})
    'R2 0.800. Boosted trees do better (on so few rows another split may say otherwise).'
    >>> with_rivals("R2 0.800", {"baselines": {"ridge regression": line}, "test_rows": 1000})
    'R2 0.800. Ridge regression, simpler, does about as well.'
    >>> with_rivals("R2 0.800", {"test_rows": 46})
    'R2 0.800.'
    """
    if (column := results.get("one_label_per")) is not None:
        said += f". Too good for rows of a new {column}: those of each were fitted and held out"
    if none := no_better_than(results):
        return f"{said}. That is not shown to be better than {none} for every row."
    n, groups = results["test_rows"], _compared(results)
    chance = f" on {n:,} rows" * (n < FEW)
    if groups[_BETTER]:
        parts = _do(groups[_BETTER], "better")
        if n < TOO_FEW:
            parts += " (on so few rows another split may say otherwise)"
    elif simple := simpler(results):
        parts = f"{simple}, simpler, does about as well"
        if n < FEW:
            parts = f"No clear difference from {simple}, which is simpler"
    elif groups[_ALIKE]:
        parts = f"{_do(groups[_ALIKE], 'about as well')}{chance}"
    else:
        parts = _do(groups[_WORSE], "worse")
    return f"{said}.{f' {parts[0].upper()}{parts[1:]}.' if parts else ''}"


def no_better_than(results: Mapping[str, Any]) -> str:
    """Return the constant that the model is not shown to be better than; "" for none."""
    for name in (SHARE, "the mean"):
        one = results.get("baselines", {}).get(name)
        if one is not None and one["interval"][0] <= LEAST_GAIN:
            return name
    return ""


_WORSE, _BETTER, _ALIKE = "worse", "better", "alike"


def _compared(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the other models that do worse, better, and neither."""
    groups: dict[str, list[str]] = {_WORSE: [], _BETTER: [], _ALIKE: []}
    for name, one in results.get("baselines", {}).items():
        if name in OTHER_MODELS:
            low, high = one["interval"]
            groups[_BETTER if high < 0.0 else _WORSE if low > 0.0 else _ALIKE].append(name)
    return groups


def _do(names: list[str], how: str) -> str:
    plural = len(names) > 1 or (names and names[0][-1] == "s")
    return f"{' and '.join(names)} {'do' if plural else 'does'} {how}" if names else ""


def simpler(results: Mapping[str, Any]) -> str:
    """Return the regression that does about as well, where no other model does better; else ""."""
    groups = _compared(results)
    if no_better_than(results):
        return ""
    alike = [one for one in groups[_ALIKE] if one in SIMPLE and not groups[_BETTER]]
    return alike[0] if alike else ""


def steps_after_score(unsure: Sequence[str] = (), far: Sequence[str] = ()) -> tuple[NextStep, ...]:
    """Return what to do with new rows: those uncertain, and those ``far`` from the fitted ones."""
    looks = []
    if unsure:
        looks.append(f"Decide yourself: {listed(unsure, SOME)}.")
    if far:
        looks.append(f"Check the numbers outside the fit's range of: {listed(far, SOME)}.")
    every = "Write every row with its prediction to a file:"
    file = NextStep(every, "vbflows show {run} rows --csv > rows.csv")
    return (*[NextStep(" ".join(looks))] * bool(looks), file)


SIMPLE = OTHER_MODELS[1:]
LEAST_GAIN = 0.001
"""Of log loss or of R2: less is no gain, however sure."""
SOME = 8
"""Rows that a step names."""
ALL = 200
"""Rows of a score that are all on its page."""
FEW, TOO_FEW = 200, 100
"""Held-out rows below which calibration is rough, and below which it is not shown."""


def next_steps(column: str = "", tested: int = 0) -> tuple[NextStep, ...]:
    """Return what to do after a fit: rows are sorted by ``column``, so many were held out."""
    first = NextStep("See the predicted label of every row:", "vbflows show {run} rows")
    if column:
        line = f"vbflows show {{run}} rows --sort {shlex.quote(column)}"
        first = NextStep(f"See the rows, the largest {column} first:", line)
    steps = []
    if 0 < tested < FEW:
        more = f"Measure on more than {tested:,} rows: hold out three in ten."
        steps.append(NextStep(more, "{again test_share=0.3}", True))
    new = "vbflows score {run} NEW_TABLE scored/"
    steps.append(NextStep("Predict new rows of the same columns:", new, True))
    return (*steps, *[first] * (len(steps) < 3))  # a page has three
