"""The bags that the report shows one by one, each opening to its instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from flows.bags.markers import MOST_INSTANCES, MOST_MARKERS
from flows.bags.model_report import AboutMembers
from flows.bags.summary import (
    EXAMPLES,
    MOST_LISTED,
    MOST_UNSURE,
    MOST_WRONG,
    Example,
)
from flows.bags.tested import UNSURE
from flows.report.page import Grid, Section
from vbmodels.bags.stack.model import POOLED
from vbmodels.core.levels import YES


@dataclass(frozen=True)
class Words:
    """How the report calls the two labels: as the files write the positive one."""

    positive: str
    negative: str
    unseen: bool = False
    new: bool = False
    held_out: bool = False
    by_instance: bool = False

    @classmethod
    def of(
        cls, positive: str | None, unseen: bool = False, new: bool = False, held_out: bool = False,
        by_instance: bool = False,
    ) -> Words:  # fmt: skip
        """Return the words for a ``positive`` label, by default 1 and 0.

        ``unseen``: every bag of a fit is predicted without its own label; ``new``: the posterior
        comes from other bags; ``held_out``: labels of some bags are held out of the fit;
        ``by_instance``: what features add is to their instance's score.
        """
        of_bags = unseen, new, held_out, by_instance
        if positive is None or positive.lower() in YES:
            return cls("positive", "negative", *of_bags)
        return cls(positive, f"not {positive}", *of_bags)

    @property
    def chance(self) -> str:
        """What a bag's probability is called in tables and charts."""
        return f"P({self.positive})" + " without its label" * self.unseen

    @property
    def about_primary(self) -> str:
        """Say what an instance's probability is, and which labels it knows."""
        text = f"P(primary), in brackets: that this instance makes its bag {self.positive}"
        if self.new:
            text += (
                f". P({self.positive}) is usually above the foremost instance's P(primary), as "
                "any may be the one; it can be below, as it is a mean of several models"
            )
            return f"{text if self.by_instance else text.partition('. ')[0]}."
        labels = "the labels of all bags but those held out" if self.held_out else "all labels"
        text += f", from the fit to {labels}"
        if self.unseen:
            text += f": it need not agree with P({self.positive})"
        return f"{text}."

    def label(self, example: Example) -> str:
        """Write a bag's label."""
        if example.label is None:
            return "not known"
        said = self.positive if example.label else self.negative
        return f"{said}{' (held out)' * example.held_out}"


def examples_of(
    examples: Sequence[Example], wrong: Sequence[Example], show: tuple[str, ...], words: Words,
    members: AboutMembers, count: int,
) -> list[Section]:  # fmt: skip
    """Show the surest and least sure bags over all partitions, and some instance by instance.

    Of a score each of all ``count`` bags is shown if there are few.
    """
    pooled_counts = members.pooled_counts
    explained = "its bag's score" if members.explained_by == POOLED else "the instance's score"
    ordered = sorted(examples, key=lambda e: (-e.probability, e.bag_id))
    unsure = sorted(examples, key=lambda e: (abs(e.probability - 0.5), e.bag_id))[:MOST_UNSURE]
    unsure = [e for e in unsure if UNSURE[0] < e.probability < UNSURE[1]]
    requested = [e for name in show for e in examples if e.bag_id == name]
    lines = []
    if words.unseen and not words.new:
        lines.append(
            f"P({words.positive}): that a bag is {words.positive}, predicted without its own label."
        )
    chances = any(i[2] is not None for e in examples for i in e.instances)
    if chances:
        lines.append(words.about_primary)
    else:
        lines.append("After an instance is what it adds to its bag's score.")
    if any(i[3] is not None for e in examples for i in e.instances) and pooled_counts:
        lines.append(
            "What an instance adds is to the mean of its bag's score, which is above 0 for "
            f"{words.positive} and below 0 for {words.negative}."
        )
    if any(e.markers for e in examples):
        lines.append(
            f"Open a bag for its first instances (at most {MOST_INSTANCES}), each with the "
            f"{MOST_MARKERS} features that move {explained} most, up (+) or down (-), and their "
            "values in brackets; "
            + ("rest: all else. The numbers add up to a score: P(primary) is 0.16 at -1, 0.5 "
               "at 0, 0.84 at +1."
               if words.by_instance
               else "what all other features add, and the start, is not shown.")
        )  # fmt: skip
    detail = []
    if requested:
        opened = [grid for e in requested for grid in _opened(e, words, pooled_counts).grids]
        detail.append(Section("Requested bags", "", (), opened))
    sorts: tuple[tuple[str, Sequence[Example]], ...] = (
        (f"Most probably {words.positive}", ordered[:EXAMPLES]),
        (f"Most probably {words.negative}", ordered[::-1][:EXAMPLES]),
        (
            f"Uncertain ({len(unsure):,}, between {UNSURE[0]} and {UNSURE[1]}), the nearest to 0.5 "
            "first" + " (there are more)" * (len(unsure) == MOST_UNSURE),
            unsure,
        ),
        (
            f"The {MOST_WRONG} surest"
            if len(wrong) == MOST_WRONG
            else f"{len(wrong):,} bags, the surest predictions first",
            wrong,
        ),
    )
    title = "Most and least certain bags"
    if words.new and len(ordered) == count <= MOST_LISTED:
        rest = [e for e in ordered if e not in unsure]
        sides = ([e for e in rest if (e.probability > 0.5) is up] for up in (True, False))
        each = [
            (f"Probably {word} ({len(some):,}), the {first} first", some)
            for word, first, some in zip(
                (words.positive, words.negative),
                ("most probable", "least sure"),
                sides,
                strict=True,
            )
        ]
        title, sorts = "All bags", (sorts[-2], *each, sorts[-1])
    columns: tuple[str, ...] = ("bag", f"P({words.positive})", "instances", "label")
    columns = columns[: None if any(e.label is not None for e in ordered) else -1]
    *grids, apart = [
        Grid(
            columns,
            [_row(e, words)[: len(columns)] for e in some],
            name,
            [_opened(e, words, pooled_counts) for e in some],
        )
        for name, some in sorts
        if some or name == sorts[-1][0]
    ]
    text, heading = "\n".join(lines), "Bags predicted otherwise than labelled"
    if not wrong or words.new:  # of rows that the fit has read a score leaves them out
        otherwise = [Section(heading, "", (), (apart,), measures=True)] if wrong else []
        return [*detail, Section(title, text, (), grids), *otherwise] if ordered else detail
    otherwise = [Section(heading, text, (), (apart,), measures=True)]
    return [*otherwise, *detail, Section(title, "", (), grids)]


def _opened(example: Example, words: Words, pooled_counts: bool) -> Section:
    """Return what opens below a bag: its instances."""
    return Section("", "", (), (_in_detail(example, words, pooled_counts),))


def _row(example: Example, words: Words) -> tuple[str, ...]:
    return example.bag_id, _chance(example.probability), listed(example), words.label(example)


def listed(example: Example) -> str:
    """Name the first instances of a bag, with their modality where there are several."""
    return ", ".join(
        f"{m} {name} ({figure_of(p, adds)})".strip()
        for name, m, p, adds, _ in example.instances[:3]
    )


def figure_of(probability: float | None, adds: float | None) -> str:
    """Write an instance's probability, or what it adds where it has none."""
    if probability is None:
        return f"{adds or 0.0:+.2f}"
    ends = {"0.00": "< 0.01", "1.00": "> 0.99"}
    return ends.get(f"{probability:.2f}", f"{probability:.2f}")


def _in_detail(example: Example, words: Words, pooled_counts: bool) -> Grid:
    """Return one bag's instances; what the model does not give has no column."""
    with_modality = any(modality for _, modality, *_ in example.instances)
    with_contribution = pooled_counts and any(i[3] is not None for i in example.instances)
    with_chance = any(i[2] is not None for i in example.instances)
    with_markers = bool(example.markers)
    columns = ["instance"] + ["modality"] * with_modality + ["P(primary)"] * with_chance
    rows = []
    for name, modality, p, contribution, _ in example.instances:
        chance = "" if p is None else _chance(p)
        row = [name] + [modality] * with_modality + [chance] * with_chance
        adds = "" if contribution is None else f"{contribution:+.2f}"
        own = example.markers.get((name, modality), ())
        markers = ", ".join(f"{feature} {adds:+.2f} ({value:.3g})" for feature, value, adds in own)
        if own and words.by_instance and p is not None:
            rest = ndtri(np.clip(p, 1e-9, 1.0 - 1e-9)) - sum(adds for *_, adds in own)
            markers += f"; rest {rest:+.2f}"
        rows.append(row + [adds] * with_contribution + [markers] * with_markers)
    chance = _chance(example.probability)
    caption = f"{example.bag_id}: {words.chance} {chance if chance[0] in '<>' else f'= {chance}'}"
    if example.size > len(example.instances):
        caption += f" (the {len(example.instances)} foremost of {example.size:,} instances)"
    if example.label is not None:
        caption += f", label {words.label(example)}"
    columns += ["adds"] * with_contribution + ["features that move the score most"] * with_markers
    return Grid(columns, rows, caption)


def _chance(probability: float) -> str:
    """Write a probability in three digits; what is nearer to 0 or 1 is said to be."""
    if probability < 0.001:
        return "< 0.001"
    return f"{probability:.3f}" if probability <= 0.999 else "> 0.999"
