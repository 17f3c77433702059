"""Keyphrases: the corpus model of words, and after it the same model of phrases.

1. Words. A probit regression without the features that hold a document's own labels gives every
   word a score (`jackknife`); where words are asked for too, a second one with all features runs
   in the same passes. Where words are known as phrases are, no word has such features, and the
   two are one.
2. Folds. One pass at its mode gives the coefficients without each fold, so that no phrase's
   features have seen labels of its document.
3. Scale. One pass gives the moments of the phrases' features, with these scores among them.
4. Phrases. `vbmodels.keywords.corpus` with phrases in the words' place: a share pi of the
   candidate phrases are keyphrases, Kbar_d grows with the number of candidates, and a keyphrase
   is listed with probability delta_d.

The rate of phrases is asked for as keyphrases a document, K, those included that the text does
not contain: with C the share of the listed ones that are candidates, and M phrases in D
documents, pi = K C D / M.

Where nothing tells it, the search for pi begins where as large a share of keyphrases is listed as
of keywords.

The trace shows the sum of the log posterior densities of what is published, from where the rate
of all of it has been read; what comes before passes in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from vbmodels.core.ascent import search
from vbmodels.core.moments import Moments
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.corpus import (
    NODES,
    CorpusCursor,
    CorpusGlobal,
    CorpusObserved,
    CorpusProbit,
    CorpusStats,
)
from vbmodels.keywords.corpus_likelihood import moments
from vbmodels.keywords.lengths import Lengths
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.jackknife import (
    FoldSums,
    fold_sums,
    left_out,
    without_labels,
)
from vbmodels.keywords.phrases.kept_scores import KeptScores
from vbmodels.keywords.rate import PHRASES_SD

WORDS, FOLDS, SCALE, PHRASES = "words", "folds", "scale", "phrases"
HIGHEST_RATE = 0.95
_SCORES = KeptScores()


@dataclass(frozen=True)
class PhraseObserved(Stats):
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
class PhraseGlobal(State):
    """Where a fit stands.

    Parameters
    ----------
    stage
        "words", "folds", "scale" or "phrases".
    scorer
        The regression that scores words.
    words
        That of words as they are published; None where they are not.
    phrases
        That of phrases; None before its stage, and where no document has a phrase.
    coefficients
        [N_FOLDS + 1, P] of the scores: without each fold, and with all.
    observed
        What was observed.
    before
        The phrases' regression of an earlier fit, to start near; None without one.
    moves
        Which of scorer, words and phrases partitions are asked about; not the scorer where the
        words' regression is the same.
    """

    stage: str
    scorer: CorpusGlobal
    words: CorpusGlobal | None
    phrases: CorpusGlobal | None
    coefficients: FloatArray
    observed: PhraseObserved
    before: CorpusGlobal | None
    moves: tuple[bool, bool, bool]


@dataclass(frozen=True)
class PhraseStats(Stats):
    """What a partition adds: of each regression that moves, and of the passes between."""

    scorer: CorpusStats | None = None
    words: CorpusStats | None = None
    phrases: CorpusStats | None = None
    folds: FoldSums | None = None
    moments: Moments | None = None


@dataclass(frozen=True)
class PhraseCursor(Cursor):
    """A cursor with the searches of the three regressions."""

    scorer: CorpusCursor | None = None
    words: CorpusCursor | None = None
    phrases: CorpusCursor | None = None


@dataclass(frozen=True)
class Keyphrases:
    """The models of words and phrases; see the module.

    Parameters
    ----------
    words
        Of words.
    with_words
        Whether words are published beside phrases.
    phrases
        Of phrases; its rate is set by ``per_document``.
    per_document
        K, mean number of keyphrases of a document; None where the user does not know it.
    per_document_sd
        Standard deviation of log K; 0: it is a fact.
    """

    objective: ClassVar[str] = "log posterior"

    words: CorpusProbit = field(default_factory=partial(CorpusProbit, begins_small=True))
    with_words: bool = True
    phrases: CorpusProbit = field(
        default_factory=partial(CorpusProbit, labels_sd=PHRASES_SD, begins_small=True)
    )
    per_document: float | None = None
    per_document_sd: float = 0.0

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
        """Start the words' regressions."""
        q = self.words.init(observed.words, rng)
        return self._started(observed, without_labels(q), q, None)

    def restart(
        self, observed: PhraseObserved, before: PhraseGlobal, rng: np.random.Generator
    ) -> PhraseGlobal:
        """Start every regression near that of an earlier fit."""
        q = scorer = self.words.init(observed.words, rng)
        scorer = self.words.restart(observed.words, before.scorer, rng)
        if before.words is not None:
            q = self.words.restart(observed.words, before.words, rng)
        scorer = without_labels(scorer)
        if np.array_equal(scorer.scale, q.scale):
            q = scorer
        return self._started(observed, scorer, q, before.phrases)

    def _started(
        self,
        observed: PhraseObserved,
        scorer: CorpusGlobal,
        words: CorpusGlobal,
        before: CorpusGlobal | None,
    ) -> PhraseGlobal:
        return PhraseGlobal(
            stage=WORDS,
            scorer=scorer,
            words=words if self.with_words else None,
            phrases=None,
            coefficients=np.zeros((0, len(scorer.location))),
            observed=observed,
            before=before,
            moves=(not (self.with_words and _twins(scorer, words)), self.with_words, False),
        )

    def phrase_rate(self, observed: PhraseObserved) -> float | None:
        """pi of phrases by the number of keyphrases that the user says a document has."""
        rate = self._told_rate(observed)
        return None if rate is None else min(rate, HIGHEST_RATE)

    def _told_rate(self, observed: PhraseObserved) -> float | None:
        if self.per_document is None or not observed.n_phrases:
            return None
        coverage = (observed.known + 0.5) / (observed.listed + 0.5)
        return float(self.per_document * coverage * observed.n_documents / observed.n_phrases)

    def too_many(self, observed: PhraseObserved) -> str | None:
        """Say so where documents cannot have as many keyphrases as the user says."""
        rate = self._told_rate(observed)
        if rate is None or rate <= HIGHEST_RATE:
            return None
        told = self.per_document or 0.0
        each = observed.n_phrases / observed.n_documents
        return (
            f"keyphrases={told:g} is more than a document can have: expected at most "
            f"{HIGHEST_RATE * told / rate:.3g}, as it has {each:.3g} candidate phrases on average; "
            f"{HIGHEST_RATE:g} of these are taken for keyphrases"
        )

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

    def suff_stats(self, q: PhraseGlobal, batch: PhraseBatch, local: None) -> PhraseStats:
        """Return what the stage asks for."""
        if q.stage == FOLDS:
            return PhraseStats(folds=fold_sums(self.words, q.scorer, batch.words))
        if q.stage == SCALE:
            return PhraseStats(moments=moments(*self.phrases_and_scores(q, batch)))
        scorer, words, phrases = q.moves
        return PhraseStats(
            scorer=self.words.suff_stats(q.scorer, batch.words, None) if scorer else None,
            words=self.words.suff_stats(q.words, batch.words, None)
            if words and q.words is not None
            else None,
            phrases=self.phrases.suff_stats(
                q.phrases,
                batch.units(batch.x, batch.coded),
                None,
                _SCORES.of(q.scorer, q.coefficients, batch),
            )
            if phrases and q.phrases is not None
            else None,
        )

    def phrases_and_scores(
        self, q: PhraseGlobal, batch: PhraseBatch
    ) -> tuple[KeywordBatch, FloatArray]:
        """Return the phrases with the features that they came with, and the words' scores."""
        scores = _SCORES.of(q.scorer, q.coefficients, batch)
        return batch.units(batch.x, batch.coded), scores

    def phrase_units(self, q: PhraseGlobal, batch: PhraseBatch) -> KeywordBatch:
        """Return the phrases with all of their features, the words' scores at ``q`` included."""
        phrases, scores = self.phrases_and_scores(q, batch)
        return batch.units(np.hstack([phrases.features, scores]))

    def elbo(self, q: PhraseGlobal, stats: PhraseStats) -> float:
        """Return the sum of the log posterior densities of what is published."""
        found = 0.0
        if q.words is not None and stats.words is not None:
            found += self.words.elbo(q.words, stats.words)
        if q.phrases is not None and stats.phrases is not None:
            found += self.phrases.elbo(q.phrases, stats.phrases)
        return found

    def global_step(self, q: PhraseGlobal, stats: PhraseStats) -> PhraseGlobal:
        """Take a whole step in every regression that was asked about."""
        scorer, words, phrases = q.scorer, q.words, q.phrases
        if stats.scorer is not None:
            scorer = self.words.global_step(scorer, stats.scorer)
        if words is not None and stats.words is not None:
            words = self.words.global_step(words, stats.words)
            if q.stage == WORDS and stats.scorer is None:
                scorer = words
        if phrases is not None and stats.phrases is not None:
            phrases = self.phrases.global_step(phrases, stats.phrases)
        return replace(q, scorer=scorer, words=words, phrases=phrases)

    def unfinished(self, q: PhraseGlobal) -> str | None:
        """Say what comes before the phrases' posterior."""
        if q.stage != PHRASES:
            return "the words that phrases are made of were being scored"
        found = (one for one in (q.words, q.phrases) if one is not None)
        sentences = (self.phrases.unfinished(one) for one in found)
        return next((sentence for sentence in sentences if sentence), None)

    # The search; see `vbmodels.core.ascent`.

    steps = search

    def begin(self, cursor: Cursor) -> Cursor:
        """Begin the searches of the words' regressions."""
        if isinstance(cursor, PhraseCursor):
            return cursor
        q: PhraseGlobal = cursor.q
        stats: PhraseStats = cursor.stats
        scorer = _begun(self.words, q.scorer, stats.scorer, cursor.number)
        words = _begun(self.words, q.words, stats.words, cursor.number)
        scorer = words if stats.scorer is None else scorer
        return self._at(q, stats, cursor.number, scorer, words, None)

    def _at(
        self,
        q: PhraseGlobal,
        stats: PhraseStats,
        number: int,
        scorer: CorpusCursor | None,
        words: CorpusCursor | None,
        phrases: CorpusCursor | None,
    ) -> PhraseCursor:
        """Return the cursor of these searches, with everything at their points."""
        assert scorer is not None
        q = replace(
            q,
            scorer=scorer.q,
            words=None if words is None else words.q,
            phrases=None if phrases is None else phrases.q,
            moves=(stats.scorer is not None, words is not None, phrases is not None),
        )
        value = sum(one.elbo for one in (words, phrases) if one is not None)
        return PhraseCursor(q, stats, number, float(value), scorer, words, phrases)

    def shown(self, at: PhraseCursor) -> Step | None:
        """Show the published regressions once all of them are at their nodes."""
        found = [one for one in (at.words, at.phrases) if one is not None]
        if at.q.stage != PHRASES or any(one.q.phase != NODES or one.q.sampled for one in found):
            return None
        return Step.at(at, all(one.over for one in found))

    def ask(self, at: PhraseCursor) -> PhraseGlobal:
        """Ask for the trials of the searches that go on, or for the pass that comes next."""
        q: PhraseGlobal = at.q
        assert at.scorer is not None
        if q.stage == WORDS and at.scorer.over and not at.scorer.q.sampled:
            return replace(q, stage=FOLDS)
        if q.stage == FOLDS:
            return replace(q, stage=SCALE)
        scorer, words, phrases = q.scorer, q.words, q.phrases
        moves = [False, False, False]
        if q.stage == WORDS and at.q.moves[0]:
            scorer, moves[0] = self.words.ask(at.scorer), True
        if at.words is not None and not _ended(at.words):
            words, moves[1] = self.words.ask(at.words), True
        if q.stage == SCALE:
            stats: PhraseStats = at.stats
            assert stats.moments is not None
            q, moves[2] = replace(q, stage=PHRASES), stats.moments.weight > 0.0
            phrases = self._phrases_at(q, stats.moments) if moves[2] else None
        elif at.phrases is not None and not _ended(at.phrases):
            phrases, moves[2] = self.phrases.ask(at.phrases), True
        a, b, c = moves
        return replace(q, scorer=scorer, words=words, phrases=phrases, moves=(a, b, c))

    def take(self, at: PhraseCursor, asked: PhraseGlobal, stats: PhraseStats) -> PhraseCursor:
        """Take what was found into every search that asked."""
        number = at.number + 1
        scorer, words, phrases = at.scorer, at.words, at.phrases
        assert scorer is not None
        q: PhraseGlobal = replace(at.q, stage=asked.stage)
        if stats.folds is not None:
            whole: CorpusStats = scorer.stats
            q = replace(q, coefficients=left_out(self.words, scorer.q, whole, stats.folds))
        if stats.scorer is not None:
            scorer = _taken(self.words, scorer, asked.scorer, stats.scorer)
        if stats.words is not None and words is not None:
            words = _taken(self.words, words, asked.words, stats.words)
            if asked.stage == WORDS and stats.scorer is None:
                scorer = words
        if stats.phrases is not None:
            phrases = (
                _begun(self.phrases, asked.phrases, stats.phrases, number)
                if phrases is None
                else _taken(self.phrases, phrases, asked.phrases, stats.phrases)
            )
        return self._at(q, stats, number, scorer, words, phrases)


def _twins(scorer: CorpusGlobal, words: CorpusGlobal) -> bool:
    """Whether the words that are published are regressed on what scores them, from one start.

    Where words are known as phrases are, none of them has a feature of its document's labels.
    """
    return np.array_equal(scorer.scale, words.scale) and np.array_equal(scorer.theta, words.theta)


def _begun(
    model: CorpusProbit, q: CorpusGlobal | None, stats: CorpusStats | None, number: int
) -> CorpusCursor | None:
    if q is None or stats is None:
        return None
    found = model.begin(Cursor(q, stats, number, 0.0))
    assert isinstance(found, CorpusCursor)
    return found


def _taken(
    model: CorpusProbit, at: CorpusCursor, asked: CorpusGlobal | None, stats: CorpusStats
) -> CorpusCursor:
    assert asked is not None
    return model.take(at, asked, stats)


def _ended(at: CorpusCursor) -> bool:
    """Whether a search has ended at its nodes."""
    return at.over and bool(at.q.phase == NODES) and not at.q.sampled
