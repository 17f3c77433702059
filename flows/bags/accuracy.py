"""How well the labels of bags are predicted that the fit did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import pdtr

from flows.bags.example_report import Words
from flows.bags.summary import BagSummary
from flows.bags.tested import UNSURE, Which, in_words, which_bags
from flows.evaluate.auroc import auroc, auroc_interval, auroc_of_counts
from flows.report import plots
from flows.report.baselines import mean_error
from flows.report.labels import about_in_words
from flows.report.page import Grid, Section
from vbmodels.bags.multilabel import FOLDS
from vbmodels.core.state import BoolArray, FloatArray, IntArray

CALIBRATION_BINS = 10


@dataclass(frozen=True)
class TestedBags:
    """Bags whose labels the fit did not see when it predicted them, with both labels among them.

    ``base`` is the share of positive bags among the fitted ones, [n], NaN where it is not known;
    ``grouped``: whether bags have groups. There are none where every labelled bag was fitted and no
    model predicts it without itself, or all bags are of one group.
    """

    which: Which
    label: IntArray
    probability: FloatArray
    group: IntArray
    base: FloatArray
    grouped: bool

    @classmethod
    def of(
        cls, summaries: Sequence[BagSummary], label: IntArray, group: IntArray,
        held_out: np.ndarray, probability: FloatArray, grouped: bool,
    ) -> TestedBags:  # fmt: skip
        """Choose new bags, else those held out, else the fitted ones, each without itself."""
        without = np.concatenate([s.without for s in summaries])
        base = np.full(label.size, np.nan)
        fitted = (label >= 0) & ~held_out
        which = which_bags(summaries[0].new, bool(held_out.any()))
        tested = label >= 0 if which == "new" else held_out & (label >= 0)
        if which == "without":
            tested, probability = ~np.isnan(without), without
        if which != "new":
            base[tested] = (np.sum(label[fitted]) + 0.5) / (np.sum(fitted) + 1.0)
        one_group = which != "new" and np.unique(group).size == 1
        if one_group or np.unique(label[tested]).size < 2:
            tested = np.zeros(label.size, bool)
        return cls(which, label[tested], probability[tested], group[tested], base[tested], grouped)

    def described(self, things: str) -> str:
        """Say how many there are, and what of them the fit knew."""
        return in_words(self.which, self.label.size, self.grouped, things)

    def losses(self, probability: FloatArray) -> FloatArray:
        """Return the log loss of each label, [n], in nats."""
        p = np.clip(probability, 1e-15, 1.0 - 1e-15)
        loss: FloatArray = -np.log(np.where(self.label == 1, p, 1.0 - p))
        return loss


def success(test: TestedBags, results: dict[str, Any], things: str, subject: str) -> str:
    """Say how well labels are predicted; ``subject``: what they are called, "" for several."""
    low, high = results["auroc_interval"]
    area = f"AUROC {results['auroc']:.3f} (95 % interval {low:.3f} to {high:.3f})"
    count, where = test.label.size, test.described(things)
    right = int(np.sum((test.probability > 0.5) == (test.label == 1)))
    most = int(max(np.sum(test.label == 1), np.sum(test.label == 0)))
    own, other = f"{100 * right / count:.0f} %", f"{100 * most / count:.0f} %"
    if results.get("beats_base_rate") is False:
        own, other = (f"{results[name]:.3f}" for name in ("log_loss", "base_log_loss"))
        return f"No better than the base rate on {where}: {area}, log loss {own} ({other} with it)"
    if right <= most:
        return (
            f"{area} on {where}: it ranks them, but at 0.5 it is right for {own}, the more "
            f"frequent label for {other}"
        )
    whole, _, how = where.partition(", ")
    right_of = f"{right:,} of {whole} ({own}; the more frequent label alone: {other})"
    text = f"{subject} is predicted right for {right_of}" if subject else f"{right_of} are right"
    return text + f", {how}" * bool(how)


def in_headline(
    test: TestedBags, results: dict[str, Any], things: str, subject: str, unsure: int, every: int
) -> str:
    """Say how well labels are predicted, and of how many of ``every`` bags that is not clear."""
    wrong = (test.probability > 0.5) != (test.label == 1)
    counts: list[str] = []
    for where, those in (
        (f"above {UNSURE[1]}", test.probability >= UNSURE[1]),
        (f"below {UNSURE[0]}", test.probability <= UNSURE[0]),
    ):
        if n := int(those.sum()):
            where = f"with a probability {where}" if not counts else where
            counts.append(f"{int(wrong[those].sum()) or 'none'} of {n:,} {where}")
    rest = f"{unsure:,} of {every:,} {things} are uncertain"
    if counts and test.label.size == every and 0 < unsure <= every / 2:
        clear, right = count_clear(test)
        counts.append(f"{int(wrong.sum()) - (clear - right) or 'none'} of {unsure:,} between")
        rest = f"look at such new {things} yourself ({100.0 * unsure / every:.0f}\u00a0% of all)"
    said = f"Wrong: {', '.join(counts)}" * bool(counts)
    said += f"{(': ' if 'look' in rest else '; ') * bool(counts)}{rest}" * bool(unsure)
    return ". ".join(filter(None, [success(test, results, things, subject), said]))


def _about(count: float) -> str:
    """Write an expected count, of few also between two numbers.

    >>> _about(1.9), _about(3.47)
    ('about 2', '3 or 4')
    """
    if 1.0 < count < 10.0 and 0.25 < count % 1.0 < 0.75:
        return f"{int(count)} or {int(count) + 1}"
    return about_in_words(count)


def count_clear(test: TestedBags) -> tuple[int, int]:
    """Return how many tested bags have a clear probability, and how many of these are right."""
    clear = ~_between(test.probability)
    right = (test.probability > 0.5) == (test.label == 1)
    return int(clear.sum()), int(np.sum(clear & right))


def _between(probability: FloatArray) -> BoolArray:
    """Say which probabilities are uncertain, [n]."""
    between: BoolArray = (probability > UNSURE[0]) & (probability < UNSURE[1])
    return between


def accuracy(
    test: TestedBags, results: dict[str, Any], words: Words, several: bool
) -> list[Section]:
    """Measure how well labels are predicted; the figures go into ``results``."""
    label, probability, group = test.label, test.probability, test.group
    if not label.size:
        return []
    area, losses = auroc(label, probability), test.losses(probability)
    error = mean_error(losses, group)
    # Bags of a group may be alike to any degree: each label of a group counts once.
    counts = [len(np.unique(group[label == value])) for value in (1, 0)]
    results.update(
        auroc=area,
        auroc_interval=auroc_interval(area, *counts),
        log_loss=float(losses.mean()),
        log_loss_se=error,
        tested=int(label.size),
        tested_right=int(np.sum((probability > 0.5) == (label == 1))),
    )
    results["tested_clear"], results["tested_clear_right"] = count_clear(test)
    doubt = np.minimum(probability, 1.0 - probability)
    if not np.isnan(test.base).any():
        gain = test.losses(test.base) - losses
        results["base_log_loss"] = float((gain + losses).mean())
        sure = gain.mean() > 1.96 * mean_error(gain, group) or results["auroc_interval"][0] > 0.5
        results["beats_base_rate"] = bool(gain.mean() > 0.0 and sure)
    edges = np.quantile(probability, np.linspace(0.0, 1.0, CALIBRATION_BINS + 1))
    bins = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, CALIBRATION_BINS - 1)
    used = np.unique(bins)
    predicted = [float(probability[bins == b].mean()) for b in used]
    observed = [float(label[bins == b].mean()) for b in used]
    number = [int(np.sum(bins == b)) for b in used]
    counts_of = [
        (name, *(int(np.sum((label == value) & ((probability > 0.5) == side)))
                 for side in (True, False)))
        for name, value in ((words.positive, 1), (words.negative, 0))
    ]  # fmt: skip
    sides = ("label", f"bags with P({words.positive}) above 0.5", "0.5 or less")
    # Where bags have one of several classes, one above 0.5 is rare and says little.
    grids = [Grid(sides, counts_of, "Bags by label and probability")] if not several else []
    wrong = int(np.sum((probability > 0.5) != (label == 1)))
    said = (
        f"{_about(float(doubt.sum()))} of {label.size:,} to be wrong, and "
        f"{wrong or 'none'} {'is' if wrong == 1 else 'are'}"
    )
    lines = [f"Cut at 0.5, these probabilities expect {said}."]
    if pdtr(wrong, doubt.sum()) < 0.05:  # of so few or fewer
        lines = [f"The probabilities are too cautious: cut at 0.5, they expect {said}."]
    if test.which == "new":
        lines.append("These figures hold if the fit has seen none of these bags.")
    if test.which == "without":
        together = " that keep groups together" * test.grouped
        how = "its group" if test.grouped else "its label"
        every = f"{test.label.size:,} {'labels' if several else 'labelled bags'}"
        lines.append(WITHOUT.format(every, together, how))
    set_apart = by_label(test, label.size, words) if words.new else None
    of_new = () if set_apart is None else (set_apart,)
    return [
        Section(
            "How well the labels are predicted",
            "\n".join(lines),
            (*of_new, plots.calibration(predicted, observed, number, "Calibration")),
            grids,
            measures=True,
        )
    ]


def by_label(test: TestedBags, every: int, words: Words) -> plots.Spec | None:
    """Plot tested bags by probability, in the colour of their label; ``every``: bags in all."""
    if not test.label.size:
        return None
    sides = ((words.positive, 1), (words.negative, 0))
    parts = [(f"labelled {name}", counted(test.probability[test.label == y])) for name, y in sides]
    how = "; the better the model, the farther apart the colours"
    if left := every - test.label.size:
        how += f"; {left:,} bags {'without a label' if words.new else 'of the fit'} left out"
    title = f"Bags by P({words.positive}) and label"
    return plots.split_histogram(parts, words.chance, "bags", title, how)


def counted(probability: FloatArray) -> IntArray:
    """Count probabilities in steps of 0.05, [20]."""
    return np.histogram(probability, 20, (0.0, 1.0))[0]


WITHOUT = (
    f"Each of the {{}} was predicted by models that were fitted without it, in {FOLDS} folds{{}} "
    "(the model of pooled features without {} alone). How much each model counts was learned from "
    "all of them, so figures may be slightly too good."
)


def instance_truth(summaries: Sequence[BagSummary], results: dict[str, Any]) -> list[Section]:
    """AUROC of instances where their truth was given, from counts by probability."""
    negative, positive = np.sum([s.truth for s in summaries], axis=0)
    if not (negative.sum() and positive.sum()):
        return []
    results["instance_auroc"] = auroc_of_counts(negative, positive)
    row = (results["instance_auroc"], int(positive.sum()), int(negative.sum()))
    return [
        Section(
            "How well primary instances are found",
            "Over all instances whose truth was given.",
            (),
            (Grid(("AUROC", "primary", "not primary"), [row]),),
        )
    ]
