"""An exact sampler of the IBP for categorical tables by Polya-Gamma, to check other forms by.

The model is that of `polya_gamma`. One iteration of a chain:

    z_n | weights, pi       feature by feature, exactly, with omega summed out (partitions)
    omega_nj ~ PG(1, psi_nj)                                                  (partitions)
    weights of unit j ~ N(Lambda^-1 sum_n s_nj z_n, Lambda^-1)                (driver)
    where sticks broke, v, alpha | counts; variance | weights                 (driver)

so one reduce of the same sums as in variational inference moves it. Draws of a row hang on
(seed, iteration, chain, row number) alone: partitions, workers and resuming change none of
them; only the rounding of the sums differs with the partitioning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.diagnostics import Diagnosis, diagnose
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.batch import FeatureBatch, UnitCounts, bearable, unit_counts
from vbmodels.features.chain_steps import chain_sums, draw_chain, first_chain
from vbmodels.features.gibbs_kernels import draw_features, draw_omega, row_keys
from vbmodels.features.gibbs_state import Chain, ChainStats
from vbmodels.features.predict import category_probabilities, missing_cells

TRACED = ("log_likelihood", "alpha", "weight_variance", "features_per_row", "features_in_use")
"""What is followed of each chain; none of it depends on the features' labels."""
_FEATURES, _OMEGA, _NEW = 1, 2, 3


@dataclass(frozen=True)
class GibbsGlobal(State):
    """All chains, how far they are, and what they leave.

    Parameters
    ----------
    chains
        C chains.
    iteration
        Iterations so far.
    seed
        Of everything that is drawn.
    trace
        [C, T, 5] the quantities `TRACED` at every iteration, 0 ahead.
    kept_weights, kept_log_odds
        [C, S, J, K + 1] and [C, S, K] thinned draws, for new rows.
    share
        [C, K] mean share of the rows with each feature over the draws that count.
    n_rows
        N.
    """

    chains: tuple[Chain, ...]
    iteration: int
    seed: int
    trace: FloatArray
    kept_weights: FloatArray
    kept_log_odds: FloatArray
    share: FloatArray
    n_rows: float


@dataclass(frozen=True)
class ChainLocal(State):
    """A chain's features z [N, K] and the sum of their probabilities over kept draws."""

    z: NDArray[np.int8]
    chance: FloatArray


@dataclass(frozen=True)
class GibbsLocal(State):
    """A partition's state.

    Parameters
    ----------
    chains
        One a chain.
    cells
        [M, R] sum over kept draws of all chains of each category's probability in each missing
        cell, in the order of `missing_cells`; R is the largest number of categories.
    """

    chains: tuple[ChainLocal, ...]
    cells: FloatArray


@dataclass(frozen=True)
class GibbsStats(Stats):
    """Sums of all chains."""

    chains: tuple[ChainStats, ...]


@dataclass(frozen=True)
class GibbsIBP:
    """The sampler.

    Parameters
    ----------
    n_features
        K, the truncation; one fewer than rows at most.
    alpha, weight_variance, bias_variance
        As in `vbmodels.features.polya_gamma.PolyaGammaIBP`.
    learn
        Whether alpha ~ Gamma(1, 1) and 1 / variance ~ Gamma(1, 1) are drawn too.
    chains
        C.
    warmup, draws
        Iterations thrown away, and iterations averaged, of each chain.
    keep
        S, draws of each chain that are kept for new rows; no more than ``draws``.

    Raises
    ------
    ValueError
        If more draws are to be kept than there are.
    """

    n_features: int
    alpha: float = 1.0
    weight_variance: float = 2.0
    bias_variance: float = 10.0
    learn: bool = True
    chains: int = 3
    warmup: int = 200
    draws: int = 200
    keep: int = 10

    objective: ClassVar[str] = "log likelihood"

    def __post_init__(self) -> None:
        if not 1 <= self.keep <= self.draws:
            raise ValueError(
                f"expected to keep 1 to {self.draws} draws of each chain, as many as there are, "
                f"got keep={self.keep}"
            )

    def observe(self, batch: FeatureBatch) -> UnitCounts:
        """Count the answers to every unit."""
        return unit_counts(batch)

    def init(self, observed: UnitCounts, rng: np.random.Generator) -> GibbsGlobal:
        """Start every chain from weights around 0 and biases at the margins."""
        seed = int(rng.integers(2**62))
        k, units = bearable(self.n_features, observed.n_rows), len(observed.stop)
        chains = []
        for c in range(self.chains):
            own = np.random.default_rng([seed, c])
            chains.append(
                first_chain(observed.stop, observed.go_on, k, self.alpha, self.weight_variance, own)
            )
        size = (self.chains, self.keep)
        return GibbsGlobal(
            chains=tuple(chains),
            iteration=0,
            seed=seed,
            trace=np.zeros((self.chains, self.last, len(TRACED))),
            kept_weights=np.zeros((*size, units, k + 1)),
            kept_log_odds=np.zeros((*size, k)),
            share=np.zeros((self.chains, k)),
            n_rows=observed.n_rows,
        )

    @property
    def last(self) -> int:
        """Iterations of a whole run."""
        return self.warmup + self.draws

    def local_step(
        self, q: GibbsGlobal, batch: FeatureBatch, local: GibbsLocal | None
    ) -> GibbsLocal:
        """Draw every row's features in every chain."""
        sign = batch.sign[batch.row_of]
        if local is None:
            local = _empty(batch, self.chains, q.share.shape[1])
        keeping = self.warmup <= q.iteration < self.last
        rows, columns = missing_cells(batch)
        cells = local.cells.copy()
        moved = []
        for c, (chain, old) in enumerate(zip(q.chains, local.chains, strict=True)):
            z = old.z.copy()
            keys = row_keys(batch.row_id, q.seed, q.iteration, c, _FEATURES)
            chance = draw_features(sign, chain.weights, chain.log_odds, z, keys)
            if keeping:
                psi = chain.weights[:, 0] + z[rows] @ chain.weights[:, 1:].T
                cells += category_probabilities(psi, batch.levels, columns)
            moved.append(ChainLocal(z, old.chance + chance if keeping else old.chance))
        return GibbsLocal(tuple(moved), cells)

    def suff_stats(self, q: GibbsGlobal, batch: FeatureBatch, local: GibbsLocal) -> GibbsStats:
        """Draw omega and sum."""
        sign = batch.sign[batch.row_of]
        found = []
        for c, (chain, at) in enumerate(zip(q.chains, local.chains, strict=True)):
            keys = row_keys(batch.row_id, q.seed, q.iteration, c, _OMEGA)

            def omega(psi: FloatArray, rows: slice, keys: Any = keys) -> FloatArray:
                return draw_omega(psi, sign[rows], keys[rows])

            found.append(chain_sums(chain.weights, sign, at.z, omega))
        return GibbsStats(tuple(found))

    def global_step(self, q: GibbsGlobal, stats: GibbsStats) -> GibbsGlobal:
        """Draw weights, sticks and hyperparameters of every chain."""
        trace, share = q.trace.copy(), q.share.copy()
        weights, log_odds = q.kept_weights.copy(), q.kept_log_odds.copy()
        slot = self._slot(q.iteration)
        chains = []
        for c, (chain, sums) in enumerate(zip(q.chains, stats.chains, strict=True)):
            if q.iteration < self.last:
                trace[c, q.iteration] = _traced(chain, sums)
            if self.warmup <= q.iteration < self.last:
                share[c] += sums.on / (sums.n_rows * self.draws)
            if slot is not None:
                weights[c, slot], log_odds[c, slot] = chain.weights, chain.log_odds
            rng = np.random.default_rng([q.seed, c, q.iteration + 1])
            chains.append(draw_chain(chain, sums, self.bias_variance, self.learn, rng))
        return replace(
            q,
            chains=tuple(chains),
            iteration=q.iteration + 1,
            trace=trace,
            kept_weights=weights,
            kept_log_odds=log_odds,
            share=share,
        )

    def _slot(self, iteration: int) -> int | None:
        """Return where an iteration's draw is kept: the last of each of S equal stretches."""
        done = iteration - self.warmup + 1
        if done < 1 or iteration >= self.last:
            return None
        slot = -(-done * self.keep // self.draws) - 1
        return slot if done == self.draws * (slot + 1) // self.keep else None

    def elbo(self, q: GibbsGlobal, stats: GibbsStats) -> float:
        """Return the mean log likelihood of the chains' draws: a sampler has no bound."""
        return float(np.mean([s.log_likelihood for s in stats.chains]))

    def shown(self, at: Cursor) -> Step:
        """Call the run complete when all its planned draws are written down.

        The global step after an iteration writes what the iteration leaves, so a run takes
        one evaluation more than it has iterations.
        """
        return Step.at(at, at.q.iteration >= self.last)

    def diagnose(self, q: GibbsGlobal) -> tuple[list[str], Diagnosis]:
        """Compare the chains by those quantities in `TRACED` that move; return their names too."""
        done = q.trace[:, self.warmup : max(q.iteration, self.warmup)]
        moving = np.flatnonzero(np.ptp(done, axis=(0, 1)) > 0)
        return [TRACED[i] for i in moving], diagnose(done[:, :, moving])


def drawn_hyperparameters(model: GibbsIBP, q: GibbsGlobal) -> FloatArray:
    """Return the draws of alpha and of the weights' variance that count, [C, S, 2].

    S is 1 where both are held.
    """
    last = model.last if model.learn else model.warmup + 1
    return q.trace[:, model.warmup : last, [TRACED.index("alpha"), TRACED.index("weight_variance")]]


def score_rows(model: GibbsIBP, q: GibbsGlobal, batch: FeatureBatch, sweeps: int = 5) -> GibbsLocal:
    """Return what the fit's kept draws say about new rows, in a local state of the same form.

    Through each chain's kept draws in turn, features are drawn ``sweeps`` times a draw.
    """
    sign = batch.sign[batch.row_of]
    local = _empty(batch, model.chains, q.share.shape[1])
    rows, columns = missing_cells(batch)
    cells, chains = local.cells, []
    for c in range(model.chains):
        z, chance = local.chains[c].z.copy(), local.chains[c].chance.copy()
        for s in range(model.keep):
            weights, log_odds = q.kept_weights[c, s], q.kept_log_odds[c, s]
            for repeat in range(sweeps):
                keys = row_keys(batch.row_id, q.seed, s * sweeps + repeat, c, _NEW)
                now = draw_features(sign, weights, log_odds, z, keys)
            chance += now
            psi = weights[:, 0] + z[rows] @ weights[:, 1:].T
            cells = cells + category_probabilities(psi, batch.levels, columns)
        chains.append(ChainLocal(z, chance))
    return GibbsLocal(tuple(chains), cells)


def _empty(batch: FeatureBatch, chains: int, k: int) -> GibbsLocal:
    shape = (batch.n_rows, k)
    one = ChainLocal(np.zeros(shape, np.int8), np.zeros(shape))
    cells = np.zeros((len(missing_cells(batch)[0]), int(batch.levels.max())))
    return GibbsLocal((one,) * chains, cells)


def _traced(chain: Chain, sums: ChainStats) -> FloatArray:
    share = sums.on / max(sums.n_rows, 1.0)
    per_row = np.minimum(share, 1.0 - share).sum()
    in_use = float(np.sum((share > 0.01) & (share < 0.99)))
    return np.array([sums.log_likelihood, chain.alpha, chain.variance, per_row, in_use])
