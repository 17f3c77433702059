"""What the bags report says, from small summaries of the partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.bags import stacked
from flows.bags.markers import explained_by
from flows.bags.summary import EXAMPLES, MOST_INFORMATIVE, BagSummary, Example
from flows.bags.tables import block_named
from flows.bags.tested import Which, in_words, which_bags
from flows.bags.tiles import UNSURE, count_other_side, next_steps, tiles_of
from flows.report import plots
from flows.report.auroc import auroc, auroc_interval, auroc_of_counts
from flows.report.baselines import mean_error, shown
from flows.report.page import Findings, Grid, Section, Tile
from vbmodels.bags.multilabel import FOLDS
from vbmodels.bags.stack.model import BASE, INSTANCES, POOLED, PRIMARY
from vbmodels.core.levels import YES
from vbmodels.core.state import FloatArray, IntArray

MOST_FEATURES = 16  # shown of a block of coefficients
FEWEST_MARKED = 5  # instances below which what a feature adds to them is not shown
MOST_REASONS = 8  # shown of what adds to a bag's score
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Block:
    """The posterior of one block of coefficients; see `flows.bags.models`."""

    name: str
    modality: int | None
    mean: FloatArray
    sd: FloatArray
    of_class: str | None = None


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
    words = Words.of(None if several else positive, unseen, new, bool(held_out.any()))
    sections = _accuracy(test, results, meant, words, several)
    sections += members.baselines
    useful = "auroc" in results and results.get("beats_base_rate") is not False
    wrong = _find_surest_wrong(examples) if useful and (new or unseen) else []
    sections += _examples(examples, wrong, show, words, members)
    sections.append(_spread(probability, "" if "auroc" in results else meant, words))
    sections += _most_informative([e for s in summaries for e in s.informative], words)
    sections += _instance_truth(summaries, results)
    sections += _coefficients(blocks, summaries[0].modalities, summaries[0].features)
    sections += members.model
    if not several:
        results["positive"] = word
    expected = [s.expected_primary for s in summaries if s.expected_primary is not None]
    if len(expected) == len(summaries):
        results["expected_primary"] = sum(expected)
    unsure = [e for e in examples if UNSURE[0] < e.probability < UNSURE[1]]
    known = ~np.isnan(np.concatenate([s.without for s in summaries]))
    results["instances"] = instances
    things = "labels" if several else "bags"
    found = _count_positive(label, probability, "labels of bags" if several else "bags", words)
    clear = [e.bag_id for e in wrong if not UNSURE[0] <= e.probability <= UNSURE[1]]
    sides = words.positive, words.negative
    line, steps = count_other_side(label, probability, known, clear, sides, things)
    lines, steps = ([found, line], [] if several else steps) if wrong else ([found], [])
    text = _in_short(test, results, probability, unsure, things, words, lines)
    sections.insert(0, Section("In short", text, measures=True))
    results.update(
        bags=label.size, labelled=int(np.sum(label >= 0)), held_out=int(held_out.sum()),
    )  # fmt: skip
    headline = found
    if "auroc" in results:
        subject = "" if several else "The label" if column == "label" else column
        unsure_of = f"{_count_unsure(probability):,} of {label.size:,} {things} are uncertain"
        unsure_of += f" (probability {UNSURE[0]} to {UNSURE[1]})"
        headline = f"{_success(test, results, things, subject)}. {unsure_of}"
    elif (label >= 0).any() and not held_out.any() and not new:
        headline += "; set held_out=0.3 to see how well new bags are predicted"
    top = [
        {"bag_id": e.bag_id, "probability": round(e.probability, 4), "instances": _listed(e)}
        for e in sorted(examples, key=lambda e: -e.probability)[:20]
    ]
    return Findings(
        headline, sections, results, warnings, top,
        [*tiles_of(results, test.described(things)), *_count_tiles(probability, words)],
        next_steps(probability, known, "expected_primary" in results, steps),
        predicted=found,
    )  # fmt: skip


def _count_positive(label: IntArray, probability: FloatArray, things: str, words: Words) -> str:
    """Count the bags that are probably positive, and those that are labelled so."""
    text = f"{np.sum(probability > 0.5):,} of {label.size:,} {things} are probably {words.positive}"
    if known := int(np.sum(label >= 0)):
        of = "" if known == label.size else f" of the {known:,} with a label"
        text += f", {np.sum(label == 1):,}{of} are labelled so"
    return text


def _count_unsure(probability: FloatArray) -> int:
    return int(np.sum((probability > UNSURE[0]) & (probability < UNSURE[1])))


def _count_tiles(probability: FloatArray, words: Words) -> list[Tile]:
    """Return how many bags of a score are probably positive, and how many uncertain."""
    of, (low, high) = f"of {probability.size:,}", UNSURE
    tiles = [
        Tile(f"P({words.positive}) above 0.5", f"{np.sum(probability > 0.5):,} {of}"),
        Tile("uncertain", f"{_count_unsure(probability):,} {of}", f"probability {low} to {high}"),
    ]
    return tiles * words.new


def _find_surest_wrong(examples: Sequence[Example]) -> list[Example]:
    """Return the bags predicted otherwise than labelled, the farthest from 0.5 first."""
    apart = [e for e in examples if e.label is not None and (e.probability > 0.5) != (e.label == 1)]
    return sorted(apart, key=lambda e: (-abs(e.probability - 0.5), e.bag_id))[:EXAMPLES]


def _in_short(
    test: TestedBags, results: dict[str, Any], probability: FloatArray,
    unsure: Sequence[Example], things: str, words: Words, found: Sequence[str],
) -> str:  # fmt: skip
    """Say in a few lines what was ``found``, and what to do with it."""
    lines = [f"{one}." for one in found]
    if not test.label.size and not words.new:
        lines.append("How well new bags are predicted is not known: --set held_out=0.3 tests it.")
    if results.get("beats_base_rate") is False:
        lines.insert(
            0,
            "Do not act on these probabilities: they are no better than the base rate. Label more "
            "bags, or measure other features.",
        )
    low, high = UNSURE
    number = _count_unsure(probability)
    line = (
        f"{number:,} of {probability.size:,} {things} have a probability between {low} and {high}"
    )
    if number > probability.size / 2:
        line += (
            ": the model separates few bags. More labelled bags or other features help more than "
            "checks by eye"
        )
    elif unsure:
        ordered = sorted(unsure, key=lambda e: (abs(e.probability - 0.5), e.bag_id))
        line += f"; check these by eye first: {', '.join(e.bag_id for e in ordered[:EXAMPLES])}"
        line += f" and {number - EXAMPLES:,} more" if number > EXAMPLES else ""
    lines.append(f"{line}.")
    if "expected_primary" in results:
        lines.append(
            f"About {results['expected_primary']:,.0f} of {results['instances']:,} instances make "
            f"their bags {words.positive} (the sum of P(primary)). Within a bag, look at the most "
            "probable first."
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class Words:
    """How the report calls the two labels: as the files write the positive one."""

    positive: str
    negative: str
    unseen: bool = False
    new: bool = False
    held_out: bool = False

    @classmethod
    def of(
        cls, positive: str | None, unseen: bool = False, new: bool = False, held_out: bool = False
    ) -> Words:
        """Return the words for a ``positive`` label, by default 1 and 0.

        ``unseen``: every bag of a fit is predicted without its own label; ``new``: the posterior
        comes from other bags; ``held_out``: labels of some bags are held out of the fit.
        """
        of_bags = unseen, new, held_out
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
        text = "P(primary), in brackets after an instance: the probability that its features make "
        text += f"a bag {self.positive}. It comes from the fit "
        labels = "the labels of all bags but those held out" if self.held_out else "all labels"
        text += "that is applied" if self.new else f"to {labels}"
        if self.unseen and not self.new:
            text += f", P({self.positive}) from fits without this bag's: so P(primary) can be the "
            text += "larger"
        return f"{text}. It can be above 0 in a bag labelled {self.negative}."

    def label(self, example: Example) -> str:
        """Write a bag's label."""
        if example.label is None:
            return "not known"
        said = self.positive if example.label else self.negative
        return f"{said}{' (held out)' * example.held_out}"


@dataclass(frozen=True)
class TestedBags:
    """Bags whose labels the fit did not see when it predicted them, with both labels among them.

    ``base`` is the share of positive bags among the fitted ones, [n], NaN where it is not known;
    ``grouped``: whether bags have groups. There are none where every labelled bag was fitted and no
    model predicts it without itself.
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
        if np.unique(label[tested]).size < 2:
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


def _success(test: TestedBags, results: dict[str, Any], things: str, subject: str) -> str:
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
    whole, _, how = where.partition(", each predicted ")
    right_of = f"{right:,} of {whole} ({own})"
    text = (
        f"{subject} is predicted right for {right_of}"
        if subject
        else f"{right_of} are predicted right"
    )
    text += f", each {how}" * bool(how)
    return f"{text}, against {other} by the more frequent label; {area}"


def _listed(example: Example) -> str:
    """Name the first instances of a bag, with their modality where there are several."""
    return ", ".join(
        f"{m} {name} ({_figure(p, adds)})".strip() for name, m, p, adds, _ in example.instances[:3]
    )


def _figure(probability: float | None, adds: float | None) -> str:
    """Write an instance's probability, or what it adds where it has none."""
    if probability is None:
        return f"{adds or 0.0:+.2f}"
    ends = {"0.00": "< 0.01", "1.00": "> 0.99"}
    return ends.get(f"{probability:.2f}", f"{probability:.2f}")


def _examples(
    examples: Sequence[Example], wrong: Sequence[Example], show: tuple[str, ...], words: Words,
    members: AboutMembers,
) -> list[Section]:  # fmt: skip
    """Show the surest and least sure bags over all partitions, and some instance by instance."""
    pooled_counts = members.pooled_counts
    explained = "its bag's score" if members.explained_by == POOLED else "the instance's score"
    ordered = sorted(examples, key=lambda e: (-e.probability, e.bag_id))
    unsure = sorted(examples, key=lambda e: (abs(e.probability - 0.5), e.bag_id))[:EXAMPLES]
    requested = [e for name in show for e in examples if e.bag_id == name]
    lines = []
    if words.unseen and not words.new:
        lines.append(
            f"P({words.positive}) does not know a bag's own label: of fitted bags it is the column "
            "without_it of the table bags."
        )
    chances = any(i[2] is not None for e in examples for i in e.instances)
    if chances:
        lines.append(words.about_primary)
    else:
        lines.append("After an instance is what it adds to its bag's score.")
    if any(i[3] is not None for e in examples for i in e.instances) and pooled_counts:
        lines.append(
            "What an instance adds is to the mean of its bag's probit score, which is above 0 for "
            f"{words.positive} and below 0 for {words.negative}."
        )
    if any(e.markers for e in examples):
        lines.append(
            f"A bag opens to its instances and the features that move {explained} most, up (+) or "
            "down (-), with the feature's value in brackets."
        )
    detail = []
    if requested:
        opened = [grid for e in requested for grid in _opened(e, words, pooled_counts).grids]
        detail.append(Section("Requested bags", "", (), opened))
    sorts = (
        (f"Most probably {words.positive}", ordered[:EXAMPLES]),
        (f"Most probably {words.negative}", ordered[::-1][:EXAMPLES]),
        ("Least sure", unsure),
        ("The surest first", wrong),
    )
    columns = ("bag", f"P({words.positive})", "label", "instances")
    *grids, apart = [
        Grid(
            columns,
            [_row(e, words) for e in some],
            name,
            [_opened(e, words, pooled_counts) for e in some],
        )
        for name, some in sorts
    ]
    sections = [
        Section("Most and least certain bags", "\n".join(lines), (), grids),
        Section("Bags predicted otherwise than labelled", "", (), (apart,), measures=True),
    ]
    return [*sections[: 2 if wrong else 1], *detail] if ordered else detail


def _opened(example: Example, words: Words, pooled_counts: bool) -> Section:
    """Return what opens below a bag: its instances, and what adds to its score."""
    why = _why(example, words) if pooled_counts else []
    return Section("", "", (), (_in_detail(example, words, pooled_counts), *why))


def _why(example: Example, words: Words) -> list[Grid]:
    """Return what adds to a bag's score, block by block, the largest first."""
    if not example.reasons:
        return []
    rest = sum(adds for _, adds in example.reasons[MOST_REASONS:])
    rows = [(name, f"{adds:+.2f}") for name, adds in example.reasons[:MOST_REASONS]]
    rows.append(("all others", f"{rest:+.2f}"))
    total = sum(adds for _, adds in example.reasons)
    fitted = example.label is not None and not (words.new or words.held_out)
    score = "score, with the bag's label in the fit" if fitted else "score"
    rows.append((score, f"{total:+.2f}"))
    return [Grid(("block", "adds"), rows, f"{example.bag_id}: what adds to its score")]


def _row(example: Example, words: Words) -> tuple[str, ...]:
    return example.bag_id, _chance(example.probability), words.label(example), _listed(example)


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
        markers = ", ".join(
            f"{feature} {adds:+.2f} ({value:.3g})"
            for feature, value, adds in example.markers.get((name, modality), ())
        )
        rows.append(row + [adds] * with_contribution + [markers] * with_markers)
    chance = _chance(example.probability)
    caption = f"{example.bag_id}: {words.chance} {chance if chance[0] in '<>' else f'= {chance}'}"
    if example.label is not None:
        caption += f", label {words.label(example)}"
    columns += ["adds"] * with_contribution + ["features that move the score most"] * with_markers
    return Grid(columns, rows, caption)


def _chance(probability: float) -> str:
    """Write a probability in three digits; what is nearer to 0 or 1 is said to be."""
    if probability < 0.001:
        return "< 0.001"
    return f"{probability:.3f}" if probability <= 0.999 else "> 0.999"


def _most_informative(informative: Sequence[Example], words: Words) -> list[Section]:
    """Show the bags whose labels would inform the model most, the most informative first."""
    chosen = sorted(informative, key=lambda e: (-(e.bald or 0.0), e.bag_id))[:MOST_INFORMATIVE]
    if not chosen:
        return []
    rows = []
    for e in chosen:
        best = max(e.instances, key=lambda i: i[4] or 0.0, default=None)
        known = best is not None and best[4] is not None
        own = ("", "", "")
        if best and known:
            own = (best[0], _chance(best[2] or 0.0), f"{best[4]:.3f}")
        rows.append((e.bag_id, _chance(e.probability), f"{e.bald or 0.0:.3f}", *own))
    columns = (
        "bag", f"P({words.positive})", "information of its label (nats)", "instance", "P(primary)",
        "information of the instance's label (nats)",
    )  # fmt: skip
    text = (
        "Bags whose label the fit has not seen, by how much the model would learn from it (in "
        "nats), each with the most informative of its probable instances."
    )
    return [
        Section("Bags whose labels would inform the model most", text, (), (Grid(columns, rows),))
    ]


def _coefficients(
    blocks: Sequence[Block], modalities: Sequence[str], features: Sequence[str]
) -> list[Section]:
    texts = {
        "bag feature": ("What the bags' own features add", "probit score per sd"),
        "primary": ("What makes an instance primary", "probit score per sd"),
        "contribution": ("What a primary instance adds to its bag", "probit score per sd"),
        "linear": ("What makes an instance positive", "latent score per unit"),
    }
    sections: list[Section] = []
    for name, (title, axis) in texts.items():
        shown = [b for b in blocks if b.name == name and b.mean.size]
        figures = []
        for block in shown:
            order = np.argsort(-np.abs(block.mean) / np.maximum(block.sd, 1e-12), kind="stable")
            order = order[:MOST_FEATURES]
            of = "" if block.modality is None else modalities[block.modality]
            named = block.modality is not None and len(features) == block.mean.size
            labels = [
                features[i] if named else f"{i + 1}" if of else f"feature {i + 1}" for i in order
            ]
            labels = [f"{of} {one}".strip() for one in labels]
            of = "" if block.of_class is None else f", class {block.of_class}"
            mean, sd = block.mean[order].tolist(), block.sd[order].tolist()
            figures.append(plots.intervals(labels, mean, sd, axis + of, title + of))
        if figures:
            text = (
                "Coefficients on standardised features with 95 % intervals, the most certain "
                f"first (at most {MOST_FEATURES} of each modality). "
            )
            text = "" if sections else text
            if not any(np.any(np.abs(b.mean) > 1.96 * b.sd) for b in shown):
                text += "No feature by itself differs from zero here: their sum separates bags."
            sections.append(Section(title, text, figures, needs_fit=True))
    return sections


def _accuracy(
    test: TestedBags, results: dict[str, Any], meant: str, words: Words, several: bool
) -> list[Section]:
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
    )
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
    things = "labels" if several else "bags"
    lines = [meant, plots.calibration_verdict(predicted, observed, number, things)]
    if test.which == "new":
        lines.append("These figures hold if the fit has seen none of these bags.")
    if test.which == "without":
        together = " that keep groups together" * test.grouped
        how = "its group's fold" if test.grouped else "its label alone, by an approximation"
        every = f"{test.label.size:,} {'labels' if several else 'labelled bags'}"
        lines.append(WITHOUT.format(every, together, how))
        lines.append(
            "Not compared with boosted trees, which need bags held out of the fit: to compare, "
            "run again with --set held_out=0.2."
        )
    return [
        Section(
            "How well the labels are predicted",
            "\n".join(filter(None, lines)),
            (plots.calibration(predicted, observed, number, "Calibration"),),
            grids,
            measures=True,
        )
    ]


WITHOUT = (
    f"Each of the {{}} was held out once, in {FOLDS} folds{{}}: the models of instances that "
    "predict it were fitted to the other folds (pooled features leave out {}). Only the weights "
    "of the models and the variances of the prior have seen its label."
)


def _instance_truth(summaries: Sequence[BagSummary], results: dict[str, Any]) -> list[Section]:
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


def _meant(column: str, positive: str | None, word: str, counts: tuple[int, int]) -> str:
    """Say which label is called positive, and of how many bags it is; then of the others."""
    if not any(counts):
        return f"Positive: {column} is {positive or 'yes, true or 1'}; all else is negative."
    return (
        f"Positive: {column} is {word} ({counts[0]:,} bags); other labels are negative "
        f"({counts[1]:,} bags)."
    )


def _spread(probability: FloatArray, text: str, words: Words) -> Section:
    plot = plots.histogram(probability, words.chance, "bags", f"Bags by P({words.positive})")
    return Section("Probabilities of the bags", text, (plot,))


MOST_BLOCKS = 12


@dataclass(frozen=True)
class AboutMembers:
    """Sections on simple baselines and on the model, and warnings.

    ``pooled_counts``: whether pooled features have a weight at which they are worth showing;
    ``explained_by``: the member by which features of instances are ranked.
    """

    baselines: Sequence[Section] = ()
    model: Sequence[Section] = ()
    warnings: tuple[str, ...] = ()
    pooled_counts: bool = True
    explained_by: str = POOLED


def about_members(q: Any, summaries: Sequence[BagSummary], results: dict[str, Any]) -> AboutMembers:
    """Return what is said of baselines and members; figures go into ``results``."""
    baselines = [baseline for one in summaries for baseline in one.baselines]
    compared, warnings = shown(baselines, results, "bags")
    weights = stacked.weights_of(q)
    pooled_counts = stacked.pooled_counts(q)
    modalities, features = summaries[0].modalities, summaries[0].features
    sections = []
    if pooled_counts:
        blocks = [(block_named(name, modalities), v) for name, v in stacked.blocks_of(q)]
        sections += feature_section(stacked.markers_of(q), modalities, features)
        sections += block_section(blocks)
    sections = [*_weights(weights, results), *sections]
    if explained_by(q) != POOLED:
        sections = [*_marks(summaries), *sections]
    warnings = (*warnings, *stacked.warnings_of(q))
    return AboutMembers(compared, sections, warnings, pooled_counts, explained_by(q))


def _weights(weights: dict[str, float], results: dict[str, Any]) -> list[Section]:
    if not weights:
        return []
    results["weights"] = weights
    text = (
        "A bag's probability is the weighted mean of what these models predict, weighted by how "
        "well they predict labels that they have not seen."
    )
    if set(weights) & {INSTANCES, PRIMARY}:
        text += (
            " A large weight of an instance-level model means that single instances explain the "
            "labels; P(primary) is of the one with the largest weight."
        )
    if weights.get(POOLED, 1.0) < stacked.LEAST:
        text += (
            f" Pooled features have a weight below {stacked.LEAST}, so what they add is not shown."
        )
    rows = [(name, _MEMBERS[name], f"{value:.3f}") for name, value in weights.items()]
    return [
        Section(
            "The models and their weights",
            text,
            (),
            (Grid(("model", "what it is", "weight (0 to 1)"), rows),),
            needs_fit=True,
        )
    ]


_MEMBERS = {
    POOLED: "means, extremes and kernels of a bag's instances, in one regression",
    INSTANCES: "a Gaussian process: a bag is positive if one of its instances is",
    PRIMARY: "two regressions: which instances count, and what each adds (vMMIC)",
    BASE: "the share of positive bags",
}


def feature_section(
    found: Sequence[dict[str, FloatArray]],
    modalities: Sequence[str],
    features: Sequence[str],
    to: str = "score (probit)",
    decimals: int = 2,
) -> list[Section]:
    """Rank features by what their pools add to a bag's score, with the pools as detail."""
    ranked = []
    for k, weights in enumerate(found):
        if not weights:
            continue
        of = modalities[k]
        together = np.abs(np.array(list(weights.values()))).sum(axis=0)
        for d in np.argsort(-together, kind="stable")[:MOST_FEATURES].tolist():
            name = features[d] if len(features) == together.size else f"feature {d + 1}"
            pools = sorted(weights, key=lambda pool: -abs(weights[pool][d]))
            detail = ", ".join(f"{_POOLS[pool]} {weights[pool][d]:+.{decimals}f}" for pool in pools)
            ranked.append((float(together[d]), f"{of} {name}".strip(), detail))
    ranked = sorted(ranked, key=lambda one: -one[0])[:MOST_FEATURES]
    if not ranked:
        return []
    text = (
        f"What a standard deviation of each feature's summaries in a bag adds to the bag's {to}, "
        "and the sum of their sizes. What kernels of all features together add is not in here."
    )
    rows = [(name, f"{total:.{decimals}f}", detail) for total, name, detail in ranked]
    grid = Grid(("feature", "adds together", "summary of the bag"), rows)
    return [Section("Most informative features", text, (), (grid,), needs_fit=True)]


def _marks(summaries: Sequence[BagSummary]) -> list[Section]:
    """Rank features by how many probably primary instances they are foremost in."""
    total: dict[str, FloatArray] = {}
    for one in summaries:
        for name, sums in one.marks.items():
            total[name] = total.get(name, np.zeros(3)) + sums
    if not total:
        return []
    marked = {name: sums for name, sums in total.items() if sums[0] >= FEWEST_MARKED}
    ordered = sorted(marked.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_FEATURES]
    if not ordered:
        return []
    rows = [
        (name, int(count), f"{adds / count:+.2f}", f"{value / count:.3g}")
        for name, (count, adds, value) in ordered
    ]
    text = (
        "Of the instances with P(primary) above 0.5 (at most eight of a bag): in how many the "
        "feature is one of the three strongest; then, as means over these, what it adds to their "
        f"probit score and its value. Features of fewer than {FEWEST_MARKED} are left out. What it "
        "adds is against the average instance: a feature may add by being low."
    )
    columns = ("feature", "instances", "adds (probit)", "mean value")
    grid = Grid(columns, rows)
    return [Section("Features of primary instances", text, (), (grid,), needs_fit=True)]


_POOLS = {"mean": "mean", "max": "maximum", "min": "minimum", "sd": "spread", "words": "mean"}


def block_section(
    blocks: Sequence[tuple[str, float]], of: str = "of a bag's probit score"
) -> list[Section]:
    """Rank the blocks by their variances; ``of`` says of what these are."""
    if not blocks:
        return []
    ordered = sorted(blocks, key=lambda one: -one[1])
    rows = [(name, f"{value:.3g}") for name, value in ordered[:MOST_BLOCKS]]
    if len(ordered) > MOST_BLOCKS:
        rest = sum(value for _, value in ordered[MOST_BLOCKS:])
        rows.append((f"{len(ordered) - MOST_BLOCKS} others together", f"{rest:.3g}"))
    text = (
        f"The variance that each block of features may give, {of}, by the evidence. "
        "Blocks that say the same share it, and a small one has shrunk rather than vanished."
    )
    if len(ordered) > 1 and ordered[0][1] == ordered[-1][1]:
        text += " Here the labels say nothing of the blocks: all stay where the search begins."
    grid = Grid(("block", "variance"), rows)
    return [Section("Which blocks separate bags", text, (), (grid,), needs_fit=True)]
