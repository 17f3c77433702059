"""What the probit GP says of bags and instances; its sampler and its logistic rival."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.vbmodels.bags.gp_bags import ONE, one_bag, simulated
from vbmodels.bags.bags import Instances, bags
from vbmodels.bags.mil_gp import predict as gp_predict
from vbmodels.bags.mil_gp.gibbs import GibbsGP, draw_latent, predict_from_draws
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.mil_gp.predict import feature_effects, predict
from vbmodels.core.fit import fit

# Predictions.


@pytest.fixture(scope="module")
def fitted():
    data, model = simulated(), DirectGP(ONE)
    return data, model.posterior(fit(model, [data]).q)


def test_bag_probabilities_are_those_of_the_multivariate_normal(fitted):
    """1 - P(all m < 0), m ~ N(mean, phi Sigma phi' + diag(1 + r)), by Genz's algorithm.

    SciPy's error is below 1e-6; bags have 1 to 11 instances.
    """
    data, post = fitted
    usual = predict(post, data)[0].bag_probability
    fine = predict(post, data, points=2**15)[0].bag_probability
    sizes = data.modalities[0].sizes
    exact = np.array([1 - none_positive(post, data, b) for b in range(30)])
    assert (sizes[:30] < 4).any()
    assert_allclose(fine[:30], exact, atol=1e-4)
    assert_allclose(usual[:30], exact, atol=2e-3)


def test_effects_of_features_sum_to_the_score(fitted):
    """Against the average instance; a feature that is its mean adds nothing."""
    data, post = fitted
    rows = data.modalities[0].features.copy()
    rows[:, 0] = post.features.mean[0]
    rows[0] = post.features.mean
    one = bags([Instances(rows, data.modalities[0].offsets)], data.label)
    score = predict(post, one)[0].score
    effects = feature_effects(post, rows)
    assert_allclose(effects[:, 0], 0.0, atol=1e-12)
    assert_allclose(effects.sum(axis=1), score - score[0], atol=0.01)


def none_positive(post, data, b):
    """P(all m < 0) of a bag by SciPy."""
    f = post.features
    rows = data.modalities[0].features[slice(*data.modalities[0].offsets[b : b + 2])]
    (columns,), (residual,) = f.base(rows)
    phi = columns * f.weights[0]
    cov = np.linalg.inv(post.factor[0] @ post.factor[0].T)
    leak = np.zeros(phi.shape[1])
    leak[-2] = 0.5
    phi = np.vstack([phi, leak])
    mean = np.append(np.full(len(phi) - 1, f.offset), -3.5) + phi @ post.mean[0]
    joint = phi @ cov @ phi.T + np.diag(np.append(1 + 3.0 * residual, 1.0))
    return stats.multivariate_normal.cdf(
        np.zeros(len(mean)), mean, joint,
        maxpts=200_000, abseps=1e-6, releps=0, rng=np.random.default_rng(0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def chains():
    return fit(GibbsGP(ONE, chains=2, warmup=5, draws=400), [simulated(4)]).q


def test_bags_taken_a_few_at_a_time_are_those_taken_at_once(monkeypatch, chains, fitted):
    data, post = fitted
    found = []
    for held in (2**30, 2**14, 1):
        monkeypatch.setattr(gp_predict, "HELD", held)
        found.append([predict(post, data)[0], predict_from_draws(chains, data)[0]])
    once, *cuts = found
    for cut in cuts:
        for few, whole in zip(cut, once, strict=True):
            assert_allclose(few.bag_probability, whole.bag_probability, rtol=1e-13)


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_bags_of_a_block(chains, fitted):
    """16,000 bags at 1,024 draws would be 125 MiB an array, and there are six of them."""
    _, post = fitted
    rows = np.random.default_rng(1).standard_normal((6000, 3))
    many = one_bag(rows, [0] * 16_000, [1] * 6000 + [0] * 10_000)
    for found in (lambda: predict(post, many), lambda: predict_from_draws(chains, many)):
        tracemalloc.start()
        try:
            found()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 32 * 2**20


def test_other_features_than_those_of_the_fit_are_refused(fitted):
    _, post = fitted
    with pytest.raises(ValueError, match="expected 3 features an instance"):
        predict(post, one_bag(np.zeros((2, 4)), [0], [2]))


# The sampler and the logistic rival.


def test_latent_draws_are_those_of_rejection():
    t = np.array([-1.0, 0.2, -0.4])
    rng = np.random.default_rng(0)
    size = 40_000
    at = np.repeat(t[:, None], size, axis=1)
    offsets = np.array([0, 3])
    for label in (0, 1, -1):
        drawn = draw_latent(at, offsets, np.full((1, size), label, np.int8), rng)
        free = rng.normal(at)
        some = (free > 0).any(axis=0)
        kept = free if label < 0 else free[:, some == bool(label)]
        for i in range(3):
            assert stats.ks_2samp(drawn[i], kept[i]).pvalue > 1e-3
        assert_allclose(np.corrcoef(drawn), np.corrcoef(kept), atol=0.03)


def test_latent_draws_hold_far_from_zero():
    t = np.full((2000, 2), -40.0)
    labels = np.ones((1, 2), np.int8)
    drawn = draw_latent(t, np.array([0, 2000]), labels, np.random.default_rng(0))
    assert_array_equal((drawn > 0).sum(axis=0), 1)
    assert np.isfinite(drawn).all()
