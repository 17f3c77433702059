"""The model of a run, and what it gives the candidates of a partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from flows.keywords.answer import Doubts
from flows.keywords.input.term_lists import prior_of
from flows.keywords.publish import Scores
from flows.keywords.settings import SCORES, KeywordSettings
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import has_few_documents
from vbmodels.keywords.corpus.states import CorpusGlobal, average
from vbmodels.keywords.graph import ss, textrank
from vbmodels.keywords.learnt_prior import keyphrases_model, words_model
from vbmodels.keywords.options import DAMPING
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.coordinate_ascent import Form
from vbmodels.keywords.vbss.model import VBSS


def model_of(settings: KeywordSettings) -> Any:
    """Return the model to fit; None for plain scores."""
    if settings.model in SCORES:
        return None
    if settings.model == "vbss":
        return VBSS(form=cast(Form, settings.inference), max_words=settings.max_words)
    prior = prior_of(settings.prior)
    if settings.with_phrases:
        return keyphrases_model(prior, settings.kind, settings.keyphrases, settings.rate_sd)
    return words_model(prior, settings.kind, settings.keyword_rate, settings.rate_sd)


def score_words(settings: KeywordSettings, batch: KeywordBatch) -> FloatArray:
    """Return TextRank, or SS, of every word [W]."""
    values = [
        textrank(a, DAMPING) if settings.model == "textrank" else ss(a, y, DAMPING)
        for y, a in batch.documents()
    ]
    return np.concatenate([np.zeros(0), *values])


def regression_of(model: Any, q: Any) -> tuple[CorpusProbit | None, CorpusGlobal | None]:
    """Return the regression over the corpus of the candidates; None where there is none."""
    if isinstance(model, Keyphrases):
        return model.phrases, q.phrases
    return (model, q) if isinstance(model, CorpusProbit) else (None, None)


def doubts_of(model: Any, q: Any) -> Doubts:
    """Say why shares that the model expects may be off, also where a fit starts from ``q``."""
    of_candidates = q.scorer if isinstance(q, PhraseGlobal) else q
    if not isinstance(of_candidates, CorpusGlobal):
        return Doubts()
    few = regression_of(model, q)[1] or of_candidates
    found = Doubts(few_documents=few.n_documents if has_few_documents(few) else None)
    if not isinstance(model, Keyphrases):
        return found
    seen = q.observed
    if not seen.known and model.phrases.learnt is None:
        found = replace(found, learned="nothing")
    elif not seen.known and seen.listed:
        found = replace(found, learned="other corpora")
    most = model.most_per_document(seen)
    if most is None:
        return found
    candidates = seen.n_phrases / seen.n_documents
    return replace(found, given=model.per_document, most=most, candidates=candidates)


def scores_of(
    model: Any, q: Any, batch: Any, local: Any, settings: KeywordSettings, fitted: bool
) -> Scores:
    """Return what a partition's candidates get; ``fitted`` is whether the fit saw them."""
    units: KeywordBatch = batch.bare() if isinstance(batch, PhraseBatch) else batch
    own, its = regression_of(model, q)
    if its is None:
        r = _of_documents(model, q, units, local, settings, fitted)
        return Scores(r, units.offsets, units.complete)
    scores = None
    if isinstance(model, Keyphrases):
        units, scores = model.phrases_and_scores(q, batch)
    assert own is not None
    nodes = own.by_node(its, units, fitted=fitted, extra=scores)
    return Scores(average(its, units, nodes), units.offsets, units.complete, nodes, its.weights)


def _of_documents(
    model: Any,
    q: Any,
    batch: KeywordBatch,
    local: Any,
    settings: KeywordSettings,
    fitted: bool,
) -> FloatArray:
    """Return scores of words document by document."""
    if isinstance(model, Keyphrases):  # no document has a phrase
        return batch.y.astype(np.float64)
    if model is None:
        return score_words(settings, batch)
    if not fitted:
        done = fit(model, [batch], tol=settings.tol, max_iter=settings.max_iter)
        (local,) = done.reduce.local_states(done.iterations - 1)
    return model.probabilities(q, batch, local)
