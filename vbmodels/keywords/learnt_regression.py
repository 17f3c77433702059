"""The learnt prior of one regression; see `vbmodels.keywords.learnt_prior`."""

from __future__ import annotations

from dataclasses import dataclass


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
