"""How the members learn: beside one another in the same sweeps, first without the hidden cells.

Sweeps 0 to 99 learn from all cells but those that are hidden; sweep 100 asks every member for the
hidden ones; in the 80 sweeps after that the members go on with all cells, while the weights of
their mixture climb, by EM, to

    argmax_w sum_i log sum_m w_m p_m(x_i) + (a - 1) sum_m log w_m,   w on the simplex, a = 1.2

over the hidden cells i, one step a sweep; on six splits of three surveys they ended .0003 to .0013
nats a cell below that (stacking of predictive densities: Yao, Vehtari, Simpson and Gelman 2018).
The binary features and the traits are sampled (`draw_kernels`, `traits`), the
classes fitted (`classes`), and the shares of columns keep the others honest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.chains import Schedule
from vbmodels.core.stacking import moved_weights
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_features, draw_omega, row_keys
from vbmodels.features.ibp.chain import chain_sums, draw_chain, first_chain
from vbmodels.features.imputation.classes import class_counts, moved_classes, no_classes
from vbmodels.features.imputation.hidden_cells import MOST_ROWS, Learning, learning
from vbmodels.features.imputation.predict import in_pieces, said_of
from vbmodels.features.imputation.states import (
    MEMBERS,
    Completion,
    CompletionLocal,
    CompletionStats,
    KeptDraws,
    ToldStats,
)
from vbmodels.features.imputation.traits import draw_rows, draw_traits, first_traits
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable

SURE = 1e-12
"""Probabilities are held this far from 0."""
_Z, _CHAIN_OMEGA, _TRAIT_OMEGA, _U, _CLASSES = 33, 34, 35, 36, 37


@dataclass(frozen=True)
class Members:
    """The members, as they learn.

    Parameters
    ----------
    n_features, n_traits
        Binary features K and traits Q.
    bias_variance
        Prior variance of biases.
    judged, whole
        Sweeps without the hidden cells, and with all.
    """

    n_features: int = 12
    n_traits: int = 8
    bias_variance: float = 10.0
    judged: Schedule = field(default_factory=lambda: Schedule(60, 10, thin=4))
    whole: Schedule = field(default_factory=lambda: Schedule(20, 20, thin=3))

    def sweeps(self) -> int:
        """Return how many sweeps they take."""
        return self.judged.sweeps + 1 + self.whole.sweeps

    def done(self, q: Completion) -> bool:
        """Whether they have learned."""
        return q.step >= self.sweeps()

    def init(self, counts: UnitCounts, levels: IntArray, rng: np.random.Generator) -> Completion:
        """Start from the margins."""
        seed = int(rng.integers(2**62))
        k = bearable(self.n_features, counts.n_rows)
        chain = first_chain(counts.stop, counts.go_on, k, 1.0, 2.0, rng)
        traits = first_traits(counts.stop, counts.go_on, self.n_traits, rng)
        share = min(1.0, MOST_ROWS / max(counts.n_rows, 1.0))
        none = np.full(len(MEMBERS), 1.0 / len(MEMBERS))
        kept = _no_draws(self.judged.draws, len(counts.stop), k, self.n_traits)
        return Completion(
            0, seed, share, levels, chain, traits, no_classes(), kept, none, 0.0,
            np.zeros(len(MEMBERS)), 0.0,
        )  # fmt: skip

    def local_step(
        self, q: Completion, batch: FeatureBatch, local: CompletionLocal | None
    ) -> CompletionLocal:
        """Draw the rows that learn, or ask for the hidden cells, and sum."""
        none = CompletionStats(None, None, None, None)
        if self.done(q):
            return replace(_no_rows(q) if local is None else local, sums=none)
        judging = q.step == self.judged.sweeps
        rows = learning(batch, q.share, q.seed, hide=q.step <= self.judged.sweeps)
        before = _no_rows(q, len(rows.codes)) if local is None else local
        z, u, density, count = before.z.copy(), before.u, before.density, before.count
        if judging:
            density = self._density(q, rows)
            count = rows.count[rows.rows]
        told = _told(q.weights, density, count) if q.step >= self.judged.sweeps else None
        if judging:
            return CompletionLocal(z, u, density, count, replace(none, told=told))
        at = q.chain
        draw_features(rows.sign, at.weights, at.log_odds, z, self._keys(q, rows, _Z))
        keys = self._keys(q, rows, _CHAIN_OMEGA)

        def omega(psi: FloatArray, part: slice) -> FloatArray:
            return draw_omega(psi, rows.sign[part], keys[part])

        chain = chain_sums(at.weights, rows.sign, z, rows.count, omega)
        u, traits = draw_rows(
            q.traits.loadings, rows.sign, u, self._keys(q, rows, _TRAIT_OMEGA),
            self._keys(q, rows, _U), rows.count,
        )  # fmt: skip
        keys = self._keys(q, rows, _CLASSES)
        classes = class_counts(q.classes, rows.codes, rows.count, q.levels, keys)
        return CompletionLocal(z, u, density, count, CompletionStats(chain, traits, classes, told))

    def global_step(self, q: Completion, stats: CompletionStats) -> Completion:
        """Move the members, keep what is drawn, and weigh."""
        if self.done(q):
            return q
        if stats.told is not None:
            q = _weighed(q, stats.told)
        if stats.chain is None or stats.traits is None or stats.classes is None:
            units, size = q.traits.loadings.shape
            k = q.chain.weights.shape[1] - 1
            none = _no_draws(self.whole.draws, units, k, size - 1)
            return replace(q, step=q.step + 1, kept=none)
        rng = np.random.default_rng([q.seed, q.step])
        chain = draw_chain(q.chain, stats.chain, self.bias_variance, True, rng)
        traits = draw_traits(q.traits, stats.traits, self.bias_variance, rng)
        classes = moved_classes(stats.classes, q.levels)
        judged = q.step < self.judged.sweeps
        slot = (
            self.judged.slot(q.step) if judged else self.whole.slot(q.step - self.judged.sweeps - 1)
        )
        kept = q.kept
        if slot is not None:
            weights, odds, loadings = (
                kept.weights.copy(),
                kept.log_odds.copy(),
                kept.loadings.copy(),
            )
            weights[slot], odds[slot], loadings[slot] = (
                chain.weights,
                chain.log_odds,
                traits.loadings,
            )
            kept = KeptDraws(weights, odds, loadings)
        return replace(q, step=q.step + 1, chain=chain, traits=traits, classes=classes, kept=kept)

    def without_draws(self, q: Completion) -> Completion:
        """Return what partitions need: the draws only where they are judged by them."""
        if q.step == self.judged.sweeps:
            return q
        units, size = q.traits.loadings.shape
        return replace(q, kept=_no_draws(0, units, q.chain.weights.shape[1] - 1, size - 1))

    def _density(self, q: Completion, rows: Learning) -> FloatArray:
        asked, place = np.unique(rows.rows, return_inverse=True)
        found = np.zeros((len(rows.truth), len(MEMBERS)))
        for part, cells in in_pieces(place, len(asked), q):
            own = asked[part]
            said = said_of(
                q, rows.codes[own], rows.sign[own], place[cells] - part.start, rows.columns[cells]
            )
            found[cells] = said[:, np.arange(len(cells)), rows.truth[cells]].T
        return np.asarray(np.maximum(found, SURE))

    def _keys(self, q: Completion, rows: Learning, word: int) -> np.ndarray:
        return row_keys(rows.row_id, q.seed, q.step, word)


def _no_rows(q: Completion, rows: int = 0) -> CompletionLocal:
    z = np.zeros((rows, q.chain.weights.shape[1] - 1), np.int8)
    u = np.zeros((rows, q.traits.loadings.shape[1] - 1))
    none = CompletionStats(None, None, None, None)
    return CompletionLocal(z, u, np.zeros((0, len(MEMBERS))), np.zeros(0), none)


def _no_draws(draws: int, units: int, k: int, size: int) -> KeptDraws:
    return KeptDraws(
        np.zeros((draws, units, k + 1)), np.zeros((draws, k)), np.zeros((draws, units, size + 1))
    )


def _told(weights: FloatArray, density: FloatArray, count: FloatArray) -> ToldStats:
    """Sum what the members said of cells in rows that count so much, at the weights as they are."""
    joint = density * weights
    mixed, own = joint.sum(1), count[:, None]
    taken = (joint / mixed[:, None] * own).sum(0) if len(mixed) else np.zeros(len(weights))
    log_p = (np.log(density) * own).sum(0)
    return ToldStats(float(count.sum()), log_p, taken, float((np.log(mixed) * count).sum()))


def _weighed(q: Completion, told: ToldStats) -> Completion:
    """Move the weights by one step of EM; what was told stands at the weights before it."""
    weights = moved_weights(told.taken, told.cells)
    cells = max(told.cells, 1.0)
    return replace(
        q, weights=weights, hidden=told.cells, told=told.log_p / cells, mixture=told.mixture / cells
    )
