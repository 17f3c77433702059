"""Curves and their own variances: functions, the evidence of a screen, and that no cut matters."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import multivariate_normal

from tests.vbmodels.experts.coded_rows import cut_coded, ran
from vbmodels.core.fit import fit
from vbmodels.core.linalg import unpack
from vbmodels.core.state import from_bytes, to_bytes
from vbmodels.experts.additive.blocks import (
    BELIEF,
    POOL,
    SMOOTH,
    USUAL,
    BlockFit,
    Layout,
    climbed,
    fit_curves,
)
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.terms.curves import Curves, Terms
from vbmodels.experts.terms.evidence import evidence, freed
from vbmodels.experts.terms.pairs import VARIANCES, log_odds, pair_tables
from vbmodels.experts.terms.screen import Residuals, Screen, refined


def spiked(n, seed):
    """A curve with a narrow band that smooth functions cannot follow, a line, and noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    band = 4.0 * ((x[:, 0] > 0.3) & (x[:, 0] < 0.42)) + x[:, 1]
    return x, np.where(rng.random(n) < expit(band - 0.5), 1.0, -1.0)


def test_functions_have_the_covariance_of_the_walk():
    """Their products are the centred walk's covariance; v is the variance of the curve."""
    (batch,) = cut_coded(*spiked(900, 0))
    curves = batch.basis.curves
    share = curves.share(0)
    full = np.column_stack([curves.smooth(0), curves.fine(0)])
    up = 1.0 - np.cumsum(share)[:-1]
    after = np.tri(65, 64, -1)
    walk = (after * (up * (1.0 - up)) ** -0.5) @ after.T
    centre = np.eye(65) - share
    kernel = centre @ walk @ centre.T
    kernel /= share @ np.diag(kernel)
    assert_allclose(full @ full.T, kernel, atol=1e-8)
    assert_allclose(share @ full, 0.0, atol=1e-9)
    assert_allclose(share @ (full**2).sum(1), 1.0)
    again = from_bytes(to_bytes(curves), Curves)
    assert_array_equal(again.smooth(0), curves.smooth(0))


def test_a_category_is_one_block_whose_variance_is_that_of_its_levels():
    rng = np.random.default_rng(3)
    level = rng.integers(0, 4, 500)
    x = np.column_stack([rng.standard_normal(500), *(level == k for k in range(3))]).astype(float)
    t = np.where(rng.random(500) < 0.5, 1.0, -1.0)
    (batch,) = cut_coded(x, t)
    curves = Curves.of(
        batch.rows.lines(slice(None)), np.ones_like(x, bool), np.ones(500),
        np.array([False, True, True, True]), np.array([0, 1, 1, 1]),
    )  # fmt: skip
    assert_array_equal(curves.levels_of(batch.rows.lines(slice(None)))[:, 1], level)
    object.__setattr__(batch.basis, "curves", curves)
    observed = DesignSummary.of(batch)
    layout = Layout.of(observed, Terms.none())
    drawn = rng.standard_normal((4000, 3)) * np.sqrt(0.7 / layout.scale[1:4])
    assert_allclose(np.var(drawn @ x[:, 1:].T, axis=1).mean(), 0.7, rtol=0.1)


def test_variances_end_where_the_evidence_has_its_fixed_point():
    x, t = spiked(2000, 1)
    (batch,) = cut_coded(x, t)
    observed = DesignSummary.of(batch)
    found = ran(climbed(BlockFit.first(observed, -1), observed, 1e-9), [batch])
    layout = Layout.of(observed, found.terms)
    precision = layout.precision(found.variances)
    assert_allclose(found.evaluation.slope, precision * found.coefficients, atol=2e-3)
    covariance = np.linalg.inv(found.hessian(observed))
    square, gamma = np.zeros((2, layout.kind.size))
    for g in range(layout.kind.size):
        own = layout.block == g
        square[g] = (layout.scale * found.coefficients**2)[own].sum()
        spread = (layout.scale * np.diag(covariance))[own].sum()
        gamma[g] = own.sum() - spread / found.variances[g]
    of = layout.kind == SMOOTH
    usual = (square[of].sum() + BELIEF * USUAL[SMOOTH]) / (gamma[of].sum() + BELIEF)
    fixed = (square[of] + POOL * usual) / (gamma[of] + POOL)
    assert np.abs(np.log(found.variances[of] / fixed)).max() < 0.5
    assert found.variances[of].argmax() == 0


def test_evidence_is_the_gain_over_no_block():
    """log N(h; 0, A + v A^2) - log N(h; 0, A), the score of a block being N(0, A) without one."""
    rng = np.random.default_rng(5)
    functions = rng.standard_normal((9, 3))
    first, second = rng.standard_normal(9), rng.random(9) + 0.5
    a = functions.T @ (functions * second[:, None])
    h = functions.T @ first
    for v in (0.01, 0.3, 4.0):
        wide = multivariate_normal(np.zeros(3), a + v * a @ a).logpdf(h)
        exact = wide - multivariate_normal(np.zeros(3), a).logpdf(h)
        own = np.zeros((9, 1))  # nothing to free it of
        assert_allclose(evidence(*freed(functions, own, first, second), np.array([v]))[0], exact)


def test_a_band_is_refined_and_noise_is_not():
    batches = cut_coded(*spiked(4000, 2), 3)
    counted = [DesignSummary.of(b) for b in batches]
    observed = counted[0] + counted[1] + counted[2]
    assert_allclose(observed.rows, 4000)
    found = ran(fit_curves(observed, BlockFit.first(observed, -1), 1e-6 * 4000), batches)
    assert_array_equal(found.terms.refined, [0])
    start = BlockFit.first(observed, -1)
    screen = Screen(start.coefficients, start.terms, -1)
    (together,) = cut_coded(*spiked(4000, 2))
    whole, parts = screen.sums(together), [screen.sums(b) for b in batches]
    assert_allclose((parts[0] + parts[1] + parts[2]).second, whole.second, rtol=1e-12)
    rng = np.random.default_rng(0)
    noise = Residuals(rng.standard_normal(195), np.ones(195))
    columns, _ = refined(observed.curves, noise)
    assert columns.size == 0


def crossed(n, seed, d=4):
    """The sign of a product, which no sum of curves follows, a line, and noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    p = expit(3.0 * np.sign(x[:, 0] * x[:, 1]) + x[:, 2])
    return x, np.where(rng.random(n) < p, 1.0, -1.0)


def test_a_pair_says_nothing_of_either_column_and_its_products_are_right():
    x, t = spiked(400, 6)
    (batch,) = cut_coded(x, t)
    curves = batch.basis.curves
    terms = Terms(np.array([0]), np.array([[0, 2], [1, 2]]))
    ((_, a, b), other) = pair_tables(curves, terms)
    assert_allclose(curves.share(0) @ a, 0.0, atol=1e-9)
    assert_allclose(curves.share(2) @ b, 0.0, atol=1e-9)
    more = [a[batch.levels[:, 0]] * b[batch.levels[:, 2]]]
    more.append(other[1][batch.levels[:, 1]] * other[2][batch.levels[:, 2]])
    curved = [table[batch.levels[:, s]] for s, table in curves.tables(terms)]
    full = np.column_stack([batch.rows.lines(slice(None)), *curved, *more, np.ones(400)])
    w = np.random.default_rng(0).standard_normal(full.shape[1])
    assert_allclose(batch.project(w, terms=terms), full @ w, atol=1e-10)
    assert_allclose(batch.collect(t, terms=terms), t @ full, atol=1e-9)
    assert_allclose(unpack(batch.gram(t**2, terms=terms)), full.T @ full, atol=1e-8)


def test_looking_at_many_pairs_takes_none_of_noise_and_the_one_that_is_there():
    rng = np.random.default_rng(1)
    noise = 0.3 * rng.standard_normal((45, VARIANCES.size)).cumsum(1) - 1.0
    assert (log_odds(noise) < 0.0).all()
    noise[7] += 12.0
    assert_array_equal(np.flatnonzero(log_odds(noise) > 0.0), [7])
    # Many that are a little better than chance are there together.
    assert (log_odds(np.full((45, VARIANCES.size), 2.0)) > 0.0).all()


def test_pairs_that_are_there_are_found_by_any_cut_and_predict():
    x, t = crossed(900, 0)
    model, found = AdditiveExperts(2, taus=(10.0,), n_restarts=1, evaluations=10), []
    new, truth = crossed(3000, 1)
    for parts in (1, 4):
        done = fit(model, cut_coded(x, t, parts), max_iter=5000)
        (rows,) = cut_coded(x, t, new=new)
        posterior = model.posterior(done.q)
        found.append((done.q, posterior, posterior.predict(rows).probability))
    (one, posterior, p), (four, _, other) = found
    assert_array_equal(one.paired[0].terms.pairs, [[0, 1]])
    for a, b in zip(one.paired, four.paired, strict=True):
        assert_array_equal(a.terms.pairs, b.terms.pairs)
        assert_allclose(b.coefficients, a.coefficients, atol=1e-8)
    assert_allclose(other, p, atol=1e-8)
    assert posterior.pairs_weight > 0.5
    assert_allclose(posterior.log_odds(rows), np.log(p / (1.0 - p)), rtol=1e-8, atol=1e-8)
    alone = model.additive_part(one).predict(rows).probability
    loss = [-np.mean(np.log(np.where(truth > 0, q, 1.0 - q))) for q in (p, alone)]
    assert loss[0] < loss[1] - 0.1
    again = from_bytes(to_bytes(posterior), type(posterior))
    assert_array_equal(again.predict(rows).probability, p)
