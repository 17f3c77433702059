"""Rows of the mixture of logistic experts with z summed out: K = 2, and K = 1."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from tests.contract import calibration_experts, ends
from tests.contract.bmem import beside_sampler
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.experts.batch import Rows
from vbmodels.experts.marginal import MarginalExperts, Search
from vbmodels.experts.published.walk import WalkPrior
from vbmodels.experts.simulate import simulate
from vbmodels.testing.agreement import Agreement
from vbmodels.testing.case import Case, Coordinates, Evidence, GlobalStep, Recovery, Sampler
from vbmodels.testing.extremes import Extremes


def mixture() -> MarginalExperts:
    return MarginalExperts(2, tau=1.0, shared=False, n_restarts=1, draws=32, tolerance=1e-13)


def logistic() -> MarginalExperts:
    return MarginalExperts(1, tau=1.0, shared=False, taus=(1.0,), draws=32, tolerance=1e-13)


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


def to_vector(q: Search) -> FloatArray:
    return q.points[0].vector


def from_vector(q: Search, vector: FloatArray) -> Search:
    return Search(q.phase, (q.points[0].at(vector),), q.observed, q.seed, q.chosen)


# The exact evidence of one feature: Gauss-Hermite over every coefficient.


def _normal(points: int, sds: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return points [M, D] and log weights [M] of independent N(0, sd^2)."""
    z, w = np.polynomial.hermite_e.hermegauss(points)
    grid = np.array(list(itertools.product(z, repeat=len(sds)))) * np.array(sds)
    log_w = np.log(w / w.sum())
    return grid, np.array(list(itertools.product(log_w, repeat=len(sds)))).sum(1)


def _data(parts: Sequence[Rows]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([b.dense for b in parts]), np.concatenate([b.t for b in parts])


def evidence_of_one(parts: Sequence[Rows]) -> float:
    x, t = _data(parts)
    beta, log_w = _normal(60, [1.0, np.sqrt(10.0)])
    return float(logsumexp(log_w + np.log(expit(t * (beta @ x.T))).sum(1)))


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


def excess_loss(seed: int) -> float:
    """Held-out log-loss above that of the true probabilities, 1500 rows fitted."""
    rng = np.random.default_rng([seed, 7])
    x, t, truth = simulate(rng, 3000, features=2, n_experts=2, gate_scale=4.0, expert_scale=4.0)
    keys = np.arange(3000, dtype=np.int64)
    model = MarginalExperts(2, tau=0.1, shared=False, n_restarts=3, draws=8)
    done = fit(model, [Rows.of(x[:1500], t[:1500], keys[:1500])], seed=seed, max_iter=5000)
    new = Rows.of(x[1500:], t[1500:], keys[1500:])
    p = model.posterior(done.q).predict(new, "monte_carlo").probability
    right = t[1500:] > 0
    found = np.where(right, p, 1.0 - p)
    best = np.where(right, truth.probability[1500:], 1.0 - truth.probability[1500:])
    return float(np.mean(np.log(best) - np.log(found)))


def point_draws(q: Search, rng: np.random.Generator, size: int) -> tuple[FloatArray, FloatArray]:
    (p,) = q.points
    v = p.mean + np.exp(p.log_sd) * rng.standard_normal((size, *p.mean.shape))
    return v[:, 0], v[:, 1]


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


def _case(
    name: str, model: Any, evidence: Evidence, recovery: Recovery | str, sampler: Sampler
) -> Case:
    return Case(
        name=name,
        model=model,
        calibration=calibration_experts.MARGINAL
        if name == "bmem_marginal"
        else "It is among the priors that the mixture's row chooses from by hold-out.",
        batches=batches,
        tiny=tiny,
        draws="its sampler has a row of its own: bmem_metropolis",
        extremes=AT_THE_ENDS,
        agreement=by_prediction(3000),
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=to_vector, from_vector=from_vector),
            at="fixed_point",
            tolerance=1e-4,
        ),
        local_step="a partition has no local parameters",
        monte_carlo="its expectation is over draws fixed for each row; see tests/vbmodels",
        evidence=evidence,
        sampler=sampler,
        recovery=recovery,
        sweeps=40,
        resume_sweeps=25,
        partition_rtol=1e-7,
        slow=frozenset({"sampler"} if name == "bmem_marginal" else ()),
    )


def _sampled(k: int, *allowed: Any) -> Sampler:
    return beside_sampler(k, WalkPrior("gaussian", 1.0), (1.0, 1.0), point_draws, *allowed)


CASES = [
    _case(
        "bmem_marginal",
        mixture,
        Evidence(log_evidence=evidence_of_two, largest_gap=1.0, strict=False),
        Recovery(error=excess_loss, tolerance=0.03, seeds=(0, 1, 2)),
        _sampled(2, 0.7, (0.5, 1.8)),
    ),
    _case(
        "bmem_logistic",
        logistic,
        Evidence(log_evidence=evidence_of_one, largest_gap=0.5, strict=False),
        "its recovery is that of the mixture's row, with one expert",
        _sampled(1, 0.4, (0.5, 1.5)),
    ),
]
