"""The two-groups test: quadrature against other code, EM, calls, posteriors, odd inputs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, gammaln, logit, logsumexp

from tests.contract import ends
from tests.contract.case_two_groups import brute_force
from vbmodels.core.fit import fit
from vbmodels.core.state import leaves
from vbmodels.variants import elementary_kernels as elementary
from vbmodels.variants import quadrature
from vbmodels.variants.calls import (
    e_bh,
    local_fdr,
    q_values,
)
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.simulate import simulate
from vbmodels.variants.two_groups import posterior, table
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups
from vbmodels.variants.two_groups.posterior import log_bayes_factors, without_control

MODEL = TwoGroups()


def counts(seed=0, **settings) -> Counts:
    options = dict(n_locations=20, n_variants=3, vaf=0.02, depth=1000, n_replicates=2)
    return simulate(np.random.default_rng(seed), **(options | settings))[0]


def start(batch: Counts, model=MODEL):
    return model.init(model.observe(batch), np.random.default_rng(0))


def log_bf(batch: Counts, q, model=MODEL):
    m0, m1, _ = model.e_step(q, table.tabulate(units(batch), q.anchor))
    return m1 - m0


@pytest.mark.parametrize(("nodes", "tolerance"), [(40, 1e-3), (100, 1e-7)])
def test_both_marginals_equal_a_uniform_grid_by_other_code(monkeypatch, nodes, tolerance):
    monkeypatch.setattr(quadrature, "N_NODES", nodes)
    batch = counts(n_locations=3, n_variants=2, depth=300)
    q, of = start(batch), units(batch)
    tabulated = table.tabulate(of, q.anchor)
    m0, m1, _ = MODEL.e_step(q, tabulated)
    for u in range(0, len(of), 2):
        exact = brute_force(of.alt_reads[u], of.depth[u], of.case, of.kind[u], q)
        found = np.array([m0[u], m1[u]]) + tabulated.log_binomial[u]
        assert_allclose(found, exact, rtol=0, atol=tolerance)


def test_functions_without_branches_are_the_library_s():
    x = np.concatenate([np.linspace(-700.0, 700.0, 401), [0.0, -1e-300, 1e-17, 5e-324]])
    assert_allclose([elementary.exp(v) for v in x], np.exp(x), rtol=1e-15)
    assert elementary.exp(-np.inf) == pytest.approx(np.exp(-700.0))
    y = np.concatenate([np.exp(x), np.linspace(0.4, 2.5, 400), [np.nextafter(1.0, 2.0)]])
    assert_allclose([elementary.log(v) for v in y], np.log(y), rtol=4e-16, atol=0)
    e = np.concatenate([np.geomspace(1e-300, 1.0, 400), [0.0]])
    assert_allclose([elementary.softplus(v) for v in e], np.log1p(e), rtol=1e-15)
    z = np.geomspace(1e-80, 1e7, 300)
    exact = gammaln(z) - 0.5 * np.log(2.0 * np.pi)
    found = [elementary.log_gamma_any(v) for v in z]
    assert_allclose(found, exact, rtol=1e-13, atol=1e-13)
    large = z[z >= 10.0]
    assert_allclose([elementary.log_gamma_large(v) for v in large], exact[z >= 10.0], rtol=1e-14)


def test_order_of_replicates_and_empty_ones_change_nothing():
    batch = counts()
    q = start(batch)
    before = log_bf(batch, q)
    order = np.array([1, 0, 3, 2])
    swapped = Counts(batch.counts[:, order], batch.ref, batch.case[order])
    assert_allclose(log_bf(swapped, q), before, atol=1e-9)
    empty = np.concatenate([batch.counts, np.zeros_like(batch.counts[:, :1])], axis=1)
    for sample in (True, False):
        more = Counts(empty, batch.ref, np.append(batch.case, sample))
        assert_allclose(log_bf(more, q), before, atol=1e-9)


def test_without_reads_nothing_is_learnt():
    batch = counts()
    for missing in (batch.case, ~batch.case, np.ones(4, bool)):
        cleared = batch.counts.copy()
        cleared[:, missing] = 0
        q = start(batch)
        bf = log_bf(Counts(cleared, batch.ref, batch.case), q, TwoGroups(sense="either"))
        if missing[batch.case].all():
            assert_allclose(bf, 0.0, atol=1e-3)
        assert np.isfinite(bf).all()


def test_partitions_without_a_location_to_be_fitted_on_change_nothing():
    counts, _ = simulate(np.random.default_rng(3), n_locations=40, n_variants=2)
    marked = replace(counts, weight=np.ones(40))
    left_out = replace(counts, weight=np.zeros(40))
    alone = fit(MODEL, [marked], tol=1e-5)
    among = fit(MODEL, [left_out, marked, left_out], tol=1e-5)
    assert_allclose(MODEL.to_vector(among.q), MODEL.to_vector(alone.q), rtol=1e-9)


def test_germline_finds_a_heterozygous_site_without_control():
    batch, truth = simulate(np.random.default_rng(2), n_locations=60, n_variants=5, vaf=0.5)
    alone = Counts(batch.counts[:, :3], batch.ref, np.ones(3, bool))
    model = TwoGroups(sense="germline")
    done = fit(model, [alone], tol=1e-6)
    of = units(alone)
    called = q_values(local_fdr(log_bf(alone, done.q, model), done.q.pi)) <= 0.05
    assert set(of.location[called]) == set(truth.location)


@pytest.mark.parametrize(
    ("replicates", "depth"), [(1, 1_000_000), (3, 1000), (3, 10_000), (12, 1_000_000)]
)
@pytest.mark.parametrize("sense", ["gain", "either"])
def test_kernels_hold_where_case_and_control_exclude_one_another(replicates, depth, sense):
    """One homozygous for the reference, the other for the allele: likelihoods below e^-700."""
    reads = np.zeros((2, 2 * replicates, 4), np.int32)
    reads[0, :replicates, 0] = reads[0, replicates:, 2] = depth  # loss of G
    reads[1, :replicates, 2] = reads[1, replicates:, 0] = depth  # gain of G
    case = np.arange(2 * replicates) < replicates
    batch = Counts(reads, np.zeros(2, np.int8), case)
    model = TwoGroups(sense=sense, alternatives=MIXTURE)
    q = start(batch, model)
    tabulated = table.tabulate(units(batch), q.anchor)
    m0, m1, sums = model.e_step(q, tabulated)
    loss, gain = (m1 - m0)[[1, 4]]
    assert gain > 3
    assert loss < 0 if sense == "gain" else loss > 3
    assert all(np.isfinite(leaf).all() for _, leaf in leaves(sums))
    rates, _ = posterior.rates(model, q, tabulated)
    assert np.isfinite(rates.mean).all()
    # A loss is none of the gain's hypotheses: one rate for both is then the better of two.
    assert rates.mean[1] < (0.51 if sense == "gain" else 0.01)
    assert rates.mean[4] > 0.99


@pytest.mark.parametrize(
    ("nodes", "tolerance"), [(40, 0.06), pytest.param(100, 0.01, marks=pytest.mark.thorough)]
)
def test_posteriors_of_mu_equal_a_uniform_grid(monkeypatch, nodes, tolerance):
    monkeypatch.setattr(quadrature, "N_NODES", nodes)
    batch = counts(n_locations=4, n_variants=2, depth=400)
    q = replace(start(batch), pi=0.2, w=0.05)
    of = units(batch)
    tabulated = table.tabulate(of, q.anchor)
    case, control = posterior.rates(MODEL, q, tabulated)
    x = np.linspace(-180.0, 20.0, 16_001)
    mu, width = expit(x), expit(x) * expit(-x)
    log_p = stats.norm.logpdf(np.log(table.M_NODES), q.log_m_mean, q.log_m_sd)
    p = np.exp(log_p - logsumexp(log_p))
    broad = stats.beta(0.1, 0.1).pdf(mu) * width
    for u in (0, 4, 7):
        e = (1 - q.w) * stats.beta(q.a[of.kind[u]], q.b[of.kind[u]]).pdf(mu) * width + q.w * broad
        both = np.zeros((2, len(x)))
        for m, weight in zip(table.M_NODES, p, strict=True):
            like = [
                np.exp(sum(stats.betabinom.logpmf(k, n, m * mu, m * expit(-x)) for k, n in rows))
                for rows in (
                    list(zip(of.alt_reads[u, of.case == c], of.depth[u, of.case == c], strict=True))
                    for c in (True, False)
                )
            ]
            f = like[1] * e / stats.beta(0.1, 0.1).sf(mu)
            g = like[0] * broad
            step = x[1] - x[0]
            below = (np.cumsum(f) - 0.5 * f) * step
            above = (np.cumsum(g[::-1])[::-1] - 0.5 * g) * step
            null = (1 - q.pi) * like[0] * like[1] * e
            both += weight * np.stack([null + q.pi * g * below, null + q.pi * f * above])
        both /= both.sum(axis=1, keepdims=True)
        for rate, mass in zip((case, control), both, strict=True):
            mean = mass @ mu
            assert_allclose(rate.mean[u], mean, rtol=1e-3)
            assert_allclose(rate.sd[u], np.sqrt(mass @ (mu - mean) ** 2), rtol=1e-3)
            exact = np.interp(posterior.LEVELS, np.cumsum(mass) - 0.5 * mass, x)
            found = np.log(rate.quantiles[u]) - np.log1p(-rate.quantiles[u])
            assert_allclose(found, exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize("alternatives", [((0.1, 0.1),), MIXTURE])
def test_posteriors_of_counts_at_their_ends_are_finite_and_in_order(alternatives):
    model = TwoGroups(alternatives=alternatives)
    for name, batches in ends.tables_of_counts().items():
        q = start(batches[0], model)
        for rate in posterior.rates(model, q, table.tabulate(units(batches[0]), q.anchor)):
            assert np.isfinite(rate.mean).all(), name
            assert np.isfinite(rate.sd).all(), name
            assert (np.diff(rate.quantiles, axis=1) >= 0.0).all(), name
            assert ((rate.quantiles >= 0.0) & (rate.quantiles <= 1.0)).all(), name


def test_q_values_and_e_bh():
    lfdr = np.array([0.9, 0.01, 0.2, 0.02, 1.0])
    q = q_values(lfdr)
    assert_allclose(q[[1, 3, 2]], [0.01, 0.015, 0.23 / 3])
    assert np.all(np.diff(q[np.argsort(lfdr)]) >= 0)
    bf = np.log(np.array([100.0, 99.0, 49.0, 1.0, 1.0]))
    # U / (level k) = 100, 50, 33.3 for k = 1, 2, 3 at level .05.
    assert e_bh(bf, 0.05).tolist() == [True, True, True, False, False]
    assert not e_bh(np.log(np.array([99.0, 1.0, 1.0, 1.0, 1.0])), 0.05).any()


@pytest.mark.parametrize("depth", [50, 2000])
def test_evidence_of_a_case_alone_rises_with_the_share(depth):
    """An allele of all reads is no less sure than one of a twentieth."""
    shares = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0])
    counts = np.zeros((len(shares), 1, 4), np.int32)
    counts[:, 0, 1] = np.round(shares * depth)
    counts[:, 0, 0] = depth - counts[:, 0, 1]
    batch = Counts(counts, np.zeros(len(shares), np.int8), np.array([True]))
    of = units(batch)
    model = TwoGroups("germline", MIXTURE)
    rate = np.full(12, 5e-4)
    q = replace(start(batch, model), a=np.full(12, 2.0), b=2.0 / rate, log_m_mean=np.log(8000.0))
    score = log_bayes_factors(model, q, of)[of.alt_reads[:, 0] > 0]
    assert (np.diff(score) > 0).all()


def test_without_a_control_s_reads_the_case_is_compared_with_its_own_errors():
    model = BatchNull("gain", MIXTURE)
    counts = np.zeros((30, 2, 4), np.int32)
    counts[:, :, 0] = 500
    counts[::10, 0, 1], counts[::10, 1, :] = 400, 0
    batch = Counts(counts, np.zeros(30, np.int8), np.array([True, False]))
    q = replace(start(batch, model), shift=np.full(12, 1.0))
    alone, at = without_control(model, q)
    assert alone.sense == "germline"
    assert_allclose(logit(at.a / (at.a + at.b)), logit(q.a / (q.a + q.b)) + 1.0, rtol=1e-9)
    score = log_bayes_factors(alone, at, units(batch))
    assert (score[::30] > 30.0).all()
