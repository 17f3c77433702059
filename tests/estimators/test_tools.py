"""scikit-learn's tools on real data: folds with a control for a reference, weights of rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vbmodels.estimators import (
    MixtureOfExperts,
    VariantTester,
)
from vbmodels.estimators.base import ColumnWarning

pytestmark = pytest.mark.filterwarnings("ignore:.*the fit rests on its prior")


@dataclass(frozen=True)
class Case:
    """A pipeline around an estimator, with real data."""

    pipeline: Any
    X: Any
    y: Any = None
    more: dict[str, Any] = field(default_factory=dict)  # for cross_val_predict


def experts(data):
    rows = pq.read_table(data / "experts" / "breast_cancer_train.parquet").to_pandas()[:120]
    X = rows[[f"f{d}" for d in range(1, 7)]]
    chain = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        MixtureOfExperts(1, tau=1.0, random_state=0),
    )
    return Case(chain, X, rows["label"].to_numpy())


def variants(data):
    rows = pq.read_table(data / "variants" / "deepsnv_counts.parquet").to_pandas()
    rows = rows[rows["dataset"] == rows["dataset"].iloc[0]]
    rows = rows[rows["pos"].isin(np.unique(rows["pos"])[54:80])]
    tester = VariantTester(case="test", tol=1e-4)
    folds = {"groups": rows["pos"].to_numpy(), "cv": GroupKFold(2)}
    return Case(make_pipeline(tester), rows, None, folds)


@pytest.mark.thorough
def test_counts_in_arrays_go_through_folds_with_the_control_for_a_reference(shared_data):
    case = variants(shared_data)
    names = [("test", "fwd"), ("test", "rev"), ("control", "fwd"), ("control", "rev")]
    wide = case.X.pivot_table(index="pos", columns=["sample", "replicate"], values=list("ACGT"))
    counts = np.stack(
        [np.stack([wide[base][n].to_numpy() for base in "ACGT"], -1) for n in names], 1
    ).astype(int)
    of_case = np.array([True, True, False, False])
    tester = VariantTester(tol=1e-6)
    called = cross_val_predict(tester, counts, cv=2, params={"case": of_case})
    assert called.shape == (len(counts),)
    found = tester.fit(counts, case=of_case)
    assert_array_equal(found.predict(counts[::-1])[::-1], found.predict(counts))
    pipeline = clone(case.pipeline)
    pipeline[-1].set_params(tol=1e-6)
    with pytest.warns(ColumnWarning, match="columns not used: dataset .*; depth "):
        table = pipeline.fit(case.X)[-1]
    by_place = dict(zip(case.X["pos"], table.predict(case.X), strict=True))
    assert_array_equal([by_place[pos] for pos in wide.index], found.predict(counts))
    assert found.predict(counts).any()
    assert found.score(counts) == pytest.approx(table.score(case.X), rel=1e-3)
    with pytest.raises(ValueError, match="each of 4 replicates"):
        found.predict(counts, case=[True])
    with pytest.raises(ValueError, match="expected ref with counts without a control"):
        VariantTester().fit(counts, case=np.ones(4, bool))


@pytest.mark.parametrize("inference", ["additive", "cavi"])
def test_weights_of_rows(inference, shared_data):
    case = experts(shared_data)
    X, y = StandardScaler().fit_transform(case.X), case.y
    unweighted = MixtureOfExperts(1, inference=inference, tau=1.0, random_state=0)
    unweighted.set_params(standardise=False, max_iter=3000)
    plain = clone(unweighted).fit(X, y)
    ones = clone(unweighted).fit(X, y, sample_weight=np.ones(len(y)))
    assert_array_equal(ones.predict_proba(X), plain.predict_proba(X))
    heavy = clone(unweighted).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    same = clone(unweighted).set_params(class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    assert_array_equal(heavy.decision_function(X), same.decision_function(X))
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    some = np.arange(len(y)) % 3 > 0
    left = clone(unweighted).fit(X, y, sample_weight=some.astype(float))
    assert_array_equal(
        left.predict_proba(X), clone(unweighted).fit(X[some], y[some]).predict_proba(X)
    )
    with pytest.raises(ValueError, match=r"sample_weight is for .* not mh"):
        MixtureOfExperts(1, inference="mh").fit(X, y, sample_weight=np.ones(len(y)))
