"""vMMIC as a member of the stack: fitted to all bags, and without the bags of each fold.

The six fits go side by side, so that one pass over the data serves all: a partition's bags are cut
by fold once, and a fit sums over the parts that it may see. Features are scaled by all bags. First
come the modes without some folds; where the stack has little use for what these predict, the fits
end there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.blocks import Scaler
from vbmodels.bags.embedding.pools import Pools
from vbmodels.bags.multilabel import FOLDS, fold_of
from vbmodels.bags.stack.modalities import as_witnessed
from vbmodels.bags.vmmic.layout import Scaling, scale_of
from vbmodels.bags.vmmic.likelihood import Points, Sums
from vbmodels.bags.vmmic.model import Collapsed, CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import Posterior, predict
from vbmodels.core.algorithm import Algorithm, Phase
from vbmodels.core.driver import together
from vbmodels.core.state import FloatArray, IntArray, Memory, State, Stats

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
    """What several fits evaluate.

    Attributes
    ----------
    fits
        Numbers of the fits: that without fold f is f, that of all bags is the last.
    points
        Of each of these.
    maps
        By which several modalities are united, to assign folds.
    """

    fits: tuple[int, ...]
    points: tuple[Points, ...]
    maps: tuple[Scaler, ...]

    def sums(self, batch: Bags, local: Any) -> TrialSums:
        """Evaluate the fits at their points, each on the bags that it may see."""
        parts, found = parts_of(batch, self.maps), []
        for fit, points in zip(self.fits, self.points, strict=True):
            seen = [points.sums(part) for f, part in enumerate(parts) if f != fit]
            found.append(sum(seen[1:], start=seen[0]))
        return TrialSums(tuple(found))


@dataclass(frozen=True)
class TrialSums(Stats, kind="bags/stack.TrialSums"):
    """What a partition returns for `Trials`, one a fit."""

    fits: tuple[Sums, ...]


PARTS: Memory[tuple[Bags, ...]] = Memory()


def parts_of(data: Bags, maps: tuple[Scaler, ...]) -> tuple[Bags, ...]:
    """Return the labelled bags of each fold, from memory where they are."""

    def cut() -> tuple[Bags, ...]:
        known = data.labelled()
        fold = fold_of(as_witnessed(maps, known))
        return tuple(known.take(np.flatnonzero(fold == f)) for f in range(FOLDS))

    return PARTS.of(data, b"", cut)


def start(model: CollapsedVMMIC, pools: Pools, seed: int) -> Collapsed | None:
    """Start at t = 0; None where there are few bags, many features, words, or one label alone."""
    count = sum(pool.rows.mean.size for pool in pools.modalities)
    texts = any(pool.text for pool in pools.modalities)
    few = pools.n_bags < LEAST_BAGS or not pools.counts.all()
    if few or texts or not 0 < count <= MOST_FEATURES:
        return None
    spreads = [*(pool.rows for pool in pools.modalities), pools.own]
    means = [of.mean for of in spreads]
    scales = [scale_of(of.mean, of.deviation / max(of.count, 1.0)) for of in spreads]
    scaling = Scaling(tuple(means[:-1]), tuple(scales[:-1]), means[-1], scales[-1])
    return Collapsed(scaling, seed, pools.n_bags < model.both_starts_below * scaling.layout.dim)


def fit_together(algorithms: Sequence[Algorithm], maps: tuple[Scaler, ...]) -> Phase:
    """Return the phase of the fits without each fold, and after these of that to all bags."""

    def join(asked: dict[int, Points]) -> Trials:
        return Trials(tuple(asked), tuple(asked.values()), maps)

    return together(algorithms, join, attrgetter("fits"))


def left_out(folds: tuple[Posterior, ...], data: Bags, fold: IntArray) -> FloatArray:
    """Return P(y = 1) of bags by the fits without their fold, [B]; NaN where there is none."""
    chance = np.full(data.n_bags, np.nan)
    for f, own in enumerate(folds):
        held = np.flatnonzero(fold == f)
        if held.size:
            chance[held] = predict(own.draws(DRAWS), own.scaling, data.take(held)).bag
    return chance
