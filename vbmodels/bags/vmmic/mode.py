"""The mode of the collapsed posterior by Levenberg-Marquardt, and what a partition returns for it.

With L the prior's precision, A = H + diag L and the likelihood of `likelihood`,

    t <- t + (A + lambda diag A)^-1 (g - L t),

from t = 0, accepted where the log posterior rises; lambda falls fivefold after a success and
rises sixfold after a failure. The precisions of slopes are learned on the way (`priors`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.bags.bags import Bags, few_bags
from vbmodels.bags.vmmic.layout import Layout, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood
from vbmodels.bags.vmmic.posterior import Gaussian, Posterior
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.linalg import pack, unpack
from vbmodels.core.state import FloatArray, State, Stats

MOST_TRIALS = 40


class FewBags(UserWarning):
    """There are about as many features as bags: expect little of the fit."""


def refuse_hopeless(positive: float, bags: float, layout: Layout) -> None:
    """Refuse bags of one class, and warn where features are about as many as bags."""
    if not 0.0 < positive < bags:
        raise ValueError(
            "expected positive and negative bags, got "
            f"{positive:.0f} positive of {bags:.0f} with a label"
        )
    if few := few_bags(bags, layout.own + sum(layout.features)):
        warnings.warn(few, FewBags, stacklevel=3)


@dataclass(frozen=True)
class Sums(Stats, kind="bags/vmmic.Sums"):
    """What a partition returns for points [C, M, dim]: C components with M points each.

    Attributes
    ----------
    value
        log p(y | t) at each point, [C, M].
    gradient
        Summed over the points of a component, [C, dim]; [C, 0] where only values are requested.
    information
        The same of the Fisher information, packed, [C, dim (dim + 1) / 2].
    """

    value: FloatArray
    gradient: FloatArray
    information: FloatArray

    @classmethod
    def at(
        cls, points: FloatArray, likelihood: Likelihood, batch: Bags, wants_gradient: bool
    ) -> Sums:
        """Evaluate the likelihood of a partition's labelled bags at points [C, M, dim]."""
        data = batch.labelled()
        if not wants_gradient:
            value = np.array([[likelihood.value(t, data) for t in ts] for ts in points])
            nothing = np.empty((len(points), 0))
            return cls(value, nothing, nothing)
        found = [[likelihood.evaluate(t, data) for t in ts] for ts in points]
        return cls(
            value=np.array([[e.value for e in row] for row in found]),
            gradient=np.array([np.sum([e.gradient for e in row], axis=0) for row in found]),
            # Its upper triangle: a likelihood's information is symmetric but for rounding.
            information=np.array(
                [np.sum([pack(e.information.T) for e in row], axis=0) for row in found]
            ),
        )


@dataclass(frozen=True)
class ModeSearch(State, kind="bags/vmmic.ModeSearch"):
    """The state of Levenberg-Marquardt: the best point so far, and the trial to evaluate.

    ``value`` is the log posterior at ``at``, -inf before the first evaluation; ``first``
    the information at the first point (empty unless it is to be kept).
    """

    scaling: Scaling
    seed: int
    at: FloatArray
    value: float
    gradient: FloatArray
    information: FloatArray
    first: FloatArray
    tau: FloatArray
    damping: float
    count: int
    points: FloatArray
    found: bool

    @classmethod
    def start(cls, scaling: Scaling, priors: Priors, seed: int, keep_first: bool) -> ModeSearch:
        """Start at t = 0; ``keep_first``: whether the information there is kept."""
        layout = scaling.layout
        origin, nothing = np.zeros(layout.dim), np.zeros((layout.dim, layout.dim))
        return cls(
            scaling=scaling,
            seed=seed,
            at=origin,
            value=-np.inf,
            gradient=origin,
            information=nothing,
            first=nothing if keep_first else np.empty((0, 0)),
            tau=priors.fixed(layout),
            damping=1e-2,
            count=0,
            points=origin[None, None],
            found=False,
        )

    def posterior(self, priors: Priors) -> Posterior:
        """Return the Gaussian at the best point so far."""
        precision = self.information + np.diag(priors.precision(self.scaling.layout, self.tau))
        return Posterior(self.scaling, (Gaussian(self.at, precision),), self.tau[None])


def log_posterior(q: ModeSearch, tau: FloatArray, stats: Sums, priors: Priors) -> float:
    """Return log p(y | t) + log p(t | tau) at the trial, without the prior's normaliser."""
    layout, trial = q.scaling.layout, q.points[0, 0]
    return float(stats.value[0, 0] - 0.5 * trial @ (priors.precision(layout, tau) * trial))


def mode_step(q: ModeSearch, stats: Sums, priors: Priors) -> ModeSearch:
    """Accept or reject the trial, and propose the next unless the mode is found.

    It is found when an accepted and hardly damped step gains less than a hundredth of a nat,
    when no step gains, or, near enough for a start, after 40 trials.
    """
    layout, trial = q.scaling.layout, q.points[0, 0]
    rise = log_posterior(q, q.tau, stats, priors) - q.value
    if rise > 0.0:
        information, tau = unpack(stats.information[0]), q.tau
        if q.count:
            tau = priors.tau(layout, trial, np.zeros(layout.dim))
        q = replace(
            q,
            at=trial,
            value=log_posterior(q, tau, stats, priors),
            gradient=stats.gradient[0],
            information=information,
            first=information if q.first.size and not q.count else q.first,
            tau=tau,
            damping=max(q.damping / 5.0, 1e-6),
        )
    else:
        q = replace(q, damping=6.0 * q.damping)
    q = replace(q, count=q.count + 1)
    settled = 0.0 < rise < 1e-2 and q.damping < 0.1
    if q.count >= MOST_TRIALS or q.damping > 1e8 or settled:
        return replace(q, found=True)
    precision = priors.precision(layout, q.tau)
    curvature = q.information + np.diag(precision)
    curvature[np.diag_indices(layout.dim)] *= 1.0 + q.damping
    slope = q.gradient - precision * q.at
    step = cho_solve(cho_factor(curvature), slope)
    return replace(q, points=(q.at + step)[None, None])
