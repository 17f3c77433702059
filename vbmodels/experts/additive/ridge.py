"""Ridge logistic regression on lines by Newton's method, and its path over tau.

With f = X w and t = 2 y - 1 a fit climbs sum_n v_n log sigma(t_n f_n) - tau/2 sum_j s_j^2 w_j^2,
s_j^2 the variance of column j (so tau is that of columns of unit variance) plus ten rows' worth,
which keeps rare levels small; the intercept is N(0, 10). Steps are Newton's, with second moments
that are renewed when they no longer lead up. Tau is chosen by leaving rows out (`newton`).

The other form is lines and a Gaussian process (`interactions`): its columns have precision tau,
which is 1 over the variance that it gives f, and lines that of `LINES_TAU`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Request, Save
from vbmodels.core.linalg import cholesky, inverse, pack, solve, unpack
from vbmodels.core.state import FloatArray, State
from vbmodels.experts.additive.newton import DesignSummary, Evaluation, FitRequest, Fits, FitSums
from vbmodels.experts.additive.posterior import Part

TRIALS = 8
"""Steps taken with the same second moments."""
SHORTEST = 1e-9
"""Share of Newton's step at which a fit ends whose log-likelihood does not rise along it."""
PROCESS_TAUS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.06, 0.03)
TAUS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
PAST, PROCESS_PAST = 2, 1
"""Values of tau that are tried after the best one so far; a process's are near one another."""


@dataclass(frozen=True)
class RidgeFit(State, kind="experts/additive.RidgeFit"):
    """A fit, at its end or on its way.

    Attributes
    ----------
    tau, fold, joint
        What is fitted: see `FitRequest`.
    coefficients
        [P + 1].
    value, slope
        Log-likelihood and its slope there; -inf and 0 before they are known.
    second
        Second moments, packed; None where they are to be made.
    fresh
        Whether they were made at ``coefficients``.
    """

    tau: float
    fold: int
    joint: bool
    coefficients: FloatArray
    value: float
    slope: FloatArray
    second: FloatArray | None
    fresh: bool

    @classmethod
    def at(cls, tau: float, start: FloatArray, joint: bool = False) -> RidgeFit:
        """Begin at coefficients, with all rows."""
        return cls(tau, -1, joint, start, -np.inf, np.zeros_like(start), None, False)

    def without(self, fold: int, share: float) -> RidgeFit:
        """Begin here without a part of the rows, with the share of second moments that is left."""
        second = share * np.asarray(self.second)
        return replace(self, fold=fold, value=-np.inf, second=second, fresh=False)

    def left_out(self, observed: DesignSummary) -> FitRequest:
        """Request what leaving each row out gives at the fit's end."""
        packed = pack(self.hessian(observed))
        return FitRequest(self.coefficients, self.fold, False, packed, self.joint)

    def hessian(self, observed: DesignSummary) -> FloatArray:
        """Return H; [P + 1, P + 1]."""
        h = unpack(np.asarray(self.second))
        h[np.diag_indices(len(h))] += observed.precision(self.tau, self.joint)
        return h

    def part(self, observed: DesignSummary) -> Part:
        """Return what the fit found, with the covariance where it has seen all rows."""
        covariance = None
        if self.fold < 0:
            covariance = pack(inverse(cholesky(self.hessian(observed), "the second moments")))
        return Part(self.coefficients, self.tau, self.fold, covariance, self.joint)


def newton(fit: RidgeFit, observed: DesignSummary, tolerance: float) -> Algorithm:
    """Climb until less than ``tolerance`` nats are promised; return the fit."""
    precision = observed.precision(fit.tau, fit.joint)
    factor: FloatArray | None = None  # of H, made once for the same second moments
    taken = 0  # steps since they were made
    while True:
        fit, taken = yield Save((fit, taken))
        if fit.second is None:
            now = yield from _evaluated(fit, fit.coefficients, second=True)
            fit = replace(fit, value=now.value, slope=now.slope, second=now.second, fresh=True)
            factor, taken = None, 0
        elif fit.value == -np.inf:
            now = yield from _evaluated(fit, fit.coefficients)
            fit, taken = replace(fit, value=now.value, slope=now.slope), 1
        if factor is None:
            factor = cholesky(fit.hessian(observed), "the second moments")
        uphill = fit.slope - precision * fit.coefficients
        move = solve(factor, uphill)
        ends = 0.5 * uphill @ move <= tolerance
        if ends and (fit.fresh or fit.fold >= 0):
            return fit
        if ends or taken >= TRIALS:
            fit = replace(fit, second=None)
            continue
        before = fit.value - 0.5 * precision @ fit.coefficients**2
        least, step = before - 1e-12 * abs(before), 1.0
        trial = fit.coefficients + move
        now = yield from _evaluated(fit, trial)
        while fit.fresh and not now.value - 0.5 * precision @ trial**2 >= least:
            step *= 0.5
            if step < SHORTEST:
                return fit
            trial = fit.coefficients + 0.5 * (trial - fit.coefficients)
            now = yield from _evaluated(fit, trial)
        if now.value - 0.5 * precision @ trial**2 >= least:
            fit = replace(fit, coefficients=trial, value=now.value, slope=now.slope, fresh=False)
            taken += 1
        else:
            fit = replace(fit, second=None)


def _evaluated(
    fit: RidgeFit, at: FloatArray, second: bool = False
) -> Generator[Request, Any, Evaluation]:
    """Evaluate a fit at coefficients."""
    sums: FitSums = yield Evaluate(Fits((FitRequest(at, fit.fold, second, joint=fit.joint),)))
    return sums.evaluations[0]


@dataclass(frozen=True)
class Path(State, kind="experts/additive.Path"):
    """The values of tau that were tried, what leaving rows out gives of each, and the best fit."""

    taus: FloatArray
    left_out: FloatArray
    best: RidgeFit


def path(
    observed: DesignSummary,
    tolerance: float,
    taus: tuple[float, ...] = TAUS,
    past: int = PAST,
    joint: bool = False,
) -> Algorithm:
    """Fit for ever smaller tau, each begun at the last, the first at the intercept alone.

    It ends ``past`` values of tau after that which leaving rows out says is best.
    """
    fit = best = RidgeFit.at(taus[0], observed.start(observed.precision(1.0, joint).size), joint)
    left_out: tuple[float, ...] = ()
    ended = False
    while not ended:
        fit, best, left_out = yield Save((fit, best, left_out))
        fit = yield Phase(newton(replace(fit, tau=taus[len(left_out)]), observed, tolerance))
        sums = yield Evaluate(Fits((fit.left_out(observed),)))
        left_out = (*left_out, float(sums.left_out.value[0]))
        if left_out[-1] >= max(left_out):
            best = fit
        since_best = len(left_out) - 1 - int(np.argmax(left_out))
        ended = len(left_out) == len(taus) or since_best >= past
    return Path(np.array(taus[: len(left_out)]), np.array(left_out), best)
