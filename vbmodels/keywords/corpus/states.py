"""What the corpus model keeps of a fit, and what its partitions return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.linalg import Moments
from vbmodels.core.state import BoolArray, FloatArray, State, Stats
from vbmodels.keywords.prior.counts import CountLaw, Lengths
from vbmodels.keywords.prior.rates import RateSources
from vbmodels.keywords.units import KeywordBatch


@dataclass(frozen=True)
class CorpusObserved(Stats, kind="keywords/corpus.CorpusObserved"):
    """Needed once: moments of the features, and the table of lengths and labels."""

    words: Moments
    lengths: Lengths
    n_documents: int
    n_complete: int


@dataclass(frozen=True)
class CorpusGlobal(State, kind="keywords/corpus.CorpusGlobal"):
    """K points of theta (one, or three nodes of log pi), and what a new document needs.

    Parameters
    ----------
    free_rate
        Whether log pi moves with the rest: while the labels' shape is read.
    theta
        [K, P + 2] w in standardised units, log pi and kappa of each point.
    weights
        [K] of the nodes.
    credibility
        [K] rho at each.
    expected
        Whether partitions return Fisher's information, not the observed one.
    information
        [K, P + 2, P + 2] of the log posterior at the points, as far as it is known.
    location, scale
        [P] standardisation; column 0 is left as it is. The scale of a constant column is
        infinite, which drops it.
    spread
        sd of y* over the candidates about the constant, under the learnt prior; 1 without one.
    law
        Numbers of keywords by length.
    sources
        What informs the rate.
    n_documents, n_complete
        Documents fitted, and those of them whose keywords are all known.
    """

    free_rate: bool
    theta: FloatArray
    weights: FloatArray
    credibility: FloatArray
    expected: bool
    information: FloatArray
    location: FloatArray
    scale: FloatArray
    spread: float
    law: CountLaw
    sources: RateSources
    n_documents: int
    n_complete: int

    @property
    def mean(self) -> FloatArray:
        """[P] coefficients, averaged over the nodes."""
        return np.asarray(self.weights @ self.theta[:, :-2])

    @property
    def rate(self) -> float:
        """pi at the middle node."""
        return float(np.exp(self.theta[0, -2]))

    @property
    def exponent(self) -> float:
        """kappa, averaged over the nodes."""
        return float(self.weights @ self.theta[:, -1])


@dataclass(frozen=True)
class CorpusStats(Stats, kind="keywords/corpus.CorpusStats"):
    """Log-likelihood [K], gradient [K, P + 2] and information [K, P + 2, P + 2]."""

    value: FloatArray
    gradient: FloatArray
    information: FloatArray

    def where(self, risen: BoolArray, other: CorpusStats) -> CorpusStats:
        """Return these at the points that have risen, [K], and others elsewhere."""
        return CorpusStats(
            np.where(risen, self.value, other.value),
            np.where(risen[:, None], self.gradient, other.gradient),
            np.where(risen[:, None, None], self.information, other.information),
        )


def average(q: CorpusGlobal, batch: KeywordBatch, by_node: FloatArray) -> FloatArray:
    """Return the mean [W] over the nodes of probabilities [K, W]: exactly 1 where listed."""
    return np.where(batch.y, 1.0, q.weights @ by_node)
