"""How much of the predictions is a Gaussian process's, by rows that no member has been fitted to.

P_w = (1 - w) P_additive + w P_process, the first with the mixtures that were chosen beside it. On
the rows of every part that is held out, both by their fits without it, a partition returns
sum_n v_n log P_w(t_n) for each w of `WEIGHTS`; the w of the largest sum is taken (stacking by log
score, Yao et al. 2018), and none where that is not a nat better than going without. What columns
tell by themselves, which the process sees them by, is taken from parts that are never held out;
where rows are few and all parts are, those labels make the process look a little better than it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_expit, logsumexp

from vbmodels.core.state import FloatArray, IntArray, Stats
from vbmodels.experts.additive.states import Mixtures, Progress
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.rows import FOLDS

WEIGHTS = np.linspace(0.0, 0.95, 20)
"""What curves and experts explain keeps a share."""
WORTH = 1.0
"""Nats that a Gaussian process must bring over all held-out rows."""


def held_out_sums(q: Mixtures, batch: CodedRows, fold: IntArray) -> FloatArray:
    """Return the log-likelihood of a partition's held-out rows at each of `WEIGHTS`.

    Parameters
    ----------
    q
        With the points of the chosen mixtures, if any, and all parts.
    batch
        The partition.
    fold
        The part of every row; [N].
    """
    total = np.zeros(WEIGHTS.size)
    with np.errstate(divide="ignore"):
        log_shares = np.log([1.0 - WEIGHTS, WEIGHTS])[:, :, None]
    processes = {part.fold: part for part in q.processes if part.fold >= 0}
    for base in q.bases:
        if base.fold < 0:
            continue
        held = batch.rows.used * (fold == base.fold)
        offset = batch.offset(base.coefficients, base.terms)
        points = [p for p in q.points if p.candidate.fold == base.fold]
        if points:
            found = [p.likelihood(batch.mixing, fold, q.draws, offset)[0] for p in points]
            own = logsumexp(found, axis=0) - np.log(len(found))
        else:
            own = log_expit(batch.t * offset)
        other = log_expit(batch.t * processes[base.fold].project(batch))
        both = np.stack([np.asarray(own), np.asarray(other)])[:, None, :]
        total += np.asarray(logsumexp(log_shares + both, axis=0)) @ held
    return total


@dataclass(frozen=True)
class HeldOut(Stats, kind="experts/additive.HeldOut"):
    """Log-likelihoods of held-out rows at each of `WEIGHTS`, [W]."""

    log_p: FloatArray


def weighted(q: Progress, sums: FloatArray) -> Progress:
    """Take the weight of the largest sum over all partitions."""
    assert q.additive is not None
    best = int(np.argmax(sums))
    gain = float(sums[best] - sums[0])
    if gain < WORTH:
        return q
    held = q.observed.weight.sum() * len({p.fold for p in q.processes if p.fold >= 0}) / FOLDS
    additive = replace(q.additive, weight=float(WEIGHTS[best]), process_gain=gain / float(held))
    return replace(q, additive=additive)
