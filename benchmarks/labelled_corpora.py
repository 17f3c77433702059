"""A prior for `KeywordExtractor` and the pipeline, learnt from labelled documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.prior_learning import WholeCorpus, learn_prior
from vbmodels.core.state import BoolArray, IntArray
from vbmodels.estimators.documents import Corpus, ReadPart
from vbmodels.keywords.learnt_prior import ANY, MARKED, SOME, LearntPrior
from vbmodels.keywords.options import DAMPING, WINDOW
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.text.candidate_words import NO_VOCABULARY
from vbmodels.text.candidates import fold_of
from vbmodels.text.languages import AUTO
from vbmodels.text.reading import read_documents
from vbmodels.text.tokens import Labels, Row
from vbmodels.text.words import TextOptions

KINDS = (ANY, MARKED, SOME)


@dataclass(frozen=True)
class LabelledCorpus:
    """Documents whose keyphrases are all known.

    Parameters
    ----------
    name
        What the prior calls it.
    texts, keywords
        The documents, and of each all its keyphrases.
    kind
        "marked": all that is in the text; "some": a few a document; "any": neither is known.
    language
        As `KeywordExtractor` has it.
    source, licence
        Where it is from, for the prior's provenance.
    """

    name: str
    texts: Sequence[str]
    keywords: Sequence[Sequence[str]]
    kind: str = ANY
    language: str = AUTO
    source: str = ""
    licence: str = ""


def learn_keyword_prior(corpora: Sequence[LabelledCorpus]) -> LearntPrior:
    """Learn a prior from labelled corpora; write its `text_of` to a file to use it.

    Raises
    ------
    ValueError
        If there are fewer than two corpora, or one has no keyphrase that its texts hold.
    """
    return learn_prior([whole_corpus(one) for one in corpora])


@dataclass(frozen=True)
class ReadCorpus:
    """A labelled corpus with its candidates.

    Parameters
    ----------
    part
        Its documents, read as if nobody had labelled them.
    words, phrases
        [W] and [M] which candidates are keywords.
    listed
        [D] keyphrases of each document, candidates or not.
    """

    part: ReadPart
    words: BoolArray
    phrases: BoolArray
    listed: IntArray


def read_corpus(corpus: LabelledCorpus) -> ReadCorpus:
    """Read a corpus.

    Raises
    ------
    ValueError
        If it has not as many lists as texts, no keyphrase that its texts hold, or another kind.
    """
    if len(corpus.texts) != len(corpus.keywords):
        raise ValueError(
            f"expected keywords for each of {len(corpus.texts)} texts of {corpus.name}, found "
            f"{len(corpus.keywords)}"
        )
    if corpus.kind not in KINDS:
        raise ValueError(
            f"kind of {corpus.name}: expected one of {', '.join(KINDS)}, found {corpus.kind!r}"
        )
    if any(gold is None for gold in corpus.keywords):
        raise ValueError(
            f"expected all keywords of each text of {corpus.name}, found a missing list"
        )
    pairs = zip(corpus.texts, corpus.keywords, strict=True)
    rows = [
        Row(Labels(str(d), None, False, list(gold)), text=text)
        for d, (text, gold) in enumerate(pairs)
    ]
    options = TextOptions(language=corpus.language)
    folds: IntArray = np.array([fold_of(str(d)) for d in range(len(rows))], np.int64)
    part = ReadPart.of(rows, folds, options, True, NO_VOCABULARY)
    tokens = part.read.tokens
    words = read_documents(rows, options, False).marks.gold == 1
    if tokens.letter is not None:
        words = np.insert(words, np.flatnonzero(tokens.letter), False)
    phrases = part.read.marks.gold == 1
    if not phrases.any():
        raise ValueError(f"no keyphrase of {corpus.name} is in its text")
    listed = np.array([len({term.lower() for term in gold}) for gold in corpus.keywords])
    return ReadCorpus(part, words, phrases, listed[part.documents])


def whole_corpus(corpus: LabelledCorpus) -> WholeCorpus:
    """Read a corpus and make its features, as one without labels has them."""
    read = read_corpus(corpus)
    batch = read.part.batch(Corpus.of([read.part], True), WINDOW, DAMPING)
    assert isinstance(batch, PhraseBatch)
    about = {
        "name": corpus.name,
        "documents": len(corpus.texts),
        "kind": corpus.kind,
        "source": corpus.source,
        "licence": corpus.licence,
    }
    coverage = min(float(read.phrases.sum()) / max(int(read.listed.sum()), 1), 1.0)
    return WholeCorpus(batch, read.words, read.phrases, coverage, corpus.kind, about)
