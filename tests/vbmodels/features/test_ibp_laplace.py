"""The text's sampler: Laplace against quadrature, and features it finds."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from reproduce.ibp_laplace import (
    ChainRows,
    LaplaceDraw,
    LaplaceGibbs,
    LaplaceIBP,
    laplace,
    log_buffet,
)
from tests.feature_tables import split_rows
from vbmodels.core.fit import fit
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.table import simulate_table

pytestmark = pytest.mark.thorough  # a form of the papers

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


def buffet(rng, rows, alpha):
    """Serve the customers of an Indian buffet one by one (Griffiths and Ghahramani 2011)."""
    z = np.zeros((rows, 0), dtype=bool)
    for n in range(rows):
        z[n] = rng.random(z.shape[1]) < z[:n].sum(0) / (n + 1)
        new = np.zeros((rows, rng.poisson(alpha / (n + 1))), dtype=bool)
        new[n] = True
        z = np.concatenate([z, new], axis=1)
    return z


def test_the_prior_of_z_is_that_of_a_simulated_buffet():
    rng, alpha, runs = np.random.default_rng(0), 0.8, 20_000
    seen, example = {}, {}
    for _ in range(runs):
        z = buffet(rng, 3, alpha)
        key = tuple(sorted(map(tuple, z.T.tolist())))
        seen[key] = seen.get(key, 0) + 1
        example[key] = z
    often = [key for key, count in seen.items() if count > 100]
    assert len(often) > 20
    for key in often:
        p = np.exp(log_buffet(example[key], alpha))
        assert abs(seen[key] / runs - p) < 4.5 * np.sqrt(p * (1 - p) / runs)


def chain():
    levels = np.array([2, 3, 2, 2])
    codes, _, _ = simulate_table(np.random.default_rng(2), 25, levels, np.array([0.5]), missing=0.1)
    model = LaplaceIBP(PolyaGammaIBP(3), warmup=2, draws=3, held=3)
    return model, codes, levels


def one_of_a_kind():
    """Twelve rows that agree in thirty columns, but for row 7 that differs in all of them."""
    codes, z = np.zeros((12, 30), dtype=np.int64), np.zeros((12, 1), dtype=bool)
    codes[7], z[7] = 1, True
    sampler = LaplaceGibbs(codes, np.full(30, 2), most=4)
    draw = LaplaceDraw(z, np.array([5]), 6, sampler.fit(z, None))
    return codes, sampler, draw


def test_a_row_that_is_one_of_a_kind_has_its_feature_in_nearly_every_draw():
    codes, _, draw = one_of_a_kind()
    model = LaplaceIBP(PolyaGammaIBP(4, alpha=0.5), warmup=0, draws=12)
    (batch,) = split_rows(codes, np.full(30, 2), 1, grouped=False)
    q = model.init(model.observe(batch), np.random.default_rng(0))
    local = ChainRows(draw, np.zeros((12, 1)))
    for i in range(model.draws):
        local = model.local_step(replace(q, iteration=i), batch, local)
    (place,) = np.flatnonzero(local.draw.names == 5)
    assert local.times[7, place] == model.draws
    assert_array_equal(np.delete(local.times[:, place], 7), 0.0)


def test_several_partitions_are_refused():
    model, codes, levels = chain()
    with pytest.raises(ValueError, match="takes one partition, got 2"):
        fit(model, split_rows(codes, levels, 2, grouped=False))
