"""What the rows of BMEM share: data, the exact evidence, predictions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from tests.contract import ends
from vbmodels.core.state import FloatArray
from vbmodels.experts.batch import Rows
from vbmodels.experts.simulate import simulate
from vbmodels.testing.agreement import Agreement
from vbmodels.testing.extremes import Extremes


def cut(x: FloatArray, t: FloatArray, parts: int) -> list[Rows]:
    bounds = [len(t) * i // parts for i in range(parts + 1)]
    keys = np.arange(len(t), dtype=np.int64)
    return [Rows.of(x[a:b], t[a:b], keys[a:b]) for a, b in itertools.pairwise(bounds)]


def batches(seed: int, parts: int) -> list[Rows]:
    x, t, _ = simulate(np.random.default_rng(seed), 80, features=2, n_experts=2)
    return cut(x, t, parts)


def tiny(seed: int) -> list[Rows]:
    rng = np.random.default_rng(seed)
    return cut(rng.standard_normal((6, 1)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]), 2)


# The exact evidence of one feature: Gauss-Hermite over every coefficient.


def _normal(points: int, sds: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return points [M, D] and log weights [M] of independent N(0, sd^2)."""
    z, w = np.polynomial.hermite_e.hermegauss(points)
    grid = np.array(list(itertools.product(z, repeat=len(sds)))) * np.array(sds)
    log_w = np.log(w / w.sum())
    return grid, np.array(list(itertools.product(log_w, repeat=len(sds)))).sum(1)


def _data(parts: Sequence[Rows]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([b.dense for b in parts]), np.concatenate([b.t for b in parts])


def evidence_of_two(parts: Sequence[Rows]) -> float:
    """The gates' difference is N(0, 2/tau) for the feature and N(0, 20) for the intercept."""
    x, t = _data(parts)
    one, log_one = _normal(14, [1.0, np.sqrt(10.0)])
    gate, log_gate = _normal(14, [np.sqrt(2.0), np.sqrt(20.0)])
    right = expit(t * (one @ x.T))  # [M, N]
    share = expit(gate @ x.T)
    total = []
    for log_w, g in zip(log_gate, share, strict=True):
        row = np.log(g * right[:, None] + (1.0 - g) * right[None, :]).sum(2)
        total.append(log_w + logsumexp(row + log_one[:, None] + log_one[None, :]))
    return float(logsumexp(total))


def excess_loss_of(fitted: Callable[[Rows], Any], seed: int, rows: int, new: int) -> float:
    """Held-out log-loss of ``fitted(rows)`` above that of the true probabilities."""
    rng = np.random.default_rng([seed, 7])
    x, t, truth = simulate(rng, rows + new, features=2, n_experts=2, gate_scale=4, expert_scale=4)
    keys = np.arange(rows + new, dtype=np.int64)
    posterior = fitted(Rows.of(x[:rows], t[:rows], keys[:rows]))
    p = posterior.predict(Rows.of(x[rows:], 0.0 * t[rows:], keys[rows:])).probability
    found = np.where(t[rows:] > 0, p, 1.0 - p)
    true = np.where(t[rows:] > 0, truth.probability[rows:], 1.0 - truth.probability[rows:])
    return float(np.mean(np.log(true) - np.log(found)))


AT_THE_ENDS = Extremes(
    tables=ends.tables_of_rows,
    empty=ends.no_rows,
    plain="it has no compiled loops: NumPy is all",
    refused={"one row alone": "expected rows with the label 1 and rows with the label 0"},
)


def by_prediction(evaluations: int) -> Agreement:
    """Chances of the label 1: a score sees no labels, and rows in another order."""

    def chance(model: Any, q: Any, batch: Rows) -> FloatArray:
        found: FloatArray = model.posterior(q).predict(batch).probability
        return found

    def scored(model: Any, q: Any, batch: Rows) -> FloatArray:
        assert not batch.t.any()
        assert batch.dense is not None
        back = Rows.of(batch.dense[::-1, :-1], batch.t, batch.key[::-1])
        return chance(model, q, back)[::-1]

    return Agreement(
        published=lambda model, q, batch, local: chance(model, q, batch),
        scored=scored,
        hidden=lambda batch: replace(batch, t=np.zeros_like(batch.t)),
        tol=1e-8,
        max_iter=evaluations,
        atol=1e-10,
    )
