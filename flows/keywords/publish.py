"""The keywords table: written when the selection is decided over all partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.keywords.report import KeywordSummary, summarise
from flows.keywords.schema import KEYWORDS
from flows.keywords.settings import KeywordSettings
from flows.keywords.work import work_url
from vbmodels.core.state import FloatArray, IntArray, State, to_bytes
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.corpus_selection import Histogram
from vbmodels.keywords.options import least_bin, selected
from vbmodels.keywords.selection import select_share, word_ranks

SCORES = ("ss", "textrank")
DEFAULT_SHARE = 1 / 3  # of the words, selected by scores without a posterior (the papers' rule)


@dataclass(frozen=True)
class Scores(State):
    """What a model gives every word of a partition [W], and its documents' first rows [D + 1]."""

    probability: FloatArray
    offsets: IntArray
    r_hat: float | None


@dataclass(frozen=True)
class Scored:
    """What one partition tells of its scores: its number, and a histogram for the threshold."""

    index: int
    histogram: Histogram | None


def keep_scores(
    scores: Scores, batch: KeywordBatch, index: int, settings: KeywordSettings, paths: RunPaths
) -> Scored:
    """Keep a partition's scores until the selection is decided."""
    storage.write_bytes(work_url(paths, "scores", index, "npz"), to_bytes(scores))
    histogram = None
    if settings.model not in SCORES and settings.over_corpus:
        histogram = Histogram.of(scores.probability, batch.y, batch.offsets, settings.per_document)
    return Scored(index, histogram)


def publish(
    scored: Sequence[Scored], settings: KeywordSettings, paths: RunPaths, each: Each
) -> list[KeywordSummary]:
    """Decide the threshold over all partitions and write every partition's table."""
    found = [one.histogram for one in scored if one.histogram is not None]
    least = least_bin(settings, reduce(add, found)) if found else None
    return each(_write, [one.index for one in scored], least, settings, paths)


def _write(
    index: int, least: int | None, settings: KeywordSettings, paths: RunPaths
) -> KeywordSummary:
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
    return summarise(table, words["gold"], scores.offsets, scores.r_hat)
