"""What the user may say of keyword extraction, to the pipeline and to the estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vbmodels.core.options import option, share
from vbmodels.keywords.graph import DAMPING, WINDOW


@dataclass(eq=False, repr=False)
class KeywordOptions:
    """Options of keyword extraction."""

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
    keyword_rate: float | None = share(
        None,
        "Share of candidate words that are keywords; estimated from documents marked complete "
        "when it is not given.",
    )
    window: int = option(
        WINDOW, "Largest distance, in words, that counts as co-occurrence.", ge=1, le=50
    )
    damping: float = share(DAMPING, "Damping of TextRank and of the SS scores.")
    document_precision: float | None = option(
        None,
        "pooled: precision of an intercept of each document; by default there is none.",
        gt=0.0,
    )
