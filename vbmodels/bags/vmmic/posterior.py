"""What a vMMIC fit leaves: draws of the global parameters, and predictions that average them.

The mode of the collapsed posterior by Levenberg-Marquardt, and what a partition returns for it.

With L the prior's precision, A = H + diag L and the likelihood of `likelihood`,

    t <- t + (A + lambda diag A)^-1 (g - L t),

from t = 0, accepted where the log posterior rises; lambda falls fivefold after a success and
rises sixfold after a failure. The precisions of slopes are learned on the way (`priors`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.special import ndtr, ndtri

from vbmodels.bags.bags import Bags, few_bags
from vbmodels.bags.vmmic.layout import Layout, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood, chunks
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.linalg import pack, solve_lower, unpack
from vbmodels.core.state import FloatArray, State, Stats


def normal_points(dim: int, count: int, seed: int = 0) -> FloatArray:
    """Return quasi-random points of N(0, I), [count, dim]: scrambled Sobol, ``count`` a power of 2.

    Scrambling shifts no point onto 0 or 1, so that every normal quantile is finite.
    """
    from scipy.stats import qmc

    uniform = qmc.Sobol(dim, seed=seed).random_base2(int(count).bit_length() - 1)
    tiny = np.finfo(float).tiny
    return np.asarray(ndtri(np.clip(uniform, tiny, 1.0 - np.finfo(float).epsneg)))


@dataclass(frozen=True)
class Gaussian(State, kind="bags/vmmic.Gaussian"):
    """q(t) = N(mean, precision^-1), [dim] and [dim, dim]."""

    mean: FloatArray
    precision: FloatArray

    @property
    def factor(self) -> FloatArray:
        """Lower Cholesky factor of the precision."""
        return np.asarray(cholesky(self.precision, lower=True))

    @property
    def variance(self) -> FloatArray:
        """The diagonal of the covariance, [dim]."""
        half = solve_lower(self.factor, np.eye(self.mean.size))
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def spread(self, points: FloatArray) -> FloatArray:
        """Return deviations from the mean that belong to points of N(0, I), [S, dim]."""
        return solve_lower(self.factor, points.T, transposed=True).T


@dataclass(frozen=True)
class Posterior(State, kind="bags/vmmic.Posterior"):
    """A mixture of Gaussians over t, equally weighted, with the scaling of the features.

    Attributes
    ----------
    scaling
        Of the features; where it turns them, the Gaussians are over turned coordinates.
    components
        The Gaussians.
    tau
        Prior precision of every slope's block, [components, blocks]: that of the directions of
        turned features that are left out.
    """

    scaling: Scaling
    components: tuple[Gaussian, ...]
    tau: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def layout(self) -> Layout:
        """The coordinates of `moments` and `coefficients`, of features as they are."""
        return self.scaling.layout.plain

    def draws(self, count: int = 64) -> FloatArray:
        """Return about ``count`` quasi-random draws of t, as many of each component."""
        each = max(count // len(self.components), 1)
        points = normal_points(self.scaling.layout.dim, each)
        return np.concatenate([c.mean + c.spread(points) for c in self.components])

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation of t, [dim] each."""
        means = np.array([c.mean for c in self.components])
        variances = np.array([c.variance for c in self.components])
        if self.scaling.turns:
            back = self.scaling.back
            halves = [solve_lower(c.factor, back.T) for c in self.components]
            means = means @ back.T
            variances = np.array([np.einsum("ij,ij->j", half, half) for half in halves])
            variances += self._left_out(1.0 - (back**2).sum(axis=1))
        squares = variances + means**2
        mean = means.mean(axis=0)
        return mean, np.sqrt(np.maximum(squares.mean(axis=0) - mean**2, 0.0))

    def coefficients(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return random draws of t in the coordinates of `layout`, [count, dim]."""
        which = rng.integers(len(self.components), size=count)
        noise = rng.standard_normal((count, self.components[0].mean.size))
        each = zip(which, noise, strict=True)
        drawn = np.stack(
            [self.components[c].mean + self.components[c].spread(z[None])[0] for c, z in each]
        )
        if not self.scaling.turns:
            return drawn
        back = self.scaling.back
        rest = rng.standard_normal((count, len(back)))
        rest -= rest @ back @ back.T
        return drawn @ back.T + np.sqrt(self._left_out(np.ones(len(back))))[which] * rest

    def _left_out(self, share: FloatArray) -> FloatArray:
        """Return the prior variance of slopes times their ``share``, [components, dim]."""
        out = np.zeros((len(self.components), self.layout.dim))
        for j, block in enumerate(self.layout.slope_blocks):
            out[:, block] = np.maximum(share[block], 0.0) / self.tau[:, [j]]
        return out


@dataclass(frozen=True)
class Prediction:
    """Predictions for bags and their instances.

    Attributes
    ----------
    bag
        P(y = 1), [B].
    instances
        P(delta = 1), [N_k] for each modality.
    contributions
        E[delta s]: what an instance is expected to add to its bag's score, [N_k] each.
    """

    bag: FloatArray
    instances: tuple[FloatArray, ...]
    contributions: tuple[FloatArray, ...]


def predict(draws: FloatArray, scaling: Scaling, data: Bags) -> Prediction:
    """Average the predictions of draws of t, [S, dim], over bags of any label (section 2.2.3).

    P(y = 1) = mean Phi(z(t)), P(delta = 1) = mean Phi(a + x b), with the two-moment form of
    `likelihood` for z. An empty bag is scored by the intercept and its own features.
    """
    likelihood = Likelihood(scaling)
    bag = np.zeros(data.n_bags)
    sizes = [len(m.features) for m in data.modalities]
    instances = tuple(np.zeros(size) for size in sizes)
    contributions = tuple(np.zeros(size) for size in sizes)
    weights = [likelihood.weights(t) for t in draws]
    for first, last in chunks(data):
        rows = [slice(m.offsets[first], m.offsets[last]) for m in data.modalities]
        for w in weights:
            mean, var, terms = likelihood.moments(w, data, first, last)
            bag[first:last] += ndtr(mean / np.sqrt(1.0 + var))
            for k, (primary, _, score) in enumerate(terms):
                instances[k][rows[k]] += primary
                contributions[k][rows[k]] += primary * score
    for total in (bag, *instances, *contributions):
        total /= len(draws)
    return Prediction(bag, instances, contributions)


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
