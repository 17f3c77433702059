"""Whether positive numbers are fitted on the log: by the density of held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.experts.input.design import Design
from flows.experts.input.encoding import Encoding, Target
from flows.experts.input.units import RowUnits
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.experts.additive.knots import RowSample
from vbmodels.experts.columns import FURTHEST, encoded, scaled
from vbmodels.experts.rows import FOLDS, part_of

LEAST_GAIN, LEAST_ROWS = 0.02, 40
"""Nats a row by which the log must predict better, and rows from which on that is looked at."""


def logged(target: Target, label: FloatArray) -> Target:
    """Return the target on the log, with the mean and sd of the logarithms of fitted labels."""
    logs = np.log(np.sort(label))
    return target.model_copy(
        update={"logged": True, "log_mean": float(logs.mean()), "log_sd": float(logs.std())}
    )


def logged_where_better(
    target: Target,
    sample: RowSample,
    columns: Sequence[int],
    encoding: Encoding,
    design: Design,
    units: RowUnits,
) -> Target:
    """Return the target, on the log where a sample of the fitted rows is predicted better by that.

    ``columns`` are those of the sample that ``encoding`` is of.
    """
    cells, first = np.unique(units.cells, return_index=True)
    if not cells.size or units.label.min() <= 0.0:
        return target
    at = np.minimum(np.searchsorted(cells, sample.group), cells.size - 1)
    known = cells[at] == sample.group
    x = encoded(np.take(sample.x[known], columns, axis=1), encoding.columns)
    x = np.clip(scaled(x, design.centre, design.scale), -FURTHEST, FURTHEST)
    y, group = units.label[first[at[known]]], units.units.number_of(sample.group[known])
    return logged(target, units.label) if predicts_better(x, y, group) else target


def predicts_better(x: FloatArray, y: FloatArray, group: IntArray) -> bool:
    """Say whether positive numbers y [n] are predicted better on the log, from rows x [n, D].

    The predictions are those of ridge regressions on the columns and their squares, fitted without
    the rows that they are for; rows of one ``group`` [n] are left out together.
    """
    if y.size < LEAST_ROWS or y.min() <= 0.0 or y.min() == y.max():
        return False
    design = np.column_stack([x, x**2, np.ones(y.size)])
    fold, logs = part_of(group, FOLDS), np.log(y)
    gain = np.full(y.size, np.nan)
    for one in range(FOLDS):
        held = fold == one
        if held.any() and 2 * np.count_nonzero(~held) > y.size:
            gain[held] = _log_density(design, logs, held) - _log_density(design, y, held)
            gain[held] -= logs[held]
    gain = gain[~np.isnan(gain)]
    error = gain.std() / np.sqrt(max(gain.size, 1))
    return bool(gain.size and gain.mean() > max(LEAST_GAIN, 2.0 * error))


def _log_density(design: FloatArray, y: FloatArray, held: BoolArray) -> FloatArray:
    """Return the log density of held-out rows [m] under a ridge regression on the others."""
    centre, sd = y[~held].mean(), y[~held].std()
    z, x = (y - centre) / sd, design[~held]
    penalised = x.T @ x + np.eye(x.shape[1])
    weights = np.linalg.solve(penalised, x.T @ z[~held])
    used = float(np.trace(np.linalg.solve(penalised, x.T @ x)))
    noise = float(np.sum((z[~held] - x @ weights) ** 2)) / max(len(x) - used, 1.0)
    away = z[held] - design[held] @ weights
    return np.asarray(-0.5 * away**2 / noise - 0.5 * np.log(2.0 * np.pi * noise) - np.log(sd))
