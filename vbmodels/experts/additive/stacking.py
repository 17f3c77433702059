"""How much each member of the predictions weighs, by rows that no member has been fitted to.

The members are the additive part with the mixtures that were chosen, if any, the additive part with
pairs, and the Gaussian process: P_w = w_0 P_own + w_1 P_pairs + w_2 P_process. On the rows of every
part that is held out, each by its fit without it, a partition returns sum_n v_n log P_w(t_n) for
each w of `WEIGHTS`; the w of the largest sum is taken (stacking by log score, Yao et al. 2018), and
a member goes that is not worth a nat or two. Fits without a part have chosen their blocks so, too.
A missing number counts as its column's mean and leaves the log odds as unsure as what the column
adds varies over rows, v: f becomes f / (1 + pi s v / 8)^(1/2), s the share of `SHARES` at which the
additive part without a part of the rows predicts it best; 0 where the fit has gaps and nothing is
held out, 1 where only new rows have gaps.
The relevance of single columns, by which the process sees them, is taken from parts that are never
held out; where rows are few and all parts are, those labels make it look a little better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_expit, logsumexp

from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.candidate import likelihood
from vbmodels.experts.additive.posterior import Part, shrinkage
from vbmodels.experts.additive.states import AdditiveState, Mixtures
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.step_rows import CodedRows

_STEPS = 20
WEIGHTS = np.array(
    [(_STEPS - i - j, i, j) for i in range(_STEPS + 1) for j in range(min(_STEPS, _STEPS - i + 1))]
) / float(_STEPS)
"""Of the additive part, of pairs and of the process, [W, 3]; what columns say by themselves or in
pairs keeps a share."""
SHARES = np.linspace(0.0, 3.0, 13)
"""Of the variance of what a column adds: less where others say what is missing, more where
coefficients are smaller than the truth's."""
APART = 0.03
"""Nats that a share costs, times the square of how far it is from 1."""
WORTH = (2.0, 1.0)
"""Nats that pairs and the process must bring over all held-out rows: pairs were chosen of many."""
_CHUNK = 2048
_LEAST = 1e-300


@dataclass(frozen=True)
class HeldOut(Stats, kind="experts/additive.HeldOut"):
    """Log-likelihoods of held-out rows at each of `WEIGHTS`, [W], or of `SHARES`, [S]."""

    log_p: FloatArray


@dataclass(frozen=True)
class Members(State, kind="experts/additive.Members"):
    """The members to weigh: mixtures that were chosen, if any, and parts; see `AdditiveState`."""

    mixtures: Mixtures
    processes: tuple[Part, ...]
    paired: tuple[Part, ...]

    def sums(self, batch: CodedRows) -> HeldOut:
        """Return the log-likelihood of a partition's held-out rows at each of `WEIGHTS`."""
        fold = batch.rows.fold(FOLDS)
        total = np.zeros(len(WEIGHTS))
        processes = {part.fold: part for part in self.processes}
        paired = {part.fold: part for part in self.paired}
        for base in self.mixtures.bases:
            if base.fold < 0 or (paired and base.fold not in paired):
                continue
            held = batch.rows.used * (fold == base.fold)
            offset = batch.offset(base.coefficients, base.terms)
            points = [p for p in self.mixtures.points if p.candidate.fold == base.fold]
            if points:
                draws = self.mixtures.draws
                found = [likelihood([p], batch.mixing, held, draws, offset)[0] for p in points]
                own = np.asarray(logsumexp(found, axis=(0, 1)) - np.log(len(found)))
            else:
                own = np.asarray(log_expit(batch.t * offset))
            # A member that there is not predicts as the first does, and so is worth nothing.
            others = (
                log_expit(batch.t * part.project(batch)) if part is not None else own
                for part in (paired.get(base.fold), processes.get(base.fold))
            )
            total += _log_scores(np.stack([own, *others]), held)
        return HeldOut(total)


@dataclass(frozen=True)
class Gapped(State, kind="experts/additive.Gapped"):
    """The additive part without each held-out part, and the variance of what columns add; [D]."""

    parts: tuple[Part, ...]
    variance: FloatArray

    def sums(self, batch: CodedRows) -> HeldOut:
        """Return the log-likelihood of a partition's held-out rows at each of `SHARES`."""
        total = np.zeros(SHARES.size) if self.parts else -SHARES  # which prefers 0
        variance = batch.missing @ self.variance
        factor = shrinkage(np.outer(SHARES, variance))
        for part in self.parts:
            held = batch.rows.used * (batch.rows.fold(FOLDS) == part.fold)
            total += log_expit(factor * batch.t * part.project(batch)) @ held
        return HeldOut(total)


def known_gaps(q: AdditiveState, sums: FloatArray) -> AdditiveState:
    """Take the share of what columns add that gaps leave unknown; 1 where no row says more."""
    return replace(q, gaps=SHARES[np.argmax(sums - APART * (SHARES - 1.0) ** 2)] * q.gaps)


def _log_scores(log_p: FloatArray, held: FloatArray) -> FloatArray:
    """Return the sum over rows of held_n log sum_m w_m p_mn at each of `WEIGHTS`; [W]."""
    total = np.zeros(len(WEIGHTS))
    rows = np.flatnonzero(held > 0.0)
    for first in range(0, rows.size, _CHUNK):
        some = rows[first : first + _CHUNK]
        top = log_p[:, some].max(0)
        mixed = WEIGHTS @ np.exp(log_p[:, some] - top)
        total += (np.log(np.maximum(mixed, _LEAST)) + top) @ held[some]
    return total


def weighted(q: AdditiveState, sums: FloatArray) -> AdditiveState:
    """Take the weights of the largest sum over all partitions."""
    assert q.additive is not None
    allowed = np.ones(len(WEIGHTS), bool)
    for member, worth in enumerate(WORTH, 1):
        without = allowed & (WEIGHTS[:, member] == 0.0)
        if sums[allowed].max() - sums[without].max() < worth:
            allowed = without
    best = int(np.argmax(np.where(allowed, sums, -np.inf)))
    _, pairs, process = WEIGHTS[best].tolist()
    return replace(q, additive=replace(q.additive, weight=process, pairs_weight=pairs))
