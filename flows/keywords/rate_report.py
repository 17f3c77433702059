"""What the keywords report says of the rate of keyphrases, and of what makes a phrase one."""

from __future__ import annotations

from typing import Any

from flows.keywords.summary import (
    HiddenLists,
    Names,
)
from vbmodels.keywords.corpus.model import CorpusProbit, coefficient_table
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.rate_prior import SOURCES


def rate_results(q: CorpusGlobal, model: CorpusProbit) -> dict[str, Any]:
    """Return the rate, the length exponent and their standard deviations for the record."""
    return {
        "keyword_rate": q.rate,
        "keyword_rate_log_sd": q.sources.combined()[1],
        "keyword_rate_sources": [SOURCES[i] for i in q.sources.speaking],
        "length_exponent": q.exponent,
        "length_exponent_sd": model.exponent_sd(q),
    }


def better_by_tf_idf(hidden: HiddenLists) -> tuple[str, ...]:
    """Warn where known ones rank worse than by tf-idf."""
    text = "TF-IDF ranks the known ones better: more known ones, or another kind of list (lists), "
    return () if hidden.apart[2] >= 0.0 else (f"{text}may help.",)


def effects(
    model: CorpusProbit, q: CorpusGlobal, names: Names
) -> tuple[tuple[str, float, float], ...]:
    """Return the name of each coefficient, its mean and its standard deviation."""
    return coefficient_table(model, q, names.features[: len(q.location)])
