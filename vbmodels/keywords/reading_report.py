"""What was read of documents, and what could not be used: counts, and the first by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

MAX_NAMED = 100
"""Documents that a report names for each reason; all are counted."""


@dataclass(frozen=True)
class Named:
    """How many there were, and the first of them by name."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> Named:
        """Count these."""
        return cls(len(names), tuple(names[:MAX_NAMED]))

    def __add__(self, other: Named) -> Named:
        return Named(self.count + other.count, (self.names + other.names)[:MAX_NAMED])


def by_document(lost: Sequence[str]) -> list[str]:
    """Put one of each document before the others, which examples of many documents need.

    >>> by_document(["a: x", "a: y", "b: z"])
    ['a: x', 'b: z', 'a: y']
    """
    first: dict[str, str] = {}
    for one in lost:
        first.setdefault(one.partition(": ")[0], one)
    ahead = {*first.values()}
    return [*first.values(), *(one for one in lost if one not in ahead)]


@dataclass(frozen=True)
class Report:
    """What was read and what could not be used; reports of partitions add.

    Parameters
    ----------
    documents, tokens, words, observed
        Documents read, their tokens, their candidate words, and the observed among these.
    without_words
        Documents of which the result has no row.
    listed
        Known keyphrases.
    absent_keywords
        Those of them that no text has, as "doc_id: keyword". Of words, where a word of the
        keyword is none, "doc_id: keyword (missing word: absent or too rare)"; an absent word does
        not occur as a noun, adjective or verb, a rare one fewer than ``min_count`` times, and the
        keyword's other words count as observed.
    listed_only
        Those of them that the text has and that the rules for candidates do not find.
    shortened
        Documents cut to ``max_words`` candidates, as "doc_id (candidates before)".
    unused_scores
        Scored terms of which no word is a candidate of the document, as "doc_id: term".
    cleaned
        Documents of which markup or running heads were taken out, as "doc_id (HTML)".
    separators
        Of signs inside known keyphrases that are not in the text: how many of these keywords would
        be if the sign were between keywords.
    languages
        Documents of each language; those of which it is not clear have the name "".
    terms
        Documents that have each term of the vocabulary; none of a term that no text has.
    shared
        Documents without sentences that most documents have.
    marks
        Documents that have each mark of a missing cell in the place of a list of keywords.
    """

    documents: int = 0
    tokens: int = 0
    words: int = 0
    observed: int = 0
    listed: int = 0
    without_words: Named = field(default_factory=Named)
    absent_keywords: Named = field(default_factory=Named)
    listed_only: Named = field(default_factory=Named)
    shortened: Named = field(default_factory=Named)
    unused_scores: Named = field(default_factory=Named)
    cleaned: Named = field(default_factory=Named)
    separators: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    terms: Counter[str] = field(default_factory=Counter)
    shared: Named = field(default_factory=Named)
    marks: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Report) -> Report:
        return Report(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )
