"""How the mode of (w, kappa) moves over log pi: a tangent, and what a tenth shows beyond it.

With t = log pi minus a place where the mode and its tangent s are known,

    (w, kappa)(t) = (w, kappa)(0) + s t + a t^2 + b t^3,

a and b being what modes at two further places leave beyond the tangent. They come of a tenth of
the documents and serve all: the mode and its tangent are made anew there, a and b are kept. It is
where a search begins, not where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from vbmodels.core.state import FloatArray, State

LEAST_AWAY = 0.05
"""Places nearer to one another than this in log pi tell no bend."""


@dataclass(frozen=True)
class Ridge(State):
    """What a tenth of the documents has shown.

    Parameters
    ----------
    mode, credibility
        [P + 2] theta where log pi is free, and rho there: where the search in all begins.
    place, bend
        log pi of t = 0, and a and b [2, P + 2].
    """

    mode: FloatArray
    credibility: float
    place: float
    bend: FloatArray

    @classmethod
    def before(cls, mode: FloatArray, credibility: float) -> Self:
        """Return what is known before any bend has been looked at."""
        return cls(mode.copy(), credibility, 0.0, np.zeros((2, len(mode))))

    def bent(self, modes: FloatArray, log_rate: FloatArray, tangent: FloatArray) -> Self:
        """Return the same with the bend.

        Parameters
        ----------
        modes, log_rate
            [K, P + 2] and [K]: modes with log pi held; the first is t = 0.
        tangent
            [P + 2] there.
        """
        away = log_rate[1:] - log_rate[0]
        if len(away) != 2 or min(*np.abs(away), abs(away[1] - away[0])) < LEAST_AWAY:
            return self
        rest = modes[1:] - modes[0] - np.outer(away, tangent)
        rest[:, -2] = 0.0  # log pi itself
        bend: FloatArray = np.linalg.solve(np.column_stack([away**2, away**3]), rest)
        return replace(self, place=float(log_rate[0]), bend=bend)

    def beyond_tangent(self, log_rate: FloatArray, base: float) -> FloatArray:
        """Return what the curve at ``log_rate`` [K] leaves beyond its tangent at ``base``."""
        away, start = log_rate - self.place, base - self.place
        square = away**2 - start**2 - 2.0 * start * (away - start)
        cube = away**3 - start**3 - 3.0 * start**2 * (away - start)
        rest: FloatArray = np.column_stack([square, cube]) @ self.bend
        return rest
