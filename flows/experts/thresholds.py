"""Counts of held-out rows at every threshold of the probability: ROC, AUROC and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from flows.experts.tiles import TOO_FEW
from flows.report import plots
from flows.report.auroc import auroc_interval
from flows.report.baselines import share_interval
from flows.report.page import Grid
from vbmodels.core.state import FloatArray, IntArray

SHOWN = np.array(
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *np.arange(1, 10) / 10.0, 0.95, 0.98, 0.99, 0.999]
)
"""Thresholds of the table."""
ALWAYS = 0.1, 0.2, 0.5, 0.8, 0.9
"""Those that are in it though their counts are those of the one before."""
GRID = np.union1d(expit(np.linspace(-12.0, 12.0, 1201)), SHOWN)
"""Thresholds of the curve."""


def count_scores(y: Any, p: FloatArray) -> FloatArray:
    """Return rows of the label 0, and of 1, between every two of `GRID`; [2, G + 1]."""
    between = np.searchsorted(GRID, p, "right")
    size = len(GRID) + 1
    return np.array([np.bincount(between[y == k], minlength=size) for k in (0, 1)], float)


def area(scores: FloatArray) -> float:
    """Return the AUROC of `count_scores`; rows between the same two thresholds are equal."""
    no, yes = scores
    below = np.cumsum(no) - 0.5 * no
    return float(yes @ below / max(no.sum() * yes.sum(), 1.0))


def roc(scores: FloatArray) -> plots.Spec:
    """Plot the share of true positives against that of false ones."""
    false, true = (np.append(np.cumsum(one[::-1]), one.sum()) / one.sum() for one in scores)
    false, true = np.insert(false, 0, 0.0), np.insert(true, 0, 0.0)
    kept = np.r_[True, (np.diff(false) > 0.0) | (np.diff(true) > 0.0)]
    series = [("this model", true[kept]), ("chance", false[kept])]
    title = f"ROC curve (AUROC {area(scores):.3f})"
    low, high = auroc_interval(area(scores), *(int(one) for one in scores.sum(1)[::-1]))
    how = "Each place on the line is a threshold: the nearer to the upper left, the better. The "
    how += f"AUROC's 95 % interval, {low:.3f} to {high:.3f}, is Newcombe's (2006, method 5), from "
    how += "the area and the numbers of both labels."
    return plots.lines(false[kept], series, "false positive rate", "true positive rate", title, how)


def threshold_tables(
    scores: FloatArray, label: str, tested: str = "held-out rows"
) -> tuple[list[Grid], list[dict[str, float]]]:
    """Return the thresholds that matter, then all (.5, and one for each set of counts) folded.

    ``tested``: what the rows are called. The numbers are returned too.
    """
    at = np.searchsorted(GRID, SHOWN) + 1
    above = np.cumsum(scores[:, ::-1], axis=1)[:, ::-1]
    no, yes = scores.sum(1)
    found: list[dict[str, float]] = []
    for threshold, place in zip(SHOWN, at, strict=True):
        false, true = above[:, place]
        counts = {
            "threshold": float(threshold), "true_positives": float(true),
            "false_positives": float(false), "false_negatives": float(yes - true),
            "true_negatives": float(no - false),
        }  # fmt: skip
        new = not found or list(counts.values())[1:] != list(found[-1].values())[1:]
        if new or threshold in ALWAYS:
            found.append(counts)
    columns = "threshold", f"missed of {yes:,.0f} {label}", f"false alarms among {no:,.0f} others"
    caption = f"What a threshold costs: {tested} are called {label} if their probability is at "
    caption += f"least it; recall is the share of {label} that is found."
    if none := [one for one in found if not one["false_negatives"]]:
        alarms = int(none[-1]["false_positives"])
        caption += f" Of these {none[-1]['threshold']:g} is the highest that misses none; "
        caption += f"it raises {alarms or 'no'} false alarm{'s' * (alarms != 1)}."
    short = [(*row[:3], row[4]) for row in _rows(_that_matter(found))]
    title = f"All {len(found)} thresholds, with precision (the share of those called that are "
    title += f"{label})"
    every = "threshold", "missed", "false alarms", "precision (95 %)", "recall (95 %)"
    first = Grid((*columns, every[4]), short, caption)
    return [first, Grid(every, _rows(found), title, folded=True)], found


def called_by_thresholds(
    fit: Sequence[Mapping[str, float]], called: IntArray, rows: int, label: str
) -> Grid:
    """Return how many of ``rows`` new ones each threshold of a fit calls, and what it cost there.

    ``called`` are those at or above each of `SHOWN`.
    """
    counts = dict(zip(SHOWN.tolist(), called.tolist(), strict=True))
    found = _that_matter([dict(one) for one in fit])
    yes = found[0]["true_positives"] + found[0]["false_negatives"]
    no = found[0]["false_positives"] + found[0]["true_negatives"]
    here, there = f"called here, of {rows:,}", f"false alarms, of {no:,.0f} held-out others"
    columns = "threshold", here, f"missed, of {yes:,.0f} held-out {label}", there
    pairs = zip(found, _rows(found), strict=True)
    table = [(row[0], counts[one["threshold"]], *row[1:3]) for one, row in pairs]
    caption = (
        f"The rows that each threshold calls {label} (probability at least as large), and what "
    )
    caption += f"that cost on the fit's {yes + no:,.0f} held-out rows."
    return Grid(columns, table, caption)


def at_half(found: list[dict[str, float]]) -> tuple[int, int]:
    """Return the rows that a threshold of .5 misses, and its false alarms."""
    half = next(one for one in found if one["threshold"] == 0.5)
    return int(half["false_negatives"]), int(half["false_positives"])


def missed_at(fit: Mapping[str, Any], ends: tuple[float, float], label: str) -> str:
    """Say what a fit knows of rows below and above the ends, and what it cannot know."""
    low, high = (_at(fit["thresholds"], end) for end in ends)
    missed, vain = int(low["false_negatives"]), int(high["false_positives"])
    n, yes = fit["test_rows"], int(low["true_positives"]) + missed
    text = f"On the fit's {n:,} held-out rows {missed or 'none'} of {yes:,} {label} "
    text += f"{'were' if missed > 1 else 'was'} below {ends[0]} and {vain or 'none'} of "
    text += f"{n - yes:,} others above {ends[1]}."
    if n < TOO_FEW:
        text += f" Whether {ends[1]} means {10 * ends[1]:g} in 10 could not be checked: {n:,} rows "
        text += "are too few."
    if "fitted_share" in fit:
        text += f" Of the fitted rows {100.0 * fit['fitted_share']:.0f} % are {label}."
    return text


def _at(found: Sequence[Mapping[str, float]], threshold: float) -> dict[str, float]:
    """Return the counts at a threshold: those of the last one where it is left out as alike."""
    last = [one for one in found if one["threshold"] <= threshold][-1]
    return {**last, "threshold": threshold}


def _that_matter(found: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return `ALWAYS`, the highest that misses none and the lowest without a false alarm."""
    kept = [_at(found, one) for one in ALWAYS]
    ends = [one for one in found if one["false_negatives"] == 0.0][-1:]
    ends += [one for one in found if one["false_positives"] == 0.0][:1]
    alike = [list(one.values())[1:] for one in kept]
    kept += [one for one in ends if list(one.values())[1:] not in alike]
    return sorted(kept, key=lambda one: one["threshold"])


def _rows(found: list[dict[str, float]]) -> list[tuple[object, ...]]:
    return [
        (f"{one['threshold']:g}", int(one["false_negatives"]), int(one["false_positives"]),
         _share(one["true_positives"], one["true_positives"] + one["false_positives"]),
         _share(one["true_positives"], one["true_positives"] + one["false_negatives"]))
        for one in found
    ]  # fmt: skip


def _share(part: float, of: float) -> str:
    if not of:
        return ""
    low, high = share_interval(part, of)
    return f"{100.0 * part / of:.0f} % ({100.0 * low:.0f} to {100.0 * high:.0f})"
