"""What the rows of BMEM share: data and predictions."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.contract import ends
from vbmodels.core.state import FloatArray
from vbmodels.experts.rows import Rows
from vbmodels.experts.simulate import simulate
from vbmodels.testing.case import Agreement, Extremes


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


def excess_loss_of(fitted: Callable[[Rows], Any], seed: int, rows: int, new: int) -> float:
    """Held-out log loss of ``fitted(rows)`` above that of the true probabilities."""
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
