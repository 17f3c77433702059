"""Counts of held-out rows at every threshold of the probability: AUROC and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from flows.experts.tiles import TOO_FEW
from flows.report.baselines import share_interval
from flows.report.page import Grid
from vbmodels.core.state import FloatArray, IntArray

SHOWN = np.array(
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *np.arange(1, 10) / 10.0, 0.95, 0.98, 0.99, 0.999]
)
"""Thresholds of the table."""
ALWAYS = 0.05, 0.1, 0.2, 0.5, 0.8
"""Those that are in it though their counts are those of the one before."""
COST = "a miss costs (false alarms)"
_MISSED = "false_negatives", "true_positives"
_ALARMS = "false_positives", "true_negatives"
"""What may go wrong with a row of the label, and of the other, and what it is if it does not."""
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
    caption = (
        f"{tested[0].upper()}{tested[1:]} are called {label} from the threshold on."
        " If a miss costs as much as 4 false alarms, take 0.2: 1 / (1 + 4)."
    )
    if yes + no < TOO_FEW:
        caption += (
            f" Choose by what a miss costs you, not by these counts: {yes + no:,.0f} rows are too "
            "few. The rule takes the probabilities as right, which so few cannot check."
        )
    columns = "threshold", COST, *_heads(found[0], label)
    every = Grid(columns, _with_costs(found), f"All {len(found)} thresholds", folded=True)
    return [Grid(columns, _with_costs(_that_matter(found)), caption), every], found


def _heads(counts: Mapping[str, float], label: str) -> tuple[str, str]:
    yes, no = (counts[a] + counts[b] for a, b in (_MISSED, _ALARMS))
    missed = f"missed of {yes:,.0f} {label} (95 %)"
    return missed, f"false alarms of {no:,.0f} others (95 %)"


def _with_costs(found: list[dict[str, float]]) -> list[tuple[object, ...]]:
    """Return thresholds, the cost each is for, what it misses and its false alarms."""
    return [
        (f"{one['threshold']:g}", _cost(one["threshold"]),
         *(_of(one[a], one[a] + one[b]) for a, b in (_MISSED, _ALARMS)))
        for one in found
    ]  # fmt: skip


def _cost(threshold: float) -> str:
    """Return how many false alarms a miss costs where a threshold is the best.

    >>> _cost(0.001), _cost(0.05), _cost(0.3), _cost(0.95)
    ('999', '19', '2.3', '0.053')
    """
    cost = 1.0 / threshold - 1.0
    return f"{cost:.0f}" if cost >= 10.0 else f"{cost:.2g}"


def called_by_thresholds(
    fit: Sequence[Mapping[str, float]], called: IntArray, rows: int, label: str
) -> Grid:
    """Return how many of ``rows`` new ones each threshold of a fit calls, and what it cost there.

    ``called`` are those at or above each of `SHOWN`.
    """
    counts = dict(zip(SHOWN.tolist(), called.tolist(), strict=True))
    found = _that_matter([dict(one) for one in fit])
    heads = _heads(found[0], label)
    columns = "threshold", COST, f"called, of {rows:,}", *heads
    pairs = zip(found, _with_costs(found), strict=True)
    table = [(*row[:-2], counts[one["threshold"]], *row[-2:]) for one, row in pairs]
    caption = (
        f"Rows called {label} from each threshold on, and what that cost on the fit's "
        "held-out rows."
        " If a miss costs as much as 4 false alarms, take 0.2: 1 / (1 + 4)."
    )
    return Grid(columns, table, caption)


def misses_in_words(found: Sequence[Mapping[str, float]], label: str) -> str:
    """Say what .5 misses of a label, and what the first lower threshold that misses less does."""
    half, lower = _at(found, 0.5), [_at(found, one) for one in ALWAYS[::-1] if one < 0.5]
    yes, no = (half[a] + half[b] for a, b in (_MISSED, _ALARMS))
    missed, alarms = _MISSED[0], _ALARMS[0]
    number = f"{half[missed]:,.0f}" if half[missed] else "none"
    said = (
        f"the threshold 0.5 misses {number} of {yes:,.0f} {label}, with "
        f"{_count_alarms(half[alarms])} in {no:,.0f} others"
    )
    for one in [one for one in lower if one[missed] < half[missed]][:1]:
        number = f"{one[missed]:,.0f}"
        if not one[missed]:
            number = f"none (95 %: up to {100.0 * share_interval(0.0, yes)[1]:.0f} %)"
        said += f"; {one['threshold']:g} misses {number}, with {_count_alarms(one[alarms])}"
    return said


def _count_alarms(count: float) -> str:
    """Write a number of false alarms.

    >>> _count_alarms(0.0), _count_alarms(1.0), _count_alarms(1200.0)
    ('no false alarms', '1 false alarm', '1,200 false alarms')
    """
    return f"{f'{count:,.0f}' if count else 'no'} false alarm{'s' * (count != 1)}"


def _of(part: float, of: float, words: str = "") -> str:
    """Write a count with its 95 % interval as a share, and ``words`` between.

    >>> _of(0.0, 14.0, " of 14"), _of(1.0, 14.0), _of(0.0, 0.0)
    ('none of 14 (0 to 22 %)', '1, 7 % (1 to 31 %)', 'none')
    """
    low, high = share_interval(part, of) if of else (0.0, 0.0)
    between = f" ({100.0 * low:.0f} to {100.0 * high:.0f} %)" * bool(of)
    share = f", {100.0 * part / of:.0f} %" if part else ""
    return f"{f'{part:,.0f}' if part else 'none'}{words}{share}{between}"


def missed_at(fit: Mapping[str, Any], ends: tuple[float, float], label: str) -> str:
    """Say what a fit knows of rows below and above the ends, and what it cannot know."""
    low, high = (_at(fit["thresholds"], end) for end in ends)
    missed, yes = low[_MISSED[0]], low[_MISSED[0]] + low[_MISSED[1]]
    vain, no = high[_ALARMS[0]], high[_ALARMS[0]] + high[_ALARMS[1]]
    text = (
        f"Of the fit's held-out rows {_of(missed, yes, f' of {yes:,.0f} {label}')} "
        f"{'were' if missed > 1 else 'was'} below {ends[0]} and "
        f"{_of(vain, no, f' of {no:,.0f} others')} above {ends[1]}."
    )
    if (n := fit["test_rows"]) < TOO_FEW:
        text += (
            f" Whether {ends[1]} means {10 * ends[1]:g} in 10 could not be checked: {n:,} rows "
            "are too few."
        )
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
