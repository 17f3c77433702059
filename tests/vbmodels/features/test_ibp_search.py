"""The search: its screens are exact, its moves raise the yardstick, no cut changes its answer."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.feature_tables import split_rows
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, fit, loop_of
from vbmodels.features.ibp.model import (
    FeatureLocal,
    PolyaGammaIBP,
    best_omega,
    second_moments,
    weight_kl,
)
from vbmodels.features.ibp.predict import measured
from vbmodels.features.ibp.sticks import best_sticks
from vbmodels.features.imputation.model import CompletedIBP
from vbmodels.features.search import fit as search
from vbmodels.features.search.fit import CHAINS, LAST, REFIT
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.proposals import (
    birth_scores,
    delete_scores,
    flip,
    flip_gains,
    held_of,
    with_born,
)
from vbmodels.features.search.screens import entropy_of, screen_sums
from vbmodels.features.search.trials import Plan
from vbmodels.features.table import feature_batch, simulate_table

LEVELS = np.array([2, 3, 4, 5] * 6)
FEW = LEVELS[:10]
BIAS = PolyaGammaIBP(1).bias_variance


def table(seed=0, rows=150, features=3, missing=0.0, levels=LEVELS):
    rng = np.random.default_rng([seed, rows])
    prevalence = np.linspace(0.45, 0.25, features)
    codes, z, _ = simulate_table(rng, rows, levels, prevalence, missing=missing)
    return codes, z


@pytest.fixture(scope="module")
def fitted():
    """A fit of five features with its sums, and nu of another start."""
    codes, _ = table(rows=80, missing=0.05)
    batch, model = feature_batch(codes, LEVELS), PolyaGammaIBP(5)
    rng = np.random.default_rng(3)
    q, local = model.init(model.observe(batch), rng), None
    for _ in range(4):
        local = model.local_step(q, batch, local)
        q = model.global_step(q, model.suff_stats(q, batch, local))
    nu = np.clip(local.nu + rng.uniform(-0.2, 0.2, local.nu.shape), 0.02, 0.98)
    stats = model.suff_stats(q, batch, FeatureLocal(nu))
    sums = SimpleNamespace(fit=stats, entropy=batch.count @ entropy_of(nu))
    at = held_of(SimpleNamespace(q=q), sums, SimpleNamespace(bias_variance=BIAS))
    waits = rng.uniform(0.05, 0.95, (len(nu), 2))
    return model, batch, q, nu, at, waits


def direct(batch, q, nu, moments, bits):
    """F of rows whose features have means ``bits`` and second moments, omega held at (q, nu)."""
    omega = best_omega(nu, batch.sign, second_moments(q)) * batch.count[:, None]
    half = 0.5 * batch.sign * batch.count[:, None]
    full = np.column_stack([np.ones(len(bits)), bits])
    prior = np.concatenate([[BIAS], np.full(bits.shape[1], q.variance[0])])
    value = 0.0
    for j in range(batch.n_units):
        linear = half[:, j] @ full
        precision = np.einsum("n,nab->ab", omega[:, j], moments) + np.diag(1.0 / prior)
        value += 0.5 * linear @ np.linalg.solve(precision, linear)
        value -= 0.5 * (np.linalg.slogdet(precision)[1] + np.log(prior).sum())
    on = -np.sort(-(batch.count @ bits))[None]
    value += best_sticks(on, batch.count.sum(), q.alpha)[1][0]
    return value + (batch.count @ entropy_of(bits)).sum()


def apart(bits):
    """Second moments of features that are independent in every row."""
    full = np.column_stack([np.ones(len(bits)), bits])
    moments = full[:, :, None] * full[:, None, :]
    moments[:, np.arange(full.shape[1]), np.arange(full.shape[1])] = full
    return moments


def test_a_deletes_score_is_the_held_bound_of_the_rows(fitted):
    _, batch, q, nu, at, _ = fitted
    here = direct(batch, q, nu, apart(nu), nu)
    assert_allclose(at.value(), here, rtol=1e-11)
    scores = delete_scores(at)
    for k in range(5):
        less = np.delete(nu, k, axis=1)
        there = direct(batch, q, nu, apart(less), less)
        assert_allclose(scores[k], there - here, atol=1e-7)
        assert_allclose(at.keeping(np.delete(np.arange(5), k)).value(), there, rtol=1e-11)


def test_a_births_score_is_the_held_bound_of_the_rows(fitted):
    _, batch, q, nu, at, waits = fitted
    pool = screen_sums(q, batch, nu, (waits,)).pool[0]
    here = direct(batch, q, nu, apart(nu), nu)
    scores = birth_scores(at, pool, q.variance[0])
    for c in range(2):
        more = np.column_stack([nu, waits[:, c]])
        there = direct(batch, q, nu, apart(more), more)
        assert_allclose(scores[c], there - here, atol=1e-7)
        assert_allclose(with_born(at, pool, c, q.variance[0]).value(), there, rtol=1e-10)


def test_a_complement_leaves_the_likelihood_alone(fitted):
    model, batch, q, nu, at, _ = fitted
    for k in range(5):
        turned = nu.copy()
        turned[:, k] = 1.0 - nu[:, k]
        before = model.suff_stats(q, batch, FeatureLocal(nu)).bound
        after = model.suff_stats(flip(q, k), batch, FeatureLocal(turned)).bound
        assert_allclose(after, before, rtol=1e-9)
    there = flip(q, 2)
    back = flip(there, 2)
    assert_allclose(back.mean, q.mean, atol=1e-12)
    gains, here = flip_gains(at), at.fitted()
    for k in range(5):
        turned, on = flip(here, k), at.on.copy()
        on[k] = at.n_rows - on[k]
        rise = weight_kl(here.mean, here.covariance, BIAS, here.variance)
        rise -= weight_kl(turned.mean, turned.covariance, BIAS, turned.variance)
        sticks = [best_sticks(-np.sort(-c)[None], at.n_rows, at.alpha)[1][0] for c in (at.on, on)]
        assert_allclose(gains[k], rise + sticks[1] - sticks[0], atol=1e-8)


class Noting(InProcess):
    """The executor, with the newest request."""

    def __call__(self, q, **options):
        self.request = q
        return super().__call__(q, **options)


@pytest.mark.thorough
def test_every_accepted_move_raises_the_yardstick_and_the_features_are_found():
    codes, z = table(0, rows=120)
    model = SearchIBP(PolyaGammaIBP(8))
    reduce, steps = Noting(model, [feature_batch(codes, LEVELS)]), []
    q = model.init(reduce.observe(), np.random.default_rng(0))
    for at in Driver(loop_of(model), model, q, reduce, max_iter=900):
        steps.append((at.q, at.stats, reduce.request))
        if at.q.phase == LAST:
            break
    last = steps[-1][0]
    assert last.phase == LAST
    assert {q.phase for q, _, _ in steps} >= {CHAINS, REFIT.name}
    assert len(last.history.gains) > 0
    plans = {p.name: p for p in vars(search).values() if isinstance(p, Plan)}
    least = [plans[str(stage)].gain for stage in last.history.stages]
    assert np.all(last.history.gains > least)
    accepted = 0
    for (before, stats, request), (after, _, _) in pairwise(steps):
        if not any(one.measured for one in request.fits[1:]):
            continue
        values = [
            measured(one.fit.q, got.fit.on, got.likelihood, BIAS)[0]
            for one, got in zip(request.fits, stats.fits, strict=True)
            if one.measured
        ]
        if not request.fits[0].measured:
            values.insert(0, request.fits[0].fit.value)
        moved = len(after.history.gains) - len(before.history.gains)
        assert moved == int(max(values[1:]) > values[0] + plans[before.phase].gain)
        accepted += moved
        if moved:
            assert_allclose(after.history.gains[-1], max(values[1:]) - values[0], rtol=1e-9)
    assert accepted == len(last.history.gains)
    q = last.best.q
    nu = PolyaGammaIBP(8).features(q, feature_batch(codes, LEVELS, grouped=False)).nu
    assert nu.shape[1] == 3
    right = ((nu[:, None, :] > 0.5) == z[:, :, None]).mean(0)
    assert np.all(np.maximum(right, 1.0 - right).max(1) > 0.9)


def test_a_search_says_how_far_it_is():
    model = CompletedIBP(SearchIBP(PolyaGammaIBP(5), draws=8))
    batches = split_rows(table(2, rows=60, levels=FEW)[0], FEW, 2)
    reduce = InProcess(model, batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    said = []
    for at in Driver(loop_of(model), model, q, reduce, tol=1e-7, max_iter=1500):
        phase, left = model.progress(at.q)
        said.append((int(phase.split()[1]), left))
    phases = [phase for phase, _ in said]
    assert phases == sorted(phases)
    assert {1, 2, 3, 5} <= set(phases) <= {1, 2, 3, 4, 5}  # 4 is of the features, if there are any
    assert all((left is None) == (phase == 5) for phase, left in said)
    assert said[30][1] == said[0][1] - 30


@pytest.mark.slow
def test_independent_columns_have_no_feature():
    none = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 7])
        codes = np.column_stack([rng.integers(0, r, 200) for r in LEVELS])
        q = fit(SearchIBP(PolyaGammaIBP(12)), [feature_batch(codes, LEVELS)], seed=seed,
                tol=1e-6, max_iter=3000).q  # fmt: skip
        share = q.best.q.share
        none += not np.any((share > 0.02) & (share < 0.98))
    assert none >= 9


def test_empty_features_do_not_change_places_for_ever():
    """Their numbers of rows are the same but for the last bits, which depend on their places."""
    rng = np.random.default_rng([0, 7])
    codes = np.column_stack([rng.integers(0, r, 200) for r in [2, 3, 4, 5] * 7 + [3, 4]])
    levels = np.array([2, 3, 4, 5] * 7 + [3, 4])
    done = fit(SearchIBP(PolyaGammaIBP(12)), [feature_batch(codes, levels)], seed=0, max_iter=400)
    assert done.converged
    share = done.q.best.q.share
    assert not np.any((share > 0.02) & (share < 0.98))
