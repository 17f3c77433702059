"""The mode of vMMIC's collapsed posterior by Levenberg-Marquardt, and what partitions return.

With L the prior's precision, A = H + diag L and the likelihood of `likelihood`,

    t <- t + (A + lambda diag A)^-1 (g - L t),

from t = 0, accepted where the log posterior rises; lambda falls fivefold after a success and
rises sixfold after a failure. The precisions of slopes are learned on the way (`priors`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.bags.bags import Bags, few_bags
from vbmodels.bags.vmmic.layout import Layout, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood
from vbmodels.bags.vmmic.posterior import Gaussian
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.algorithm import Algorithm, Save, Show, Sweep
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


@dataclass(frozen=True)
class Points(State, kind="bags/vmmic.Points"):
    """Points [C, M, dim] at which C components' likelihood is evaluated.

    ``gradient``: with gradient and information, summed over the points of a component.
    """

    scaling: Scaling
    points: FloatArray
    gradient: bool = True

    def sums(self, batch: Bags) -> Sums:
        """Evaluate the likelihood of a partition's labelled bags."""
        likelihood, data = Likelihood(self.scaling), batch.labelled()
        if not self.gradient:
            value = np.array([[likelihood.value(t, data) for t in ts] for ts in self.points])
            nothing = np.empty((len(self.points), 0))
            return Sums(value, nothing, nothing)
        evaluations = [[likelihood.evaluate(t, data) for t in ts] for ts in self.points]
        return Sums(
            value=np.array([[e.value for e in row] for row in evaluations]),
            gradient=np.array([np.sum([e.gradient for e in row], axis=0) for row in evaluations]),
            # Its upper triangle: a likelihood's information is symmetric but for rounding.
            information=np.array(
                [np.sum([pack(e.information.T) for e in row], axis=0) for row in evaluations]
            ),
        )


@dataclass(frozen=True)
class Component(Stats, kind="bags/vmmic.Component"):
    """A Gaussian of t on its way: its mean, the information of the likelihood, and slopes' tau.

    Components add up, as the iterates of an epoch do.
    """

    mean: FloatArray
    information: FloatArray
    tau: FloatArray

    @classmethod
    def at_zero(cls, layout: Layout, priors: Priors, information: FloatArray) -> Component:
        """Return the one at t = 0, with the precisions that learning starts with."""
        return cls(np.zeros(layout.dim), information, priors.fixed(layout))

    def divided(self, count: int) -> Component:
        """Return the mean of so many that add up to this."""
        return Component(self.mean / count, self.information / count, self.tau / count)

    def gaussian(self, priors: Priors, layout: Layout) -> Gaussian:
        """Return the Gaussian, with the prior's precision."""
        return Gaussian(self.mean, self.information + np.diag(priors.precision(layout, self.tau)))


def find_mode(
    scaling: Scaling, priors: Priors, show: Callable[[Component, float], Show] | None = None
) -> Algorithm:
    """Return the mode and the information at t = 0.

    It is found when an accepted and hardly damped step gains less than a hundredth of a nat,
    when no step gains, or, near enough for a start, after 40 trials. ``show`` makes a point to show
    of the best so far and the log posterior of the trial.
    """
    layout = scaling.layout
    nothing = np.zeros((layout.dim, layout.dim))
    best, first = Component.at_zero(layout, priors, nothing), nothing
    trial = gradient = best.mean
    value, damping, count = -np.inf, 1e-2, 0
    while True:
        best, first, trial, gradient, value, damping, count = yield Save(
            (best, first, trial, gradient, value, damping, count)
        )
        sums = yield Sweep(Points(scaling, trial[None, None]))
        after = _log_posterior(sums, trial, priors.precision(layout, best.tau))
        if show is not None:
            yield show(best, after)
        if after > value:
            tau = priors.tau(layout, trial, np.zeros(layout.dim)) if count else best.tau
            best = Component(trial, unpack(sums.information[0]), tau)
            first = first if count else best.information
            gradient, rise = sums.gradient[0], after - value
            value = _log_posterior(sums, trial, priors.precision(layout, tau))
            damping = max(damping / 5.0, 1e-6)
        else:
            rise, damping = 0.0, 6.0 * damping
        count += 1
        settled = 0.0 < rise < 1e-2 and damping < 0.1
        if count >= MOST_TRIALS or damping > 1e8 or settled:
            return best, first
        precision = priors.precision(layout, best.tau)
        curvature = best.information + np.diag(precision)
        curvature[np.diag_indices(layout.dim)] *= 1.0 + damping
        trial = best.mean + cho_solve(cho_factor(curvature), gradient - precision * best.mean)


def _log_posterior(sums: Sums, trial: FloatArray, precision: FloatArray) -> float:
    """Return log p(y | t) + log p(t | tau) at the trial, without the prior's normaliser."""
    return float(sums.value[0, 0] - 0.5 * trial @ (precision * trial))
