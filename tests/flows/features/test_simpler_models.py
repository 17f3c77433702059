"""The features against the columns' shares and latent classes, and what a run without any says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from flows.features.settings import FeatureSettings
from flows.features.simpler_models import (
    MOST_ROWS,
    SimplerModels,
    compare_models,
    difference_in_words,
    groups_in_words,
    model_section,
    no_feature_in_words,
    sample_rows,
)
from vbmodels.features.table import feature_batch, split_rows

LEVELS = np.full(6, 3)


def two_classes(rows, seed=0):
    """A tenth of the rows has answers of its own in all columns."""
    rng = np.random.default_rng(seed)
    own = rng.random((rows, 1)) < 0.1
    return np.where(own, 2, rng.integers(0, 2, (rows, 6)))


def compared(codes, parts=1):
    batches = split_rows(codes, LEVELS, parts)
    samples = [sample_rows(batch, len(codes)) for batch in batches]
    return compare_models(samples, LEVELS, None, len(codes))


def test_latent_classes_are_weighed_against_the_shares_on_all_rows():
    codes = two_classes(400)
    found = compared(codes, 3)
    assert (found.rows, found.number) == (400, 2)
    assert found.gain > 200.0
    column = np.log(np.array([(codes == r).mean(0) for r in range(3)]))
    likelihood = sum(column[codes[:, d], d].sum() for d in range(6))
    assert_allclose(found.shares, likelihood - 0.5 * 12 * np.log(400), atol=0.1)
    whole, cut = compared(codes), found
    assert_allclose(whole.gain, cut.gain, rtol=1e-3)


def test_a_row_that_counts_twice_is_as_two_rows():
    codes = two_classes(200)
    weight = np.where(np.arange(200) % 2, 2.0, 1.0)
    once = feature_batch(codes, LEVELS, weight=weight)
    twice = feature_batch(np.repeat(codes, weight.astype(int), axis=0), LEVELS)
    found = [compare_models([sample_rows(b, 300.0)], LEVELS, None, 300.0) for b in (once, twice)]
    assert_allclose(found[0].shares, found[1].shares, rtol=1e-12)
    assert_allclose(found[0].classes, found[1].classes, rtol=1e-6)


def test_of_a_long_table_some_rows_are_compared_whatever_the_partitions():
    codes = two_classes(3 * MOST_ROWS)
    one, three = compared(codes), compared(codes, 3)
    assert_allclose(one.rows, MOST_ROWS, rtol=0.05)
    assert one.rows == three.rows


def test_a_run_without_features_says_what_latent_classes_say():
    settings = FeatureSettings()
    classes = compared(two_classes(400))
    said, warning = no_feature_in_words(classes, settings)
    assert "2 latent classes describe the rows better than each column's shares" in said
    assert "Fit a latent class model with 2 classes, or search again: --set starts=6" in warning
    alone = compared(np.random.default_rng(0).integers(0, 3, (400, 6)))
    assert alone.gain < 0.0
    said, _ = no_feature_in_words(alone, settings)
    assert said.startswith("the rows do not say more than each column's shares, and latent")
    assert "although no feature" in model_section(classes, 0).text


def test_a_difference_is_said_with_its_unit_and_its_margin():
    found = SimplerModels(216.0, -554.0, -529.0, 2, -536.0, (-554.0, -529.0))
    assert difference_in_words(found, 1) == ""
    said = "Of these models 1 feature (2 classes) describes the answers best: by the BIC its "
    assert model_section(found, 1).text.startswith(said)
    said = "The answers of 216 rows go together, best described (of the models tried) by two groups"
    assert groups_in_words(found, 216) == said
    assert "here described by two" in groups_in_words(replace(found, number=3), 216)
    assert "not sure" in groups_in_words(replace(found, each=(-529.0, -530.0)), 216)
    text = model_section(found, 2).text
    assert "No clear difference from 2 latent classes: with the features the answers are " in text
    assert "1,000 times less probable. Both are approximations: below about 10^13 " in text
    assert "nats" not in text
    most = SimplerModels(216.0, -554.0, -529.0, 4, -436.0, (-554.0, -529.0))
    said = difference_in_words(most, 2)
    assert said.endswith("better than 4 latent classes, the most that were tried")
    assert "better than 4 latent classes" in model_section(most, 1).text


def test_every_number_of_classes_has_its_probability_on_one_footing():
    found = SimplerModels(216.0, -554.0, -529.0, 2, -536.0, (-554.0, -529.0, -530.0, -545.0))
    section = model_section(found, 1)
    assert "by the BIC its probability is 73\u00a0%, if all are equally" in section.text
    (table,) = section.grids
    assert [row[0] for row in table.rows] == [
        "no feature (1 class)", "1 feature (2 classes)", "3 classes", "4 classes"
    ]  # fmt: skip
    assert table.rows[1][1:] == ("70 billion", "73\u00a0%")
    assert table.rows[0][2] == "below 1\u00a0%"
    assert table.rows[-1][:2] == ("4 classes", "8,000")  # one feature is two classes: no other row
    four = model_section(found, 4)
    assert "describes the answers best" not in four.text
    assert four.grids[0].rows[-1] == ("4 features", "70 million", "")
