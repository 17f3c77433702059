"""The numbers at the head of the experts report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report.baselines import baseline_tile, log_loss_tile
from flows.report.labels import label
from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any]) -> list[Tile]:
    """Return how well labels are predicted on rows that were not fitted, and against what."""
    if "accuracy" not in results:
        return [Tile(label("accuracy"), "not known", "no labelled row was kept from the fit")]
    rows = f"{results['test_rows']:,} rows not fitted"
    first = Tile(label("accuracy"), f"{results['accuracy']:.1%}", rows)
    if "auroc" in results:
        low, high = results["auroc_interval"]
        first = Tile(label("auroc"), f"{results['auroc']:.3f}", f"{low:.3f} to {high:.3f}; {rows}")
    return [
        first,
        *log_loss_tile(results, "logistic_log_loss", rows),
        *baseline_tile(results),
    ]


NEXT_STEPS = (
    NextStep("See the rows with the largest probability:",
             "vbflows show {run} rows"),
    NextStep("Predict new rows, with the same columns:",
             "vbflows score {run} NEW_TABLE scored/", True),
)  # fmt: skip
