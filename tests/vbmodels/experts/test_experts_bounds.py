"""Coordinate ascent for experts: what the text gets wrong, the sphere, one expert."""

from math import lgamma, log, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

from tests.vbmodels.experts.angles import angles
from tests.vbmodels.experts.test_experts import small
from vbmodels.core.fit import fit
from vbmodels.experts.bmem.model import BoundedExperts
from vbmodels.experts.bmem.mutual_angular import log_sphere_norm, sphere_maximum
from vbmodels.experts.bmem.normals import omega


def test_lemma_1_is_no_bound_in_124_dimensions():
    """Its right side falls below log Z as gamma falls; ours stays above E log Z."""
    p, kappa, s = 124, 10.0, 1.5
    log_area = log(2.0) + p / 2 * log(pi) - lgamma(p / 2)
    area = np.exp(log_area)
    assert area < 1.0

    def lemma(gamma, xi):
        bend = (0.5 - expit(xi)) / (2.0 * xi)
        inner = np.log1p(np.exp(-xi)) + (xi - gamma) / 2.0 + bend * (xi**2 - gamma**2)
        return gamma + inner * area - bend * kappa**2 * s**2 * area

    exact = float(log_sphere_norm(p, np.array(kappa * s)))
    assert lemma(-1000.0, 1000.0) < exact
    assert lemma(-2000.0, 2000.0) < lemma(-1000.0, 1000.0)

    rng = np.random.default_rng(0)
    a = [stats.vonmises_fisher(np.eye(p)[i], 60.0).rvs(4000, random_state=rng) for i in range(4)]
    total = np.linalg.norm(np.sum(a, axis=0), axis=1)
    mean = log_sphere_norm(p, kappa * total).mean()
    ours = float(log_sphere_norm(p, np.array(kappa * np.sqrt(np.mean(total**2)))))
    assert mean <= ours <= mean + 0.05


@pytest.mark.parametrize("seed", [0, 4])
def test_sphere_maximum_beats_every_start(seed):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((6, 6))
    q, linear = half @ half.T, rng.standard_normal(6) * 10.0 ** (seed - 2)
    u = sphere_maximum(linear, q)
    assert_allclose(np.linalg.norm(u), 1.0)

    def loss(v):
        w = v / np.linalg.norm(v)
        return w @ q @ w - linear @ w

    best = min(minimize(loss, rng.standard_normal(6)).fun for _ in range(10))
    assert loss(u) <= best + 1e-8 * max(1.0, abs(best))


def test_one_expert_is_bayesian_logistic_regression():
    """Jaakkola and Jordan's regression, written out here; the gates stay at their prior."""
    batch = small(rows=70)
    model = BoundedExperts(1, tau=2.0)
    done = fit(model, [batch], tol=1e-13, max_iter=5000)
    x, t = batch.dense, batch.t
    precision = np.diag([2.0, 2.0, 2.0, 0.1])
    xi = np.ones(len(t))
    for _ in range(5000):
        lam = np.tanh(xi / 2.0) / (4.0 * xi)
        v = np.linalg.inv(precision + 2.0 * (x.T * lam) @ x)
        m = v @ (x.T @ t) / 2.0
        xi = np.sqrt(np.einsum("ni,ij,nj->n", x, v + np.outer(m, m), x))
    assert_allclose(done.q.experts.mean[0], m, atol=1e-6)
    assert_allclose(done.q.experts.covariance[0], v, atol=1e-7)
    bound = np.sum(np.log(expit(xi)) - xi / 2.0 + lam * xi**2) + 0.5 * m @ np.linalg.solve(v, m)
    bound += 0.5 * (np.linalg.slogdet(v)[1] + np.linalg.slogdet(precision)[1])
    assert_allclose(done.trace[-1], bound, rtol=1e-9)
    assert_allclose(done.q.gates.mean, 0.0)


@pytest.mark.filterwarnings("ignore::vbmodels.core.fit.NotConverged")
def test_posterior_regularisation_widens_the_angles_and_states_its_objective():
    batch = small(rows=150, features=6)
    found, values = [], []
    for weight in (0.0, 20.0):
        model = BoundedExperts(3, omega=weight)
        done = fit(model, [batch], max_iter=300, tol=1e-6)
        sums = model.suff_stats(done.q, batch, model.local_step(done.q, batch, None))
        plain = BoundedExperts(3).elbo(done.q, sums)
        means = done.q.experts.mean[:, :-1]
        values.append(model.elbo(done.q, sums) - plain)
        found.append(angles(means).mean())
        assert_allclose(values[-1], omega(means, weight)[0] if weight else 0.0, rtol=1e-9)
    assert found[1] > found[0] + 0.2
    with pytest.raises(ValueError, match="expected the Gaussian prior with omega"):
        BoundedExperts(3, "mabn2", omega=1.0)


def test_sphere_maximum_where_one_term_is_all():
    """The root is the bracket's end, where rounding gives both ends one sign."""
    rng = np.random.default_rng(0)
    for size in (1.0, 1e6, 1e12):
        for _ in range(50):
            turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
            linear = size * turn[:, 0]
            u = sphere_maximum(linear, 1e-3 * np.eye(3))
            assert_allclose(u, turn[:, 0], atol=1e-12)
