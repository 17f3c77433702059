"""Calibration of phrases: drawn from a probit on their words' scores and a feature of theirs."""

import numpy as np

from flows.keywords.settings import KeywordSettings
from tests.contract.phrases_drawn import drawn, phrase_units
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.selection import Histogram, select_above
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.testing.calibration import SHARE
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings

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
    r = model.phrases.probabilities(q.phrases, phrase_units(model, q, batch), None)
    whole = np.repeat(batch.words.complete, np.diff(batch.offsets))
    new = ~batch.y & ~whole
    # Documents that are complete have nothing left to find.
    least = Histogram.of(np.where(whole, 0.0, r), batch.y, batch.offsets).least_by_fdr(0.3)
    chosen = select_above(r, batch.y, batch.offsets, least) & new
    return {
        "unlisted phrases": Forecast(r[new], truth[new]),
        "selected phrases": Forecast(r[chosen], truth[chosen]),
    }


ITEMS = (
    Calibration(
        form="keywords, phrases",
        run=phrases,
        bounds={
            "unlisted phrases": Bounds(
                large=(-0.010, 0.004),
                slope=(0.91, 1.01),
                bins=0.05,
                measured="60 runs: -.0032 +- .0023, slope .96 +- .02",
            ),
            "selected phrases": Bounds(
                # The top is over-confident: the docs say so and select by expected F.
                large=(-0.06, 0.01),
                **SHARE,
                measured="60 runs: -.0335 +- .0134 at the level .3",
            ),
        },
        few=10,
    ),
)
