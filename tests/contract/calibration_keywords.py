"""Calibration of keywords: words drawn from a probit regression over the corpus."""

import numpy as np
from scipy.special import ndtri

from flows.keywords.settings import KeywordSettings
from reproduce.keyword_documents import take_documents
from tests.contract.words_drawn import simulate_words
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.selection import select_new_by_fdr
from vbmodels.testing.calibration import SHARE
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings

DOCUMENTS, COMPLETE, WORDS = 120, 30, 15.0
CORRELATION = 0.3


def corpus(rng: np.random.Generator) -> Readings:
    """A corpus with complete documents, so that the share of keywords is known.

    Slopes come from their prior; the constant's is so wide that most corpora would be all
    keywords or none, so it is set for a share between .1 and .4.
    """
    settings = KeywordSettings(unit="word")
    slopes = rng.standard_normal(3)
    spread = np.sqrt(1.0 + (1.0 - CORRELATION) * slopes @ slopes + CORRELATION * slopes.sum() ** 2)
    constant = spread * ndtri(rng.uniform(0.1, 0.4))
    batch, truth = simulate_words(
        rng,
        DOCUMENTS,
        coefficients=np.concatenate([[constant], slopes]),
        mean_words=WORDS,
        mean_alpha=rng.uniform(0.3, 0.9),
        n_complete=COMPLETE,
        correlation=CORRELATION,
    )
    model = CorpusProbit()
    done = fit(model, [batch], tol=settings.tol, max_iter=settings.max_iter)
    p = model.probabilities(done.q, batch, None)
    unlisted = ~batch.y & np.repeat(~batch.complete, batch.sizes)
    # As the pipeline selects: known words and complete documents have nothing left to find.
    open_ = take_documents(batch, COMPLETE, DOCUMENTS)
    first = int(batch.offsets[COMPLETE])
    chosen = select_new_by_fdr(p[first:], open_.y, open_.offsets, settings.fdr) & ~open_.y
    return {
        "unlisted words": Forecast(p[unlisted], truth.keyword[unlisted]),
        "selected words": Forecast(p[first:][chosen], truth.keyword[first:][chosen]),
    }


ITEMS = (
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
