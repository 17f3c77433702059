"""Documents of words as the arrays that keyword models observe, with plain rules for text.

The pipeline ``keywords`` has more of them (parts of speech, sentences, stemmers); here a word
is a token in lower case with a letter in it, and a stemmer is whatever function is passed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords.documents import DocumentTokens, KeywordBatch
from vbmodels.keywords.features import N_FOLDS, Elsewhere, build_batch, fold_of, label_rates
from vbmodels.keywords.phrase_mates import in_phrases

_WORD = re.compile(r"[^\W\d_][\w'-]*")
_NO_WORD = re.compile(r"[=()\[\]{}<>|\\@^~*\"$%;:,?!]")
_LONGEST = 50
_UNKNOWN = -1
_UNSEEN = -1  # fold of a document that is not part of the counts


@dataclass(frozen=True)
class WordRules:
    """How documents become candidate words.

    Attributes
    ----------
    tokenizer
        From text to tokens; None: letters, then letters, digits, hyphens and apostrophes.
    stop_words
        Words in lower case that are no candidates.
    stemmer
        From a word in lower case to its stem; None leaves it as it is.
    min_count
        Least occurrences of a candidate in its document.
    """

    tokenizer: Callable[[str], Sequence[str]] | None
    stop_words: frozenset[str]
    stemmer: Callable[[str], str] | None
    min_count: int

    def tokens(self, document: Any) -> list[str]:
        """Return a document's tokens; a list of them is taken as it is."""
        if not isinstance(document, str):
            return [str(token) for token in document]
        return list(self.tokenizer(document) if self.tokenizer else _WORD.findall(document))

    def stem(self, token: str) -> str | None:
        """Return the stem of a candidate, None of what is no word or a stop word."""
        word = unicodedata.normalize("NFKC", token).lower()
        if word in self.stop_words or len(word) > _LONGEST or _NO_WORD.search(word):
            return None
        if not any(map(str.isalpha, word)):
            return None
        return self.stemmer(word) if self.stemmer else word


@dataclass(frozen=True)
class Corpus:
    """In how many documents of each fold a term is a candidate, and a known keyword.

    ``in_phrases`` is whether words are known several at once (`vbmodels.keywords.phrase_mates`).
    """

    documents: dict[str, IntArray]
    labels: dict[str, IntArray]
    n_documents: int
    in_phrases: bool

    @property
    def rates(self) -> FloatArray:
        """Label rates [N_FOLDS + 1] as the features take them."""
        none = np.zeros(N_FOLDS, np.int64)
        return label_rates(sum(self.documents.values(), none), sum(self.labels.values(), none))


@dataclass(frozen=True)
class ReadDocuments:
    """Documents that were read.

    Attributes
    ----------
    stems, surfaces
        Of each candidate word, document after document, [W].
    tokens
        The rest of what is known of them.
    kept
        Numbers of the documents that have a candidate word.
    known, several
        Known keywords with a candidate word, and those of them with several.
    """

    stems: list[str]
    surfaces: list[str]
    tokens: DocumentTokens
    kept: IntArray
    known: int
    several: int

    def batch(self, corpus: Corpus, window: int, damping: float) -> KeywordBatch:
        """Make graphs and features with a corpus's counts."""
        none = np.zeros(N_FOLDS, np.int64)
        documents, labels = (
            np.array([counts.get(stem, none) for stem in self.stems]).reshape(-1, N_FOLDS)
            for counts in (corpus.documents, corpus.labels)
        )
        tokens = self.tokens
        return build_batch(
            tokens,
            Elsewhere.of(documents, labels, tokens.fold[tokens.document_of_word]),
            corpus.n_documents,
            corpus.rates,
            window=window,
            damping=damping,
            own_labels=not corpus.in_phrases,
        )


def count_terms(parts: Sequence[ReadDocuments]) -> Corpus:
    """Count the terms of all documents, whatever parts they were read in."""
    documents: dict[str, IntArray] = {}
    labels: dict[str, IntArray] = {}
    for part in parts:
        folds = part.tokens.fold[part.tokens.document_of_word]
        for stem, fold, observed in zip(part.stems, folds, part.tokens.y, strict=True):
            for counts, one in ((documents, 1), (labels, int(observed))):
                counts.setdefault(stem, np.zeros(N_FOLDS, np.int64))[fold] += one
    together = in_phrases(sum(p.known for p in parts), sum(p.several for p in parts))
    return Corpus(documents, labels, sum(len(part.kept) for part in parts), together)


def read_documents(
    documents: Sequence[Any],
    keywords: Sequence[Any],
    complete: Sequence[bool],
    ids: Sequence[str | None],
    rules: WordRules,
    scores: Sequence[Any] | None = None,
) -> ReadDocuments:
    """Turn documents into candidate words.

    Parameters
    ----------
    documents
        Texts, or lists of tokens.
    keywords
        Known keywords of each, in words; None where nobody has looked for any.
    complete
        Whether they are all known.
    ids
        Names, from which folds follow; None of a document outside of the counts.
    rules
        How text becomes words.
    scores
        Of each a mapping from words to the user's own scores, or None.
    """
    read = [
        _read(rules.tokens(document), known, rules)
        for document, known in zip(documents, keywords, strict=True)
    ]
    kept = [d for d, document in enumerate(read) if document.stems]
    parts = [read[d] for d in kept]
    stems = [stem for part in parts for stem in part.stems]
    surfaces = [surface for part in parts for surface in part.surfaces]
    sizes = [len(part.stems) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    words = [np.array(p.word, np.int64) + o for p, o in zip(parts, offsets, strict=False)]
    word = np.concatenate([np.zeros(0, np.int64), *words])
    position = np.array([place for part in parts for place in part.position], np.int64)
    _, term = np.unique(np.array(stems, object), return_inverse=True)
    nothing = np.full(len(word), _UNKNOWN, np.int64)
    names = [ids[d] for d in kept]
    folds = [_UNSEEN if name is None else fold_of(name) for name in names]
    tokens = DocumentTokens(
        term=term.astype(np.int64),
        y=np.array([flag for part in parts for flag in part.observed], bool),
        offsets=offsets,
        fold=np.array(folds, np.int64),
        complete=np.array([bool(complete[d]) for d in kept], bool),
        n_tokens=np.array([part.n_tokens for part in parts], np.int64),
        length=np.array([len(surface) for surface in surfaces], np.int64),
        hyphen=np.array(["-" in surface for surface in surfaces], bool),
        word=word,
        position=position,
        sentence=nothing,
        title=np.zeros(len(word), bool),
        pos=nothing,
        phrase=np.zeros(len(word), np.int64),
        capital=np.array([flag for part in parts for flag in part.capital], bool),
        upper=np.array([flag for part in parts for flag in part.upper], bool),
        unlabelled=np.array([keywords[d] is None and not complete[d] for d in kept], bool),
        score=None if scores is None else _scores(parts, [scores[d] for d in kept], rules),
    )
    known = [size for part in parts for size in part.sizes]
    several = sum(size > 1 for size in known)
    return ReadDocuments(
        stems, surfaces, tokens, np.array(kept, np.int64), known=len(known), several=several
    )


def _scores(
    parts: Sequence[_Document], scores: Sequence[Any], rules: WordRules
) -> FloatArray | None:
    """Return the words' scores [W], the largest of what has their stem; NaN where there is none.

    Raises
    ------
    ValueError
        If a score is not finite.
    """
    if all(own is None for own in scores):
        return None
    found = []
    for part, own in zip(parts, scores, strict=True):
        best: dict[str, float] = {}
        for term, score in ({} if own is None else own).items():
            if not math.isfinite(score):
                raise ValueError(f"expected finite scores, got {score} for {term!r}")
            for stem in filter(None, map(rules.stem, str(term).split())):
                best[stem] = max(float(score), best.get(stem, -math.inf))
        found += [best.get(stem, math.nan) for stem in part.stems]
    return np.array(found, np.float64)


@dataclass(frozen=True)
class _Document:
    stems: list[str]
    surfaces: list[str]
    observed: list[bool]
    sizes: list[int]  # of each known keyword that has one, its number of candidate words
    n_tokens: int
    word: list[int]
    position: list[int]
    capital: list[bool]
    upper: list[bool]


def _read(tokens: list[str], keywords: Any, rules: WordRules) -> _Document:
    stems = [rules.stem(token) for token in tokens]
    counted = Counter(stem for stem in stems if stem is not None)
    numbers = {
        stem: i for i, stem in enumerate(s for s in counted if counted[s] >= rules.min_count)
    }
    matched = [
        [stem for stem in map(rules.stem, str(phrase).split()) if stem in numbers]
        for phrase in ([] if keywords is None else keywords)
    ]
    known = {stem for found in matched for stem in found}
    sizes = [len(found) for found in matched if found]
    observed = [stem in known for stem in numbers]
    found = _Document(list(numbers), [], observed, sizes, len(tokens), [], [], [], [])
    forms: list[Counter[str]] = [Counter() for _ in numbers]
    for place, (token, stem) in enumerate(zip(tokens, stems, strict=True)):
        word = None if stem is None else numbers.get(stem)
        if word is None:
            continue
        upper = len(token) > 1 and token.isupper()
        capital = place > 0 and token[0].isupper()
        forms[word][token if upper or capital else token.lower()] += 1
        found.word.append(word)
        found.position.append(place)
        found.capital.append(capital)
        found.upper.append(upper)
    found.surfaces.extend(form.most_common(1)[0][0] for form in forms)
    return found
