"""An exact sampler of the IBP for categorical tables by Polya-Gamma, to check other forms by.

The model is that of `polya_gamma`. One iteration of a chain:

    z_n | weights, pi       feature by feature, exactly, with omega summed out (partitions)
    omega_nj ~ PG(1, psi_nj)                                                  (partitions)
    weights of unit j ~ N(Lambda^-1 sum_n s_nj z_n, Lambda^-1)                (driver)
    where sticks broke, v, alpha | counts; variance | weights                 (driver)

so one reduce of the same sums as in variational inference moves it. Draws of a row depend on
(seed, iteration, chain, row number) alone: partitions, workers and resuming change none of
them; only the rounding of the sums differs with the partitioning.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import draw
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.draw_kernels import draw_features, draw_omega, row_keys
from vbmodels.features.ibp.chain import Chain, ChainStats, chain_sums, draw_chain, first_chain
from vbmodels.features.ibp.predict import category_probabilities, missing_cells
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable, unit_counts

_FEATURES, _OMEGA = 1, 2


@dataclass(frozen=True)
class GibbsGlobal(State):
    """C chains, iterations so far, and the seed of everything that is drawn."""

    chains: tuple[Chain, ...]
    iteration: int
    seed: int


@dataclass(frozen=True)
class ChainLocal(State):
    """A chain's features z [N, K]."""

    z: NDArray[np.int8]


@dataclass(frozen=True)
class GibbsLocal(State):
    """A partition's state."""

    chains: tuple[ChainLocal, ...]
    cells: FloatArray


@dataclass(frozen=True)
class GibbsStats(Stats):
    """Sums of all chains."""

    chains: tuple[ChainStats, ...]


@dataclass(frozen=True)
class GibbsIBP:
    """The sampler."""

    n_features: int
    alpha: float = 1.0
    weight_variance: float = 2.0
    bias_variance: float = 10.0
    learn: bool = True
    chains: int = 3
    warmup: int = 200
    draws: int = 200

    objective: ClassVar[str] = "log likelihood"

    def observe(self, batch: FeatureBatch) -> UnitCounts:
        """Count the answers to every unit."""
        return unit_counts(batch)

    def init(self, observed: UnitCounts, rng: np.random.Generator) -> GibbsGlobal:
        """Start every chain from weights around 0 and biases at the margins."""
        seed = int(rng.integers(2**62))
        k = bearable(self.n_features, observed.n_rows)
        chains = []
        for c in range(self.chains):
            own = np.random.default_rng([seed, c])
            chains.append(
                first_chain(observed.stop, observed.go_on, k, self.alpha, self.weight_variance, own)
            )
        return GibbsGlobal(tuple(chains), 0, seed)

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
            local = _empty(batch, self.chains, len(q.chains[0].v))
        keeping = self.warmup <= q.iteration < self.last
        rows, columns = missing_cells(batch)
        cells = local.cells.copy()
        moved = []
        for c, (chain, old) in enumerate(zip(q.chains, local.chains, strict=True)):
            z = old.z.copy()
            keys = row_keys(batch.row_id, q.seed, q.iteration, c, _FEATURES)
            draw_features(sign, chain.weights, chain.log_odds, z, keys)
            if keeping:
                psi = chain.weights[:, 0] + z[rows] @ chain.weights[:, 1:].T
                cells += category_probabilities(psi, batch.levels, columns)
            moved.append(ChainLocal(z))
        return GibbsLocal(tuple(moved), cells)

    def suff_stats(self, q: GibbsGlobal, batch: FeatureBatch, local: GibbsLocal) -> GibbsStats:
        """Draw omega and sum."""
        sign = batch.sign[batch.row_of]
        found = []
        for c, (chain, at) in enumerate(zip(q.chains, local.chains, strict=True)):
            keys = row_keys(batch.row_id, q.seed, q.iteration, c, _OMEGA)

            def omega(psi: FloatArray, rows: slice, keys: Any = keys) -> FloatArray:
                return draw_omega(psi, sign[rows], keys[rows])

            found.append(chain_sums(chain.weights, sign, at.z, batch.row_count, omega))
        return GibbsStats(tuple(found))

    def global_step(self, q: GibbsGlobal, stats: GibbsStats) -> GibbsGlobal:
        """Draw weights, sticks and hyperparameters of every chain."""
        chains = []
        for c, (chain, sums) in enumerate(zip(q.chains, stats.chains, strict=True)):
            rng = np.random.default_rng([q.seed, c, q.iteration + 1])
            chains.append(draw_chain(chain, sums, self.bias_variance, self.learn, rng))
        return GibbsGlobal(tuple(chains), q.iteration + 1, q.seed)

    def elbo(self, q: GibbsGlobal, stats: GibbsStats) -> float:
        """Return the mean log likelihood of the chains' draws: a sampler has no bound."""
        return float(np.mean([s.log_likelihood for s in stats.chains]))

    def algorithm(self, q: GibbsGlobal) -> Algorithm:
        """Sweep until all planned draws have been made."""
        return draw(self, q, lambda q: q.iteration >= self.last)


def _empty(batch: FeatureBatch, chains: int, k: int) -> GibbsLocal:
    shape = (batch.n_rows, k)
    one = ChainLocal(np.zeros(shape, np.int8))
    cells = np.zeros((len(missing_cells(batch)[0]), int(batch.levels.max())))
    return GibbsLocal((one,) * chains, cells)
