"""Calibration of keywords: words drawn from pooled VBSS, and its sampler's ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from flows.keywords.settings import KeywordSettings
from vbmodels.core.fit import fit
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.corpus import CorpusProbit
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.pooled_gibbs import pooled_gibbs
from vbmodels.keywords.selection import select_new_by_fdr
from vbmodels.keywords.simulate import simulate_pooled, take_documents
from vbmodels.testing.calibration import SHARE, Bounds, Calibration, Readings, Told, ranked

DOCUMENTS, COMPLETE, WORDS = 120, 30, 15.0
CORRELATION = 0.3


def pooled(rng: np.random.Generator) -> Readings:
    """The pooled model; see `readings`."""
    return readings(rng, PooledVBSS())


def corpus(rng: np.random.Generator) -> Readings:
    """The corpus model; see `readings`."""
    return readings(rng, CorpusProbit())


def readings(rng: np.random.Generator, model: Any) -> Readings:
    """A corpus with complete documents, so that the share of keywords is known.

    Slopes come from their prior; the constant's is so wide that most corpora would be all
    keywords or none, so it is set for a share between .1 and .4.
    """
    settings = KeywordSettings()
    slopes = rng.standard_normal(3)
    spread = np.sqrt(1.0 + (1.0 - CORRELATION) * slopes @ slopes + CORRELATION * slopes.sum() ** 2)
    constant = spread * ndtri(rng.uniform(0.1, 0.4))
    batch, truth = simulate_pooled(
        rng,
        DOCUMENTS,
        coefficients=np.concatenate([[constant], slopes]),
        mean_words=WORDS,
        mean_alpha=rng.uniform(0.3, 0.9),
        n_complete=COMPLETE,
        correlation=CORRELATION,
    )
    done = fit(model, [batch], tol=settings.tol, max_iter=settings.max_iter)
    local = model.local_step(done.q, batch, None)
    p = model.probabilities(done.q, batch, local)
    unlisted = ~batch.y & np.repeat(~batch.complete, batch.sizes)
    # As the pipeline selects: known words and complete documents have nothing left to find.
    open_ = take_documents(batch, COMPLETE, DOCUMENTS)
    first = int(batch.offsets[COMPLETE])
    chosen = select_new_by_fdr(p[first:], open_.y, open_.offsets, settings.fdr) & ~open_.y
    return {
        "unlisted words": Told(p[unlisted], truth.keyword[unlisted]),
        "selected words": Told(p[first:][chosen], truth.keyword[first:][chosen]),
    }


# The sampler.

SAMPLED = PooledVBSS(constant_sd=1.0)
"""Without complete documents alpha_d has a uniform prior, so the model generates its labels."""


def pooled_ranks(rng: np.random.Generator) -> Readings:
    """Ranks of w and of two alpha_d."""
    n, d = 60, 6
    x = rng.standard_normal((n, 2))
    x = np.column_stack([np.ones(n), (x - x.mean(0)) / x.std(0)])
    w = rng.standard_normal(3)
    alpha = rng.random(d)
    y = (x @ w + rng.standard_normal(n) > 0) & (rng.random(n) >= np.repeat(alpha, n // d))
    batch = KeywordBatch(
        x=x,
        y=y,
        offsets=np.arange(0, n + 1, n // d),
        fold=np.arange(d),
        complete=np.zeros(d, bool),
        edge_row=np.zeros(0, np.int64),
        edge_col=np.zeros(0, np.int64),
        edge_count=np.zeros(0),
        edge_offsets=np.zeros(d + 1, np.int64),
    )
    found = pooled_gibbs(
        SAMPLED, batch, rng, chains=1, draws=49, warmup=100, thin=8, keep_documents=True
    )
    draws = np.column_stack([found.coefficients[0], found.alpha[0, :, :2]])
    return {"w and alpha": ranked(np.concatenate([w, alpha[:2]]), draws, rng)}


ITEMS = (
    Calibration(
        form="keywords, pooled",
        run=pooled,
        bounds={
            # Said below .1: .010 too little. A document's own count stands in its prior of
            # alpha_d, so is used twice; with 40 words in place of 15 the slope is .92.
            "unlisted words": Bounds(
                large=(0.0, 0.01),
                slope=(0.83, 0.93),
                bins=0.02,
                measured="1,000 runs: .0040 +- .0006, slope .878 +- .005, bins to .015",
            ),
            "selected words": Bounds(
                large=(-0.01, 0.01), **SHARE, measured="1,000 runs: -.0005 +- .0015"
            ),
        },
        few=20,
    ),
    Calibration(form="keywords, pooled, gibbs", run=pooled_ranks, few=12),
)

CORPUS = (
    Calibration(
        form="keywords, corpus",
        run=corpus,
        bounds={
            "unlisted words": Bounds(
                large=(-0.007, 0.005),
                slope=(0.94, 1.02),
                bins=0.02,
                measured="300 runs: -.0020 in the large, slope .980, bins to -.016",
            ),
            "selected words": Bounds(large=(-0.01, 0.01), **SHARE, measured="300 runs: -.0038"),
        },
        few=20,
    ),
)
