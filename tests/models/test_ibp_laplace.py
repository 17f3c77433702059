"""The text's sampler: Laplace against quadrature, and features it finds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from vbmodels.features.laplace_gibbs import LaplaceGibbs, laplace
from vbmodels.features.simulate import matched_f1, simulate_images

SIGMA2 = 0.7


def counts_of(rng, patterns, answers):
    return rng.integers(5, 30, (1, patterns, answers)).astype(float)


def test_evidence_is_near_quadrature_for_two_categories():
    """With R = 2 only the difference matters, whose prior variance is 2 sigma_B^2."""
    patterns = np.array([[1.0, 0.0], [1.0, 1.0]])
    counts = counts_of(np.random.default_rng(0), 2, 2)
    x, w = np.polynomial.hermite_e.hermegauss(80)
    a, b = np.meshgrid(x * np.sqrt(2 * SIGMA2), x * np.sqrt(2 * SIGMA2), indexing="ij")
    value = np.ones(a.shape)
    for (_, z), (no, yes) in zip(patterns, counts[0], strict=True):
        p = expit(a + z * b)
        value = value * p**yes * (1 - p) ** no
    exact = np.log((np.outer(w, w) * value).sum() / w.sum() ** 2)
    assert_allclose(laplace(patterns, counts, SIGMA2).log_evidence, exact, atol=0.03)


@pytest.mark.parametrize("r", [2, 3, 4])
def test_the_map_is_stationary_and_the_start_does_not_matter(r):
    rng = np.random.default_rng(r)
    patterns = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]])
    counts = counts_of(rng, 4, r)
    cold = laplace(patterns, counts, SIGMA2)
    warm = laplace(patterns, counts, SIGMA2, rng.normal(0, 1, cold.beta.shape))
    assert_allclose(warm.log_evidence, cold.log_evidence, rtol=1e-6)
    step = 1e-5

    def value(beta):
        logits = patterns @ beta[0].T
        log_pi = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        return float((counts[0] * log_pi).sum() - 0.5 * (beta**2).sum() / SIGMA2)

    for place in np.ndindex(cold.beta.shape):
        moved = np.zeros(cold.beta.shape)
        moved[place] = step
        slope = (value(cold.beta + moved) - value(cold.beta - moved)) / (2 * step)
        assert abs(slope) < 1e-3


def test_missing_cells_have_no_say():
    codes = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    more = np.concatenate([codes, [[-1, -1]]])
    z = np.array([[True], [False], [True], [False]])
    one = LaplaceGibbs(codes, np.array([2, 2]))
    two = LaplaceGibbs(more, np.array([2, 2]))
    a = one.fit(z, None)[0].log_evidence
    b = two.fit(np.concatenate([z, [[False]]]), None)[0].log_evidence
    assert_allclose(a, b, rtol=1e-9)


@pytest.mark.slow
def test_images_show_their_features():
    codes, z = simulate_images(np.random.default_rng(0), n_rows=50)
    sampler, rng = LaplaceGibbs(codes, np.full(36, 2)), np.random.default_rng(0)
    first = at = sampler.start(rng)
    for _ in range(12):
        at = sampler.iterate(at, rng)
    used = at.z.mean(0) > 0.05
    assert matched_f1(at.z[:, used][:, :10], z) > 0.5
    assert at.log_evidence > first.log_evidence + 10
    assert len(set(at.names.tolist())) == at.z.shape[1]
