"""Features of several chains: matched by rows, turned round, and averaged as one set."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core.fit import fit
from vbmodels.features.batch import split_rows
from vbmodels.features.forms import apply, make, merged_chains, read, stability
from vbmodels.features.merging import (
    merged,
    merged_chances,
    merged_draws,
    merged_weights,
    row_products,
)
from vbmodels.features.options import FeatureOptions
from vbmodels.features.simulate import simulate_table

N = 400
LEVELS = np.array([2, 3, 4, 5] * 6)
ORDER = np.array([1, 0, 2])


def chains(seed=0):
    """Three chains of five slots: a, b in all (b turned in one), c in two, others in one each."""
    rng = np.random.default_rng(seed)
    a, b, c, d, e = (rng.random((5, N)) < np.array([0.4, 0.3, 0.2, 0.25, 0.35])[:, None]) * 1.0
    none = np.full(N, 0.001)

    def blurred(*columns):
        return np.clip(np.column_stack(columns) + rng.normal(0, 0.05, (N, 5)), 0.001, 0.999)

    one, two = blurred(b, a, c, d, none), blurred(a, 1.0 - b, none, none, none)
    three = blurred(c, none, e, b, a)
    for own in (one, two, three):
        own[:, own.mean(0) < 0.1] = 0.001
    return (one, two, three), np.column_stack([a, b, c])


def test_chains_are_matched_whatever_their_order_numbers_and_complements():
    chances, _ = chains()
    found = merged(row_products(chances), ORDER, 0.8, 5.0)
    assert found.used.tolist() == [4, 2, 4]
    assert found.member.shape == (3, 5)
    assert found.found_by.tolist() == [3, 3, 2]
    # The first chain of the order has b's complement, which more rows have than a.
    assert found.member[:, found.chosen.index].tolist() == [[0, 1, 2], [1, 0, -1], [3, 4, 0]]
    assert found.turned[:, found.chosen.index].tolist() == [
        [True, False, False], [False, False, False], [True, False, False],
    ]  # fmt: skip
    parts = [row_products([own[rows] for own in chances]) for rows in np.array_split(range(N), 7)]
    again = merged(np.sum(parts, axis=0), ORDER, 0.8, 5.0)
    assert np.array_equal(again.member, found.member)
    assert_allclose(again.share, found.share)


def test_what_most_chains_have_is_reported_and_one_chain_reports_all_that_it_has():
    chances, _ = chains()
    for count, reported in ((1, 4), (2, 2), (3, 3)):
        found = merged(row_products(chances[:count]), np.arange(count), 0.8, 5.0)
        assert len(found.chosen.index) == reported
        assert (found.found_by * 2 > count).all()


def test_rows_have_the_mean_of_the_chains_that_know_the_feature():
    chances, truth = chains()
    found = merged(row_products(chances), ORDER, 0.8, 5.0)
    p = merged_chances(chances, found)
    for k, on in enumerate(truth[:, [1, 0, 2]].T):
        assert min(np.abs(p[:, k] - on).mean(), np.abs(1.0 - p[:, k] - on).mean()) < 0.06
    assert_allclose(p[:, 2], (chances[0][:, 2] + chances[2][:, 0]) / 2)


def test_draws_in_one_order_say_the_same_of_every_row():
    """psi is untouched where all of a chain's features are reported; else its mean over rows is."""
    chances, _ = chains()
    found = merged(row_products(chances), ORDER, 0.8, 5.0)
    rng = np.random.default_rng(1)
    kept = rng.normal(size=(3, 4, 6, 6))
    draws = merged_draws(kept, found)
    assert draws.shape == (3, 4, 6, 4)
    index, flipped = found.chosen.index, found.chosen.flipped
    for c, own in enumerate(chances):
        p = merged_chances(chances, found)
        for place, m in enumerate(index):
            if (at := found.member[c, m]) >= 0:
                away = found.turned[c, m] != flipped[place]
                p[:, place] = 1.0 - own[:, at] if away else own[:, at]
        before = kept[c][..., :1] + kept[c][..., 1:] @ own.T
        after = draws[c][..., :1] + draws[c][..., 1:] @ p.T
        assert_allclose(after.mean(-1), before.mean(-1), atol=0.02)
    # The second chain has a and b alone, the rest of its slots are empty.
    assert_allclose(after.shape, before.shape)
    lacking = draws[1, ..., 3]
    assert_allclose(lacking, np.broadcast_to(draws[[0, 2], ..., 3].mean((0, 1)), lacking.shape))
    mean, covariance = merged_weights(draws, found)
    both = draws[[0, 2], ..., 3].reshape(8, 6)
    assert_allclose(mean[:, 3], both.mean(0))
    assert_allclose(covariance[:, 3, 3], ((both - both.mean(0)) ** 2).sum(0) * 1.5 / 11)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


def test_without_a_feature_there_is_nothing_to_merge():
    flat = [np.full((50, 2), 0.001)] * 3
    found = merged(row_products(flat), np.arange(3), 0.8, 5.0)
    assert found.chosen.index.size == 0
    assert merged_chances(flat, found).shape == (50, 0)
    mean, covariance = merged_weights(merged_draws(np.ones((3, 2, 4, 3)), found), found)
    assert_allclose(mean, 1.002)
    assert covariance.shape == (4, 1, 1)


@pytest.mark.parametrize("parts", [1, 3])
def test_fewer_features_are_reported_than_chains_hold_and_all_that_there_are(parts):
    prevalence = np.array([0.5, 0.4, 0.3])
    codes, z, _ = simulate_table(np.random.default_rng(4), 200, LEVELS, prevalence)
    options = FeatureOptions(8, inference="gibbs", chains=3, warmup=80, draws=60)
    model = make(options)
    batches = split_rows(codes, LEVELS, parts, grouped=False)
    done = fit(model, batches, seed=4, max_iter=200)
    found = merged_chains(model, done.q, options)
    fitted = read(model, done.q, options)
    assert z.shape[1] <= len(fitted.chosen.index) < found.used.max()
    assert fitted.mean.shape[1] == len(fitted.chosen.index) + 1
    stable = stability(model, done.q, options)
    assert (stable.of, stable.chains) == (3, True)
    locals_ = done.reduce.local_states(done.iterations - 1)
    p = np.concatenate(
        [
            apply(model, done.q, batch, own, options).features
            for batch, own in zip(batches, locals_, strict=True)
        ]
    )
    right = ((p > 0.5)[:, None, :] == z[:, :, None]).mean(0)
    assert np.maximum(right, 1.0 - right).max(1).min() > 0.85
