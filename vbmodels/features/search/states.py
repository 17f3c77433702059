"""States of the search: fits side by side, what partitions are sent, what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.features.ibp.chain import Chain, ChainStats
from vbmodels.features.ibp.model import FeatureGlobal, FeatureStats, PolyaGammaIBP
from vbmodels.features.posterior_draws import WeightDraws
from vbmodels.features.table import FeatureBatch

IDLE, HELD, NEWEST, ALL = -1, 0, 1, 1_000_000
"""How many features move in a fit's rows, from the last one on; an idle fit is not summed."""
NO_KEYS = np.zeros((0, 2), np.int64)


@dataclass(frozen=True)
class SearchOptions:
    """How features are searched for.

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


@dataclass(frozen=True)
class Edit(State, kind="features/search.Edit"):
    """How a fit's nu is made from that of another fit, the steps in this order.

    Parameters
    ----------
    source
        Place of the other fit among those of the sweep before.
    columns
        [K] which of the features stay, in their new order.
    flipped
        [K] which of those become their complements.
    born
        [2] start and feature in the pool that becomes the last one; (-1, -1) for none. The start
        after the pool's last is what `SearchLocal.residue` holds.
    """

    source: int
    columns: IntArray
    flipped: BoolArray
    born: IntArray


@dataclass(frozen=True)
class Drawn(State, kind="features/search.Drawn"):
    """A fit's first nu: means over draws of the rows at a chain's weights.

    Parameters
    ----------
    weights, log_odds
        [J, K + 1] and [K] of the chain.
    columns
        Which of its features the fit has.
    chain
        Its place among the chains.
    """

    weights: FloatArray
    log_odds: FloatArray
    columns: IntArray
    chain: int


@dataclass(frozen=True)
class Candidate(State, kind="features/search.Candidate"):
    """One fit by variational inference among those side by side.

    Parameters
    ----------
    q
        Its global parameters.
    labels
        [K] names of its features, by which the yardstick draws them.
    source
        How its nu is made at the next sweep; None where it is there.
    bound, calm
        Its bound at the last sweep, -inf before the first, and whether that hardly rose.
    value, error
        Its yardstick and Monte-Carlo error; -inf and 0 until it is measured, and once it moves.
    """

    q: FeatureGlobal
    labels: IntArray
    source: Edit | Drawn | None
    bound: float = -np.inf
    calm: bool = False
    value: float = -np.inf
    error: float = 0.0


@dataclass(frozen=True)
class History(State, kind="features/search.History"):
    """The moves that were accepted.

    Parameters
    ----------
    stages
        [M] stage of each, as text.
    sizes
        [M, 2] features before and after.
    gains
        [M] rise of the yardstick, in nats.
    tried
        Proposals that were measured.
    """

    stages: NDArray[np.str_]
    sizes: IntArray
    gains: FloatArray
    tried: int


NO_MOVES = History(np.zeros(0, "<U8"), np.zeros((0, 2), np.int64), np.zeros(0), 0)


@dataclass(frozen=True)
class SearchGlobal(State, kind="features/search.SearchGlobal"):
    """What a search knows between its sweeps, and what it leaves.

    Parameters
    ----------
    seed, attempt, slots
        Seed of all draws, how often chains began, features of the first chains.
    margin
        [2, J] answers that stop and go on.
    n_rows
        N.
    share, seen
        Share of the rows that is looked at, and how many these are; 0 before the first sweep of a
        sample.
    fit, place
        The best fit, None before there is one, and its place among those of the newest sweep.
    phase
        What the newest sweep was for, for those who look on.
    sweep
        Sweeps so far.
    starts
        [S] bounds of the starts when the best was chosen.
    pooled, n_pool
        Places of the fits that join the pool at the next sweep, and starts in the pool with them.
    aside
        Parameters of the starts in the pool while a sample is looked at: all rows get theirs.
    matches
        [K] starts in the pool that have each feature of the best fit, as of the last screen.
    failed
        [F, 2] start and feature of the births that this fit has refused.
    round, changed
        Rounds begun, and whether the last one changed anything.
    flipped
        Labels that were turned into complements; each is once.
    history
        Accepted moves.
    widened
        Whether all rows are looked at after a sample of them.
    probes
        How often residuals were looked at.
    redrawn
        Whether a chain from the best fit was refused, or brought little, since its last birth.
    wider
        Chains with free features that were refused since the last that was not.
    draws
        Draws of the weights from the posterior, with as many features as the best fit.
    """

    seed: int
    slots: int
    margin: FloatArray
    n_rows: float
    share: float
    seen: float
    attempt: int = 0
    fit: Candidate | None = None
    place: int = 0
    phase: str = ""
    sweep: int = 0
    starts: FloatArray = field(default_factory=lambda: np.zeros(0))
    pooled: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    n_pool: int = 0
    aside: tuple[FeatureGlobal, ...] = ()
    matches: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    failed: IntArray = field(default_factory=lambda: NO_KEYS)
    round: int = 0
    changed: bool = False
    flipped: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    history: History = field(default_factory=lambda: NO_MOVES)
    widened: bool = False
    probes: int = 0
    redrawn: bool = False
    wider: int = 0
    draws: WeightDraws = field(default_factory=WeightDraws.none)

    @property
    def best(self) -> Candidate:
        """The best fit, where there is one."""
        if self.fit is None:
            raise LookupError("the search has no fit yet: its chains are drawing")
        return self.fit

    @property
    def k(self) -> int:
        """Features of the best fit."""
        return len(self.best.labels)


@dataclass(frozen=True)
class Swept(State, kind="features/search.Swept"):
    """A fit in a sweep.

    Parameters
    ----------
    fit
        The fit.
    moves
        How many features move in its rows, from the last one on; see `IDLE`.
    measured
        Whether its likelihood is measured.
    """

    fit: Candidate
    moves: int
    measured: bool = False


@dataclass(frozen=True)
class SearchRequest(State, kind="features/search.SearchRequest"):
    """What one sweep computes on every partition.

    Parameters
    ----------
    seed, attempt, share
        As in `SearchGlobal`.
    fits
        The fits side by side.
    chains, iteration
        The chains that draw, and iterations before.
    from_fit
        Whether their rows start at the features of the first fit.
    posterior
        Share of the rows of which a chain draws from the posterior; 0 for chains that look for
        features, where omega is at its expectation.
    pooled
        Places of the fits of the sweep before that join the pool.
    drop
        Whether partitions forget the pool.
    everywhere, aside
        Whether rows that a sample left out get nu, and the parameters of the pool's fits for them.
    screen, moments
        Whether sums for a screen of the pool, and moments of residuals, are wanted.
    directions
        [C, J] ways along which rows are screened as a feature's.
    residue
        Whether starts along such ways are kept.
    """

    seed: int
    attempt: int
    share: float
    fits: tuple[Swept, ...]
    chains: tuple[Chain, ...] = ()
    iteration: int = 0
    from_fit: bool = False
    posterior: float = 0.0
    pooled: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    drop: bool = False
    everywhere: bool = False
    aside: tuple[FeatureGlobal, ...] = ()
    screen: bool = False
    moments: bool = False
    directions: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    residue: bool = False


@dataclass(frozen=True)
class SearchLocal(State, kind="features/search.SearchLocal"):
    """A partition's state.

    Parameters
    ----------
    chains
        z [N, K] of every chain.
    fits
        nu [U, K] of every fit.
    pool
        nu of the starts that were not chosen.
    sample
        The rows that are looked at, which all of these are of; None for all.
    residue
        [U, C] starts along the directions that residuals have, while they are tried.
    """

    chains: tuple[NDArray[np.int8], ...]
    fits: tuple[FloatArray, ...]
    pool: tuple[FloatArray, ...]
    sample: FeatureBatch | None = None
    residue: FloatArray | None = None


@dataclass(frozen=True)
class CandidateStats(Stats, kind="features/search.CandidateStats"):
    """Sums of one fit, its features' entropies [K], and its likelihood [S] where measured."""

    fit: FeatureStats
    entropy: FloatArray
    likelihood: FloatArray | None


@dataclass(frozen=True)
class PoolStats(Stats, kind="features/search.PoolStats"):
    """Sums of the features [C] of one start in the pool, with those of the best fit.

    Parameters
    ----------
    linear, quadratic
        [J, C] sum_n s_nj / 2 nu_nc and [J, C, K + 1] sum_n E[omega_nj] nu_nc z_n.
    on, square, entropy
        [C] sums of nu, of its square and of its entropy.
    cross
        [C, K + 1] sum_n nu_nc z_n.
    """

    linear: FloatArray
    quadratic: FloatArray
    on: FloatArray
    square: FloatArray
    entropy: FloatArray
    cross: FloatArray


@dataclass(frozen=True)
class ScreenStats(Stats, kind="features/search.ScreenStats"):
    """What a screen adds: ``square`` [K] sum of nu^2, and every start of the pool."""

    square: FloatArray
    pool: tuple[PoolStats, ...]


@dataclass(frozen=True)
class SearchStats(Stats, kind="features/search.SearchStats"):
    """Sums of a sweep; None for fits that were idle.

    ``residue`` [J (J + 1) / 2] are the packed second moments of residuals where wanted.
    """

    chains: tuple[ChainStats, ...]
    fits: tuple[CandidateStats | None, ...]
    screen: ScreenStats | None
    residue: FloatArray | None = None
