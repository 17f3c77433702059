"""What scikit-learn's tools, tables of other libraries and ArviZ see of the estimators."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.estimators import data
from vbmodels.estimators import (
    LatentFeatures,
    MILGPClassifier,
    MixtureOfExperts,
    VariantTester,
)
from vbmodels.estimators.base import ColumnWarning

EXPERTS = MixtureOfExperts(2, inference="cavi", tau=0.3, random_state=0)
FEATURES = LatentFeatures(3, starts=1, tol=1e-4, random_state=0)


def test_pipeline_grid_clone_pickle_and_joblib(tmp_path):
    x, y = data.crossed()
    chain = make_pipeline(StandardScaler(), clone(EXPERTS))
    search = GridSearchCV(chain, {"mixtureofexperts__n_experts": [1, 2]}, cv=3, n_jobs=1).fit(x, y)
    assert search.best_params_ == {"mixtureofexperts__n_experts": 2}
    assert search.best_score_ > 0.8
    fitted = clone(EXPERTS).fit(x, y)
    path = tmp_path / "fitted.joblib"
    joblib.dump(fitted, path)
    for again in (pickle.loads(pickle.dumps(fitted)), joblib.load(path)):
        assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert not hasattr(clone(fitted), "q_")


def test_features_keep_the_rows_names_and_count_new_categories_as_missing():
    x, _ = data.categories()
    frame = pd.DataFrame(x[:100], index=[f"r{i}" for i in range(100)], columns=list("abcde"))
    found = clone(FEATURES).fit(frame)
    assert found.transform(frame).index.tolist() == frame.index.tolist()
    odd, hole = frame.copy(), frame.copy()
    odd.loc["r0", "a"], hole.loc["r0", "a"] = "perhaps", None
    with pytest.warns(ColumnWarning, match="a: 'perhaps'"):
        assert_array_equal(found.transform(odd), found.transform(hole))
    with pytest.warns(ColumnWarning):
        assert found.impute(odd).loc["r0", "a"] == "perhaps"
    chain = make_pipeline(clone(FEATURES), clone(EXPERTS))
    assert chain.fit(frame, frame["a"] == "yes").score(frame, frame["a"] == "yes") > 0.7


@pytest.mark.slow
def test_draws_of_experts_in_arviz():
    x, y = data.crossed(rows=60)
    found = clone(EXPERTS).set_params(inference="mh", warmup=20, draws=10, thin=1).fit(x, y)
    posterior = found.to_arviz().posterior
    assert posterior["expert"].dims == ("chain", "draw", "expert_number", "column")
    assert posterior["expert"].shape[:2] == (4, 10)


def test_a_fit_that_stops_too_early_says_so():
    x, y = data.crossed()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        found = clone(EXPERTS).set_params(inference="cavi", max_iter=3).fit(x, y)
    assert found.converged_ is False
    with pytest.raises(ValueError, match="inference mh for draws, got cavi"):
        found.to_arviz()
    with pytest.raises(ValueError, match="inference additive for pictures of columns, got cavi"):
        found.plot()
    with pytest.raises(ValueError, match=r"the form was being chosen.*raise max_iter"):
        MixtureOfExperts(2, max_iter=3, random_state=0).fit(x, y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, y: MixtureOfExperts(0).fit(x, y), "n_experts"),
        (lambda x, y: MixtureOfExperts(inference="magic").fit(x, y), "inference"),
        (lambda x, y: MILGPClassifier(kernel="magic").fit([x, x], [0, 1]), "kernel"),
    ],
)
def test_parameters_are_checked_by_scikit_learn(make, message):
    """What is said of others, and of data: tests/sentences/python.py."""
    with pytest.raises(ValueError, match=message):
        make(*data.crossed(rows=40))


@pytest.fixture(scope="module")
def few_reads():
    rng = np.random.default_rng(0)
    counts = np.zeros((60, 4, 4), int)
    counts[:, :, 1:] = rng.binomial(2000, 5e-4, (60, 4, 3))
    counts[7, :2, 2] = 40
    counts[:, :, 0] = 2000 - counts[:, :, 1:].sum(axis=2)
    return counts, {"ref": np.zeros(60, int), "case": [1, 1, 0, 0]}


def test_where_the_control_has_no_reads_the_case_alone_is_tested(few_reads):
    counts, of = few_reads
    counts = counts.copy()
    counts[10:55, 2:] = 0
    counts[40, :2] = [1800, 0, 0, 200]
    counts[50, :2] = [0, 0, 2000, 0]
    with pytest.warns(UserWarning, match="no reads at 45 of 60"):
        found = VariantTester().fit(counts, **of).test()
    assert [(j, str(a)) for j, a in found[found["called"]][["pos", "alt"]].tolist()] == [
        (7, "G"), (40, "T"), (50, "G"),
    ]  # fmt: skip
    counts[:, 2:] = 0
    with pytest.warns(UserWarning, match="no reads at 60 of 60"):
        tester = VariantTester(e_bh=True).fit(counts, **of)
    assert tester.n_iter_ < 150
    assert np.unique(tester.test()["pos"][tester.test()["called"]]).tolist() == [7, 40, 50]
    assert (tester.substitutions_["batch_factor_q025"] < 0.2).all()


def test_a_case_without_reads_and_a_case_of_names_are_refused(few_reads):
    counts, of = few_reads
    none = counts.copy()
    none[:, :2] = 0
    with pytest.raises(ValueError, match="reads of the case, found none at 60"):
        VariantTester().fit(none, **of)
    for case in (["case", "case", "control", "control"], [2, 2, 0, 0], ["1", "1", "0", "0"]):
        with pytest.raises(ValueError, match="expected case as True and False"):
            VariantTester().fit(counts, ref=of["ref"], case=case)


def test_locations_without_a_reference_base_are_refused(few_reads):
    counts, of = few_reads
    none = np.full(60, -1)
    with pytest.raises(ValueError, match="expected A, C, G or T as ref, found none at 60"):
        VariantTester().fit(counts, ref=none, case=of["case"])
    found = VariantTester(tol=1e-2).fit(counts, **of)
    with pytest.raises(ValueError, match="expected whole numbers"):
        found.test(case=of["case"])  # of which counts?
    with pytest.raises(ValueError, match="expected A, C, G or T as ref, found none at 60"):
        found.score(counts, ref=none)


def test_contigs_may_be_numbers_and_text_but_not_missing(few_reads):
    counts, of = few_reads
    rows = [
        {"chrom": 1 if j < 30 else "X", "pos": j, "ref": "A", "replicate": r,
         "sample": "case" if of["case"][r] else "control", **dict(zip("ACGT", reads, strict=True))}
        for j, each in enumerate(counts) for r, reads in enumerate(each)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    found = VariantTester(tol=1e-2).fit(table).test()
    assert found["chrom"].tolist() == [1] * 90 + ["X"] * 90
    for name in ("chrom", "pos"):
        gap = table.astype(object)
        gap.loc[5, name] = None
        with pytest.raises(ValueError, match=f"expected a {name} in row 5, found none"):
            VariantTester().fit(gap)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*the fit rests on its prior")
def test_counts_in_arrays_go_through_folds_with_the_control_for_a_reference(shared_data):
    rows = pq.read_table(shared_data / "variants" / "deepsnv_counts.parquet").to_pandas()
    rows = rows[rows["dataset"] == rows["dataset"].iloc[0]]
    rows = rows[rows["pos"].isin(np.unique(rows["pos"])[54:80])]
    names = [("test", "fwd"), ("test", "rev"), ("control", "fwd"), ("control", "rev")]
    wide = rows.pivot_table(index="pos", columns=["sample", "replicate"], values=list("ACGT"))
    counts = np.stack(
        [np.stack([wide[base][n].to_numpy() for base in "ACGT"], -1) for n in names], 1
    ).astype(int)
    of_case = np.array([True, True, False, False])
    tester = VariantTester(tol=1e-6)
    called = cross_val_predict(tester, counts, cv=2, params={"case": of_case})
    assert called.shape == (len(counts),)
    found = tester.fit(counts, case=of_case)
    assert_array_equal(found.predict(counts[::-1])[::-1], found.predict(counts))
    with pytest.warns(ColumnWarning, match="columns not used: dataset .*; depth "):
        table = make_pipeline(VariantTester(case="test", tol=1e-6)).fit(rows)[-1]
    by_place = dict(zip(rows["pos"], table.predict(rows), strict=True))
    assert_array_equal([by_place[pos] for pos in wide.index], found.predict(counts))
    assert found.predict(counts).any()
    assert found.score(counts) == pytest.approx(table.score(rows), rel=1e-3)
    with pytest.raises(ValueError, match="each of 4 replicates"):
        found.predict(counts, case=[True])
    with pytest.raises(ValueError, match="expected ref with counts without a control"):
        VariantTester().fit(counts, case=np.ones(4, bool))
