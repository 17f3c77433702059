"""Searches for features and their number: what partitions compute; the search itself is in `fit`.

All of it is sums over partitions: what is proposed is decided by the driver, is part of the
request and is tried by several fits side by side in one sweep. What a row draws follows from
(seed, attempt, iteration, chain, row).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.state import FloatArray
from vbmodels.features.draw_kernels import (
    Keys,
    draw_features,
    draw_omega,
    draw_uniform,
    row_keys,
)
from vbmodels.features.ibp.chain import ChainStats, chain_sums
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, entropy_of
from vbmodels.features.ibp.predict import fingerprints, likelihood_draws
from vbmodels.features.moment_kernels import tilted
from vbmodels.features.search.fit import AVERAGED, search
from vbmodels.features.search.screens import (
    edited,
    residual_moments,
    residue_sums,
    screen_sums,
    starts_along,
)
from vbmodels.features.search.states import (
    IDLE,
    Candidate,
    CandidateStats,
    Drawn,
    SearchGlobal,
    SearchLocal,
    SearchOptions,
    SearchRequest,
    SearchStats,
)
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable, unit_counts

LONGER = 2.0
"""A table of more than so many times these rows, and no shorter one, is searched by a sample."""
_SAMPLED = 7


def share_of(rows: int | None, n_rows: float) -> float:
    """Return the share of the rows that is searched: all of them where a part saves little.

    >>> share_of(10_000, 20_000.0), share_of(10_000, 100_000.0)
    (1.0, 0.1)
    """
    return 1.0 if rows is None or n_rows <= LONGER * rows else rows / n_rows


def _sampled(batch: FeatureBatch, share: float, seed: int) -> NDArray[np.intp]:
    """Return the places of the rows of a partition that are in a sample."""
    lot: FloatArray = draw_uniform(row_keys(batch.row_id, seed, _SAMPLED), 1)[:, 0]
    return np.flatnonzero(lot < share)


def sample_of(batch: FeatureBatch, share: float, seed: int) -> FeatureBatch:
    """Return the rows of a partition whose lot, by their number, is below ``share``."""
    taken = _sampled(batch, share, seed)
    distinct, back = np.unique(batch.row_of[taken], return_inverse=True)
    return replace(
        batch,
        codes=batch.codes[distinct],
        sign=batch.sign[distinct],
        count=np.bincount(back, batch.row_count[taken], len(distinct)).astype(np.float64),
        row_of=back.reshape(-1).astype(np.int64),
        row_id=batch.row_id[taken],
    )


VISITS = 6
"""Times that every feature of a row is set where rows that a sample left out come in."""
LOOSE, SURE_START = 15, 0.02
"""Draws of each row's features at a chain's weights, and how far from 0 and 1 the start stays."""
_CHAIN, _FRESH, _OMEGA = 5, 6, 10


@dataclass(frozen=True)
class SearchIBP(SearchOptions):
    """Searches for the features and their number."""

    def observe(self, batch: FeatureBatch) -> UnitCounts:
        """Count the answers to every unit."""
        return unit_counts(batch)

    def init(self, observed: UnitCounts, rng: np.random.Generator) -> SearchGlobal:
        """Return a search that has not begun."""
        share = share_of(self.rows, observed.drawn)
        return SearchGlobal(
            seed=int(rng.integers(2**62)),
            slots=bearable(self.fit.n_features, observed.n_rows),
            margin=np.stack([observed.stop, observed.go_on]),
            n_rows=observed.n_rows,
            share=share,
            seen=observed.n_rows if share == 1.0 else 0.0,
        )

    def algorithm(self, q: SearchGlobal) -> Algorithm:
        """Search, then sweep."""
        return search(self, q)

    def local_step(
        self, q: SearchRequest, batch: FeatureBatch, local: SearchLocal | None
    ) -> SearchLocal:
        """Draw the chains' features, make the proposals' nu, and move what moves."""
        before = SearchLocal((), (), ()) if local is None else local
        if q.everywhere:
            pool = tuple(self._in_all_rows(one, batch) for one in q.aside)
            return SearchLocal(
                (), tuple(self._in_all_rows(one.fit.q, batch) for one in q.fits), pool
            )
        sample = before.sample
        if q.share < 1.0:
            batch = sample = sample_of(batch, q.share, q.seed) if sample is None else sample
        pool = before.pool + tuple(before.fits[i] for i in q.pooled)
        fits = []
        for i, swept in enumerate(q.fits):
            one, moves = swept.fit, swept.moves
            if isinstance(one.source, Drawn):
                nu = _drawn_nu(q, one.source, batch)
            elif one.source is not None:
                nu = edited(one.source, before.fits, pool, before.residue)
            else:
                nu = before.fits[i]
            k = nu.shape[1]
            visits = range(max(k - moves, 0), k) if moves > 0 else range(0)
            fits.append(self.fit.visited(one.q, batch, nu, visits) if visits else nu)
        residue = before.residue if q.residue else None
        if len(q.directions):
            residue = starts_along(q.fits[0].fit.q, batch, fits[0], q.directions)
        chains = before.chains
        if q.iteration == 0:
            chains = tuple(
                _first_drawn(batch, len(c.v), fits if q.from_fit else []) for c in q.chains
            )
            if q.posterior:
                chains = tuple(z[_sampled(batch, q.posterior, q.seed)] for z in chains)
        chains = _draw(q, _of_chains(q, batch), chains) if q.chains else ()
        return SearchLocal(chains, tuple(fits), () if q.drop else pool, sample, residue)

    def _in_all_rows(self, q: FeatureGlobal, batch: FeatureBatch) -> FloatArray:
        """Return nu of rows that have none yet, near where the weights of a sample put them."""
        k = q.mean.shape[1] - 1
        nu = np.full((len(batch.count), k), 0.5)
        for _ in range(VISITS):
            nu = self.fit.visited(q, batch, nu, range(k))
        return nu

    def suff_stats(self, q: SearchRequest, batch: FeatureBatch, local: SearchLocal) -> SearchStats:
        """Sum what the chains, the fits that are not idle, and a screen need."""
        batch = batch if local.sample is None else local.sample
        rows = _of_chains(q, batch) if q.chains else batch
        sign, count = rows.sign[rows.row_of], rows.row_count
        keys = row_keys(rows.row_id, q.seed, q.iteration, _OMEGA) if q.posterior else None
        chains = tuple(
            _chain_stats(chain.weights, sign, z, count, keys)
            for chain, z in zip(q.chains, local.chains, strict=True)
        )
        fits = tuple(
            None if one.moves == IDLE else self._fit_stats(one.fit, batch, nu, one.measured)
            for one, nu in zip(q.fits, local.fits, strict=True)
        )
        screen = residue = None
        if q.screen:
            screen = screen_sums(q.fits[0].fit.q, batch, local.fits[0], local.pool)
        elif len(q.directions) and local.residue is not None:
            screen = residue_sums(q.fits[0].fit.q, batch, local.fits[0], local.residue)
        elif q.moments:
            residue = residual_moments(q.fits[0].fit.q, batch, local.fits[0])
        return SearchStats(chains, fits, screen, residue)

    def _fit_stats(
        self, one: Candidate, batch: FeatureBatch, nu: FloatArray, measured: bool
    ) -> CandidateStats:
        draws = likelihood_draws(one.q, batch, nu, self.draws, one.labels) if measured else None
        entropy = entropy_of(nu)
        stats = self.fit.suff_stats(one.q, batch, FeatureLocal(nu), entropy)
        return CandidateStats(stats, batch.count @ entropy, draws)


def _of_chains(q: SearchRequest, batch: FeatureBatch) -> FeatureBatch:
    """Return the rows that chains draw."""
    return sample_of(batch, q.posterior, q.seed) if 0.0 < q.posterior < 1.0 else batch


def _first_drawn(batch: FeatureBatch, k: int, fits: list[FloatArray]) -> NDArray[np.int8]:
    """Return the features from which a chain starts: none, or the likely ones of the best fit."""
    z = np.zeros((batch.n_rows, k), np.int8)
    for nu in fits:
        z[:, : nu.shape[1]] = nu[batch.row_of] > 0.5
    return z


def _draw(
    q: SearchRequest, batch: FeatureBatch, before: tuple[NDArray[np.int8], ...]
) -> tuple[NDArray[np.int8], ...]:
    sign, drawn = batch.sign[batch.row_of], []
    for c, chain in enumerate(q.chains):
        z = before[c].copy()
        keys = row_keys(batch.row_id, q.seed, q.attempt, q.iteration, c, _CHAIN)
        draw_features(sign, chain.weights, chain.log_odds, z, keys)
        drawn.append(z)
    return tuple(drawn)


def _drawn_nu(q: SearchRequest, of: Drawn, batch: FeatureBatch) -> FloatArray:
    """Return the mean of P(z = 1) over draws that follow from what a row answered alone."""
    answers = fingerprints(batch)
    z = np.zeros((len(batch.count), len(of.log_odds)), np.int8)
    total = np.zeros(z.shape)
    for i in range(LOOSE):
        keys = row_keys(answers, q.seed, q.attempt, i, of.chain, _FRESH)
        chance = draw_features(batch.sign, of.weights, of.log_odds, z, keys)
        if i >= LOOSE - AVERAGED:
            total += chance / AVERAGED
    return np.clip(total[:, of.columns], SURE_START, 1.0 - SURE_START)


def _chain_stats(
    weights: FloatArray,
    sign: NDArray[np.int8],
    z: NDArray[np.int8],
    count: FloatArray,
    keys: Keys | None,
) -> ChainStats:
    def omega(psi: FloatArray, rows: slice) -> FloatArray:
        if keys is None:
            return tilted(psi * psi, sign[rows])[0]
        return draw_omega(psi, sign[rows], keys[rows])

    return chain_sums(weights, sign, z, count, omega)
