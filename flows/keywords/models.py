"""The models and samplers that the keywords settings ask for."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from flows.keywords.settings import KeywordSettings
from vbmodels.core.state import FloatArray
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.chosen import model_of
from vbmodels.keywords.corpus import CorpusProbit
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.pooled_gibbs import pooled_gibbs
from vbmodels.keywords.published.bss import BSS
from vbmodels.keywords.published.bss_gibbs import bss
from vbmodels.keywords.published.coordinate import Form
from vbmodels.keywords.published.documents_gibbs import Sampler, sample_documents
from vbmodels.keywords.published.gibbs import gibbs
from vbmodels.keywords.published.vbss import VBSS


def document_model(settings: KeywordSettings) -> VBSS:
    """Return VBSS per document."""
    return VBSS(
        form=cast(Form, settings.model),
        per_word=settings.per_word,
        damping=settings.damping,
        tau=settings.tau,
        var_a=settings.var_a,
        var_b=settings.var_b,
        max_words=settings.max_words,
    )


def phrase_model(settings: KeywordSettings) -> Keyphrases:
    """Return the models of words and phrases."""
    return Keyphrases(
        words=cast(CorpusProbit, model_of(settings)),
        with_words=settings.with_words,
        per_document=settings.keyphrases,
        per_document_sd=settings.keyphrases_sd,
    )


def sample(settings: KeywordSettings, batch: KeywordBatch, index: int) -> tuple[FloatArray, float]:
    """Return P(keyword | y) [W] of a partition by sampling, and the largest R-hat."""
    rng = np.random.default_rng([settings.seed, index])
    size: dict[str, Any] = {
        "chains": settings.chains,
        "draws": settings.draws,
        "warmup": settings.warmup,
    }
    if settings.model == "pooled":
        found = pooled_gibbs(cast(PooledVBSS, model_of(settings)), batch, rng, **size)
        return found.keyword, found.diagnose().largest_r_hat
    sampler: Sampler
    if settings.model == "bss":
        sampler = partial(bss, model=BSS(damping=settings.damping), **size)
    else:
        sampler = partial(gibbs, model=document_model(settings), **size)
    r, r_hat = sample_documents(batch, sampler, rng)
    return r, float(r_hat.max(initial=1.0))
