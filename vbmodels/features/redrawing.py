"""Chains from the best fit: its rows drawn anew, alone or beside features that are still free.

Given weights, mean-field coordinate ascent leaves a row at the pattern whose neighbours are worse.
A short chain draws all rows and the weights in turn, so that many rows change pattern at once; the
fit that starts from it is a proposal like any other. With some free features the chain also finds
what the starts have missed, as it does not have to find the others again.
"""

from __future__ import annotations

import numpy as np

from vbmodels.features.candidates import held_of, plain_edit
from vbmodels.features.chain_steps import chain_from
from vbmodels.features.passes import PLANS, following
from vbmodels.features.polya_gamma import PolyaGammaIBP
from vbmodels.features.proposals import greedy_deletes
from vbmodels.features.search_state import (
    REDRAW,
    REFIT,
    ChainAt,
    Lane,
    SearchGlobal,
    SearchStats,
)

EXTRA, CUTS = 4, (15, 25)
"""Free features of a chain from the best fit, and sweeps after which those that are junk go."""
MOST_WIDER, FEW_ROWS, MOST_ATTEMPTS = 3, 40, 14
"""The search ends when as many such chains are refused as features that no other start has, but no
more than so many; where there are so many rows a feature, one for two such features and more.
Chains after the first in all."""
WORTH_AGAIN = 5.0
"""Nats that redrawn rows must have brought for them to be redrawn again at once."""


def redraw(q: SearchGlobal, base: Lane, extra: int) -> SearchGlobal:
    """Begin a chain at the best fit, with so many free features."""
    attempt = q.attempt + 1
    rng = np.random.default_rng([q.seed, attempt])
    chain = chain_from(base.q, extra, rng)
    nothing = np.zeros(len(chain.v))
    at = ChainAt(chain, np.zeros_like(chain.weights), nothing, nothing)
    return following(q, REDRAW, 0, (base,), chains=(at,), attempt=attempt, extra=extra)


def most_wider(q: SearchGlobal, base: Lane) -> int:
    """Return how many chains with free features may be refused."""
    k = len(base.labels)
    if not k or q.widened:
        return 0
    alone = int((q.matches == 0).sum()) if len(q.matches) == k else k
    return min(alone, MOST_WIDER) if q.seen < FEW_ROWS * k else min(alone // 2, 1)


def refitting(
    q: SearchGlobal, lanes: tuple[Lane, ...], stats: SearchStats, fit: PolyaGammaIBP
) -> tuple[tuple[Lane, ...], int]:
    """Return the fits and the next step: free features that stayed junk go, calm fits are judged.

    The screen knows what deleting gains at least.
    """
    base, lane = lanes
    got, plan = stats.lanes[1], PLANS[REFIT]
    assert got is not None
    step = q.step + 1
    if q.extra and step in CUTS:
        at = held_of(lane, got, fit)
        gone = greedy_deletes(at, 0.0)
        if gone:
            stay = np.array([i for i in range(len(lane.labels)) if i not in gone], np.int64)
            edit = plain_edit(1, stay)
            first = at.keeping(stay).fitted()
            lane = Lane(first, lane.labels[stay], -np.inf, False, -np.inf, 0.0, edit)
    calm = lane.calm and plan.held + 1 < step and not (q.extra and step <= max(CUTS))
    return (base, lane), plan.length - 1 if calm else step
