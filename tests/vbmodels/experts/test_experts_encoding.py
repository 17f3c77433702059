"""Tables as they come: what columns become, from sums that no cut changes."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vbmodels.experts.columns import ColumnSums
from vbmodels.experts.encoding import (
    encoded,
    encoded_sums,
    level_key,
    names_of,
    read_categories,
    read_numbers,
    unseen,
)
from vbmodels.experts.knots import RowSample

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
    told, direct = encoded_sums(sums, columns), ColumnSums.of(x, np.ones(100))
    assert_allclose(told.mean, direct.mean, rtol=1e-12)
    made = [i for i, name in enumerate(names) if name not in ("n1", "n2")]
    assert_allclose(told.sd[made], direct.sd[made], rtol=1e-12)
    assert_allclose(told.sd[1], np.nanstd(raw[:, 1]), rtol=1e-12)
    for name in ("nonzero", "binary", "least", "most"):
        assert_array_equal(getattr(told, name), getattr(direct, name), err_msg=name)


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


def test_a_partition_whose_cells_are_all_missing_says_nothing():
    x = np.column_stack([np.arange(6.0), [np.nan, np.nan, np.nan, 1.0, 5.0, 9.0]])
    both = ColumnSums.of(x[:3], np.ones(3)) + ColumnSums.of(x[3:], np.ones(3))
    assert_allclose(both.mean, [2.5, 5.0])
    assert_allclose(both.sd[1], np.std([1.0, 5.0, 9.0]))
    assert_array_equal(both.gaps, [0, 3])
    assert (both.least[1], both.most[1]) == (1.0, 9.0)


def test_levels_never_seen_are_the_reference():
    by = read_categories("by", LEVELS, 0, 10, 100)
    cells = np.array([level_key(t) for t in ("u", "w", "never")] + [np.nan])
    assert_array_equal(encoded(cells[:, None], [by]), [[1, 0], [0, 0], [0, 0], [0, 0]])
    assert_array_equal(unseen(cells, by), [False, False, True, False])
