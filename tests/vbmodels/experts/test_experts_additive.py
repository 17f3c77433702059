"""The additive form: its columns, its leave-one-out, what it chooses, and that no cut matters."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from tests.vbmodels.experts.coded_rows import cut_coded, ran
from vbmodels.core.fit import fit
from vbmodels.core.linalg import pack, unpack
from vbmodels.experts.additive.blocks import BlockFit, Layout, climbed
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.newton import DesignSummary, evaluate_fit
from vbmodels.experts.posterior import mixed
from vbmodels.experts.terms.curves import Terms
from vbmodels.experts.terms.knots import RowSample
from vbmodels.tables.encoding import cell_keys

QUICK = AdditiveExperts(4, taus=(1.0, 10.0), n_restarts=2, evaluations=30, width_evaluations=5)


def drawn(f, n=400, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, columns))
    x[:, 1] = np.where(x[:, 1] > 0.0, x[:, 1], 0.0)
    return x, np.where(rng.random(n) < expit(f(x)), 1.0, -1.0)


TERMS = Terms(np.array([0]))


def expanded(batch, terms=TERMS):
    """Every line and function as a column, written out."""
    curves, lines = batch.basis.curves, batch.rows.lines(slice(None))
    found = [lines]
    for s, table in curves.tables(terms):
        above = (lines[:, curves.lines[s], None] > curves.knots_of(s)).sum(-1)
        found.append(table[above[:, 0]])
    return np.column_stack([*found, np.ones(batch.size)])


def mixed_columns(seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([
        rng.standard_normal(300), rng.random(300) < 0.3, rng.integers(0, 4, 300),
        np.full(300, 7.0), rng.exponential(1.0, 300) * (rng.random(300) < 0.3),
    ])  # fmt: skip
    return x, np.where(rng.random(300) < 0.5, 1.0, -1.0)


def test_products_are_those_of_the_columns_written_out():
    x, t = mixed_columns()
    (batch,) = cut_coded(x, t)
    full, rng = expanded(batch), np.random.default_rng(1)
    assert list(batch.basis.steps) == [8, 0, 3, 0, 8]
    assert list(batch.basis.curves.sizes) == [65, 2, 4, 2, 65]
    assert full.shape[1] == 5 + 16 + 3 + 16 + 48 + 1  # 64 functions of the first column
    w, slopes = rng.standard_normal(full.shape[1]), rng.random(300)
    assert_allclose(batch.project(w, terms=TERMS), full @ w, atol=1e-12)
    assert_allclose(batch.collect(slopes, terms=TERMS), slopes @ full, atol=1e-10)
    assert_allclose(batch.gram(slopes, terms=TERMS), pack((full.T * slopes) @ full), atol=1e-10)
    hessian = full.T @ full + np.eye(full.shape[1])
    found = np.einsum("ni,ij,nj->n", full, np.linalg.inv(hessian), full)
    assert_allclose(batch.spread(hessian, terms=TERMS), found, atol=1e-12)
    lines = np.column_stack([full[:, :5], full[:, -1:]])
    assert_allclose(batch.collect(slopes), slopes @ lines, atol=1e-10)
    assert_allclose(batch.project(w[:6]), lines @ w[:6], atol=1e-12)


def test_knots_hang_on_no_cut_and_on_no_copies():
    x, _ = drawn(lambda x: x[:, 0], n=9000, columns=500)  # more rows than a sample holds
    keys = cell_keys(x)
    fixed = np.zeros(500, bool)
    whole = RowSample.of(x, keys)
    assert len(whole.x) == 4000
    cuts = [RowSample.of(x[a::3], keys[a::3]) for a in (2, 0, 1)]
    merged = cuts[0] + (cuts[1] + cuts[2])
    twice = whole + RowSample.of(x[::-1], keys[::-1])
    for other in (merged, twice):
        np.testing.assert_array_equal(other.knots(fixed), whole.knots(fixed))
    assert twice.copies.min() == 2.0


def test_leaving_a_row_out_is_close_to_a_fit_without_it():
    x, t = drawn(lambda x: 2.0 * x[:, 0] - x[:, 2], n=60)
    (batch,) = cut_coded(x, t)
    observed = DesignSummary.of(batch)
    fit = ran(climbed(BlockFit.first(observed, -1), observed, 1e-12), [batch])
    full = expanded(batch, fit.terms)
    precision = Layout.of(observed, fit.terms).precision(fit.variances)

    def fitted(rows):
        def loss(w):
            f = t[rows] * (full[rows] @ w)
            slope = -(t[rows] * expit(-f)) @ full[rows] + precision * w
            return -log_expit(f).sum() + 0.5 * precision @ w**2, slope

        return minimize(loss, fit.coefficients, jac=True, method="BFGS", options={"gtol": 1e-9}).x

    assert_allclose(fitted(np.arange(60)), fit.coefficients, atol=1e-5)
    _, rows = evaluate_fit(fit.left_out(observed), batch, batch.t, None)
    exact = [
        log_expit(t[n] * (full[n] @ fitted(np.delete(np.arange(60), n)))) for n in range(0, 60, 5)
    ]
    assert_allclose(rows[::5], exact, rtol=0.04)
    assert np.abs(rows[::5] - log_expit(t * (full @ fit.coefficients))[::5]).max() > 0.05
    assert_allclose(
        unpack(fit.part(observed).covariance) @ fit.hessian(observed),
        np.eye(len(precision)), atol=1e-9,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "f"),
    [
        ("lines", lambda x: 1.5 * x[:, 0] - x[:, 2]),
        ("curves", lambda x: 3.0 * np.sign(np.abs(x[:, 0]) - 0.7)),
        ("intercept", lambda x: np.zeros(len(x)) - 1.0),
    ],
)
def test_leaving_rows_out_chooses_the_form(form, f):
    x, t = drawn(f, n=500, seed=3)
    done = fit(replace(QUICK, n_experts=1), cut_coded(x, t, 2))
    assert done.converged
    assert done.q.additive.form == form
    model = AdditiveExperts(1)
    new, labels = drawn(f, n=1000, seed=4)
    (batch,) = cut_coded(x, t, new=new)
    p = model.posterior(done.q).predict(batch).probability
    q = expit(f(new))
    loss = -np.mean(np.where(labels > 0, np.log(p), np.log1p(-p)))
    best = -np.mean(np.where(labels > 0, np.log(q), np.log1p(-q)))
    assert loss < best + 0.1
    odds = model.posterior(done.q).log_odds(batch)
    assert_allclose(expit(odds), p, rtol=1e-10)


def crossed(n, seed):
    """What no sum over columns can represent: the sign of a product."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    return x, np.where(rng.random(n) < expit(4.0 * np.sign(x[:, 0] * x[:, 1])), 1.0, -1.0)


def test_experts_stand_where_no_additive_form_does():
    x, t = crossed(600, 0)
    done = fit(QUICK, cut_coded(x, t, 2))
    assert done.q.points[0].log_sd is not None
    assert done.q.chosen.gain > 0.2
    new, labels = crossed(600, 1)
    (batch,) = cut_coded(x, t, new=new)
    loss = {}
    for name, posterior in (
        ("own", QUICK.posterior(done.q)), ("additive", QUICK.additive_part(done.q)),
        ("logistic", QUICK.baseline(done.q)),
    ):  # fmt: skip
        p = posterior.predict(batch).probability
        loss[name] = -np.mean(np.where(labels > 0, np.log(p), np.log1p(-p)))
    assert loss["own"] < loss["additive"] - 0.2
    assert loss["own"] < loss["logistic"] - 0.2
    shares = QUICK.posterior(done.q).predict(batch).responsibility
    assert_allclose(shares.sum(0), 1.0)
    drawn = QUICK.posterior(done.q).drawn_shares(batch, 8, 0)
    assert_allclose(drawn.sum(1), 600.0)
    halves = [QUICK.posterior(done.q).drawn_shares(b, 8, 0) for b in cut_coded(x, t, 2, new=new)]
    assert_allclose(halves[0] + halves[1], drawn)
    assert drawn.std(0).max() > 0.0


def test_a_table_twice_is_the_table():
    """The form, tau, the experts and what is said of new rows; copies in other partitions, too."""
    (x, t), found = crossed(200, 2), []
    for copies, parts in ((1, 1), (2, 1), (2, 3)):
        cells, labels = np.concatenate([x] * copies), np.concatenate([t] * copies)
        batches = [
            replace(one, rows=replace(one.rows, weight=one.rows.weight / copies), copies=copies)
            for one in cut_coded(cells, labels, parts)
        ]
        done = fit(QUICK, batches)
        (seen,) = cut_coded(x, t, new=x)
        found.append((done.q, QUICK.posterior(done.q).predict(seen).probability))
    (once, p), *others = found
    for q, again in others:
        assert q.additive.form == once.additive.form
        assert_allclose(q.additive.taus, once.additive.taus)
        assert_allclose(q.additive.left_out, once.additive.left_out, atol=1e-6)
        assert_allclose(q.additive.curves, once.additive.curves, atol=1e-6)
        assert_allclose(q.additive.error, once.additive.error, rtol=1e-4)
        assert q.chosen.best == once.chosen.best
        assert_allclose(again, p, atol=1e-4)


def test_no_probability_is_above_one_by_rounding():
    """Shares of ten experts that all are sure: their sum, not each, is what can pass 1."""
    rng = np.random.default_rng(12)
    at = rng.standard_normal((1, 2, 10, 5000))
    at[:, 1] = 40.0
    probability, _ = mixed(at, np.zeros(5000))
    assert probability.max() <= 1.0
    assert probability.min() > 1.0 - 1e-12
