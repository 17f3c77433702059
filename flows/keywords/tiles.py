"""The numbers at the head of the keywords report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any]) -> list[Tile]:
    """Return how many keywords were found, how many of them are right, and how rare they are."""
    tiles = [
        Tile("found", f"{results['found']:,}", f"in {results['documents']:,} documents; "
             f"{results['observed']:,} were known")
    ]  # fmt: skip
    if "expected_right" in results:
        low, high = (f"{100.0 * share:.0f}" for share in results["expected_right"])
        share = f"{low} %" if low == high else f"{low} to {high} %"
        false = f"{results['expected_false']:,.0f} of those found are expected to be false"
        tiles.append(Tile("right, by the model", share, false))
    if "f" in results:
        note = f"precision {results['precision']:.2f}, recall {results['recall']:.2f}"
        tiles.append(Tile("F against the true ones", f"{results['f']:.2f}", note))
    if "keyword_rate" in results:
        rate = f"{100.0 * results['keyword_rate']:.1f} %"
        sources = ", ".join(results["keyword_rate_sources"])
        tiles.append(Tile("share of candidates that are keywords", rate, f"source: {sources}"))
    return tiles


NEXT_STEPS = (
    NextStep("See the most probable new ones of all documents:",
             "vbflows show {run} keywords --new"),
    NextStep("Find the keywords of new documents without a fit:",
             "vbflows score {run} NEW_DOCUMENTS scored/", True),
)  # fmt: skip
