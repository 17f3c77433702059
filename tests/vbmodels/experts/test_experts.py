"""The mixture of logistic experts: likelihood, choice, shares."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, softmax

from tests.vbmodels.experts.angles import angles
from vbmodels.experts import likelihood
from vbmodels.experts.additive.candidate import Candidate, Point, Sums
from vbmodels.experts.additive.candidate import likelihood as at_likelihood
from vbmodels.experts.additive.prior_choice import choose
from vbmodels.experts.bmem.normals import omega
from vbmodels.experts.posterior import Component, Posterior
from vbmodels.experts.rows import Rows
from vbmodels.experts.simulate import simulate


def small(seed=0, rows=60, features=3, sparse=False):
    x, t, _ = simulate(np.random.default_rng(seed), rows, features=features)
    if sparse:
        x = (x > 0.5).astype(float)
    return Rows.of(x, t, np.arange(rows, dtype=np.int64), sparse=sparse)


def slope(function, at, step=1e-5):
    moved = np.eye(at.size) * step
    return np.array([(function(at + d) - function(at - d)) / (2 * step) for d in moved])


# Rows.


def test_dense_and_sparse_rows_agree():
    sparse = small(sparse=True)
    x = np.asarray(sparse._rows.todense())
    dense = Rows.of(x[:, :-1], sparse.t, sparse.key)
    rng = np.random.default_rng(1)
    w, s = rng.standard_normal((4, 4)), rng.standard_normal((4, 60))
    half = rng.standard_normal((2, 4, 4))
    matrices = half @ np.swapaxes(half, 1, 2)
    for method in (
        lambda b: b.project(w),
        lambda b: b.project_squares(w),
        lambda b: b.collect(s),
        lambda b: b.collect_squares(s),
        lambda b: b.quadratic(matrices),
        lambda b: b.gram(s**2),
    ):
        assert_allclose(method(sparse), method(dense), rtol=1e-12, atol=1e-12)
    assert_allclose(dense.quadratic(matrices)[0], np.diag(x @ matrices[0] @ x.T), rtol=1e-12)


def test_noise_belongs_to_the_row_and_is_standard_normal():
    whole = small(rows=4000)
    part = Rows.of(np.zeros((100, 3)), whole.t[500:600], whole.key[500:600])
    assert np.array_equal(part.noise(4, 6), whole.noise(4, 6)[:, :, 500:600])
    noise = whole.noise(4, 6)
    assert_allclose(noise[:2], -noise[2:])
    assert stats.kstest(noise[:2].ravel(), "norm").pvalue > 1e-3
    corner = np.corrcoef(noise[:2].reshape(12, -1))
    assert np.abs(corner - np.eye(12)).max() < 0.06
    assert set(whole.fold(5)) == set(range(5))


# The likelihood.


def test_likelihood_is_the_mixture_written_out():
    batch, rng = small(), np.random.default_rng(2)
    gates, experts = rng.standard_normal((2, 3, 4))
    x = batch.dense
    p = softmax(x @ gates.T, axis=1)
    right = expit(batch.t[:, None] * (x @ experts.T))
    (value,), _ = likelihood.at_points(batch, np.array([[gates, experts]]), batch.used)
    assert_allclose(value, np.log((p * right).sum(1)), rtol=1e-12)


def test_far_rows_keep_their_digits():
    h, b = np.zeros((2, 1)), np.array([[-800.0], [-900.0]])
    value, gate, expert = likelihood.row_terms(h, b, np.ones(1))
    assert_allclose(value, -800.0 + np.log(0.5))
    assert np.isfinite(gate).all()
    assert_allclose(expert[:, 0], [1.0, 0.0], atol=1e-30)
    near = np.random.default_rng(0).standard_normal((2, 3, 50)) * 5
    t = np.ones(50)
    for one, other in zip(
        likelihood.row_terms(*near, t), likelihood._far_row_terms(near[0], near[1], t), strict=True
    ):
        assert_allclose(one, other, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("wide", [False, True])
def test_objective_has_its_gradient(wide):
    """Where q has widths its means stay, and these are its coordinates."""
    batch, rng = small(), np.random.default_rng(3)
    point = Point(Candidate(3, 2.0), rng.standard_normal((2, 3, 4)))
    if wide:
        point = Point(point.candidate, point.mean, rng.standard_normal((2, 3, 4)) - 1.0)

    def value(vector):
        sums = Sums.at((point.at(vector),), batch, 5, 4)
        return point.at(vector).objective(float(sums.value[0]), sums.gradient[0])[0]

    sums = Sums.at((point,), batch, 5, 4)
    gradient = point.objective(float(sums.value[0]), sums.gradient[0])[1]
    assert_allclose(gradient, slope(value, point.vector), rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_bound_is_its_definition_by_monte_carlo():
    """E_q[log p(y, eta, beta) - log q] by draws, densities from scipy.stats."""
    batch, rng = small(rows=25, features=2), np.random.default_rng(4)
    point = Point(
        Candidate(2, 2.0), rng.standard_normal((2, 2, 3)), 0.3 * rng.standard_normal((2, 2, 3)) - 1
    )
    sums = Sums.at((point,), batch, 5, 8000)
    bound = point.objective(float(sums.value[0]), sums.gradient[0])[0]
    mean, sd = point.mean, np.exp(point.log_sd)
    draws = mean + sd * rng.standard_normal((100_000, *mean.shape))
    weights = -stats.norm.logpdf(draws, mean, sd).sum((1, 2, 3))
    scale = np.array([np.sqrt(0.5), np.sqrt(0.5), np.sqrt(10.0)])
    weights += stats.norm.logpdf(draws, 0.0, scale).sum((1, 2, 3))
    for x, t in zip(batch.dense, batch.t, strict=True):
        share = softmax(draws[:, 0] @ x, axis=1)
        weights += np.log((share * expit(t * (draws[:, 1] @ x))).sum(1))
    error = weights.std() / np.sqrt(weights.size)
    assert error < 0.03
    assert abs(bound - weights.mean()) < 4.0 * error + 0.05


# Diversity.


def test_omega_is_the_papers():
    vectors = np.random.default_rng(6).standard_normal((4, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [np.arccos(abs(unit[i] @ unit[j])) for i in range(4) for j in range(i)]
    assert_allclose(omega(vectors, 2.0)[0], 2.0 * (np.mean(pairs) - np.var(pairs)))
    assert_allclose(np.sort(angles(vectors)), np.sort(pairs))


# Choice.


def test_choice_counts_held_out_rows_once():
    batch = small(rows=300, features=4)
    points = tuple(
        Point.random(Candidate(k, 1.0, fold=f), 5, np.random.default_rng(f))
        for k in (1, 2)
        for f in range(5)
    )
    stats_ = Sums.at(points, batch, 5, 4)
    assert_allclose(stats_.held_rows[:5].sum(), 300)
    found = choose(points, stats_)
    rows = np.zeros((2, 300))
    for i, point in enumerate(points):
        (value,), _ = at_likelihood([point], batch, batch.used, 4)
        held = batch.fold(5) == point.candidate.fold
        rows[i // 5, held] = value[held]
    assert_allclose(found.held_out, rows.mean(1))
    assert_allclose(found.gain, np.mean(rows[1] - rows[0]))
    assert_allclose(found.error, np.std(rows[1] - rows[0]) / np.sqrt(300))


def test_shares_are_numbers_where_every_expert_is_sure_of_the_other_label():
    one = Component(np.full((2, 2, 2), [[[0.0, 1.0]], [[900.0, 0.0]]]), np.zeros((2, 2, 2)))
    batch = Rows.of(np.ones((2, 1)), np.array([-1.0, 1.0]), np.arange(2))
    assert_allclose(Posterior((one,)).predict(batch).responsibility, 0.5)
