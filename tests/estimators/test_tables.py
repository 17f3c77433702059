"""Tables of every library, columns by the user's names, sparse matrices, kinds of output."""

import narwhals
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tests.estimators import data
from vbmodels.estimators import (
    KeywordExtractor,
    LatentFeatures,
    MILGPClassifier,
    MixtureOfExperts,
    VariantTester,
    to_bags,
)

EXPERTS = MixtureOfExperts(1, tau=1.0, random_state=0)
FEATURES = LatentFeatures(2, starts=1, tol=1e-3, random_state=0)
BAGS = MILGPClassifier(n_inducing=10, kernel_params="heuristic", random_state=0)


def polars(columns):
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(columns)


def over_pandas(columns):
    return narwhals.from_native(pd.DataFrame(columns))


def kinds(*makers):
    return pytest.mark.parametrize("kind", makers, ids=lambda make: make.__name__)


def column(table, name):
    found = table[name]
    return (found.to_pylist if hasattr(found, "to_pylist") else found.to_list)()


@kinds(pd.DataFrame, over_pandas)
def test_rows_of_numbers(kind):
    x, y = data.crossed(rows=60)
    table = kind({f"x{d}": x[:, d].tolist() for d in range(3)})
    found = clone(EXPERTS).fit(table, y)
    assert found.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert_array_equal(found.predict_proba(table), clone(EXPERTS).fit(x, y).predict_proba(x))
    assert type(found.responsibilities(table)) is type(table)


@kinds(polars, over_pandas)
def test_rows_of_categories(kind):
    words = data.categories(rows=60)[0].astype(object)
    words[0, 0] = None
    table = kind({f"c{d}": words[:, d].tolist() for d in range(5)})
    found = clone(FEATURES).fit(table)
    plain = clone(FEATURES).fit(words)
    seen, filled = found.transform(table), found.impute(table)
    assert type(seen) is type(filled) is type(table)
    names = found.get_feature_names_out()
    assert_array_equal(np.column_stack([column(seen, n) for n in names]), plain.transform(words))
    assert column(filled, "c0") == plain.impute(words)[:, 0].tolist()


@kinds(pa.table, polars)
@pytest.mark.parametrize("output", ["pandas", "polars", "default"])
def test_the_kind_of_output_follows_set_output(kind, output):
    words = data.categories(rows=60)[0]
    table = kind({f"c{d}": words[:, d].tolist() for d in range(5)})
    found = clone(FEATURES).set_output(transform=output).fit(table)
    wanted = {"pandas": pd.DataFrame, "default": type(table)}.get(output)
    if wanted is None:
        wanted = pytest.importorskip("polars", reason="polars is not installed").DataFrame
    seen = found.transform(table)
    assert isinstance(seen, wanted)
    assert [*map(str, seen.columns)] != [] if hasattr(seen, "columns") else seen.column_names
    plain = clone(FEATURES).fit(words).transform(words)
    assert_array_equal(column(seen, found.get_feature_names_out()[0]), plain[:, 0])


@kinds(pa.table, polars)
def test_documents(kind):
    texts, known, _ = data.documents(count=20)
    plain = KeywordExtractor().fit(texts, known)
    table = kind({"tokens": texts, "keywords": [";".join(some) for some in known]})
    plain_one = KeywordExtractor()
    found = plain_one.fit(table)
    scored = found.transform(table)
    assert type(scored) is type(table)
    assert column(scored, "keywords") == plain.transform(texts, known)
    assert type(found.score_candidates(table)) is type(table)
    made = plain_one.set_output(transform="pandas").fit_transform(table)
    assert isinstance(made, pd.DataFrame)
    assert made.columns.tolist() == found.get_feature_names_out().tolist()
    assert make_pipeline(plain_one).set_output(transform="default") is not None


@kinds(pa.table, polars)
def test_bags_and_counts(kind):
    x, y = data.bags()
    long = data.long_table(x, y)
    found, plain = clone(BAGS).fit(kind(long)), clone(BAGS).fit(pd.DataFrame(long))
    without = {name: cells for name, cells in long.items() if name != "label"}
    assert_array_equal(found.predict_proba(kind(without)), plain.predict_proba(pd.DataFrame(long)))
    bags, labels, ids = to_bags(kind(long))
    assert [bag.tolist() for bag in bags] == [x[int(i[1:])].tolist() for i in ids]
    assert labels == [y[int(i[1:])] for i in ids]
    counts, _, case = data.reads(locations=12)
    given = kind(data.counts_table(counts, case))
    scored = VariantTester(tol=1e-3).fit(given).test()
    assert type(scored) is type(given)
    assert column(scored, "chrom")[:1] == ["1"]


def test_labels_of_every_kind():
    x, y = data.bags()
    plain = clone(BAGS).fit(x, y)
    for kind in (pd.Series, np.array, pa.array, lambda one: pa.chunked_array([one]), tuple):
        assert_array_equal(clone(BAGS).fit(x, kind(y)).predict(x), plain.predict(x))
    odd = pd.Series(x, index=range(5, 5 + len(x)))
    assert_array_equal(clone(BAGS).fit(odd, y).predict(odd), plain.predict(x))
    words = clone(BAGS).fit(x, np.where(np.array(y) == 1, "yes", "no"))
    assert words.classes_.tolist() == ["no", "yes"]
    assert_array_equal(words.predict_proba(x), plain.predict_proba(x))
    table = pd.DataFrame(data.long_table(x))
    each = [y[int(name[1:])] for name in table["bag_id"]]
    with pytest.raises(ValueError, match=r"found \d+, one a row: .* to_bags\(table\)"):
        clone(BAGS).fit(table, each)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_sparse_matrices(make):
    x, y = data.crossed(rows=80)
    x = np.where(np.abs(x) > 0.5, x, 0.0)
    found, plain = clone(EXPERTS).fit(make(x), y), clone(EXPERTS).fit(x, y)
    assert_array_equal(found.predict_proba(make(x)), plain.predict_proba(x))
    marks = (data.categories(rows=60)[0] == "yes").astype(float)
    of_marks = clone(FEATURES).fit(make(marks))
    assert_array_equal(of_marks.transform(make(marks)), clone(FEATURES).fit_transform(marks))
    assert_array_equal(of_marks.impute(make(marks)), marks)
    bags, labels = data.bags()
    sparse = [make(bag) for bag in bags]
    assert_array_equal(
        clone(BAGS).fit(sparse, labels).predict(sparse), clone(BAGS).fit(bags, labels).predict(bags)
    )
