"""Columns of every size and unit: their scale, and searches that do not hang on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vbmodels.experts.columns import ColumnSums, scaled, too_large
from vbmodels.experts.searches import Climbing


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


def test_opposite_ends_of_the_range_have_a_scale():
    x = np.array([[1.7e308], [-1.7e308], [1.7e308], [-1.7e308]])
    for cuts in ((), (1,), (2,)):
        assert_allclose(sums_of(x, cuts).scaling(True), [[0.0], [1.7e308]])


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


def test_cells_that_overflow_are_found():
    assert too_large(np.array([[1.0, -1e99]])) is None
    assert too_large(np.array([[1.0, 2.0], [3.0, -1e101]])) == (1, 1)
    assert too_large(np.array([[1.0, np.nan]])) == (0, 1)


# Searches.


@pytest.mark.parametrize(
    ("away", "rises", "over"), [(1e3, 1, False), (1e-2, 1, True), (1e3, 19, True)]
)
def test_small_rises_far_from_the_top_do_not_end_a_search(away, rises, over):
    """A tiny step on a parabola, after as many small rises: what is left is away^2 / 2."""
    first = Climbing.first(np.zeros(1), -0.5 * away**2, np.array([away]))
    first = replace(first, small=rises, ascent=replace(first.ascent, stride=np.array([1e-9])))
    at = first.ascent.trial[0]
    value = -0.5 * float((away - at[0]) ** 2)
    assert 0.0 < value - first.ascent.value[0] < 1e-2
    after = first.updated(value, away - at, 1e-2)
    assert after.ascent.at[0] == at
    assert after.done == over
