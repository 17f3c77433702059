"""vMMIC with all local variables integrated out: a Gaussian over the global parameters.

The likelihood is that of `likelihood` (two moments; no strict bound), the posterior
q(t) = N(m, P^-1), or two such with equal weights. A partition returns value, gradient and
Fisher information at the points that it is sent, and carries no state of its own.

1. The mode by Levenberg-Marquardt, from t = 0: with L the prior's precision and A = H + diag L
   t <- t + (A + lambda diag A)^-1 (g - L t), accepted where the log posterior rises; lambda falls
   fivefold after a success and rises sixfold after a failure.
2. Gaussian: with d ~ N(0, P^-1) average g and H over m + d and m - d; with
   rho = (1 + it/10)^-1/2 / 2, H' <- (1 - rho) H' + rho H, P = H' + diag L,
   m <- m + rho P^-1 (g - L m), no coordinate by more than 1. Iterates are averaged
   over epochs of 20. The precisions of slopes are learned all the while (`priors`).
3. An epoch's average is evaluated on fixed quasi-random points of q: the fit ends when that
   objective changes by less than ``tolerance`` a parameter between two epochs, or has not
   risen by as much for three. Draws and the precisions that are learned may lead downhill, so
   the best average so far is kept: every step that is yielded, the last one too, is that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import add

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.layout import Layout, Observed, Scaling
from vbmodels.bags.vmmic.likelihood import Points, Sums
from vbmodels.bags.vmmic.posterior import Gaussian, Posterior, normal_points
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.algorithm import Algorithm, Phase, Save, Show, Sweep, WithoutLocals
from vbmodels.core.linalg import unpack
from vbmodels.core.state import FloatArray, State, Stats

MOST_TRIALS = 40
"""Of a search for the mode."""
EPOCH = 20
CHECK_PAIRS = 8
"""Pairs of fixed points at which an epoch's average is evaluated."""
PATIENCE = 3
"""Epochs without a rise that end the fit: draws move the objective more than it rises."""


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
        precision = priors.precision(layout, best.tau)
        after = float(sums.value[0, 0] - 0.5 * trial @ (precision * trial))
        if show is not None:
            yield show(best, after)
        if after > value:
            tau = priors.tau(layout, trial, np.zeros(layout.dim)) if count else best.tau
            best = Component(trial, unpack(sums.information[0]), tau)
            first = first if count else best.information
            gradient, rise = sums.gradient[0], after - value
            precision = priors.precision(layout, tau)
            value = float(sums.value[0, 0] - 0.5 * trial @ (precision * trial))
            damping = max(damping / 5.0, 1e-6)
        else:
            rise, damping = 0.0, 6.0 * damping
        count += 1
        gains_little = 0.0 < rise < 1e-2 and damping < 0.1
        if count >= MOST_TRIALS or damping > 1e8 or gains_little:
            return best, first
        curvature = best.information + np.diag(precision)
        curvature[np.diag_indices(layout.dim)] *= 1.0 + damping
        trial = best.mean + cho_solve(cho_factor(curvature), gradient - precision * best.mean)


@dataclass(frozen=True)
class Collapsed(State, kind="bags/vmmic.Collapsed"):
    """Where a fit is.

    Attributes
    ----------
    scaling
        Of the features.
    seed
        Of the draws.
    both
        Whether a second Gaussian is fitted, from t = 0.
    iterates
        Where the Gaussians go on from; none before the mode is found.
    gaussians
        An epoch's averages; at first those of the iterates.
    """

    scaling: Scaling
    seed: int
    both: bool
    iterates: tuple[Component, ...] = ()
    gaussians: tuple[Gaussian, ...] = ()

    def sums(self, batch: Bags) -> Sums:
        """Evaluate the likelihood of a partition at the Gaussians' fixed points, or at t = 0."""
        if self.gaussians:
            return self.fixed_points().sums(batch)
        return Points(self.scaling, np.zeros((1, 1, self.scaling.layout.dim))).sums(batch)

    def fixed_points(self) -> Points:
        """Return fixed points of every epoch's average, to be evaluated."""
        fixed = normal_points(self.scaling.layout.dim, CHECK_PAIRS)
        # With so few points in so many dimensions their length must be right, at least.
        fixed *= np.sqrt(fixed.size / np.sum(fixed**2))
        points = []
        for gaussian in self.gaussians:
            spread = gaussian.spread(fixed)
            points.append(np.concatenate([gaussian.mean + spread, gaussian.mean - spread]))
        return Points(self.scaling, np.array(points), gradient=False)


@dataclass(frozen=True)
class CollapsedVMMIC(WithoutLocals):
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
        Change of the objective between two epochs, in nats a parameter, that ends the fit; a
        tenth of a nat where there are 67 parameters.
    kept_variance
        Share of the variance of a modality's scaled features whose directions are kept, where it
        has as many features as there are bags, and as `turned_from`, or more.
    turned_from
        Fewest features that are turned: of fewer, all directions can be afforded.
    """

    priors: Priors = field(default_factory=Priors)
    standardise: bool = True
    both_starts_below: float = 5.0
    tolerance: float = 0.0015
    kept_variance: float = 0.97
    turned_from: int = 500

    def observe(self, batch: Bags) -> Observed:
        """Return what the scaling of the features needs."""
        return Observed.of(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> Collapsed:
        """Start at t = 0; the generator gives the seed of the draws."""
        scaling = observed.scaling(self.standardise)
        observed.refuse_hopeless()
        scaling = observed.turned(scaling, self.kept_variance, self.turned_from)
        both = observed.bags < self.both_starts_below * scaling.layout.dim
        return Collapsed(scaling, int(rng.integers(2**62)), both)

    def restart(self, observed: Observed, before: Collapsed, rng: np.random.Generator) -> Collapsed:
        """Go on from the Gaussians of an earlier fit, on the new data's scale.

        They are evaluated first. The epochs that follow start there and move as far as a fit's
        second one does: the steps of a late one are so short that the fit would stop on its way to
        what the new bags say.
        """
        fresh = self.init(observed, rng)
        old, new = before.scaling, fresh.scaling
        if not before.gaussians or old.turns or old.layout != new.layout:
            return fresh
        change = old.change(new)
        back = np.linalg.inv(change)
        iterates, gaussians = [], []
        for c, gaussian in zip(before.iterates, before.gaussians, strict=True):
            mean = change @ gaussian.mean
            iterates.append(Component(mean, back.T @ c.information @ back, c.tau))
            gaussians.append(Gaussian(mean, back.T @ gaussian.precision @ back))
        return replace(before, scaling=new, iterates=tuple(iterates), gaussians=tuple(gaussians))

    def posterior(self, q: Collapsed) -> Posterior:
        """Return q(t): an epoch's averages (at the mode, before there are any)."""
        return Posterior(q.scaling, q.gaussians, np.array([c.tau for c in q.iterates]))

    def algorithm(self, q: Collapsed) -> Algorithm:
        """Find the mode, then move the Gaussians; show the best average after each epoch."""
        if q.gaussians:
            return (yield Phase(self.gaussians(q, restarted=True)))
        q = yield Phase(self.mode(q))
        return (yield Phase(self.gaussians(q)))

    def mode(self, q: Collapsed) -> Algorithm:
        """Return the Gaussian at the mode and, where there are to be two, that at t = 0.

        On the way the log posterior of the trial is shown.
        """

        def show(best: Component, value: float) -> Show:
            return Show(self._begun(q, (best,)), value, by_trace=False, if_last=True)

        mode, first = yield from find_mode(q.scaling, self.priors, show)
        if not q.both:
            return self._begun(q, (mode,))
        return self._begun(q, (mode, Component.at_zero(q.scaling.layout, self.priors, first)))

    def _begun(self, q: Collapsed, iterates: tuple[Component, ...]) -> Collapsed:
        layout = q.scaling.layout
        gaussians = tuple(c.gaussian(self.priors, layout) for c in iterates)
        return replace(q, iterates=iterates, gaussians=gaussians)

    def gaussians(self, q: Collapsed, restarted: bool = False) -> Algorithm:
        """Move the Gaussians until an epoch's averages rise no more; return the best."""
        least = self.tolerance * q.scaling.layout.plain.dim
        best, highest, last, stale = q, -np.inf, -np.inf, 0
        epochs = 1 if restarted else 0
        while True:
            q, epochs, best, highest, last, stale = yield Save(
                (q, epochs, best, highest, last, stale)
            )
            if epochs > 0:
                sums = yield Sweep(q.fixed_points())
                elbo = self.elbo(q, sums)
                left = best if elbo < highest else q
                yield Show(left, highest if elbo < highest else elbo, by_trace=False)
                stale = 0 if elbo > highest + least else stale + 1
                if stale >= PATIENCE or abs(elbo - last) <= least:
                    return left
                if elbo > highest:
                    best, highest = q, elbo
                last = elbo
            q, epochs = (yield Phase(self._epoch(q, EPOCH * epochs))), epochs + 1

    def _epoch(self, q: Collapsed, iteration: int) -> Algorithm:
        """Move the Gaussians by an epoch's steps; return them with the averages over these.

        Each is at a pair of points of every component, m + d and m - d. On the way the mean
        likelihood there is shown, which decides nothing.
        """
        layout, end = q.scaling.layout, iteration + EPOCH
        totals: tuple[Component, ...] = ()
        while iteration < end:
            q, iteration, totals = yield Save((q, iteration, totals))
            points = []
            for i, c in enumerate(q.iterates):
                drawn = np.random.default_rng([q.seed, i, iteration]).standard_normal(layout.dim)
                d = c.gaussian(self.priors, layout).spread(drawn[None])[0]
                points.append([c.mean + d, c.mean - d])
            sums = yield Sweep(Points(q.scaling, np.array(points)))
            yield Show(q, float(sums.value.mean()), by_trace=False, if_last=True)
            moves = zip(q.iterates, sums.gradient / 2.0, sums.information, strict=True)
            iterates = tuple(
                self._moved(layout, iteration, c, gradient, unpack(information) / 2.0)
                for c, gradient, information in moves
            )
            q, iteration = replace(q, iterates=iterates), iteration + 1
            totals = tuple(map(add, totals, iterates)) if totals else iterates
        means = [Component(c.mean / EPOCH, c.information / EPOCH, c.tau / EPOCH) for c in totals]
        return replace(q, gaussians=tuple(c.gaussian(self.priors, layout) for c in means))

    def _moved(
        self,
        layout: Layout,
        iteration: int,
        c: Component,
        gradient: FloatArray,
        information: FloatArray,
    ) -> Component:
        """Move one component by its averaged gradient and information."""
        rho = 0.5 / np.sqrt(1.0 + iteration / 10.0)
        information = (1.0 - rho) * c.information + rho * information
        prior = self.priors.precision(layout, c.tau)
        slope = gradient - prior * c.mean
        step = rho * cho_solve(cho_factor(information + np.diag(prior)), slope)
        mean = c.mean + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        tau = c.tau
        if self.priors.learn:
            variance = Gaussian(mean, information + np.diag(prior)).variance
            tau = self.priors.tau(layout, mean, variance, c.tau)
        return Component(mean, information, tau)

    def elbo(self, q: Collapsed, sums: Sums) -> float:
        """Return E_q[log p(y | t)] by fixed points, less the divergence of q(t, tau) from p.

        Of two components it is the mean of theirs, below that of the mixture.
        """
        layout, bounds = q.scaling.layout, []
        for value, gaussian in zip(sums.value, q.gaussians, strict=True):
            entropy = 0.5 * layout.dim * (1.0 + np.log(2.0 * np.pi))
            entropy -= float(np.log(np.diag(gaussian.factor)).sum())
            prior = self.priors.expected_log(layout, gaussian.mean, gaussian.variance)
            bounds.append(float(value.mean()) + (float(entropy) + prior))
        return sum(bounds) / len(bounds)
