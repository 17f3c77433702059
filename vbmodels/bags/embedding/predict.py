"""What the embedding says of bags: probabilities, and what adds to their scores.

With G the columns of new bags, m = G w and s^2 = |L^-1 G|^2,
P = Phi(m/sqrt(1 + s^2)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.model import Embedding
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class BagScores:
    """What is said of bags.

    Attributes
    ----------
    mean, sd
        Of the score f, [B].
    probability
        P(y = 1), [B].
    shares
        Mean of what each block adds to f, [B, M + 1]; the last is the constant. They sum to
        ``mean``.
    """

    mean: FloatArray
    sd: FloatArray
    probability: FloatArray
    shares: FloatArray


def predict_bags(q: Embedding, data: Bags) -> BagScores:
    """Return what is said of bags; their labels are not read."""
    columns = q.map.columns(data)
    mean, variance = q.marginals(columns)
    probability = ndtr(mean / np.sqrt(1.0 + variance))
    return BagScores(mean, np.sqrt(variance), probability, shares_of(q, columns))


def shares_of(q: Embedding, columns: FloatArray) -> FloatArray:
    """Return the mean of what each block adds to f, the last the constant, [B, M + 1]."""
    count = len(q.map.bases) + 1
    shares = np.zeros((len(columns), count))
    parts = columns * q.block_mean
    for m in range(count):
        shares[:, m] = parts[:, q.map.block == m].sum(axis=1)
    return shares
