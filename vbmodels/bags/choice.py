"""Collapsed vMMIC with the scale of its slopes chosen from a grid: by the evidence, or by folds.

Where features are about as many as bags the prior decides, and a learned precision creeps
without end. Here every block of slopes w has the variance length / dim w, and ``length``,
the squared length that is expected of a block, is the one of a grid with the highest

    evidence:          Laplace's log p(y) at the mode of the collapsed posterior, or
    cross-validation:  sum over folds of log p(y of the fold | the other bags), by the normal
                       approximation at the mode of the others, averaged over draws.

One candidate comes after another, the folds of one side by side, all through the reduce;
then the Gaussian is fitted as in `collapsed`. Folds are stratified: within a partition the
labelled bags of a class are dealt out in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp

from vbmodels.bags.batch import Bags
from vbmodels.bags.collapsed import CollapsedVMMIC, Search
from vbmodels.bags.layout import Observed
from vbmodels.bags.likelihood import Likelihood
from vbmodels.bags.mode import ModeSearch, Sums, log_posterior, mode_step
from vbmodels.bags.options import LENGTHS
from vbmodels.bags.posterior import Posterior
from vbmodels.bags.priors import Priors
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, IntArray, State

DRAWS = 16
"""Points that average a held-out fold's probability."""


@dataclass(frozen=True)
class ScaleSearch(State):
    """Where the choice stands.

    Attributes
    ----------
    lengths, judged
        The grid, [C], and what was found of its candidates so far, [<= C].
    modes
        The present candidate's searches: one on all bags, or one without each fold.
    points
        Where the held-out folds are judged, [F, M, dim]; [0, 0, 0] while modes are sought.
    both
        Whether the fit that follows takes both starts of `collapsed`.
    """

    lengths: FloatArray
    judged: FloatArray
    modes: tuple[ModeSearch, ...]
    points: FloatArray
    both: bool


@dataclass(frozen=True)
class Chosen(State):
    """The fit once its scale is chosen.

    Attributes
    ----------
    lengths, judged
        The grid and what was found of it, [C].
    length
        The chosen one.
    search
        The fit of `collapsed`.
    """

    lengths: FloatArray
    judged: FloatArray
    length: float
    search: Search


NOTHING = np.empty((0, 0, 0))


@dataclass(frozen=True)
class ChosenVMMIC:
    """Fit collapsed vMMIC with the scale of its slopes chosen from a grid.

    Parameters
    ----------
    collapsed
        The fit that follows, with its options; the slopes' part of its priors is replaced.
    lengths
        The grid of squared lengths of a block of slopes.
    folds
        Folds of the cross-validation; 0: by the evidence.
    """

    collapsed: CollapsedVMMIC = field(default_factory=CollapsedVMMIC)
    lengths: tuple[float, ...] = LENGTHS
    folds: int = 0

    def __post_init__(self) -> None:
        if not self.lengths or not all(length > 0.0 for length in self.lengths):
            raise ValueError(f"expected a grid of squared lengths > 0, got {self.lengths}")
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"expected 2 folds or more, or 0 for the evidence, got {self.folds}")

    def observe(self, batch: Bags) -> Observed:
        """Return what the scaling of the features needs."""
        return self.collapsed.observe(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> ScaleSearch:
        """Start the search of the first candidate's mode at t = 0."""
        search = self.collapsed.init(observed, rng)
        lengths = np.array(self.lengths, float)
        return self._next(
            ScaleSearch(lengths, np.empty(0), (search,), NOTHING, search.first.size > 0)
        )

    def restart(
        self, observed: Observed, before: ScaleSearch | Chosen, rng: np.random.Generator
    ) -> ScaleSearch | Chosen:
        """Go on from an earlier fit with the scale that it chose."""
        fresh = self.init(observed, rng)
        if not isinstance(before, Chosen):
            return fresh
        if isinstance(fresh, Chosen) != bool(np.isnan(before.length)):
            return fresh
        search = self._fit(before.length).restart(observed, before.search, rng)
        return replace(before, search=search)

    def partial_stats(self, q: ScaleSearch | Chosen, batch: Bags, local: None) -> Sums:
        """Return what the fit's step from new bags alone needs."""
        if isinstance(q, Chosen):
            return self._fit(q.length).partial_stats(q.search, batch, local)
        return self.suff_stats(q, batch, local)

    def catch_up(
        self, q: ScaleSearch | Chosen, before: ScaleSearch | Chosen, known: Sums, new: Sums
    ) -> ScaleSearch | Chosen:
        """Take the fit's step from new bags alone."""
        if not (isinstance(q, Chosen) and isinstance(before, Chosen)):
            return q
        fit = self._fit(q.length)
        return replace(q, search=fit.catch_up(q.search, before.search, known, new))

    def local_step(self, q: Any, batch: Bags, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: ScaleSearch | Chosen, batch: Bags, local: None) -> Sums:
        """Evaluate the likelihood at the points of ``q``; while it chooses, fold by fold."""
        if isinstance(q, Chosen):
            return self._fit(q.length).suff_stats(q.search, batch, local)
        data = batch.labelled()
        likelihood = self.collapsed.likelihood(q.modes[0])
        if q.points.size:
            return _held_out(q.points, likelihood, data, folds_of(data, self.folds))
        if not self.folds:
            return Sums.at(q.modes[0].points, likelihood, data, True)
        fold = folds_of(data, self.folds)
        dim = q.modes[0].at.size
        done = Sums(np.zeros((1, 1)), np.zeros((1, dim)), np.zeros((1, dim * (dim + 1) // 2)))
        each = [
            done
            if mode.found
            else Sums.at(mode.points, likelihood, data.take(np.flatnonzero(fold != f)), True)
            for f, mode in enumerate(q.modes)
        ]
        return Sums(
            np.concatenate([e.value for e in each]),
            np.concatenate([e.gradient for e in each]),
            np.concatenate([e.information for e in each]),
        )

    def global_step(self, q: ScaleSearch | Chosen, stats: Sums) -> ScaleSearch | Chosen:
        """Take in what was evaluated at ``q`` and say which points come next."""
        if isinstance(q, Chosen):
            return replace(q, search=self._fit(q.length).global_step(q.search, stats))
        priors = self._priors(q)
        if q.points.size:
            return self._told(q, float(stats.value.sum()))
        modes = tuple(
            mode if mode.found else mode_step(mode, _component(stats, f), priors)
            for f, mode in enumerate(q.modes)
        )
        q = replace(q, modes=modes)
        if not all(mode.found for mode in modes):
            return q
        if not self.folds:
            return self._told(q, modes[0].log_evidence(priors))
        points = np.array([mode.posterior(priors).draws(DRAWS) for mode in modes])
        return replace(q, points=points)

    def elbo(self, q: ScaleSearch | Chosen, stats: Sums) -> float:
        """Return the objective of `collapsed`; while it chooses, the log posterior of the trials.

        Where held-out folds are judged: their log probability.
        """
        if isinstance(q, Chosen):
            return self._fit(q.length).elbo(q.search, stats)
        if q.points.size:
            return float(stats.value.sum())
        priors = self._priors(q)
        return sum(
            mode.value
            if mode.found
            else log_posterior(mode, mode.tau, _component(stats, f), priors)
            for f, mode in enumerate(q.modes)
        )

    def posterior(self, q: ScaleSearch | Chosen) -> Posterior:
        """Return q(t); while it chooses, that of the present candidate."""
        if isinstance(q, Chosen):
            return self._fit(q.length).posterior(q.search)
        return q.modes[0].posterior(self._priors(q))

    def shown(self, at: Cursor) -> Step | None:
        """Show the judged epochs of the fit; the choice passes in silence."""
        if not isinstance(at.q, Chosen):
            return None
        step = self._fit(at.q.length).shown(replace(at, q=at.q.search))
        return step and replace(step, q=replace(at.q, search=step.q), cursor=at)

    def _fit(self, length: float) -> CollapsedVMMIC:
        priors = replace(self.collapsed.priors, learn=False, length=length)
        return replace(self.collapsed, priors=priors)

    def _priors(self, q: ScaleSearch) -> Priors:
        return self._fit(float(q.lengths[q.judged.size])).priors

    def _next(self, q: ScaleSearch) -> ScaleSearch:
        """Begin the search of the next candidate's modes."""
        first, priors = q.modes[0], self._priors(q)
        mode = ModeSearch.start(first.scaling, priors, first.seed, keep_first=False)
        return replace(q, modes=(mode,) * max(self.folds, 1), points=NOTHING)

    def _told(self, q: ScaleSearch, value: float) -> ScaleSearch | Chosen:
        """Note a candidate's value; after the last one begin the fit with the best."""
        judged = np.append(q.judged, value)
        if judged.size < q.lengths.size:
            return self._next(replace(q, judged=judged))
        length = float(q.lengths[int(np.argmax(judged))])
        first, priors = q.modes[0], self._fit(length).priors
        search = ModeSearch.start(first.scaling, priors, first.seed, q.both)
        return Chosen(q.lengths, judged, length, search)


def folds_of(data: Bags, folds: int) -> IntArray:
    """Deal the labelled bags of each class out to folds in turn, [B].

    Partitions begin with different folds, so that small ones together fill all of them.
    """
    fold = np.zeros(data.n_bags, np.int64)
    for label in (0, 1):
        members = np.flatnonzero(data.label == label)
        fold[members] = (np.arange(members.size) + data.partition) % folds
    return fold


def _component(stats: Sums, f: int) -> Sums:
    part = slice(f, f + 1)
    return Sums(stats.value[part], stats.gradient[part], stats.information[part])


def _held_out(points: FloatArray, likelihood: Likelihood, data: Bags, fold: IntArray) -> Sums:
    """Return log p(y of a fold) by the points made without it, [F, 1]."""
    value = np.zeros((len(points), 1))
    for f, ts in enumerate(points):
        held = data.take(np.flatnonzero(fold == f))
        if held.n_bags:
            each = np.array([log_ndtr(held.sign * likelihood.predictor(t, held)) for t in ts])
            value[f, 0] = float((logsumexp(each, axis=0) - np.log(len(ts))).sum())
    nothing = np.empty((len(points), 0))
    return Sums(value, nothing, nothing)
