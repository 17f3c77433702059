"""Everything that a reader of a run of keywords may see, as data: ``results`` of run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import exp
from operator import add
from typing import Literal

import numpy as np

from flows.evaluate.estimate import Estimate, share_of
from flows.family import Finished
from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import (
    LEVELS,
    MOST_DOCUMENTS,
    Document,
    DocumentToLabel,
    KeywordSummary,
    Ranking,
    Term,
    Truth,
    Whole,
)
from flows.keywords.texts import ShownTerm, Widget
from flows.report.answers import answer_of_fit
from vbmodels.core.state import IntArray
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.prior.rates import SOURCES

MOST_FREQUENT = 15
MOST_LABELLED = 10
MOST_UNSURE = 0.75
"""Width of the range of a share from which on it says nothing."""


@dataclass(frozen=True)
class Expected:
    """A number by the model, and at the ends of what the rate may be.

    These are half and twice the number that the user gives; else the rate is between them with a
    probability of 0.92.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Level:
    """The new keyphrases above a probability, 0 for all that are selected.

    Attributes
    ----------
    above, count, documents
        That probability, how many they are, and how many documents have one.
    right
        The share of them that the model expects to be right; None for scores.
    of_all
        The share that they are of all new ones that the model expects in the texts.
    """

    above: float
    count: int
    documents: int
    right: Expected | None
    of_all: float


@dataclass(frozen=True)
class Counts:
    """How many documents were read and have a candidate, and how many candidates there are."""

    read: int
    documents: int
    candidates: int


@dataclass(frozen=True)
class Known:
    """Known keyphrases: given, and found in the texts."""

    given: int
    found: int


@dataclass(frozen=True)
class Rules:
    """How new keyphrases were selected.

    Attributes
    ----------
    select, fdr, per_document
        The settings.
    least
        The least probability that is selected; None where documents have limits of their own.
    most
        Most keyphrases of a document, its known ones counted; None for no such limit.
    beyond_limit, alike
        How many were left out beyond the limit of a document, and as parts or near copies.
    parts, example
        How many are words of a longer one, and one of them.
    """

    select: str
    fdr: float
    per_document: int | None
    least: float | None
    most: int | None
    beyond_limit: int
    alike: int
    parts: int
    example: Term | None


@dataclass(frozen=True)
class Rate:
    """What is taken for the number of keyphrases of a text, of its candidates.

    Attributes
    ----------
    share, log_sd
        Of the candidates, and the standard deviation of its logarithm.
    each
        Of a text, one standard deviation to both sides.
    sources
        What says so.
    given
        What the user set, None where nothing.
    is_exact
        Whether that is taken for a fact.
    """

    share: float
    log_sd: float
    each: Expected
    sources: tuple[str, ...]
    given: float | None
    is_exact: bool


@dataclass(frozen=True)
class Measured:
    """What true keyphrases say of the new ones; those that were known are left out.

    Attributes
    ----------
    documents
        That have true ones.
    precision, likely
        The share that is true of the selected ones, and of those more probable than not.
    expected
        The share of the selected ones that the model expects to be true.
    recall, f
        The share of the true candidates that is selected, and F1 of it and the precision.
    """

    documents: int
    precision: Estimate | None
    likely: Estimate | None
    expected: float
    recall: Estimate | None
    f: float


@dataclass(frozen=True)
class Doubts:
    """Why shares that the model expects may be off, beyond the rate.

    Attributes
    ----------
    learned
        What was learned from, where no known keyphrase could be: "nothing" or "other corpora".
    few_documents
        How many documents the regression has, where they are too few.
    given, most, candidates
        Keyphrases of a document as set, where it can have ``most`` of its ``candidates``.
    """

    learned: Literal["", "nothing", "other corpora"] = ""
    few_documents: int | None = None
    given: float | None = None
    most: float | None = None
    candidates: float | None = None


@dataclass(frozen=True)
class Frequent:
    """A new keyphrase and in how many documents it is."""

    term: str
    documents: int


@dataclass(frozen=True)
class ToLabel:
    """The documents whose labels would help most: the first, all, and what all of them remove."""

    first: tuple[DocumentToLabel, ...]
    documents: int
    removes: float


@dataclass(frozen=True)
class Fit:
    """The fit that a score applies: what it measured, and how many of the files it has read."""

    ranking: Ranking | None
    measured: Measured | None
    files: int
    seen: int


@dataclass(frozen=True)
class Answer:
    """Everything that a reader may see of a run.

    Attributes
    ----------
    model, unit
        The settings.
    levels
        All new keyphrases, the likely ones (above 0.5), and the surest.
    own_name
        How many of the likely ones are the name of their document.
    frequent, likely_frequent
        New ones of most documents, and whether only likely ones are counted.
    histogram
        Candidates that were not known, by probability.
    documents
        Those with most likely and new keyphrases.
    """

    model: str
    unit: str
    counts: Counts
    known: Known
    levels: tuple[Level, ...]
    own_name: int
    rules: Rules
    rate: Rate | None
    ranking: Ranking | None
    measured: Measured | None
    doubts: Doubts
    frequent: tuple[Frequent, ...]
    likely_frequent: bool
    histogram: tuple[int, ...]
    documents: tuple[Document, ...]
    to_label: ToLabel | None
    fit: Fit | None

    @property
    def new(self) -> Level:
        """All new keyphrases."""
        return self.levels[0]

    @property
    def likely(self) -> Level:
        """The new ones that are more probable than not."""
        return self.levels[1]

    @property
    def taken(self) -> Level:
        """Those to begin with: the likely ones, all where none is."""
        return self.likely if self.likely.count else self.new

    @property
    def others(self) -> int:
        """How many new ones are selected and less probable than not."""
        return self.new.count - self.likely.count

    @property
    def others_right(self) -> float:
        """The share of them that the model expects to be right."""
        right = [
            level.count * level.right.value for level in self.levels[:2] if level.right is not None
        ]
        return (right[0] - sum(right[1:])) / self.others if right and self.others else 0.0

    @property
    def truth(self) -> Estimate | None:
        """The share of `taken` that is true, where true ones were given."""
        if self.measured is None:
            return None
        return self.measured.likely if self.likely.count else self.measured.precision

    @property
    def cannot_tell(self) -> bool:
        """Whether what is known of the rate leaves open how many are right."""
        right = self.new.right
        exact = self.rate is None or self.rate.is_exact
        return right is not None and not exact and right.high - right.low > MOST_UNSURE


def answer_of(finished: Finished, q: CorpusGlobal | None, doubts: Doubts) -> Answer:
    """Return the answer of a run.

    Parameters
    ----------
    finished
        The run; its summaries are one `Whole`.
    q
        The candidates' regression over the corpus; None where there is none.
    doubts
        Of the fit.
    """
    (whole,) = finished.summaries
    parts, settings = whole.parts, finished.settings
    terms = reduce(add, (part.terms for part in parts))
    listed = sum(int(part.notes.get("listed", 0)) for part in finished.ingested)
    counts = Counts(
        read=sum(part.rows_read for part in finished.ingested),
        documents=sum(part.documents for part in parts),
        candidates=sum(part.candidates for part in parts),
    )
    documents = sorted((d for part in parts for d in part.examples), key=lambda d: -d.worth)
    return Answer(
        model=settings.model,
        unit=settings.unit,
        counts=counts,
        known=Known(listed, sum(part.observed for part in parts)),
        levels=_levels(parts),
        own_name=sum(part.own_name for part in parts),
        rules=_rules(whole, settings),
        rate=None if q is None else _rate(q, counts, settings),
        ranking=whole.ranking,
        measured=_measured(Truth.joined([part.truth for part in parts])),
        doubts=doubts,
        frequent=tuple(
            Frequent(terms.written[stem], n)
            for stem, n in (terms.likely or terms.new).most_common(MOST_FREQUENT)
            if n > 1
        ),
        likely_frequent=bool(terms.likely),
        histogram=tuple(np.sum([part.histogram for part in parts], axis=0).tolist()),
        documents=tuple(documents[:MOST_DOCUMENTS]),
        to_label=_to_label(whole.to_label),
        fit=None if finished.fit is None else _fit(finished),
    )


def widget_of(finished: Finished) -> Widget:
    """Return the documents that the page shows with their keyphrases marked."""
    (whole,) = finished.summaries
    terms = reduce(add, (part.terms for part in whole.parts))
    shown = [document for part in whole.parts for document in part.shown]
    return Widget(
        documents=shown,
        terms={
            keyphrase.stem: ShownTerm(
                terms.written.get(keyphrase.stem, ""),
                terms.new[keyphrase.stem],
                terms.known[keyphrase.stem],
            )
            for document in shown
            for keyphrase in document.keyphrases
        },
        whole=terms.whole,
        key=finished.settings.key,
    )


def _levels(parts: Sequence[KeywordSummary]) -> tuple[Level, ...]:
    count, documents, right = (
        np.sum([getattr(part, name) for part in parts], axis=0)
        for name in ("count", "with_new", "right")
    )
    at_nodes = np.sum([part.right_by_node for part in parts], axis=0)
    expected = sum(part.expected for part in parts)
    levels = []
    for level, above in enumerate(LEVELS):
        share = None
        if n := int(count[level]):
            shares = at_nodes[level] / n
            share = Expected(float(right[level] / n), float(shares.min()), float(shares.max()))
        of_all = float(right[level] / expected) if expected else 0.0
        levels.append(Level(above, n, int(documents[level]), share, of_all))
    return tuple(levels)


def _rules(whole: Whole, settings: KeywordSettings) -> Rules:
    parts = whole.parts
    return Rules(
        select=settings.select,
        fdr=settings.fdr,
        per_document=settings.per_document,
        least=whole.least,
        most=whole.most,
        beyond_limit=sum(part.beyond_limit for part in parts),
        alike=sum(part.alike for part in parts),
        parts=sum(part.parts for part in parts),
        example=next((part.example for part in parts if part.example), None),
    )


def _rate(q: CorpusGlobal, counts: Counts, settings: KeywordSettings) -> Rate:
    log_sd = q.sources.combined()[1]
    size = counts.candidates / max(counts.documents, 1)
    low, high = (size * min(q.rate * exp(away), 1.0) for away in (-log_sd, log_sd))
    return Rate(
        share=q.rate,
        log_sd=log_sd,
        each=Expected(size * q.rate, low, high),
        sources=tuple(SOURCES[i] for i in q.sources.speaking),
        given=settings.keyphrases if settings.with_phrases else settings.keyword_rate,
        is_exact=q.sources.exact,
    )


def _measured(truth: Truth) -> Measured | None:
    if not truth.true.size:
        return None
    selected, right, true = (int(n.sum()) for n in (truth.selected, truth.right, truth.true))
    return Measured(
        documents=truth.true.size,
        precision=_share(truth.right, truth.selected),
        likely=_share(truth.likely_right, truth.likely),
        expected=float(truth.expected.sum() / max(selected, 1)),
        recall=_share(truth.right, truth.true),
        f=2 * right / max(selected + true, 1),
    )


def _share(part: IntArray, whole: IntArray) -> Estimate | None:
    """Estimate the share that parts [D] are of counts [D], of which each is of one document."""
    if not whole.sum():
        return None
    counts = np.stack([part, whole - part], axis=1).ravel()
    document = np.repeat(np.arange(counts.size) // 2, counts)
    return share_of(np.repeat(np.arange(counts.size) % 2 == 0, counts), document)


def _to_label(documents: Sequence[DocumentToLabel]) -> ToLabel | None:
    if not documents:
        return None
    removes = sum(document.removes for document in documents)
    return ToLabel(tuple(documents[:MOST_LABELLED]), len(documents), removes)


def _fit(finished: Finished) -> Fit:
    of_fit: Answer | None = answer_of_fit(KeywordSettings, finished.fit)
    ranking, measured = (of_fit.ranking, of_fit.measured) if of_fit else (None, None)
    return Fit(ranking, measured, finished.files, finished.seen)
