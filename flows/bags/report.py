"""What the bags report says, from small summaries of the partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flows.bags.accuracy import (
    TestedBags,
    accuracy,
    by_label,
    counted,
    in_headline,
    instance_truth,
)
from flows.bags.example_report import Words, examples_of, listed
from flows.bags.model_report import AboutMembers, Block, coefficients
from flows.bags.summary import EXAMPLES, MOST_WRONG, BagSummary, Example
from flows.bags.tested import UNSURE
from flows.bags.tiles import count_other_side, next_steps, tiles_of
from flows.report import plots
from flows.report.baselines import with_model
from flows.report.page import Findings, Section, Tile
from vbmodels.bags.stack.model import INSTANCES, PRIMARY
from vbmodels.core.state import FloatArray, IntArray


def report(
    summaries: Sequence[BagSummary],
    blocks: Sequence[Block],
    results: dict[str, Any],
    warnings: tuple[str, ...],
    show: tuple[str, ...] = (),
    members: AboutMembers | None = None,
    positive: str | None = None,
    word: str = "1",
    column: str = "label",
) -> Findings:
    """Say what was found in all partitions: first what a reader acts on, then the model.

    ``positive`` is the label that the user calls positive, ``word`` the positive one in the files,
    ``column`` the files' column of labels.
    """
    members = members or AboutMembers()
    label = np.concatenate([s.label for s in summaries])
    probability = np.concatenate([s.probability for s in summaries])
    held_out = np.concatenate([s.held_out for s in summaries])
    group = np.concatenate([s.group for s in summaries])
    grouped = len(group) == len(label)
    if not grouped:
        group = np.arange(len(label))
    instances = sum(s.instances for s in summaries)
    results = dict(results)
    examples = [e for s in summaries for e in s.examples]
    test = TestedBags.of(summaries, label, group, held_out, probability, grouped)
    several = summaries[0].of_class is not None
    counts = int(np.sum(label == 1)), int(np.sum(label == 0))
    meant = "" if several else _meant(column, positive, word, counts)
    new = summaries[0].new
    unseen = not new and all(s.unseen for s in summaries)
    words = Words.of(
        None if several else positive, unseen, new, bool(held_out.any()),
        members.explained_by in (INSTANCES, PRIMARY),
    )  # fmt: skip
    measured = accuracy(test, results, words, several)
    useful = "auroc" in results and results.get("beats_base_rate") is not False
    wrong = _find_surest_wrong(examples) if useful and (new or unseen) else []
    sections = examples_of(examples, wrong, show, words, members, label.size)
    sections += [*members.features, *measured, *_with_model(members.baselines, results)]
    sections += instance_truth(summaries, results)
    sections += coefficients(blocks, summaries[0].modalities, summaries[0].features)
    sections += members.model
    if not several:
        results["positive"] = word
    expected = [s.expected_primary for s in summaries if s.expected_primary is not None]
    if len(expected) == len(summaries):
        results["expected_primary"], in_negative, likely = np.sum(expected, axis=0).tolist()
        results["expected_primary_in_negative"] = in_negative
        results["likely_primary"] = int(likely)
    known = ~np.isnan(np.concatenate([s.without for s in summaries]))
    results["instances"] = instances
    things = "labels" if several else "bags"
    found = _count_positive(label, probability, "labels of bags" if several else "bags", words)
    sides = words.positive, words.negative
    lines, steps = count_other_side(label, probability, known, wrong, sides)
    lines, steps = (lines, [] if several else steps) if wrong else ([], [])
    lines = [meant] * bool(meant) + lines
    if "auroc" in results and not wrong:
        lines.append(found)
    marks = "" if new else members.marks
    expected_wrong = _expect_wrong(probability) if new and not test.label.size else ""
    lines += [expected_wrong] * bool(expected_wrong)
    text = _in_short(test, results, probability, examples, things, words, lines, marks)
    sections.insert(0, Section("In short", text, measures=True))
    sections.insert(1, _spread(test, label, probability, words))
    results.update(
        bags=label.size, labelled=int(np.sum(label >= 0)), held_out=int(held_out.sum()),
    )  # fmt: skip
    headline = found
    if "auroc" in results:
        subject = "" if several else "The label" if column == "label" else column
        open_ones = _count_unsure(probability)
        headline = in_headline(test, results, things, subject, open_ones, label.size)
    elif (label >= 0).any() and not held_out.any() and not new and np.unique(group).size > 1:
        headline += "; set held_out=0.3 to see how well new bags are predicted"
    shown = "without_it" if known.any() else "probability"  # the column of the table bags
    to_label = new and not test.label.size and bool(_count_unsure(probability))
    top = [
        {"bag_id": e.bag_id, shown: round(e.probability, 4), "instances": listed(e)}
        for e in sorted(examples, key=lambda e: -e.probability)[:20]
    ]
    return Findings(
        headline, sections, results, warnings, top,
        [*tiles_of(results, test.described(things)), *_count_tiles(probability, words)],
        next_steps(probability, known, "expected_primary" in results, steps, new, to_label),
        predicted=found,
    )  # fmt: skip


def _with_model(compared: Sequence[Section], results: Mapping[str, Any]) -> list[Section]:
    """Return the comparison with simpler models, the model's own figures in the first line."""
    if "auroc" not in results:
        return [*compared]
    own = ("this model", f"{results['auroc']:.3f}", f"{results['log_loss']:.3f}", "")
    return [replace(one, grids=[with_model(grid, own) for grid in one.grids]) for one in compared]


def _count_positive(label: IntArray, probability: FloatArray, things: str, words: Words) -> str:
    """Count the bags that are probably positive, and those that are labelled so."""
    low, high = UNSURE
    if words.new and not (label >= 0).any():
        return (
            f"{np.sum(probability > high):,} of {label.size:,} {things} are probably "
            f"{words.positive} (above {high}), {np.sum(probability < low):,} probably "
            f"{words.negative} (below {low}), {_count_unsure(probability):,} uncertain"
        )
    text = f"{np.sum(probability > 0.5):,} of {label.size:,} {things} are probably {words.positive}"
    if known := int(np.sum(label >= 0)):
        of = "" if known == label.size else f" of the {known:,} with a label"
        text += f", {np.sum(label == 1):,}{of} are labelled so"
    return text


def _expect_wrong(probability: FloatArray) -> str:
    """Say how many clear bags may be otherwise, by the model itself."""
    clear = probability[(probability < UNSURE[0]) | (probability > UNSURE[1])]
    return (
        f"By these probabilities about {np.minimum(clear, 1.0 - clear).sum():,.0f} of the "
        f"{clear.size:,} clear ones are wrong"
    )


def _count_unsure(probability: FloatArray) -> int:
    return int(np.sum((probability > UNSURE[0]) & (probability < UNSURE[1])))


def _count_tiles(probability: FloatArray, words: Words) -> list[Tile]:
    """Return how many bags of a score are probably positive, and how many uncertain."""
    of, (low, high) = f"of {probability.size:,}", UNSURE
    tiles = [
        Tile(
            f"expected {words.positive}",
            f"about {probability.sum():,.0f} {of}",
            f"probabilities added up: {probability[probability > high].sum():,.1f} of the "
            f"{np.sum(probability > high):,} above {high}, "
            f"{probability[probability <= high].sum():,.1f} of the rest",
        ),
        Tile("uncertain", f"{_count_unsure(probability):,} {of}", f"probability {low} to {high}"),
    ]
    return tiles * words.new


def _find_surest_wrong(examples: Sequence[Example]) -> list[Example]:
    """Return the bags predicted otherwise than labelled, the farthest from 0.5 first."""
    apart = [e for e in examples if e.label is not None and (e.probability > 0.5) != (e.label == 1)]
    return sorted(apart, key=lambda e: (-abs(e.probability - 0.5), e.bag_id))[:MOST_WRONG]


def _order_unsure(examples: Sequence[Example]) -> list[Example]:
    """Return the uncertain bags, the nearest to 0.5 first."""
    unsure = [e for e in examples if UNSURE[0] < e.probability < UNSURE[1]]
    return sorted(unsure, key=lambda e: (abs(e.probability - 0.5), e.bag_id))


def _in_short(
    test: TestedBags, results: dict[str, Any], probability: FloatArray,
    examples: Sequence[Example], things: str, words: Words, found: Sequence[str], marks: str,
) -> str:  # fmt: skip
    """Say in a few lines what was ``found``, and what to do with it."""
    unsure = _order_unsure(examples)
    lines = [f"{one.rstrip('.')}." for one in found]
    if not test.label.size and not words.new:
        lines.append("How well new bags are predicted is not known.")
    if results.get("beats_base_rate") is False:
        lines.insert(
            0,
            "Do not act on these probabilities: they are no better than the base rate. Label more "
            "bags, or measure other features.",
        )
    number, every = _count_unsure(probability), probability.size
    line = f"{number:,} of {every:,} {things} are between {UNSURE[0]} and {UNSURE[1]}"
    if number > every / 2:
        line += (
            ": the model separates few bags. More labelled bags or other features help more than "
            "checks by eye"
        )
    elif test.label.size == every:
        line = ""
    elif unsure:
        line += ": look at these yourself"
        unlabelled = words.new and not test.label.size
        line = "Look at the uncertain ones yourself" if unlabelled else line
        line += f". Begin with the nearest to 0.5: {', '.join(e.bag_id for e in unsure[:EXAMPLES])}"
        if unlabelled:
            below = [e for e in examples if e.probability < UNSURE[0]] * (len(examples) == every)
            below = sorted(below, key=lambda e: (-e.probability, e.bag_id))[:EXAMPLES]
            if below:
                names, total = ", ".join(e.bag_id for e in below), sum(e.probability for e in below)
                line += (
                    f". If a missed {words.positive} costs most, go on with the least sure that "
                    f"are {words.negative}: {names} ({below[0].probability:.2f} to "
                    f"{below[-1].probability:.2f}, together about {total:.1f} {words.positive})"
                )
    lines += [f"{line}."] * bool(line)
    if "expected_primary" in results:
        lines.append(
            f"{results['likely_primary']:,} of {results['instances']:,} instances have P(primary) "
            f"above 0.5: they probably make their bag {words.positive}. Instances have no labels, "
            f"so this is not measured: look at some. {marks}".strip()
        )
    return "\n".join(lines)


def _meant(column: str, positive: str | None, word: str, counts: tuple[int, int]) -> str:
    """Say which label is called positive, and of how many bags it is; then of the others."""
    if not any(counts):
        return f"Positive means that {column} is {positive or 'yes, true or 1'}."
    return (
        f"Positive: {column} is {word} ({counts[0]:,} bags); other labels are negative "
        f"({counts[1]:,} bags)."
    )


def _spread(test: TestedBags, label: IntArray, probability: FloatArray, words: Words) -> Section:
    """Show the bags by their probability, and whether those with either label are set apart."""
    plot = by_label(test, label.size, words)
    if plot is None or words.new:
        title = f"Bags by P({words.positive})"
        plot = plots.split_histogram([("bags", counted(probability))], words.chance, "bags", title)
    return Section("Probabilities of the bags", plots=(plot,))
