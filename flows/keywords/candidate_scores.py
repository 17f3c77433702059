"""The model of a run, and what it gives the candidates of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Each
from flows.keywords.answer import Doubts
from flows.keywords.input.term_lists import prior_of
from flows.keywords.publish import Scores
from flows.keywords.schema import RANKED
from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import Ranking, ranking_of
from flows.keywords.work import read_wide
from flows.records.runs import RunPaths
from flows.records.states import read_state
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import has_few_documents
from vbmodels.keywords.corpus.states import CorpusGlobal, average
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.learnt_prior import keyphrases_model, words_model
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.phrases.jackknife import BEST, LabelledDocuments, known_among_best
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.coordinate_ascent import Form
from vbmodels.keywords.vbss.model import VBSS
from vbmodels.text.tokens import Copies


def model_of(settings: KeywordSettings) -> Any:
    """Return the model to fit."""
    if settings.model == "vbss":
        return VBSS(form=cast(Form, settings.inference), max_words=settings.max_words)
    prior = prior_of(settings.prior)
    if settings.with_phrases:
        return keyphrases_model(prior, settings.kind, settings.keyphrases, settings.rate_sd)
    return words_model(prior, settings.kind, settings.keyword_rate, settings.rate_sd)


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
    doubts = Doubts(few_documents=few.n_documents if has_few_documents(few) else None)
    if not isinstance(model, Keyphrases):
        return doubts
    seen = q.observed
    if not seen.known and model.phrases.learnt is None:
        doubts = replace(doubts, learned="nothing")
    elif not seen.known and seen.listed:
        doubts = replace(doubts, learned="other corpora")
    most = model.most_per_document(seen)
    if most is None:
        return doubts
    candidates = seen.n_phrases / seen.n_documents
    return replace(doubts, given=model.per_document, most=most, candidates=candidates)


def scores_of(
    model: Any, q: Any, batch: Any, local: Any, settings: KeywordSettings, fitted: bool
) -> Scores:
    """Return what a partition's candidates get; ``fitted`` is whether the fit saw them."""
    units: KeywordBatch = batch.bare() if isinstance(batch, PhraseBatch) else batch
    regression, its = regression_of(model, q)
    if its is None:
        r = _of_documents(model, q, units, local, settings, fitted)
        return Scores(r, units.offsets, units.complete)
    scores = None
    if isinstance(model, Keyphrases):
        units, scores = model.phrases_and_scores(q, batch)
    assert regression is not None
    nodes = regression.by_node(its, units, fitted=fitted, extra=scores)
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
    if not fitted:
        done = fit(model, [batch], tol=settings.tol, max_iter=settings.max_iter)
        (local,) = done.reduce.local_states(done.iterations - 1)
    return model.probabilities(q, batch, local)


MOST_DOCUMENTS, MOST_PARTITIONS, MOST_ROWS = 500, 50, 200_000
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True)
class Labelled:
    """Labelled documents of a partition, with their names."""

    documents: LabelledDocuments
    names: list[str]


def rank_known(
    model: Any, q: Any, indices: Sequence[int], paths: RunPaths, each: Each
) -> Ranking | None:
    """Rank some labelled documents, write the table ranked/; None where there are too few."""
    places = np.linspace(0, len(indices) - 1, min(MOST_PARTITIONS, len(indices))).astype(int)
    sampled = [indices[place] for place in places]
    limits = [-(-most // len(sampled)) for most in (MOST_DOCUMENTS, MOST_ROWS)]
    parts = [part for part in each(_labelled, sampled, model, q, *limits, paths) if part.names]
    names = [name for part in parts for name in part.names]
    if len(names) < FEWEST_DOCUMENTS:
        return None
    regression, its = regression_of(model, q)
    assert regression is not None
    assert its is not None
    features = PHRASE_FEATURES if isinstance(model, Keyphrases) else FEATURE_NAMES
    documents = LabelledDocuments.joined([part.documents for part in parts])
    best = known_among_best(regression, its, documents, features)
    counts = [best.known, best.by_model, best.by_tf_idf]
    columns = [pa.array(names), *(pa.array(n, pa.int32()) for n in counts)]
    storage.write_table(paths.table("ranked", 0), pa.table(columns, schema=RANKED.arrow))
    return ranking_of(best.known, best.by_model, best.by_tf_idf, BEST)


def _labelled(
    index: int, model: Any, q: Any, most: int, most_rows: int, paths: RunPaths
) -> Labelled:
    """Return some labelled documents of a partition."""
    url = paths.part("partitions", index, "npz")
    further = None
    if isinstance(model, Keyphrases):
        units, further = model.phrases_and_scores(q, read_state(url, PhraseBatch))
    else:
        units = read_state(url, KeywordBatch)
    names = storage.read_table(paths.part("documents", index)).column(0).combine_chunks()
    if storage.exists(copies := paths.part("copies", index, "npz")):
        names = names.filter(pa.array(read_wide(copies, Copies).counted))
    documents = LabelledDocuments.of(units, most, most_rows, further)
    return Labelled(documents, names.take(pa.array(documents.place)).to_pylist())
