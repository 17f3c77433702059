"""The models and samplers that the keywords settings name."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from flows.keywords.settings import SCORES, KeywordSettings
from vbmodels.core.state import FloatArray
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.corpus import CorpusProbit
from vbmodels.keywords.graph import ss, textrank
from vbmodels.keywords.options import DAMPING
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.published.bss import BSS
from vbmodels.keywords.published.bss_gibbs import bss
from vbmodels.keywords.published.coordinate import Form
from vbmodels.keywords.published.documents_gibbs import Sampler, sample_documents
from vbmodels.keywords.published.gibbs import gibbs
from vbmodels.keywords.published.vbss import VBSS


def model_of(settings: KeywordSettings) -> Any:
    """Return the model to fit; None for samplers and plain scores."""
    if settings.model in SCORES or settings.sampled:
        return None
    if settings.model == "vbss":
        return VBSS(form=cast(Form, settings.inference), max_words=settings.max_words)
    if settings.with_phrases:
        return Keyphrases(per_document=settings.keyphrases, per_document_sd=settings.rate_sd)
    return CorpusProbit(keyword_rate=settings.keyword_rate, keyword_rate_sd=settings.rate_sd)


def sample(settings: KeywordSettings, batch: KeywordBatch, index: int) -> tuple[FloatArray, float]:
    """Return P(keyword | y) [W] of a partition by sampling, and the largest R-hat."""
    rng = np.random.default_rng([settings.seed, index])
    size: dict[str, Any] = {"chains": 4, "draws": settings.draws, "warmup": settings.draws // 2}
    sampler: Sampler
    if settings.model == "bss":
        sampler = partial(bss, model=BSS(), **size)
    else:
        sampler = partial(gibbs, model=VBSS(max_words=settings.max_words), **size)
    r, r_hat = sample_documents(batch, sampler, rng)
    return r, float(r_hat.max(initial=1.0))


def score_words(settings: KeywordSettings, batch: KeywordBatch) -> FloatArray:
    """Return TextRank, or SS, of every word [W]."""
    values = [
        textrank(a, DAMPING) if settings.model == "textrank" else ss(a, y, DAMPING)
        for y, a in batch.documents()
    ]
    return np.concatenate([np.zeros(0), *values])
