"""What the options of keyword extraction ask for: the model, and which words are selected."""

from __future__ import annotations

from typing import Any

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.corpus import CorpusProbit
from vbmodels.keywords.corpus_selection import Histogram, eligible, select_above
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.rate import range_of
from vbmodels.keywords.selection import select_by_fdr, select_new_by_fdr


def over_corpus(options: Any) -> bool:
    """Whether one threshold runs over the corpus by these options, or settings."""
    if options.threshold == "auto":
        return options.model in ("corpus", "pooled") or options.select == "best_f"
    return bool(options.threshold == "corpus")


def least_bin(options: Any, histogram: Histogram) -> int:
    """Return the lowest bin that is selected by these options, or settings with their names."""
    if options.select == "best_f":
        return histogram.least_by_f()
    return histogram.least_by_fdr(options.fdr, options.fdr_scope == "all")


def selected(
    options: Any, probability: FloatArray, observed: BoolArray, offsets: IntArray, least: int | None
) -> BoolArray:
    """Return the selected words [W]; ``least`` is None where each document has its threshold."""
    most = options.per_document
    if least is not None:
        return select_above(probability, observed, offsets, least, most)
    select = select_by_fdr if options.fdr_scope == "all" else select_new_by_fdr
    chosen = select(probability, observed, offsets, options.fdr)
    return chosen & (observed | eligible(probability, observed, offsets, most))


def model_of(options: Any) -> CorpusProbit | PooledVBSS:
    """Return the model of the corpus that the options, or settings with their names, ask for."""
    if options.model == "pooled":
        return PooledVBSS(
            keyword_rate=options.keyword_rate, document_precision=options.document_precision
        )
    rate, sd = options.keyword_rate, options.keyword_rate_sd
    if options.keyword_rate_range is not None:
        rate, sd = range_of(*options.keyword_rate_range)
    return CorpusProbit(
        begins_small=True,
        keyword_rate=rate,
        keyword_rate_sd=sd,
        length_exponent=options.length_exponent,
    )
