"""VBSS beyond the contract: the text's own algebra, its collapse, real abstracts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from reproduce.keyword_documents import fit_documents
from tests.vbmodels.keywords.keyword_documents import batch_of, real_documents
from vbmodels.core.fit import fit
from vbmodels.keywords.vbss.model import VBSS

pytestmark = pytest.mark.thorough  # a form of the papers

FORMS = ["full", "mean_field"]


@pytest.fixture(scope="module")
def abstracts(shared_data):
    return real_documents(shared_data / "keywords" / "hulth_eval.parquet", limit=120)


def dense(y, a, d=0.85):
    """B, theta_0, U and P as the text writes them, with explicit inverses."""
    root = np.sqrt(a.sum(1))
    b = np.eye(len(y)) - d * a / np.outer(root, root)
    inverse = np.linalg.inv(b)
    return b, (1 - d) * inverse @ y, inverse @ inverse.T, b.T @ b


@pytest.fixture(scope="module")
def swept(abstracts):
    """One document, its factors before and after a sweep in each form."""
    y, a, _ = abstracts[0]
    batch = batch_of([(y, a)])
    result = {}
    for form in FORMS:
        model = VBSS(form=form, sweeps=3)
        before = model.local_step(model.init(model.observe(batch), None), batch, None)
        after = VBSS(form=form, sweeps=1).local_step(None, batch, before)
        result[form] = (model, before, after)
    return y, a, batch, result


@pytest.mark.parametrize("form", FORMS)
def test_one_sweep_is_the_appendix_with_explicit_inverses(swept, form):
    """A.1.1 to A.2 typed again with dense matrices."""
    y, a, _, result = swept
    _, f, g = result[form]
    n, (_, theta0, _, p) = len(y), dense(y, a)
    m = f.a + f.b * f.theta
    first, second = 1 + f.hidden, 1 + y.sum()
    draws = np.random.default_rng(0).beta(first, second, 2_000_000)
    c = np.exp(g.log_c[0])
    assert np.log(c) == pytest.approx(np.log(draws).mean(), abs=5 * np.log(draws).std() / 1400)
    t, phi = ndtr(-m), np.exp(-m * m / 2) / np.sqrt(2 * np.pi)
    unseen = (m * t - phi + c * (m * (1 - t) + phi)) / (t + (1 - t) * c)
    z = np.where(y, m + phi / (1 - t), unseen)
    lam, b2 = (0.1 + n / 2) / f.rate, f.b**2 + f.b_var
    s = np.linalg.inv(b2 * np.eye(n) + lam * p)
    mu = s @ (lam * p @ theta0 + f.b * (z - f.a))
    if form == "mean_field":
        s = np.diag(1 / (b2 + lam * np.diag(p)))
    np.testing.assert_allclose(g.theta, mu, rtol=1e-9, atol=1e-12)
    mean_a = 10 / (10 * n + 1) * (z.sum() - f.b * mu.sum())
    np.testing.assert_allclose(g.a, mean_a, rtol=1e-9)
    variance_b = 1 / (mu @ mu + np.trace(s) + 0.1)
    np.testing.assert_allclose(g.b_var, variance_b, rtol=1e-9)
    np.testing.assert_allclose(g.b, variance_b * (mu @ z - mean_a * mu.sum()), rtol=1e-9)
    half = np.trace(p @ s) / 2 + (mu - theta0) @ p @ (mu - theta0) / 2
    np.testing.assert_allclose(g.rate, 0.1 + half, rtol=1e-9)
    r = c * (1 - t) / (t + c * (1 - t))
    np.testing.assert_allclose(g.hidden, r[~y].sum(), rtol=1e-9)


def test_direct_fit_and_protocol_agree(abstracts):
    documents = [(y, a) for y, a, _ in abstracts[:12]]
    model = VBSS(tolerance=1e-9)
    direct = fit_documents(batch_of(documents), model, 4000)
    assert direct.local.settled.all()
    parts = [batch_of(documents[:5]), batch_of(documents[5:])]
    run = fit(model, parts, tol=1e-15, max_iter=400)
    states = run.reduce.local_states(run.iterations - 1)
    r = [model.probabilities(run.q, b, x) for b, x in zip(parts, states, strict=True)]
    np.testing.assert_allclose(np.concatenate(r), direct.probability, atol=1e-6)
    assert run.trace[-1] == pytest.approx(direct.bound.sum(), abs=1e-6)
    alone = fit_documents(batch_of([documents[3]]), model, 4000)
    words = parts[0].words(3)
    np.testing.assert_allclose(alone.probability, direct.probability[words], atol=1e-9)


def test_a_settled_document_is_left_alone(abstracts):
    batch = batch_of([(y, a) for y, a, _ in abstracts[:3]])
    model = VBSS(tolerance=1e-3)
    q = model.init(model.observe(batch), None)
    local = model.local_step(q, batch, None)
    while not local.settled.any():
        local = model.local_step(q, batch, local)
    still = local.settled
    after = model.local_step(q, batch, local)
    np.testing.assert_array_equal(after.rate[still], local.rate[still])
    np.testing.assert_array_equal(after.sweeps[still], local.sweeps[still])
    words = still[batch.document_of_word]
    np.testing.assert_array_equal(after.theta[words], local.theta[words])
    assert np.all(after.sweeps[~still] == local.sweeps[~still] + 10)


@pytest.mark.parametrize("form", FORMS)
def test_leaps_reach_the_same_end_in_far_fewer_sweeps(abstracts, form):
    batch = batch_of([(y, a) for y, a, _ in abstracts[:25]])
    plain = fit_documents(batch, VBSS(accelerate=False, form=form), 4000)
    leaping = fit_documents(batch, VBSS(form=form), 1000)
    assert plain.local.settled.all()
    assert leaping.local.settled.all()
    np.testing.assert_allclose(leaping.bound, plain.bound, atol=1e-9)
    np.testing.assert_allclose(leaping.probability, plain.probability, atol=1e-7)
    assert 4 * np.median(leaping.local.sweeps) < np.median(plain.local.sweeps)


def test_blocks_and_forgetting_change_no_bit(abstracts, monkeypatch):
    from vbmodels.keywords.vbss import spectrum

    documents = [(y, a) for y, a, _ in abstracts[:9]]
    one = fit_documents(batch_of(documents), max_sweeps=20)
    monkeypatch.setattr(spectrum, "BLOCK_NUMBERS", 8000)
    monkeypatch.setattr(spectrum, "KEPT_BYTES", 0)
    many = fit_documents(batch_of(documents), max_sweeps=20)
    np.testing.assert_array_equal(one.probability, many.probability)
    np.testing.assert_array_equal(one.bound, many.bound)


def test_a_complete_document_is_its_labels(abstracts):
    y, a, _ = abstracts[2]
    batch = replace(batch_of([(y, a), (y, a)]), complete=np.array([True, False]))
    r = fit_documents(batch, max_sweeps=50).probability
    np.testing.assert_array_equal(r[batch.words(0)], y)
    assert np.all(r[batch.words(1)][~y] > 0)
