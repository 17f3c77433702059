"""The numbers at the head of the bags report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report.baselines import baseline_tile, log_loss_tile
from flows.report.labels import label
from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any]) -> list[Tile]:
    """Return how well labels are predicted, against what, and how much there was."""
    tiles = []
    if "auroc" in results:
        low, high = results["auroc_interval"]
        tested = f"{results['tested']:,} bags, each without its own label"
        note = f"{low:.3f} to {high:.3f}; {tested}"
        tiles.append(Tile(label("auroc"), f"{results['auroc']:.3f}", note))
        tiles += log_loss_tile(results, "base_log_loss", "")
    tiles += baseline_tile(results)
    labelled, instances = (f"{results[name]:,}" for name in ("labelled", "instances"))
    note = f"{labelled} with a label; {instances} instances"
    return [*tiles, Tile(label("bags"), f"{results['bags']:,}", note)]


def next_steps(column: str, by_instance: bool) -> tuple[NextStep, ...]:
    """Return what to do next.

    ``column`` of the table bags has the probabilities of the page; ``by_instance``: whether
    instances have probabilities.
    """
    sort = "probability" if by_instance else "contribution"
    return (
        NextStep(
            "List all uncertain bags:",
            f"vbflows show {{run}} bags --where '{column}>0.2' --where '{column}<0.8'",
        ),
        NextStep(
            "See which instances make their bags positive:",
            f"vbflows show {{run}} instances --sort {sort}",
        ),
        NextStep(
            "Predict new bags, with the same columns:", "vbflows score {run} NEW_BAGS scored/", True
        ),
    )
