"""The search for features, from top to bottom: starts, rounds of moves, last sweeps.

Two short stochastic chains draw; from each a fit by variational inference starts; the best by its
bound goes on, and the features of the others wait in a pool. Rounds of moves then change what
coordinate ascent cannot: it cannot empty junk features or bring in a feature that another start
found, and a row stays at the pattern whose neighbours are worse, though one further off may be
better. A round

1. turns a feature into its complement where that raises the bound (exact, by the driver), and puts
   features in the order of how common they are;
2. deletes until no delete is accepted;
3. draws rows and weights by a short chain from the fit, so that many rows change pattern at once;
4. tries features of the pool, each alone or in the place of another.

What proposals are worth is screened from sums (`proposals`); those that look best are tried side by
side for some sweeps; the best of them replaces the fit if its yardstick is higher, by common random
numbers: the bound loses some ten nats more for every feature than the truth does. Rounds end when
one changes nothing; where the starts did not agree on the features, a longer chain from the fit,
with some free features, then looks for what all starts have missed. What a sample of a long table
showed is fitted to all rows, and moves are tried there once more; residuals show features that few
rows have. Last come sweeps to convergence.

The posterior of a search's best fit: a Gibbs chain at its number of features.

omega, the rows' features, the weights, the sticks and the hyperparameters are drawn in turn, from
the fit on. The weights that are kept say what rows have (`posterior_draws`) and what features do.
The fit itself waits, so the search ends where it would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Phase, Request, Save
from vbmodels.core.draws import Schedule
from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.features.ibp.chain import Chain, chain_from, draw_chain, first_chain
from vbmodels.features.ibp.model import FeatureGlobal
from vbmodels.features.ibp.sticks import best_sticks
from vbmodels.features.posterior_draws import DRAWS, WeightDraws
from vbmodels.features.search.proposals import (
    HeldOmega,
    births,
    deletes,
    flip,
    flip_gains,
    greedy_deletes,
    held_of,
    matches_of,
    plain_edit,
    rare_births,
    with_labels,
)
from vbmodels.features.search.screens import FAR, LEAST_LOOKED_AT, MOST_UNITS, directions_of
from vbmodels.features.search.states import (
    ALL,
    IDLE,
    NO_KEYS,
    Candidate,
    CandidateStats,
    Drawn,
    SearchGlobal,
    SearchOptions,
    SearchStats,
    Swept,
)
from vbmodels.features.search.trials import Plan, held_omega_of, moved, still, sweep, trial

POSTERIOR = "posterior"
"""Name of the sweeps of the posterior's chain."""
WARMUP = 10
"""Draws of that chain that are thrown away first."""
SAMPLED = 5_000.0
"""Rows that the chain draws, about, of a table that was searched by a sample."""
THINNED, MOST_THINNED = 5_000.0, 5
"""Rows that all sweeps for one draw go through, about, and the most such sweeps."""
_STREAM = 12


ITERATIONS, AGAIN, WITH_FREE = 60, 30, 40
"""Iterations of a first chain, of one from a fit, and of one from a fit with free features."""
AVERAGED = 10
"""Last iterations of a chain whose weights are averaged for the start of a fit."""
LEAST_ROWS = 5.0
"""A chain's feature that fewer rows have, or lack, is left out of its fit."""
EXTRA, CUTS = 4, (10, 18)
"""Free features of a chain from the best fit, and sweeps after which those that are junk go."""
MOST_WIDER, FEW_ROWS, MOST_ATTEMPTS = 3, 40, 14
"""The search ends when as many such chains are refused as features that no other start has, but no
more than so many; where there are so many rows a feature, one for two such features and more.
Chains after the first in all."""
WORTH_AGAIN = 2.0
"""Nats that redrawn rows must have brought for them to be redrawn again at once."""
MOST_ROUNDS, WIDE_ROUNDS, MOST_SLOTS = 6, 2, 200
"""Most rounds; most of them on all rows after those on a sample; most slots of chains."""
MOST_PROBES = 8
"""Most times that residuals are looked at; every time but the last brings a feature."""
STILL = 1e-6
"""Rise of the bound a sweep, relative, at which a fit widened to all rows waits for moves."""
FLIP_GAIN = 1.0
"""Nats of the bound that a complement must bring."""
SAME_SHARE = 1e-9
"""Share of the rows by which a feature must be more common than the one before it to change places.
Empty ones differ by rounding alone, which follows their places: they would change for ever."""
SWAPPABLE = 60.0
"""Nats: a refused birth that is further behind is not tried with a delete after it."""
TYPICAL_MOVES, TYPICAL_LAST = 250.0, 40.0
"""Sweeps of moves, and last sweeps, that most tables take."""
QUIET = 4
"""Last sweeps before the trace of bounds decides on convergence."""
LEAST_RISE = 1e-5
"""Nats a row by which the bound of a long table must rise in a last sweep for there to be another:
tens of sweeps would follow for a ten-thousandth of a nat a row, at the cost of the whole search."""


START = Plan("start", held=3, free=25)
DELETE = Plan("delete", free=6, slack=15.0, check=1, behind=40.0, redraws=False)
REFIT = Plan("refit", held=3, free=30, slack=15.0, gain=1.0)
WIDER = replace(REFIT, slack=60.0)
BIRTH = Plan("birth", held=2, newest=4, free=8, slack=10.0, check=6, behind=60.0)
SWAP = Plan("swap", free=6, slack=30.0, check=1, behind=60.0)
RARE = Plan("rare", held=1, newest=5, free=4, slack=30.0, redraws=False, residue=True)
WIDEN = Plan("widen", free=30)
CHAINS, TIDY, SCREEN, RESIDUE, LAST = "chains", "tidy", "screen", "residue", "last"
"""Names of the sweeps that are of no plan."""


@dataclass(frozen=True)
class ChainMean(State, kind="features/search.ChainMean"):
    """A chain, the mean of its last weights [J, K + 1] and log-odds [K], and features' rows [K]."""

    chain: Chain
    weights: FloatArray
    log_odds: FloatArray
    on: FloatArray

    @classmethod
    def of(cls, chain: Chain) -> ChainMean:
        """Begin."""
        nothing = np.zeros(len(chain.v))
        return cls(chain, np.zeros_like(chain.weights), nothing, nothing)


def search(
    model: SearchOptions, at: SearchGlobal, waits: Callable[[], bool] = lambda: False
) -> Algorithm:
    """Search; the last sweeps go on while others wait for theirs.

    Each phase restarts at its last `Save`, so a resume replays little.
    """
    chains = yield Phase(first_chains(model, at), "the first chains were drawing")
    at = yield Phase(fit_starts(model, *chains))
    at = yield Phase(search_rounds(model, at))
    at = yield Phase(draw_posterior(model, at))
    return (yield Phase(last_sweeps(model, at, waits)))


def search_rounds(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Rounds of moves until one changes nothing, no chain finds more, and all rows were seen."""
    while True:
        at = yield Save(at)
        at = replace(at, round=at.round + 1, changed=False)
        at = yield Phase(improve(model, at))
        if at.changed and at.round < MOST_ROUNDS:
            continue
        wider = False
        while not wider and at.wider < most_wider(at) and at.attempt < MOST_ATTEMPTS:
            tried = yield Phase(redraw(model, at, EXTRA))
            at, wider = tried.at, tried.accepted
            little = not wider or at.history.gains[-1] <= WORTH_AGAIN
            at = replace(at, wider=at.wider + 1 if little else 0)
        if wider:
            at = replace(at, round=min(at.round, MOST_ROUNDS - 2))
        elif at.share < 1.0:
            at = yield Phase(widen(model, at))
        else:
            return (yield Phase(find_rare(model, at)))


PHASES = ("chains", "starts", "moves", "draws", "last sweeps")


def progress(at: SearchGlobal) -> tuple[str, float | None]:
    """Return the phase of a search, and about how many sweeps are to come.

    How many moves are tried depends on what they bring: what is certain to be tried is counted, so
    that the estimate may rise. The trace says how many last sweeps are to come.
    """
    last = QUIET + TYPICAL_LAST
    draws = float(schedule_of(at.n_rows).sweeps)
    if at.phase == LAST:
        phase, left = 5, None
    elif at.phase == POSTERIOR:
        phase, left = 4, last
    elif at.fit is None:
        moves = START.sweeps + TYPICAL_MOVES + draws + last
        phase, left = 1, max(ITERATIONS - at.sweep, 0.0) + moves
    elif at.phase == START.name:
        phase, left = 2, TYPICAL_MOVES + draws + last
    else:
        chains = 0 if at.redrawn else AGAIN + REFIT.sweeps
        chains += max(most_wider(at) - at.wider, 0) * (WITH_FREE + WIDER.sweeps)
        phase, left = 3, (BIRTH.sweeps + SWAP.sweeps) * (not at.wider) + chains + draws + last
    return f"phase {phase} of {len(PHASES)} ({PHASES[phase - 1]})", left


def improve(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """One round of moves; where chains filled all slots, starts with twice as many instead."""
    at = yield Phase(tidy_and_delete(model, at))
    if at.round == 1 and at.k >= max(at.slots - 1, 1) and at.slots < most_slots(at.seen):
        at = replace(at, attempt=at.attempt + 1, slots=min(2 * at.slots, most_slots(at.seen)))
        chains = yield Phase(first_chains(model, at))
        at = yield Phase(fit_starts(model, *chains))
        return replace(at, changed=True)
    if at.k and not at.redrawn and not at.widened and at.attempt < MOST_ATTEMPTS:
        at = yield Phase(redraw_rows(model, at))
    if not at.n_pool:
        return at
    at, waiting, keys = yield Phase(screen_pool(model, at))
    if waiting:
        at = yield Phase(bear(model, at, waiting, keys))
    return at


# Starts.


def first_chains(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Draw chains from the margins; return the search and a fit to start from each."""
    chains = []
    for c in range(model.starts):
        rng = np.random.default_rng([at.seed, at.attempt, c])
        alpha, variance = model.fit.alpha, model.fit.weight_variance
        chains.append(first_chain(at.margin[0], at.margin[1], at.slots, alpha, variance, rng))
    at, means = yield from draw_chains(model, at, chains, ITERATIONS)
    fits = []
    for c, mean in enumerate(means):
        columns = _kept(mean, at.seen)
        columns = columns[np.argsort(-mean.on[columns], kind="stable")]
        fits.append(_first_fit(at, mean, columns, np.arange(len(columns)), c))
    return at, tuple(fits)


def draw_chains(
    model: SearchOptions,
    at: SearchGlobal,
    first: Sequence[Chain],
    iterations: int,
    redraw: bool = False,
) -> Generator[Request, Any, tuple[SearchGlobal, tuple[ChainMean, ...]]]:
    """Iterate chains while the best fit so far waits; return the means of their last weights.

    A stochastic EM, no sampler: omega is at its expectation.
    """
    chains, i = tuple(map(ChainMean.of, first)), 0
    while True:
        at, chains, i = yield Save((at, chains, i))
        if i == iterations:
            return at, chains
        at, fits, sums, _ = yield from sweep(
            model,
            at,
            tuple(Swept(one, IDLE) for one in _waiting(at)),
            CHAINS,
            chains=tuple(one.chain for one in chains),
            iteration=i,
            from_fit=redraw,
        )
        moved, averaged = [], i >= iterations - AVERAGED
        for c, (one, own) in enumerate(zip(chains, sums.chains, strict=True)):
            weights, log_odds = one.weights, one.log_odds
            if averaged:
                weights = weights + one.chain.weights / AVERAGED
                log_odds = log_odds + one.chain.log_odds / AVERAGED
            rng = np.random.default_rng([at.seed, at.attempt, c, i + 1])
            chain = draw_chain(one.chain, own, model.fit.bias_variance, model.fit.learn, rng)
            moved.append(ChainMean(chain, weights, log_odds, own.on))
        # A fit that waits was made in their first sweep.
        waiting = None if at.fit is None else replace(fits[0], source=None)
        at = replace(at, fit=waiting, seen=sums.chains[0].n_rows)
        chains, i = tuple(moved), i + 1


def _waiting(at: SearchGlobal) -> tuple[Candidate, ...]:
    """Return the best fit, where there is one."""
    return () if at.fit is None else (at.fit,)


def _kept(mean: ChainMean, seen: float) -> IntArray:
    """Return the features of a chain that are neither rare nor everyone's."""
    return np.flatnonzero((mean.on >= LEAST_ROWS) & (mean.on <= seen - LEAST_ROWS))


def _first_fit(
    at: SearchGlobal, mean: ChainMean, columns: IntArray, labels: IntArray, c: int
) -> Candidate:
    """Return a fit that starts from some features of a chain; everyone's go to the biases."""
    everyone = np.flatnonzero(mean.on > at.seen - LEAST_ROWS)
    bias = mean.weights[:, 0] + mean.weights[:, everyone + 1].sum(1)
    weights = np.concatenate([bias[:, None], mean.weights[:, columns + 1]], axis=1)
    units, size = weights.shape
    alpha, on = mean.chain.alpha, mean.on[columns]
    first = FeatureGlobal(
        mean=weights,
        covariance=np.broadcast_to(0.01 * np.eye(size), (units, size, size)).copy(),
        tau=best_sticks(on[None], at.seen, alpha)[0][0],
        alpha=alpha,
        variance=np.full(size - 1, mean.chain.variance),
        share=on / at.seen,
        n_rows=at.seen,
        sweep=0,
    )
    return Candidate(first, labels, Drawn(mean.weights, mean.log_odds, columns, c))


def fit_starts(model: SearchOptions, at: SearchGlobal, new: tuple[Candidate, ...]) -> Algorithm:
    """Sweep the new fits until all are calm; take the best of all and pool the others."""
    fits, earlier, step = (*_waiting(at), *new), len(_waiting(at)), 0
    while step < START.sweeps:
        at, fits, step = yield Save((at, fits, step))
        swept = tuple(
            Swept(one, IDLE if i < earlier else START.moves(step)) for i, one in enumerate(fits)
        )
        at, fits, sums, bounds = yield from sweep(model, at, swept, START.name, best=True)
        fits = tuple(
            moved(model, *one, measured=False) for one in zip(fits, sums.fits, bounds, strict=True)
        )
        step += 1
        if step > START.held + 1 and all(one.calm for one in fits[earlier:]):
            break
    ends = np.array([one.bound for one in fits])
    best = int(np.argmax(ends))
    others = np.array([i for i in range(len(fits)) if i != best], np.int64)
    chosen = replace(fits[best], source=plain_edit(best, np.arange(len(fits[best].labels))))
    return replace(
        at,
        fit=chosen,
        starts=ends,
        pooled=others,
        n_pool=at.n_pool + len(others),
        aside=at.aside if at.share == 1.0 else at.aside + tuple(fits[i].q for i in others),
        round=0,
        flipped=np.zeros(0, np.int64),
        failed=NO_KEYS,
        redrawn=False,
        wider=0,
    )


# Moves.


def tidy_and_delete(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Turn features into complements, put all in order, then delete until none is accepted."""
    while True:
        at = yield Save(at)
        at, sums = yield from still(model, at, TIDY)
        held = held_omega_of(model, at, sums)
        tidied = _turned(at, held) or _ordered(at, held)
        if tidied is None:
            break
        at = tidied
    proposals = deletes(at.best, held)
    while proposals:
        tried = yield Phase(trial(model, at, DELETE, proposals))
        at, proposals = tried.at, tried.deletes(model) if tried.accepted else ()
    return at


def _turned(at: SearchGlobal, held: HeldOmega) -> SearchGlobal | None:
    """Turn the feature into its complement that gains most by it; None where none gains."""
    best = at.best
    gains = np.where(np.isin(best.labels, at.flipped), -np.inf, flip_gains(held))
    if gains.max(initial=-np.inf) <= FLIP_GAIN:
        return None
    i, on = int(np.argmax(gains)), held.on.copy()
    on[i] = held.n_rows - on[i]
    edit = replace(plain_edit(0, np.arange(at.k)), flipped=np.arange(at.k) == i)
    q = _with_sticks(flip(best.q, i), on)
    fit = replace(best, q=q, value=-np.inf, source=edit)
    return replace(at, fit=fit, flipped=np.append(at.flipped, best.labels[i]))


def _ordered(at: SearchGlobal, held: HeldOmega) -> SearchGlobal | None:
    """Put the most common features first; None where they are."""
    if not np.any(np.diff(held.on) > SAME_SHARE * held.n_rows):
        return None
    best, order = at.best, np.argsort(-held.on, kind="stable")
    place = np.concatenate([[0], order + 1])
    q = replace(
        best.q,
        mean=best.q.mean[:, place],
        covariance=best.q.covariance[:, place[:, None], place],
        variance=best.q.variance[order],
    )
    q = _with_sticks(q, held.on[order])
    labels, edit = best.labels[order], plain_edit(0, order)
    return replace(at, fit=replace(best, q=q, labels=labels, value=-np.inf, source=edit))


def _with_sticks(q: FeatureGlobal, on: FloatArray) -> FeatureGlobal:
    return replace(q, tau=best_sticks(on[None], q.n_rows, q.alpha)[0][0], share=on / q.n_rows)


def redraw_rows(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Draw the rows again from the fit while that brings much."""
    while True:
        at = yield Save(at)
        tried = yield Phase(redraw(model, at, 0))
        at = tried.at
        much = tried.accepted and at.history.gains[-1] > WORTH_AGAIN
        if not much or at.attempt >= MOST_ATTEMPTS:
            return replace(at, redrawn=True)


def redraw(model: SearchOptions, at: SearchGlobal, extra: int) -> Algorithm:
    """Draw rows and weights by a chain from the fit, with free features; try the fit from there.

    As it does not have to find the other features again, it also finds what the starts have missed.
    """
    at = replace(at, attempt=at.attempt + 1)
    rng = np.random.default_rng([at.seed, at.attempt])
    chain = chain_from(at.best.q, extra, rng)
    iterations, plan = (WITH_FREE, WIDER) if extra else (AGAIN, REFIT)
    at, (mean,) = yield from draw_chains(model, at, (chain,), iterations, redraw=True)
    columns = _kept(mean, at.seen)
    first = _first_fit(at, mean, columns, with_labels(at.best, extra)[columns], 0)

    def between(
        fits: tuple[Candidate, ...], sums: SearchStats, step: int
    ) -> tuple[tuple[Candidate, ...], int]:
        """Free features that stayed junk go; a calm fit is measured."""
        fit, one = fits
        if extra and step in CUTS:
            one = _without_junk(model, one, sums.fits[1])
        calm = one.calm and REFIT.held + 1 < step and not (extra and step <= max(CUTS))
        return (fit, one), REFIT.sweeps - 1 if calm else step

    return (yield Phase(trial(model, at, plan, (first,), between=between)))


def _without_junk(model: SearchOptions, one: Candidate, sums: CandidateStats | None) -> Candidate:
    """Delete features that gain by going; the screen knows what deleting gains at least."""
    assert sums is not None
    held = held_of(one, sums, model.fit)
    gone = greedy_deletes(held, 0.0)
    if not gone:
        return one
    stay = np.array([i for i in range(len(one.labels)) if i not in gone], np.int64)
    return Candidate(held.keeping(stay).fitted(), one.labels[stay], plain_edit(1, stay))


def most_wider(at: SearchGlobal) -> int:
    """Return how many chains with free features may be refused."""
    if not at.k or at.widened:
        return 0
    alone = int((at.matches == 0).sum()) if len(at.matches) == at.k else at.k
    return min(alone, MOST_WIDER) if at.seen < FEW_ROWS * at.k else min(alone // 2, 1)


def most_slots(n_rows: float) -> int:
    """Return the most slots of chains over so many rows."""
    return int(max(1.0, min(MOST_SLOTS, n_rows - 1.0)))


def screen_pool(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Compare the fit with the pool; return births to try, with the keys of refusals."""
    at, sums = yield from still(model, at, SCREEN, screen=True)
    held, screen = held_omega_of(model, at, sums), sums.screen
    assert screen is not None
    waiting, keys = births(at, held, screen, model.fit)
    return replace(at, matches=matches_of(held, screen)), waiting, keys


def bear(
    model: SearchOptions, at: SearchGlobal, proposals: tuple[Candidate, ...], keys: IntArray
) -> Algorithm:
    """Try features of the pool, each alone and then in the place of another."""
    tried = yield Phase(trial(model, at, BIRTH, proposals, keys))
    if not tried.accepted and tried.best.value > tried.at.best.value - SWAPPABLE:
        swaps = tried.deletes(model, kept=int(tried.best.labels[-1]))
        if swaps:
            tried = yield Phase(trial(model, tried.at, SWAP, swaps))
    return tried.at


def widen(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Fit what a sample showed to all rows, for moves to be tried once more."""
    fit = replace(at.best, bound=-np.inf, calm=False, value=-np.inf, source=None)
    at = replace(at, fit=fit, share=1.0, seen=at.n_rows, widened=True)
    step, quiet = 0, False
    while step < WIDEN.sweeps and not quiet:
        at, step = yield Save((at, step))
        before = at.best.bound
        at, fits, sums, (after,) = yield from sweep(
            model,
            at,
            (Swept(at.best, ALL),),
            WIDEN.name,
            everywhere=step == 0,
            aside=at.aside,
        )
        at = replace(at, fit=moved(model, fits[0], sums.fits[0], after, False), aside=())
        step += 1
        quiet = at.best.calm or (step > 1 and after - before < STILL * abs(after))
    return replace(at, failed=NO_KEYS, round=MOST_ROUNDS - WIDE_ROUNDS)


def find_rare(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Try rows far along the directions of residuals as a feature's."""
    found = at.n_rows >= LEAST_LOOKED_AT and at.margin.shape[1] <= MOST_UNITS
    while found and at.probes < MOST_PROBES and at.k < MOST_SLOTS:
        at = yield Save(at)
        at, sums = yield from still(model, replace(at, probes=at.probes + 1), RESIDUE, moments=True)
        assert sums.residue is not None
        directions = directions_of(sums.residue, at.n_rows)
        if not len(directions):
            return at
        at, sums = yield from still(model, at, RESIDUE, directions=directions)
        assert sums.screen is not None
        waiting = rare_births(at, held_omega_of(model, at, sums), sums.screen.pool[0], model.fit)
        found = False
        while waiting and not found:
            now, waiting = waiting[: len(FAR)], waiting[len(FAR) :]  # as many as a direction has
            tried = yield Phase(trial(model, at, RARE, now))
            at, found = tried.at, tried.accepted
        if found and len(at.matches) == at.k - 1:
            at = replace(at, matches=np.append(at.matches, 0))  # no other start has looked for it
    return at


def last_sweeps(model: SearchOptions, at: SearchGlobal, waits: Callable[[], bool]) -> Algorithm:
    """Sweep until the trace of bounds, or on a long table the rise, says that the fit is done."""
    step = 0
    while True:
        at, step = yield Save((at, step))
        last = step >= QUIET
        at, fits, sums, (bound,) = yield from sweep(
            model, at, (Swept(at.best, ALL),), LAST, by_trace=last, drop=True
        )
        slow = at.widened and bound - fits[0].bound < LEAST_RISE * at.n_rows
        if last and slow and not waits():
            return replace(at, fit=fits[0])
        at = replace(at, fit=moved(model, fits[0], sums.fits[0], bound, measured=False))
        step += 1


def schedule_of(n_rows: float) -> Schedule:
    """Return the schedule of a chain over so many rows: of few, draws that are further apart.

    >>> [schedule_of(rows).thin for rows in (300, 2_000, 10_000)]
    [5, 2, 1]
    """
    thin = int(np.clip(THINNED / n_rows, 1, MOST_THINNED))
    return Schedule(WARMUP * thin, DRAWS, thin=thin)


def draw_posterior(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Draw weights from the posterior by a Gibbs chain from the best fit, which waits.

    Of a long table it draws a sample of the rows.
    """
    share = min(SAMPLED / at.n_rows, 1.0) if at.widened else 1.0
    schedule = schedule_of(share * at.n_rows)
    rng = np.random.default_rng([at.seed, _STREAM])
    chain, i = chain_from(at.best.q, 0, rng), 0
    while True:
        at, chain, i = yield Save((at, chain, i))
        if i == schedule.sweeps or not at.k:
            return at
        at, fits, sums, _ = yield from sweep(
            model,
            at,
            (Swept(at.best, IDLE),),
            POSTERIOR,
            chains=(chain,),
            iteration=i,
            from_fit=True,
            posterior=share,
        )
        (own,) = sums.chains
        rng = np.random.default_rng([at.seed, _STREAM, i + 1])
        chain = draw_chain(chain, own, model.fit.bias_variance, model.fit.learn, rng)
        draws = at.draws
        if schedule.slot(i) is not None:
            draws = draws.plus(chain.weights, chain.log_odds)
        elif i == 0:
            none = WeightDraws.none(len(chain.weights), at.k)
            draws = replace(none, scale=math.sqrt(at.n_rows / own.n_rows) if share < 1.0 else 1.0)
        at = replace(at, fit=replace(fits[0], source=None), draws=draws)
        i += 1
