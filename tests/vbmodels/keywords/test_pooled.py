"""Pooled VBSS: what the contract suite does not ask."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from scipy.special import digamma

from vbmodels.core.cavi import cavi
from vbmodels.core.fit import fit
from vbmodels.core.moments import Moments
from vbmodels.core.state import from_bytes, to_bytes
from vbmodels.keywords.labels import latent_importance, settle_detection
from vbmodels.keywords.pooled import PooledVBSS, coefficient_table, reliability
from vbmodels.keywords.simulate import simulate_pooled, split_documents, typical_coefficients

W = typical_coefficients(5, 0.3)


@pytest.fixture(scope="module")
def corpus():
    return simulate_pooled(np.random.default_rng(0), 600, coefficients=W)


@pytest.fixture(scope="module")
def fitted(corpus):
    batch, truth = corpus
    model = PooledVBSS(keyword_rate=truth.keyword_rate)
    return model, fit(model, split_documents(batch, 3))


# q(z) and q(alpha).


@pytest.mark.parametrize("eta", [-9.0, -1.3, 0.0, 0.4, 6.0])
@pytest.mark.parametrize(("y", "c"), [(True, 0.5), (False, 0.5), (False, 0.0), (False, 1.0)])
def test_latent_importance_against_quadrature(eta, y, c):
    def weight(z):
        return (float(y) if z <= 0 else 1.0) if y else (c if z > 0 else 1.0)

    def density(z, power=0):
        inside = (z > 0) if y else True
        return inside * weight(z) * stats.norm.pdf(z, eta) * z**power

    ends = (eta - 12.0, eta + 12.0) if not y else (0.0, max(eta, 0.0) + 12.0)
    points = [p for p in (0.0, eta, 0.4, 1.5) if ends[0] < p < ends[1]]
    norm = quad(density, *ends, points=points)[0]
    mean = quad(density, *ends, args=(1,), points=points)[0] / norm
    above = quad(density, 0.0, max(eta, 0.0) + 12.0)[0] / norm
    with np.errstate(divide="ignore"):
        got = latent_importance(np.array([eta]), np.array([y]), np.log(np.array([c])))
    assert_allclose(got.log_norm, np.log(norm), rtol=1e-6, atol=1e-7)
    assert_allclose(got.mean, mean, rtol=1e-6, atol=1e-12)
    assert_allclose(got.keyword, above, rtol=1e-6, atol=1e-9)


def test_a_listed_word_far_below_zero_keeps_its_digits():
    eta = np.array([-1e3, -1e5, -1e7])
    got = latent_importance(eta, np.ones(3, bool), np.full(3, -0.5))
    assert_allclose(got.mean, -1.0 / eta, rtol=1e-5)  # E z = 1/|eta| - 2/|eta|^3 + ...


def test_latent_importance_stays_finite_far_out():
    eta = np.array([-60.0, 60.0, -60.0, 60.0])
    y = np.array([True, True, False, False])
    for log_c in (0.0, -1.0, -np.inf):
        z = latent_importance(eta, y, np.full(4, log_c))
        assert np.isfinite(z.log_norm).all()
        assert np.isfinite(z.mean).all()
        assert np.all((z.keyword >= 0) & (z.keyword <= 1))
    # The mean of a normal cut far from its centre is 1/|eta| beyond the cut.
    assert_allclose(z.mean[[0, 3]], [1 / 60, -1 / 60], rtol=1e-3)


def test_detection_settles_where_plain_coordinate_ascent_does():
    rng = np.random.default_rng(3)
    sizes = np.array([1, 4, 30, 200])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    eta = rng.normal(-0.5, 1.5, offsets[-1])
    unlisted = rng.random(offsets[-1]) < 0.9
    a0, b = np.array([0.3, 12.0, 5.0, 1.0]), np.array([8.0, 3.0, 20.0, 1.0])
    odds = stats.norm.logcdf(eta) - stats.norm.logsf(eta)
    log_c, a = settle_detection(odds, unlisted, offsets, a0, b, np.full(4, -0.5))
    for d in range(4):
        rows = slice(offsets[d], offsets[d + 1])
        above = stats.norm.cdf(eta[rows])
        c = 0.7
        for _ in range(20_000):
            r = c * above / (1 - above + c * above)
            total = a0[d] + r[unlisted[rows]].sum()
            c = np.exp(digamma(total) - digamma(total + b[d]))
        assert_allclose(np.exp(log_c[d]), c, rtol=1e-9)
        assert_allclose(a[d], total, rtol=1e-9)


# Standardisation from reduced sums.


def test_moments_keep_their_digits_far_from_zero():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((5000, 3)) * [1.0, 1e-3, 1.0] + [1e8, 40.0, 0.0]
    cuts = [0, 1, 7, 7, 2000, 5000]
    parts = [Moments.of(rows[a:b]) for a, b in pairwise(cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total.weight == 5000
    assert_allclose(total.mean, rows.mean(0), rtol=1e-14)
    assert_allclose(total.sd(), rows.std(0), rtol=1e-7)
    assert_allclose(total.about(rows[0]), (rows - rows[0]).T @ (rows - rows[0]), rtol=1e-6)


def test_what_is_constant_does_not_depend_on_the_unit():
    rows = np.random.default_rng(1).standard_normal((50, 3)) + np.array([0.0, 3.0, 1e10])
    rows[:, 2] = rows[0, 2] * (1.0 + 1e-12 * rows[:, 0])
    for unit in (1e-100, 1e-12, 1.0, 1e12, 1e100):
        sd = Moments.of(unit * rows).sd()
        assert_allclose(sd[:2], unit * rows.std(0)[:2], rtol=1e-12)
        assert np.isinf(sd[2])
    assert np.isinf(Moments.of(np.zeros((5, 1))).sd())


def test_constant_columns_do_no_harm(corpus):
    batch, truth = corpus
    model = PooledVBSS(keyword_rate=truth.keyword_rate)
    constant = np.tile([0.1, -1e6], (batch.n_words, 1))
    wider = replace(batch, x=np.column_stack([batch.x, constant]))
    done = fit(model, [wider])
    assert_allclose(done.q.mean[-2:], 0.0, atol=1e-6)
    assert_allclose(np.diag(done.q.cov)[-2:], 1.0, rtol=1e-6)
    assert_allclose(done.q.mean[:-2], fit(model, [batch]).q.mean, atol=1e-6)


def test_moving_and_scaling_the_features_changes_nothing(corpus):
    batch, truth = corpus
    model = PooledVBSS(keyword_rate=truth.keyword_rate)
    moved = batch.x.copy()
    moved[:, 1:] = 1e5 + 30.0 * moved[:, 1:]
    one, two = fit(model, [batch]), fit(model, [replace(batch, x=moved)])
    assert_allclose(two.q.mean, one.q.mean, atol=1e-6)
    assert_allclose(two.trace[-1], one.trace[-1], rtol=1e-9)


# The fit.


def test_acceleration_reaches_the_fixed_point(corpus, fitted):
    batch, _ = corpus
    model, done = fitted
    plain = fit(model, [batch], loop=cavi, tol=1e-14, max_iter=5000)
    assert plain.iterations > 4 * done.iterations
    r = [model.probabilities(q, batch, model.local_step(q, batch, None)) for q in (done.q, plain.q)]
    assert np.abs(r[0] - r[1]).max() < 1e-3


def test_a_warm_local_step_and_a_cold_one_agree(corpus, fitted):
    batch, _ = corpus
    for tau in (None, 5.0):
        model = replace(fitted[0], document_precision=tau)
        q = fitted[1].q
        start = replace(q, mean=q.mean + 0.3)
        cold = model.local_step(q, batch, None)
        warm = model.local_step(q, batch, model.local_step(start, batch, None))
        assert_allclose(warm.log_c, cold.log_c, atol=1e-9)
        assert_allclose(warm.intercept, cold.intercept, atol=1e-9)


def test_probabilities_are_calibrated(corpus, fitted):
    batch, truth = corpus
    model, done = fitted
    r = model.probabilities(done.q, batch, model.local_step(done.q, batch, None))
    assert np.all(r[batch.y] == 1.0)
    hidden = ~batch.y
    order = np.argsort(r[hidden])
    for group in np.array_split(order, 5):
        found = truth.keyword[hidden][group].mean()
        assert abs(found - r[hidden][group].mean()) < 0.05


def test_complete_documents_are_read_as_truth_and_give_the_rate():
    batch, truth = simulate_pooled(np.random.default_rng(5), 400, coefficients=W, n_complete=60)
    model = PooledVBSS()
    done = fit(model, [batch])
    assert abs(done.q.rate - truth.keyword_rate) < 0.02
    assert reliability(done.q, rate_given=False).reliable
    local = model.local_step(done.q, batch, None)
    r = model.probabilities(done.q, batch, local)
    inside = np.repeat(batch.complete, batch.sizes)
    assert_allclose(r[inside], batch.y[inside])
    assert_allclose(r[~inside].mean(), truth.keyword[~inside].mean(), atol=0.03)


def test_without_a_rate_the_fit_says_that_it_is_not_calibrated(corpus):
    batch, truth = corpus
    model = PooledVBSS()
    q = fit(model, [batch]).q
    seen = reliability(q, rate_given=False)
    assert not seen.reliable
    assert "keyword_rate" in seen.reasons[0]
    # It ranks none the worse for that.
    r = model.probabilities(q, batch, model.local_step(q, batch, None))
    hidden = ~batch.y
    keyword = truth.keyword[hidden]
    area = stats.mannwhitneyu(r[hidden][keyword], r[hidden][~keyword]).statistic
    assert area / (keyword.sum() * (~keyword).sum()) > 0.7
    few = fit(replace(model, keyword_rate=0.3), split_documents(batch, 20)[:1]).q
    assert "30 documents" in reliability(few, rate_given=True).reasons[0]


def test_a_new_document_is_scored_with_what_was_fitted(corpus, fitted):
    model, done = fitted
    q = from_bytes(to_bytes(done.q), type(done.q))
    new, truth = simulate_pooled(np.random.default_rng(77), 300, coefficients=W)
    r = model.predict(q, new)
    hidden = ~new.y
    assert abs(r[hidden].mean() - truth.keyword[hidden].mean()) < 0.03
    # A document is scored alone as it is among others, and with no keyword known at all.
    alone = split_documents(new, 300)[17]
    assert_allclose(model.predict(q, alone), r[new.words(17)], rtol=1e-9)
    bare = model.predict(q, replace(alone, y=np.zeros(alone.n_words, dtype=bool)))
    assert np.all((bare > 0) & (bare < 1))


def test_the_posterior_table_names_every_coefficient(fitted):
    _, done = fitted
    names = ("constant", "a", "b", "c", "d", "e")
    table = coefficient_table(done.q, names)
    assert [row[0] for row in table] == list(names)
    assert all(sd > 0 for _, _, sd in table)
    with pytest.raises(ValueError, match="expected 5 names"):
        coefficient_table(replace(done.q, mean=done.q.mean[:5]), names)


@pytest.mark.parametrize(
    "wrong", [{"keyword_rate": 0.0}, {"keyword_rate": 1.2}, {"concentration": -1}]
)
def test_impossible_priors_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PooledVBSS(**wrong)
