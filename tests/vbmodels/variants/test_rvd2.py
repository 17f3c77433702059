"""RVD2: the exact posterior, its maximum, the sampler, the difference, the papers' test."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import betaln, expit, gammaln, log_expit, logsumexp

from vbmodels.core.draws import diagnose
from vbmodels.core.expfam import Beta
from vbmodels.core.fit import fit
from vbmodels.variants.hyperparameters import BetaPrior, beta_maximum, beta_objective
from vbmodels.variants.quadrature import log_beta_binomial
from vbmodels.variants.read_filters import control_spectrum, cressie_read, spectrum_p_value
from vbmodels.variants.rvd2 import posterior_difference
from vbmodels.variants.rvd2.gibbs import Sampler, exceedance, gibbs, sample_rates
from vbmodels.variants.rvd2.model import RVD2, Errors, Global, Local
from vbmodels.variants.rvd2.posterior_difference import (
    compare,
    germline,
)

pytestmark = pytest.mark.thorough  # a form of the papers


@dataclass(frozen=True)
class Exact:
    """The posterior of mu_j with theta integrated out, on nodes of logit mu."""

    x: np.ndarray  # [K]
    mass: np.ndarray  # [J, K]
    log_evidence: np.ndarray  # [J]

    def moments(self):
        mu = expit(self.x)
        mean = self.mass @ mu
        return mean, np.sqrt((self.mass * (mu - mean[:, None]) ** 2).sum(axis=1))


def exact_posterior(r, n, m, a0, b0):
    """Eq. 1 of the text, its sum over replicates inside the integral: they share mu."""
    x = np.linspace(-45.0, 6.0, 2001)
    log_mu, log_nu = log_expit(x), log_expit(-x)
    log_f = np.tile(a0 * log_mu + b0 * log_nu - betaln(a0, b0) + np.log(x[1] - x[0]), (len(r), 1))
    for i in range(r.shape[1]):
        log_f += log_beta_binomial(r[:, i, None], n[:, i, None], x, m[:, None])
    evidence = logsumexp(log_f, axis=1)
    binomial = (gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1)
    return Exact(x, np.exp(log_f - evidence[:, None]), evidence + binomial)


def reads(seed=0, locations=40, replicates=3, depth=2000, m=2000.0) -> Errors:
    rng = np.random.default_rng(seed)
    mu = rng.beta(1.0, 800.0, (locations, 1))
    mu[0] = 0.01
    n = rng.poisson(depth, (locations, replicates))
    return Errors(rng.binomial(n, rng.beta(m * mu, m * (1 - mu), n.shape)), n)


@pytest.mark.parametrize("depth", [400, 4000])
def test_the_mean_field_is_below_the_evidence_and_too_sure(depth):
    data, model = reads(locations=60, depth=depth, m=1e4), RVD2(log_m_sd=1e-3)
    q = replace(model.init(model.observe(data), np.random.default_rng(0)), log_m=np.log(1e4))
    local = model.local_step(q, data, None)
    exact = exact_posterior(data.r, data.n, np.exp(local.log_m), q.a0, q.b0)
    own = stats.norm.logpdf(local.log_m, q.log_m, 1e-3).sum()
    assert exact.log_evidence.sum() + own >= model.elbo(q, model.suff_stats(q, data, local))
    s = local.delta + local.gamma
    sd = np.sqrt(local.delta * local.gamma / (s * s * (s + 1)))
    # The sd is too small by about sqrt(1 + M/n): .196 at 400, .53 at 4000.
    ratio = np.median(sd / exact.moments()[1])
    assert_allclose(ratio, 1 / np.sqrt(1 + 1e4 / depth), rtol=0.1)


def test_caps_are_reported():
    data = Errors(np.full((5, 2), 10), np.full((5, 2), 1000))
    done = fit(RVD2(), [data], tol=1e-6, max_iter=3000)
    assert RVD2().is_all_alike(done.q)


def test_beta_maximum_is_a_stationary_maximum_and_keeps_its_cap():
    n, s1, s2 = np.array([50.0]), np.array([-400.0]), np.array([-0.05])
    prior = BetaPrior(0.7, 1.0, -7.0, 0.1)
    a, b = beta_maximum(n, s1, s2, (np.ones(1), np.ones(1)), prior)
    centre = beta_objective(np.log(a), np.log(b), n, s1, s2, prior)
    for step in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3), (1e-3, 1e-3)):
        moved = beta_objective(np.log(a) + step[0], np.log(b) + step[1], n, s1, s2, prior)
        assert moved < centre
    # One rate everywhere: no finite M0 is best.
    rate = 0.01
    a, b = beta_maximum(n, n * np.log(rate), n * np.log1p(-rate), (np.ones(1), np.ones(1)))
    assert_allclose([a[0] + b[0], a[0] / (a[0] + b[0])], [1e6, rate], rtol=1e-4)


@pytest.mark.parametrize("sd", [pytest.param(0.5, marks=pytest.mark.slow), 3.0])
def test_the_sampler_is_right_where_every_location_has_its_dispersion(sd):
    """By quadrature over log M of the exact posteriors given M, with a loose prior too.

    With the loose one early sweeps visit M = 1e18, where plain log Gammas differ by noise.
    """
    data = reads(locations=10, depth=400, m=500.0)
    q = Global(a0=1.5, b0=300.0, log_m=np.log(500.0))
    found = gibbs(data, q, np.random.default_rng(0), log_m_sd=sd, draws=1500)
    log_m = q.log_m + sd * np.linspace(-9.0, 9.0, 181)
    given = [exact_posterior(data.r, data.n, np.full(10, m), q.a0, q.b0) for m in np.exp(log_m)]
    log_prior = -0.5 * ((log_m - q.log_m) / sd) ** 2
    log_mass = np.stack([g.log_evidence for g in given]) + log_prior[:, None]
    mass = np.exp(log_mass - logsumexp(log_mass, axis=0))
    moments = [np.stack([g.mass @ expit(g.x) ** k for g in given]) for k in (1, 2)]
    of_mu = [(mass * m).sum(axis=0) for m in moments]
    of_log_m = [(mass * log_m[:, None] ** k).sum(axis=0) for k in (1, 2)]
    for drawn, (first, second) in ((expit(found.logit_mu), of_mu), (found.log_m, of_log_m)):
        seen = diagnose(drawn)
        assert seen.r_hat.max() < 1.02
        assert np.all(np.abs(seen.mean - first) < 4.5 * seen.mcse)
        assert_allclose(seen.sd, np.sqrt(second - first**2), rtol=0.12)


def test_a_chain_that_starts_beyond_all_digits_comes_back():
    """One location of those that a chain stood still at, where M = 1e18 outweighed its prior."""
    data = Errors(np.array([[2, 4, 5]]), np.array([[3734, 3963, 4317]]))
    x, one = np.array([[-7.4]]), np.ones((1, 1))
    binomial = 11 * np.log(expit(-7.4)) + (12014 - 11) * np.log(expit(7.4))
    for log_m in (40.0, 42.372, 60.0, 300.0):
        value = log_beta_binomial(data.r, data.n, x, np.exp(log_m) * one).sum()
        assert_allclose(value, binomial, rtol=1e-11)
    q = Global(a0=5.4, b0=11_100.0, log_m=8.86)
    far = replace(q, log_m=45.0)
    found = gibbs(data, far, np.random.default_rng(0), draws=500)
    assert_allclose([found.log_m.mean(), found.log_m.std()], [45.0, 0.5], atol=0.1)


@pytest.mark.parametrize("tau", [pytest.param(0.0, marks=pytest.mark.slow), 2e-3])
def test_the_sampled_difference_is_that_of_the_exact_posteriors(tau):
    m, q = 500.0, Global(a0=1.5, b0=300.0, log_m=np.log(500.0))
    both = [reads(locations=8, depth=400, m=m, seed=seed) for seed in (1, 2)]
    rng = np.random.default_rng(5)
    case, control = (sample_rates(data, q, rng, Sampler(draws=1200)) for data in both)
    of_case, of_control = (
        exact_posterior(data.r, data.n, np.full(8, m), q.a0, q.b0) for data in both
    )
    above = expit(of_case.x)[:, None] - expit(of_control.x) > tau
    exact = np.einsum("jk,kl,jl->j", of_case.mass, above, of_control.mass, optimize=True)
    found = exceedance(case.draws, control.draws, tau)
    # The smallest effective number of draws bounds the error of a share; the grid's is below .01.
    assert np.all(np.abs(found - exact) < 0.01 + 4.5 * np.sqrt(0.25 / min(case.ess)))
    assert min(case.ess.min(), control.ess.min()) > 500
    assert max(case.r_hat.max(), control.r_hat.max()) < 1.03
    mean, sd = of_case.moments()
    assert_allclose(case.moments[:, 0], mean, atol=0.15 * sd.max())
    assert_allclose(case.moments[:, 1], sd, rtol=0.15)
    inside = (case.draws >= case.moments[:, 2]) & (case.draws <= case.moments[:, 5])
    assert_allclose(inside.mean(axis=0), 0.95, atol=0.01)


def test_the_difference_equals_draws_and_a_null_is_uniform():
    rng = np.random.default_rng(0)
    case = Local(np.array([4.0, 30.0]), np.array([900.0, 900.0]), np.zeros(2))
    control = Local(np.array([3.0, 12.0]), np.array([1000.0, 900.0]), np.zeros(2))
    x = rng.beta(case.delta, case.gamma, (200_000, 2))
    y = rng.beta(control.delta, control.gamma, (200_000, 2))
    for tau in (0.0, 5e-4, 0.02):
        found = compare(case, control, tau)
        assert_allclose(found.gain, (x - y > tau).mean(axis=0), atol=5e-3)
        assert_allclose(found.loss, (y - x > tau).mean(axis=0), atol=5e-3)
    assert_allclose(germline(case, 0.01), (x > 0.01).mean(axis=0), atol=5e-3)
    either = compare(control, case, 0.0, either_sign=True)
    assert_allclose(either.probability, np.maximum(either.gain, either.loss))


@pytest.mark.parametrize(
    ("narrow", "tau"), [((4e5, 6e5), 0.0), ((3.0, 4e6), 0.01), ((2e4, 10.0), 0.01)]
)
def test_the_difference_of_rates_of_very_different_widths(narrow, tau):
    wide = (0.4, 0.7)
    one, other = Beta(*np.array([narrow, wide]).T), Beta(*np.array([wide, narrow]).T)
    found = posterior_difference.exceedance(one, other, tau)
    a, b = stats.beta(*narrow), stats.beta(*wide)
    inside = a.ppf((np.arange(4000) + 0.5) / 4000)  # equal masses of the narrow one
    assert_allclose(found[0], b.cdf(inside - tau).mean(), atol=2e-5)
    assert_allclose(found[1], b.sf(inside + tau).mean(), atol=2e-5)


@pytest.mark.parametrize("log_m", [pytest.param(7.6, marks=pytest.mark.slow), 16.118])
def test_the_sampler_moves_where_nearly_all_rates_are_zero(log_m):
    """A0 of .0075 comes from clean reads: M mu underflows, and P(mu > mu') is 1/2 at most."""
    clean = Errors(np.zeros((20, 3), int), np.full((20, 3), 40))
    q = Global(0.0075, 0.638, log_m)
    one, other = (
        sample_rates(clean, q, np.random.default_rng(seed), Sampler(draws=300, warmup=300))
        for seed in (1, 2)
    )
    assert np.isfinite(one.r_hat).all()
    assert one.r_hat.max() < 2.0
    assert np.all(exceedance(one.draws, other.draws, 0.0) < 0.75)
    assert np.quantile(one.draws, 0.99) < 0.1


def test_cressie_read_is_scipy_s_and_empty_spectra_stay_finite():
    observed = np.array([[3.0, 0.0, 9.0], [1.0, 1.0, 1.0]])
    expected = observed.sum(axis=1, keepdims=True) / 3 * np.ones(3)
    exact = stats.power_divergence(observed, expected, axis=1, lambda_="cressie-read").statistic
    assert_allclose(cressie_read(observed, expected), exact, atol=1e-12)
    counts = np.array([[[0, 0, 0], [20, 0, 0]], [[0, 0, 0], [0, 0, 0]], [[3, 3, 3], [2, 3, 4]]])
    p = spectrum_p_value(counts)
    assert np.isfinite(p).all()
    assert p[0] < 1e-6
    assert p[1] == 1.0
    assert p[2] > 0.5
    shares = control_spectrum(np.array([[[50, 1, 1]], [[0, 0, 0]]]))
    assert_allclose(shares.sum(axis=1), 1.0)
    assert spectrum_p_value(np.array([[[30, 1, 0]], [[0, 0, 0]]]), shares)[0] > 0.05
