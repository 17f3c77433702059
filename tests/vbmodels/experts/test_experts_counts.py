"""The additive model of a count: its likelihood, its mode, dispersion, and what is chosen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import poisson

from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.core.state import from_bytes, to_bytes
from vbmodels.experts.additive.blocks import Layout
from vbmodels.experts.additive.counts import CountAdditive, CountChoice, CountErrors
from vbmodels.experts.terms.likelihoods import Gaussian, Logistic, Poisson, poisson_deviance
from vbmodels.experts.terms.step_rows import CountRows

LABELS = {
    "logistic": (Logistic(), np.array([1.0, -1.0, 1.0])),
    "gaussian": (Gaussian(0.7), np.array([0.3, -2.0, 1.0])),
    "poisson": (Poisson(2.5), np.array([0.0, 3.0, 1.0])),
}


def drawn(rng, n, varied=False):
    x = rng.standard_normal((n, 4))
    f = 0.5 + np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1] + 0.3 * x[:, 2] * x[:, 3]
    rate = np.exp(f) * (rng.gamma(2.0, 0.5, n) if varied else 1.0)
    return x, f, rng.poisson(rate).astype(float)


def count_rows(x, y, parts=1):
    bounds = [len(y) * i // parts for i in range(parts + 1)]
    pairs = zip(cut_coded(x, np.ones(len(y)), parts), bounds[:-1], bounds[1:], strict=True)
    return [CountRows(rows, y[a:b], np.ones(b - a)) for rows, a, b in pairs]


@pytest.mark.parametrize("name", LABELS)
def test_slopes_are_those_of_the_log_likelihood(name):
    likelihood, y = LABELS[name]
    f, step = np.array([0.4, -0.8, 1.2]), 1e-5
    up, here, down = (likelihood.slopes(f + s, y) for s in (step, 0.0, -step))
    assert_allclose((up.value - down.value) / (2.0 * step), here.first, rtol=1e-6)
    assert_allclose(-(up.first - down.first) / (2.0 * step), here.curve, rtol=1e-6)


def test_the_deviance_is_twice_the_log_ratio_to_the_best_poisson():
    y, mean = np.array([0.0, 1.0, 7.0]), np.array([0.3, 1.0, 4.0])
    best = poisson.logpmf(y, np.maximum(y, 1e-12))
    assert_allclose(poisson_deviance(y, mean), 2.0 * (best - poisson.logpmf(y, mean)), atol=1e-9)


@pytest.mark.parametrize("varied", [False, True])
def test_a_curve_and_a_pair_are_found_with_the_dispersion(varied):
    x, _, y = drawn(np.random.default_rng(1), 2500, varied)
    model = CountAdditive()
    q = fit(model, count_rows(x, y, 3), max_iter=2000).q
    assert q.chosen.form == "curves"
    assert q.chosen.pairs_weight > 0.5
    assert [2, 3] in q.fits[-1].terms.pairs.tolist()
    new, f, fresh = drawn(np.random.default_rng(2), 4000, varied)
    (rows,) = cut_coded(x, np.ones(len(y)), new=new)
    posterior = model.posterior(q)
    mean, sd = posterior.predict(rows)
    assert np.mean((np.log(mean) - f) ** 2) < (0.1 if varied else 0.04)
    pearson = np.mean((fresh - mean) ** 2 / mean)
    assert posterior.dispersion == pytest.approx(pearson, rel=0.25)
    assert 0.92 < np.mean(np.abs(fresh - mean) < 1.96 * sd) < 0.975
    again = from_bytes(to_bytes(posterior), type(posterior))
    assert_allclose(again.predict(rows)[0], mean)


def test_every_fit_ends_at_its_mode():
    x, _, y = drawn(np.random.default_rng(3), 400)
    one = fit(CountAdditive(), count_rows(x, y, 1), max_iter=2000).q
    for found in one.fits:
        precision = Layout.of(one.design, found.terms).precision(found.variances)
        slope = found.evaluation.slope - precision * found.coefficients
        step = np.linalg.solve(found.hessian(one.design), slope)
        assert 0.5 * slope @ step < 0.1


def test_columns_that_say_nothing_leave_the_mean():
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((500, 3)), rng.poisson(3.0, 500).astype(float)
    q = fit(CountAdditive(), count_rows(x, y), max_iter=2000).q
    (rows,) = cut_coded(x, np.ones(500), new=x[:50])
    mean, _ = CountAdditive().posterior(q).predict(rows)
    assert_allclose(mean, y.mean(), rtol=0.15)


def test_counts_of_zero_alone_and_huge_ones_are_finite():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, 2))
    for y in (np.eye(60)[0], rng.poisson(1e9 * np.exp(x[:, 0])).astype(float)):
        model = CountAdditive()
        q = fit(model, count_rows(x, y), max_iter=2000).q
        found = model.posterior(q).predict(count_rows(x, y)[0].rows)
        assert all(np.isfinite(v).all() for v in found)


def test_pairs_need_two_nats_of_held_out_rows():
    deviance = np.full((3, 21), 100.0)
    deviance[2] = 90.0 - np.linspace(0.0, 10.0, 21)
    sums = CountErrors(deviance, np.full((3, 21), 50.0), 50.0)
    assert CountChoice.of(sums, 1.0).pairs_weight == 1.0
    assert CountChoice.of(sums, 3.0).pairs_weight == 0.0
    assert CountChoice.of(sums, 1.0).dispersion == 1.0
