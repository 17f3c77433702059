"""The keywords table: written when the selection is decided over all partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.keywords.asked import Nodes, choose, documents_of
from flows.keywords.report import KeywordSummary, summarise
from flows.keywords.schema import KEYWORDS
from flows.keywords.settings import KeywordSettings
from flows.keywords.work import work_url
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, to_bytes
from vbmodels.keywords.asking import Unsettled, unsettled
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.chosen import least_bin, over_corpus, selected
from vbmodels.keywords.corpus_selection import Histogram
from vbmodels.keywords.selection import select_share, word_ranks

SCORES = ("ss", "textrank")
DEFAULT_SHARE = 1 / 3  # of the words, selected by scores without a posterior (the papers' rule)


@dataclass(frozen=True)
class Scores(State):
    """What a model gives every word of a partition.

    Attributes
    ----------
    probability
        [W], or a score.
    offsets
        [D + 1] the documents' first rows.
    complete
        [D] whether their keywords are all known.
    by_node, weights
        [K, W] and [K]: probabilities at each node of the rate; None where there are none.
    r_hat
        The largest of the sampler, if there was one.
    """

    probability: FloatArray
    offsets: IntArray
    complete: BoolArray
    by_node: FloatArray | None = None
    weights: FloatArray | None = None
    r_hat: float | None = None


@dataclass(frozen=True)
class Scored:
    """What one partition tells of its scores: its number, and a histogram for the threshold."""

    index: int
    histogram: Histogram | None
    phrases: Histogram | None = None


@dataclass(frozen=True)
class Published:
    """What one partition adds to the report: of words and of phrases, where they are published."""

    words: KeywordSummary | None
    phrases: KeywordSummary | None = None


def keep_scores(
    scores: Scores, batch: KeywordBatch, index: int, settings: KeywordSettings, paths: RunPaths
) -> Scored:
    """Keep a partition's scores until the selection is decided."""
    storage.write_bytes(work_url(paths, "scores", index, "npz"), to_bytes(scores))
    histogram = None
    if settings.model not in SCORES and over_corpus(settings):
        histogram = Histogram.of(scores.probability, batch.y, batch.offsets, settings.per_document)
    return Scored(index, histogram)


@dataclass(frozen=True)
class Written:
    """What one partition's table adds: to the report, and of documents worth labelling."""

    summary: KeywordSummary
    open: Unsettled | None


def publish(
    scored: Sequence[Scored],
    nodes: Nodes | None,
    settings: KeywordSettings,
    paths: RunPaths,
    each: Each,
) -> list[KeywordSummary]:
    """Decide the threshold over all partitions, write their tables and the table ask/.

    Parameters
    ----------
    scored
        All partitions.
    nodes
        What the model leaves open of the rate; None where it has no such thing.
    """
    found = [one.histogram for one in scored if one.histogram is not None]
    least = least_bin(settings, reduce(add, found)) if found else None
    indices = [one.index for one in scored]
    written = each(_write, indices, least, settings, paths)
    summaries = [one.summary for one in written]
    parts = [one.open for one in written if one.open is not None]
    if nodes is not None and parts:
        asked = choose(indices, parts, nodes, settings.ask, paths)
        summaries[0] = replace(summaries[0], asked=tuple(asked))
    return summaries


def phrases_asked(
    written: Sequence[Written],
    indices: Sequence[int],
    nodes: Nodes | None,
    settings: KeywordSettings,
    paths: RunPaths,
) -> list[KeywordSummary]:
    """Return the summaries of phrases; where they are all there is, the table ask/ is theirs."""
    summaries = [one.summary for one in written]
    parts = [one.open for one in written if one.open is not None]
    if nodes is not None and parts:
        asked = choose(indices, parts, nodes, settings.ask, paths, _phrase_documents)
        summaries[0] = replace(summaries[0], asked=tuple(asked))
    return summaries


def _phrase_documents(index: int, paths: RunPaths) -> list[tuple[str, int, int]]:
    return documents_of(storage.read_table(paths.table("phrases", index)))


def _write(index: int, least: int | None, settings: KeywordSettings, paths: RunPaths) -> Written:
    """Write the probability, selection and rank of every candidate word of a partition."""
    scores = read_state(work_url(paths, "scores", index, "npz"), Scores)
    words = storage.read_table(work_url(paths, "words", index))
    observed = words["observed"].to_numpy().astype(bool)
    r, ranked = scores.probability, scores.probability
    if settings.model in SCORES:
        share = settings.keyword_rate or DEFAULT_SHARE
        chosen = select_share(r, observed, scores.offsets, share)
        ranked = np.where(observed, np.inf, r)
    else:
        chosen = selected(settings, r, observed, scores.offsets, least)
    table = pa.table(
        [
            words["doc_id"],
            words["term"],
            pa.array(r),
            pa.array(observed),
            pa.array(chosen),
            pa.array(word_ranks(ranked, scores.offsets), pa.int32()),
        ],
        schema=KEYWORDS.arrow,
    )
    storage.write_table(paths.table("keywords", index), table)
    open_ = None
    if scores.by_node is not None and scores.weights is not None and settings.ask:
        open_ = unsettled(
            scores.by_node, scores.weights, observed, chosen, scores.complete, scores.offsets,
            settings.ask,
        )  # fmt: skip
    return Written(summarise(table, words["gold"], scores.offsets, scores.r_hat), open_)
