"""Rounds of moves on a fit: flip, delete, rows redrawn, new bits for a pair, births, swaps.

Coordinate ascent cannot empty junk features, change the basis of a pair (found: "a or b" and "b";
true: "a" and "b") or bring in a feature that another start found, and a row stays at the pattern
whose neighbours are worse, though one further off may be better. A round first puts features in the
order of how common they are and turns one into its complement where that raises the bound
(exact, by the driver). It deletes until no delete is accepted; then a short chain from the fit
draws rows and weights, and a fit from there is a proposal: patterns of many rows change at once. It
gives pairs new bits until none is accepted, and tries features of the pool, each alone or in the
place of another. What proposals are worth is screened from sums (`proposals`); those that look best
are tried side by side for some sweeps; the best of them replaces the fit if its yardstick is
higher, by common random numbers. Rounds end when one changes nothing; where the starts did not
agree on the features, a longer chain from the fit, with some free features, then looks for what
all starts have missed.

Chains from the best fit: its rows drawn anew, alone or beside features that are still free.

Given weights, mean-field coordinate ascent leaves a row at the pattern whose neighbours are worse.
A short chain draws all rows and the weights in turn, so that many rows change pattern at once; the
fit that starts from it is a proposal like any other. With some free features the chain also finds
what the starts have missed, as it does not have to find the others again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.ibp.chain import chain_from
from vbmodels.features.ibp.model import FeatureGlobal, PolyaGammaIBP
from vbmodels.features.ibp.monte_carlo_bound import measured
from vbmodels.features.ibp.sticks import best_sticks
from vbmodels.features.search.candidates import (
    NO_KEYS,
    births,
    deletes,
    held_of,
    matches_of,
    new_bits,
    plain_edit,
    rare_births,
)
from vbmodels.features.search.proposals import flip, flip_gains, greedy_deletes
from vbmodels.features.search.rare_features import FAR, LEAST_ROWS, MOST_UNITS, directions_of
from vbmodels.features.search.schedule import PLANS, following
from vbmodels.features.search.states import (
    BIRTH,
    CHAINS,
    DELETE,
    RARE,
    REDRAW,
    REFIT,
    RELABEL,
    RESIDUE,
    SCREEN,
    SETTLE,
    START,
    SWAP,
    TIDY,
    WIDEN,
    ChainAt,
    Lane,
    LaneStats,
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


MOST_ROUNDS, MOST_SLOTS = 6, 200
MOST_PROBES = 8
"""Most times that residuals are looked at; every time but the last brings a feature."""
QUIET = 1e-6
"""Rise of the bound a sweep, relative, at which a fit widened to all rows waits for moves."""
WIDE_ROUNDS = 2
"""Most rounds on all rows after those on a sample."""
FLIP_GAIN = 1.0
"""Nats of the bound that a complement must bring."""
LEAST_GAIN = {DELETE: 0.0, REFIT: 1.0, RELABEL: 1.0, BIRTH: 0.0, SWAP: 0.0, RARE: 0.0}
"""Nats of the yardstick that a move must bring."""
SAME_SHARE = 1e-9
"""Share of the rows by which a feature must be more common than the one before it to change places.
Empty ones differ by rounding alone, which hangs on their places: they would change for ever."""
SWAPPABLE = 60.0
"""Nats: a refused birth that is further behind is not tried with a delete after it."""


def most_slots(n_rows: float) -> int:
    """Return the most slots of chains over so many rows."""
    return int(max(1.0, min(MOST_SLOTS, n_rows - 1.0)))


# The start.


def chosen_start(q: SearchGlobal, lanes: tuple[Lane, ...]) -> SearchGlobal:
    """Go on with the starts; once they have settled, take the best and pool the others."""
    plan, step, earlier = PLANS[START], q.step + 1, len(lanes) - len(q.chains)
    calm = all(lane.calm for lane in lanes[earlier:])
    if step < plan.length and not (calm and step > plan.held + 1):
        return following(q, START, step, lanes)
    bounds = np.array([lane.bound for lane in lanes])
    best = int(np.argmax(bounds))
    base = replace(lanes[best], edit=plain_edit(best, np.arange(len(lanes[best].labels))))
    others = np.array([i for i in range(len(lanes)) if i != best], np.int64)
    q = replace(q, round=0, flipped=np.zeros(0, np.int64), failed=NO_KEYS, starts=bounds)
    q = replace(q, redrawn=False, wider=0)
    if q.share < 1.0:
        q = replace(q, aside=q.aside + tuple(lanes[i].q for i in others))
    begun = begin_round(q, base)
    return replace(begun, pooled=others, n_pool=q.n_pool + len(others))


def begin_round(q: SearchGlobal, base: Lane) -> SearchGlobal:
    """Begin the next round: one sweep for the sums of the fit."""
    return following(q, TIDY, 0, (base,), round=q.round + 1, changed=False, waiting=())


# Order and flips.


def tidied(q: SearchGlobal, stats: SearchStats, fit: PolyaGammaIBP) -> SearchGlobal:
    """Turn one feature into its complement or put all in order, then propose deletes."""
    base, got = _still(q, stats, fit)
    at, k = held_of(base, got, fit), len(base.labels)
    gains = np.where(np.isin(base.labels, q.flipped), -np.inf, flip_gains(at))
    if gains.max(initial=-np.inf) > FLIP_GAIN:
        i = int(np.argmax(gains))
        turned, on = np.arange(k) == i, at.on.copy()
        on[i] = at.n_rows - on[i]
        moved = _with_sticks(flip(base.q, i), on)
        edit = replace(plain_edit(0, np.arange(k)), flipped=turned)
        base = replace(base, q=moved, value=-np.inf, edit=edit)
        flipped = np.append(q.flipped, base.labels[i])
        return following(q, TIDY, q.step + 1, (base,), flipped=flipped)
    if np.any(np.diff(at.on) > SAME_SHARE * at.n_rows):
        order = np.argsort(-at.on, kind="stable")
        moved = _with_sticks(_ordered(base.q, order), at.on[order])
        base = replace(
            base, q=moved, labels=base.labels[order], value=-np.inf, edit=plain_edit(0, order)
        )
        return following(q, TIDY, q.step + 1, (base,))
    lanes = deletes(base, at)
    return following(q, DELETE, 0, (base, *lanes)) if lanes else _after_deletes(q, base)


def _ordered(q: FeatureGlobal, order: IntArray) -> FeatureGlobal:
    place = np.concatenate([[0], order + 1])
    return replace(
        q,
        mean=q.mean[:, place],
        covariance=q.covariance[:, place[:, None], place],
        variance=q.variance[order],
    )


def _with_sticks(q: FeatureGlobal, on: FloatArray) -> FeatureGlobal:
    return replace(q, tau=best_sticks(on[None], q.n_rows, q.alpha)[0][0], share=on / q.n_rows)


def _still(q: SearchGlobal, stats: SearchStats, fit: PolyaGammaIBP) -> tuple[Lane, LaneStats]:
    """Return the best fit, which does not move in this sweep, and its sums."""
    base, got = q.lanes[0], stats.lanes[0]
    assert got is not None
    return replace(base, bound=fit.elbo(base.q, got.fit), edit=None), got


# What comes after what.


def _after_deletes(q: SearchGlobal, base: Lane) -> SearchGlobal:
    """Search again with twice the slots where all are in use; else redraw the rows."""
    k = len(base.labels)
    if q.round == 1 and k >= max(q.slots - 1, 1) and q.slots < most_slots(q.seen):
        return following(q, CHAINS, 0, (base,), attempt=q.attempt + 1)
    if k and not q.redrawn and not q.widened and q.attempt < MOST_ATTEMPTS:
        return redraw(q, base, 0)
    return _after_redrawing(q, base)


def _after_redrawing(q: SearchGlobal, base: Lane) -> SearchGlobal:
    """Screen pairs and the pool."""
    if len(base.labels) > 1 or q.n_pool:
        return following(q, SCREEN, 0, (base,))
    return _end_round(q, base)


def screened(q: SearchGlobal, stats: SearchStats, fit: PolyaGammaIBP) -> SearchGlobal:
    """Propose new bits of pairs, and births that are tried where none is accepted."""
    base, got = _still(q, stats, fit)
    screen = stats.screen
    assert screen is not None
    at = held_of(base, got, fit)
    lanes, keys = new_bits(q, base, at, screen)
    waiting, waiting_keys = births(q, base, at, screen, fit)
    q = replace(
        q,
        waiting=tuple(waiting),
        waiting_keys=waiting_keys,
        matches=matches_of(at, screen),
    )
    if lanes:
        return following(q, RELABEL, 0, (base, *lanes), keys=keys)
    return _after_pairs(q, base)


def _after_pairs(q: SearchGlobal, base: Lane) -> SearchGlobal:
    if not q.waiting:
        return _end_round(q, base)
    return following(q, BIRTH, 0, (base, *q.waiting), keys=q.waiting_keys, waiting=())


def _end_round(q: SearchGlobal, base: Lane) -> SearchGlobal:
    if q.changed and q.round < MOST_ROUNDS:
        return begin_round(q, base)
    if q.wider < most_wider(q, base) and q.attempt < MOST_ATTEMPTS:
        return redraw(q, base, EXTRA)
    if q.share == 1.0:
        return _probe(q, base)
    anew = replace(base, bound=-np.inf, calm=False, value=-np.inf, edit=None)
    return following(q, WIDEN, 0, (anew,), share=1.0, seen=q.n_rows, widened=True)


def wide_fit(q: SearchGlobal, lanes: tuple[Lane, ...]) -> SearchGlobal:
    """Go on with the fit to all rows, then try moves once more."""
    before, after, step = q.lanes[0].bound, lanes[0].bound, q.step + 1
    q = replace(q, aside=())
    quiet = lanes[0].calm or (step > 1 and after - before < QUIET * abs(after))
    if step < PLANS[WIDEN].length and not quiet:
        return following(q, WIDEN, step, lanes)
    q = replace(q, failed=NO_KEYS, reached=np.zeros(0), round=MOST_ROUNDS - WIDE_ROUNDS)
    return begin_round(q, lanes[0])


# What long tables leave unexplained.


def _probe(q: SearchGlobal, base: Lane) -> SearchGlobal:
    """Look at the residuals of a long table; of another go on to the last sweeps."""
    long = q.n_rows >= LEAST_ROWS and q.margin.shape[1] <= MOST_UNITS
    if not long or q.probes >= MOST_PROBES or len(base.labels) >= MOST_SLOTS:
        return following(q, SETTLE, 0, (base,))
    return following(q, RESIDUE, 0, (base,), probes=q.probes + 1, waiting=())


def probed(q: SearchGlobal, stats: SearchStats, fit: PolyaGammaIBP) -> SearchGlobal:
    """Screen rows far along the directions that residuals have, and try the best as features."""
    base, got = _still(q, stats, fit)
    if stats.residue is not None:
        directions = directions_of(stats.residue, q.n_rows)
        if not len(directions):
            return following(q, SETTLE, 0, (base,))
        return following(q, RESIDUE, 1, (base,), directions=directions)
    assert stats.screen is not None
    waiting = rare_births(base, held_of(base, got, fit), stats.screen.pool[0], q.n_pool, fit)
    return _next_starts(replace(q, waiting=waiting), base)


def _next_starts(q: SearchGlobal, base: Lane) -> SearchGlobal:
    """Try the next starts, as many as a direction has, side by side; after the last ones, end."""
    if not q.waiting:
        return following(q, SETTLE, 0, (base,))
    now, rest = q.waiting[: len(FAR)], q.waiting[len(FAR) :]
    return following(q, RARE, 0, (base, *now), waiting=rest)


# Judgement.


def judged_move(
    q: SearchGlobal, lanes: tuple[Lane, ...], stats: SearchStats, fit: PolyaGammaIBP
) -> SearchGlobal:
    """Go on with the proposals' sweeps; at the last one accept the best, or none."""
    last, step = PLANS[q.stage].length - 1, q.step + 1
    if q.step < last:
        if q.stage == REFIT:
            lanes, step = refitting(q, lanes, stats, fit)
        return following(q, q.stage, step, lanes)
    lanes = tuple(
        _valued(lane, got, fit) if judged else lane
        for lane, got, judged in zip(lanes, stats.lanes, q.judged, strict=True)
    )
    base, best = lanes[0], 1 + int(np.argmax([lane.value for lane in lanes[1:]]))
    winner, history, least = lanes[best], q.history, LEAST_GAIN[q.stage]
    history = replace(history, tried=history.tried + int(q.judged[1:].sum()))
    # A fit with new bits loses some nats of the yardstick while its bound still rises, so the
    # next new bits must wait until those of before have paid.
    unpaid = q.stage == RELABEL and bool(np.any(base.value <= q.reached + least))
    if unpaid or not winner.value > base.value + least:
        q = replace(q, history=history, failed=np.concatenate([q.failed, q.keys]), keys=NO_KEYS)
        return _refused(q, lanes, best, stats, fit)
    history = replace(
        history,
        stages=np.append(history.stages, q.stage).astype("<U8"),
        sizes=np.concatenate([history.sizes, [[len(base.labels), len(winner.labels)]]]),
        gains=np.append(history.gains, winner.value - base.value),
    )
    q = replace(q, history=history, failed=NO_KEYS, keys=NO_KEYS, changed=True)
    if q.stage == RELABEL:
        q = replace(q, reached=np.array([base.value]))
    q = replace(q, redrawn=q.stage in (DELETE, RARE) and q.redrawn)
    taken = replace(winner, edit=plain_edit(best, np.arange(len(winner.labels))))
    got = stats.lanes[best]
    assert got is not None
    if q.stage == DELETE:
        more = deletes(winner, held_of(winner, got, fit), best)
        if more:
            return following(q, DELETE, 0, (taken, *more))
        return _after_deletes(q, taken)
    if q.stage == REFIT:
        if q.extra:
            wider = 0 if history.gains[-1] > WORTH_AGAIN else q.wider + 1
            return begin_round(replace(q, wider=wider, round=min(q.round, MOST_ROUNDS - 2)), taken)
        if history.gains[-1] > WORTH_AGAIN and q.attempt < MOST_ATTEMPTS:
            return redraw(q, taken, 0)
        return _after_redrawing(replace(q, redrawn=True), taken)
    if q.stage == RELABEL:
        return following(q, SCREEN, 0, (taken,), waiting=())
    if q.stage == RARE:
        # No other start has looked for it.
        matches = q.matches if len(q.matches) != len(base.labels) else np.append(q.matches, 0)
        return _probe(replace(q, matches=matches), taken)
    return _end_round(q, taken)


def _refused(
    q: SearchGlobal, lanes: tuple[Lane, ...], best: int, stats: SearchStats, fit: PolyaGammaIBP
) -> SearchGlobal:
    base, birth, got = lanes[0], lanes[best], stats.lanes[best]
    if q.stage == DELETE:
        return _after_deletes(q, base)
    if q.stage == REFIT:
        if q.extra:
            return _end_round(replace(q, wider=q.wider + 1), base)
        return _after_redrawing(replace(q, redrawn=True), base)
    if q.stage == RELABEL:
        return _after_pairs(q, base)
    if q.stage == RARE:
        return _next_starts(q, base)
    if q.stage == BIRTH and got is not None and birth.value > base.value - SWAPPABLE:
        swaps = deletes(birth, held_of(birth, got, fit), best, int(birth.labels[-1]))
        if swaps:
            return following(q, SWAP, 0, (base, *swaps))
    return _end_round(q, base)


def _valued(lane: Lane, got: LaneStats | None, fit: PolyaGammaIBP) -> Lane:
    assert got is not None
    assert got.likelihood is not None
    value, error = measured(lane.q, got.fit.on, got.likelihood, fit.bias_variance)
    return replace(lane, value=value, error=error)
