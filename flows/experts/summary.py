"""What one partition of rows adds to the experts report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.experts.encoding import Encoding
from flows.experts.weights import Curve
from flows.report.baselines import Baseline
from vbmodels.core.state import FloatArray
from vbmodels.experts.batch import Rows
from vbmodels.experts.posterior import Predicted

BINS = 10
DRAWS = 20
"""Draws of the posterior under which shares are summed up."""
_LEAST = 1e-12


@dataclass(frozen=True)
class ExpertSummary:
    """What one partition adds to the report.

    Attributes
    ----------
    responsible
        Rows for which each expert has the largest share; [K].
    share
        Sum of shares; [K].
    drawn
        The same under draws of the posterior, which are those of every partition; [draws, K].
    calibration
        Rows, sum of probabilities and of labels by bin of probability, over the rows kept
        from the fit; [3, BINS].
    judged
        Over the same rows: number, right ones, sum of log-loss, then the last two for
        logistic regression, and sum and sum of squares of the difference in log-loss; [7].
    baselines
        What simple forms get on these rows; told with the first partition.
    curves
        What the columns add in the additive part; told with the first partition.
    encoding
        What became of the columns and labels; told with the first partition.
    """

    rows: int
    responsible: FloatArray
    share: FloatArray
    drawn: FloatArray
    calibration: FloatArray
    judged: FloatArray
    columns: tuple[str, ...]
    has_baseline: bool
    baselines: tuple[Baseline, ...] = ()
    curves: tuple[Curve, ...] = ()
    encoding: Encoding | None = None


def summarise(
    batch: Rows,
    found: Predicted,
    drawn: FloatArray,
    baseline: FloatArray | None,
    columns: tuple[str, ...],
) -> ExpertSummary:
    """Summarise one partition."""
    best = np.argmax(found.responsibility, axis=0)
    kept = (batch.t != 0.0) & (batch.weight == 0.0)
    y, p = batch.t[kept] > 0, found.probability[kept]
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    calibration = np.array([np.bincount(bins, w, BINS) for w in (np.ones(len(p)), p, y)])
    judged = judge(batch, found.probability, baseline)
    return ExpertSummary(
        rows=batch.size,
        responsible=np.bincount(best, minlength=len(found.responsibility)).astype(float),
        share=found.responsibility.sum(1),
        drawn=drawn,
        calibration=calibration,
        judged=judged,
        columns=tuple(str(c) for c in columns),
        has_baseline=baseline is not None,
    )


def judge(batch: Rows, probability: FloatArray, baseline: FloatArray | None) -> FloatArray:
    """Return `ExpertSummary.judged` of the rows kept from the fit; [7]."""
    kept = (batch.t != 0.0) & (batch.weight == 0.0)
    y, p = batch.t[kept] > 0, probability[kept]
    loss = _loss(y, p)
    judged = np.zeros(7)
    judged[:3] = len(p), np.sum((p > 0.5) == y), loss.sum()
    if baseline is not None:
        other = _loss(y, baseline[kept])
        gap = loss - other
        judged[3:] = np.sum((baseline[kept] > 0.5) == y), other.sum(), gap.sum(), gap @ gap
    return judged


def _loss(y: Any, p: FloatArray) -> FloatArray:
    return -np.log(np.maximum(np.where(y, p, 1.0 - p), _LEAST))
