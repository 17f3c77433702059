"""What reading left out, took out or inferred, as data; `words.jinja` says it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault
from flows.keywords.schema import KNOWN_NAMES
from flows.keywords.settings import KeywordSettings
from flows.records.runs import Dropped
from vbmodels.keywords.learnt_prior import NONE
from vbmodels.tables.column_table import ColumnRead
from vbmodels.text.reading import Named, Report
from vbmodels.text.words import OTHER, pos_code

LARGE_SHARE = 0.1
"""From which on a loss is a warning of its own."""


@dataclass(frozen=True)
class Reading:
    """What to know of the documents before a decision.

    Attributes
    ----------
    report
        What was read and what could not be used.
    rate_from
        By what the number of keyphrases of a document is estimated where nothing says it: known
        keyphrases "and others", "known" ones or "others" alone; "" where something does.
    with_phrases, vocabulary_only, language
        The settings; ``vocabulary_only`` is whether nothing but a vocabulary has candidates.
    terms, unused_terms
        Terms of the vocabulary, and those that no text has.
    unread_column
        A column that looks as if it had known keyphrases and is not read; "" for none.
    copies
        Documents that count once with the one that they are a copy of.
    """

    report: Report
    rate_from: Literal["", "known", "others", "known and others"]
    with_phrases: bool
    vocabulary_only: bool
    language: str
    terms: int
    unused_terms: Named
    unread_column: str
    copies: int

    @property
    def many_empty(self) -> bool:
        """Whether many documents have no candidate."""
        return self.report.without_words.count > LARGE_SHARE * self.report.documents

    @property
    def many_absent(self) -> bool:
        """Whether many known keyphrases are in no text of theirs."""
        return self.report.absent_keywords.count > LARGE_SHARE * self.report.listed

    @property
    def separator(self) -> str:
        """The sign at which lists should be split, as JSON writes it; "" for none."""
        signs = self.report.separators.most_common(1)
        if not signs or 2 * signs[0][1] < self.report.absent_keywords.count:
            return ""
        return json.dumps(signs[0][0], ensure_ascii=False)

    @property
    def split(self) -> int:
        """How many of the absent keyphrases the separator would find."""
        return max(self.report.separators.values(), default=0)

    @property
    def languages(self) -> list[tuple[str, int]]:
        """Languages that were detected with their documents; none where all is as expected."""
        detected = [counted for counted in self.report.languages.most_common() if counted[0]]
        return detected if {name for name, _ in detected} - {self.language, "english"} else []


def losses_of(report: Report, settings: KeywordSettings) -> tuple[Dropped, ...]:
    """Return what was not used of the documents, and why."""
    absent = "known keyphrase that is not in its document's text"
    if not settings.with_phrases:
        absent = "known keyphrase with a word that is no candidate of its document"
    listed_only = "known keyphrase that is no candidate, kept in the result"
    cut = f"document cut to its {settings.max_words} most frequent words"
    raise_it = f"Raise max_words above {settings.max_words} to take all words of long documents"
    return (
        _dropped("document without a candidate", report.without_words, report.documents, True),
        _dropped(absent, report.absent_keywords, report.listed, True),
        _dropped(listed_only, report.listed_only, report.listed),
        _dropped(cut, report.shortened, report.documents, cause=raise_it),
        _dropped("score of a term without a candidate word", report.unused_scores, 0),
    )


def _dropped(
    reason: str, lost: Named, total: int, by_family: bool = False, cause: str = ""
) -> Dropped:
    return Dropped(
        reason=reason,
        count=lost.count,
        examples=list(lost.names),
        of=total,
        cause=cause,
        by_family=by_family,
    )


def rate_source(
    settings: KeywordSettings, labelled: bool, complete: bool
) -> Literal["", "known", "others", "known and others"]:
    """Return `Reading.rate_from`; ``labelled``, ``complete``: whether some document is."""
    number = settings.keyphrases if settings.with_phrases else settings.keyword_rate
    if complete or number is not None or settings.kind is not None or settings.model != "corpus":
        return ""
    if settings.prior == NONE:
        return "known"
    return "known and others" if labelled else "others"


def unread_column(columns: Sequence[ColumnRead]) -> str:
    """Return `Reading.unread_column` of the columns of the input."""
    if any(column.used == "keywords" for column in columns):
        return ""
    like = (
        column.name for column in columns if column.left_out and column.name.lower() in KNOWN_NAMES
    )
    return next(like, "")


_NAMED = 5


@dataclass(frozen=True)
class Held:
    """What some documents hold: those of two sets add.

    Attributes
    ----------
    listed
        Documents with a known keyphrase.
    known
        Whether any tag is a noun, adjective or verb in a tag set that we know.
    unknown
        The first tags where none is.
    """

    listed: int = 0
    known: bool = False
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Held) -> Held:
        known = self.known or other.known
        unknown = () if known else tuple(sorted({*self.unknown, *other.unknown})[:_NAMED])
        return Held(self.listed + other.listed, known, unknown)

    def faults(self, file: str) -> list[Fault]:
        """Say so where a file has tags and none that we know."""
        if not self.unknown:
            return []
        return [
            Fault(
                file=file,
                column="pos",
                expected="Penn or universal tags (NN, JJ, VB; NOUN, ADJ, VERB)",
                found=", ".join(map(repr, self.unknown)),
                remedy="translate the tags, or leave the column out to take every word",
            )
        ]


def held_in(documents: pa.Table) -> Held:
    """Return what documents hold, in the columns that are there."""
    listed, tags = 0, []
    if "keywords" in documents.column_names:
        lengths = pc.list_value_length(documents["keywords"])
        listed = pc.sum(pc.greater(lengths, 0)).as_py() or 0
    if "pos" in documents.column_names:
        tags = pc.list_flatten(documents["pos"]).drop_null().unique().to_pylist()
    if any(pos_code(tag) != OTHER for tag in tags):
        return Held(listed, True)
    return Held(listed, False, tuple(sorted(tags)[:_NAMED]))


def unpaired(file: str, columns: Sequence[str]) -> list[Fault]:
    """Say so where terms have no scores, or scores no terms."""
    pair = {"scored", "scores"}
    there = pair.intersection(columns)
    if len(there) != 1:
        return []
    (missing,) = pair - there
    remedy = f"name it by --column {missing}=NAME, or leave both out"
    return [
        Fault(file, f"columns {' and '.join(sorted(pair))}", f"{there.pop()} alone", remedy=remedy)
    ]
