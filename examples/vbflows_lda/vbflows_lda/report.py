"""What the page says of the topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.family import Findings
from flows.report import plots
from flows.report.page import Grid, Section, Tile
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class TopicSummary:
    """What scoring a partition leaves.

    Attributes
    ----------
    documents
        Their number.
    words
        Expected words of each topic in them, [K].
    first
        The first words of each topic.
    """

    documents: int
    words: FloatArray
    first: tuple[tuple[str, ...], ...]


def report(summaries: Sequence[TopicSummary]) -> Findings:
    """Say which topics there are, the largest first."""
    documents = sum(one.documents for one in summaries)
    words = np.sum([one.words for one in summaries], axis=0)
    share = words / max(float(words.sum()), 1.0)
    order = np.argsort(-share, kind="stable").tolist()
    first = summaries[0].first
    largest = order[0]
    headline = (
        f"{documents:,} documents have {len(share)} topics; the largest, "
        f"{' '.join(first[largest][:3])}, has {share[largest]:.0%} of their words."
    )
    rows = [(k, f"{share[k]:.1%}", " ".join(first[k])) for k in order]
    section = Section(
        "Topics",
        "Shares of all words, and the words of each topic that are the most frequent in it.",
        plots=[
            plots.bars(
                [" ".join(first[k][:3]) for k in order],
                [round(100.0 * float(share[k]), 2) for k in order],
                "% of words",
                "Topics by their share of words",
            )
        ],
        grids=[Grid(("topic", "share of words", "first words"), rows)],
    )
    results = {"documents": documents, "words": float(words.sum()), "largest_share": share.max()}
    top = [{"topic": k, "share": round(float(share[k]), 4), "words": row[2]}
           for k, row in zip(order, rows, strict=True)][:10]  # fmt: skip
    tiles = [
        Tile("topics", f"{len(share)}", f"in {documents:,} documents"),
        Tile("largest topic", f"{share[largest]:.0%} of the words", " ".join(first[largest][:3])),
    ]
    numbers = {name: float(value) for name, value in results.items()}
    return Findings(headline, [section], numbers, top=top, tiles=tiles)
