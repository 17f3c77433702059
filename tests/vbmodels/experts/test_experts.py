"""The mixture of logistic experts: likelihood, searches, choice, predictions, real data."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from vbmodels.core.cavi import start
from vbmodels.core.fit import fit
from vbmodels.core.in_process import InProcess
from vbmodels.experts import likelihood
from vbmodels.experts.batch import Rows
from vbmodels.experts.candidate import Candidate, Point, Sums
from vbmodels.experts.choice import choose
from vbmodels.experts.diversity import angles, log_angles, omega
from vbmodels.experts.marginal import MarginalExperts
from vbmodels.experts.posterior import Component, Posterior
from vbmodels.experts.simulate import simulate


def small(seed=0, rows=60, features=3, sparse=False):
    x, t, _ = simulate(np.random.default_rng(seed), rows, features=features)
    if sparse:
        x = (x > 0.5).astype(float)
    return Rows.of(x, t, np.arange(rows, dtype=np.int64), sparse=sparse)


def slope(function, at, step=1e-5):
    moved = np.eye(at.size) * step
    return np.array([(function(at + d) - function(at - d)) / (2 * step) for d in moved])


def log_loss(y, p):
    return -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))


def held_out(shared_data, name, sparse=False, rows=None):
    """Return train rows, test rows, test labels; dense columns get mean 0 and sd 1."""
    parts = []
    for part in ("train", "test"):
        table = pq.read_table(shared_data / "experts" / f"{name}_{part}.parquet")
        columns = [c for c in table.column_names if c not in ("id", "label")]
        x = np.column_stack([table[c].to_numpy() for c in columns]).astype(float)
        parts.append((x, table["label"].to_numpy()))
    (x, y), (new, truth) = parts
    if rows is not None:
        x, y = x[:rows], y[:rows]
    if not sparse:
        mean, sd = x.mean(0), x.std(0)
        x, new = (x - mean) / sd, (new - mean) / sd
    key = np.arange(len(y), dtype=np.int64)
    new_key = 10**6 + np.arange(len(truth), dtype=np.int64)
    batch = Rows.of(x, 2.0 * y - 1.0, key, sparse=sparse)
    return batch, Rows.of(new, 2.0 * truth - 1.0, new_key, sparse=sparse), truth


# Rows.


def test_dense_and_sparse_rows_agree():
    sparse = small(sparse=True)
    x = np.asarray(sparse._rows.todense())
    dense = Rows.of(x[:, :-1], sparse.t, sparse.key)
    rng = np.random.default_rng(1)
    w, s = rng.standard_normal((4, 4)), rng.standard_normal((4, 60))
    half = rng.standard_normal((2, 4, 4))
    matrices = half @ np.swapaxes(half, 1, 2)
    for ask in (
        lambda b: b.project(w),
        lambda b: b.project_squares(w),
        lambda b: b.collect(s),
        lambda b: b.collect_squares(s),
        lambda b: b.quadratic(matrices),
        lambda b: b.gram(s**2),
    ):
        assert_allclose(ask(sparse), ask(dense), rtol=1e-12, atol=1e-12)
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
    value, _ = likelihood.at_point(batch, gates, experts, batch.used)
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


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("kappa", "weight"), [(0.0, 0.0), (5.0, 2.0)])
def test_objective_has_its_gradient(shared, wide, kappa, weight):
    batch, rng = small(), np.random.default_rng(3)
    candidate = Candidate(3, 2.0, shared, kappa, weight)
    point = Point(candidate, rng.standard_normal((2, 3, 4)), rng.standard_normal(3))
    if wide:
        point = Point(candidate, point.mean, point.common, rng.standard_normal((2, 3, 4)) - 1.0)

    def value(vector):
        sums = Sums.at((point.at(vector),), batch, 5, 4)
        return point.at(vector).objective(float(sums.value[0]), sums.gradient[0])[0]

    sums = Sums.at((point,), batch, 5, 4)
    gradient = point.objective(float(sums.value[0]), sums.gradient[0])[1]
    assert_allclose(gradient, slope(value, point.vector), rtol=1e-5, atol=1e-5)


def test_bound_is_its_definition_by_monte_carlo():
    """E_q[log p(y, eta, beta, b0) - log q] by draws, densities from scipy.stats."""
    batch, rng = small(rows=25, features=2), np.random.default_rng(4)
    model = MarginalExperts(2, tau=2.0, shared=True, n_restarts=1, draws=8000)
    done = fit(model, [batch], max_iter=3000)
    (point,) = done.q.points
    mean, sd = point.mean, np.exp(point.log_sd)
    draws = mean + sd * rng.standard_normal((100_000, *mean.shape))
    log_q = stats.norm.logpdf(draws, mean, sd).sum((1, 2, 3))
    centre = np.zeros_like(mean)
    centre[1, :, :-1] = point.common
    scale = np.full(3, np.sqrt(0.5))
    scale[-1] = np.sqrt(10.0)
    log_p = stats.norm.logpdf(draws, centre, scale).sum((1, 2, 3))
    log_p += stats.norm.logpdf(point.common).sum()
    for x, t in zip(batch.dense, batch.t, strict=True):
        share = softmax(draws[:, 0] @ x, axis=1)
        log_p += np.log((share * expit(t * (draws[:, 1] @ x))).sum(1))
    weights = log_p - log_q
    error = weights.std() / np.sqrt(weights.size)
    assert error < 0.02
    assert abs(done.trace[-1] - weights.mean()) < 4.0 * error + 0.05


# Diversity.


@pytest.mark.parametrize("measure", [omega, lambda v, w: log_angles(v, w)])
def test_measures_of_diversity_have_their_gradients(measure):
    vectors = np.random.default_rng(5).standard_normal((4, 6))
    found = measure(vectors, 3.0)[1]
    numeric = slope(lambda v: measure(v.reshape(4, 6), 3.0)[0], vectors.ravel())
    assert_allclose(found.ravel(), numeric, rtol=1e-6, atol=1e-7)


def test_angular_prior_is_a_density_on_the_circle():
    """For p = 2 and K = 3, by quadrature over three angles."""
    grid = np.arange(48) * 2.0 * np.pi / 48
    total = 0.0
    for one in itertools.product(grid, repeat=2):
        # The density depends on differences of angles alone: the first one is fixed.
        a = np.array([[1.0, 0.0], *([np.cos(u), np.sin(u)] for u in one)])
        total += np.exp(log_angles(a, 2.0)[0])
    assert_allclose(total * (2.0 * np.pi / 48) ** 2 * 2.0 * np.pi, 1.0, rtol=1e-4)


def test_omega_is_the_papers():
    vectors = np.random.default_rng(6).standard_normal((4, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [np.arccos(abs(unit[i] @ unit[j])) for i in range(4) for j in range(i)]
    assert_allclose(omega(vectors, 2.0)[0], 2.0 * (np.mean(pairs) - np.var(pairs)))
    assert_allclose(np.sort(angles(vectors)), np.sort(pairs))


@pytest.mark.parametrize("kind", ["kappas", "omegas"])
def test_diversity_widens_the_angles(kind):
    batch = small(rows=150, features=6)
    found = []
    for weight in (0.0, 50.0):
        model = MarginalExperts(
            3, tau=10.0, shared=True, n_restarts=1, gaussian="none", **{kind: (weight,)}
        )
        done = fit(model, [batch], max_iter=3000)
        found.append(angles(done.q.points[0].mean[1, :, :-1]).mean())
    assert found[1] > found[0] + 0.2


# Choice and searches.


def test_one_expert_is_logistic_regression():
    batch = small(rows=200)
    model = MarginalExperts(1, tau=1.0, taus=(1.0,), gaussian="none", tolerance=1e-12)
    done = fit(model, [batch], max_iter=500)
    x = np.column_stack([batch.dense[:, :-1], np.sqrt(10.0) * batch.dense[:, -1]])
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(x, batch.t)
    beta = done.q.points[0].mean[1, 0] / np.append(np.ones(3), np.sqrt(10.0))
    assert_allclose(beta, peer.coef_[0], atol=1e-5)
    predicted = MarginalExperts().posterior(done.q).predict(batch, "plug_in")
    assert_allclose(predicted.probability, peer.predict_proba(x)[:, 1], atol=1e-5)
    assert_allclose(predicted.responsibility, 1.0)


def test_choice_counts_held_out_rows_once_and_keeps_logistic_regression_for_noise():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    t = np.where(rng.random(300) < expit(x @ [1.0, -1.0, 0.5, 0.0]), 1.0, -1.0)
    batch = Rows.of(x, t, np.arange(300, dtype=np.int64))
    model = MarginalExperts(3, taus=(0.1, 1.0), n_restarts=1, draws=4)
    done = fit(model, [batch], max_iter=3000)
    choice = done.q.chosen
    assert choice.candidates[choice.best].n_experts == 1
    assert done.q.points[0].candidate.fold == -1

    points = tuple(
        Point.random(Candidate(k, 1.0, False, fold=f), 5, np.random.default_rng(f))
        for k in (1, 2)
        for f in range(5)
    )
    stats_ = Sums.at(points, batch, 5, 4)
    assert_allclose(stats_.held_rows[:5].sum(), 300)
    found = choose(points, stats_)
    rows = np.zeros((2, 300))
    for i, point in enumerate(points):
        value, _ = point.likelihood(batch, None, 4)
        held = batch.fold(5) == point.candidate.fold
        rows[i // 5, held] = value[held]
    assert_allclose(found.held_out, rows.mean(1))
    assert_allclose(found.gain, np.mean(rows[1] - rows[0]))
    assert_allclose(found.error, np.std(rows[1] - rows[0]) / np.sqrt(300))


def test_mixture_is_chosen_where_there_is_one():
    x, t, _ = simulate(np.random.default_rng(0), 600, features=2, n_experts=2)
    batch = Rows.of(x, t, np.arange(600, dtype=np.int64))
    model = MarginalExperts(2, taus=(0.1, 1.0), n_restarts=1, draws=4, tolerance=1e-5)
    done = fit(model, [batch], max_iter=3000)
    assert done.q.chosen.candidates[done.q.chosen.best].n_experts == 2
    assert done.q.chosen.gain > 2.0 * done.q.chosen.error


def test_rows_without_labels_change_nothing_and_are_predicted():
    x, t, _ = simulate(np.random.default_rng(2), 120)
    key = np.arange(120, dtype=np.int64)
    model = MarginalExperts(2, tau=1.0, shared=False, n_restarts=1, draws=4)
    keep = t.copy()
    keep[100:] = 0.0
    one = fit(model, [Rows.of(x, keep, key)], max_iter=3000)
    two = fit(model, [Rows.of(x[:100], t[:100], key[:100])], max_iter=3000)
    assert_allclose(one.trace[-1], two.trace[-1], rtol=1e-6)
    found = model.posterior(one.q).predict(Rows.of(x, keep, key), "monte_carlo")
    assert ((found.probability > 0) & (found.probability < 1)).all()
    assert_allclose(found.responsibility.sum(0), 1.0)


def test_weights_are_repeats():
    x, t, _ = simulate(np.random.default_rng(3), 80)
    key = np.arange(80, dtype=np.int64)
    model = MarginalExperts(
        2, tau=1.0, shared=False, n_restarts=1, gaussian="none", tolerance=1e-12
    )
    weight = np.where(key < 20, 2.0, 1.0)
    one = fit(model, [Rows.of(x, t, key, weight)], max_iter=3000)
    again = np.concatenate([key, key[:20]])
    two = fit(model, [Rows.of(x[again], t[again], again)], max_iter=3000)
    assert_allclose(one.trace[-1], two.trace[-1], rtol=1e-8)


def test_one_class_is_refused():
    batch = Rows.of(np.zeros((5, 2)), np.ones(5), np.arange(5, dtype=np.int64))
    with pytest.raises(ValueError, match="got 5 ones among 5 labelled rows"):
        fit(MarginalExperts(2), [batch])


def test_more_columns_than_rows_and_constant_or_equal_columns_are_fitted():
    rng = np.random.default_rng(8)
    x = rng.standard_normal((30, 50))
    x[:, 1], x[:, 2] = x[:, 0], 0.0
    t = np.where(x[:, 0] > 0, 1.0, -1.0)
    batch = Rows.of(x, t, np.arange(30, dtype=np.int64))
    done = fit(MarginalExperts(2, tau=1.0, shared=True, n_restarts=1), [batch], max_iter=3000)
    (point,) = done.q.points
    sd = np.exp(point.log_sd)
    assert_allclose(sd[1, :, 2], 1.0, rtol=0.1)  # a column of zeros keeps its prior
    p = MarginalExperts().posterior(done.q).predict(batch).probability
    assert log_loss(t > 0, p) < 0.4


def test_methods_of_prediction_agree_where_the_posterior_is_narrow():
    batch = small(rows=100)
    model = MarginalExperts(2, tau=1.0, shared=False, n_restarts=1)
    posterior = model.posterior(fit(model, [batch], max_iter=3000).q)
    plug, mackay, draws = (
        posterior.predict(batch, m, 2000).probability for m in ("plug_in", "mackay", "monte_carlo")
    )
    assert np.abs(mackay - draws).max() < 0.05
    assert np.abs(mackay - draws).mean() < np.abs(plug - draws).mean()
    with pytest.raises(ValueError, match="expected one of"):
        posterior.predict(batch, "magic")


def test_search_is_resumed_in_every_phase():
    batch = small(rows=100)
    model = MarginalExperts(2, taus=(1.0,), n_restarts=2, draws=4)
    reduce = InProcess(model, [batch])
    q = model.init(reduce.observe(), np.random.default_rng(0))
    steps = list(model.steps(reduce, start(model, q, reduce)))
    assert {s.q.phase for s in steps} >= {"choice", "mode"}
    assert steps[-1].converged
    for step in steps[:: max(1, len(steps) // 8)]:
        again = list(model.steps(InProcess(model, [batch]), step.cursor))
        assert again[-1].elbo == steps[-1].elbo


# Real data.


def test_breast_cancer_reaches_its_goal(shared_data):
    batch, new, truth = held_out(shared_data, "breast_cancer")
    model = MarginalExperts(5)
    done = fit(model, [batch], max_iter=5000)
    assert done.converged
    p = model.posterior(done.q).predict(new).probability
    assert log_loss(truth, p) <= 0.085


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a9a_reaches_its_goal(shared_data):
    batch, new, truth = held_out(shared_data, "a9a", sparse=True)
    model = MarginalExperts(10)
    done = fit(model, [batch], max_iter=5000)
    p = model.posterior(done.q).predict(new).probability
    assert log_loss(truth, p) <= 0.3205


def test_shares_are_numbers_where_every_expert_is_sure_of_the_other_label():
    one = Component(np.full((2, 2, 2), [[[0.0, 1.0]], [[900.0, 0.0]]]), np.zeros((2, 2, 2)))
    batch = Rows.of(np.ones((2, 1)), np.array([-1.0, 1.0]), np.arange(2))
    assert_allclose(Posterior((one,)).predict(batch).responsibility, 0.5)
