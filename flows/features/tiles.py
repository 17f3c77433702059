"""The numbers at the head of the features report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.features.simpler_models import LOOSE
from flows.report.labels import AGAINST, label
from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any]) -> list[Tile]:
    """Return how many features there are, how sure that is, and what simpler models reach."""
    meaning = results.get("meaning", [])
    size = f"{results['rows']:,} rows, {len(results['columns']):,} columns"
    tiles = [Tile(label("features"), f"{results['features']:,}", size)]
    if meaning:
        most = max(meaning, key=lambda one: one["prevalence"])
        tiles.append(Tile("most common feature", f"{most['prevalence']:.0%} of rows", most["name"]))
        if meaning[0]["other_starts"]:
            again = sum(one["found_by"] > 0 for one in meaning)
            starts = meaning[0]["other_starts"]
            note = f"by at least one of {starts} other starts of the search"
            if starts == 1:
                note = "found again by the one other start"
            tiles.append(Tile("reproduced", f"{again} of {len(meaning)}", note))
    models = results.get("simpler_models") or {}
    if models.get("features") is not None:
        gain = models["features"] - models["classes"]
        slack = LOOSE * results["features"]
        value, note = f"{gain:+,.0f} nats", "better" if gain > 0.0 else "worse"
        if abs(gain) < slack:
            value = "no clear difference"
            note = f"{gain:+,.0f} nats, within the bound's slack of about {slack:,.0f}"
        tiles.append(Tile(f"{AGAINST}latent classes", value, note))
    if results["imputed_cells"]:
        tiles.append(Tile(label("imputed_cells"), f"{results['imputed_cells']:,}"))
    return tiles


NEXT_STEPS = (
    NextStep("See what each feature does to each category:", "vbflows show {run} weights"),
    NextStep(
        "Compare rows that have a feature with others:", "vbflows show {run} rows --sort feature_1"
    ),
    NextStep("Find the features of new rows:", "vbflows score {run} NEW_TABLE scored/", True),
)
