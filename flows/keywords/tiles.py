"""The numbers at the head of the keywords report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from flows.report.page import NextStep, Tile


def tiles_of(
    results: Mapping[str, Any], unit: str = "phrase", keys: str = "keyphrases",
    given: float | None = None,
) -> list[Tile]:  # fmt: skip
    """Return how many keywords were found, how many of them are right, and how rare they are.

    ``given`` is the number of keyphrases that the user says a document has.
    """
    documents = f"in {results['documents_with_new']:,} of {results['documents']:,} documents"
    tiles = [Tile(f"new {keys}", f"{results['found']:,}", documents)]
    if "expected_right" in results:
        low, high = (f"{100.0 * share:.0f}" for share in results["expected_right"])
        share = f"{low} %" if low == high else f"{low} to {high} %"
        wrong = f"about {results['expected_false']:,.0f} of the {results['found']:,} new are wrong"
        tiles.append(Tile("expected to be right", share, wrong))
    if "f" in results:
        note = f"precision {results['precision']:.2f}, recall {results['recall']:.2f}"
        tiles.append(Tile(f"F1 against true {keys}", f"{results['f']:.2f}", note))
    if results["observed"]:
        tiles.append(Tile(f"known {keys}", f"{results['observed']:,}", _known(results, keys)))
    if "keyword_rate" in results:
        rate, sd = results["keyword_rate"], results["keyword_rate_log_sd"]
        low, high = (100.0 * min(rate * exp(sign * sd), 1.0) for sign in (-1, 1))
        between = f" ({low:.1f} to {high:.1f} %)" if f"{low:.1f}" != f"{high:.1f}" else ""
        note = f"of the candidate {unit}s{between}: {_each(results, given)}"
        tiles.append(Tile(f"{keys[:-1]} rate", f"{100.0 * rate:.1f} %", note))
    return tiles


def _each(results: Mapping[str, Any], given: float | None) -> str:
    """Say how many keyphrases of how many candidates a document has, and how that is known."""
    candidates = results["candidates"] / max(results["documents"], 1)
    number = results["keyword_rate"] * candidates
    sources = results["keyword_rate_sources"]
    among = f"{number:.1f} of a document's {candidates:,.0f}"
    if given is None or sources != ["given"]:
        return f"{among}, from {' and '.join(_SOURCES.get(name, name) for name in sources)}"
    share = f"{100.0 * number / given:.0f} %"
    listed, absent = (results.get(name, 0) for name in ("known_given", "known_absent"))
    as_given = listed and f"{100.0 * (1.0 - absent / listed):.0f} %" == share
    alike = ", as of the given ones" if as_given else ""
    return f"{among}; of your {given:g}, {share} are expected in its text{alike}"


def _known(results: Mapping[str, Any], keys: str) -> str:
    """Say what became of the known keyphrases; a word of a phrase is counted by itself."""
    listed = results.get("known_given", 0)
    repeated = listed - results.get("known_absent", 0) - results["observed"]
    if keys != "keyphrases" or repeated < 0 or not listed:
        return "in the documents' texts"
    note = f"of {listed:,} given"
    if results["known_absent"]:
        note += f"; {results['known_absent']:,} are not in their document's text"
    if repeated:
        note += f"; {repeated:,} repeat{'s' * (repeated == 1)} another one's stem"
    return note


_SOURCES = {"given": "your setting", "labels": "the known keyphrases"}


def next_steps(scores: bool) -> list[NextStep]:
    """Return what to do next; ``scores``: whether the model gives scores only."""
    probable = NextStep(
        "List the new ones that are more probable than not:",
        "vbflows show {run} keywords --new --selected --where 'probability>0.5'",
    )
    return [
        NextStep("Take the keyphrases of every document, as JSON lines:",
                 "cat {run}/keyphrases/*.jsonl"),
        *([] if scores else [probable]),
        NextStep("Find the keyphrases of new documents without a fit:",
                 "vbflows score {run} NEW_DOCUMENTS scored/", True),
    ]  # fmt: skip
