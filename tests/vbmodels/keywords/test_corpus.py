"""The corpus model: its objective, gradient and information, numbers of keywords and the rate."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.contract import case_corpus
from tests.contract.words_drawn import simulate_words
from tests.vbmodels.keywords.keyword_documents import split_documents, typical_coefficients
from vbmodels.core.fit import InProcess, fit
from vbmodels.core.state import same_bits
from vbmodels.keywords.corpus.likelihood import listing
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.prior.counts import CountLaw, Lengths, quasi_poisson
from vbmodels.keywords.prior.rates import FACTORS, GIVEN, OF_LABELS, RateSources

W = typical_coefficients(4, 0.3)


@pytest.fixture(scope="module")
def corpus():
    batch, truth = simulate_words(
        np.random.default_rng(0), 400, coefficients=W, mean_words=25.0, n_complete=6
    )
    unlabelled = np.zeros(batch.n_documents, bool)
    unlabelled[10:40] = True
    y = batch.y & ~np.repeat(unlabelled, batch.sizes)
    return replace(batch, unlabelled=unlabelled, y=y), truth


@pytest.fixture(scope="module")
def at_some_point(corpus):
    """A model whose rate and kappa move, and a point that is no mode."""
    batch, _ = corpus
    model = CorpusProbit()
    q = model.init(model.observe(batch), np.random.default_rng(0))
    theta = q.theta.copy()
    theta[0, :-2] = [-0.6, 0.5, -0.3, 0.2, 0.1]
    theta[0, -2:] = np.log(0.33), 0.7
    q = replace(
        q,
        theta=theta,
        expected=False,
        law=replace(q.law, exponent_sd=0.2),
        credibility=np.array([0.3]),
    )
    return model, q


def log_likelihood(model, q, batch):
    """From the module's text, with scipy."""
    x = batch.x.copy()
    x[:, 1:] = (x[:, 1:] - x[:, 1:].mean(0)) / x[:, 1:].std(0)
    log_rate, kappa = q.theta[0, -2:]
    n, k = batch.sizes.astype(float), batch.n_observed
    number = np.exp(log_rate) * n.sum() * n**kappa / np.sum(n**kappa)
    mu = np.exp(q.law.level + q.law.slope * (np.log(n) - q.law.centre))
    rho = q.credibility[0]
    share = np.maximum(mu + rho * (k - mu), 0.02 * mu) / number
    share = share / (1 + (share / 0.97) ** 8) ** 0.125
    share = np.where(batch.complete, 1.0, np.where(batch.unlabelled, 0.0, share))
    p = np.repeat(share, batch.sizes) * stats.norm.cdf(x @ q.theta[0, :-2])
    return np.log(np.where(batch.y, p, 1.0 - p)).sum()


def test_the_objective_is_its_definition(corpus, at_some_point):
    batch, _ = corpus
    model, q = at_some_point
    w, (log_rate, kappa) = q.theta[0, :-2], q.theta[0, -2:]
    expected = log_likelihood(model, q, batch)
    expected += stats.norm.logpdf(w, 0, [10, 1, 1, 1, 1]).sum()
    expected += stats.norm.logpdf(log_rate, np.log(0.15), 0.8)
    expected += stats.norm.logpdf(kappa, q.law.exponent, 0.2)
    found = model.elbo(q, model.suff_stats(q, batch, None))
    assert_allclose(found, expected, rtol=1e-11)


def test_gradient_and_information_are_differences(corpus, at_some_point):
    batch, _ = corpus
    model, q = at_some_point
    here = model.suff_stats(q, batch, None)
    bend = here.information[0]
    assert_allclose(bend, bend.T, rtol=1e-12)
    for j, slope in enumerate(here.gradient[0]):
        ends = []
        for step in (1e-5, -1e-5):
            theta = q.theta.copy()
            theta[0, j] += step
            ends.append(replace(q, theta=theta))
        above, below = (log_likelihood(model, end, batch) for end in ends)
        assert_allclose(slope, (above - below) / 2e-5, rtol=1e-6, atol=1e-4)
        above, below = (model.suff_stats(end, batch, None).gradient[0] for end in ends)
        assert_allclose(bend[j], (below - above) / 2e-5, rtol=1e-5, atol=1e-3)


def test_the_evidence_by_laplace_is_that_of_quadrature():
    """The density at the mode and the information there, against a sum over a grid of w."""
    for seed in (0, 1):
        parts = case_corpus.tiny(seed)
        model = case_corpus.given_rate()
        done = fit(model, parts)
        w0, w1 = np.linspace(-12, 12, 241), np.linspace(-6, 6, 161)
        grid = np.stack(np.meshgrid(w0, w1, indexing="ij"), -1)
        values = case_corpus.log_density(grid, parts)
        cell = (w0[1] - w0[0]) * (w1[1] - w1[0])
        exact = values.max() + np.log(np.exp(values - values.max()).sum() * cell)
        bend = np.linalg.slogdet(np.linalg.inv(model.posterior_covariance(done.q)))[1]
        found = done.trace[-1] + np.log(2.0 * np.pi) - 0.5 * bend
        assert abs(found - exact) < 0.4


def test_documents_that_nobody_labelled_say_nothing(corpus):
    batch, _ = corpus
    noise = np.random.default_rng(3).random(batch.n_words) < 0.5
    words = np.repeat(batch.unlabelled, batch.sizes)
    model = CorpusProbit(0.3)
    one = fit(model, [batch]).q
    other = fit(model, [replace(batch, y=np.where(words, noise, batch.y))]).q
    assert_array_equal(one.theta, other.theta)


# Numbers of keywords.


def test_the_table_of_lengths_does_not_know_the_partitions(corpus):
    batch, _ = corpus
    whole = Lengths.of(batch)
    for parts in (2, 5):
        first, *rest = (Lengths.of(part) for part in split_documents(batch, parts))
        for part in rest:
            first = first + part
        assert same_bits(first, whole)
    assert whole.documents.sum() == batch.n_documents
    assert (whole.documents @ whole.k, whole.documents @ whole.n) == (batch.y.sum(), batch.n_words)


@pytest.mark.parametrize("slope", [0.0, 1.1])
def test_the_regression_is_poissons_maximum(slope):
    rng = np.random.default_rng(5)
    n = rng.integers(5, 300, 300).astype(float)
    k = rng.poisson(2.0 * (n / 60.0) ** slope).astype(float)
    found = quasi_poisson(n, k, np.ones(300))
    mu, away = found.mean(n), np.log(n) - found.centre
    assert abs(np.sum(k - mu)) < 1e-7
    assert abs((k - mu) @ away - 1e-2 * (found.slope - 0.45)) < 1e-7
    assert abs(found.slope - slope) < 4.0 * found.slope_se
    assert_allclose(found.dispersion, np.sum((k - mu) ** 2 / mu) / 298.0)


def test_the_expected_numbers_add_to_the_rate(corpus):
    batch, _ = corpus
    law = CountLaw.of(Lengths.of(batch), None)
    for kappa in (0.0, 0.5, 1.0):
        share = listing(law, batch, np.log(0.2), kappa, 0.0)
        level, _, _ = law.scale(kappa)
        number = np.exp(np.log(0.2) + level) * batch.sizes**kappa
        assert_allclose(number.sum(), 0.2 * batch.n_words)
        open_ = ~(batch.complete | batch.unlabelled)
        mu = np.exp(law.level + law.slope * (np.log(batch.sizes) - law.centre))
        expected = np.minimum(0.97, mu / number)[open_]
        assert_allclose(np.exp(share.log_delta[open_]), expected, rtol=0.09)
        few = expected < 0.5
        assert_allclose(np.exp(share.log_delta[open_])[few], expected[few], rtol=1e-3)


# The rate.


def test_sources_are_multiplied_and_integrated():
    sources = (
        RateSources.none()
        .with_source(GIVEN, np.log(0.2), 0.4)
        .with_source(OF_LABELS, np.log(0.3), 0.3)
    )
    mean, sd = sources.combined()
    precision = 0.4**-2 + 0.3**-2
    assert_allclose(mean, (np.log(0.2) * 0.4**-2 + np.log(0.3) * 0.3**-2) / precision)
    assert_allclose(sd, precision**-0.5)
    nodes, weights = sources.nodes()
    for power in range(6):  # three nodes are exact to the fifth moment
        found = weights @ ((nodes - mean) / sd) ** power
        assert_allclose(found, stats.norm.moment(power) if power else 1.0, atol=1e-12)


def test_a_wrong_rate_with_an_sd_is_drawn_to_what_the_labels_say(corpus):
    batch, truth = corpus
    fact, doubted = (
        fit(CorpusProbit(1.5 * truth.keyword_rate, sd), [batch]).q.rate for sd in (0.0, 0.4)
    )
    assert fact == pytest.approx(1.5 * truth.keyword_rate)
    assert abs(np.log(doubted / truth.keyword_rate)) < 0.6 * np.log(1.5)


@pytest.mark.parametrize("place", [1, 2])
def test_a_fit_with_a_rate_knows_the_modes_at_half_of_it_and_at_twice(corpus, place):
    batch, truth = corpus
    here = fit(CorpusProbit(truth.keyword_rate), [batch]).q
    there = fit(CorpusProbit((1.0, *FACTORS)[place] * truth.keyword_rate), [batch]).q
    assert_allclose(here.weights, [1.0, 0.0, 0.0])
    assert_allclose(here.theta[place], there.theta[0], atol=1e-5)
    assert_allclose(here.credibility[place], there.credibility[0])


@pytest.mark.parametrize("seed", [0, 2])
def test_few_passes_find_the_rate_far_from_its_first_guess(seed):
    """Rate and constant are one direction at first: searching it halves steps without end."""
    batch, _ = simulate_words(
        np.random.default_rng(seed), 600, coefficients=typical_coefficients(4, 0.6),
        mean_words=40.0,
    )  # fmt: skip
    found = fit(CorpusProbit(), [batch])
    assert found.converged
    assert found.iterations <= 15
    near = fit(CorpusProbit(likely_rate=0.5), [batch])
    assert_allclose(found.q.theta, near.q.theta, atol=0.02)


def test_an_earlier_fit_is_a_nearer_start(corpus):
    batch, _ = corpus
    model = CorpusProbit(0.3)
    before = fit(model, split_documents(batch, 8)[:7]).q
    reduce = InProcess(model, [batch])
    warm = model.restart(reduce.observe(), before, np.random.default_rng(0))
    cold = model.init(reduce.observe(), np.random.default_rng(0))
    values = [model.elbo(q, model.suff_stats(q, batch, None)) for q in (cold, warm)]
    assert values[1] > values[0] + 50.0
    assert all(a < b for a, b in pairwise(values))
