"""The additive regressor: tables as they come, intervals, pictures, and scikit-learn's checks."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from vbmodels.estimators import AdditiveRegressor

mpl.use("Agg")


def houses(n, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({
        "area": rng.gamma(8.0, 12.0, n),
        "town": rng.choice(["A", "B", "C"], n),
        "built": pd.Timestamp("1980-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
        "garden": rng.choice(["yes", "no"], n),
    })  # fmt: skip
    X.loc[rng.random(n) < 0.1, "area"] = np.nan
    area = X["area"].fillna(96.0)
    y = 1000.0 * np.sqrt(area) + 3000.0 * (X["town"] == "C") + 50_000.0
    y = y + np.where(X["garden"] == "yes", 20.0, -5.0) * (area - 96.0)
    return X, (y + 500.0 * rng.standard_normal(n)).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    X, y = houses(900)
    return AdditiveRegressor(random_state=0).fit(X, y)


def test_a_table_as_it_comes_is_predicted_with_intervals(fitted):
    X, y = houses(500, 1)
    mean, sd = fitted.predict(X, return_std=True)
    assert fitted.score(X, y) > 0.9
    assert fitted.r2_ == pytest.approx(fitted.score(X, y), abs=0.05)
    assert 0.92 < np.mean(np.abs(y - mean) < 1.96 * sd) < 0.99
    assert fitted.noise_sd_ == pytest.approx(np.std(y - mean), rel=0.25)
    text = fitted.summary(X, y)
    assert "4 of 4 columns used" in text
    assert "area" in text
    assert "; better." in text


def test_pictures_are_in_the_unit_of_the_target(fitted):
    axes = fitted.plot()
    titles = [one.get_title() for one in axes if one.get_title()]
    assert titles[0] == "area"
    assert "area and garden" in titles
    (line, *_) = fitted.plot(column="area").get_lines()[1:]
    assert 5000.0 < np.ptp(line.get_ydata()) < 30_000.0
    assert fitted.plot(column=("garden", "area")).get_title() in (
        "area and garden",
        "garden and area",
    )


def test_partitions_change_nothing_and_weights_do():
    X, y = houses(300)
    one = AdditiveRegressor().fit(X, y)
    four = AdditiveRegressor(n_partitions=4).fit(X, y)
    np.testing.assert_allclose(one.predict(X), four.predict(X), rtol=1e-7)
    above = np.arange(300) % 2 * 1e6
    heavy = np.where(above > 0.0, 3.0, 1.0)
    some = AdditiveRegressor().fit(X, y + above, sample_weight=heavy)
    assert np.mean(some.predict(X) - y) == pytest.approx(0.75e6, rel=0.03)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_the_unit_of_the_target_and_of_weights_does_not_matter(unit):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    y = np.abs(x[:, 0]) + 0.1 * rng.standard_normal(200)
    plain = AdditiveRegressor().fit(x, y)
    assert_allclose(AdditiveRegressor().fit(x, y * unit).predict(x) / unit, plain.predict(x))
    heavy = AdditiveRegressor().fit(x, y, np.full(200, 1e6))
    assert_allclose(heavy.predict(x), plain.predict(x), rtol=1e-9)
    assert "R2 nan" in plain.summary(x[:1], y[:1])


GRID = np.array([(i, j) for i in range(5) for j in range(5)], float)


@pytest.mark.parametrize(
    ("cells", "effect", "explained"),
    [
        (np.repeat([[0.0], [1.0]], 150, 0), lambda c: c[:, 0], 0.1),
        (np.repeat([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)], 75, 0),
         lambda c: 2.0 * (c[:, 0] != c[:, 1]), 0.4),
        (np.repeat(GRID, 20, 0), lambda c: np.sin(c[:, 0]) + 0.5 * c[:, 1], 0.4),
    ],
)  # fmt: skip
def test_many_rows_of_each_combination_of_cells_are_no_copies(cells, effect, explained):
    rng = np.random.default_rng(1)
    y, new = (effect(cells) + rng.standard_normal(len(cells)) for _ in range(2))
    found = AdditiveRegressor(random_state=0).fit(cells, y)
    mean, sd = found.predict(cells, return_std=True)
    assert 1.0 - np.var(new - mean) / np.var(new) > explained
    assert found.noise_sd_ == pytest.approx(1.0, abs=0.12)
    assert 0.9 < np.mean(np.abs(new - mean) < 1.96 * sd) < 0.98
    order = rng.permutation(len(cells))
    again = AdditiveRegressor(random_state=0).fit(cells[order], y[order])
    assert_allclose(again.predict(cells), mean, rtol=1e-6)


@pytest.mark.parametrize("values", [(1.0, 2.0), (-1.0, 1.0), (2.0, 1.0)])
def test_a_pair_with_a_column_of_two_numbers_is_found_whatever_they_are(values):
    rng = np.random.default_rng(0)
    often, x = rng.random(900) < 0.85, rng.standard_normal(900)
    y = np.where(often, 1.0, -1.0) * x + 0.3 * rng.standard_normal(900)
    X = np.column_stack([np.where(often, *values[::-1]), x])
    found = AdditiveRegressor(gaussian_process=False).fit(X[:600], y[:600])
    assert found.score(X[600:], y[600:]) > 0.85


def test_a_picture_of_no_column_is_refused(fitted):
    with pytest.raises(ValueError, match=r"column: expected one of area, .*, got 'x'"):
        fitted.plot(column="x")


# A weight of two enters the likelihood as two rows do; folds and knots are of rows.
BY_ROWS = "check_sample_weight_equivalence"
CHECKS = [
    (check, check.func.__name__)
    for _, check in estimator_checks_generator(AdditiveRegressor())
    if not check.func.__name__.startswith(BY_ROWS)
]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", [c for c, _ in CHECKS], ids=[n for _, n in CHECKS])
def test_scikit_learn(check):
    check(clone(AdditiveRegressor()))
