"""Keyphrases: the corpus model of words, and after it the same model of phrases.

1. Words. A probit regression without the features that hold a document's own labels gives every
   word a score (`jackknife`).
2. Folds. One pass at its mode gives the coefficients without each fold, so that no phrase's
   features have seen labels of its document.
3. Scale. One pass gives the moments of the phrases' features, with these scores among them.
4. Phrases. `vbmodels.keywords.corpus.model` with phrases in the words' place: a share pi of the
   candidate phrases are keyphrases, Kbar_d grows with the number of candidates, and a keyphrase
   is listed with probability delta_d.

The rate of phrases is given as keyphrases a document, K, those included that the text does
not contain: with C the share of the listed ones that are candidates, and M phrases in D
documents, pi = K C D / M.

Where nothing informs it, the search for pi begins where as large a share of keyphrases is listed as
of keywords.

With priors learnt from other corpora the words' regression is fitted at the middle node of its
rate, and its scores have no constant, as those had that the phrases' prior was learnt with; C
counts as if of `COVERAGE_COUNT` keyphrases other corpora's share were candidates.

The trace shows the phrases' log posterior density, from where their rate has been read; what comes
before is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show, within
from vbmodels.core.linalg import Moments
from vbmodels.core.state import FloatArray, Memory, State, Stats
from vbmodels.keywords.coded_features import CodedFeatures
from vbmodels.keywords.corpus.likelihood import moments
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.states import CorpusGlobal, CorpusObserved, CorpusStats
from vbmodels.keywords.phrases.batch import RANK, PhraseBatch, scored
from vbmodels.keywords.phrases.jackknife import (
    FoldSums,
    fold_sums,
    left_out,
    without_labels,
    word_scores,
)
from vbmodels.keywords.prior.counts import Lengths
from vbmodels.keywords.prior.rates import PHRASES_SD
from vbmodels.keywords.units import KeywordBatch

HIGHEST_RATE = 0.95
COVERAGE_COUNT = 4.0
_SCORES: Memory[tuple[FloatArray, CodedFeatures]] = Memory()
"""Scores of words, and ranks of phrases, by the coefficients of the former: the phrases' scores are
made of these at each pass, for they would take more memory than the partition."""


@dataclass(frozen=True)
class PhraseObserved(Stats, kind="keywords/phrases.PhraseObserved"):
    """Needed once: of the words, and of the phrases what does not hang on scores.

    ``known`` are the listed keywords that are candidate phrases.
    """

    words: CorpusObserved
    lengths: Lengths
    n_phrases: int
    n_documents: int
    n_complete: int
    listed: int
    known: int


@dataclass(frozen=True)
class PhraseGlobal(State, kind="keywords/phrases.PhraseGlobal"):
    """Both regressions, or where they start.

    Parameters
    ----------
    scorer
        The regression that scores words.
    phrases
        That of phrases; None before it begins, and where no document has a phrase.
    coefficients
        [N_FOLDS + 1, P] of the scores: without each fold, and with all.
    observed
        What was observed.
    before
        The phrases' regression of an earlier fit, to start near; None without one.
    """

    scorer: CorpusGlobal
    phrases: CorpusGlobal | None
    coefficients: FloatArray
    observed: PhraseObserved
    before: CorpusGlobal | None


@dataclass(frozen=True)
class WordsAt(State, kind="keywords/phrases.WordsAt"):
    """Points of the words' regression; with ``by_fold`` the first of them, fold by fold."""

    scorer: CorpusGlobal
    by_fold: bool = False


@dataclass(frozen=True)
class Scored(State, kind="keywords/phrases.Scored"):
    """Scores of words by which the phrases' features are to be summed."""

    scorer: CorpusGlobal
    coefficients: FloatArray


@dataclass(frozen=True)
class Keyphrases:
    """The models of words and phrases; see the module.

    Parameters
    ----------
    words
        Of words.
    phrases
        Of phrases; its rate is set by ``per_document``.
    per_document
        K, mean number of keyphrases of a document; None where the user does not know it.
    per_document_sd
        Standard deviation of log K; 0: it is a fact.
    coverage
        C in other corpora; None where it is not known.
    """

    objective: ClassVar[str] = "log posterior"

    words: CorpusProbit = field(default_factory=CorpusProbit)
    phrases: CorpusProbit = field(default_factory=partial(CorpusProbit, labels_sd=PHRASES_SD))
    per_document: float | None = None
    per_document_sd: float = 0.0
    coverage: float | None = None

    def __post_init__(self) -> None:
        if self.per_document is not None and not 0.0 < self.per_document < np.inf:
            raise ValueError(
                f"per_document must be a positive number of keyphrases, got {self.per_document}"
            )
        if not 0.0 <= self.per_document_sd < np.inf:
            raise ValueError(f"per_document_sd must be at least 0, got {self.per_document_sd}")

    def observe(self, batch: PhraseBatch) -> PhraseObserved:
        """Return the words' moments, and the tables of lengths and labels of both."""
        bare = batch.bare()
        return PhraseObserved(
            words=self.words.observe(batch.words),
            lengths=Lengths.of(bare),
            n_phrases=batch.n_phrases,
            n_documents=batch.words.n_documents,
            n_complete=int(bare.complete.sum()),
            listed=batch.listed,
            known=int(batch.y.sum()),
        )

    def init(self, observed: PhraseObserved, rng: np.random.Generator) -> PhraseGlobal:
        """Start the words' regression."""
        return _started(observed, self.words.init(observed.words, rng), None)

    def restart(
        self, observed: PhraseObserved, before: PhraseGlobal, rng: np.random.Generator
    ) -> PhraseGlobal:
        """Start both regressions near those of an earlier fit."""
        scorer = self.words.restart(observed.words, before.scorer, rng)
        return _started(observed, scorer, before.phrases)

    def phrase_rate(self, observed: PhraseObserved) -> float | None:
        """pi of phrases by the number of keyphrases that the user says a document has."""
        rate = self._given_rate(observed)
        return None if rate is None else min(rate, HIGHEST_RATE)

    def _given_rate(self, observed: PhraseObserved) -> float | None:
        if self.per_document is None or not observed.n_phrases:
            return None
        count, share = (0.5, 1.0) if self.coverage is None else (COVERAGE_COUNT, self.coverage)
        coverage = (observed.known + count * share) / (observed.listed + count)
        return float(self.per_document * coverage * observed.n_documents / observed.n_phrases)

    def most_per_document(self, observed: PhraseObserved) -> float | None:
        """Return the most keyphrases that documents can have; None unless the user says more."""
        rate = self._given_rate(observed)
        if rate is None or rate <= HIGHEST_RATE:
            return None
        return HIGHEST_RATE * (self.per_document or 0.0) / rate

    def _phrases_at(self, q: PhraseGlobal, moments: Moments) -> CorpusGlobal:
        """Start the phrases' regression."""
        seen = q.observed
        observed = CorpusObserved(moments, seen.lengths, seen.n_documents, seen.n_complete)
        rate = self.phrase_rate(seen)
        sd = self.per_document_sd if rate is not None else 0.0
        likely = None
        if (known := q.scorer.law.listed) and seen.known:
            # As large a share of keyphrases is listed as of keywords.
            share = known / (q.scorer.rate * q.scorer.law.open_words)
            likely = seen.known / seen.n_phrases / min(share, 1.0)
        model = replace(self.phrases, keyword_rate=rate, keyword_rate_sd=sd, likely_rate=likely)
        rng = np.random.default_rng(0)  # no draw is made
        if q.before is None:
            return model.init(observed, rng)
        return model.restart(observed, q.before, rng)

    def local_step(self, q: PhraseGlobal, batch: PhraseBatch, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(
        self, q: PhraseGlobal | WordsAt | Scored, batch: PhraseBatch, local: None
    ) -> CorpusStats | FoldSums | Moments:
        """Return what the words' or the phrases' regression needs, or moments of the features."""
        if isinstance(q, WordsAt):
            if q.by_fold:
                return fold_sums(self.words, q.scorer, batch.words)
            return self.words.suff_stats(q.scorer, batch.words, None)
        phrases, scores = self.phrases_and_scores(q, batch)
        if isinstance(q, Scored):
            return moments(phrases, scores)
        assert q.phrases is not None
        return self.phrases.suff_stats(q.phrases, phrases, None, scores)

    def phrases_and_scores(
        self, q: PhraseGlobal | Scored, batch: PhraseBatch
    ) -> tuple[KeywordBatch, FloatArray]:
        """Return the phrases with the features that they came with, and the words' scores."""
        parts = (q.coefficients, q.scorer.location, q.scorer.scale)

        def score_words() -> tuple[FloatArray, CodedFeatures]:
            eta = word_scores(q.scorer, q.coefficients, batch.words)
            return eta, CodedFeatures.of(scored(batch, eta)[:, RANK : RANK + 1])

        eta, ranks = _SCORES.of(batch, b"".join(part.tobytes() for part in parts), score_words)
        scores = scored(batch, eta, ranks.changed(0, np.positive))
        return batch.units(batch.x, batch.whole_coded), scores

    def elbo(self, q: PhraseGlobal, stats: CorpusStats) -> float:
        """Return the phrases' log posterior density; 0 where there are no phrases."""
        return 0.0 if q.phrases is None else self.phrases.elbo(q.phrases, stats)

    def global_step(self, q: PhraseGlobal, stats: CorpusStats) -> PhraseGlobal:
        """Take a whole step in the phrases' regression."""
        if q.phrases is None:
            return q
        return replace(q, phrases=self.phrases.global_step(q.phrases, stats))

    def algorithm(self, q: PhraseGlobal) -> Algorithm:
        """Score the words, then fit the phrases."""
        doing = "the words that phrases are made of were being scored"
        scorer, coefficients = yield Phase(self._score_words(q.scorer), doing)
        q = replace(q, scorer=scorer, coefficients=coefficients)
        found = yield Evaluate(Scored(q.scorer, q.coefficients))
        if not found.weight > 0.0:
            yield Show(q, 0.0, by_trace=False)
            return q

        def whole(phrases: CorpusGlobal) -> PhraseGlobal:
            return replace(q, phrases=phrases)

        start = self._phrases_at(q, found)
        return whole((yield from within(self.phrases.algorithm(start), whole)))

    def _score_words(self, scorer: CorpusGlobal) -> Algorithm:
        """Return the words' regression, and its coefficients without each fold and with all."""
        if self.words.learnt is None:
            scorer, stats, _ = yield from within(self.words.climb(scorer, silent=True), WordsAt)
        else:
            scorer, stats = yield from within(self.words.search_middle(scorer), WordsAt)
        folds = yield Evaluate(WordsAt(scorer, by_fold=True))
        coefficients = left_out(self.words, scorer, stats, folds)
        if self.words.learnt is not None:
            coefficients[:, 0] = 0.0
        return scorer, coefficients


def _started(
    observed: PhraseObserved, scorer: CorpusGlobal, before: CorpusGlobal | None
) -> PhraseGlobal:
    return PhraseGlobal(
        scorer=without_labels(scorer),
        phrases=None,
        coefficients=np.zeros((0, len(scorer.location))),
        observed=observed,
        before=before,
    )
