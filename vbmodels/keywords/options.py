"""What the user may say of keyword extraction, to the pipeline and to the estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from vbmodels.core.options import option, share

WINDOW = 2
"""Largest distance of words that co-occur."""
DAMPING = 0.85
"""Damping of TextRank and of the SS scores."""


@dataclass(eq=False, repr=False)
class KeywordOptions:
    """Options of keyword extraction."""

    model: Literal["corpus", "pooled"] = option(
        "corpus",
        "corpus: one regression over the corpus, with the number of keywords that a document of "
        "its length has; pooled: one regression, with a share of listed keywords of each "
        "document's own.",
    )
    fdr: float = share(
        0.1,
        "Level of the Bayesian false discovery rate of the selected words: the largest share of "
        "them that the model may expect to be false.",
    )
    fdr_scope: Literal["all", "new"] = option(
        "new",
        "What the false discovery rate is counted over: the new words alone, or all selected "
        "words, where known keywords count as true (the papers' rule).",
    )
    threshold: Literal["auto", "corpus", "document"] = option(
        "auto",
        "Where fdr holds: over the whole corpus, by one threshold, or in each document; auto: over "
        "the corpus for models of the corpus, in each document for models of single ones.",
    )
    select: Literal["fdr", "best_f"] = option(
        "fdr",
        "What is selected: as many words as fdr allows, or those of the largest expected F.",
    )
    per_document: int | None = option(
        None, "Most new words that are selected in a document; by default no limit.", ge=1
    )
    keyword_rate: float | None = share(
        None,
        "Share of candidate words that are keywords, where you know it; otherwise it is read off "
        "documents marked complete and, roughly, off the labels (pooled: off complete documents "
        "alone).",
    )
    keyword_rate_sd: float = option(
        0.0,
        "How unsure keyword_rate is, as the standard deviation of its logarithm: 0.3 for within a "
        "factor of 1.6 or so; 0 takes it for a fact. corpus alone.",
        ge=0.0,
        le=2.0,
    )
    keyword_rate_range: tuple[float, float] | None = option(
        None,
        "In place of keyword_rate: two shares that it lies between, nine times in ten. corpus "
        "alone.",
    )
    length_exponent: float | None = option(
        None,
        "How the number of keywords grows with a document's number of words: 0 not at all, 1 in "
        "proportion; by default what the labels say of it, or .45. corpus alone.",
        ge=-1.0,
        le=2.0,
    )
    window: int = option(
        WINDOW, "Largest distance, in words, that counts as co-occurrence.", ge=1, le=50
    )
    damping: float = share(DAMPING, "Damping of TextRank and of the SS scores.")
    document_precision: float | None = option(
        None,
        "Precision of an intercept of each document; by default there is none. pooled alone.",
        gt=0.0,
    )


def conflict(options: Any) -> str | None:
    """Say which options, or settings with their names, do not go together; None where all do."""
    if options.model != "pooled" and options.document_precision is not None:
        return f"document_precision goes with model pooled, found model {options.model}"
    if options.keyword_rate is None and options.keyword_rate_sd > 0.0:
        return "keyword_rate_sd says how unsure keyword_rate is: give that too"
    if options.keyword_rate_range is not None:
        if options.keyword_rate is not None:
            return "keyword_rate and keyword_rate_range both say the rate: give one of them"
        low, high = options.keyword_rate_range
        if not 0.0 < low < high < 1.0:
            return (
                "keyword_rate_range needs two shares between 0 and 1, the lower one first, found "
                f"{low:g} and {high:g}"
            )
        if options.model != "corpus":
            return f"keyword_rate_range goes with model corpus, found model {options.model}"
    if options.threshold == "document" and options.select == "best_f":
        return "select best_f goes with one threshold over the corpus, found threshold document"
    return None
