"""The numbers at the head of the keywords report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

import numpy as np

from flows.report.page import NextStep, Tile
from vbmodels.keywords.hidden_lists import BEST

MOST_UNSURE = 0.75  # width of the range of the share that is right


def tiles_of(
    results: Mapping[str, Any], unit: str = "phrase", keys: str = "keyphrases"
) -> list[Tile]:
    """Return how many keyphrases were found, how many are right, and how many a text has."""
    documents = f"in {results['documents_with_new']:,} of {results['documents']:,} documents"
    tiles = [Tile(f"new {keys}", f"{results['found']:,}", documents)]
    measured = "" if "f" in results else ", not measured"
    if "likely" in results:
        likely, right = results["likely"], results["likely_right"]
        documents = f"in {results['documents_with_likely']:,} of {results['documents']:,} documents"
        note = (
            f"of the likely ones, by the model's own estimate{measured}: about "
            f"{likely * (1.0 - right):,.0f} of the {likely:,} are wrong"
        )
        less = f"{results['found'] - likely:,} less likely are selected, too"
        tiles = [
            Tile(f"likely new {keys}", f"{likely:,}", f"{documents}; {less}"),
            Tile("expected to be right", f"{100.0 * right:.0f} %", note),
        ]
    elif "expected_right" in results and np.ptp(results["expected_right"]) <= MOST_UNSURE:
        low, high = (f"{100.0 * share:.0f}" for share in results["expected_right"])
        share = f"{low} %" if low == high else f"{low} to {high} %"
        note = (
            f"by the model's own estimate{measured}: about "
            f"{results['expected_false']:,.0f} of the {results['found']:,} are wrong"
        )
        tiles.append(Tile("expected to be right", share, note))
    if "f" in results:
        note = f"precision {results['precision']:.2f}, recall {results['recall']:.2f}"
        tiles.append(Tile(f"F1 against true {keys}", f"{results['f']:.2f}", note))
    if "known_among_best" in results:
        tiles.append(_ranked(results))
    if results["observed"]:
        tiles.append(Tile(f"known {keys}", f"{results['observed']:,}", _known(results, keys)))
    if "keyword_rate" in results:
        tiles.append(_per_text(results, unit, keys))
    return tiles


def _ranked(results: Mapping[str, Any]) -> Tile:
    """Say how many known ones are among the best of their text, and how many by tf-idf."""
    _, least, most = results["known_among_best_apart"]
    rank = "better" if least > 0.0 else "about as good" if most >= 0.0 else "worse"
    apart, low, high = (f"{100.0 * a:+.0f}" for a in results["known_among_best_apart"])
    own, other = (
        f"{100.0 * results[f'known_among_best{by}']:.0f}\u00a0%" for by in ("", "_tf_idf")
    )
    return Tile(
        "ranking against TF-IDF", f"{apart} points",
        f"{rank} (95\u00a0%: {low} to {high}); known ones that are among the {BEST} best of their "
        f"text: {own}, by TF-IDF {other}",
    )  # fmt: skip


def _per_text(results: Mapping[str, Any], unit: str, keys: str) -> Tile:
    """Say how many keyphrases a text is taken to have, of how many candidates, and why."""
    candidates = results["candidates"] / max(results["documents"], 1)
    rate, sd = results["keyword_rate"], results["keyword_rate_log_sd"]
    low, high = (f"{candidates * min(rate * exp(sign * sd), 1.0):.1f}" for sign in (-1, 1))
    ends = f" ({low} to {high})" if low != high else ""
    number = f"{candidates * rate:.1f}{ends}"
    sources = results["keyword_rate_sources"]
    why = f"from {' and '.join(sources)}; of {candidates:,.0f} candidate {unit}s, on average"
    return Tile(f"{keys} assumed in a text", number, why)


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
        note += f"; {repeated:,} other forms of one that is listed"
    return note


def next_steps(
    scores: bool, likely: int = 0, measured: bool = True, given: bool = False,
    own_names: bool = False,
) -> list[NextStep]:  # fmt: skip
    """Return what to do next; ``scores``: of scores only; ``measured``: with true ones.

    ``given``: the user says how many keyphrases a document has. ``own_names``: many of the likely
    ones are the name of their document.
    """
    again = "{again keyphrases=MEAN}" if given else "{again}"
    probable = NextStep(
        "Write the new ones above 0.5 to a file"
        + ", without those that are the name of their document" * own_names
        + ":",
        "vbflows show {run} keywords --new --selected --where 'probability>0.5' "
        + "--where own_name=no " * own_names
        + "--csv > likely.csv",
    )
    label = NextStep(
        "Measure how many are right before you label more: write into a new column gold, for 10 to "
        "20 documents drawn at random from all, the keyphrases that you would give them, those too "
        "that are not in the text, separated as the known ones; leave it empty elsewhere. Run again"
        + ", with their mean number as MEAN" * given
        + ". The fit does not learn from that column; its report has a part Against the true "
        "keyphrases:",
        again,
        True,
    )  # fmt: skip
    return [
        *([probable] if likely and not scores else []),
        *([] if measured or scores else [label]),
        NextStep("Find the keyphrases of new documents without a fit:",
                 "vbflows score {run} NEW_DOCUMENTS scored/", True),
        NextStep("Take all keyphrases of every document, as JSON lines:",
                 "cat {run}/keyphrases/*.jsonl"),
    ]  # fmt: skip
