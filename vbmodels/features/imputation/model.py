"""The search for features with, in the same sweeps, the members that fill cells.

The members learn side by side in the same sweeps, first without the hidden cells.

Sweeps 0 to 99 learn from all cells but those that are hidden; sweep 100 scores every member on the
hidden ones; in the 80 sweeps after that the members go on with all cells, while the weights of
their mixture climb, by EM, to

    argmax_w sum_i log sum_m w_m p_m(x_i) + (a - 1) sum_m log w_m,   w on the simplex, a = 1.2

over the hidden cells i, one step a sweep; on six splits of three surveys they ended .0003 to .0013
nats a cell below that (stacking of predictive densities: Yao, Vehtari, Simpson and Gelman 2018).
The binary features and the traits are sampled (`draw_kernels`, `latent`), the
classes fitted, and the shares of columns keep the others honest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.algorithm import Algorithm, Phase, Save, Show, Sweep
from vbmodels.core.draws import Schedule
from vbmodels.core.optimise import moved_weights
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.features.draw_kernels import draw_features, draw_omega, row_keys
from vbmodels.features.ibp.chain import chain_sums, draw_chain, first_chain
from vbmodels.features.imputation.latent import (
    Classes,
    class_counts,
    draw_rows,
    draw_traits,
    first_traits,
    moved_classes,
)
from vbmodels.features.imputation.predict import in_pieces, said_of
from vbmodels.features.imputation.states import (
    MEMBERS,
    MOST_ROWS,
    Completion,
    CompletionLocal,
    CompletionStats,
    HiddenCellStats,
    KeptDraws,
    Learning,
    learning,
)
from vbmodels.features.search.fit import progress, search
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.states import SearchGlobal, SearchLocal, SearchRequest, SearchStats
from vbmodels.features.table import MISSING, FeatureBatch, UnitCounts, bearable

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
    held_out, whole
        Sweeps without the hidden cells, and with all.
    """

    n_features: int = 12
    n_traits: int = 8
    bias_variance: float = 10.0
    held_out: Schedule = field(default_factory=lambda: Schedule(60, 10, thin=4))
    whole: Schedule = field(default_factory=lambda: Schedule(20, 20, thin=3))

    def sweeps(self) -> int:
        """Return how many sweeps they take."""
        return self.held_out.sweeps + 1 + self.whole.sweeps

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
        kept = _no_draws(self.held_out.draws, len(counts.stop), k, self.n_traits)
        return Completion(
            0,
            seed,
            share,
            levels,
            chain,
            traits,
            Classes(np.zeros(0), np.zeros((0, 0))),
            kept,
            none,
            0.0,
            np.zeros(len(MEMBERS)),
            0.0,
        )

    def local_step(
        self, q: Completion, batch: FeatureBatch, local: CompletionLocal | None
    ) -> CompletionLocal:
        """Draw the rows that learn, or predict the hidden cells, and sum."""
        none = CompletionStats(None, None, None, None)
        if self.done(q):
            return replace(_no_rows(q) if local is None else local, sums=none)
        scoring = q.step == self.held_out.sweeps
        rows = learning(batch, q.share, q.seed, hide=q.step <= self.held_out.sweeps)
        before = _no_rows(q, len(rows.codes)) if local is None else local
        z, u, density, count = before.z.copy(), before.u, before.density, before.count
        if scoring:
            density = self._density(q, rows)
            count = rows.count[rows.rows]
        hidden = (
            _score_members(q.weights, density, count) if q.step >= self.held_out.sweeps else None
        )
        if scoring:
            return CompletionLocal(z, u, density, count, replace(none, hidden=hidden))
        at = q.chain
        draw_features(rows.sign, at.weights, at.log_odds, z, self._keys(q, rows, _Z))
        keys = self._keys(q, rows, _CHAIN_OMEGA)

        def omega(psi: FloatArray, part: slice) -> FloatArray:
            return draw_omega(psi, rows.sign[part], keys[part])

        chain = chain_sums(at.weights, rows.sign, z, rows.count, omega)
        u, traits = draw_rows(
            q.traits.loadings,
            rows.sign,
            u,
            self._keys(q, rows, _TRAIT_OMEGA),
            self._keys(q, rows, _U),
            rows.count,
        )
        keys = self._keys(q, rows, _CLASSES)
        classes = class_counts(q.classes, rows.codes, rows.count, q.levels, keys)
        return CompletionLocal(
            z, u, density, count, CompletionStats(chain, traits, classes, hidden)
        )

    def global_step(self, q: Completion, stats: CompletionStats) -> Completion:
        """Move the members, keep what is drawn, and weigh."""
        if self.done(q):
            return q
        if stats.hidden is not None:
            q = _weighed(q, stats.hidden)
        if stats.chain is None or stats.traits is None or stats.classes is None:
            units, size = q.traits.loadings.shape
            k = q.chain.weights.shape[1] - 1
            none = _no_draws(self.whole.draws, units, k, size - 1)
            return replace(q, step=q.step + 1, kept=none)
        rng = np.random.default_rng([q.seed, q.step])
        chain = draw_chain(q.chain, stats.chain, self.bias_variance, True, rng)
        traits = draw_traits(q.traits, stats.traits, self.bias_variance, rng)
        classes = moved_classes(stats.classes, q.levels)
        first = q.step < self.held_out.sweeps
        slot = (
            self.held_out.slot(q.step)
            if first
            else self.whole.slot(q.step - self.held_out.sweeps - 1)
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
        """Return what partitions need: the draws only where they are scored by them."""
        if q.step == self.held_out.sweeps:
            return q
        units, size = q.traits.loadings.shape
        return replace(q, kept=_no_draws(0, units, q.chain.weights.shape[1] - 1, size - 1))

    def _density(self, q: Completion, rows: Learning) -> FloatArray:
        needed, place = np.unique(rows.rows, return_inverse=True)
        found = np.zeros((len(rows.truth), len(MEMBERS)))
        for part, cells in in_pieces(place, len(needed), q):
            own = needed[part]
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


def _score_members(weights: FloatArray, density: FloatArray, count: FloatArray) -> HiddenCellStats:
    """Sum what the members predict of cells in rows with these counts, at the present weights."""
    joint = density * weights
    mixed, own = joint.sum(1), count[:, None]
    taken = (joint / mixed[:, None] * own).sum(0) if len(mixed) else np.zeros(len(weights))
    log_p = (np.log(density) * own).sum(0)
    return HiddenCellStats(float(count.sum()), log_p, taken, float((np.log(mixed) * count).sum()))


def _weighed(q: Completion, hidden: HiddenCellStats) -> Completion:
    """Move the weights by one step of EM; log_p and mixture are at the weights before it."""
    weights = moved_weights(hidden.taken, hidden.cells)
    cells = max(hidden.cells, 1.0)
    return replace(
        q,
        weights=weights,
        hidden=hidden.cells,
        log_p=hidden.log_p / cells,
        mixture=hidden.mixture / cells,
    )


@dataclass(frozen=True)
class SeenCells(Stats, kind="features/imputation.SeenCells"):
    """The answers, the missing cells, and the categories of the columns.

    Parameters
    ----------
    units
        Rows and answers.
    missing
        Missing cells.
    parts, levels
        Partitions, and [D] the sum over them of the columns' categories.
    """

    units: UnitCounts
    missing: float
    parts: float
    levels: np.ndarray


@dataclass(frozen=True)
class CompletedGlobal(State, kind="features/imputation.CompletedGlobal"):
    """The search, and the members; None where no cell is missing."""

    search: SearchGlobal
    completion: Completion | None


@dataclass(frozen=True)
class CompletedRequest(State, kind="features/imputation.CompletedRequest"):
    """What a sweep computes of both."""

    search: SearchRequest
    completion: Completion | None


@dataclass(frozen=True)
class CompletedLocal(State, kind="features/imputation.CompletedLocal"):
    """A partition's states of both."""

    search: SearchLocal
    completion: CompletionLocal | None


@dataclass(frozen=True)
class CompletedStats(Stats, kind="features/imputation.CompletedStats"):
    """Sums of both."""

    search: SearchStats
    completion: CompletionStats | None


@dataclass(frozen=True)
class CompletedIBP:
    """Searches for features and, where cells are missing, learns to fill them.

    The search and its bound are as they would be alone; the members take the sweeps that it makes.

    Parameters
    ----------
    search
        The search.
    members
        The models that fill cells.
    """

    search: SearchIBP
    members: Members = field(default_factory=Members)

    def observe(self, batch: FeatureBatch) -> SeenCells:
        """Count answers and missing cells."""
        missing = float(batch.count @ (batch.codes == MISSING).sum(1))
        return SeenCells(self.search.observe(batch), missing, 1.0, batch.levels.astype(np.float64))

    def init(self, observed: SeenCells, rng: np.random.Generator) -> CompletedGlobal:
        """Start both."""
        search = self.search.init(observed.units, rng)
        if not observed.missing:
            return CompletedGlobal(search, None)
        levels = np.round(observed.levels / observed.parts).astype(np.int64)
        return CompletedGlobal(search, self.members.init(observed.units, levels, rng))

    def local_step(
        self, q: CompletedRequest, batch: FeatureBatch, local: CompletedLocal | None
    ) -> CompletedLocal:
        """Do both local steps."""
        search = self.search.local_step(q.search, batch, None if local is None else local.search)
        if q.completion is None:
            return CompletedLocal(search, None)
        before = None if local is None else local.completion
        return CompletedLocal(search, self.members.local_step(q.completion, batch, before))

    def suff_stats(
        self, q: CompletedRequest, batch: FeatureBatch, local: CompletedLocal
    ) -> CompletedStats:
        """Return the sums of both."""
        completion = None if local.completion is None else local.completion.sums
        return CompletedStats(self.search.suff_stats(q.search, batch, local.search), completion)

    def algorithm(self, q: CompletedGlobal) -> Algorithm:
        """Search; what ends the search ends the fit once the members have learned."""
        return _InSweeps(self, q.completion).fit(q.search)

    def objective(self, q: CompletedGlobal) -> str:
        """Return what `elbo` is: there is no bound while the first chains draw."""
        return "bound" if q.search.fit is not None else "log likelihood of the chains"

    def progress(self, q: CompletedGlobal) -> tuple[str, float | None]:
        """Return the phase of the search, and about how many sweeps both need."""
        phase, left = progress(q.search)
        if self.filling(q):
            assert q.completion is not None
            left = max(left or 0.0, float(self.members.sweeps() - q.completion.step))
        return phase, left

    def filling(self, q: CompletedGlobal) -> bool:
        """Whether the members are still learning."""
        return q.completion is not None and not self.members.done(q.completion)


class _InSweeps:
    """The members in the sweeps of a search: where they are, and where the next sweep finds them.

    A search is replayed from its last `Save`, so each `Save` and each `Phase` has them, too.
    """

    def __init__(self, model: CompletedIBP, completion: Completion | None) -> None:
        self.model, self.now, self.next = model, completion, completion

    @property
    def goes_on(self) -> bool:
        """Whether the members were still learning in the newest sweep."""
        return self.now is not None and not self.model.members.done(self.now)

    def fit(self, q: SearchGlobal) -> Algorithm:
        """Run the search."""
        found, _ = yield from self.with_members(search(self.model.search, q, lambda: self.goes_on))
        return CompletedGlobal(found, self.now)

    def with_members(self, algorithm: Algorithm) -> Algorithm:
        """Run a part of the search; return what it does and the members."""
        answer, members = None, self.model.members
        while True:
            try:
                request = algorithm.send(answer)
            except StopIteration as end:
                return end.value, self.next
            if isinstance(request, Sweep):
                self.now = self.next
                sent = None if self.now is None else members.without_draws(self.now)
                stats = yield Sweep(CompletedRequest(request.q, sent))
                if self.now is not None and stats.completion is not None:
                    self.next = members.global_step(self.now, stats.completion)
                answer = stats.search
            elif isinstance(request, Show):
                q, by_trace = CompletedGlobal(request.q, self.now), request.by_trace
                answer = yield replace(request, q=q, by_trace=by_trace and not self.goes_on)
            elif isinstance(request, Save):
                answer, self.next = yield Save((request.value, self.next))
            elif isinstance(request, Phase):
                part = self.with_members(request.algorithm)
                answer, self.next = yield replace(request, algorithm=part)
            else:
                raise TypeError(f"a search does not request {request!r}")
