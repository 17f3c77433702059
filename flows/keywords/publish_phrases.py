"""The phrases table: scores of a partition, then selection over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.keywords.narrow import read_wide
from flows.keywords.phrases import UNKNOWN_TRUTH, PhraseMarks, written
from flows.keywords.publish import Scores, Written
from flows.keywords.report import summarise
from flows.keywords.schema import PHRASES
from flows.keywords.settings import KeywordSettings
from flows.keywords.work import work_url
from vbmodels.core.state import to_bytes
from vbmodels.keywords.asking import unsettled
from vbmodels.keywords.batch import DocumentTokens
from vbmodels.keywords.corpus import average
from vbmodels.keywords.corpus_selection import BINS, Histogram, select_above
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.keys import stem_keys
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.keywords.phrases.spans import find_spans
from vbmodels.keywords.selection import word_ranks


def keep_phrase_scores(
    model: Keyphrases, q: PhraseGlobal, batch: PhraseBatch, index: int, fitted: bool,
    settings: KeywordSettings, paths: RunPaths,
) -> Histogram:  # fmt: skip
    """Score the phrases of a partition and keep that until the selection is decided."""
    weights, probability = np.ones(1), batch.y.astype(np.float64)
    by_node = probability[None]
    units = batch.bare()
    if q.phrases is not None:
        units, own = model.phrases_and_scores(q, batch)
        by_node = model.phrases.by_node(q.phrases, units, fitted=fitted, beside=own)
        weights = q.phrases.weights
        probability = average(q.phrases, units, by_node)
    scores = Scores(probability, units.offsets, units.complete)
    if _asks(settings):
        scores = replace(scores, by_node=by_node, weights=weights)
    storage.write_bytes(work_url(paths, "phrase_scores", index, "npz"), to_bytes(scores))
    return Histogram.of(probability, batch.y, units.offsets, settings.per_document)


def publish_phrases(
    indices: Sequence[int],
    histograms: Sequence[Histogram],
    settings: KeywordSettings,
    paths: RunPaths,
    each: Each,
    learned: bool,
) -> list[Written]:
    """Decide the threshold over all partitions and write their tables.

    Where the fit had no known phrase to learn from (``learned``) none is selected: all candidates
    are alike, and expected F would be largest for all of them together.
    """
    whole = reduce(add, histograms)
    if not learned:
        least = BINS
    elif settings.select_phrases == "best_f":
        least = whole.least_by_f()
    else:
        least = whole.least_by_fdr(settings.fdr, settings.fdr_scope == "all")
    return each(_write, indices, least, settings, paths)


def _write(index: int, least: int, settings: KeywordSettings, paths: RunPaths) -> Written:
    """Write probability, selection and rank of every candidate phrase of a partition."""
    scores = read_state(work_url(paths, "phrase_scores", index, "npz"), Scores)
    tokens = read_wide(work_url(paths, "tokens", index, "npz"), DocumentTokens)
    marks = read_wide(work_url(paths, "marks", index, "npz"), PhraseMarks)
    vocabulary = storage.read_table(work_url(paths, "vocabulary", index))["stem"].combine_chunks()
    forms = storage.read_table(work_url(paths, "forms", index))["form"].combine_chunks()
    names = storage.read_table(work_url(paths, "documents", index))["doc_id"].combine_chunks()
    spans = find_spans(tokens, stem_keys(vocabulary.to_pylist()))
    told = written(tokens, spans, vocabulary, marks, forms)
    r, offsets = scores.probability, scores.offsets
    chosen = select_above(r, marks.y, offsets, least, settings.per_document)
    ranks = word_ranks(r, offsets)
    table = pa.table(
        [
            names.take(pa.array(spans.document)),
            told.term,
            told.surface,
            told.stem,
            pa.array(spans.size, pa.int32()),
            pa.array(r),
            pa.array(marks.y),
            pa.array(chosen),
            pa.array(ranks, pa.int32()),
            pa.array(told.position, pa.int32()),
            pa.array(told.occurrences, pa.int32()),
        ],
        schema=PHRASES.arrow,
    )
    storage.write_table(paths.table("phrases", index), table)
    gold = pa.chunked_array([pa.array(marks.gold == 1, mask=marks.gold == UNKNOWN_TRUTH)])
    open_ = None
    if _asks(settings):
        by_node, weights = cast(tuple[Any, Any], (scores.by_node, scores.weights))
        open_ = unsettled(by_node, weights, marks.y, chosen, scores.complete, offsets, settings.ask)
    return Written(summarise(table, gold, offsets, None), open_)


def _asks(settings: KeywordSettings) -> bool:
    """Whether the table ask/ is made of phrases: where words are published too, it is theirs."""
    return bool(settings.ask) and not settings.with_words
