"""vMMIC with all local variables integrated out: a Gaussian over the global parameters.

The likelihood is that of `likelihood` (two moments; no strict bound), the posterior
q(t) = N(m, P^-1), or two such with equal weights. A partition returns value, gradient and
Fisher information at the points that it is sent, and carries no state of its own.

1. The mode, from t = 0 (`mode`).
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

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.layout import Layout, Observed, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood
from vbmodels.bags.vmmic.posterior import (
    Gaussian,
    ModeSearch,
    Posterior,
    Sums,
    log_posterior,
    mode_step,
    normal_points,
    refuse_hopeless,
)
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.algorithm import Algorithm, Save, Show
from vbmodels.core.cavi import evaluate
from vbmodels.core.linalg import unpack
from vbmodels.core.state import FloatArray, State

EPOCH = 20
CHECK_PAIRS = 8
"""Pairs of fixed points at which an epoch's average is evaluated."""
PATIENCE = 3
"""Epochs without a rise that end the fit: draws move the objective more than it rises."""


@dataclass(frozen=True)
class Component(State, kind="bags/vmmic.Component"):
    """One Gaussian on its way: the present iterate, sums over its epoch, the last average."""

    mean: FloatArray
    information: FloatArray
    tau: FloatArray
    sum_mean: FloatArray
    sum_information: FloatArray
    sum_tau: FloatArray
    average: Gaussian


@dataclass(frozen=True)
class GaussianSearch(State, kind="bags/vmmic.GaussianSearch"):
    """The state of the Gaussian fit, and the points to evaluate.

    ``wants_gradient`` is False where the points evaluate an epoch; ``last`` is the objective
    of the epoch before, ``best`` the highest so far (-inf at first), ``chosen`` the components
    that it was found at (none at first), and ``stale`` the epochs since it rose.
    """

    scaling: Scaling
    seed: int
    iteration: int
    last: float
    best: float
    stale: int
    components: tuple[Component, ...]
    chosen: tuple[Component, ...]
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

    def init(self, observed: Observed, rng: np.random.Generator) -> ModeSearch:
        """Start the search of the mode at t = 0; the generator gives the seed of the draws."""
        scaling = observed.scaling(self.standardise)
        refuse_hopeless(observed.positive, observed.bags, scaling.layout)
        scaling = observed.turned(scaling, self.kept_variance, self.turned_from)
        layout = scaling.layout
        both = observed.bags < self.both_starts_below * layout.dim
        return ModeSearch.start(scaling, self.priors, int(rng.integers(2**62)), both)

    def restart(
        self, observed: Observed, before: Search, rng: np.random.Generator
    ) -> ModeSearch | GaussianSearch:
        """Go on from the Gaussian of an earlier fit, on the new data's scale.

        Its last average is evaluated first. The epochs that follow start there and move as far
        as a fit's second one does: the steps of a late one are so short that the fit would stop
        on its way to what the new bags say.
        """
        fresh = self.init(observed, rng)
        old, new = before.scaling, fresh.scaling
        if isinstance(before, ModeSearch) or old.turns or old.layout != new.layout:
            return fresh
        change = before.scaling.change(fresh.scaling)
        back = np.linalg.inv(change)
        components = tuple(
            Component(
                mean=change @ c.average.mean,
                information=back.T @ c.information @ back,
                tau=c.tau,
                sum_mean=np.zeros_like(c.mean),
                sum_information=np.zeros_like(c.information),
                sum_tau=np.zeros_like(c.tau),
                average=Gaussian(change @ c.average.mean, back.T @ c.average.precision @ back),
            )
            for c in before.components
        )
        return self._at_fixed_points(
            replace(
                before,
                scaling=fresh.scaling,
                iteration=EPOCH,
                components=components,
                last=-np.inf,
                best=-np.inf,
                chosen=(),
                stale=0,
            )
        )

    def local_step(self, q: Search, batch: Bags, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: Search, batch: Bags, local: None) -> Sums:
        """Evaluate the likelihood of the labelled bags at the points of ``q``."""
        wanted = isinstance(q, ModeSearch) or q.wants_gradient
        return Sums.at(q.points, self.likelihood(q), batch, wanted)

    def likelihood(self, q: Search) -> Likelihood:
        """Return the likelihood on the features' present scale."""
        return Likelihood(q.scaling)

    def global_step(self, q: Search, stats: Sums) -> Search:
        """Take in what was evaluated at ``q`` and say which points come next."""
        if isinstance(q, ModeSearch):
            after = mode_step(q, stats, self.priors)
            return self._begin(after) if after.found else after
        if q.wants_gradient:
            return self._gaussian_step(q, stats)
        value = self.elbo(q, stats)
        risen = value > q.best + self._least(q)
        if value > q.best:
            q = replace(q, best=value, chosen=q.components)
        q = replace(q, stale=0 if risen else q.stale + 1)
        return self._drawn(replace(q, last=value, wants_gradient=True))

    def elbo(self, q: Search, stats: Sums) -> float:
        """Return the objective at ``q``, of the two-moment likelihood.

        While the mode is sought: the log posterior of the trial. Where an epoch is evaluated:
        E_q[log p(y | t)] by the fixed points, less the divergence of q(t, tau) from its
        prior; for two components the mean of theirs, below that of the mixture. On the way
        the mean likelihood of the random points alone, which decides nothing.
        """
        if isinstance(q, ModeSearch):
            return log_posterior(q, q.tau, stats, self.priors)
        if q.wants_gradient:
            return float(stats.value.mean())
        bounds = [
            float(value.mean()) - self._divergence(q.scaling.layout, c.average)
            for value, c in zip(stats.value, q.components, strict=True)
        ]
        return sum(bounds) / len(bounds)

    def posterior(self, q: Search) -> Posterior:
        """Return q(t): an epoch's averages (at the mode, before there are any)."""
        if isinstance(q, ModeSearch):
            return q.posterior(self.priors)
        tau = np.array([c.tau for c in q.components])
        return Posterior(q.scaling, tuple(c.average for c in q.components), tau)

    def algorithm(self, q: Search) -> Algorithm:
        """Find the mode, then move the Gaussians; show the best average after each epoch."""
        while True:
            q = yield Save(q)
            q, stats, elbo = yield from evaluate(self, q)
            if isinstance(q, GaussianSearch) and not q.wants_gradient:
                value = q.best if elbo < q.best else elbo  # which hides no NaN
                yield Show(self._best(q, elbo), value, by_trace=False)
            else:
                yield Show(q, elbo, by_trace=False, if_last=True)
            q, ended = self.advanced(q, stats)
            if ended:
                return q

    def advanced(self, q: Search, stats: Sums) -> tuple[Search, bool]:
        """Return where the fit goes from ``q``, and whether it has ended: there, at its best."""
        if isinstance(q, GaussianSearch) and not q.wants_gradient:
            elbo = self.elbo(q, stats)
            least = self._least(q)
            stale = elbo <= q.best + least and q.stale + 1 >= PATIENCE
            if stale or abs(elbo - q.last) <= least:
                return self._best(q, elbo), True
        return self.global_step(q, stats), False

    def _best(self, q: GaussianSearch, elbo: float) -> GaussianSearch:
        """Return the best average so far, of an epoch whose objective is ``elbo``."""
        return self._at_fixed_points(replace(q, components=q.chosen)) if elbo < q.best else q

    def _least(self, q: GaussianSearch) -> float:
        return self.tolerance * q.scaling.layout.plain.dim

    def _precision(self, layout: Layout, tau: FloatArray) -> FloatArray:
        return self.priors.precision(layout, tau)

    def _begin(self, q: ModeSearch) -> GaussianSearch:
        layout = q.scaling.layout
        starts = [(q.at, q.information, q.tau)]
        if q.first.size:
            starts.append((np.zeros(layout.dim), q.first, self.priors.fixed(layout)))
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
                best=-np.inf,
                stale=0,
                components=tuple(components),
                chosen=(),
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
            self._moved(q, c, gradient / 2.0, unpack(information) / 2.0)
            for c, gradient, information in zip(
                q.components, stats.gradient, stats.information, strict=True
            )
        )
        q = replace(q, components=moved, iteration=q.iteration + 1)
        return self._end_epoch(q) if q.iteration % EPOCH == 0 else self._drawn(q)

    def _moved(
        self, q: GaussianSearch, c: Component, gradient: FloatArray, information: FloatArray
    ) -> Component:
        """Move one component by its averaged gradient and information."""
        layout = q.scaling.layout
        rho = 0.5 / np.sqrt(1.0 + q.iteration / 10.0)
        information = (1.0 - rho) * c.information + rho * information
        prior = self._precision(layout, c.tau)
        slope = gradient - prior * c.mean
        step = rho * cho_solve(cho_factor(information + np.diag(prior)), slope)
        mean = c.mean + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        tau = c.tau
        if self.priors.learn:
            variance = Gaussian(mean, information + np.diag(prior)).variance
            tau = self.priors.tau(layout, mean, variance, c.tau)
        return replace(
            c,
            mean=mean,
            information=information,
            tau=tau,
            sum_mean=c.sum_mean + mean,
            sum_information=c.sum_information + information,
            sum_tau=c.sum_tau + tau,
        )

    def _end_epoch(self, q: GaussianSearch) -> GaussianSearch:
        """End an epoch: average its iterates, to be evaluated at fixed points."""
        layout = q.scaling.layout
        components = []
        for c in q.components:
            tau = c.sum_tau / EPOCH
            precision = c.sum_information / EPOCH + np.diag(self._precision(layout, tau))
            components.append(
                replace(
                    c,
                    average=Gaussian(c.sum_mean / EPOCH, precision),
                    sum_mean=np.zeros_like(c.sum_mean),
                    sum_information=np.zeros_like(c.sum_information),
                    sum_tau=np.zeros_like(c.sum_tau),
                )
            )
        return self._at_fixed_points(replace(q, components=tuple(components)))

    def _at_fixed_points(self, q: GaussianSearch) -> GaussianSearch:
        """Return the search at fixed points of every component's average."""
        fixed = normal_points(q.scaling.layout.dim, CHECK_PAIRS)
        # With so few points in so many dimensions their length must be right, at least.
        fixed *= np.sqrt(fixed.size / np.sum(fixed**2))
        points = []
        for c in q.components:
            spread = c.average.spread(fixed)
            points.append(np.concatenate([c.average.mean + spread, c.average.mean - spread]))
        return replace(q, points=np.array(points), wants_gradient=False)

    def _divergence(self, layout: Layout, q: Gaussian) -> float:
        """Return E_q[log q(t) q(tau) - log p(t | tau) p(tau)]."""
        entropy = 0.5 * layout.dim * (1.0 + np.log(2.0 * np.pi))
        entropy -= float(np.log(np.diag(q.factor)).sum())
        variance = q.variance
        return -float(entropy) - self.priors.expected_log(layout, q.mean, variance)
