"""The features against shares, latent classes and a scale, and what a run without any says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from flows.features.check import Column
from flows.features.settings import FeatureSettings
from flows.features.simpler_models import (
    MOST_ROWS,
    SimplerModels,
    compare_models,
    difference_in_words,
    model_section,
    no_feature_in_words,
    sample_rows,
)
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


def compared(codes, parts=1):
    batches = split_rows(codes, LEVELS, parts)
    samples = [sample_rows(batch, len(codes)) for batch in batches]
    return compare_models(samples, columns_of(LEVELS), None, len(codes))


def test_latent_classes_are_weighed_against_the_shares_on_all_rows():
    codes = two_classes(400)
    found = compared(codes, 3)
    assert (found.rows, found.rival(0)[0]) == (400, "2 latent classes")
    assert found.rival(0)[1] - found.shares > 100.0
    column = np.log(np.array([(codes == r).mean(0) for r in range(3)]))
    likelihood = sum(column[codes[:, d], d].sum() for d in range(6))
    assert_allclose(found.shares, likelihood - 0.5 * 12 * np.log(400), atol=0.1)
    whole, cut = compared(codes), found
    assert_allclose(whole.gain(whole.each[1]), cut.gain(cut.each[1]), rtol=1e-3)


def test_a_row_that_counts_twice_is_as_two_rows():
    codes = two_classes(200)
    weight = np.where(np.arange(200) % 2, 2.0, 1.0)
    once = feature_batch(codes, LEVELS, weight=weight)
    twice = feature_batch(np.repeat(codes, weight.astype(int), axis=0), LEVELS)
    found = [
        compare_models([sample_rows(b, 300.0)], columns_of(LEVELS), None, 300.0)
        for b in (once, twice)
    ]
    assert_allclose(found[0].shares, found[1].shares, rtol=1e-12)
    assert_allclose(found[0].each, found[1].each, rtol=1e-6)
    assert_allclose(found[0].scale, found[1].scale, rtol=1e-6)


def test_of_a_long_table_some_rows_are_compared_whatever_the_partitions():
    codes = two_classes(3 * MOST_ROWS)
    one, three = compared(codes), compared(codes, 3)
    assert_allclose(one.rows, MOST_ROWS, rtol=0.05)
    assert one.rows == three.rows


def test_answers_along_a_scale_are_described_by_one():
    rng = np.random.default_rng(3)
    chance = 1.0 / (1.0 + np.exp(-1.5 * rng.normal(size=(800, 1)) + rng.normal(size=6)))
    found = compared(np.where(rng.random((800, 6)) < chance, 2, rng.integers(0, 2, (800, 6))))
    assert found.rival(1)[0] == "one sliding scale"
    assert found.scale > max(found.each) + 3.0
    said, warning = no_feature_in_words(found, FeatureSettings())
    assert "one sliding scale describes the rows better" in said
    assert "item response model" in warning
    two = replace(found, features=found.each[1])
    assert two.ahead(1) < 0.0
    assert difference_in_words(two, 1) == "one sliding scale describes the answers better"


def test_two_columns_of_two_answers_determine_no_scale():
    codes = np.random.default_rng(0).integers(0, 2, (300, 2))
    samples = [sample_rows(batch, 300) for batch in split_rows(codes, np.full(2, 2), 1)]
    found = compare_models(samples, columns_of([2, 2]), None, 300.0)
    assert found.scale is None
    assert len(model_section(found, 1).grids[0].rows) == len(found.each)


def test_that_nothing_is_there_is_said_where_it_would_have_been_found():
    """Of the same columns without a relation: with few rows there are too few cells to tell."""
    settings = FeatureSettings()
    classes = compared(two_classes(400))
    assert classes.pairs.related
    said, warning = no_feature_in_words(classes, settings)
    assert "2 latent classes describe the rows better" in said
    assert "--set starts=6" in warning
    codes = np.random.default_rng(0).integers(0, 2, (1000, 6))
    alone, few = compared(codes), compared(codes[:20])
    assert alone.rival(0)[1] < alone.shares
    assert not alone.pairs.related
    assert "do not say more than each column's shares" in no_feature_in_words(alone, settings)[0]
    assert "too few cells" in no_feature_in_words(few, settings)[0]
    related = replace(alone, pairs=replace(alone.pairs, p=1e-6))
    assert "the columns are related" in no_feature_in_words(related, settings)[0]


def test_all_models_are_compared_with_the_shares():
    found = SimplerModels(200.0, (-554.0, -529.0, -530.0, -545.0), -529.0, -533.0)
    (table,) = model_section(found, 1).grids
    assert [tuple(row) for row in table.rows] == [
        ("each column's shares", "+0.0000"), ("1 feature (2 latent classes)", "+0.1250"),
        ("3 latent classes", "+0.1200"), ("4 latent classes", "+0.0450"),
        ("one sliding scale", "+0.1050"),
    ]  # fmt: skip
    assert found.undecided == "3 latent classes"
    four = replace(found, features=-436.0)
    assert model_section(four, 4).grids[0].rows[-2] == ("4 features", "+0.5900")
    assert four.ahead(4) == 93.0
    assert difference_in_words(four, 4) == "2 latent classes describe the answers worse"
    assert difference_in_words(found, 4) == "2 latent classes describe the answers about as well"
    assert not replace(found, each=(-529.0, -530.0)).grouped
