"""What a run found: ``results`` of its run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True)
class Topic:
    """A topic: its number, its share of all words, and its most frequent words."""

    number: int
    share: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """The topics of so many documents and words, the largest first."""

    documents: int
    words: float
    topics: tuple[Topic, ...]


def answer_of(summaries: Sequence[TopicSummary]) -> Answer:
    """Return which topics there are."""
    words = np.sum([one.words for one in summaries], axis=0)
    share = words / max(float(words.sum()), 1.0)
    first = summaries[0].first
    topics = [
        Topic(k, float(share[k]), first[k]) for k in np.argsort(-share, kind="stable").tolist()
    ]
    return Answer(sum(one.documents for one in summaries), float(words.sum()), tuple(topics))
