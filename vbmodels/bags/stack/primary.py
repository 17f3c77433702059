"""vMMIC as a member of the stack: fitted to all bags, and without the bags of each fold.

The six fits go side by side, so that one pass over the data serves all: a partition's bags are cut
by fold once, and a fit sums over the parts that it may see. Features are scaled by all bags. First
come the modes without some folds; where the stack has little use for what these predict, the fits
end there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.blocks import ModalityMap
from vbmodels.bags.embedding.pools import Pools
from vbmodels.bags.multilabel import FOLDS, Spread
from vbmodels.bags.vmmic.layout import CONSTANT, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood
from vbmodels.bags.vmmic.model import CollapsedVMMIC, Search
from vbmodels.bags.vmmic.posterior import ModeSearch, Posterior, Sums, predict
from vbmodels.core.algorithm import Algorithm, Save, Show, Sweep
from vbmodels.core.state import FloatArray, IntArray, Memory, State, Stats, aligned

MOST_FEATURES = 300
"""Most features of an instance, all modalities together: time goes with their square."""
LEAST_BAGS = 50
"""Fewest bags: of fewer, two folds say nothing of a member."""
SCREENED = 2
"""Folds whose modes say whether the member is worth its fit."""
DRAWS = 64
"""Draws of the parameters that predictions average over."""


@dataclass(frozen=True)
class Trials(State, kind="bags/stack.Trials"):
    """Points at which fits are to be evaluated.

    Attributes
    ----------
    scaling
        Of the features.
    fits
        Numbers of the fits: that without fold f is f, that of all bags is the last.
    points
        Of each of these, [C, M, dim].
    wants_gradient
        Whether each needs more than values.
    maps
        By which several modalities are united, to assign folds.
    """

    scaling: Scaling
    fits: tuple[int, ...]
    points: tuple[FloatArray, ...]
    wants_gradient: tuple[bool, ...]
    maps: tuple[ModalityMap, ...]


@dataclass(frozen=True)
class TrialSums(Stats, kind="bags/stack.TrialSums"):
    """What a partition returns for `Trials`, one a fit."""

    fits: tuple[Sums, ...]


@dataclass(frozen=True)
class Fits(State, kind="bags/stack.Fits"):
    """The fits without each fold and, last, of all bags; and which have ended."""

    searches: tuple[Search, ...]
    ended: tuple[bool, ...]


PARTS: Memory[tuple[Bags, ...]] = Memory()


def parts_of(data: Bags, fold_of: Callable[[Bags], IntArray]) -> tuple[Bags, ...]:
    """Return the labelled bags of each fold, from memory where they are."""

    def cut() -> tuple[Bags, ...]:
        known = data.labelled()
        fold = fold_of(known)
        return tuple(known.take(np.flatnonzero(fold == f)) for f in range(FOLDS))

    return PARTS.of(data, b"", cut)


def start(model: CollapsedVMMIC, pools: Pools, seed: int) -> Fits | None:
    """Start at t = 0; None where there are few bags, many features, words, or one label alone."""
    count = sum(pool.rows.mean.size for pool in pools.modalities)
    texts = any(pool.text for pool in pools.modalities)
    few = pools.n_bags < LEAST_BAGS or not pools.counts.all()
    if few or texts or not 0 < count <= MOST_FEATURES:
        return None
    means, scales = zip(*(_scale(pool.rows) for pool in pools.modalities), strict=True)
    scaling = Scaling(means, scales, *_scale(pools.own))
    both = pools.n_bags < model.both_starts_below * scaling.layout.dim
    search = ModeSearch.start(scaling, model.priors, seed, both)
    return Fits((search,) * (FOLDS + 1), (False,) * (FOLDS + 1))


def _scale(of: Spread) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of features; a constant one is only centred."""
    variance = of.deviation / max(of.count, 1.0)
    constant = variance <= CONSTANT * (variance + of.mean**2)
    return of.mean, np.sqrt(np.where(constant, 1.0, variance))


def evaluate(q: Trials, parts: tuple[Bags, ...]) -> TrialSums:
    """Evaluate the fits at their points, each on the bags that it may see."""
    likelihood = Likelihood(q.scaling)
    found = []
    for fit, points, wanted in zip(q.fits, q.points, q.wants_gradient, strict=True):
        seen = [part for f, part in enumerate(parts) if f != fit]
        total = Sums.at(points, likelihood, seen[0], wanted)
        for part in seen[1:]:
            total = total + Sums.at(points, likelihood, part, wanted)
        found.append(total)
    return TrialSums(tuple(found))


def algorithm(
    model: CollapsedVMMIC, fits: Fits, maps: tuple[ModalityMap, ...], screened: bool
) -> Algorithm:
    """Go on with the fits side by side: those without the first folds to their modes, or all."""
    while True:
        fits = yield Save(fits)
        active = [i for i, ended in enumerate(fits.ended) if not ended]
        if screened:
            active = [i for i in range(SCREENED) if isinstance(fits.searches[i], ModeSearch)]
        if not active:
            return fits
        own = [fits.searches[i] for i in active]
        trials = Trials(
            own[0].scaling,
            tuple(active),
            tuple(search.points for search in own),
            tuple(isinstance(search, ModeSearch) or search.wants_gradient for search in own),
            maps,
        )
        sums = yield Sweep(aligned(trials))
        searches, ended = list(fits.searches), list(fits.ended)
        for i, search, found in zip(active, own, sums.fits, strict=True):
            searches[i], ended[i] = model.advanced(search, found)
        fits = aligned(Fits(tuple(searches), tuple(ended)))
        value = sum(float(found.value.mean()) for found in sums.fits)
        yield Show(trials, value, by_trace=False, if_last=True)


def posteriors(model: CollapsedVMMIC, fits: Fits) -> tuple[Posterior, ...]:
    """Return the posterior of every fit: without each fold, and of all bags."""
    return tuple(model.posterior(search) for search in fits.searches)


def left_out(folds: tuple[Posterior, ...], data: Bags, fold: IntArray) -> FloatArray:
    """Return P(y = 1) of bags by the fits without their fold, [B]; NaN where there is none."""
    chance = np.full(data.n_bags, np.nan)
    for f, own in enumerate(folds):
        held = np.flatnonzero(fold == f)
        if held.size:
            chance[held] = predict(own.draws(DRAWS), own.scaling, data.take(held)).bag
    return chance
