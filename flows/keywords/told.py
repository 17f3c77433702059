"""What a run tells of the documents that it read, and of what it could not use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

MAX_NAMED = 100
"""Documents that a report names for each reason; all are counted."""


@dataclass(frozen=True)
class Told:
    """How many there were, and the first of them by name."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> Told:
        """Tell of these."""
        return cls(len(names), tuple(names[:MAX_NAMED]))

    def __add__(self, other: Told) -> Told:
        return Told(self.count + other.count, (self.names + other.names)[:MAX_NAMED])


@dataclass(frozen=True)
class Report:
    """What was read and what could not be used; reports of partitions add.

    Parameters
    ----------
    documents, tokens, words, observed
        Documents read, their tokens, their candidate words, and the observed among these.
    without_words
        Documents without any candidate word: no row of the result is theirs.
    absent_keywords
        Known keywords of which a word does not occur among the document's candidates, as
        "doc_id: keyword (missing word: absent or too rare)". An absent word does not occur
        as a noun, adjective or verb; a rare one occurs fewer than ``min_count`` times. The
        keyword's other words count as observed.
    shortened
        Documents cut to ``max_words`` candidates, as "doc_id (candidates before)".
    unused_scores
        Scored terms of which no word is a candidate of the document, as "doc_id: term".
    """

    documents: int = 0
    tokens: int = 0
    words: int = 0
    observed: int = 0
    without_words: Told = field(default_factory=Told)
    absent_keywords: Told = field(default_factory=Told)
    shortened: Told = field(default_factory=Told)
    unused_scores: Told = field(default_factory=Told)

    def __add__(self, other: Report) -> Report:
        return Report(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )
