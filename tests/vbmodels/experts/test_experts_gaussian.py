"""The additive model of a number: closed forms against dense ones, recovery, and coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.core.linalg import unpack
from vbmodels.core.state import from_bytes, to_bytes
from vbmodels.experts.additive.blocks import Layout
from vbmodels.experts.additive.gaussian import (
    Errors,
    GaussianAdditive,
    GaussianChoice,
    GaussianFit,
    Moments,
)
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.terms.curves import Curves, Terms
from vbmodels.experts.terms.step_rows import TargetRows


def surface(rng, n):
    x = rng.standard_normal((n, 4))
    x[:, 1] = rng.random(n) < 0.4
    return x, np.sin(2.0 * x[:, 0]) + x[:, 1] + x[:, 2] * x[:, 3]


def target_rows(x, y, parts=1):
    bounds = [len(y) * i // parts for i in range(parts + 1)]
    batches = cut_coded(x, np.ones(len(y)), parts)
    pairs = zip(batches, bounds[:-1], bounds[1:], strict=True)
    return [TargetRows(rows, y[a:b]) for rows, a, b in pairs]


def standard(y):
    return (y - y.mean()) / y.std()


def test_the_evidence_is_that_of_the_dense_gaussian():
    rng = np.random.default_rng(3)
    x, f = surface(rng, 90)
    (batch,) = target_rows(x, standard(f + rng.standard_normal(90)))
    observed = DesignSummary.of(batch.rows)
    at = Moments(Terms.none(), -1)
    sums = at.sums(batch)
    layout = Layout.of(observed, at.terms)
    found = GaussianFit.at(at, sums, layout, np.full(layout.kind.size, 0.1), 0.5)
    columns = np.stack([
        batch.rows.project(one, terms=at.terms) for one in np.eye(sums.right.size)
    ], axis=1)  # fmt: skip
    precision = layout.precision(found.variances)
    covariance = (columns / precision) @ columns.T + found.noise * np.eye(90)
    dense = multivariate_normal(np.zeros(90), covariance).logpdf(batch.y)
    assert found.evidence == pytest.approx(dense, rel=1e-8)
    mean = (columns / precision).T @ np.linalg.solve(covariance, batch.y)
    assert_allclose(found.coefficients, mean, atol=1e-8)
    assert_allclose(
        unpack(found.hessian), columns.T @ columns / found.noise + np.diag(precision), atol=1e-8
    )


def test_a_pair_and_curves_are_found_and_intervals_cover():
    rng = np.random.default_rng(0)
    x, f = surface(rng, 1200)
    y = f + 0.5 * rng.standard_normal(1200)
    model = GaussianAdditive()
    q = fit(model, target_rows(x, standard(y)), max_iter=200).q
    assert q.chosen.form == "curves"
    assert q.chosen.pairs_weight > 0.9
    assert [2, 3] in q.fits[-1].terms.pairs.tolist()
    assert_allclose(q.fits[-1].noise, 0.25 / y.var(), rtol=0.15)
    new, truth = surface(rng, 2000)
    (rows,) = cut_coded(x, np.ones(1200), new=new)
    posterior = model.posterior(q)
    mean, sd = (v * y.std() for v in posterior.predict(rows))
    away = truth - mean - y.mean()
    assert away.std() < 0.35
    drawn = away + 0.5 * rng.standard_normal(2000)
    assert 0.94 < np.mean(np.abs(drawn) < 1.96 * sd) < 0.965
    assert 1.0 - np.mean(drawn**2) / np.var(truth) > 0.75
    again = from_bytes(to_bytes(posterior), type(posterior))
    assert_allclose(again.predict(rows)[0] * y.std(), mean)


def test_the_noise_of_new_rows_does_not_hold_the_uncertainty_of_coefficients():
    rng = np.random.default_rng(6)
    model, found = GaussianAdditive(), []
    for _ in range(10):
        x, f = surface(rng, 120)
        y = f + rng.standard_normal(120)
        q = fit(model, target_rows(x, standard(y)), max_iter=200).q
        found.append((model.posterior(q).noise * y.var(), q.chosen.errors[-1] * y.var()))
    noise, error = np.mean(found, axis=0)
    assert noise == pytest.approx(1.0, abs=0.15)
    assert error > 1.2


def test_columns_that_say_nothing_leave_the_mean():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((400, 3))
    model = GaussianAdditive()
    q = fit(model, target_rows(x, standard(rng.standard_normal(400))), max_iter=200).q
    posterior = model.posterior(q)
    (rows,) = cut_coded(x, np.ones(400), new=x[:50])
    mean, sd = posterior.predict(rows)
    assert np.abs(mean).max() < 0.3
    assert_allclose(sd, 1.0, atol=0.1)


def test_the_weight_of_pairs_minimises_the_squared_error():
    rng = np.random.default_rng(4)
    errors = rng.standard_normal((4, 4)) @ rng.standard_normal((4, 500))
    errors[2] *= 0.1
    errors[3] = 0.8 * errors[2] + 0.05 * rng.standard_normal(500)
    chosen = GaussianChoice.of(Errors(errors @ errors.T, 500.0))
    assert chosen.form == "curves"
    grid = np.linspace(0.0, 1.0, 1001)
    own, both = errors[2], errors[3]
    loss = [np.mean(((1.0 - u) * own + u * both) ** 2) for u in grid]
    assert chosen.pairs_weight == pytest.approx(grid[np.argmin(loss)], abs=2e-3)
    assert chosen.errors[-1] == pytest.approx(min(loss), rel=1e-4)
    none = GaussianChoice.of(Errors(np.diag([4.0, 3.0, 2.0, 2.5]) + 2.0, 500.0))
    assert none.pairs_weight == 0.0 or none.errors[-1] < none.errors[2]


def test_a_table_of_zeros_and_ones_has_levels_without_curves():
    x = (np.random.default_rng(5).random((60, 3)) < 0.5).astype(float)
    nothing = np.ones(3, bool)
    how = x, np.ones((60, 3), bool), np.ones(60), nothing, np.arange(3)
    assert Curves.of(*how) is None
    bare = Curves.of(*how, True)
    assert not bare.curved.size
    assert bare.sizes.tolist() == [2, 2, 2]
