"""Latent features of tables as users have them: a category is what its cell says."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.estimators import data
from vbmodels.estimators import LatentFeatures
from vbmodels.estimators.base import ColumnWarning
from vbmodels.features.forms import make
from vbmodels.features.options import FeatureOptions
from vbmodels.features.table import feature_batch

QUICK = {"starts": 1, "tol": 1e-4, "random_state": 0}


def features():
    return LatentFeatures(2, **QUICK)


def marks(rows=200):
    """The table of words as marks, yes for True."""
    return data.categories(rows=rows)[0] == "yes"


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


def test_text_is_read_as_by_the_command():
    rows = 240
    rng = np.random.default_rng(0)
    has = rng.random(rows) < 0.5
    codes = np.where(has, 4, 1)
    text = [(f" {c}", f"{c}.0", str(c))[i % 3] for i, c in enumerate(codes)]
    frame = pd.DataFrame(
        {
            "code": text,
            "flag": np.where(has ^ (rng.random(rows) < 0.1), "Yes", "N"),
            "blank": np.where(has ^ (rng.random(rows) < 0.1), "1", ""),
            "word": np.where(rng.random(rows) < 0.1, "N/A", np.where(has, "u", "v")),
            "income": [f"{1000 + i * 7},{i % 10}" for i in range(rows)],
            "again": [str(c) for c in codes],
        }
    )
    with pytest.warns(ColumnWarning, match="income .left out: measurements, not.*same cells as co"):
        found = features().fit(frame)
    table = found.columns_.set_index("name")
    assert table.loc["blank", "read_as"].startswith("yes/no (only yes or blank")
    assert table.loc["word", "missing"] == sum(frame["word"] == "N/A")
    assert table.loc["income", "read_as"] == "number (decimal comma)"
    assert [len(one) for one in found.categories_[:4]] == [2, 2, 2, 2]
    assert_array_equal(found._codes(frame.to_numpy(object))[:, 0], found._codes(
        frame.assign(code=codes).to_numpy(object))[:, 0])  # fmt: skip
    filled = found.impute(frame)
    assert set(filled["word"]) == {"u", "v"}
    assert_array_equal(filled["income"], frame["income"])


def test_new_rows_have_the_fits_categories_or_are_refused():
    table = data.categories()[0]
    found = features().fit(table)
    assert_array_equal(found.transform(np.char.upper(table.astype(str))), found.transform(table))
    some = table.astype(object)
    some[0, 0] = "perhaps"
    with pytest.warns(ColumnWarning, match="x0: 'perhaps'"):
        found.transform(some)
    with pytest.raises(ValueError, match=r"'yes'.*found .'[45]'"):
        found.transform(np.where(table == "yes", "4", "5"))


def test_measurements_of_numbers_are_kept_with_a_warning():
    frame = pd.DataFrame(np.where(marks(), "yes", "no")).assign(income=np.arange(200) / 7)
    with pytest.warns(ColumnWarning, match="measurements or dates, each value .*: income; cut"):
        found = features().fit(frame.rename(columns=str))
    assert found.columns_["used"].tolist() == ["yes"] * 6


def test_a_weight_is_how_often_a_row_is_there():
    """To the last digits, in any order of the rows; a weight of 0 is a row that is not there."""
    rng = np.random.default_rng(1)
    has = rng.random((90, 1)) < 0.4
    X = np.where(has ^ (rng.random((90, 6)) < 0.1), "yes", "no").astype(object)
    X[rng.random(X.shape) < 0.03] = None
    weight = rng.integers(0, 4, 90)
    repeated = np.repeat(X, weight, axis=0)[rng.permutation(weight.sum())]
    options = {"n_features": 3, "random_state": 0}
    once = LatentFeatures(**options).fit(X, sample_weight=weight)
    twice = LatentFeatures(**options).fit(repeated)
    assert once.n_features_ == twice.n_features_ >= 1
    assert_allclose(once.weight_means_, twice.weight_means_, rtol=1e-9)
    assert_allclose(once.transform(X), twice.transform(X), rtol=1e-9)
    half = LatentFeatures(**options).fit(X, sample_weight=np.where(weight, 0.5, 0.0))
    assert half.sigma2_ != once.sigma2_


def test_weights_do_not_shrink_the_sample_that_is_searched():
    batch = feature_batch(np.zeros((50, 2), int), np.array([2, 2]), weight=np.full(50, 1e5))
    model = make(FeatureOptions(search_rows=100))
    begun = model.init(model.observe(batch), np.random.default_rng(0))
    assert begun.search.share == 1.0
    assert begun.search.n_rows == 5e6
