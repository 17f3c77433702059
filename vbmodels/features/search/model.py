"""The default search for features: two short stochastic chains, then fits that moves improve.

A chain draws every row's features given weights and sticks, with omega summed out, and then the
weights and sticks given sums in which omega stands at its expectation: a stochastic EM, no sampler,
used for starts only. From each chain a fit by variational inference starts; the best by its bound
goes on, the features of the others wait in a pool. Then come rounds of moves that change what
coordinate ascent cannot (`moves`), each accepted by the yardstick only, and last the plain sweeps
of `vbmodels.features.ibp.model` to convergence.

The bound of that module loses some ten nats more for every feature than the truth does; so moves
that change the number of features are judged by the yardstick. All of it is sums over partitions:
what is proposed is decided by the driver, stands in the global parameters and is tried by
several fits side by side in one sweep. Draws hang on (seed, attempt, iteration, chain, row).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.algorithm import Algorithm, Phase, Save, Show
from vbmodels.core.cavi import evaluate
from vbmodels.core.state import FloatArray
from vbmodels.features.draw_kernels import draw_features, draw_uniform, row_keys
from vbmodels.features.ibp.chain import ChainStats, chain_sums, draw_chain, first_chain
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.monte_carlo_bound import fingerprints, likelihood_draws
from vbmodels.features.ibp.row_moments import mean_omega
from vbmodels.features.ibp.sticks import best_sticks
from vbmodels.features.search.candidates import NO_KEYS, with_labels
from vbmodels.features.search.moves import (
    chosen_start,
    judged_move,
    most_slots,
    probed,
    screened,
    tidied,
    wide_fit,
)
from vbmodels.features.search.rare_features import residual_moments, starts_along
from vbmodels.features.search.schedule import following, moved_lanes
from vbmodels.features.search.screens import edited, entropy_of, residue_sums, screen_sums
from vbmodels.features.search.states import (
    ALL,
    CHAINS,
    IDLE,
    NEWEST,
    RARE,
    REDRAW,
    REFIT,
    RESIDUE,
    SCREEN,
    SETTLE,
    START,
    TIDY,
    WIDEN,
    ChainAt,
    History,
    Lane,
    LaneStats,
    SearchGlobal,
    SearchLocal,
    SearchStats,
)
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable, unit_counts

LONGER = 2.0
"""A table of so many times the rows asked for, and no shorter one, is searched by a sample."""
_SAMPLED = 7


def share_of(asked: int | None, n_rows: float) -> float:
    """Return the share of the rows that is searched: all of them where a part saves little.

    >>> share_of(10_000, 20_000.0), share_of(10_000, 100_000.0)
    (1.0, 0.1)
    """
    return 1.0 if asked is None or n_rows <= LONGER * asked else asked / n_rows


def sample_of(batch: FeatureBatch, share: float, seed: int) -> FeatureBatch:
    """Return the rows of a partition whose lot, which hangs on their number, is below ``share``."""
    lot: FloatArray = draw_uniform(row_keys(batch.row_id, seed, _SAMPLED), 1)[:, 0]
    taken = np.flatnonzero(lot < share)
    distinct, back = np.unique(batch.row_of[taken], return_inverse=True)
    return replace(
        batch,
        codes=batch.codes[distinct],
        sign=batch.sign[distinct],
        count=np.bincount(back, batch.row_count[taken], len(distinct)).astype(np.float64),
        row_of=back.reshape(-1).astype(np.int64),
        row_id=batch.row_id[taken],
    )


QUIET = 4  # last sweeps before the trace of bounds decides on convergence
VISITS = 6
"""Times that every feature of a row is set where rows that a sample left out come in."""
LEAST_RISE = 1e-5
"""Nats a row by which the bound of a long table must rise in a last sweep for there to be another:
tens of sweeps would follow for a ten-thousandth of a nat a row, at the cost of the whole search."""
ITERATIONS = 60
"""Iterations of a chain."""
AGAIN = 30
"""Iterations of a chain from a fit, with that fit's features alone."""
AVERAGED = 10
"""Last iterations of a chain whose weights are averaged for the start of a fit."""
LOOSE, SURE_START = 15, 0.02
"""Draws of each row's features at those weights, and how far from 0 and 1 the start stays."""
LEAST_ROWS = 5.0
"""A chain's feature that fewer rows have, or lack, is left out of its fit."""
_CHAIN, _FRESH = 5, 6


@dataclass(frozen=True)
class SearchIBP:
    """Searches for the features and their number.

    Parameters
    ----------
    fit
        The variational form that is fitted; its ``n_features`` are the slots
        of the chains. Where all of them are in use after the first deletes, they double.
    starts
        Chains.
    draws
        Monte-Carlo draws of the yardstick.
    rows
        Rows that are searched, about, in a table of more than twice as many. What they show is
        then fitted to all rows, where a last round of moves is tried. None for all rows.
    """

    fit: PolyaGammaIBP
    starts: int = 2
    draws: int = 32
    rows: int | None = None

    def observe(self, batch: FeatureBatch) -> UnitCounts:
        """Count the answers to every unit."""
        return unit_counts(batch)

    def init(self, observed: UnitCounts, rng: np.random.Generator) -> SearchGlobal:
        """Start the chains."""
        none = History(np.zeros(0, "<U8"), np.zeros((0, 2), np.int64), np.zeros(0), 0)
        share = share_of(self.rows, observed.n_rows)
        empty = SearchGlobal(
            stage=CHAINS, step=0, seed=int(rng.integers(2**62)), attempt=0,
            slots=bearable(self.fit.n_features, observed.n_rows),
            margin=np.stack([observed.stop, observed.go_on]),
            n_rows=observed.n_rows, chains=(), lanes=(), modes=np.zeros(0, np.int64),
            judged=np.zeros(0, bool), fresh=np.zeros(0, np.int64), kept=(),
            pooled=np.zeros(0, np.int64), drop=False, starts=np.zeros(0), waiting=(),
            waiting_keys=NO_KEYS, n_pool=0,
            matches=np.zeros(0, np.int64), keys=NO_KEYS, failed=NO_KEYS, round=0, changed=False,
            flipped=np.zeros(0, np.int64), reached=np.zeros(0), history=none, sweep=0,
            share=share, seen=observed.n_rows if share == 1.0 else 0.0,
        )  # fmt: skip
        return self._begin_chains(empty, empty.slots)

    def _begin_chains(self, q: SearchGlobal, slots: int) -> SearchGlobal:
        """Start chains of so many slots; the best fit so far stays beside them."""
        begun = []
        for c in range(self.starts):
            rng = np.random.default_rng([q.seed, q.attempt, c])
            chain = first_chain(
                q.margin[0], q.margin[1], slots, self.fit.alpha, self.fit.weight_variance, rng
            )
            nothing = np.zeros(slots)
            begun.append(ChainAt(chain, np.zeros_like(chain.weights), nothing, nothing))
        return following(q, CHAINS, 0, q.lanes, chains=tuple(begun), slots=slots)

    # Partitions.

    def local_step(
        self, q: SearchGlobal, batch: FeatureBatch, local: SearchLocal | None
    ) -> SearchLocal:
        """Draw the chains' features, make the proposals' nu, and move what moves."""
        before = SearchLocal((), (), ()) if local is None else local
        if q.stage == WIDEN and q.step == 0:
            pool = tuple(self._in_all_rows(at, batch) for at in q.aside)
            return SearchLocal((), tuple(self._in_all_rows(at.q, batch) for at in q.lanes), pool)
        sample = before.sample
        if q.share < 1.0:
            batch = sample = sample_of(batch, q.share, q.seed) if sample is None else sample
        pool = before.pool + tuple(before.lanes[i] for i in q.pooled)
        lanes = []
        for i, lane in enumerate(q.lanes):
            if q.fresh[i] >= 0:
                nu = self._first_nu(q, batch, int(q.fresh[i]))
            elif lane.edit is not None:
                nu = edited(lane.edit, before.lanes, pool, before.residue)
            else:
                nu = before.lanes[i]
            k = nu.shape[1]
            visits = {ALL: range(k), NEWEST: range(k - 1, k)}.get(int(q.modes[i]), range(0))
            lanes.append(self.fit.visited(lane.q, batch, nu, visits) if visits else nu)
        residue = before.residue if q.stage == RARE else None
        if len(q.directions):
            residue = starts_along(q.lanes[0].q, batch, lanes[0], q.directions)
        chains: tuple[NDArray[np.int8], ...] = ()
        if q.stage in (CHAINS, REDRAW):
            drawn = before.chains
            if q.step == 0:
                drawn = self._first_drawn(q, batch, lanes)
            chains = self._drawn(q, batch, drawn)
        return SearchLocal(chains, tuple(lanes), () if q.drop else pool, sample, residue)

    def _first_drawn(
        self, q: SearchGlobal, batch: FeatureBatch, lanes: list[FloatArray]
    ) -> tuple[NDArray[np.int8], ...]:
        """Return the features from which chains start: none, or the likely ones of the best fit."""
        none = [np.zeros((batch.n_rows, len(at.chain.v)), np.int8) for at in q.chains]
        if q.stage == REDRAW:
            k = lanes[0].shape[1]
            for z in none:
                z[:, :k] = lanes[0][batch.row_of] > 0.5
        return tuple(none)

    def _in_all_rows(self, q: FeatureGlobal, batch: FeatureBatch) -> FloatArray:
        """Return nu of rows that have none yet, near where the weights of a sample put them."""
        k = q.mean.shape[1] - 1
        nu = np.full((len(batch.count), k), 0.5)
        for _ in range(VISITS):
            nu = self.fit.visited(q, batch, nu, range(k))
        return nu

    def _drawn(
        self, q: SearchGlobal, batch: FeatureBatch, before: tuple[NDArray[np.int8], ...]
    ) -> tuple[NDArray[np.int8], ...]:
        sign, drawn = batch.sign[batch.row_of], []
        for c, at in enumerate(q.chains):
            z = before[c].copy()
            keys = row_keys(batch.row_id, q.seed, q.attempt, q.step, c, _CHAIN)
            draw_features(sign, at.chain.weights, at.chain.log_odds, z, keys)
            drawn.append(z)
        return tuple(drawn)

    def _first_nu(self, q: SearchGlobal, batch: FeatureBatch, c: int) -> FloatArray:
        """Return the mean of P(z = 1) over draws that hang on what a row answered alone."""
        at, answers = q.chains[c], fingerprints(batch)
        z = np.zeros((len(batch.count), len(at.log_odds)), np.int8)
        total = np.zeros(z.shape)
        for i in range(LOOSE):
            keys = row_keys(answers, q.seed, q.attempt, i, c, _FRESH)
            chance = draw_features(batch.sign, at.weights, at.log_odds, z, keys)
            if i >= LOOSE - AVERAGED:
                total += chance / AVERAGED
        return np.clip(total[:, q.kept[c]], SURE_START, 1.0 - SURE_START)

    def suff_stats(self, q: SearchGlobal, batch: FeatureBatch, local: SearchLocal) -> SearchStats:
        """Sum what the chains, the fits that are not idle, and a screen need."""
        batch = batch if local.sample is None else local.sample
        sign, count = batch.sign[batch.row_of], batch.row_count
        chains = tuple(
            _chain_stats(at.chain.weights, sign, z, count)
            for at, z in zip(q.chains, local.chains, strict=False)
        )
        lanes = tuple(
            None if mode == IDLE else self._lane_stats(lane, batch, nu, bool(judged))
            for lane, nu, mode, judged in zip(q.lanes, local.lanes, q.modes, q.judged, strict=True)
        )
        screen = None
        if q.stage == SCREEN:
            screen = screen_sums(q.lanes[0].q, batch, local.lanes[0], local.pool)
        residue = None
        if len(q.directions) and local.residue is not None:
            screen = residue_sums(q.lanes[0].q, batch, local.lanes[0], local.residue)
        elif q.stage == RESIDUE:
            residue = residual_moments(q.lanes[0].q, batch, local.lanes[0])
        return SearchStats(chains, lanes, screen, residue)

    def _lane_stats(
        self, lane: Lane, batch: FeatureBatch, nu: FloatArray, judged: bool
    ) -> LaneStats:
        likelihood = None
        if judged:
            likelihood = likelihood_draws(lane.q, batch, nu, self.draws, lane.labels)
        stats = self.fit.suff_stats(lane.q, batch, FeatureLocal(nu))
        return LaneStats(stats, batch.count @ entropy_of(nu), likelihood)

    # The driver.

    def global_step(self, q: SearchGlobal, stats: SearchStats) -> SearchGlobal:
        """Move chains and fits, and decide what is tried next."""
        if q.stage in (CHAINS, REDRAW):
            return self._chains_moved(q, stats)
        if q.stage == TIDY:
            return tidied(q, stats, self.fit)
        if q.stage == SCREEN:
            return screened(q, stats, self.fit)
        if q.stage == RESIDUE:
            return probed(q, stats, self.fit)
        lanes = moved_lanes(q, stats.lanes, self.fit)
        if q.stage == SETTLE:
            return following(q, SETTLE, q.step + 1, lanes)
        if q.stage == WIDEN:
            return wide_fit(q, lanes)
        if q.stage == START:
            return chosen_start(q, lanes)
        after = judged_move(q, lanes, stats, self.fit)
        if after.stage == CHAINS:
            return self._begin_chains(after, min(2 * q.slots, most_slots(q.seen)))
        return after

    def _chains_moved(self, q: SearchGlobal, stats: SearchStats) -> SearchGlobal:
        # A fit that waits beside new chains was made by its edit in their first sweep.
        q = replace(q, lanes=tuple(replace(lane, edit=None) for lane in q.lanes))
        q = replace(q, seen=stats.chains[0].n_rows)
        last, moved = self._last(q), []
        for c, (at, sums) in enumerate(zip(q.chains, stats.chains, strict=True)):
            weights, log_odds = at.weights, at.log_odds
            if q.step >= last - AVERAGED:
                weights = weights + at.chain.weights / AVERAGED
                log_odds = log_odds + at.chain.log_odds / AVERAGED
            rng = np.random.default_rng([q.seed, q.attempt, c, q.step + 1])
            chain = draw_chain(at.chain, sums, self.fit.bias_variance, self.fit.learn, rng)
            moved.append(ChainAt(chain, weights, log_odds, sums.on))
        if q.step + 1 < last:
            return following(q, q.stage, q.step + 1, q.lanes, chains=tuple(moved))
        return (self._refit if q.stage == REDRAW else self._begin_fits)(q, tuple(moved))

    def _last(self, q: SearchGlobal) -> int:
        """Return how many iterations the chains make."""
        return AGAIN if q.stage == REDRAW and not q.extra else ITERATIONS

    def _refit(self, q: SearchGlobal, chains: tuple[ChainAt, ...]) -> SearchGlobal:
        """Start a fit from a chain that began at the best one, whose features keep their labels."""
        (at,), base = chains, q.lanes[0]
        columns = np.flatnonzero((at.on >= LEAST_ROWS) & (at.on <= q.seen - LEAST_ROWS))
        everyone = np.flatnonzero(at.on > q.seen - LEAST_ROWS)
        labels = with_labels(base, q.extra)[columns]
        first = self._first_fit(q, at, columns, everyone)
        lane = Lane(first, labels, -np.inf, False, -np.inf, 0.0, None)
        return following(
            q, REFIT, 0, (base, lane), chains=chains, fresh=np.array([-1, 0]), kept=(columns,),
            keys=NO_KEYS,
        )  # fmt: skip

    def _begin_fits(self, q: SearchGlobal, chains: tuple[ChainAt, ...]) -> SearchGlobal:
        """Start a fit from every chain, with the features that are neither rare nor everyone's."""
        lanes, kept = list(q.lanes), []
        fresh = [-1] * len(lanes)
        for c, at in enumerate(chains):
            columns = np.flatnonzero((at.on >= LEAST_ROWS) & (at.on <= q.seen - LEAST_ROWS))
            columns = columns[np.argsort(-at.on[columns], kind="stable")]
            everyone = np.flatnonzero(at.on > q.seen - LEAST_ROWS)
            kept.append(columns)
            fresh.append(c)
            first = self._first_fit(q, at, columns, everyone)
            labels = np.arange(len(columns), dtype=np.int64)
            lanes.append(Lane(first, labels, -np.inf, False, -np.inf, 0.0, None))
        return following(
            q, START, 0, tuple(lanes), chains=chains, fresh=np.array(fresh, np.int64),
            kept=tuple(kept),
        )  # fmt: skip

    def _first_fit(
        self, q: SearchGlobal, at: ChainAt, columns: NDArray[np.intp], everyone: NDArray[np.intp]
    ) -> FeatureGlobal:
        bias = at.weights[:, 0] + at.weights[:, everyone + 1].sum(1)
        mean = np.concatenate([bias[:, None], at.weights[:, columns + 1]], axis=1)
        units, size = mean.shape
        alpha, on = at.chain.alpha, at.on[columns]
        return FeatureGlobal(
            mean=mean,
            covariance=np.broadcast_to(0.01 * np.eye(size), (units, size, size)).copy(),
            tau=best_sticks(on[None], q.seen, alpha)[0][0],
            alpha=alpha,
            variance=np.full(size - 1, at.chain.variance),
            share=on / q.seen,
            n_rows=q.seen,
            sweep=0,
        )

    # What is shown.

    def elbo(self, q: SearchGlobal, stats: SearchStats) -> float:
        """Return the bound of the best fit; the chains' mean log likelihood before there is one."""
        if not q.lanes:
            return float(np.mean([s.log_likelihood for s in stats.chains]))
        bounds = [
            lane.bound if got is None else self.fit.elbo(lane.q, got.fit)
            for lane, got in zip(q.lanes, stats.lanes, strict=True)
        ]
        return max(bounds) if q.stage == START else bounds[0]

    def algorithm(self, q: SearchGlobal) -> Algorithm:
        """Search, then sweep."""
        return search(self, q)

    def has_fit(self, q: SearchGlobal) -> bool:
        """Whether the first chains have ended."""
        return bool(q.lanes)

    def in_last_sweeps(self, q: SearchGlobal) -> bool:
        """Whether the trace may decide that the fit has converged."""
        return q.stage == SETTLE and q.step >= QUIET

    def is_done(self, q: SearchGlobal, elbo: float) -> bool:
        """Whether a table that was searched by a sample is done; see `LEAST_RISE`."""
        slow = q.widened and elbo - q.lanes[0].bound < LEAST_RISE * q.n_rows
        return self.in_last_sweeps(q) and slow


def search(model: Any, q: Any) -> Algorithm:
    """Search and sweep until the trace, or the model, says that it is done."""
    q = yield Phase(_sweeps(model, q, until_fit=True), "the first chains were drawing")
    return (yield Phase(_sweeps(model, q)))


def _sweeps(model: Any, q: Any, until_fit: bool = False) -> Algorithm:
    while True:
        q = yield Save(q)
        if until_fit and model.has_fit(q):
            return q
        q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo, by_trace=model.in_last_sweeps(q))
        if model.is_done(q, elbo):
            return q
        q = model.global_step(q, stats)


def best_fit(q: SearchGlobal) -> FeatureGlobal:
    """Return the parameters of the best fit so far; there is one where `SearchIBP.has_fit`."""
    return q.lanes[best_lane(q)].q


def best_lane(q: SearchGlobal) -> int:
    """Return the place of the best fit so far among the fits."""
    if q.stage != START:
        return 0
    return int(np.argmax([lane.bound for lane in q.lanes]))


def _chain_stats(
    weights: FloatArray, sign: NDArray[np.int8], z: NDArray[np.int8], count: FloatArray
) -> ChainStats:
    def omega(psi: FloatArray, rows: slice) -> FloatArray:
        return mean_omega(psi, sign[rows].astype(np.float64))

    return chain_sums(weights, sign, z, count, omega)
