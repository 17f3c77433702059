"""The recipe of the probit GP beyond its mode: words and the nearest Gaussian."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.vbmodels.bags.gp_bags import ONE, evaluate, simulated
from vbmodels.bags.bags import Instances, bags, split
from vbmodels.bags.mil_gp.features import KernelOptions, feature_map
from vbmodels.bags.mil_gp.gaussian import Averages, objective
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.multilabel import Observed, fold_of
from vbmodels.core.fit import fit
from vbmodels.core.linalg import unpack


def text(seed=0, n_bags=60, size=8, words=12):
    """Documents of two words of one of four topics; those of topic 0 make a bag positive."""
    rng = np.random.default_rng(seed)
    topic = rng.choice(4, n_bags * size, p=[0.08, 0.32, 0.3, 0.3])
    rows = np.zeros((topic.size, words))
    for i, t in enumerate(topic):
        rows[i, 3 * t + rng.choice(3, 2, replace=False)] = rng.uniform(0.5, 1.5, 2)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bag = np.repeat(np.arange(n_bags), size)
    label = np.bincount(bag, weights=topic == 0) > 0
    return bags([Instances.from_rows(bag, rows, n_bags)], label.astype(np.int8)), topic == 0


def observed_of(data, options):
    return Observed.of(data, 1000, 0, options.wants_products)


# Words.


def test_words_that_stand_together_share_their_weights():
    data, _ = text()
    rows = data.modalities[0].features.copy()
    rows[:, 11] = 0.0  # a word that no row has keeps its own variance
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    data = bags([Instances(rows, data.modalities[0].offsets)], data.label)
    options = KernelOptions()
    f = feature_map(options, observed_of(data, options), np.random.default_rng(0))
    length = np.linalg.norm(rows, axis=0)
    length[11] = 1.0
    cosines = (rows.T @ rows) / np.outer(length, length)
    np.fill_diagonal(cosines, 1.0)
    x = np.vstack([np.eye(12), rows[:5]])
    phi = f.base(x)[0][0] * f.weights[0]
    assert_allclose(phi @ phi.T, 4.0 * x @ cosines @ x.T + 4.0, atol=1e-5)


# The nearest Gaussian.


def with_empty_bags():
    """Bags of both labels, two without instances among them."""
    data = simulated(2, 20)
    offsets = np.append(data.modalities[0].offsets, [len(data.modalities[0].features)] * 2)
    rows = Instances(data.modalities[0].features, offsets)
    return bags([rows], np.append(data.label, [1, 0]).astype(np.int8))


def plain_log_likelihood(f, data, w):
    """log p(Y | w), bag by bag, by scipy."""
    rows, offsets = data.modalities[0].features, data.modalities[0].offsets
    columns, residual = f.base(rows)
    phi, noise = columns[0] * f.weights[0], 3.0 * residual[0]
    total = 0.0
    for b, label in enumerate(data.label):
        own = slice(offsets[b], offsets[b + 1])
        none = stats.norm.cdf(-(f.offset + phi[own] @ w) / np.sqrt(1 + noise[own])).prod()
        if f.leak:
            none *= stats.norm.cdf(3.5 - 0.5 * w[-2])
        total += np.log(1 - none if label else none)
    return total


@pytest.mark.parametrize("options", [ONE, replace(ONE, leak=False)])
def test_the_likelihood_with_and_without_a_leak_is_its_definition(options):
    data = with_empty_bags()
    if not options.leak:
        data = data.take(np.arange(20))
    f = feature_map(options, observed_of(data, options), np.random.default_rng(0))
    w, step = np.random.default_rng(1).standard_normal((2, f.n_columns))
    found = evaluate(f, w[None, None], data)
    assert_allclose(found.value[0, 0], plain_log_likelihood(f, data, w), rtol=1e-10)
    up, down = (plain_log_likelihood(f, data, w + h * step) for h in (1e-5, -1e-5))
    assert_allclose(found.gradient[0, 0] @ step, (up - down) / 2e-5, rtol=1e-6)


def test_averaged_curvature_is_the_hessian_of_both_kinds_of_bags():
    """At a very narrow q(w), by differences of the likelihood's gradient."""
    data = with_empty_bags()
    f = feature_map(ONE, observed_of(data, ONE), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    mean, step = rng.standard_normal((2, 1, f.n_columns))
    narrow = 1e7 * np.eye(f.n_columns)[None]
    kernel = np.zeros(1, np.int64)
    found = Averages(f, kernel, mean, narrow, np.ones(1, bool)).sums(data)

    def gradient(w):
        return evaluate(f, w[None], data).gradient

    change = (gradient(mean - 1e-5 * step) - gradient(mean + 1e-5 * step))[0, 0] / 2e-5
    assert_allclose(unpack(found.curvature)[0] @ step[0], change, rtol=1e-5, atol=1e-6)
    assert_allclose(found.gradient, gradient(mean)[0], rtol=1e-6)


def gaussian_fit(**options):
    data, true = text()
    model = DirectGP(**options)
    return data, true, model, fit(model, split(data, 3))


@pytest.mark.thorough
def test_the_nearest_gaussian_is_stationary_under_its_own_draws():
    """E[log p] - KL falls along any change of mean or scale; 2^11 fresh draws, scipy's terms."""
    data, _, model, done = gaussian_fit(rise=1e-9)
    q = model.posterior(done.q)
    f, offsets = q.features, data.modalities[0].offsets
    phi = f.base(data.modalities[0].features)[0][0] * f.weights[0]
    cov = np.linalg.inv(q.factor[0] @ q.factor[0].T)
    z = stats.qmc.MultivariateNormalQMC(np.zeros(len(cov)), rng=np.random.default_rng(9))
    z = z.random(2**11)

    def bound(mean, cov):
        w = mean + z @ np.linalg.cholesky(cov).T
        none = np.add.reduceat(stats.norm.logsf(f.offset + phi @ w.T), offsets[:-1], axis=0)
        with np.errstate(divide="ignore"):
            each = np.where(data.label[:, None] == 1, np.log(-np.expm1(none)), none)
        divergence = np.trace(cov) + mean @ mean - len(mean) - np.linalg.slogdet(cov)[1]
        return each.sum(0).mean() - 0.5 * divergence

    best = bound(q.mean[0], cov)
    assert best < done.trace[-1] < best + 1.0  # its own draws flatter it
    rng = np.random.default_rng(0)
    for _ in range(4):
        away = rng.standard_normal(len(cov))
        assert bound(q.mean[0] + 0.4 * away / np.linalg.norm(away), cov) < best + 0.05
    for factor in (0.8, 1.25):
        assert bound(q.mean[0], factor * cov) < best


def test_the_objective_takes_off_the_divergence_from_the_prior():
    rng = np.random.default_rng(0)
    mean, half = rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 3))
    precision = half @ np.swapaxes(half, 1, 2) + np.eye(3)
    found = objective(mean, np.linalg.cholesky(precision), np.array([1.0, 2.0]))
    for m, c, value, one in zip(mean, np.linalg.inv(precision), (1.0, 2.0), found, strict=True):
        divergence = 0.5 * (np.trace(c) + m @ m - 3 - np.linalg.slogdet(c)[1])
        assert_allclose(one, value - divergence)


def folds(rows, offsets):
    return fold_of(bags([Instances(rows, offsets)], np.zeros(offsets.size - 1)))


def test_folds_follow_the_bag_wherever_it_stands():
    rows = np.random.default_rng(0).standard_normal((12, 2))
    whole = folds(rows, np.array([0, 5, 5, 12]))
    assert_array_equal(folds(rows[5:][::-1], np.array([0, 7])), whole[2:])
    many = folds(np.arange(4000.0)[:, None], np.arange(4001))
    assert stats.chisquare(np.bincount(many)).pvalue > 1e-3
