"""The numbers at the head of the keywords report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any], keys: str = "keyphrases") -> list[Tile]:
    """Return how many keywords were found, how many of them are right, and how rare they are."""
    count = results["observed"]
    known = f"; {count:,} known in the text, each stem once" if count else ""
    note = f"in {results['documents']:,} documents{known}"
    tiles = [Tile(f"new {keys}", f"{results['found']:,}", note)]
    if "expected_right" in results:
        low, high = (f"{100.0 * share:.0f}" for share in results["expected_right"])
        share = f"{low} %" if low == high else f"{low} to {high} %"
        wrong = f"best estimate: {results['expected_false']:,.0f} of {results['found']:,} are wrong"
        tiles.append(Tile("expected to be right", share, wrong))
    if "f" in results:
        note = f"precision {results['precision']:.2f}, recall {results['recall']:.2f}"
        tiles.append(Tile(f"F1 against true {keys}", f"{results['f']:.2f}", note))
    if "keyword_rate" in results:
        rate, sd = results["keyword_rate"], results["keyword_rate_log_sd"]
        names = [_SOURCES.get(name, name) for name in results["keyword_rate_sources"]]
        low, high = (100.0 * min(rate * exp(sign * sd), 1.0) for sign in (-1, 1))
        between = f" ({low:.1f} to {high:.1f} %)" if f"{low:.1f}" != f"{high:.1f}" else ""
        note = f"of the candidates are {keys}{between}, from {' and '.join(names)}"
        tiles.append(Tile(f"{keys[:-1]} rate", f"{100.0 * rate:.1f} %", note))
    return tiles


_SOURCES = {"given": "your setting", "labels": "the known keyphrases"}

NEXT_STEPS = (
    NextStep("Take the keyphrases of every document, as JSON lines:",
             "cat {run}/keyphrases/*.jsonl"),
    NextStep("If too few are right for your use, take the more probable new ones alone:",
             "vbflows show {run} keywords --new --where 'probability>0.5'"),
    NextStep("Find the keyphrases of new documents without a fit:",
             "vbflows score {run} NEW_DOCUMENTS scored/", True),
)  # fmt: skip
