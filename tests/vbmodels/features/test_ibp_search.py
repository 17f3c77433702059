"""The search: its screens are exact, its moves raise the yardstick, no cut changes its answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core.cavi import evaluated, start
from vbmodels.core.fit import fit
from vbmodels.core.in_process import InProcess
from vbmodels.core.state import from_bytes, same_bits, to_bytes
from vbmodels.features.batch import feature_batch, split_rows
from vbmodels.features.candidates import held_of, plain_edit
from vbmodels.features.moves import LEAST_GAIN
from vbmodels.features.passes import following
from vbmodels.features.polya_gamma import FeatureLocal, PolyaGammaIBP, second_moments
from vbmodels.features.proposals import (
    PATTERNS,
    birth_scores,
    correlations,
    delete_scores,
    flip,
    flip_gains,
    held_omega,
    relabel_scores,
    relabelled,
    with_born,
)
from vbmodels.features.row_moments import mean_omega, tilt_of
from vbmodels.features.screens import edited, entropy_of, pattern_sum, screen_sums
from vbmodels.features.search import SearchIBP, best_fit
from vbmodels.features.search_state import CHAINS, RELABEL, SETTLE, START, Lane, LaneStats
from vbmodels.features.simulate import simulate_table
from vbmodels.features.sticks import best_sticks, fit_sticks, stick_bound
from vbmodels.features.weights import weight_kl
from vbmodels.features.yardstick import likelihood_draws, measured

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
    at = held_omega(q, stats, batch.count @ entropy_of(nu), BIAS)
    waits = rng.uniform(0.05, 0.95, (len(nu), 2))
    return model, batch, q, nu, at, waits


def direct(batch, q, nu, moments, bits):
    """F of rows whose features have means ``bits`` and second moments, omega held at (q, nu)."""
    sign = batch.sign.astype(float)
    omega = mean_omega(tilt_of(nu, second_moments(q)), sign) * batch.count[:, None]
    half = 0.5 * sign * batch.count[:, None]
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


def test_a_deletes_score_is_the_held_bound_made_anew(fitted):
    _, batch, q, nu, at, _ = fitted
    here = direct(batch, q, nu, apart(nu), nu)
    assert_allclose(at.value(), here, rtol=1e-11)
    scores = delete_scores(at)
    for k in range(5):
        less = np.delete(nu, k, axis=1)
        there = direct(batch, q, nu, apart(less), less)
        assert_allclose(scores[k], there - here, atol=1e-7)
        assert_allclose(at.keeping(np.delete(np.arange(5), k)).value(), there, rtol=1e-11)


def test_new_bits_are_screened_as_the_rows_would_say(fitted):
    _, batch, q, nu, at, waits = fitted
    pairs = screen_sums(q, batch, nu, (waits,)).pairs
    here = direct(batch, q, nu, apart(nu), nu)
    proposals, gains = relabel_scores(at, pairs, most=200)
    assert len(proposals) == 20 * 10
    assert np.all(np.diff(gains) <= 1e-9)
    for n in range(0, 200, 9):
        i, j, s, t = proposals[n].tolist()
        bits = nu.copy()
        bits[:, i], bits[:, j] = (pattern_sum(nu[:, i], nu[:, j], c) for c in (s, t))
        moments = apart(bits)
        both = pattern_sum(nu[:, i], nu[:, j], s & t)
        moments[:, i + 1, j + 1] = moments[:, j + 1, i + 1] = both
        there = direct(batch, q, nu, moments, bits)
        assert_allclose(gains[n], there - here, atol=1e-7)
        assert_allclose(relabelled(at, pairs, i, j, (s, t)).value(), there, rtol=1e-10)


def test_the_twenty_ways_are_all_that_differ_by_more_than_a_complement():
    columns = {tuple(int(s >> b & 1) for b in range(3)) for s in range(1, 8)}
    assert len(columns) == 7
    found = {frozenset(map(int, pair)) for pair in PATTERNS}
    assert found == {frozenset(p) for p in product(range(1, 8), repeat=2) if len({*p}) == 2} - {
        frozenset((5, 6))
    }


def test_a_birth_is_screened_as_the_rows_would_say(fitted):
    _, batch, q, nu, at, waits = fitted
    screen = screen_sums(q, batch, nu, (waits,))
    here = direct(batch, q, nu, apart(nu), nu)
    scores = birth_scores(at, screen.pool[0], q.variance[0])
    for c in range(2):
        more = np.column_stack([nu, waits[:, c]])
        there = direct(batch, q, nu, apart(more), more)
        assert_allclose(scores[c], there - here, atol=1e-7)
        born = with_born(at, screen.pool[0], c, q.variance[0])
        assert_allclose(born.value(), there, rtol=1e-11)
    rows = np.repeat(np.arange(len(nu)), batch.count.astype(int))
    expected = np.corrcoef(np.column_stack([waits, nu])[rows].T)[:2, 2:]
    assert_allclose(correlations(at, screen.square, screen.pool[0]), expected, atol=1e-10)


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


def test_sticks_from_the_shares_come_to_the_same_bound():
    on = np.array([[90.0, 60.0, 20.0, 0.3], [50.0, 50.0, 49.0, 1.0]])
    tau, values = best_sticks(on, 200.0, 1.3, rounds=2000)
    for counts, own, value in zip(on, tau, values, strict=True):
        cold = np.stack([np.full(4, 1.3), np.ones(4)], axis=1)
        other, _ = fit_sticks(counts, 200.0, 1.3, cold, learn_alpha=False, rounds=5000)
        assert_allclose(value, stick_bound(counts, 200.0, 1.3, other, learn_alpha=False), atol=1e-4)
        assert_allclose(own, other, rtol=1e-2)
    assert np.all(values - best_sticks(on, 200.0, 1.3)[1] < 1.0)


def test_edits_make_the_nu_that_they_say():
    nu = np.random.default_rng(0).uniform(0.1, 0.9, (6, 3))
    other = np.random.default_rng(1).uniform(0.1, 0.9, (6, 2))
    turned = replace(
        plain_edit(0, np.array([2, 0])), flipped=np.array([True, False]), born=np.array([0, 1])
    )
    expected = np.column_stack([1.0 - nu[:, 2], nu[:, 0], other[:, 1]])
    assert_allclose(edited(turned, (nu,), (other,)), expected)
    pair = replace(plain_edit(0, np.arange(3)), pair=np.array([0, 2]), patterns=np.array([6, 3]))
    either = nu[:, 0] + nu[:, 2] - 2.0 * nu[:, 0] * nu[:, 2]
    assert_allclose(edited(pair, (nu,), ()), np.column_stack([nu[:, :2], either]))


def test_features_of_the_same_label_take_the_same_random_numbers(fitted):
    _, batch, q, nu, _, _ = fitted
    order = np.array([3, 0, 4, 1, 2])
    place = np.concatenate([[0], order + 1])
    same = replace(q, mean=q.mean[:, place], covariance=0.0 * q.covariance + np.eye(6))
    plain = replace(q, covariance=0.0 * q.covariance + np.eye(6))
    assert_allclose(
        likelihood_draws(same, batch, nu[:, order], 4, order),
        likelihood_draws(plain, batch, nu, 4),
        rtol=1e-12,
    )


def walk(model, batches, seed=0, most=500):
    """Yield the cursors of a search until its last stage."""
    reduce = InProcess(model, batches)
    at = start(model, model.init(reduce.observe(), np.random.default_rng(seed)), reduce)
    while at.q.stage != SETTLE and at.number < most:
        yield at, reduce
        q = model.global_step(at.q, at.stats)
        at = evaluated(model, reduce, q, at.number + 1, at.number)
    yield at, reduce


def test_every_accepted_move_raises_the_yardstick_and_the_features_are_found():
    codes, z = table(0, rows=120)
    model = SearchIBP(PolyaGammaIBP(8))
    cursors = [at for at, _ in walk(model, [feature_batch(codes, LEVELS)])]
    last = cursors[-1].q
    assert last.stage == SETTLE
    assert {at.q.stage for at in cursors} >= {CHAINS, RELABEL}
    assert len(last.history.gains) > 0
    least = [LEAST_GAIN[str(stage)] for stage in last.history.stages]
    assert np.all(last.history.gains > least)
    judged = [(a, b) for a, b in pairwise(cursors) if a.q.judged[1:].any()]
    accepted = 0
    for before, after in judged:
        values = [
            measured(lane.q, got.fit.on, got.likelihood, BIAS)[0]
            for lane, got, asked in zip(
                before.q.lanes, before.stats.lanes, before.q.judged, strict=True
            )
            if asked
        ]
        if not before.q.judged[0]:
            values.insert(0, before.q.lanes[0].value)
        moved = len(after.q.history.gains) - len(before.q.history.gains)
        assert moved == int(max(values[1:]) > values[0] + LEAST_GAIN[before.q.stage])
        accepted += moved
        if moved:
            assert_allclose(after.q.history.gains[-1], max(values[1:]) - values[0], rtol=1e-9)
    assert accepted == len(last.history.gains)
    q = best_fit(last)
    nu = PolyaGammaIBP(8).features(q, feature_batch(codes, LEVELS, grouped=False)).nu
    assert nu.shape[1] == 3
    right = ((nu[:, None, :] > 0.5) == z[:, :, None]).mean(0)
    assert np.all(np.maximum(right, 1.0 - right).max(1) > 0.9)


@pytest.mark.slow  # the contract's row has two cuts
def test_no_cut_of_the_rows_changes_the_answer():
    codes, _ = table(1, rows=60, levels=FEW)
    codes = np.concatenate([codes, codes[:10]])
    model, found = SearchIBP(PolyaGammaIBP(5), draws=8), []
    for parts in (1, 3, 7):
        found.append(list(walk(model, split_rows(codes, FEW, parts)))[-1][0])
    for other in found[1:]:
        assert other.number == found[0].number
        assert_allclose(other.elbo, found[0].elbo, rtol=1e-9)
        assert_allclose(best_fit(other.q).mean, best_fit(found[0].q).mean, rtol=1e-5, atol=1e-7)


def test_a_search_goes_on_with_the_same_bits_from_any_stage():
    codes, _ = table(2, rows=60, levels=FEW)
    batches = split_rows(codes, FEW, 2)
    model, stored = SearchIBP(PolyaGammaIBP(5), draws=8), {}
    for at, reduce in walk(model, batches):
        if at.q.stage not in stored and (at.q.stage != CHAINS or at.number > 80):
            states = [to_bytes(s) for s in reduce.local_states(at.number)]
            stored[at.q.stage] = (to_bytes(at), states)
        last = at
    assert len(stored) > 5
    for cursor, states in stored.values():
        reduce = InProcess(model, batches)
        at = from_bytes(cursor, type(last))
        local = type(model.local_step(model.init(reduce.observe(), np.random.default_rng(0)),
                                      batches[0], None))  # fmt: skip
        reduce.restore(at.number, [from_bytes(s, local) for s in states])
        while at.number < last.number:
            q = model.global_step(at.q, at.stats)
            at = evaluated(model, reduce, q, at.number + 1, at.number)
        assert same_bits(at, last)


@pytest.mark.slow
def test_independent_columns_have_no_feature():
    none = 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 7])
        codes = np.column_stack([rng.integers(0, r, 200) for r in LEVELS])
        q = fit(SearchIBP(PolyaGammaIBP(12)), [feature_batch(codes, LEVELS)], seed=seed,
                tol=1e-6, max_iter=3000).q  # fmt: skip
        share = best_fit(q).share
        none += not np.any((share > 0.02) & (share < 0.98))
    assert none >= 9


def test_empty_features_do_not_change_places_for_ever():
    """Their numbers of rows are the same but for the last bits, which hang on their places."""
    rng = np.random.default_rng([0, 7])
    codes = np.column_stack([rng.integers(0, r, 200) for r in [2, 3, 4, 5] * 7 + [3, 4]])
    levels = np.array([2, 3, 4, 5] * 7 + [3, 4])
    done = fit(SearchIBP(PolyaGammaIBP(12)), [feature_batch(codes, levels)], seed=0, max_iter=400)
    assert done.converged
    share = best_fit(done.q).share
    assert not np.any((share > 0.02) & (share < 0.98))


def test_slots_double_where_all_are_in_use():
    codes, _ = table(3, rows=100, features=3)
    last, _ = list(walk(SearchIBP(PolyaGammaIBP(2)), [feature_batch(codes, LEVELS)]))[-1]
    assert last.q.attempt >= 1
    assert last.q.slots > 2
    assert best_fit(last.q).mean.shape[1] - 1 > 2


def test_a_fit_that_a_delete_made_waits_for_new_chains():
    """Its edit named another place than the first, and was done again in every sweep of theirs."""
    codes, _ = table(3, rows=60, levels=FEW)
    model = SearchIBP(PolyaGammaIBP(3), draws=8)
    walked = walk(model, [feature_batch(codes, FEW)])
    at, reduce = next((at, reduce) for at, reduce in walked if at.q.stage == START)
    base = at.q.lanes[1]
    made = replace(base, edit=plain_edit(1, np.arange(len(base.labels))))
    q = model._begin_chains(following(at.q, CHAINS, 0, (made,), attempt=1), 6)
    (kept,) = reduce.local_states(at.number)
    for _ in range(3):
        at = evaluated(model, reduce, q, at.number + 1, at.number)
        (now,) = reduce.local_states(at.number)
        assert np.array_equal(now.lanes[0], kept.lanes[1])
        q = model.global_step(at.q, at.stats)


def test_an_idle_fit_keeps_its_sums_apart():
    codes, _ = table(4, rows=60)
    batch, model = feature_batch(codes, LEVELS), PolyaGammaIBP(3)
    q = model.init(model.observe(batch), np.random.default_rng(0))
    local = model.local_step(q, batch, None)
    stats = model.suff_stats(q, batch, local)
    got = LaneStats(stats, batch.count @ entropy_of(local.nu), None)
    lane = Lane(q, np.arange(3), 0.0, True, 0.0, 0.0, None)
    assert_allclose(held_of(lane, got, model).linear, stats.linear)
