"""The embedding of a number: evidence, leave-one-out and forms against direct computation."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student

from vbmodels.bags.bags import Bags, Instances, bags, split, with_targets
from vbmodels.bags.embedding.number import (
    RATE,
    SHAPE,
    NumberModel,
    NumberRows,
    NumberSums,
    by_bags,
    by_weights,
    predict_numbers,
)
from vbmodels.bags.embedding.predict import contributions, of_instances
from vbmodels.core.fit import fit


def numbered(n=80, seed=0, noise=0.5, modalities=1, group=()):
    """Bags whose number rises with the mean of a feature and the largest value of another."""
    rng = np.random.default_rng([seed, 5])
    parts, score = [], np.zeros(n)
    for _ in range(modalities):
        bag = np.repeat(np.arange(n), rng.integers(1, 9, n))
        rows = rng.standard_normal((bag.size, 3))
        starts = np.searchsorted(bag, np.arange(n))
        parts.append(Instances.from_rows(bag, rows, n))
        score += 2.0 * np.bincount(bag, rows[:, 0]) / np.bincount(bag)
        score += np.maximum.reduceat(rows[:, 1], starts)
    y = 50.0 + 7.0 * (score + noise * rng.standard_normal(n))
    return with_targets(bags(parts, np.zeros(n), group=group), y), 50.0 + 7.0 * score


def fitted(data: Bags, parts=1, **options):
    return fit(NumberModel(**options), split(data, parts), seed=1, max_iter=500)


def left_out(done):
    each = done.reduce.local_states(done.iterations - 1)
    return [np.concatenate([getattr(one, name) for one in each]) for name in ("at", "width")]


def columns_of(q, data):
    found = q.map.columns(data)
    return found @ q.turn if q.turn.size else found


def test_both_forms_have_one_value_and_the_slope_of_differences():
    rng = np.random.default_rng(0)
    rows = NumberRows(rng.standard_normal((12, 7)), rng.standard_normal(12))
    block, logs = np.array([0, 0, 1, 1, 1, 2, 3]), rng.standard_normal(4)
    sums = NumberSums.of(rows.columns, rows.y)
    value, slope = by_weights(sums, np.exp(logs)[block], block, 3)
    other, others = by_bags(rows, np.exp(logs)[block], block, 3)
    assert_allclose(value, other, rtol=1e-12)
    assert_allclose(slope, others, rtol=1e-9)
    for m in range(3):
        step = 1e-5 * (np.arange(4) == m)
        up, down = (by_bags(rows, np.exp(logs + s)[block], block, 3)[0] for s in (step, -step))
        assert_allclose(slope[m], (up - down) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("n", [30, 400])
def test_a_bag_is_left_out_exactly(n):
    """The number of a bag given the others is the ratio of two evidences at the same variances."""
    data, _ = numbered(n)
    done = fitted(data)
    q = done.q
    y, columns = (data.target - q.centre) / q.scale, columns_of(q, data)
    at, width = left_out(done)
    for i in (0, 7):
        rest = np.arange(n) != i
        kernel = (columns * q.variance) @ columns.T
        inner = np.linalg.inv(np.eye(n - 1) + kernel[np.ix_(rest, rest)])
        mean = kernel[i, rest] @ inner @ y[rest]
        spread = 1.0 + kernel[i, i] - kernel[i, rest] @ inner @ kernel[rest, i]
        shape, rate = SHAPE + 0.5 * (n - 1), RATE + 0.5 * y[rest] @ inner @ y[rest]
        assert_allclose(at[i], mean, rtol=1e-6, atol=1e-8)
        assert_allclose(width[i], np.sqrt(rate / shape * spread), rtol=1e-6)


def test_bags_gathered_or_summed_up_are_one_fit():
    data, _ = numbered(600)
    found = [predict_numbers(fitted(data, gathered=g).q, data) for g in (2000, 20)]
    assert_allclose(found[0].mean, found[1].mean, rtol=1e-4)


def test_units_of_the_number_do_not_matter():
    data, _ = numbered(60)
    other = with_targets(data, 1e6 - 1e4 * data.target)
    one, two = (predict_numbers(fitted(each).q, data) for each in (data, other))
    assert_allclose(two.mean, 1e6 - 1e4 * one.mean, rtol=0.02)


def test_groups_are_left_out_by_folds():
    """Copies of a bag predict one another where each is left out alone, and not by folds."""
    data, _ = numbered(60, noise=3.0)
    twice = data.take(np.repeat(np.arange(60), 2))
    group = np.repeat(np.arange(60), 2)
    done = fit(NumberModel(), [replace(twice, group=group)], seed=1, max_iter=500)
    (local,) = done.reduce.local_states(done.iterations - 1)
    found = NumberModel().left_out(done.q, replace(twice, group=group), local)
    y = (twice.target - done.q.centre) / done.q.scale
    assert np.mean((y - local.at) ** 2) < np.mean((y - found.at) ** 2)


def test_noise_alone_is_predicted_by_its_mean():
    rng = np.random.default_rng(3)
    data = with_targets(numbered(120)[0], rng.standard_normal(120))
    done = fitted(data)
    at, width = left_out(done)
    y = (data.target - done.q.centre) / done.q.scale
    assert np.mean((y - at) ** 2) < 1.12
    assert np.mean(np.abs(y - at) < student.ppf(0.975, 100) * width) > 0.9


@pytest.mark.parametrize("modalities", [1, 2])
def test_contributions_sum_to_the_score(modalities):
    data, _ = numbered(50, modalities=modalities)
    q = fitted(data).q
    found = predict_numbers(q, data)
    assert_allclose(found.shares.sum(axis=1) + q.centre, found.mean, rtol=1e-10)
    total = np.zeros(50)
    for of, adds in zip(data.modalities, contributions(q, data), strict=True):
        np.add.at(total, of.bag, q.scale * adds)
    named = [of_instances(name) for name in q.map.names()]
    assert_allclose(total, found.shares[:, :-1][:, named].sum(axis=1), atol=1e-8)


def test_a_bag_without_a_number_is_predicted_alone():
    data, truth = numbered(100)
    target = np.where(np.arange(100) < 80, data.target, np.nan)
    found = predict_numbers(fitted(with_targets(data, target)).q, data)
    assert_allclose(np.corrcoef(found.mean[80:], truth[80:])[0, 1], 1.0, atol=0.15)
