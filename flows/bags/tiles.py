"""The numbers at the head of the bags report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flows.bags.tested import PREDICT, Which, interval_note, size_tile
from flows.report.baselines import baseline_tile, log_loss_tile
from flows.report.labels import label
from flows.report.page import NextStep, Tile
from vbmodels.core.state import BoolArray, FloatArray


def tiles_of(results: Mapping[str, Any], which: Which, things: str) -> list[Tile]:
    """Return how well labels are predicted, against what, and how much there was.

    ``which`` bags are tested, and ``things`` what is counted of them.
    """
    tiles = []
    if "auroc" in results:
        low, high = (f"{end:.3f}" for end in results["auroc_interval"])
        note = interval_note(low, high, which, results["tested"], things)
        tiles.append(Tile(label("auroc"), f"{results['auroc']:.3f}", note))
        tiles += log_loss_tile(results, "base_log_loss", "")
    return [*tiles, *baseline_tile(results), size_tile(results)]


UNSURE = 0.2, 0.8
"""Probabilities between which a bag is worth a look."""


@dataclass(frozen=True)
class Uncertain:
    """The uncertain bags that one command lists.

    ``column`` of the table bags has their probabilities on the page; ``every``: whether the page
    has no other uncertain bags.
    """

    column: str
    number: int
    every: bool

    @classmethod
    def of(cls, probability: FloatArray, known: BoolArray) -> Uncertain:
        """Choose the column; bags in ``known`` are predicted without their own label, [B]."""
        unsure = (probability > UNSURE[0]) & (probability < UNSURE[1])
        if not known.any():
            return cls("probability", int(unsure.sum()), True)
        return cls("without_it", int((unsure & known).sum()), not (unsure & ~known).any())


def next_steps(uncertain: Uncertain, by_instance: bool) -> list[NextStep]:
    """Return what to do next; ``by_instance``: whether instances have probabilities."""
    sort = "probability" if by_instance else "contribution"
    low, high = UNSURE
    bounds = f"--where '{uncertain.column}>{low}' --where '{uncertain.column}<{high}'"
    which = "all {} uncertain bags" if uncertain.every else "the {} uncertain bags of the fit"
    listing = NextStep(
        f"List {which.format(f'{uncertain.number:,}')}:",
        f"vbflows show {{run}} bags {bounds} --rows {uncertain.number}",
    )
    return [
        *([listing] if uncertain.number else []),
        NextStep(
            "See which instances make their bags positive:",
            f"vbflows show {{run}} instances --sort {sort}",
        ),
        PREDICT,
    ]
