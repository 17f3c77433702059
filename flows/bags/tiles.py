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
        tiles.append(
            Tile(label("auroc"), f"{results['auroc']:.3f}", f"{low:.2f} to {high:.2f}; {tested}")
        )
        tiles += log_loss_tile(results, "base_log_loss", tested)
    tiles += baseline_tile(results)
    labelled, instances = (f"{results[name]:,}" for name in ("labelled", "instances"))
    note = f"{labelled} with a label; {instances} instances"
    return [*tiles, Tile(label("bags"), f"{results['bags']:,}", note)]


NEXT_STEPS = (
    NextStep(
        "See which instances make their bags positive:",
        "vbflows show {run} instances --sort probability",
    ),
    NextStep(
        "Predict new bags, with the same columns:", "vbflows score {run} NEW_BAGS scored/", True
    ),
)

WITHOUT_STEPS = (
    NextStep(
        "List all uncertain bags, each predicted without its own label:",
        "vbflows show {run} bags --where 'without_it>0.2' --where 'without_it<0.8'",
    ),
    NextStep("Compare with boosted trees: run again with --set held_out=0.2."),
)
"""What to do next where each bag was predicted without its own label, and none was held out."""
