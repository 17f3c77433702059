"""What the user may say of keyword extraction, to the pipeline and to the estimator."""

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

    fdr: float = share(
        0.1,
        "Level of the Bayesian false discovery rate: the largest share of the new keywords that "
        "the model may expect to be false.",
    )
    select: Literal["fdr", "best_f"] = option(
        "fdr",
        "What is selected: as many candidates as fdr allows, or those of the largest expected F.",
    )
    per_document: int | None = option(
        None, "Most new keywords that are selected in a document; by default no limit.", ge=1
    )
    keyword_rate: float | None = share(
        None,
        "Share of candidate words that are keywords, where you know it; otherwise it is estimated "
        "from documents marked complete and, roughly, from the labels.",
    )
    rate_sd: float = option(
        0.0,
        "Uncertainty of the given rate, as the standard deviation of its logarithm: 0.3 for within "
        "a factor of 1.6 or so; 0 = exact.",
        ge=0.0,
        le=2.0,
    )


def conflict(options: Any) -> str | None:
    """Say which options, or settings with their names, do not go together; None where all do."""
    given = (options.keyword_rate, getattr(options, "keyphrases", None))
    if options.rate_sd > 0.0 and given == (None, None):
        return "rate_sd is the uncertainty of a given rate: give the rate too"
    return None
