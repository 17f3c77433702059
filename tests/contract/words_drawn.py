"""Words of documents drawn from a probit regression over the corpus, with their truth."""

from typing import NamedTuple

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.keywords.units import KeywordBatch

# Shifts and spreads of the raw features, so that standardisation has work to do.
LOCATIONS = (0.0, 3.0, -40.0, 0.2)
SPREADS = (1.0, 2.5, 7.0, 0.1)


class WordsTruth(NamedTuple):
    """Coefficients [P] of features of unit variance, alpha [D], and whether words are keywords."""

    coefficients: FloatArray
    alpha: FloatArray
    keyword: BoolArray

    @property
    def keyword_rate(self) -> float:
        return float(self.keyword.mean())


def simulate_words(
    rng: np.random.Generator,
    n_documents: int,
    *,
    coefficients: FloatArray,
    mean_words: float = 40.0,
    mean_alpha: float = 0.7,
    concentration: float = 20.0,
    n_complete: int = 0,
    correlation: float = 0.3,
) -> tuple[KeywordBatch, WordsTruth]:
    """Draw documents of which each lists a share of its keywords at random.

    eta = x'w, y* = 1(eta + e > 0), e ~ N(0, 1), P(y = 1 | y* = 1) = 1 - alpha_d.

    The first ``n_complete`` documents list all; any two features have this ``correlation``, and
    alpha_d ~ Beta(concentration mean_alpha, concentration (1 - mean_alpha)).
    """
    sizes = 2 + rng.poisson(max(mean_words - 2.0, 0.0), n_documents)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    total, p = int(offsets[-1]), len(coefficients)
    shared = rng.standard_normal((total, 1))
    own = rng.standard_normal((total, p - 1))
    features = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    eta = coefficients[0] + features @ coefficients[1:]
    # The first draws are of no use: published figures were measured on the others.
    noise = rng.standard_normal(n_documents + total)[n_documents:]
    keyword = eta + noise > 0.0
    alpha = rng.beta(concentration * mean_alpha, concentration * (1 - mean_alpha), n_documents)
    complete = np.arange(n_documents) < n_complete
    alpha[complete] = 0.0
    y = keyword & (rng.random(total) >= np.repeat(alpha, sizes))
    cycle = np.arange(p - 1) % len(LOCATIONS)
    raw = np.asarray(LOCATIONS)[cycle] + np.asarray(SPREADS)[cycle] * features
    batch = KeywordBatch(
        x=np.column_stack([np.ones(total), raw]),
        y=y,
        offsets=offsets,
        fold=np.arange(n_documents, dtype=np.int64) % 10,
        complete=complete,
        edge_row=np.zeros(0, dtype=np.int64),
        edge_col=np.zeros(0, dtype=np.int64),
        edge_count=np.zeros(0),
        edge_offsets=np.zeros(n_documents + 1, dtype=np.int64),
    )
    return batch, WordsTruth(coefficients, alpha, keyword)
