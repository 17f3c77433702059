"""vMMIC with all local variables integrated out: a Gaussian over the global parameters.

The likelihood is that of `likelihood` (two moments; no strict bound), the posterior
q(t) = N(m, P^-1), or two such with equal weights. A partition returns value, gradient and
Fisher information at the points that it is sent, and carries no state of its own.

1. Mode: Levenberg-Marquardt from t = 0. With L the prior's precision, A = H + diag L,
   t <- t + (A + lambda diag A)^-1 (g - L (t - mu)), accepted where the log posterior rises.
2. Gaussian: with d ~ N(0, P^-1) average g and H over m + d and m - d; with
   rho = (1 + it/10)^-1/2 / 2, H' <- (1 - rho) H' + rho H, P = H' + diag L,
   m <- m + rho P^-1 (g - L (m - mu)), no coordinate by more than 1. Iterates are averaged
   over epochs of 20. The precisions of slopes are learned all the while (`priors`).
3. An epoch's average is judged on fixed quasi-random points of q: the fit ends when that
   objective changes by less than a tenth of a nat between two epochs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.cavi import Cursor, Reduce, Step
from vbmodels.mil.batch import Bags
from vbmodels.mil.layout import Layout, Moments, Scaling
from vbmodels.mil.likelihood import Likelihood
from vbmodels.mil.posterior import Gaussian, Posterior, normal_points
from vbmodels.mil.priors import Priors
from vbmodels.state import FloatArray, State, Stats

EPOCH = 20
JUDGES = 8
"""Pairs of fixed points that judge an epoch."""


class FewBags(UserWarning):
    """There are about as many features as bags: expect little of the fit."""


def refuse_hopeless(observed: Moments, layout: Layout) -> None:
    """Refuse bags of one class, and warn where features are about as many as bags."""
    if not 0.0 < observed.positive < observed.bags:
        raise ValueError(
            "expected positive and negative bags, got "
            f"{observed.positive:.0f} positive of {observed.bags:.0f} with a label"
        )
    features = layout.own + sum(layout.features)
    if observed.bags < 2.0 * features:
        warnings.warn(
            f"{observed.bags:.0f} bags with a label for {features} features: the fit rests on "
            "its prior; use fewer features or compare with a regression on each bag's mean",
            FewBags,
            stacklevel=3,
        )


@dataclass(frozen=True)
class Sums(Stats):
    """What a partition returns for points [C, M, dim]: C components with M points each.

    Attributes
    ----------
    value
        log p(y | t) at each point, [C, M].
    gradient
        Summed over the points of a component, [C, dim]; [C, 0] where only values are asked.
    information
        The same of the Fisher information, upper triangle, [C, dim (dim + 1) / 2].
    """

    value: FloatArray
    gradient: FloatArray
    information: FloatArray


@dataclass(frozen=True)
class ModeSearch(State):
    """Where Levenberg-Marquardt stands: the best point so far, and the trial to evaluate.

    ``value`` is the log posterior at ``at``, -inf before the first evaluation; ``first``
    the information at the first point.
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
    wants_gradient: bool = True


@dataclass(frozen=True)
class Component(State):
    """One Gaussian on its way: the present iterate, sums over its epoch, the last average."""

    mean: FloatArray
    information: FloatArray
    tau: FloatArray
    sum_mean: FloatArray
    sum_information: FloatArray
    sum_tau: FloatArray
    average: Gaussian


@dataclass(frozen=True)
class GaussianSearch(State):
    """Where the Gaussian fit stands, and the points to evaluate.

    ``wants_gradient`` is False where the points judge an epoch; ``last`` is the objective
    of the epoch before (-inf at first).
    """

    scaling: Scaling
    seed: int
    iteration: int
    last: float
    components: tuple[Component, ...]
    points: FloatArray
    wants_gradient: bool


Search = ModeSearch | GaussianSearch


@dataclass(frozen=True)
class CollapsedVMMIC:
    """Fit vMMIC's global parameters with all local variables integrated out.

    Parameters
    ----------
    priors
        Priors of the global parameters.
    standardise
        Whether features are brought to mean 0 and standard deviation 1.
    both_starts_below
        Below this many bags a parameter a second Gaussian is fitted, from t = 0, and the
        two are mixed.
    tolerance
        Change of the objective between two epochs, in nats, that ends the fit.
    use_compiled
        Whether to use the compiled loops; by default where Numba is installed.
    """

    priors: Priors = field(default_factory=Priors)
    standardise: bool = True
    both_starts_below: float = 5.0
    tolerance: float = 0.1
    use_compiled: bool | None = None

    def observe(self, batch: Bags) -> Moments:
        """Return what the scaling of the features needs."""
        return Moments.of(batch)

    def init(self, observed: Moments, rng: np.random.Generator) -> ModeSearch:
        """Start the search of the mode at t = 0; the generator gives the seed of the draws."""
        scaling = observed.scaling(self.standardise)
        layout = scaling.layout
        refuse_hopeless(observed, layout)
        both = observed.bags < self.both_starts_below * layout.dim
        origin, nothing = np.zeros(layout.dim), np.zeros((layout.dim, layout.dim))
        blocks = len(layout.slope_blocks)
        return ModeSearch(
            scaling=scaling,
            seed=int(rng.integers(2**62)),
            at=origin,
            value=-np.inf,
            gradient=origin,
            information=nothing,
            first=nothing if both else np.empty((0, 0)),
            tau=np.full(blocks, 1.0 / self.priors.slope_variance),
            damping=1e-2,
            count=0,
            points=origin[None, None],
        )

    def local_step(self, q: Search, batch: Bags, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: Search, batch: Bags, local: None) -> Sums:
        """Evaluate the likelihood of the labelled bags at the points of ``q``."""
        likelihood, data = Likelihood(q.scaling, self.use_compiled), batch.labelled()
        if not q.wants_gradient:
            value = np.array([[likelihood.value(t, data) for t in ts] for ts in q.points])
            nothing = np.empty((len(q.points), 0))
            return Sums(value, nothing, nothing)
        found = [[likelihood.evaluate(t, data) for t in ts] for ts in q.points]
        upper = np.triu_indices(q.points.shape[-1])
        return Sums(
            value=np.array([[e.value for e in row] for row in found]),
            gradient=np.array([np.sum([e.gradient for e in row], axis=0) for row in found]),
            information=np.array(
                [np.sum([e.information[upper] for e in row], axis=0) for row in found]
            ),
        )

    def global_step(self, q: Search, stats: Sums) -> Search:
        """Take in what was evaluated at ``q`` and say which points come next."""
        if isinstance(q, ModeSearch):
            return self._mode_step(q, stats)
        if q.wants_gradient:
            return self._gaussian_step(q, stats)
        return self._drawn(replace(q, last=self.elbo(q, stats), wants_gradient=True))

    def elbo(self, q: Search, stats: Sums) -> float:
        """Return the objective at ``q``, of the two-moment likelihood.

        While the mode is sought: the log posterior of the trial. Where an epoch is judged:
        E_q[log p(y | t)] by the fixed points, less the divergence of q(t, tau) from its
        prior; for two components the mean of theirs, below that of the mixture. On the way
        (at random points) the same with those points.
        """
        if isinstance(q, ModeSearch):
            return self._log_posterior(q.scaling.layout, q.points[0, 0], q.tau, stats)
        bounds = [
            float(value.mean()) - self._divergence(q.scaling.layout, c.average)
            for value, c in zip(stats.value, q.components, strict=True)
        ]
        return sum(bounds) / len(bounds)

    def posterior(self, q: Search) -> Posterior:
        """Return q(t): the last epoch's averages (at the mode, before there are any)."""
        if isinstance(q, ModeSearch):
            precision = q.information + np.diag(self._precision(q.scaling.layout, q.tau))
            return Posterior(q.scaling, (Gaussian(q.at, precision),))
        return Posterior(q.scaling, tuple(c.average for c in q.components))

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Yield the judged epochs; the search of the mode passes in silence."""
        while True:
            q: Any = cursor.q
            stats: Any = cursor.stats
            if isinstance(q, GaussianSearch) and not q.wants_gradient:
                settled = abs(cursor.elbo - q.last) <= self.tolerance
                yield Step(cursor.number, q, cursor.elbo, cursor, settled)
            after = self.global_step(q, stats)
            number = cursor.number + 1
            stats = reduce(after, number=number, warm=cursor.number)
            cursor = Cursor(after, stats, number, self.elbo(after, stats))

    def _precision(self, layout: Layout, tau: FloatArray) -> FloatArray:
        return self.priors.precision(layout, tau)

    def _log_posterior(self, layout: Layout, t: FloatArray, tau: FloatArray, stats: Sums) -> float:
        away = t - self.priors.mean(layout)
        return float(stats.value[0, 0] - 0.5 * away @ (self._precision(layout, tau) * away))

    def _mode_step(self, q: ModeSearch, stats: Sums) -> Search:
        """Accept or reject the trial; propose the next, or go over to the Gaussian."""
        layout, trial = q.scaling.layout, q.points[0, 0]
        value = self._log_posterior(layout, trial, q.tau, stats)
        rise = value - q.value
        if rise > 0.0:
            information = _unpack(stats.information[0])
            tau = q.tau
            if q.count and self.priors.learn:
                tau = self.priors.tau(layout, trial, np.zeros(layout.dim))
            q = replace(
                q,
                at=trial,
                value=self._log_posterior(layout, trial, tau, stats),
                gradient=stats.gradient[0],
                information=information,
                first=information if q.first.size and not q.count else q.first,
                tau=tau,
                damping=max(q.damping / 5.0, 1e-6),
            )
        else:
            q = replace(q, damping=6.0 * q.damping)
        q = replace(q, count=q.count + 1)
        if q.count >= 40 or q.damping > 1e8 or 0.0 < rise < 1e-2:
            return self._begin(q)
        precision = self._precision(layout, q.tau)
        curvature = q.information + np.diag(precision)
        curvature[np.diag_indices(layout.dim)] *= 1.0 + q.damping
        slope = q.gradient - precision * (q.at - self.priors.mean(layout))
        step = cho_solve(cho_factor(curvature), slope)
        return replace(q, points=(q.at + step)[None, None])

    def _begin(self, q: ModeSearch) -> GaussianSearch:
        layout = q.scaling.layout
        starts = [(q.at, q.information, q.tau)]
        if q.first.size:
            tau = np.full(q.tau.size, 1.0 / self.priors.slope_variance)
            starts.append((np.zeros(layout.dim), q.first, tau))
        components = []
        for mean, information, tau in starts:
            precision = information + np.diag(self._precision(layout, tau))
            zeros = np.zeros_like(mean), np.zeros_like(information), np.zeros_like(tau)
            components.append(Component(mean, information, tau, *zeros, Gaussian(mean, precision)))
        return self._drawn(
            GaussianSearch(
                scaling=q.scaling,
                seed=q.seed,
                iteration=0,
                last=-np.inf,
                components=tuple(components),
                points=np.empty((0, 0, 0)),
                wants_gradient=True,
            )
        )

    def _drawn(self, q: GaussianSearch) -> GaussianSearch:
        """Draw the next pair of points of every component, m + d and m - d."""
        layout = q.scaling.layout
        points = []
        for i, c in enumerate(q.components):
            rng = np.random.default_rng([q.seed, i, q.iteration])
            precision = c.information + np.diag(self._precision(layout, c.tau))
            d = Gaussian(c.mean, precision).spread(rng.standard_normal((1, layout.dim)))[0]
            points.append([c.mean + d, c.mean - d])
        return replace(q, points=np.array(points), wants_gradient=True)

    def _gaussian_step(self, q: GaussianSearch, stats: Sums) -> GaussianSearch:
        moved = tuple(
            self._moved(q, c, gradient / 2.0, _unpack(information) / 2.0)
            for c, gradient, information in zip(
                q.components, stats.gradient, stats.information, strict=True
            )
        )
        q = replace(q, components=moved, iteration=q.iteration + 1)
        return self._judged(q) if q.iteration % EPOCH == 0 else self._drawn(q)

    def _moved(
        self, q: GaussianSearch, c: Component, gradient: FloatArray, information: FloatArray
    ) -> Component:
        """Move one component by its averaged gradient and information."""
        layout = q.scaling.layout
        rho = 0.5 / np.sqrt(1.0 + q.iteration / 10.0)
        information = (1.0 - rho) * c.information + rho * information
        prior = self._precision(layout, c.tau)
        slope = gradient - prior * (c.mean - self.priors.mean(layout))
        step = rho * cho_solve(cho_factor(information + np.diag(prior)), slope)
        mean = c.mean + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        covariance = Gaussian(mean, information + np.diag(prior)).covariance
        tau = self.priors.tau(layout, mean, np.diag(covariance))
        return replace(
            c,
            mean=mean,
            information=information,
            tau=tau,
            sum_mean=c.sum_mean + mean,
            sum_information=c.sum_information + information,
            sum_tau=c.sum_tau + tau,
        )

    def _judged(self, q: GaussianSearch) -> GaussianSearch:
        """End an epoch: average its iterates, and ask for the objective at fixed points."""
        layout = q.scaling.layout
        fixed = normal_points(layout.dim, JUDGES)
        components, points = [], []
        for c in q.components:
            tau = c.sum_tau / EPOCH
            precision = c.sum_information / EPOCH + np.diag(self._precision(layout, tau))
            average = Gaussian(c.sum_mean / EPOCH, precision)
            spread = average.spread(fixed)
            points.append(np.concatenate([average.mean + spread, average.mean - spread]))
            components.append(
                replace(
                    c,
                    average=average,
                    sum_mean=np.zeros_like(c.sum_mean),
                    sum_information=np.zeros_like(c.sum_information),
                    sum_tau=np.zeros_like(c.sum_tau),
                )
            )
        return replace(
            q, components=tuple(components), points=np.array(points), wants_gradient=False
        )

    def _divergence(self, layout: Layout, q: Gaussian) -> float:
        """Return E_q[log q(t) q(tau) - log p(t | tau) p(tau)]."""
        entropy = 0.5 * layout.dim * (1.0 + np.log(2.0 * np.pi))
        entropy -= float(np.log(np.diag(q.factor)).sum())
        variance = np.diag(q.covariance)
        return -float(entropy) - self.priors.expected_log(layout, q.mean, variance)


def _unpack(packed: FloatArray) -> FloatArray:
    """Return the symmetric matrix of an upper triangle."""
    dim = int((np.sqrt(8.0 * packed.size + 1.0) - 1.0) / 2.0)
    full = np.zeros((dim, dim))
    full[np.triu_indices(dim)] = packed
    return full + np.triu(full, 1).T
