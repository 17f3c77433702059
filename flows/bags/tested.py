"""On which bags a report's figures are, and what both reports of bags say alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from flows.report.labels import label
from flows.report.page import NextStep, Tile

Which = Literal["new", "held out", "without"]
"""Bags that are tested: new ones, those held out of the fit, or the fitted, each without itself."""

UNSURE = 0.2, 0.8
"""Probabilities between which a bag is worth a look."""

PREDICT = NextStep(
    "Predict new bags, with the same columns:", "vbflows score {run} NEW_FILE scored/", True
)


def which_bags(new: bool, held_out: bool) -> Which:
    """Choose new bags, else those held out, else the fitted ones."""
    return "new" if new else "held out" if held_out else "without"


def in_words(which: Which, count: int, grouped: bool, things: str = "bags") -> str:
    """Say which these are, and what of them the fit knew.

    ``grouped``: whether bags have groups, or exact copies; ``things``: what is counted.

    >>> in_words("held out", 60, False), in_words("without", 240, True)
    ('60 held-out bags', '240 bags, each predicted without the labels of its group')
    """
    if which == "without":
        unseen = "the labels of its group" if grouped else "its own label"
        return f"{count:,} {things}, each predicted without {unseen}"
    return f"{count:,} {'scored' if which == 'new' else 'held-out'} {things}"


def size_tile(results: Mapping[str, Any]) -> Tile:
    """Return the tile that says how many bags and instances there are."""
    note = f"{results['labelled']:,} with a label; {results['instances']:,} instances"
    return Tile(label("bags"), f"{results['bags']:,}", note)
