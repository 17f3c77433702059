"""The numbers at the head of the features report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.features.description import percent
from flows.features.simpler_models import slack_of
from flows.report.labels import label
from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any], weighted: bool = False) -> list[Tile]:
    """Return how many features there are, how sure that is, and what simpler models reach."""
    meaning = results.get("meaning", [])
    size = f"in {len(results['columns']):,} columns"
    size += ": two groups, with and without it" * (results["features"] == 1)
    tiles = [Tile(label("features"), f"{results['features']:,}", size)]
    if meaning:
        most = max(meaning, key=lambda one: one["prevalence"])
        of, note = "rows with the feature", "mean of their probabilities"
        if ends := most.get("prevalence_interval"):
            note = f"95 % interval {100.0 * ends[0]:.0f} to {percent(ends[1])} in the population"
        note += ", by weight" * weighted
        if len(meaning) > 1:
            of, note = "most common feature", f"feature {most['feature']}: {most['short_name']}"
        tiles.append(Tile(of, f"{percent(most['prevalence'])} of rows", note))
    models = results.get("simpler_models") or {}
    if results["features"] and models.get("features") is not None:
        gain = models["features"] - models["best_log_probability"]
        value = "this model is better" if gain > 0.0 else "this model is worse"
        if abs(gain) < slack_of(results["features"]):
            value = "no clear difference"
        note = f"log probability of a row {gain / models['rows']:+.4f}"
        tiles.append(Tile(f"against {models['best']}", value, note))
    if results["imputed_cells"]:
        note = "with the probability of each answer, in the table imputed/"
        tiles.append(Tile(label("imputed_cells"), f"{results['imputed_cells']:,}", note))
    return tiles


def next_steps(features: int, other_starts: int = 0, unclear: int = 0) -> tuple[NextStep, ...]:
    """Return what to do next with that many features, of a search with so many other starts.

    ``unclear``: rows of which it is not clear whether they have the only feature.
    """
    every = "vbflows show {run} rows --sort feature_1 --csv > rows.csv"
    text = "Write each row's probability of each feature to a CSV file"
    if unclear:
        text = (
            "Write each row's probability of the feature to a CSV file"
            f", and give each of the {unclear:,} unclear ones this probability, not a group"
        )
    first = NextStep(f"{text}:", every)
    text = "See which answers a feature makes likelier, by how many times (ratio):"
    second = NextStep(text, "vbflows show {run} weights --sort ratio")
    if features and other_starts == 1:
        text = "Two starts are little evidence: fit again with ten:"
        second = NextStep(text, "{again starts=10}", True)
    return (
        *([first] if features else []),
        second,
        NextStep("Find the features of new rows:", "vbflows score {run} NEW_TABLE scored/", True),
    )
