"""How sure pooled VBSS is: its information and its sampler, against quadrature."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import roots_jacobi

from vbmodels.core.fit import fit
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.pooled_gibbs import pooled_gibbs
from vbmodels.keywords.pooled_information import covariance
from vbmodels.keywords.simulate import simulate_pooled, typical_coefficients

RATE = 0.3


def settled(model, batch):
    q = fit(model, [batch], tol=1e-13, max_iter=5000).q
    return model.global_step(q, model.suff_stats(q, batch, model.local_step(q, batch, None)))


@pytest.mark.parametrize("tau", [None, 4.0])
def test_information_is_that_of_the_map_of_the_sweeps(tau):
    """SEM (Meng and Rubin 1991): J = Lambda (I - DM), DM by finite differences of the sweep."""
    batch, _ = simulate_pooled(
        np.random.default_rng(2), 60, coefficients=typical_coefficients(4, RATE), n_complete=5
    )
    model = PooledVBSS(keyword_rate=RATE, document_precision=tau)
    q = settled(model, batch)

    def sweep(mean):
        at = replace(q, mean=mean)
        return model.global_step(
            at, model.suff_stats(at, batch, model.local_step(at, batch, None))
        ).mean

    h, eye = 1e-4, np.eye(len(q.mean))
    slopes = [(sweep(q.mean + h * e) - sweep(q.mean - h * e)) / (2 * h) for e in eye]
    expected = np.linalg.inv(q.cov) @ (eye - np.stack(slopes, axis=1))
    assert_allclose(q.information, expected, atol=1e-6 * np.abs(expected).max())


def test_covariance_is_never_wider_than_the_prior():
    prior = np.array([4.0, 1.0])
    got = covariance(np.array([[-3.0, 0.1], [0.1, 50.0]]), prior)
    assert np.all(np.linalg.eigvalsh(np.diag(prior) - got) > -1e-12)
    assert_allclose(covariance(np.diag([2.0, 5.0]), prior), np.diag([0.5, 0.2]))


@pytest.fixture(scope="module")
def small():
    batch, _ = simulate_pooled(
        np.random.default_rng(4),
        8,
        coefficients=np.array([-0.4, 0.9]),
        mean_words=12.0,
        n_complete=1,
    )
    return PooledVBSS(keyword_rate=RATE, constant_sd=2.0), batch


def exact_posterior(batch):
    """Mean and sd of w, and P(keyword) of every word, on a grid of w and nodes of alpha."""
    x = batch.x[:, 1:]
    x = np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0)])
    grid = np.linspace(-4, 3, 141), np.linspace(-2, 4, 121)
    w = np.stack(np.meshgrid(*grid, indexing="ij"), -1)
    log_p = stats.norm.logpdf(w[..., 0], 0, 2.0) + stats.norm.logpdf(w[..., 1])
    chances = []
    for d in range(batch.n_documents):
        rows = batch.words(d)
        y = batch.y[rows]
        abar = np.clip(1 - y.sum() / (RATE * len(y)), 0.05, 0.98)
        node, weight = roots_jacobi(30, 20 * (1 - abar) - 1, 20 * abar - 1)
        alpha, weight = (1 + node) / 2, weight / weight.sum()
        if batch.complete[d]:
            alpha, weight = np.zeros(1), np.ones(1)
        above = stats.norm.cdf(w @ x[rows].T)[..., None]
        p = above * (1 - alpha)
        likelihood = np.where(y[:, None], p, 1 - p).prod(-2) * weight
        log_p += np.log(likelihood.sum(-1))
        r = np.where(y[:, None], 1.0, above * alpha / (1 - p))
        chances.append((r * likelihood[..., None, :]).sum(-1) / likelihood.sum(-1)[..., None])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = (p[..., None] * w).sum((0, 1))
    sd = np.sqrt((p[..., None] * (w - mean) ** 2).sum((0, 1)))
    keyword = np.concatenate([(p[..., None] * chance).sum((0, 1)) for chance in chances])
    return mean, sd, keyword


def test_sampler_and_information_against_quadrature(small):
    model, batch = small
    mean, sd, keyword = exact_posterior(batch)
    rng = np.random.default_rng(0)
    draws = pooled_gibbs(model, batch, rng, chains=4, draws=2000, warmup=200, keep_documents=True)
    seen = draws.diagnose()
    assert seen.r_hat.max() < 1.01
    assert np.all(np.abs(seen.mean - mean) < 4 * seen.mcse + 1e-3)
    assert_allclose(seen.sd, sd, rtol=0.06)
    assert_allclose(draws.keyword, keyword, atol=0.02)
    assert np.all(draws.alpha[:, :, batch.complete] == 0.0)
    # Eight documents: the Laplace accuracy of the information, still within a quarter.
    q = settled(model, batch)
    assert_allclose(np.sqrt(np.diag(model.posterior_covariance(q))), sd, rtol=0.25)
    assert np.all(np.sqrt(np.diag(q.cov)) < 0.7 * sd)


@pytest.mark.parametrize("tau", [None, 4.0])
def test_draws_of_documents_are_kept_where_they_are_asked_for(small, tau):
    model, batch = PooledVBSS(keyword_rate=RATE, document_precision=tau), small[1]
    without, kept = (
        pooled_gibbs(
            model, batch, np.random.default_rng(1), chains=2, draws=9, warmup=3, keep_documents=keep
        )
        for keep in (False, True)
    )
    assert_array_equal(without.coefficients, kept.coefficients)
    assert_array_equal(without.keyword, kept.keyword)
    assert without.alpha is without.intercept is None
    assert np.all(kept.alpha[:, :, ~batch.complete].std(axis=(0, 1)) > 0.0)
    if tau is None:
        assert kept.intercept is None
    else:
        assert np.all(kept.intercept.std(axis=(0, 1)) > 0.0)


def test_memory_does_not_grow_with_documents_times_draws():
    batch, _ = simulate_pooled(
        np.random.default_rng(4), 150, coefficients=np.array([-0.4, 0.9]), mean_words=6.0
    )
    peak = []
    for draws in (5, 405):
        found = []
        for _ in range(6):  # first ones fill caches, and what other threads allocate is counted
            tracemalloc.start()
            try:
                pooled_gibbs(
                    PooledVBSS(keyword_rate=RATE), batch, np.random.default_rng(0), chains=2,
                    draws=draws, warmup=3,
                )  # fmt: skip
                found.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        peak.append(min(found))
    # One number for each of them would take 0.96 MB more.
    assert peak[1] - peak[0] < 2e5


def short_documents(tau, sizes, labels, etas):
    """A model that knows w, and documents of these words, their labels and predictors."""
    batch, _ = simulate_pooled(np.random.default_rng(0), 50, coefficients=typical_coefficients(1))
    model = PooledVBSS(0.25, document_precision=tau)
    q = model.init(model.observe(batch), np.random.default_rng(0))
    q = replace(q, information=np.eye(2) * 1e12, mean=np.array([0.0, 1.0]))
    raw = q.location[1] + q.scale[1] * etas
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = len(sizes)
    given = replace(
        batch, x=np.column_stack([np.ones(len(raw)), raw]), y=labels, offsets=offsets,
        fold=np.zeros(n, np.int64), complete=np.zeros(n, bool),
        edge_offsets=np.zeros(n + 1, np.int64),
    )  # fmt: skip
    return model, q, given


def over_intercept_and_alpha(model, q, batch, etas):
    """P(keyword) of every word, by quadrature over a_d and alpha_d."""
    sd = model.document_precision**-0.5
    a, alpha = np.linspace(-8 * sd, 8 * sd, 321)[:, None], (np.arange(300) + 0.5) / 300
    chances = []
    for d, (prior_a, prior_b) in enumerate(zip(*model.prior_alpha(q, batch), strict=True)):
        rows = batch.words(d)
        mass = stats.norm.pdf(a, 0, sd) * stats.beta.pdf(alpha, prior_a, prior_b)
        above = [stats.norm.cdf(eta + a) for eta in etas[rows]]
        for p, y in zip(above, batch.y[rows], strict=True):
            mass = mass * (p * (1 - alpha) if y else 1 - p * (1 - alpha))
        chances += [
            1.0 if y else np.sum(mass * p * alpha / (1 - p * (1 - alpha))) / mass.sum()
            for p, y in zip(above, batch.y[rows], strict=True)
        ]
    return np.array(chances)


def test_what_is_not_known_of_a_documents_own_intercept_is_integrated_out():
    one = np.ones(1)
    model, q, batch = short_documents(0.25, [1], np.zeros(1, bool), one)
    assert_allclose(
        model.predict(q, batch), over_intercept_and_alpha(model, q, batch, one), atol=1e-3
    )
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, 40)
    etas = rng.normal(-0.3, 1.2, sizes.sum())
    labels = rng.random(sizes.sum()) < 0.2
    model, q, batch = short_documents(0.44, sizes, labels, etas)
    exact = over_intercept_and_alpha(model, q, batch, etas)
    # What is left is alpha's: its geometric mean stands for it, as in the whole model.
    local = model.local_step(q, batch, None)
    for got in (model.predict(q, batch), model.probabilities(q, batch, local)):
        assert np.abs(got - exact).max() < 0.045
        assert np.abs(got - exact)[~labels].mean() < 0.012
        assert np.all(got[labels] == 1.0)
    plain = model.latent(q, batch, local).keyword
    assert np.abs(plain - exact)[~labels].mean() > 0.05


def test_complete_documents_and_no_documents_at_all_have_probabilities():
    etas = np.array([0.3, -1.0, 2.0])
    model, q, batch = short_documents(0.5, [1, 2], np.array([True, False, True]), etas)
    known = replace(batch, complete=np.array([False, True]))
    assert_array_equal(model.predict(q, known), [1.0, 0.0, 1.0])
    none = replace(
        batch, x=batch.x[:0], y=batch.y[:0], offsets=batch.offsets[:1], fold=batch.fold[:0],
        complete=batch.complete[:0], edge_offsets=batch.edge_offsets[:1],
    )  # fmt: skip
    assert len(model.predict(q, none)) == 0


def test_sampler_repeats_itself_and_refuses_nonsense(small):
    model, batch = small
    one, two = (
        pooled_gibbs(model, batch, np.random.default_rng(1), chains=2, draws=5, warmup=5, thin=2)
        for _ in range(2)
    )
    assert np.array_equal(one.coefficients, two.coefficients)
    assert one.coefficients.shape == (2, 5, 2)
    with pytest.raises(ValueError, match="at least one chain"):
        pooled_gibbs(model, batch, np.random.default_rng(1), chains=0)
