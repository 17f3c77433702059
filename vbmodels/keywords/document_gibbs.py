"""The samplers of one document, applied to every document of a batch."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from vbmodels.core.chains import Diagnosis, diagnose
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.keywords.documents import KeywordBatch


class Sampled:
    """Draws from the posterior of one document: C chains of S draws."""

    r: FloatArray
    """[C, S, n] P(keyword | y, the draw of the others)."""

    def columns(self) -> FloatArray:
        """Return the parameters side by side, [C, S, K]."""
        raise NotImplementedError

    @property
    def probability(self) -> FloatArray:
        """P(keyword | y) of each word [n]."""
        return np.asarray(self.r.mean(axis=(0, 1)))

    def diagnose(self) -> Diagnosis:
        """Return R-hat, effective sizes and Monte-Carlo errors of `columns`."""
        return diagnose(self.columns())


class Sampler(Protocol):
    """A sampler of one document with its model and lengths chosen."""

    def __call__(self, y: BoolArray, adjacency: FloatArray, *, rng: np.random.Generator) -> Sampled:
        """Draw given labels y [n] and co-occurrence counts [n, n]."""


def sample_documents(
    batch: KeywordBatch, sampler: Sampler, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Sample every document of a batch on its own, with a generator of its own.

    Parameters
    ----------
    batch
        The documents.
    sampler
        Such as `gibbs` with its model given (`functools.partial`).
    rng
        It is spawned, once a document.

    Returns
    -------
    probability
        [W] P(keyword | y).
    r_hat
        [D] the largest R-hat of the document's parameters that vary.
    """
    probability, r_hat = np.empty(batch.n_words), np.empty(batch.n_documents)
    spawned = rng.spawn(batch.n_documents)
    for d, ((y, a), own) in enumerate(zip(batch.documents(), spawned, strict=True)):
        found = sampler(y, a, rng=own)
        probability[batch.words(d)] = found.probability
        r_hat[d] = found.diagnose().largest_r_hat
    return probability, r_hat
