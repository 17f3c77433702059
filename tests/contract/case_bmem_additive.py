"""Rows of the additive form with two experts added."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from tests.contract import calibration_experts, ends
from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.states import AdditiveState
from vbmodels.experts.rows import Rows
from vbmodels.experts.simulate import simulate
from vbmodels.experts.terms.step_rows import CodedRows
from vbmodels.testing.case import Agreement, Case, Coordinates, Extremes, GlobalStep, Recovery


def with_mixture() -> AdditiveExperts:
    """The mixture is kept whatever held-out rows say, and every search goes to its end."""
    return AdditiveExperts(
        2, tau=3.0, n_restarts=1, evaluations=3000, width_evaluations=3000, tolerance=1e-13,
        least_rise=0.0, always=True,
    )  # fmt: skip


def batches(seed: int, parts: int) -> Sequence[CodedRows]:
    rng = np.random.default_rng(seed)
    x, t, _ = simulate(rng, 80, features=2, n_experts=2)
    x[rng.random(80) < 0.1, 1] = np.nan
    return cut_coded(x, t, parts)


def tiny(seed: int) -> Sequence[CodedRows]:
    rng = np.random.default_rng(seed)
    return cut_coded(rng.standard_normal((6, 1)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]), 2)


def widths(q: AdditiveState) -> FloatArray:
    found = q.points[0].log_sd
    assert found is not None
    return found.ravel()


def with_widths(q: AdditiveState, vector: FloatArray) -> AdditiveState:
    first = q.points[0]
    moved = replace(first, log_sd=vector.reshape(first.mean.shape))
    return replace(q, points=(moved, *q.points[1:]))


def none_of(batch: CodedRows) -> CodedRows:
    return CodedRows(ends.no_rows(batch.rows), batch.codes[:0], batch.basis, batch.missing[:0])


def chance(model: Any, q: AdditiveState, batch: CodedRows) -> FloatArray:
    found: FloatArray = model.posterior(q).predict(batch).probability
    return found


def scored(model: Any, q: AdditiveState, batch: CodedRows) -> FloatArray:
    """Chances of the label 1: a score sees no labels, and rows in another order."""
    assert not batch.t.any()
    own = batch.rows
    back = Rows.of(np.asarray(own.dense)[::-1, :-1], own.t, own.key[::-1])
    return chance(model, q, CodedRows(back, batch.codes[::-1], batch.basis, batch.missing[::-1]))[
        ::-1
    ]


def excess_loss(seed: int) -> float:
    """Held-out log loss above that of the true probabilities; a curve, and a product's sign."""
    rng = np.random.default_rng([seed, 7])
    x = rng.standard_normal((4000, 3))
    truth = expit(2.0 * np.abs(x[:, 0]) - 1.5 + 2.5 * np.sign(x[:, 1] * x[:, 2]))
    t = np.where(rng.random(4000) < truth, 1.0, -1.0)
    model = AdditiveExperts(4, n_restarts=2)
    done = fit(model, cut_coded(x[:2500], t[:2500]), seed=seed, max_iter=5000)
    (new,) = cut_coded(x[:2500], t[:2500], new=x[2500:])
    p = chance(model, done.q, new)
    right = t[2500:] > 0
    best = np.where(right, truth[2500:], 1.0 - truth[2500:])
    return float(np.mean(np.log(best) - np.log(np.where(right, p, 1.0 - p))))


NO_EVIDENCE = "its additive part is fitted, not integrated over: no evidence is of the whole"

EXTREMES = Extremes(
    tables=lambda: ends.tables_of_coded_rows(cut_coded),
    empty=none_of,
    plain="it has no compiled loops: NumPy is all",
    refused={"one row alone": "expected rows with the label 1 and rows with the label 0"},
)
AGREEMENT = Agreement(
    published=lambda model, q, batch, local: chance(model, q, batch),
    scored=scored,
    hidden=lambda batch: replace(batch, rows=replace(batch.rows, t=np.zeros(batch.size))),
    tol=1e-8,
    max_iter=6000,
    atol=1e-10,
)
GLOBAL_STEP = GlobalStep(
    coordinates=Coordinates(to_vector=widths, from_vector=with_widths),
    at="fixed_point",
    tolerance=1e-4,
    max_iter=6000,
)

CASE = Case(
    name="bmem_additive",
    model=with_mixture,
    calibration=calibration_experts.ADDITIVE,
    batches=batches,
    tiny=tiny,
    extremes=EXTREMES,
    agreement=AGREEMENT,
    global_step=GLOBAL_STEP,
    local_step="a partition has no local parameters",
    monte_carlo="its expectation is over draws fixed for each row; see tests/vbmodels",
    evidence=NO_EVIDENCE,
    sampler=NO_EVIDENCE,
    recovery=Recovery(error=excess_loss, tolerance=0.12, seeds=(0, 1)),
    sweeps=40,
    resume_sweeps=10,
    partition_rtol=1e-6,
    slow=frozenset({"recovery"}),
)
