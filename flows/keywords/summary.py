"""What one partition of documents adds to the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.keywords.settings import KeywordSettings
from flows.keywords.texts import ShownDocument
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.phrases.features import PHRASE_FEATURES

MOST_TERMS = 5000  # carried from each partition
MOST_DOCUMENTS = 300  # in the table
MOST_LIKELY = 8  # words of a document, where none is found
BINS = 40
LEVELS = 0.5, 0.8  # probabilities from which the report counts new keywords


@dataclass(frozen=True)
class Names:
    """What the report calls a unit, the setting that gives its rate, and its features."""

    unit: str
    units: str
    key: str
    keys: str
    rate: str
    features: tuple[str, ...]


WORDS = Names("word", "words", "keyword", "keywords", "keyword_rate", FEATURE_NAMES)


PHRASES = Names("phrase", "phrases", "keyphrase", "keyphrases", "keyphrases", PHRASE_FEATURES)


def names_of(settings: KeywordSettings) -> Names:
    """Return what the candidates are called."""
    return PHRASES if settings.with_phrases else WORDS


@dataclass(frozen=True)
class Example:
    """One document's known keyphrases, what was found, and what comes next."""

    doc_id: str
    known: tuple[str, ...]
    found: tuple[tuple[str, float], ...]  # with their probabilities, best first
    likely: tuple[tuple[str, float], ...]  # the best of those that are neither
    wholes: dict[str, str]  # of those found that are part of a longer phrase, that


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


def _count_terms(table: pa.Table, found: Any, observed: Any, likely: Any) -> TermCounts:
    written: dict[str, str] = {}
    counts, whole = [], True
    for rows in (found, observed, likely):
        own = table.select(["stem", "term"]).filter(pa.array(rows)).to_pydict()
        for stem, term in zip(own["stem"], own["term"], strict=True):
            written.setdefault(stem, term)
        count = Counter(own["stem"])
        whole &= len(count) <= MOST_TERMS
        counts.append(Counter(dict(count.most_common(MOST_TERMS))))
    new, known, sure = counts
    written = {stem: written[stem] for stem in {**new, **known, **sure}}
    return TermCounts(new, known, sure, written, whole)


@dataclass(frozen=True)
class Given:
    """The known keyphrases of the input: how many, and how many are in no text of theirs."""

    listed: int
    absent: int


@dataclass(frozen=True)
class HiddenLists:
    """Shares of the known keyphrases that are among the best where their lists are hidden.

    ``known``: at most so many of a document as there are best ones.
    ``apart``: the model's share less that of tf-idf, with its 95 % interval by the bootstrap over
    the documents.
    """

    documents: int
    known: int
    by_model: float
    by_tf_idf: float
    apart: tuple[float, float, float]


@dataclass(frozen=True)
class KeywordSummary:
    """What one partition adds to the report.

    Attributes
    ----------
    histogram
        [BINS] candidates that were not observed, by probability.
    confusion
        [4] new candidates with known truth: true and selected, true and not selected, false and
        selected, neither.
    expected_false
        Of the new selected ones, how many the model expects to be no keywords.
    expected_true
        [K] how many it expects to be keywords at each node of the rate.
    above
        [L, 2] new ones more probable than each of `LEVELS`, and the sum of their probabilities.
    by_rate
        [L + 1, 2] the sum of all new ones, and of those above each level, at half the rate and at
        twice it; None where it is not the user's.
    expected
        The sum of the probabilities of all candidates.
    with_new, with_likely
        How many documents have a new keyword, and one with a probability above 0.5.
    own_name_likely, own_name_right
        How many of those above 0.5 are the name of their document, and how many of these are
        expected to be right.
    parts, example
        How many new ones are words in a row of a longer selected or known one of their document;
        one of them.
    with_known
        How many have a known one.
    beyond_limit, alike
        New candidates above the least probability that are not selected: beyond the most that a
        document may have; and parts or near copies of others.
    cut
        The least probability that is selected in all partitions, and how many keywords a document
        may have, its known ones counted; None where documents have cuts of their own or no limit.
        The first partition has it.
    to_label
        Documents worth labelling, of all partitions: the first one has them.
    shown
        Documents whose text the report shows.
    hidden
        How many known ones are found where their lists are hidden; the first partition has it.
    scored
        Whether they were scored by an earlier fit.
    """

    documents: int
    candidates: int
    observed: int
    selected: int
    expected_false: float
    expected_true: FloatArray
    terms: TermCounts
    histogram: IntArray
    confusion: IntArray
    examples: tuple[Example, ...]
    r_hat: float | None
    above: FloatArray
    by_rate: FloatArray | None = None
    expected: float = 0.0
    with_new: int = 0
    with_likely: int = 0
    own_name_likely: int = 0
    own_name_right: float = 0.0
    parts: int = 0
    example: str = ""
    with_known: int = 0
    beyond_limit: int = 0
    alike: int = 0
    cut: tuple[float | None, int | None] = (None, None)
    to_label: tuple[DocumentToLabel, ...] = ()
    shown: tuple[ShownDocument, ...] = ()
    hidden: HiddenLists | None = None
    scored: bool = False


def summarise(
    table: pa.Table, gold: pa.ChunkedArray, offsets: IntArray, by_node: FloatArray,
    by_rate: FloatArray | None, r_hat: float | None, shown: tuple[ShownDocument, ...] = (),
) -> KeywordSummary:  # fmt: skip
    """Summarise one partition's rows of the keywords table, and its sampler if there was one.

    ``by_node`` [K, M] are the rows' probabilities at each node of the rate; ``by_rate`` [2, M] at
    half of a given one and at twice.
    """
    probability = table["probability"].to_numpy()
    observed, selected = (table[name].to_numpy().astype(bool) for name in ("observed", "selected"))
    found = selected & ~observed
    sure = found & (probability > LEVELS[0])
    own = table["own_name"].to_numpy().astype(bool)
    new, given, likely = (
        np.diff(np.concatenate([[0], np.cumsum(on)])[offsets]) for on in (found, observed, sure)
    )
    # The words that the user gave prove nothing of what was found.
    known = pc.is_valid(gold).to_numpy().astype(bool) & ~observed
    true = pc.fill_null(gold, False).to_numpy().astype(bool)
    whole = table["part_of"].to_pylist()
    part = np.array([one is not None for one in whole], bool)
    confusion = [
        int(np.sum(known & (true == t) & (selected == s))) for t in (True, False)
        for s in (True, False)
    ]  # fmt: skip
    return KeywordSummary(
        documents=len(offsets) - 1,
        candidates=len(table),
        observed=int(observed.sum()),
        selected=int(selected.sum()),
        expected_false=float(np.sum(1.0 - probability[found])),
        expected_true=by_node[:, found].sum(axis=1),
        terms=_count_terms(table, found, observed, sure),
        histogram=np.histogram(probability[~observed], bins=BINS, range=(0.0, 1.0))[0],
        confusion=np.array(confusion, np.int64),
        examples=_examples(table, offsets, probability, observed, selected),
        r_hat=r_hat,
        above=_above(probability[found]),
        by_rate=None
        if by_rate is None or not len(by_rate)
        else np.array([by_rate[:, found & (probability > p)].sum(1) for p in (0.0, *LEVELS)]),
        expected=float(probability.sum()),
        with_new=int(np.count_nonzero(new)),
        with_likely=int(np.count_nonzero(likely)),
        own_name_likely=int(np.count_nonzero(sure & own)),
        own_name_right=float(probability[sure & own].sum()),
        parts=int(np.count_nonzero(part)),
        example=next(
            (f"{table['term'][int(i)].as_py()} of {whole[i]}" for i in np.flatnonzero(part)), ""
        ),
        with_known=int(np.count_nonzero(given)),
        shown=shown,
    )


def _above(probability: FloatArray) -> FloatArray:
    """Return how many are more probable than each of `LEVELS`, and their sum, [L, 2]."""
    counted = [probability[probability > level] for level in LEVELS]
    return np.array([(one.size, one.sum()) for one in counted])


def _examples(
    table: pa.Table, offsets: IntArray, probability: Any, observed: Any, selected: Any,
) -> tuple[Example, ...]:  # fmt: skip
    """Take the documents with most known and found keyphrases, then in order."""
    worth = np.zeros(0, int)
    if len(observed):
        known = np.add.reduceat(observed.astype(int), offsets[:-1])
        found = np.add.reduceat((selected & ~observed).astype(int), offsets[:-1])
        likely = np.add.reduceat((probability > LEVELS[0]) & selected & ~observed, offsets[:-1])
        worth = _worth_showing(known, found, likely)
    chosen = sorted(np.argsort(-worth, kind="stable")[:MOST_DOCUMENTS])
    examples = []
    for d in chosen:
        first = int(offsets[d])
        own = slice(first, int(offsets[d + 1]))
        terms = table["term"].slice(first, own.stop - first).to_pylist()
        sure, known, taken = (a[own].tolist() for a in (probability, observed, selected))
        unknown = sorted((i for i, k in enumerate(known) if not k), key=lambda i: -sure[i])
        best = [i for i in unknown if taken[i]]
        whole = table["part_of"].slice(first, len(terms)).to_pylist()
        rest = [i for i in unknown if not taken[i]][:MOST_LIKELY]
        examples.append(
            Example(
                doc_id=table["doc_id"][first].as_py(),
                known=tuple(term for term, k in zip(terms, known, strict=True) if k),
                found=tuple((terms[i], sure[i]) for i in best),
                likely=tuple((terms[i], sure[i]) for i in rest),
                wholes={terms[i]: whole[i] for i in best if whole[i]},
            )
        )
    return tuple(examples)


def _worth_showing(known: Any, found: Any, likely: Any) -> Any:
    """Return what an example shows: most where many likely ones are found, then many of any."""
    return 1e6 * likely + 1e3 * found + np.minimum(known, 6)


def order_of(example: Example) -> float:
    """Return what examples are sorted by: those that show most first."""
    likely = sum(p > LEVELS[0] for _, p in example.found)
    return -float(_worth_showing(len(example.known), len(example.found), likely))
