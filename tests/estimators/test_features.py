"""Latent features of tables as users have them: a category is what its cell says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from tests.estimators import data
from vbmodels.estimators import LatentFeatures

ASKED = {"starts": 1, "tol": 1e-4, "random_state": 0}


def features():
    return LatentFeatures(2, **ASKED)


def marks(rows=200):
    """The table of words as marks, yes for True."""
    return data.categories(rows=rows)[0] == "yes"


@pytest.mark.thorough
def test_marks_of_an_arrow_table_are_those_of_pandas():
    named = {f"c{d}": column.tolist() for d, column in enumerate(marks().T)}
    arrow, frame = pa.table(named), pd.DataFrame(named)
    found = features().fit(arrow)
    assert sorted(found.categories_[0]) == [False, True]
    assert_array_equal(found.transform(frame), np.asarray(found.transform(arrow).to_pandas()))
    holes = pa.table({**named, "c0": [None, *named["c0"][1:]]})
    filled = features().fit(holes).impute(holes)
    assert filled["c0"].type == pa.bool_()
    assert filled["c0"].to_pylist()[1:] == named["c0"][1:]


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table])
def test_long_numbers_stay_apart(kind):
    has = marks()
    named = {f"c{d}": (2**53 + column).tolist() for d, column in enumerate(has.T)}
    found = features().fit(kind(named))
    assert sorted(found.categories_[0]) == [2**53, 2**53 + 1]


@pytest.mark.parametrize("hole", [None, pd.NA])
def test_a_gap_in_a_list_of_lists_is_no_category(hole):
    rows = data.categories()[0].tolist()
    rows[0][0] = hole
    found = features().fit(rows)
    assert found.categories_[0] == ["no", "yes"]
    filled = found.impute(rows)
    assert filled[0, 0] in ("yes", "no")
    assert_array_equal(filled[1:], np.array(rows[1:]))


@pytest.mark.parametrize("kind", [pa.table, lambda named: np.column_stack(list(named.values()))])
def test_infinity_is_refused_with_its_place(kind):
    named = {f"c{d}": column.astype(float) for d, column in enumerate(marks().T)}
    named["c1"][2] = np.inf
    with pytest.raises(ValueError, match=r"found inf in row 2, column 1|contains infinity"):
        features().fit(kind(named))


@pytest.mark.thorough
def test_rare_categories_are_joined_and_filled_with_the_most_frequent():
    rng = np.random.default_rng(0)
    first = np.array(["a"] * 30 + ["b"] * 20 + ["c"] * 3 + ["d"] * 2 + ["e"], dtype=object)
    table = np.column_stack([first, rng.choice(["no", "yes"], len(first))]).astype(object)
    found = LatentFeatures(2, random_state=0, tol=1e-4).fit(table)
    assert found.categories_[0] == ["a", "b", ("c", "d", "e")]
    few = LatentFeatures(2, random_state=0, tol=1e-4, max_categories=2).fit(table)
    assert few.categories_[0] == ["a", ("b", "c", "d", "e")]
    apart = LatentFeatures(2, random_state=0, tol=1e-4, rare_below=0).fit(table)
    assert apart.categories_[0] == ["a", "b", "c", "d", "e"]
    filled = few.impute(np.array([[None, "no"], ["e", None]], dtype=object))
    assert filled[0, 0] in ("a", "b")
    assert filled[1, 0] == "e"
    assert found.transform(table[-2:]).shape == (2, found.n_features_)
