"""What one partition of documents adds to the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.evaluate.estimate import Estimate, mean_of
from flows.keywords.texts import ShownDocument
from vbmodels.core.state import BoolArray, FloatArray, IntArray

MOST_TERMS = 5000  # carried from each partition
MOST_DOCUMENTS = 20  # whose keyphrases are listed
MOST_NEXT = 8  # candidates of a document of which none is selected
BINS = 40
LEVELS = 0.0, 0.5, 0.8  # probabilities above which selected ones are counted
LIKELY = LEVELS[1]


@dataclass(frozen=True)
class Term:
    """A candidate of a document; ``part_of`` is a longer keyphrase that has its words in a row."""

    text: str
    probability: float
    part_of: str = ""


@dataclass(frozen=True)
class Document:
    """A document: its known keyphrases, the new ones, best first, and what comes next."""

    name: str
    known: tuple[str, ...]
    new: tuple[Term, ...]
    next: tuple[Term, ...]

    @property
    def likely(self) -> list[Term]:
        """The new ones that are more probable than not."""
        return [term for term in self.new if term.probability > LIKELY]

    @property
    def others(self) -> list[Term]:
        """The other new ones."""
        return [term for term in self.new if term.probability <= LIKELY]

    @property
    def worth(self) -> int:
        """What documents are sorted by: likely ones count most, then new ones, then known ones."""
        return 10**6 * len(self.likely) + 10**3 * len(self.new) + min(len(self.known), 6)


@dataclass(frozen=True)
class DocumentToLabel:
    """A document worth labelling: a row of the table ask/."""

    place: int
    doc_id: str
    candidates: int
    known: int
    expected: float
    removes: float


@dataclass(frozen=True)
class TermCounts:
    """Keyphrases of a corpus, or of a part of it, by stem.

    Attributes
    ----------
    new, known, likely
        In how many documents each is found, given, and found with a probability above 0.5:
        `MOST_TERMS` of a partition.
    written
        How each is written.
    whole
        Whether all are here.
    """

    new: Counter[str]
    known: Counter[str]
    likely: Counter[str]
    written: dict[str, str]
    whole: bool = True

    def __add__(self, other: TermCounts) -> TermCounts:
        return TermCounts(
            self.new + other.new,
            self.known + other.known,
            self.likely + other.likely,
            other.written | self.written,
            self.whole and other.whole,
        )


def _count_terms(table: pa.Table, new: Any, observed: Any, likely: Any) -> TermCounts:
    written: dict[str, str] = {}
    counts, whole = [], True
    for rows in (new, observed, likely):
        columns = table.select(["stem", "term"]).filter(pa.array(rows)).to_pydict()
        for stem, term in zip(columns["stem"], columns["term"], strict=True):
            written.setdefault(stem, term)
        count = Counter(columns["stem"])
        whole &= len(count) <= MOST_TERMS
        counts.append(Counter(dict(count.most_common(MOST_TERMS))))
    new_ones, known, sure = counts
    spellings = {stem: written[stem] for stem in {**new_ones, **known, **sure}}
    return TermCounts(new_ones, known, sure, spellings, whole)


@dataclass(frozen=True)
class Truth:
    """Of every document [D] whose true keyphrases were given, its candidates that were not known.

    Attributes
    ----------
    selected, right
        How many are selected, and how many of these are true.
    likely, likely_right
        The same of those that are more probable than not.
    true
        How many are true.
    expected
        How many of the selected ones the model expects to be true.
    """

    selected: IntArray
    right: IntArray
    likely: IntArray
    likely_right: IntArray
    true: IntArray
    expected: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[Truth]) -> Truth:
        """Put documents of several partitions together."""
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class KeywordSummary:
    """What one partition adds to the answer. A new candidate is a selected one, not known before.

    Attributes
    ----------
    documents, candidates, observed
        How many documents there are, candidates, and known candidates.
    count, with_new
        [L] new ones more probable than each of `LEVELS`, and documents that have one.
    right, right_by_node
        [L] and [L, K]: how many of them the model expects to be right, and at each node of the
        rate.
    expected
        The sum of the probabilities of all candidates that were not known.
    own_name
        How many of the likely new ones are the name of their document.
    parts, example
        How many new ones are words in a row of a longer selected or known one; one of them.
    beyond_limit, alike
        Candidates above the least probability that are not selected: beyond the most that a
        document may have; and parts or near copies of others.
    terms, histogram
        Keyphrases by stem, and [BINS] candidates that were not known, by probability.
    truth, examples, shown
        What true keyphrases say, the first documents, and those whose text the page shows.
    """

    documents: int
    candidates: int
    observed: int
    count: IntArray
    with_new: IntArray
    right: FloatArray
    right_by_node: FloatArray
    expected: float
    own_name: int
    parts: int
    example: Term | None
    beyond_limit: int
    alike: int
    terms: TermCounts
    histogram: IntArray
    truth: Truth
    examples: tuple[Document, ...]
    shown: tuple[ShownDocument, ...]


@dataclass(frozen=True)
class Ranking:
    """Known keyphrases among the best of their text, ranked as if its list were not known.

    Attributes
    ----------
    documents, known, best
        Documents with a list; known ones, at most ``best`` of each.
    by_model, by_tf_idf
        Shares of them among the ``best`` by this model, and by TF-IDF.
    apart
        The former less the latter.
    """

    documents: int
    known: int
    best: int
    by_model: float
    by_tf_idf: float
    apart: Estimate


@dataclass(frozen=True)
class Whole:
    """All partitions once the selection is decided, and what only all of them together say.

    ``least`` and ``most`` are those of `flows.keywords.answer.Rules`.
    """

    parts: Sequence[KeywordSummary]
    least: float | None
    most: int | None
    to_label: Sequence[DocumentToLabel]
    ranking: Ranking | None = None


def ranking_of(known: IntArray, by_model: IntArray, by_tf_idf: IntArray, best: int) -> Ranking:
    """Compare rankings by the known ones of each document [D] that they have among the ``best``."""
    possible = np.minimum(known, best)
    document = np.repeat(np.arange(possible.size), possible)
    apart = ((by_model - by_tf_idf) / np.maximum(possible, 1))[document]
    total = int(possible.sum())
    return Ranking(
        documents=possible.size,
        known=total,
        best=best,
        by_model=float(by_model.sum() / total),
        by_tf_idf=float(by_tf_idf.sum() / total),
        apart=mean_of(apart, document),
    )


def summarise(
    table: pa.Table,
    offsets: IntArray,
    by_node: FloatArray,
    shown: tuple[ShownDocument, ...],
    beyond_limit: int,
    alike: int,
) -> KeywordSummary:
    """Summarise one partition's rows of the keywords table.

    ``by_node`` [K, M] are the rows' probabilities at each node of the rate.
    """
    probability = table["probability"].to_numpy()
    observed, selected = (table[name].to_numpy().astype(bool) for name in ("observed", "selected"))
    new = selected & ~observed
    above = [new & ((probability > level) | (level == 0.0)) for level in LEVELS]
    likely = above[1]
    document = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    parts = np.flatnonzero(table["part_of"].is_valid())
    example = None
    if len(parts):
        term, whole = (table[name][parts[0]].as_py() for name in ("term", "part_of"))
        example = Term(term, probability[parts[0]], whole)
    return KeywordSummary(
        documents=len(offsets) - 1,
        candidates=len(table),
        observed=int(observed.sum()),
        count=np.array([rows.sum() for rows in above]),
        with_new=np.array([np.unique(document[rows]).size for rows in above]),
        right=np.array([probability[rows].sum() for rows in above]),
        right_by_node=np.array([by_node[:, rows].sum(axis=1) for rows in above]),
        expected=float(probability[~observed].sum()),
        own_name=int(np.sum(likely & table["own_name"].to_numpy().astype(bool))),
        parts=len(parts),
        example=example,
        beyond_limit=beyond_limit,
        alike=alike,
        terms=_count_terms(table, new, observed, likely),
        histogram=np.histogram(probability[~observed], bins=BINS, range=(0.0, 1.0))[0],
        truth=_truth(table["gold"], document, probability, observed, new, likely),
        examples=_examples(table, offsets, probability, observed, new),
        shown=shown,
    )


def _truth(
    gold: pa.ChunkedArray,
    document: IntArray,
    probability: FloatArray,
    observed: BoolArray,
    new: BoolArray,
    likely: BoolArray,
) -> Truth:
    # The words that the user gave prove nothing of what was found.
    rows = pc.is_valid(gold).to_numpy().astype(bool) & ~observed
    true = pc.fill_null(gold, False).to_numpy().astype(bool)
    _, number = np.unique(document[rows], return_inverse=True)
    size = number.max(initial=-1) + 1

    def total(of_candidate: FloatArray | BoolArray) -> FloatArray:
        return np.bincount(number, of_candidate[rows], size).astype(float)

    def count(which: BoolArray) -> IntArray:
        return total(which).astype(np.int64)

    return Truth(
        selected=count(new),
        right=count(new & true),
        likely=count(likely),
        likely_right=count(likely & true),
        true=count(true),
        expected=total(new * probability),
    )


def _examples(
    table: pa.Table,
    offsets: IntArray,
    probability: FloatArray,
    observed: BoolArray,
    new: BoolArray,
) -> tuple[Document, ...]:
    """Take the documents with most likely, new and known keyphrases."""
    counts = [
        np.diff(np.concatenate([[0], np.cumsum(rows)])[offsets])
        for rows in (new & (probability > LIKELY), new, observed)
    ]
    likely, selected, known = counts
    worth = 10**6 * likely + 10**3 * selected + np.minimum(known, 6)
    examples = []
    for d in np.argsort(-worth, kind="stable")[:MOST_DOCUMENTS]:
        first, last = offsets[d], offsets[d + 1]
        rows = table.slice(first, last - first).select(["doc_id", "term", "part_of"]).to_pylist()
        order = np.argsort(-probability[first:last], kind="stable")
        is_known, taken = observed[first:last], new[first:last]
        best = [
            Term(rows[i]["term"], float(probability[first + i]), rows[i]["part_of"] or "")
            for i in order
        ]
        chosen = list(zip(order, best, strict=True))
        examples.append(
            Document(
                name=rows[0]["doc_id"],
                known=tuple(rows[i]["term"] for i in np.flatnonzero(is_known)),
                new=tuple(term for i, term in chosen if taken[i]),
                next=tuple(term for i, term in chosen if not (taken[i] or is_known[i]))[:MOST_NEXT],
            )
        )
    return tuple(examples)
