"""What the report says of bags that have one class each: counts of predicted and true classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flows.bags.summary import BagSummary
from flows.report.baselines import share_interval
from flows.report.page import Findings, Grid, Section
from vbmodels.core.state import IntArray

MOST_CLASSES = 20
"""Classes of which the counts are shown."""


def with_predicted_classes(found: Findings, summaries: Sequence[Sequence[BagSummary]]) -> Findings:
    """Return findings that begin with the predicted classes, where each bag has one.

    ``summaries`` are those of each partition, class by class. Only bags whose labels the fit did
    not see are counted.
    """
    if not summaries[0][0].exclusive:
        return found
    names = [str(one.of_class) for one in summaries[0]]
    chance = np.concatenate([np.column_stack([s.probability for s in part]) for part in summaries])
    label = np.concatenate([np.column_stack([s.label for s in part]) for part in summaries])
    unseen = np.concatenate([part[0].held_out | part[0].new for part in summaries])
    tested = (label.max(axis=1) == 1) & unseen
    predicted = chance.argmax(axis=1)
    shares = np.bincount(predicted, minlength=len(names)).tolist()
    counts = ", ".join(f"{number:,} {name}" for name, number in zip(names, shares, strict=True))
    lines = [f"Predicted classes of {len(label):,} bags: {counts}."]
    found = replace(found, predicted=lines[0][:-1])
    results = dict(found.results)
    if not tested.any():
        if not summaries[0][0].new:
            lines.append("How well they are predicted is not known: --set held_out=0.3 tests it.")
        short = Section("In short", "\n".join(lines))
        return replace(found, headline=lines[0][:-1], sections=[short, *found.sections[1:]])
    true = label.argmax(axis=1)[tested]
    table = np.zeros((len(names), len(names)), np.int64)
    np.add.at(table, (true, predicted[tested]), 1)
    right, number = int(np.trace(table)), len(true)
    interval = share_interval(right, number)
    low, high = interval
    common = int(table.sum(axis=1).argmax())
    base = int(table.sum(axis=1)[common])
    results.update(
        accuracy=right / number, accuracy_interval=interval,
        base_accuracy=base / number,
    )  # fmt: skip
    which = "new" if summaries[0][0].new else "held-out"
    headline = (
        f"The class of {right:,} of {number:,} {which} bags is predicted right "
        f"({right / number:.0%}, {low:.0%} to {high:.0%}; {names[common]} for "
        f"all: {base / number:.0%})"
    )
    if low <= base / number:
        headline = (
            f"No better than {names[common]} for every bag: {headline[0].lower()}{headline[1:]}"
        )
    section = Section(
        "Predicted and true classes",
        f"Counts of {which} bags; the diagonal is right. A bag's class is the one with the highest "
        "probability; probabilities of a bag's classes are divided by their sum.",
        (),
        (_counts(table, names),),
        measures=True,
    )
    short = Section("In short", "\n".join(lines), measures=True)
    sections = [short, section, *found.sections[1:]]
    return replace(found, headline=headline, sections=sections, results=results)


def _counts(table: IntArray, names: Sequence[str]) -> Grid:
    """Return counts [true, predicted], of the most frequent classes."""
    order = np.sort(np.argsort(-table.sum(axis=1), kind="stable")[:MOST_CLASSES])
    columns = ("true class", *(f"predicted {names[c]}" for c in order))
    rows = [(names[c], *table[c, order].tolist()) for c in order]
    caption = "" if len(names) <= MOST_CLASSES else f"The {MOST_CLASSES} most frequent classes"
    return Grid(columns, rows, caption)
