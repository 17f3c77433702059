"""Documents to candidate words, counts, and the arrays that keyword models observe.

Three plain steps, each on one partition (a table of documents) unless said otherwise:
`prepare` reads the documents; `counts.reduce_counts` adds the partitions' counts, once;
`build` makes the graphs and features with the corpus counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from flows.keywords.counts import CorpusCounts, count_terms, fold_of
from flows.keywords.phrases import PhraseMarks, Said, mark, said_of
from flows.keywords.text import OTHER, UNKNOWN, Normaliser, Tagged, TextOptions, pos_code, tokenise
from flows.keywords.told import MAX_NAMED, Report, Told
from vbmodels.core.state import FloatArray
from vbmodels.keywords.batch import DocumentTokens, KeywordBatch
from vbmodels.keywords.features import POS_GROUPS, build_batch
from vbmodels.keywords.options import DAMPING, WINDOW

WORDS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("term", pa.string(), nullable=False),
        pa.field("stem", pa.string(), nullable=False),
        pa.field("observed", pa.bool_(), nullable=False),
    ]
)
"""One row a candidate word, in the order of the rows of `KeywordBatch`."""

_PHRASE = re.compile("A*N+")
_PHRASE_LETTER = {
    code: "A" if name == "adjective" else "N" if "noun" in name else "-"
    for code, name in enumerate(POS_GROUPS)
} | {OTHER: "-", UNKNOWN: "-"}


@dataclass(frozen=True)
class Prepared:
    """A partition before the corpus is known.

    Parameters
    ----------
    tokens
        Its candidate words as arrays.
    vocabulary
        [V] its distinct stems, sorted; ``tokens.term`` counts in it.
    words
        Rows of `WORDS`.
    counts
        Its corpus counts; see `counts.COUNTS`.
    report
        What could not be used.
    marks, phrase_counts, forms
        Where phrases are asked for: what the user says of them, the partition's counts of them
        (`phrase_counts.PHRASE_COUNTS`), and the distinct written forms of its words.
    known, several
        Known keywords with a candidate word, and those of them with several.
    """

    tokens: DocumentTokens
    vocabulary: pa.Array
    words: pa.Table
    counts: pa.Table
    report: Report
    marks: PhraseMarks | None = None
    phrase_counts: pa.Table | None = None
    forms: pa.Array | None = None
    known: int = 0
    several: int = 0

    @property
    def unmatched(self) -> int:
        """Known keywords that may be phrases and are no candidates of their documents."""
        return 0 if self.marks is None else self.marks.listed - int(self.marks.y.sum())


@dataclass(frozen=True)
class _Document:
    """One document's candidate words [n] and their occurrences [t]."""

    stems: list[str]
    surfaces: list[str]
    observed: list[bool]
    n_tokens: int
    words: list[int]  # [t] numbers in stems
    occurrences: list[tuple[int, int, bool, int, int, bool, bool]]  # [t] see _COLUMNS
    complete: bool = False
    unlabelled: bool = False
    scores: list[float] | None = None  # [n] the user's own, NaN where there is none
    forms: list[str] = field(default_factory=list)  # [t] as they are written
    said: Said | None = None  # of phrases
    known: tuple[int, int] = (0, 0)  # keywords found, and those of several words


_COLUMNS = ("position", "sentence", "title", "pos", "phrase", "capital", "upper")


def prepare(documents: pa.Table, options: TextOptions, phrases: bool = False) -> Prepared:
    """Read a partition of documents that `check.check_documents` found no fault in.

    Parameters
    ----------
    documents
        Columns ``doc_id``, ``text`` or ``tokens`` (with ``pos`` and ``sentence`` where
        known), ``keywords``, ``complete``. Where a row has tokens its text is not read.
    options
        How text becomes words.
    phrases
        Whether phrases are asked for beside words.
    """
    normalise = Normaliser(options)
    report = Report()
    kept: list[tuple[str, _Document]] = []
    for row in _rows(documents):
        document, told = _read(row, normalise, options)
        report += told
        if not document.stems:
            continue
        if phrases:
            said = said_of(
                row.get("keywords"), row.get("gold"), row.get("scored"), row.get("scores"),
                normalise,
            )  # fmt: skip
            document = replace(document, said=said)
        kept.append((row["doc_id"], document))
    known, several = (sum(one.known[i] for _, one in kept) for i in range(2))
    prepared = replace(_pack(kept, report), known=known, several=several)
    return _with_phrases(prepared, [document for _, document in kept]) if phrases else prepared


def _with_phrases(prepared: Prepared, documents: list[_Document]) -> Prepared:
    """Add what a partition's phrases need."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(f, len(numbers)) for one in documents for f in one.forms]
    said = [document.said for document in documents if document.said is not None]
    stems = prepared.vocabulary.to_pylist()
    marks, counts = mark(prepared.tokens, stems, said, np.array(codes, np.int64))
    forms = pa.array(list(numbers), pa.string())
    return replace(prepared, marks=marks, phrase_counts=counts, forms=forms)


def build(
    tokens: DocumentTokens,
    vocabulary: pa.Array,
    counts: CorpusCounts,
    n_documents: int,
    *,
    window: int = WINDOW,
    damping: float = DAMPING,
    self_loops: bool = True,
    break_at_sentences: bool = False,
) -> KeywordBatch:
    """Make the graphs and features of a partition; see `features.build_batch`.

    Parameters
    ----------
    tokens, vocabulary
        The partition, as `prepare` made them.
    counts, n_documents
        Counts and number of documents of the whole corpus.
    """
    documents, labels = counts.lookup(vocabulary)
    return build_batch(
        tokens,
        documents,
        labels,
        n_documents,
        counts.rates,
        window=window,
        damping=damping,
        self_loops=self_loops,
        break_at_sentences=break_at_sentences,
        own_labels=not counts.in_phrases,
    )


def _rows(documents: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows one at a time, in slices, so that few Python objects are alive."""
    for batch in documents.to_batches(max_chunksize=256):
        yield from batch.to_pylist()


def _read(
    row: dict[str, Any], normalise: Normaliser, options: TextOptions
) -> tuple[_Document, Report]:
    tagged = _tagged(row, options)
    stems = normalise.stems(tagged.tokens, tagged.pos)
    counted = Counter(stem for stem in stems if stem is not None)
    least = options.least(len(stems))
    places = {stem: i for i, stem in enumerate(counted) if counted[stem] >= least}
    known, absent, sizes = _observed(row, normalise, places, counted)
    shortened = Told()
    if len(places) > options.max_words:
        shortened = Told(1, (f"{row['doc_id']} ({len(places)})",))
        places = _most_frequent(places, counted, known, options.max_words)
    numbers = {stem: i for i, stem in enumerate(places)}
    complete = bool(row.get("complete"))
    document = _occurrences(tagged, stems, numbers, known)
    document = replace(
        document,
        complete=complete,
        unlabelled=row.get("keywords") is None and not complete,
        scores=_scores(row, normalise, numbers),
        known=sizes,
    )
    return document, Report(
        documents=1,
        tokens=len(stems),
        words=len(numbers),
        observed=sum(document.observed),
        without_words=Told() if numbers else Told(1, (row["doc_id"],)),
        absent_keywords=absent,
        shortened=shortened,
    )


def _tagged(row: dict[str, Any], options: TextOptions) -> Tagged:
    tokens = row.get("tokens")
    if tokens is None:
        return tokenise(row.get("text") or "", options)
    pos = row.get("pos")
    codes = [UNKNOWN] * len(tokens) if pos is None else [pos_code(tag) for tag in pos]
    return Tagged(tokens, codes, row.get("sentence"))


def _observed(
    row: dict[str, Any], normalise: Normaliser, places: dict[str, int], counted: Counter[str]
) -> tuple[set[str], Told, tuple[int, int]]:
    """Stems of the known keywords' words that are candidates, the keywords that lack one, sizes.

    The sizes are how many keywords have a candidate word, and how many of them several.
    """
    found_any = found_several = 0
    known: set[str] = set()
    absent = []
    for keyword in row.get("keywords") or ():
        found, missing = normalise.keyword(keyword, places)
        known.update(found)
        found_any += bool(found)
        found_several += len(found) > 1
        if missing:
            reasons = (
                f"{word}: {'too rare' if normalise(word) in counted else 'absent'}"
                for word in missing
            )
            absent.append(f"{row['doc_id']}: {keyword} ({', '.join(reasons)})")
    told = Told(len(absent), tuple(absent[:MAX_NAMED]))
    return known, told, (found_any, found_several)


def _scores(
    row: dict[str, Any], normalise: Normaliser, numbers: dict[str, int]
) -> list[float] | None:
    """Return the user's score of every candidate: the largest of what has its stem."""
    if row.get("scored") is None or row.get("scores") is None:
        return None
    found: dict[str, float] = {}
    for term, score in zip(row["scored"], row["scores"], strict=True):
        for word in normalise.keyword(term, numbers)[0]:
            found[word] = max(score, found.get(word, -math.inf))
    return [found.get(stem, math.nan) for stem in numbers]


def _most_frequent(
    places: dict[str, int], counted: Counter[str], known: set[str], most: int
) -> dict[str, int]:
    """Keep the observed and the most frequent words, of equal ones the earlier, in order."""
    ranked = sorted(places, key=lambda stem: (stem not in known, -counted[stem], places[stem]))
    chosen = set(ranked[: max(most, len(known))])
    return {stem: place for stem, place in places.items() if stem in chosen}


def _occurrences(
    tagged: Tagged,
    stems: list[str | None],
    numbers: dict[str, int],
    known: set[str],
) -> _Document:
    """Gather where and how every candidate word occurs."""
    sentence = tagged.sentence
    phrase = _phrases(tagged)
    title = sentence[0] if sentence else None
    words, occurrences, written = [], [], []
    forms: dict[tuple[int, str], int] = {}
    before = None
    for place, stem in enumerate(stems):
        word = numbers.get(stem) if stem is not None else None
        where = UNKNOWN if sentence is None else sentence[place]
        if word is not None:
            token = tagged.tokens[place]
            upper = len(token) > 1 and token.isupper()
            capital = place > 0 and where == before and token[0].isupper()
            words.append(word)
            written.append(token)
            form = word, token if upper or capital else token.lower()
            forms[form] = forms.get(form, 0) + 1
            in_title = sentence is not None and where == title
            code = tagged.pos[place]
            occurrences.append((place, where, in_title, code, phrase[place], capital, upper))
        before = where
    return _Document(
        stems=list(numbers),
        surfaces=_most_frequent_forms(forms, len(numbers)),
        observed=[stem in known for stem in numbers],
        n_tokens=len(stems),
        words=words,
        occurrences=occurrences,
        forms=written,
    )


def _most_frequent_forms(forms: dict[tuple[int, str], int], size: int) -> list[str]:
    """Return the most frequent form of each word; of equals the earlier."""
    best, found = [0] * size, [""] * size
    for (word, form), times in forms.items():
        if times > best[word]:
            best[word], found[word] = times, form
    return found


def _phrases(tagged: Tagged) -> list[int]:
    """Length of the noun phrase (adjectives, then nouns, in one sentence) at each token."""
    length = [0] * len(tagged.tokens)
    if UNKNOWN in tagged.pos:
        return length
    letters = "".join(map(_PHRASE_LETTER.__getitem__, tagged.pos))
    for start, end in _sentences(tagged):
        for found in _PHRASE.finditer(letters, start, end):
            size = found.end() - found.start()
            length[found.start() : found.end()] = [size] * size
    return length


def _sentences(tagged: Tagged) -> Iterable[tuple[int, int]]:
    """First and last-but-one token of each sentence."""
    n, sentence = len(tagged.tokens), tagged.sentence
    if sentence is None:
        return [(0, n)]
    cuts = [i for i in range(1, n) if sentence[i] != sentence[i - 1]]
    return pairwise([0, *cuts, n])


def _all_scores(documents: list[_Document]) -> FloatArray | None:
    """Return the words' scores [W]; None where no document has any."""
    if all(document.scores is None for document in documents):
        return None
    parts = [
        np.full(len(document.stems), np.nan) if document.scores is None else document.scores
        for document in documents
    ]
    return np.concatenate(parts).astype(np.float64)


def _pack(kept: list[tuple[str, _Document]], report: Report) -> Prepared:
    """Lay the documents end to end."""
    documents = [document for _, document in kept]
    sizes = np.array([len(document.stems) for document in documents], np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    folds = np.array([fold_of(doc_id) for doc_id, _ in kept], np.int64)
    stems = [stem for document in documents for stem in document.stems]
    surfaces = [surface for document in documents for surface in document.surfaces]
    vocabulary, term = np.unique(np.array(stems, dtype=object), return_inverse=True)
    observed = np.array([flag for document in documents for flag in document.observed], bool)
    occurrences = [row for document in documents for row in document.occurrences]
    columns = dict(
        zip(_COLUMNS, np.array(occurrences, np.int64).reshape(-1, len(_COLUMNS)).T, strict=True)
    )
    word = [
        np.array(document.words, np.int64) + start
        for document, start in zip(documents, offsets, strict=False)
    ]
    words = pa.table(
        [
            pa.array(
                np.repeat(np.array([doc_id for doc_id, _ in kept], object), sizes), pa.string()
            ),
            pa.array(surfaces, pa.string()),
            pa.array(stems, pa.string()),
            pa.array(observed),
        ],
        schema=WORDS,
    )
    tokens = DocumentTokens(
        term=term.astype(np.int64),
        y=observed,
        offsets=offsets,
        fold=folds,
        complete=np.array([document.complete for document in documents], bool),
        n_tokens=np.array([document.n_tokens for document in documents], np.int64),
        length=np.array([len(surface) for surface in surfaces], np.int64),
        hyphen=np.array(["-" in surface for surface in surfaces], bool),
        word=np.concatenate(word) if word else np.zeros(0, np.int64),
        position=columns["position"].copy(),
        sentence=columns["sentence"].copy(),
        title=columns["title"].astype(bool),
        pos=columns["pos"].copy(),
        phrase=columns["phrase"].copy(),
        capital=columns["capital"].astype(bool),
        upper=columns["upper"].astype(bool),
        unlabelled=np.array([document.unlabelled for document in documents], bool),
        score=_all_scores(documents),
    )
    counts = count_terms(words["stem"], np.repeat(folds, sizes), words["observed"])
    return Prepared(tokens, pa.array(vocabulary, pa.string()), words, counts, report)
