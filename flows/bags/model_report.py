"""What the bags report says of the model: its members, blocks, features and coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.bags import stacked
from flows.bags.markers import explained_by
from flows.bags.summary import BagSummary
from flows.report import plots
from flows.report.baselines import shown
from flows.report.page import Grid, Section
from vbmodels.bags.stack.model import BASE, INSTANCES, POOLED, PRIMARY
from vbmodels.core.state import FloatArray

MOST_FEATURES = 16  # shown of a block of coefficients
FEWEST_MARKED = 5  # instances below which what a feature adds to them is not shown


@dataclass(frozen=True)
class Block:
    """The posterior of one block of coefficients; see `flows.bags.models`."""

    name: str
    modality: int | None
    mean: FloatArray
    sd: FloatArray
    of_class: str | None = None


@dataclass(frozen=True)
class AboutMembers:
    """Sections on simple baselines and on the model, and warnings.

    ``features``: what single features do; ``marks``: that in a sentence. ``pooled_counts``: whether
    pooled features have a weight at which they are worth showing; ``explained_by``: the member by
    which features of instances are ranked.
    """

    baselines: Sequence[Section] = ()
    features: Sequence[Section] = ()
    marks: str = ""
    model: Sequence[Section] = ()
    warnings: tuple[str, ...] = ()
    pooled_counts: bool = True
    explained_by: str = POOLED


def about_members(q: Any, summaries: Sequence[BagSummary], results: dict[str, Any]) -> AboutMembers:
    """Return what is said of baselines and members; figures go into ``results``."""
    baselines = [baseline for one in summaries for baseline in one.baselines]
    in_folds = not any(one.held_out.any() for one in summaries)
    compared, warnings = shown(baselines, results, "bags", in_folds)
    weights = stacked.weights_of(q)
    pooled_counts = stacked.pooled_counts(q)
    modalities, features = summaries[0].modalities, summaries[0].features
    about, marks, sections = [], "", _weights(weights, results)
    if pooled_counts:
        about = feature_section(stacked.markers_of(q), modalities, features)
    if explained_by(q) != POOLED:
        first, marks = _marks(summaries)
        about = [*first, *about]
    warnings = (*warnings, *stacked.warnings_of(q))
    return AboutMembers(compared, about, marks, sections, warnings, pooled_counts, explained_by(q))


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
    to: str = "score",
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
    title, names = "Most informative features", [name for _, name, _ in ranked]
    chart = plots.bars(names, [total for total, *_ in ranked], f"{to}, together", title, "The sum.")
    return [Section(title, text, (chart,), (grid,), needs_fit=True)]


def _marks(summaries: Sequence[BagSummary]) -> tuple[list[Section], str]:
    """Rank features by how many probably primary instances they are foremost in; name the first."""
    total: dict[str, FloatArray] = {}
    for one in summaries:
        for name, found in one.marks.items():
            total[name] = total.get(name, np.zeros(2)) + found
    marked = {name: found for name, found in total.items() if found[0] >= FEWEST_MARKED}
    of = sum(one.marked for one in summaries)
    ordered = sorted(marked.items(), key=lambda item: (*-item[1], item[0]))[:MOST_FEATURES]
    sums = [one.sums for one in summaries if one.sums is not None]
    if not ordered or not sums:
        return [], ""
    means: dict[str, FloatArray] = {}
    for modality in sums[0]:
        number = np.sum([one[modality] for one in sums], axis=0)
        each = (number[:, :-1] / np.maximum(number[:, -1:], 1.0)).T
        names = summaries[0].features or tuple(map(str, range(1, len(each) + 1)))
        means |= {f"{modality} {n}".strip(): m for n, m in zip(names, each, strict=True)}
    rows = [
        (name, f"{count:,.0f}", f"{adds / count:+.2f}", *(f"{mean:.3g}" for mean in means[name]))
        for name, (count, adds) in ordered
    ]  # fmt: skip
    text = (
        f"For each feature: in how many of the {of:,} primary instances (P(primary) above 0.5) it "
        "is one of the three that move their score most, and what it adds there, against the "
        f"average instance. Features in fewer than {FEWEST_MARKED} are left out. Of the "
        "score: P(primary) is 0.16 at -1, 0.5 at 0, 0.84 at +1."
    )
    columns = (
        "feature", "among the three strongest", "adds to the score", "mean in primary", "in others",
    )  # fmt: skip
    title = "Features of primary instances"
    most = max(adds / count for _, (count, adds) in ordered)
    named = [name for name, (count, adds) in ordered[:3] if adds / count > 0.1 * most]
    first = [
        f"{'low' if here < there else 'high'} {name}"
        for name, (here, there) in ((name, means[name]) for name in named)
    ]
    marks = f"What marks these most often: {', '.join(first)}." if first else ""
    return [Section(title, text, (), (Grid(columns, rows),), needs_fit=True)], marks


_POOLS = {"mean": "mean", "max": "maximum", "min": "minimum", "sd": "spread", "words": "mean"}


def coefficients(
    blocks: Sequence[Block], modalities: Sequence[str], features: Sequence[str]
) -> list[Section]:
    """Plot the coefficients of each block that has any."""
    texts = {
        "bag feature": ("What the bags' own features add", "score per sd"),
        "primary": ("What makes an instance primary", "score per sd"),
        "contribution": ("What a primary instance adds to its bag", "score per sd"),
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
