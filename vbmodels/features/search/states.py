"""States of the search: chains, fits side by side, what partitions are asked, what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.features.ibp.chain import Chain, ChainStats
from vbmodels.features.ibp.model import FeatureGlobal, FeatureStats
from vbmodels.features.table import FeatureBatch

CHAINS, START, TIDY, DELETE, REDRAW, REFIT, SCREEN, RELABEL, BIRTH, SWAP = (
    "chains", "start", "tidy", "delete", "redraw", "refit", "screen", "relabel", "birth", "swap",
)  # fmt: skip
WIDEN, RESIDUE, RARE, SETTLE = "widen", "residue", "rare", "settle"
"""Stages of a search, in the order of a round; `WIDEN` goes from a sample to all rows, and after
the rounds `RESIDUE` and `RARE` look for features in what long tables leave unexplained."""
TRIALS = (DELETE, REFIT, RELABEL, BIRTH, SWAP, RARE)
"""Stages in which proposals are tried."""
IDLE, HELD, NEWEST, ALL = range(4)
"""What moves in the rows: nothing and no sums; nothing; the last feature; every feature."""


@dataclass(frozen=True)
class Edit(State, kind="features/search.Edit"):
    """How a fit's nu is made from that of another fit, the steps in this order.

    Parameters
    ----------
    source
        Place of the other fit among those of the sweep before.
    pair, patterns
        [2] and [2]: features that are given new bits, and for each the patterns of the two that
        turn it on: 1 for 01, 2 for 10, 4 for 11, added up; (-1, -1) for none.
    columns
        [K] which of the features stay, in their new order.
    flipped
        [K] which of those become their complements.
    born
        [2] start and feature in the pool that becomes the last one; (-1, -1) for none. The start
        after the pool's last is what `SearchLocal.residue` holds.
    """

    source: int
    pair: IntArray
    patterns: IntArray
    columns: IntArray
    flipped: BoolArray
    born: IntArray


@dataclass(frozen=True)
class Lane(State, kind="features/search.Lane"):
    """One fit by variational inference among those side by side.

    Parameters
    ----------
    q
        Its global parameters.
    labels
        [K] names of its features: what they draw in the yardstick hangs on them.
    bound, calm
        Its bound at the last sweep, -inf before the first, and whether that hardly rose.
    value, error
        Its yardstick and Monte-Carlo error; -inf and 0 until it is judged, and once it moves.
    edit
        How its nu is made at the next sweep; None where it is there.
    """

    q: FeatureGlobal
    labels: IntArray
    bound: float
    calm: bool
    value: float
    error: float
    edit: Edit | None


@dataclass(frozen=True)
class ChainAt(State, kind="features/search.ChainAt"):
    """A chain, the mean of its last weights [J, K + 1] and log-odds [K], and features' rows [K]."""

    chain: Chain
    weights: FloatArray
    log_odds: FloatArray
    on: FloatArray


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
        Proposals that were judged.
    """

    stages: NDArray[np.str_]
    sizes: IntArray
    gains: FloatArray
    tried: int


@dataclass(frozen=True)
class SearchGlobal(State, kind="features/search.SearchGlobal"):
    """Where a search is.

    Parameters
    ----------
    stage, step
        The stage, and sweeps done in it.
    seed, attempt, slots
        Seed of all draws, how often the search began anew, features of its chains.
    margin
        [J] answers that stop and go on, [2, J].
    n_rows
        N.
    chains
        The chains, while they run and at the handover.
    lanes
        The fits side by side; the first is the best so far and all others are proposals, but in
        the stage `START`.
    modes
        [L] what moves in each fit's rows at this sweep.
    judged
        [L] whether this sweep measures the fit's likelihood.
    fresh
        [L] chain that gives the fit its first nu at this sweep; -1 for none.
    kept
        Columns of every chain that its fit has.
    pooled
        Places of the fits that join the pool at this sweep.
    drop
        Whether partitions forget the pool.
    starts
        [S] bounds of the starts when the best was chosen.
    waiting, waiting_keys
        Births that are tried when no new bits are accepted, and their keys.
    n_pool
        Starts in the pool.
    matches
        [K] starts in the pool that have each feature of the best fit, as of the last screen.
    keys, failed
        [P, 4] proposals that are tried, and [F, 4] those that this fit has refused: new bits as
        (first label, second label, patterns of the first, of the second), births as
        (-1, start, feature, 0).
    round, changed
        Rounds begun, and whether this one changed anything.
    flipped
        Labels that were turned into complements; each is once.
    reached
        [0 or 1] yardstick of the fit when it was last given new bits.
    history
        Accepted moves.
    sweep
        Global steps so far.
    share
        Share of the rows that are looked at.
    seen
        How many these are; 0 before the first sweep of a sample.
    aside
        Parameters of the starts in the pool while a sample is looked at: all rows get theirs.
    widened
        Whether all rows are looked at after a sample of them.
    probes
        How often residuals were looked at.
    directions
        [C, J] ways along which rows are tried as a feature's at this sweep.
    redrawn
        Whether a chain from the best fit was refused, or brought little, since that was last given
        new bits or births.
    extra
        Free features of the chain from the best fit.
    wider
        Chains with free features that were refused since the last that was not.
    """

    stage: str
    step: int
    seed: int
    attempt: int
    slots: int
    margin: FloatArray
    n_rows: float
    chains: tuple[ChainAt, ...]
    lanes: tuple[Lane, ...]
    modes: IntArray
    judged: BoolArray
    fresh: IntArray
    kept: tuple[IntArray, ...]
    pooled: IntArray
    drop: bool
    starts: FloatArray
    waiting: tuple[Lane, ...]
    waiting_keys: IntArray
    n_pool: int
    matches: IntArray
    keys: IntArray
    failed: IntArray
    round: int
    changed: bool
    flipped: IntArray
    reached: FloatArray
    history: History
    sweep: int
    share: float = 1.0
    seen: float = 0.0
    aside: tuple[FeatureGlobal, ...] = ()
    widened: bool = False
    probes: int = 0
    directions: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    redrawn: bool = False
    extra: int = 0
    wider: int = 0


@dataclass(frozen=True)
class SearchLocal(State, kind="features/search.SearchLocal"):
    """A partition's state.

    Parameters
    ----------
    chains
        z [N, K] of every chain.
    lanes
        nu [U, K] of every fit.
    pool
        nu of the starts that were not chosen.
    sample
        The rows that are looked at, which all of these are of; None for all.
    residue
        [U, C] starts along the directions that residuals have, while they are tried.
    """

    chains: tuple[NDArray[np.int8], ...]
    lanes: tuple[FloatArray, ...]
    pool: tuple[FloatArray, ...]
    sample: FeatureBatch | None = None
    residue: FloatArray | None = None


@dataclass(frozen=True)
class LaneStats(Stats, kind="features/search.LaneStats"):
    """Sums of one fit, its features' entropies [K], and its likelihood [S] where it is judged."""

    fit: FeatureStats
    entropy: FloatArray
    likelihood: FloatArray | None


@dataclass(frozen=True)
class PairStats(Stats, kind="features/search.PairStats"):
    """Sums over products of features, for new bits of every pair.

    Parameters
    ----------
    linear
        [J, P] sum_n s_nj / 2 nu_na nu_nb, pairs a < b.
    triples
        [J, T] sum_n E[omega_nj] nu_na nu_nb nu_nc, triples a < b < c.
    entropy
        [5, P] entropies of the bits that are no feature's own.
    on
        [P] sum_n nu_na nu_nb.
    """

    linear: FloatArray
    triples: FloatArray
    entropy: FloatArray
    on: FloatArray


@dataclass(frozen=True)
class PoolStats(Stats, kind="features/search.PoolStats"):
    """Sums of the features [C] of one start in the pool beside those of the best fit.

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
    """What a screen adds: ``square`` [K] sum of nu^2, pairs, and every start of the pool."""

    square: FloatArray
    pairs: PairStats | None
    pool: tuple[PoolStats, ...]


@dataclass(frozen=True)
class SearchStats(Stats, kind="features/search.SearchStats"):
    """Sums of a sweep; None for fits that were idle.

    ``residue`` [J (J + 1) / 2] are the packed second moments of residuals where asked for.
    """

    chains: tuple[ChainStats, ...]
    lanes: tuple[LaneStats | None, ...]
    screen: ScreenStats | None
    residue: FloatArray | None = None
