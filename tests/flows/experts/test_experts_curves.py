"""The curves that the report draws are what each column adds to the log odds."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from flows.experts.design import Design
from flows.experts.surfaces import surfaces_of
from flows.experts.weights import curves_of
from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.columns import ColumnSums

MODEL = AdditiveExperts(1)


def fitted():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.exponential(1.0, 500), rng.random(500) < 0.4, np.full(500, 3.0)])
    logit = 3.0 * np.sign(np.abs(x[:, 0] - 1.0) - 0.5) + x[:, 1]
    t = np.where(rng.random(500) < 1.0 / (1.0 + np.exp(-logit)), 1.0, -1.0)
    sums = ColumnSums.of(x, t)
    design = Design(np.array(["a", "b", "c"]), *sums.scaling(True), False, np.ones(2), 1.0)
    batches = cut_coded(x, t)
    return x, t, design, batches[0].basis, MODEL.posterior(fit(MODEL, batches).q)


def test_a_curve_is_the_change_of_the_log_odds():
    x, t, design, basis, posterior = fitted()
    curves = curves_of(posterior, design, basis)
    assert [c.column for c in curves] == ["a", "b"]  # the most telling first, none of a constant
    for curve, column in zip(curves, (0, 1), strict=True):
        rows = np.tile([0.7, 1.0, 3.0], (len(curve.at), 1))
        rows[:, column] = curve.at
        (batch,) = cut_coded(x, t, new=rows)
        odds = posterior.log_odds(batch)
        middle = len(odds) // 2 if len(odds) > 2 else 0
        assert_allclose(curve.mean, odds - odds[middle], atol=1e-9)
        assert curve.sd[middle] == 0.0
        assert max(curve.sd) > 0.05
    assert curves[0].mean[0] - min(curves[0].mean) > 2.0  # down, then up again


def test_a_surface_is_the_mean_of_what_a_pair_adds():
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.exponential(1.0, 900), rng.random(900) < 0.4, rng.random(900)])
    logit = 3.0 * np.sign((x[:, 0] - 0.7) * (x[:, 1] - 0.5))
    t = np.where(rng.random(900) < 1.0 / (1.0 + np.exp(-logit)), 1.0, -1.0)
    design = Design(
        np.array(["a", "b", "c"]), *ColumnSums.of(x, t).scaling(True), False, np.ones(2), 1.0
    )
    (batch,) = cut_coded(x, t)
    model = AdditiveExperts(2, taus=(10.0,), n_restarts=1, evaluations=5)
    posterior = model.posterior(fit(model, [batch], max_iter=5000).q)
    first, *_ = surfaces_of(posterior, design, batch.basis)
    assert first.name == "a and b"
    assert first.across == ("0", "1")  # the larger first
    assert len(first.rows) == 8
    assert first.rows[-1] == first.rows[-2].replace("up to", "above")
    assert abs(float(first.rows[3].removeprefix("up to ")) - np.median(x[:, 0])) < 0.05
    values = np.array(first.values)
    assert values[0, 1] < -1.0 < 1.0 < values[-1, 1]  # of 1, low cells lower and high ones raise
    assert values[-1, 0] < -1.0 < 1.0 < values[0, 0]
    assert first.spread > 1.0
