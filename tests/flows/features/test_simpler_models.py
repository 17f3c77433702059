"""The features against shares, latent classes and a scale, and what a run without any says."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from flows.features.input.categories import Column
from flows.features.simpler_models import MOST_ROWS, compare_models, sample_rows
from tests.feature_tables import split_rows
from vbmodels.features.table import feature_batch

LEVELS = np.full(6, 3)


def columns_of(levels):
    return [Column(f"q{d}", tuple("abc"[:n]), (0,) * n, 0) for d, n in enumerate(levels)]


def two_classes(rows, seed=0):
    """A tenth of the rows has answers of its own in all columns."""
    rng = np.random.default_rng(seed)
    own = rng.random((rows, 1)) < 0.1
    return np.where(own, 2, rng.integers(0, 2, (rows, 6)))


def compared(codes, parts=1, features=0):
    batches = split_rows(codes, LEVELS, parts)
    samples = [sample_rows(batch, len(codes)) for batch in batches]
    return compare_models(samples, columns_of(LEVELS), None, len(codes), features)


def gains(found):
    return {(one.kind, one.number): one.gain for one in found.models}


def test_latent_classes_are_weighed_against_the_shares_on_all_rows():
    codes = two_classes(400)
    found = compared(codes, 3)
    assert (found.rows, found.rival.kind, found.rival.number) == (400, "classes", 2)
    shares = found.models[0]
    assert found.rival.nats - shares.nats > 100.0
    assert found.grouped
    assert (found.pairs.related, found.unfound) == (True, "described")
    column = np.log(np.array([(codes == r).mean(0) for r in range(3)]))
    likelihood = sum(column[codes[:, d], d].sum() for d in range(6))
    assert_allclose(shares.nats, likelihood - 0.5 * 12 * np.log(400), atol=0.1)
    assert_allclose(compared(codes).rival.gain, found.rival.gain, rtol=1e-3)


def test_a_row_that_counts_twice_is_as_two_rows():
    codes = two_classes(200)
    weight = np.where(np.arange(200) % 2, 2.0, 1.0)
    once = feature_batch(codes, LEVELS, weight=weight)
    twice = feature_batch(np.repeat(codes, weight.astype(int), axis=0), LEVELS)
    found = [
        compare_models([sample_rows(b, 300.0)], columns_of(LEVELS), None, 300.0, 0)
        for b in (once, twice)
    ]
    assert_allclose(*([one.nats for one in each.models] for each in found), rtol=1e-6)


def test_of_a_long_table_some_rows_are_compared_whatever_the_partitions():
    codes = two_classes(3 * MOST_ROWS)
    one, three = compared(codes), compared(codes, 3)
    assert_allclose(one.rows, MOST_ROWS, rtol=0.05)
    assert one.rows == three.rows


def test_answers_along_a_scale_are_described_by_one():
    rng = np.random.default_rng(3)
    chance = 1.0 / (1.0 + np.exp(-1.5 * rng.normal(size=(800, 1)) + rng.normal(size=6)))
    codes = np.where(rng.random((800, 6)) < chance, 2, rng.integers(0, 2, (800, 6)))
    found = compared(codes, features=1)
    assert found.rival.kind == "scale"
    assert found.ahead.high < 0.0
    assert gains(found)["features", 1] == gains(compared(codes))["classes", 2]


def test_two_columns_of_two_answers_determine_no_scale():
    codes = np.random.default_rng(0).integers(0, 2, (300, 2))
    samples = [sample_rows(batch, 300) for batch in split_rows(codes, np.full(2, 2), 1)]
    found = compare_models(samples, columns_of([2, 2]), None, 300.0, 1)
    assert set(gains(found)) == {("shares", 1), ("features", 1)}
    assert found.rival == found.models[0]
    assert not found.grouped


def test_that_nothing_is_there_is_said_where_it_would_have_been_found():
    """Of the same columns without a relation: with few rows there are too few cells to tell."""
    codes = np.random.default_rng(0).integers(0, 2, (1000, 6))
    alone = compared(codes)
    assert alone.rival.gain < 0.0
    assert not alone.pairs.related
    assert alone.unfound == "unrelated"
    assert compared(codes[:20]).unfound == "few cells"
    assert replace(alone, pairs=replace(alone.pairs, p=1e-6)).unfound == "related"


def test_a_feature_is_compared_with_the_best_of_the_other_models():
    found = compared(two_classes(400), features=1)
    slack = found.ahead.high - found.ahead.value
    assert_allclose([slack, found.ahead.value - found.ahead.low], 3.0 / 400)
    own = gains(found)["features", 1]
    assert_allclose(found.ahead.value, own - found.rival.gain)
    assert found.rival.gain == max(
        gain for key, gain in gains(found).items() if key[0] != "features"
    )
