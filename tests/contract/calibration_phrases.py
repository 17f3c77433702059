"""Calibration of phrases: drawn from a probit on their words' scores and a feature of theirs."""

from __future__ import annotations

import numpy as np

from flows.keywords.settings import KeywordSettings
from tests.contract.calibration import SHARE, Bounds, Calibration, Readings, Told
from tests.contract.phrases_drawn import drawn
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus_selection import Histogram, select_above
from vbmodels.keywords.phrases.model import Keyphrases

DOCUMENTS, COMPLETE = 120, 30


def phrases(rng: np.random.Generator) -> Readings:
    """Phrases that were not known, of documents that are not complete, and the selected ones."""
    settings = KeywordSettings()
    batch, truth = drawn(
        rng,
        DOCUMENTS,
        listed=rng.uniform(0.2, 0.6),
        n_complete=COMPLETE,
        slopes=tuple(rng.uniform(0.4, 1.2, 2)),
    )
    model = Keyphrases()
    q = fit(model, [batch], tol=settings.tol, max_iter=settings.max_iter).q
    r = model.phrases.probabilities(q.phrases, model.phrase_units(q, batch), None)
    whole = np.repeat(batch.words.complete, np.diff(batch.offsets))
    new = ~batch.y & ~whole
    # Documents that are complete have nothing left to find.
    least = Histogram.of(np.where(whole, 0.0, r), batch.y, batch.offsets).least_by_fdr(0.3)
    chosen = select_above(r, batch.y, batch.offsets, least) & new
    return {
        "unlisted phrases": Told(r[new], truth[new]),
        "selected phrases": Told(r[chosen], truth[chosen]),
    }


ITEMS = (
    Calibration(
        form="keywords, phrases",
        run=phrases,
        bounds={
            "unlisted phrases": Bounds(
                large=(-0.02, 0.02),
                slope=(0.85, 1.1),
                bins=0.05,
                measured="to be replaced",
            ),
            "selected phrases": Bounds(large=(-0.05, 0.05), **SHARE, measured="to be replaced"),
        },
        few=10,
    ),
)
