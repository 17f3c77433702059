"""States of the models that fill missing cells: what they learned, their rows, their sums.

Which rows learn to fill missing cells, and which of their cells are hidden to weigh the members by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.ibp.chain import Chain, ChainStats
from vbmodels.features.imputation.latent import ClassCounts, Classes, Traits, TraitStats
from vbmodels.features.table import MISSING, FeatureBatch, signs_of

MOST_ROWS = 20_000
"""Rows that learn, about: what more of them would add is less than what the models differ by."""
HIDDEN = 0.08
"""Share of the cells that are hidden while the members learn for the first time."""
_TAKEN, _HIDDEN = 31, 32


@dataclass(frozen=True)
class Learning:
    """The rows of a partition that learn, each for itself.

    Parameters
    ----------
    codes
        [N, D] categories, -1 where missing or hidden.
    sign
        [N, J] answers.
    row_id
        [N] numbers of the rows in the whole table.
    count
        [N] rows that each row counts for.
    rows, columns, truth
        [H] places of the hidden cells among these rows, and their categories.
    """

    codes: NDArray[np.int16]
    sign: NDArray[np.int8]
    row_id: IntArray
    count: FloatArray
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    truth: NDArray[np.int16]


def learning(batch: FeatureBatch, share: float, seed: int, hide: bool) -> Learning:
    """Return the rows of a partition that learn; the choice depends on row numbers alone.

    Parameters
    ----------
    batch
        The partition.
    share
        Share of the rows that learn.
    seed
        Of what is chosen.
    hide
        Whether cells are hidden.
    """
    lot: FloatArray = draw_uniform(row_keys(batch.row_id, seed, _TAKEN), 1)[:, 0]
    taken = np.flatnonzero(lot < share)
    codes, row_id = batch.codes[batch.row_of[taken]], batch.row_id[taken]
    hidden: BoolArray = np.zeros(codes.shape, bool)
    if hide:
        lots = draw_uniform(row_keys(row_id, seed, _HIDDEN), codes.shape[1])
        hidden = (lots < HIDDEN) & (codes != MISSING)
    rows, columns = np.nonzero(hidden)
    truth = codes[rows, columns]
    codes = np.where(hidden, np.int16(MISSING), codes)
    sign = signs_of(codes, batch.levels)
    return Learning(codes, sign, row_id, batch.row_count[taken], rows, columns, truth)


MEMBERS = ("binary features", "continuous traits", "few classes", "many classes", "shares")
"""The models, in the order of their weights."""


@dataclass(frozen=True)
class KeptDraws(State, kind="features/imputation.KeptDraws"):
    """Draws by which rows are filled.

    Parameters
    ----------
    weights, log_odds
        [S, J, K + 1] and [S, K] of the binary features.
    loadings
        [S, J, Q + 1] of the traits.
    """

    weights: FloatArray
    log_odds: FloatArray
    loadings: FloatArray


@dataclass(frozen=True)
class Completion(State, kind="features/imputation.Completion"):
    """The members and their weights.

    Parameters
    ----------
    step
        Sweeps so far.
    seed, share
        Seed of all draws, and share of the rows that learn.
    levels
        [D] categories of each column.
    chain, traits, classes
        The members; the shares of columns follow from the classes.
    kept
        Draws of the present phase.
    weights
        [M] weights of `MEMBERS`.
    hidden
        Cells that were hidden from them.
    log_p, mixture
        Mean log probability that each member [M] gave those, and that of their mixture.
    """

    step: int
    seed: int
    share: float
    levels: IntArray
    chain: Chain
    traits: Traits
    classes: Classes
    kept: KeptDraws
    weights: FloatArray
    hidden: float
    log_p: FloatArray
    mixture: float


@dataclass(frozen=True)
class HiddenCellStats(Stats, kind="features/imputation.HiddenCellStats"):
    """What members predict of hidden cells.

    Parameters
    ----------
    cells
        How many.
    log_p
        [M] sums of the members' log probabilities.
    taken
        [M] sums of each member's responsibility at the present weights.
    mixture
        Sum of the mixture's log probability.
    """

    cells: float
    log_p: FloatArray
    taken: FloatArray
    mixture: float


@dataclass(frozen=True)
class CompletionStats(Stats, kind="features/imputation.CompletionStats"):
    """Sums of a sweep; members' sums are None where they are scored, ``hidden`` before that."""

    chain: ChainStats | None
    traits: TraitStats | None
    classes: ClassCounts | None
    hidden: HiddenCellStats | None


@dataclass(frozen=True)
class CompletionLocal(State, kind="features/imputation.CompletionLocal"):
    """A partition's rows that learn.

    Parameters
    ----------
    z, u
        [N, K] binary features and [N, Q] traits.
    density
        [H, M] probability that each member gave each hidden cell; [0, M] before they are scored.
    count
        [H] rows that the row of each hidden cell counts for.
    sums
        The sums of this sweep, which the draws of the same rows make.
    """

    z: NDArray[np.int8]
    u: FloatArray
    density: FloatArray
    count: FloatArray
    sums: CompletionStats
