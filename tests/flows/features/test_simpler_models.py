"""The features against shares, latent classes and a scale, and what a run without any says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from flows.features.settings import FeatureSettings
from flows.features.simpler_models import (
    CLOSE,
    MOST_ROWS,
    SimplerModels,
    compare_models,
    difference_in_words,
    groups_in_words,
    model_section,
    no_feature_in_words,
    sample_rows,
    undecided_in_words,
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
    assert (found.rows, found.rival(0)[0]) == (400, "2 latent classes")
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
    assert "one sliding scale describes the rows better than each column's shares" in said
    assert "Fit an item response model, or search again" in warning
    two = replace(found, features=found.each[1])
    assert difference_in_words(two, 1) == "one sliding scale describes the answers better"
    assert "here described by two" in groups_in_words(two, 800)
    assert "The rows may differ by degree rather than by" in model_section(two, 1).text
    assert (
        "Of these models one sliding scale describes the answers best" in model_section(two, 1).text
    )


def test_two_columns_of_two_answers_determine_no_scale():
    codes = np.random.default_rng(0).integers(0, 2, (300, 2))
    samples = [sample_rows(batch, 300) for batch in split_rows(codes, np.full(2, 2), 1)]
    found = compare_models(samples, np.full(2, 2), None, 300.0)
    assert found.scale is None
    assert len(model_section(found, 1).grids[0].rows) == len(found.each)


def test_a_run_without_features_says_what_simpler_models_say():
    settings = FeatureSettings()
    classes = compared(two_classes(400))
    said, warning = no_feature_in_words(classes, settings)
    assert "2 latent classes describe the rows better than each column's shares" in said
    assert "Fit a latent class model (2 latent classes), or search again: --set starts=6" in warning
    alone = compared(np.random.default_rng(0).integers(0, 3, (400, 6)))
    assert alone.gain < 0.0
    said, _ = no_feature_in_words(alone, settings)
    assert said.startswith("the rows do not say more than each column's shares, and simpler")
    assert "Although no feature" in model_section(classes, 0).text


def test_a_difference_is_said_with_its_unit_and_its_margin():
    found = SimplerModels(216.0, (-554.0, -529.0), -536.0)
    two = replace(found, features=-529.0, scale=-535.0)
    assert difference_in_words(two, 1) == "one sliding scale describes the answers worse"
    said = "with the feature the answers are 400 times as probable. Of these models 1 feature "
    assert said in model_section(two, 1).text
    related = "The answers of 216 rows are related (70 billion times as probable as unrelated)"
    said = f"{related}, best described (of the models tried) by two groups"
    assert groups_in_words(two, 216) == said
    near = replace(two, scale=-529.2)
    assert difference_in_words(near, 1) == "one sliding scale describes the answers about as well"
    assert "here described by two" in groups_in_words(near, 216)
    assert "here described by two" in groups_in_words(replace(two, each=(-554, -529, -528)), 216)
    assert undecided_in_words(two, 216) == ""
    assert undecided_in_words(replace(two, scale=None, each=(-554.0, -529.0)), 216) == ""
    assert undecided_in_words(near, 216).replace("\u00a0", " ") == (
        "The answers of 216 rows are related: two groups are 70 billion times as probable as no "
        "relation. The data do not decide between two groups (probability 55 %) and one sliding "
        "scale (45 %)"
    )
    assert "not sure" in groups_in_words(replace(found, each=(-529.0, -530.0)), 216)
    text = model_section(found, 2).text
    assert "2 latent classes describe the answers about as well: with the features the " in text
    said = "1,000 times less probable. The probabilities by both models are approximate: below "
    assert f"{said}about 10¹³ " in text
    assert text.endswith(
        " no difference is clear. Describe the answers by either, and say that the data do not "
        "decide between them."
    )
    assert "nats" not in text
    most = SimplerModels(216.0, (-554.0, -530.0, -530.0, -529.0), -436.0)
    said = difference_in_words(most, 2)
    assert said == "4 latent classes, the most that were tried, describe the answers worse"


def test_every_model_has_its_probability_on_one_footing():
    found = SimplerModels(216.0, (-554.0, -529.0, -530.0, -545.0), -529.0, -533.0)
    section = model_section(found, 1)
    assert section.text.endswith(
        "No model reaches 95\u00a0%: by the BIC the probabilities are 1 feature (2 groups) "
        "72\u00a0%, 3 groups 27\u00a0%, if all are equally probable beforehand. Describe the "
        "answers by either, and say that the data do not decide between them."
    )
    (table,) = section.grids
    assert [row[0] for row in table.rows] == [
        "no feature (1 group)", "1 feature (2 groups)", "3 groups", "4 groups",
        "one sliding scale",
    ]  # fmt: skip
    assert table.rows[1][1:] == ("highest", "72\u00a0%")
    assert table.rows[0][2] == "below 1\u00a0%"
    less = "9 million times less"  # one feature is two groups: no other row
    assert table.rows[-2][:2] == ("4 groups", less)
    assert table.rows[-1] == ("one sliding scale", "50 times less", "1\u00a0%")
    four = model_section(replace(found, features=-536.0), 4)
    assert "describes the answers best" not in four.text
    assert four.grids[0].rows[-1] == ("4 features", "1,000 times less", "")
    bounded = model_section(replace(found, two_features=-540.0), 1).grids[0]
    assert bounded.rows[2] == ("2 features", "about 60,000 times less, at best", "below 1\u00a0%")
    near = model_section(replace(found, two_features=-531.0), 1).grids[0]
    assert "2 features" not in [row[0] for row in near.rows]


def test_two_features_are_bounded_by_four_groups():
    """Of two features the log-likelihood is at most that of the four groups that they make."""
    rng = np.random.default_rng(1)
    on = np.repeat(rng.random((800, 2)) < 0.5, 3, axis=1)
    found = compared((rng.random((800, 6)) < np.where(on, 0.9, 0.1)).astype(int))
    assert found.two_features > max(*found.each[:2], found.scale) + CLOSE
    one = compared(two_classes(400))
    assert one.two_features < one.each[1] - CLOSE
