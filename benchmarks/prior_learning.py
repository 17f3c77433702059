"""A prior for `KeywordExtractor` and the pipeline, learnt from corpora with all keywords known.

1. Every corpus is fitted to all its labels by a plain probit on the label-free features, each of
   unit variance: coefficients w_k with information H_k.
2. Empirical Bayes over the K corpora, by EM, with diagonal S (a full one does as well):
   w_k ~ N(m, S), m ~ N(0, 1). A new corpus has the variance S (1 + 1/K). H_k counts for .3 of
   itself, since the words of a document are not independent.
3. log pi_k is regressed on log n_k, the candidates a document, by kind of list, with the slope's
   prior N(-.55, .25^2).

The scores of words among the phrases' features come from the other corpora's words, without
the constant, as a new corpus will have them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri

from vbmodels.core.linalg import Moments
from vbmodels.core.special import inverse_mills
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.estimators.documents import Corpus, ReadPart
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.learnt_prior import (
    ANY,
    LABEL_FREE_PHRASES,
    LABEL_FREE_WORDS,
    MARKED,
    SOME,
    VERSION,
    LearntPrior,
    LearntUnit,
)
from vbmodels.keywords.options import DAMPING, WINDOW
from vbmodels.keywords.phrases.batch import PhraseBatch, scored
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.prior.rates import RateLine
from vbmodels.text.candidate_words import NO_VOCABULARY
from vbmodels.text.candidates import fold_of
from vbmodels.text.languages import AUTO
from vbmodels.text.reading import ReadDocuments, read_documents
from vbmodels.text.tokens import Labels, Row
from vbmodels.text.words import TextOptions

SHARE_OF_INFORMATION = 0.3
SD, WEIGHT = 0.15, 2.0
"""The sd of a coefficient over corpora is shrunk to .15, which counts as two corpora."""
SLOPE, SLOPE_SD, RATE_SD = -0.55, 0.25, 0.7
STEPS, SMALL = 400, 1e-6


@dataclass(frozen=True)
class WholeCorpus:
    """A corpus whose keywords are all known, and what the prior says of it.

    Its features are those of a corpus without labels; words [W] and phrases [M] are keywords or
    not; ``coverage`` is the share of the listed keyphrases that are candidates.
    """

    batch: PhraseBatch
    words: BoolArray
    phrases: BoolArray
    coverage: float
    kind: str
    about: dict[str, object]


@dataclass(frozen=True)
class ProbitFit:
    """Coefficients [P] of a corpus, their information [P, P], and its rate."""

    mean: FloatArray
    information: FloatArray
    log_rate: float
    log_size: float
    kind: str


def learn_prior(corpora: Sequence[WholeCorpus]) -> LearntPrior:
    """Learn a prior from labelled corpora.

    Raises
    ------
    ValueError
        If there are fewer than two.
    """
    if len(corpora) < 2:
        raise ValueError(f"expected at least two labelled corpora, found {len(corpora)}")
    of_words = [fit_words(one) for one in corpora]
    of_phrases = []
    for i, one in enumerate(corpora):
        others = pooled([fit for j, fit in enumerate(of_words) if j != i])
        of_phrases.append(fit_phrases(one, others[0]))
    coverage = {
        kind: float(np.mean([one.coverage for one in corpora if kind in (ANY, one.kind)]))
        for kind in _kinds([one.kind for one in corpora])
    }
    return LearntPrior(
        words=_unit(LABEL_FREE_WORDS, of_words),
        phrases=_unit(LABEL_FREE_PHRASES, of_phrases),
        coverage=coverage,
        corpora=tuple(one.about for one in corpora),
    )


def fit_words(corpus: WholeCorpus) -> ProbitFit:
    """Fit the words of a corpus."""
    return _fit(_word_columns(corpus), corpus.words, corpus.batch.words.n_documents, corpus.kind)


def _word_columns(corpus: WholeCorpus) -> FloatArray:
    columns = [FEATURE_NAMES.index(name) for name in LABEL_FREE_WORDS]
    return corpus.batch.words.features[:, columns]


def fit_phrases(corpus: WholeCorpus, word_mean: FloatArray) -> ProbitFit:
    """Fit the phrases of a corpus; ``word_mean`` are coefficients of its words."""
    scores = _standardised(_word_columns(corpus)) @ word_mean  # without a constant
    x = np.hstack([corpus.batch.features, scored(corpus.batch, scores)])
    columns = [PHRASE_FEATURES.index(name) for name in LABEL_FREE_PHRASES]
    return _fit(x[:, columns], corpus.phrases, corpus.batch.words.n_documents, corpus.kind)


def _standardised(x: FloatArray) -> FloatArray:
    z: FloatArray = (x - x.mean(axis=0)) / Moments.of(x).sd()
    return z


def _fit(x: FloatArray, y: BoolArray, documents: int, kind: str) -> ProbitFit:
    """Maximise a probit's likelihood with w ~ N(0, diag(100, 1, ..., 1))."""
    z = np.column_stack([np.ones(len(y)), _standardised(x)])
    precision = np.append(0.01, np.ones(x.shape[1]))
    rate = float(np.clip(y.mean(), 1e-4, 1.0 - 1e-4))
    w = np.zeros(z.shape[1])
    w[0] = ndtri(rate)
    sign = np.where(y, 1.0, -1.0)

    def value(at: FloatArray) -> float:
        return float(log_ndtr(sign * (z @ at)).sum() - 0.5 * precision @ at**2)

    best = value(w)
    while True:
        eta = z @ w
        mills = inverse_mills(sign * eta)
        gradient = z.T @ (sign * mills) - precision * w
        information = (z * (mills * (mills + sign * eta))[:, None]).T @ z
        step = np.linalg.solve(information + np.diag(precision), gradient)
        size = 1.0
        while (after := value(w + size * step)) < best and size > SMALL:
            size *= 0.5
        if after - best < SMALL:
            break
        w, best = w + size * step, after
    # What is said of the slopes where the constant is free.
    own = information[1:, 1:] - np.outer(information[1:, 0], information[0, 1:]) / (
        information[0, 0] + precision[0]
    )
    return ProbitFit(w[1:], own, float(np.log(rate)), float(np.log(len(y) / documents)), kind)


def pooled(fits: Sequence[ProbitFit]) -> tuple[FloatArray, FloatArray]:
    """Return mean and sd [P] of the coefficients of a new corpus."""
    count = len(fits)
    mean = np.mean([one.mean for one in fits], axis=0)
    variance = np.full(len(mean), SD**2)
    for _ in range(STEPS):
        each, spread = [], np.zeros(len(mean))
        for one in fits:
            known = SHARE_OF_INFORMATION * one.information
            covariance = np.linalg.inv(known + np.diag(1.0 / variance))
            each.append(covariance @ (known @ one.mean + mean / variance))
            spread += np.diag(covariance)
        new_mean = np.sum(each, axis=0) / (count + variance)
        spread += np.sum((np.array(each) - new_mean) ** 2, axis=0)
        new = (spread + WEIGHT * SD**2) / (count + WEIGHT)
        moved = max(np.abs(new_mean - mean).max(), np.abs(new - variance).max())
        mean, variance = new_mean, new
        if moved < SMALL:
            break
    return mean, np.sqrt(variance * (1.0 + 1.0 / count))


def _unit(names: tuple[str, ...], fits: Sequence[ProbitFit]) -> LearntUnit:
    mean, sd = pooled(fits)
    pairs = zip(mean.tolist(), sd.tolist(), strict=True)
    rates = {
        kind: _line([one for one in fits if kind in (ANY, one.kind)])
        for kind in _kinds([one.kind for one in fits])
    }
    return LearntUnit(dict(zip(names, pairs, strict=True)), rates)


def _kinds(kinds: Sequence[str]) -> list[str]:
    return [ANY, *sorted(set(kinds) - {ANY})]


def _line(fits: Sequence[ProbitFit]) -> RateLine:
    """Regress log pi on log n; the sd is that of a new corpus."""
    x = np.column_stack([np.ones(len(fits)), [one.log_size for one in fits]])
    y, count = np.array([one.log_rate for one in fits]), len(fits)
    prior, sd = np.diag([1e-6, SLOPE_SD**-2]), RATE_SD
    for _ in range(20):
        bend = x.T @ x / sd**2 + prior
        line = np.linalg.solve(bend, x.T @ y / sd**2 + prior @ np.array([0.0, SLOPE]))
        sd = float(np.sqrt((np.sum((y - x @ line) ** 2) + RATE_SD**2) / (count - 0.5)))
    return RateLine(float(line[0]), float(line[1]), sd * float(np.sqrt(1.0 + 1.0 / count)))


def text_of(prior: LearntPrior) -> str:
    """Return the text of a prior's file; its numbers have four decimals."""
    whole = json.dumps({"version": VERSION, **asdict(prior)})
    rounded = json.loads(whole, parse_float=lambda number: round(float(number), 4))
    return json.dumps(rounded, indent=1, ensure_ascii=False) + "\n"


# Reading labelled documents.

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
    """A labelled corpus, read as if nobody had labelled it.

    Which candidates are keywords, words [W] and phrases [M], and how many keyphrases each document
    has, candidates or not, [D].
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
    alone = read_documents(rows, options, False)
    known = zip(named_words(alone), alone.marks.gold == 1, strict=True)
    keywords = {word for word, is_keyword in known if is_keyword}
    words = np.array([word in keywords for word in named_words(part.read)], bool)
    phrases = part.read.marks.gold == 1
    if not phrases.any():
        raise ValueError(f"no keyphrase of {corpus.name} is in its text")
    listed = np.array([len({term.lower() for term in gold}) for gold in corpus.keywords])
    return ReadCorpus(part, words, phrases, listed[part.documents])


def named_words(read: ReadDocuments) -> list[tuple[str, str]]:
    """Return the document and the stem of every candidate word."""
    tokens = read.tokens
    pairs = zip(tokens.document_of_word.tolist(), tokens.term.tolist(), strict=True)
    return [(read.names[d], read.vocabulary[term]) for d, term in pairs]


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
