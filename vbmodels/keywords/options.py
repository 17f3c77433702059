"""What the user may say of keyword extraction, to the pipeline and to the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from vbmodels.core.options import option, share
from vbmodels.text.languages import AUTO

WINDOW = 2
"""Largest distance of words that co-occur."""
DAMPING = 0.85
"""Damping of TextRank and of the SS scores."""


@dataclass(eq=False, repr=False)
class KeywordOptions:
    """Options of keyword extraction."""

    unit: Literal["phrase", "word"] = option(
        "phrase",
        "What gets a probability: phrases of one to four words as you wrote them, or words.",
    )
    keyphrases: float | None = option(
        None,
        "Keyphrases that a document has on average (unit phrase), those included that its text "
        "does not hold; otherwise it is estimated from documents marked complete and, roughly, "
        "from the known ones and from other corpora.",
        gt=0.0,
        le=10_000.0,
    )
    lists: Literal["complete", "some", "marked"] | None = option(
        None,
        "What the lists of known keyphrases have. complete: every list that is given is whole; "
        "some: a few keyphrases a document, by authors or indexers; marked: all that is in the "
        "text.",
    )
    fdr: float = share(
        0.1,
        "Of words only, and where select=fdr: largest expected share of false keyphrases among the "
        "new ones. Phrases are selected by the largest expected F, which ignores it.",
    )
    select: Literal["fdr", "best_f"] | None = option(
        None,
        "What is selected: as many candidates as fdr allows, or those of the largest expected F; "
        "by default best_f of phrases and fdr of words.",
    )
    per_document: int | None = option(
        None,
        "Most new keyphrases that are selected in a document; by default of phrases half as many "
        "again as the mean document has, known ones included (5 to 15 where that is hardly known), "
        "of words no limit.",
        ge=1,
    )
    keyword_rate: float | None = share(
        None,
        "Share of candidate words that are keywords, where you know it; otherwise it is estimated "
        "from documents marked complete and, roughly, from the known ones and from other corpora.",
    )
    rate_sd: float = option(
        0.0,
        "How sure you are of keyphrases or keyword_rate, as the standard deviation of its "
        "logarithm: 0 = exact; 0.3 = within a factor of 1.8 with 95 % probability.",
        ge=0.0,
        le=2.0,
    )
    min_count: int | None = option(
        None,
        "Least occurrences of a candidate word in its document; by default 3 in documents of more "
        "than 1000 tokens and 1 in shorter ones.",
        ge=1,
    )
    stem: Literal["auto", "none", "porter", "snowball"] = option(
        "auto",
        "How words are reduced to stems: auto is Porter's for English and the language's own "
        "elsewhere.",
    )
    language: str = option(
        AUTO,
        "Language of the stemmer and stop words, by name or code (german or de): any with a "
        "Snowball stemmer or a list of stop words; other has neither; auto: every document's own, "
        "English where that is not clear.",
    )
    vocabulary_only: bool = option(
        True,
        "With a vocabulary: whether phrases outside it are left out. Without one it has no effect.",
    )
    max_words: int = option(
        2000, "Most candidate words of a document; the most frequent stay.", ge=10
    )


def conflict(options: Any) -> str | None:
    """Say which options, or settings with their names, do not go together; None where all do."""
    if options.keyphrases is not None and options.unit != "phrase":
        return "keyphrases is a number of phrases: it goes with unit phrase; give keyword_rate"
    if options.vocabulary is not None and options.unit != "phrase":
        return f"vocabulary is a list of phrases: it goes with unit phrase, found {options.unit}"
    if options.keyword_rate is not None and options.unit == "phrase":
        return "keyword_rate is a share of words: it goes with unit word; give keyphrases"
    if options.rate_sd > 0.0 and options.keyword_rate is None and options.keyphrases is None:
        return "rate_sd is the uncertainty of a given rate: give the rate too"
    return None
