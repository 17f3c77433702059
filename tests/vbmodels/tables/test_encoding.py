"""Tables as they come: what columns become, from sums that no cut changes."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vbmodels.experts.terms.knots import RowSample
from vbmodels.tables.encoding import (
    ColumnSums,
    encoded,
    encoded_sums,
    level_key,
    names_of,
    read_categories,
    read_numbers,
    scaled,
)

LEVELS = {"u": 60, "v": 30, "w": 6, "x": 4}


def raw_table(seed=0):
    """Return raw cells: a number, one with gaps, one with few, a yes or no, two categories."""
    rng = np.random.default_rng(seed)
    text = rng.permutation([name for name, n in LEVELS.items() for _ in range(n)])
    by = np.array([level_key(t) for t in text])
    by[:12] = np.nan
    numbers = rng.normal(3.0, 2.0, (100, 3))
    numbers[rng.permutation(100)[:20], 1] = np.nan
    numbers[5, 2] = np.nan
    sex = np.array([level_key(t) for t in rng.choice(["f", "m"], 100)])
    return np.column_stack([numbers, rng.random(100) < 0.3, by, sex]), text


def settled(raw, text):
    """Return what the columns become."""
    sums = ColumnSums.of(raw[:, :4], np.ones(100))
    columns = [
        read_numbers(
            f"n{j}", "number", sums.mean[j], int(100 - sums.gaps[j]), int(sums.gaps[j]), 10
        )
        for j in range(4)
    ]
    counts = {t: int(np.sum(text[12:] == t)) for t in LEVELS}
    columns.append(read_categories("by", counts, 12, 10, 100))
    of_sex = {t: int(np.sum(raw[:, 5] == level_key(t))) for t in ("f", "m")}
    columns.append(read_categories("sex", of_sex, 0, 10, 100))
    return sums, columns


def test_sums_of_the_columns_that_are_made_are_those_of_the_rows():
    raw, text = raw_table()
    sums, columns = settled(raw, text)
    x = encoded(raw, columns)
    names = names_of(columns)
    assert names == [
        "n0", "n1", "n1 (missing)", "n2", "n3", "by = u", "by = v", "by (missing)", "sex = m",
    ]  # fmt: skip
    derived, direct = encoded_sums(sums, columns), ColumnSums.of(x, np.ones(100))
    assert_allclose(derived.mean, direct.mean, rtol=1e-12)
    made = [i for i, name in enumerate(names) if name not in ("n1", "n2")]
    assert_allclose(derived.sd[made], direct.sd[made], rtol=1e-12)
    assert_allclose(derived.sd[1], np.nanstd(raw[:, 1]), rtol=1e-12)
    for name in ("nonzero", "binary", "least", "most"):
        assert_array_equal(getattr(derived, name), getattr(direct, name), err_msg=name)


@pytest.mark.parametrize("cuts", [(1,), (12, 40, 77)])
def test_no_cut_changes_sums_with_gaps_or_knots(cuts):
    raw, _ = raw_table()
    numbers = raw[:, :4]
    whole = ColumnSums.of(numbers, np.ones(100))
    parts = [ColumnSums.of(part, np.ones(len(part))) for part in np.split(numbers, cuts)]
    both = reduce(add, parts)
    for name in ("mean", "sd"):
        assert_allclose(getattr(both, name), getattr(whole, name), rtol=1e-12)
    for name in ("nonzero", "binary", "least", "most", "gaps"):
        assert_array_equal(getattr(both, name), getattr(whole, name), err_msg=name)
    keys = np.arange(100)
    samples = [RowSample.of(numbers[part], keys[part]) for part in np.split(keys, cuts)]
    fixed = np.array([False, False, False, True])
    knots = RowSample.of(numbers, keys).knots(fixed)
    assert_array_equal(reduce(add, samples).knots(fixed), knots)
    given = numbers[~np.isnan(numbers[:, 1]), 1]
    assert given.min() < knots[1, 0] < np.median(given) < knots[1, -1] < given.max()


def sums_of(x, cuts=()):
    first, *rest = (ColumnSums.of(part, np.ones(len(part))) for part in np.split(x, cuts))
    for part in rest:
        first = first + part
    return first


@pytest.mark.parametrize("size", [1.0, 1e300, 1e-300])
def test_scale_follows_the_columns_whatever_their_size(size):
    x = np.random.default_rng(0).normal([0.0, 5.0, -1.0], 1.0, (50, 3))
    for cuts in ((), (7, 30)):
        centre, scale = sums_of(size * x, cuts).scaling(True)
        assert_allclose(centre, size * x.mean(0), rtol=1e-12)
        assert_allclose(scale, size * x.std(0), rtol=1e-12)


@pytest.mark.parametrize("standardise", [True, False])
def test_constant_columns_become_zero_in_new_rows_too(standardise):
    x = np.column_stack([np.arange(6.0), np.full(6, 2023.0), np.zeros(6), np.ones(6)])
    sums = sums_of(x, (2,))
    centre, scale = sums.scaling(standardise)
    assert_array_equal(centre[1:], [2023.0, 0.0, 1.0])
    assert_array_equal(scale[1:], np.inf)
    new = np.array([[1.0, 1e9, -3.0, 0.0], [2.0, 1.7e308, np.finfo(float).tiny, 7.0]])
    found = scaled(new, centre, scale)
    assert_array_equal(found[:, 1:], 0.0)
    assert_allclose(found[:, 0], (new[:, 0] - centre[0]) / scale[0])
    assert sums.density(centre) <= 0.25
