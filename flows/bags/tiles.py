"""The numbers at the head of the bags report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import pdtrc

from flows.bags.summary import EXAMPLES, MOST_LISTED, MOST_UNSURE, Example
from flows.bags.tested import PREDICT, UNSURE, size_tile
from flows.report.baselines import baseline_tile, log_loss_tile
from flows.report.labels import label
from flows.report.page import NextStep, Tile
from vbmodels.core.state import BoolArray, FloatArray, IntArray


def tiles_of(results: Mapping[str, Any], tested: str) -> list[Tile]:
    """Return how well labels are predicted, of which bags, against what, and how many there are."""
    tiles = []
    if "auroc" in results:
        low, high = (f"{end:.3f}" for end in results["auroc_interval"])
        note = f"{low} to {high} (95\u00a0%); {tested}"
        tiles.append(Tile(label("auroc"), f"{results['auroc']:.3f}", note))
        tiles += log_loss_tile(results, "base_log_loss", "")
    return [*tiles, *baseline_tile(results), size_tile(results)]


def count_other_side(
    label: IntArray, probability: FloatArray, known: BoolArray, wrong: Sequence[Example],
    called: Sequence[str],
) -> tuple[list[str], list[NextStep]]:  # fmt: skip
    """Count bags that disagree with their label; list those with the more frequent label.

    Those ``known`` are predicted without their own label; the surest ``wrong`` are named.
    """
    labelled = label >= 0
    apart = labelled & ((probability > 0.5) != (label == 1))
    unsure = (probability > UNSURE[0]) & (probability < UNSURE[1])
    up, down = (int(np.sum(apart & (label == y))) for y in (1, 0))
    lines, number = [], int(np.sum(apart & unsure))
    if up + down > number:
        lines.append(_name_clear(up + down - number, probability[labelled & ~unsure], wrong))
    if number:
        line = f"the {number:,} uncertain ones that disagree"
        line += " follow in the next table" * (len(wrong) == up + down and bool(lines))
        lines.append(f"{line[0].upper()}{line[1:]}" if lines else f"Labels to check: {line}")
    lines = [". ".join(lines)] * bool(lines)
    yes, no = (int(np.sum(label == y)) for y in (1, 0))
    lines.append(
        f"New bags: where each must get an answer, cut at 0.5. Here {up:,} of the {yes:,} labelled "
        f"{called[0]} are missed, and {down:,} of the {no:,} labelled {called[1]} are called "
        f"{called[0]}"
    )
    column, listed = _listed(apart, known)
    counts = [int(np.sum(listed & (label == y))) for y in (1, 0)]
    most = int(counts[1] > counts[0])
    bounds = ("label=1", f"{column}<0.5"), ("label=0", f"{column}>0.5")
    of = " of the fit" * (sum(counts) < up + down)
    text = f"List the {counts[most]:,} bags{of} labelled {called[most]} but predicted otherwise"
    if rest := counts[1 - most]:
        text += f" (the {rest:,} others: {' and '.join(bounds[1 - most])})"
    where = " ".join(f"--where '{one}'" for one in bounds[most])
    step = NextStep(f"{text}:", f"vbflows show {{run}} bags {where} --rows {counts[most]}")
    return lines, [step] * (len(wrong) < sum(counts))  # else the page has them


def _name_clear(number: int, clear: FloatArray, wrong: Sequence[Example]) -> str:
    """Name clear bags that disagree with their label; say whether the model expects as many."""
    apart = [e for e in wrong if not UNSURE[0] < e.probability < UNSURE[1]][:EXAMPLES]
    named = [e.bag_id + f" ({e.instances[0][0]})" * bool(e.instances) for e in apart]
    named += [f"{number - len(named):,} more"] * (number > len(named))
    expected = np.minimum(clear, 1.0 - clear).sum()
    said = (
        f"{number:,} of the {clear.size:,} bags below {UNSURE[0]} or above {UNSURE[1]} "
        f"{'are' if number != 1 else 'is'} labelled otherwise, where by the probabilities about "
        f"{expected:,.{int(expected < 1.0)}f} were to be expected"
    )
    if pdtrc(number - 1, expected) < 0.05:  # of so many or more
        return f"Labels may be wrong: {said}. Check first {', '.join(named)}"
    return f"No label looks wrong: {said}. For a spot check begin with {', '.join(named)}"


def next_steps(
    probability: FloatArray,
    known: BoolArray,
    by_instance: bool,
    first: Sequence[NextStep],
    new: bool,
    to_label: bool = False,
) -> list[NextStep]:
    """Return what to do ``first`` and next; ``by_instance``: instances have probabilities.

    ``to_label``: the uncertain ones among new bags are to be looked at.
    """
    sort = "probability" if by_instance else "contribution"
    low, high = UNSURE
    unsure = (probability > low) & (probability < high)
    column, listed = _listed(unsure, known)
    number = int(listed.sum())
    which, of_fit = ("all", "") if np.array_equal(unsure, listed) else ("the", " of the fit")
    column_of = " (their P without their own label is the column without_it)" * bool(known.any())
    listing = NextStep(
        f"List {which} {number:,} uncertain bags{of_fit}{column_of}:",
        f"vbflows show {{run}} bags --where '{column}>{low}' --where '{column}<{high}' "
        f"--rows {number}",
    )
    instances = NextStep(
        "See which instances make their bags positive:",
        f"vbflows show {{run}} instances --sort {sort}",
    )
    listed_here = number < MOST_UNSURE or (new and probability.size <= MOST_LISTED)
    look = [*first] or [listing] * (not listed_here)
    if not new:
        return [PREDICT, *look, instances]
    every = "vbflows show {run} bags --csv > bags.csv"
    steps = [NextStep("Write every bag with its probability to a file:", every), *look, instances]
    if to_label:
        text = "Add what you see of the uncertain ones as labels to the fit's input, and fit again."
        steps.insert(0, NextStep(text))
    return steps


def _listed(some: BoolArray, known: BoolArray) -> tuple[str, BoolArray]:
    """Return the column of the table bags that the page shows, and which bags it has."""
    return ("without_it", some & known) if known.any() else ("probability", some)
