"""What the report says of a stack's members, of the embedding's blocks, and of simple baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.bags import stacked
from flows.bags.summary import BagSummary
from flows.bags.tables import block_named
from flows.report.baselines import shown
from flows.report.page import Grid, Section

MOST_BLOCKS = 12


def about_members(
    q: Any, summaries: Sequence[BagSummary], results: dict[str, Any]
) -> tuple[list[Section], tuple[str, ...]]:
    """Return sections and warnings; figures go into ``results``."""
    baselines = [baseline for one in summaries for baseline in one.baselines]
    sections, warnings = shown(baselines, results, "bags")
    sections += _weights(stacked.weights_of(q), results)
    modalities = summaries[0].modalities
    blocks = [(block_named(name, modalities), v) for name, v in stacked.blocks_of(q)]
    sections += _blocks(blocks)
    return sections, (*warnings, *stacked.warnings_of(q))


def _weights(weights: dict[str, float], results: dict[str, Any]) -> list[Section]:
    if not weights:
        return []
    results["weights"] = weights
    text = (
        "A bag's probability is the weighted mean of its members. Weights are those with the "
        "highest probability of labels that a member had not seen."
    )
    if "witness" in weights:
        text += (
            " Instances' probabilities are the witness's own, not multiplied by its weight, which "
            "says how far the labels bear out that single instances decide."
        )
    rows = [(name, f"{value:.3f}") for name, value in weights.items()]
    return [Section("The members", text, (), (Grid(("member", "weight"), rows),))]


def _blocks(blocks: Sequence[tuple[str, float]]) -> list[Section]:
    if not blocks:
        return []
    ordered = sorted(blocks, key=lambda one: -one[1])
    rows = [(name, f"{value:.3g}") for name, value in ordered[:MOST_BLOCKS]]
    if len(ordered) > MOST_BLOCKS:
        rest = sum(value for _, value in ordered[MOST_BLOCKS:])
        rows.append((f"{len(ordered) - MOST_BLOCKS} others together", f"{rest:.3g}"))
    text = (
        "The variance that each block of features may give a bag's probit score, by the evidence. "
        "Blocks that say the same share it, and a small one has shrunk rather than vanished."
    )
    if len(ordered) > 1 and ordered[0][1] == ordered[-1][1]:
        text += " Here the labels do not tell blocks apart: all stay where the search begins."
    return [Section("What bags are told apart by", text, (), (Grid(("block", "variance"), rows),))]
