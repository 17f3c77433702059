"""The share pi of the words that are keywords, from all that informs it, with its uncertainty.

Four sources, each a normal of log pi: what the user says; the complete documents; the labels'
own shape; and other corpora. P(listed | x) levels off at delta for the surest words, and a probit's
curve shows where: the maximum of the likelihood under a vague prior errs by a factor of 1.1 or
less on most corpora of 400 documents, so it is a weak source with a stated error, never a point:

    log pi ~ N(log given, sd^2) N(log complete, f_c / sum K_c) N(log shape + .1, se^2 + .25^2)
             N(a + b log n, s^2),

with n the candidates of a document and a, b, s of `vbmodels.keywords.learnt_prior`; .45 in the
place of .25 where annotators are of uneven zeal (rho > .3). The product N(M, V^2) is integrated
over by Gauss and Hermite's three nodes M, M -+ sqrt(3) V with weights 2/3, 1/6, 1/6. Around a
rate that is given as a fact the outer nodes are half and twice of it, with weights 0: what would be
found if it were wrong by so much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, State

SOURCES = ("your setting", "complete documents", "known keyphrases", "other corpora")
GIVEN, OF_COMPLETE, OF_LABELS, OF_CORPORA = range(4)

EXACT = 0.01
"""An sd of the logarithm below which a given rate is a fact: no other source is used."""
FACTORS = 0.5, 2.0
"""By which a fact may be wrong."""
VAGUE_RATE, VAGUE_SD = 0.15, 0.8
LABELS_SHIFT, LABELS_SD, UNEVEN_SD, UNEVEN = 0.1, 0.25, 0.45, 0.3
PHRASES_SD = 0.4
"""In the place of .25 for phrases: root mean square over eleven corpora."""
HIGHEST = float(np.log(0.95))


@dataclass(frozen=True)
class RateSources(State, kind="keywords.RateSources"):
    """Mean and sd of log pi by each of `SOURCES` [4], and which of them say something [4]."""

    log_rate: FloatArray
    source_sd: FloatArray
    says: BoolArray

    @classmethod
    def none(cls) -> Self:
        """Return the sources before any says something."""
        size = len(SOURCES)
        return cls(np.zeros(size), np.zeros(size), np.zeros(size, bool))

    def with_source(self, source: int, log_rate: float, sd: float) -> Self:
        """Return the same with what ``source`` says."""
        means, sds, says = self.log_rate.copy(), self.source_sd.copy(), self.says.copy()
        means[source], sds[source], says[source] = log_rate, sd, True
        return replace(self, log_rate=means, source_sd=sds, says=says)

    def without(self, source: int) -> Self:
        """Return the same where ``source`` says nothing."""
        says = self.says.copy()
        says[source] = False
        return replace(self, says=says)

    @property
    def exact(self) -> bool:
        """Whether the rate is given as a fact."""
        return bool(self.says[GIVEN] and self.source_sd[GIVEN] < EXACT)

    @property
    def speaking(self) -> list[int]:
        """The sources that say something; a fact silences the others."""
        return [GIVEN] if self.exact else [int(i) for i in np.flatnonzero(self.says)]

    @property
    def ends(self) -> tuple[float, float]:
        """pi at the outer nodes: between them it is with a probability of .92."""
        mean, sd = self.combined()
        low, high = np.exp(np.minimum(mean + np.sqrt(3.0) * sd * np.array([-1.0, 1.0]), HIGHEST))
        return float(low), float(high)

    def combined(self) -> tuple[float, float]:
        """Return M and V, mean and sd of log pi.

        Raises
        ------
        ValueError
            If no source says anything.
        """
        if not (at := self.speaking):
            raise ValueError("expected a source of the keyword rate, found none")
        if self.exact:
            return float(self.log_rate[GIVEN]), 0.0
        precision = self.source_sd[at] ** -2.0
        return (
            float(precision @ self.log_rate[at] / precision.sum()),
            float(precision.sum() ** -0.5),
        )

    def nodes(self) -> tuple[FloatArray, FloatArray]:
        """Return log pi and weight of every node."""
        mean, sd = self.combined()
        if self.exact:
            return np.minimum(mean + np.log([1.0, *FACTORS]), HIGHEST), np.array([1.0, 0.0, 0.0])
        if sd < EXACT:
            return np.array([min(mean, HIGHEST)]), np.ones(1)
        away = np.sqrt(3.0) * sd
        nodes = np.minimum([mean, mean - away, mean + away], HIGHEST)
        return nodes, np.array([2.0, 0.5, 0.5]) / 3.0


def labels_source(
    log_rate: float, se: float, credibility: float, labels_sd: float = LABELS_SD
) -> tuple[float, float]:
    """Return mean and sd of log pi by the labels' shape, from its estimate, se and rho.

    ``labels_sd`` is what it errs by, beyond se, where annotators are of even zeal.
    """
    own = max(UNEVEN_SD, labels_sd) if credibility > UNEVEN else labels_sd
    return log_rate + LABELS_SHIFT, float(np.hypot(se, own))


@dataclass(frozen=True)
class RateLine:
    """log pi ~ N(level + slope log n, sd^2), with n candidates a document."""

    level: float
    slope: float
    sd: float

    def at(self, log_size: float) -> tuple[float, float]:
        """Return mean and sd of log pi where documents have so many candidates."""
        return self.level + self.slope * log_size, self.sd


@dataclass(frozen=True)
class LearntRegression:
    """A prior of one regression, in the order of its features.

    Parameters
    ----------
    mean, sd
        [P] of the coefficients of features of unit variance; the constant's follow from the rate.
    learnt
        [P] whether a feature holds no labels.
    rate
        Of the kind of list.
    kind_given
        Whether the user has named the kind.
    """

    mean: tuple[float, ...]
    sd: tuple[float, ...]
    learnt: tuple[bool, ...]
    rate: RateLine
    kind_given: bool
