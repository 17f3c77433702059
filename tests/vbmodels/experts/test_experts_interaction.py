"""A Gaussian process of all columns, with lines and stacked with the rest."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import chi2_contingency

from tests.vbmodels.experts.coded_rows import cut_coded, ran
from vbmodels.core.fit import fit
from vbmodels.core.state import from_bytes, to_bytes
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.newton import LINES_TAU, DesignSummary, evaluate_fit
from vbmodels.experts.additive.ridge import RidgeFit, newton
from vbmodels.experts.additive.stacking import WEIGHTS
from vbmodels.experts.rows import FOLDS, HELD, never_held
from vbmodels.experts.terms.interactions import LEVELS, SCALES, InteractionGP, relevance


def interaction_rows(n, seed, d=4):
    """A product's sign, which no sum of curves represents."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    p = expit(3.0 * np.sign(x[:, 0] * x[:, 1]) + x[:, 2])
    return x, np.where(rng.random(n) < p, 1.0, -1.0)


def without_curves(batch):
    return replace(batch, basis=replace(batch.basis, curves=None))


def climbed(parts, tau):
    observed = sum((DesignSummary.of(b) for b in parts[1:]), DesignSummary.of(parts[0]))
    size = observed.sums.size + observed.interaction.size
    start = RidgeFit.at(tau, np.zeros(size), joint=True)
    return ran(newton(start, observed, 1e-13), parts), observed


def test_columns_have_the_kernel_as_their_product():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 3))
    label = np.zeros((150, 2))
    label[np.arange(150), (x[:, 0] > 0.3).astype(int)] = 1.0
    found = InteractionGP.of(x, np.ones(150), label, 200)
    columns = found.columns(x) + found.centre
    ranks = np.array([[np.mean(x[:, d] < v) for d, v in enumerate(row)] for row in x])
    weight = relevance(ranks, label)
    assert weight[0] > 2.0 * weight[1:].max()
    apart = (np.abs(ranks[:, None] - ranks[None]) * weight).sum(2)
    length = np.median(apart[np.triu_indices(150, 1)])
    kernel = np.mean([np.exp(-apart / (m * length)) for m in SCALES], axis=0)
    product = columns @ columns.T
    assert np.corrcoef(product.ravel(), kernel.ravel())[0, 1] > 0.99
    assert_allclose(found.columns(x).mean(0), 0.0, atol=1e-12)
    assert_allclose((found.columns(x) ** 2).sum(1).mean(), 1.0)


def test_relevance_is_the_mean_square_contingency():
    """Compared with scipy's chi^2 of the same table; copies count as rows."""
    rng = np.random.default_rng(1)
    ranks = np.column_stack(
        [rng.random(400), rng.integers(0, 2, 400) * 0.5 + 0.25, np.full(400, 0.5)]
    )
    label = (rng.random(400) < 0.2 + 0.5 * ranks[:, 0]).astype(int) + (rng.random(400) < 0.1)
    copies = rng.integers(1, 4, 400)
    classes = np.eye(3)[label] * copies[:, None]
    found = relevance(ranks, classes)
    for d in (0, 1):
        level = (ranks[:, d] * LEVELS).astype(int)
        table = np.zeros((LEVELS, 3))
        np.add.at(table, (level, label), copies)
        table = table[table.sum(1) > 0]
        chi2 = chi2_contingency(table, correction=False).statistic
        assert_allclose(found[d], np.sqrt(chi2 / copies.sum()))
    assert found[2] == 0.0
    assert_array_equal(relevance(ranks, np.zeros((400, 2))), np.ones(3))
    assert_array_equal(relevance(np.full((9, 2), 0.5), np.ones((9, 2))), np.ones(2))


def test_relevance_is_taken_from_parts_that_are_never_held_out():
    """Labels of the parts that choose the weight change no column of the process."""
    x, t = interaction_rows(300, 10)
    (batch,) = cut_coded(x, t, joint=True)
    part = batch.rows.fold(FOLDS)
    assert_array_equal(never_held(batch.rows.group), part >= HELD)
    assert 0 < np.count_nonzero(part < HELD) < 300
    (turned,) = cut_coded(x, np.where(part < HELD, -t, t), joint=True)
    assert_array_equal(turned.interaction, batch.interaction)
    (other,) = cut_coded(x, np.where(part == FOLDS - 1, -t, t), joint=True)
    found = other.basis.interaction.relevance - batch.basis.interaction.relevance
    assert np.abs(found).max() > 0.01


def test_fit_is_the_maximum_of_what_is_written():
    x, t = interaction_rows(120, 1)
    (batch,) = cut_coded(x, t, joint=True)
    climb, _ = climbed([batch], 0.5)
    columns = batch.interaction
    lines = np.asarray(batch.rows.dense)[:, :-1]
    variance = lines.var(0) + 10.0 / len(t)

    def down(w):
        a, b, c = w[: lines.shape[1]], w[lines.shape[1] : -1], w[-1]
        prior = LINES_TAU * variance @ a**2 + 0.5 * b @ b + 0.1 * c**2
        return 0.5 * prior - log_expit(t * (lines @ a + columns @ b + c)).sum()

    found = minimize(down, np.zeros(climb.coefficients.size), tol=1e-10, options={"maxiter": 5000})
    assert_allclose(climb.coefficients, found.x, atol=2e-4)


def test_leaving_rows_out_in_closed_form_is_near_leaving_them_out():
    x, t = interaction_rows(60, 2)
    (batch,) = cut_coded(x, t, joint=True)
    climb, observed = climbed([batch], 1.0)
    _, found = evaluate_fit(climb.left_out(observed), batch, batch.t, None)
    design = np.column_stack([np.asarray(batch.rows.dense)[:, :-1], batch.interaction, np.ones(60)])
    precision = observed.precision(1.0, True)
    exact = []
    for n in range(60):
        seen, w = np.arange(60) != n, climb.coefficients.copy()
        for _ in range(30):
            p = expit(-t[seen] * (design[seen] @ w))
            h = (design[seen].T * (p * (1 - p))) @ design[seen] + np.diag(precision)
            w = w + np.linalg.solve(h, design[seen].T @ (t[seen] * p) - precision * w)
        exact.append(log_expit(t[n] * (design[n] @ w)))
    assert abs(np.mean(found) - np.mean(exact)) < 0.01
    assert np.corrcoef(found, exact)[0, 1] > 0.995


def test_weight_is_that_of_rows_held_out():
    """The sums of all weights, by fits that share no line with the model's."""
    x, t = interaction_rows(600, 4)
    parts = [without_curves(b) for b in cut_coded(x, t, 3, joint=True)]  # nor pairs
    model = AdditiveExperts(2, n_restarts=2, evaluations=20, tau=10.0)
    done = fit(model, parts, seed=0, max_iter=5000)
    assert done.q.additive.weight > 0.3
    posterior = model.posterior(done.q)
    new, truth = interaction_rows(3000, 5)
    rows = without_curves(*cut_coded(x, t, new=new, joint=True))

    def loss(one):
        p = one.predict(rows).probability
        return -np.mean(np.log(np.where(truth > 0, p, 1.0 - p)))

    assert loss(posterior) < loss(model.without_process(done.q)) - 0.01
    p = posterior.predict(rows).probability
    assert_allclose(posterior.log_odds(rows), np.log(p / (1.0 - p)), rtol=1e-9, atol=1e-9)
    w = posterior.weight
    assert any(
        np.allclose(row, [posterior.own_weight, posterior.pairs_weight, w]) for row in WEIGHTS
    )
    own = model.without_process(done.q).predict(rows).probability
    process = expit(rows.project(posterior.process.coefficients, True))
    assert_allclose(p, (1.0 - w) * own + w * process, rtol=1e-12)
    again = from_bytes(to_bytes(posterior), type(posterior))
    assert_array_equal(again.predict(rows).probability, p)
