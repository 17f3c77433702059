"""The IBP's sampler: its draws, its exactness, and how it agrees with variational inference."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, log_expit

from reproduce.polya_gamma import draw_polya_gamma
from tests.contract.ibp_definition import ALPHA, BIAS, TINY_LEVELS, WEIGHT, log_evidence, tiny
from tests.vbmodels.features.gibbs import GibbsIBP
from vbmodels.core.fit import fit
from vbmodels.features.draw_kernels import draw_features, draw_omega, row_keys
from vbmodels.features.ibp.sticks import draw_sticks
from vbmodels.features.table import feature_batch

pytestmark = pytest.mark.thorough  # a form of the papers


@pytest.mark.parametrize("c", [0.0, 0.4, 3.0, 40.0, 300.0])
def test_omega_has_the_law_of_the_reference(c):
    keys = row_keys(np.arange(2000), 5)
    drawn = draw_omega(np.full((2000, 20), c), np.ones((2000, 20), np.int8), keys).ravel()
    reference = draw_polya_gamma(np.full(40_000, c), np.random.default_rng(1))
    assert stats.ks_2samp(drawn, reference).pvalue > 1e-3
    mean = np.tanh(c / 2) / (2 * c) if c else 0.25
    assert abs(drawn.mean() - mean) < 4.5 * drawn.std() / np.sqrt(drawn.size)


def test_features_are_drawn_with_their_conditional_probability():
    rng = np.random.default_rng(0)
    n, units, k = 50, 21, 4
    sign = rng.integers(-1, 2, (n, units)).astype(np.int8)
    weights, log_odds = rng.normal(0, 1.5, (units, k + 1)), rng.normal(0, 1, k)
    before = rng.integers(0, 2, (n, k)).astype(np.int8)
    z = before.copy()
    chance = draw_features(sign, weights, log_odds, z, row_keys(np.arange(n), 3))
    for i in range(n):
        now = before[i].astype(float)
        for j in range(k):
            value = []
            for bit in (0.0, 1.0):
                now[j] = bit
                psi = weights[:, 0] + weights[:, 1:] @ now
                value.append((np.abs(sign[i]) * log_expit(sign[i] * psi)).sum())
            assert_allclose(chance[i, j], expit(log_odds[j] + value[1] - value[0]), rtol=1e-9)
            now[j] = z[i, j]


def test_streams_of_rows_do_not_depend_on_the_cut():
    whole = row_keys(np.arange(100), 7, 2)
    assert np.array_equal(whole[40:], row_keys(np.arange(40, 100), 7, 2))
    others = [row_keys(np.arange(100), *words) for words in [(7, 3), (8, 2), (2, 7)]]
    assert all(not np.any(whole == other) for other in others)


def test_sticks_have_the_exact_posterior():
    """Two sticks: compare with quadrature over p(v) pi^on (1 - pi)^off."""
    on, n, alpha = np.array([6.0, 2.0]), 10.0, 1.4
    rng = np.random.default_rng(0)
    v, drawn = np.array([0.5, 0.5]), []
    for _ in range(10_000):
        v = draw_sticks(on, n, alpha, v, rng)
        drawn.append(v)
    t, w = np.polynomial.legendre.leggauss(200)
    x, mass = 0.5 * (t + 1), 0.5 * w
    v1, v2 = np.meshgrid(x, x, indexing="ij")
    density = (v1 * v2) ** (alpha - 1) * v1 ** on[0] * (1 - v1) ** (n - on[0])
    density *= (v1 * v2) ** on[1] * (1 - v1 * v2) ** (n - on[1]) * np.outer(mass, mass)
    density /= density.sum()
    exact = [(density * v1).sum(), (density * v2).sum(), (density * v1 * v2).sum()]
    found = np.array(drawn)
    assert_allclose([*found.mean(0), found.prod(1).mean()], exact, atol=0.01)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_missing_cell_has_its_exact_probability(seed):
    """Evidences by enumeration and quadrature give P(missing category | the rest)."""
    batch = tiny(seed)[0]
    both = np.concatenate([b.codes for b in tiny(seed)])
    row, column = 0, 1
    assert batch.codes[row, column] == -1
    log_p = []
    for category in range(int(TINY_LEVELS[column])):
        filled = both.copy()
        filled[row, column] = category
        log_p.append(log_evidence([feature_batch(filled, TINY_LEVELS, grouped=False)]))
    exact = np.exp(
        np.array(log_p) - log_evidence([feature_batch(both, TINY_LEVELS, grouped=False)])
    )
    assert_allclose(exact.sum(), 1.0, rtol=1e-6)
    sampler = GibbsIBP(
        2,
        alpha=ALPHA,
        weight_variance=WEIGHT,
        bias_variance=BIAS,
        learn=False,
        chains=2,
        warmup=100,
        draws=1500,
    )
    data = [feature_batch(both, TINY_LEVELS, grouped=False)]
    done = fit(sampler, data, seed=seed, max_iter=10_000)
    (local,) = done.reduce.local_states(done.iterations - 1)
    assert_allclose(local.cells[0] / local.cells[0].sum(), exact, atol=0.04)
