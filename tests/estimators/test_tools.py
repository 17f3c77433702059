"""scikit-learn's tools on every estimator, each on real data: pipelines, searches, predictions."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vbmodels.estimators import (
    InstanceTransformer,
    KeywordExtractor,
    LatentFeatures,
    MILGPClassifier,
    MixtureOfExperts,
    MultimodalMIC,
    StackedBagClassifier,
    VariantTester,
    to_bags,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*the fit rests on its prior")


@dataclass(frozen=True)
class Case:
    """An estimator with real data, a pipeline around it, and what a search may choose."""

    pipeline: Any
    X: Any
    y: Any = None
    grid: dict[str, list[Any]] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)  # for cross_val_predict and the search

    @property
    def name(self) -> str:
        """The estimator's name in the pipeline; its parameters begin with it."""
        return next(iter(self.grid)).split("__")[0]


def words_as_they_are(words):
    return words


def experts(data):
    rows = pq.read_table(data / "experts" / "breast_cancer_train.parquet").to_pandas()[:120]
    X = rows[[f"f{d}" for d in range(1, 7)]]
    chain = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        MixtureOfExperts(1, tau=1.0, random_state=0),
    )
    return Case(chain, X, rows["label"].to_numpy(), {"mixtureofexperts__tau": [0.1, 1.0]})


def features(data):
    rows = pq.read_table(data / "features" / "vote.parquet").to_pandas()[:120]
    found = LatentFeatures(2, starts=1, tol=1e-3, random_state=0)
    chain = make_pipeline(found, LogisticRegression())
    return Case(
        chain, rows.iloc[:, 1:9], rows["Class"].to_numpy(), {"latentfeatures__n_features": [1, 2]}
    )


def bags(data, classifier):
    rows = pq.read_table(data / "bags" / "elephant.parquet").to_pandas()
    names = list(dict.fromkeys(rows["bag_id"]))[::5]
    long = rows[rows["bag_id"].isin(names)].rename(columns={"bag_id": "image"})
    X, y, ids = to_bags(long, {"bag_id": "image"})
    assert ids == names
    chain = make_pipeline(InstanceTransformer(PCA(5, random_state=0)), classifier)
    return Case(chain, X, y, {f"{type(classifier).__name__.lower()}__standardise": [True, False]})


def vmmic(data):
    return bags(data, MultimodalMIC(random_state=0))


def milgp(data):
    return bags(data, MILGPClassifier(n_inducing=10, kernel_params="heuristic", random_state=0))


def stacked(data):
    return bags(
        data, StackedBagClassifier(n_inducing=10, kernel_params="heuristic", random_state=0)
    )


def keywords(data):
    rows = pq.read_table(data / "keywords" / "hulth.parquet").slice(0, 40).to_pandas()
    known = [[phrase for phrase in phrases[:4]] for phrases in rows["gold_phrases"]]
    chain = make_pipeline(KeywordExtractor(keyword_rate=0.3))
    return Case(chain, rows["text"].to_list(), known, {"keywordextractor__min_count": [1, 2]})


def variants(data):
    rows = pq.read_table(data / "variants" / "deepsnv_counts.parquet").to_pandas()
    rows = rows[rows["dataset"] == rows["dataset"].iloc[0]]
    rows = rows[rows["pos"].isin(np.unique(rows["pos"])[54:80])].rename(columns={"pos": "POS"})
    tester = VariantTester(case="test", columns={"pos": "POS"}, tol=1e-4)
    folds = {"groups": rows["POS"].to_numpy(), "cv": GroupKFold(2)}
    return Case(
        make_pipeline(tester), rows, None, {"varianttester__two_sided": [False, True]}, folds
    )


EVERY = [experts, features, vmmic, milgp, stacked, keywords, variants]


def those(*quick):
    """All estimators, of which a few are tried whenever tests run."""
    return pytest.mark.parametrize(
        "make",
        [make if make in quick else pytest.param(make, marks=pytest.mark.slow) for make in EVERY],
        ids=lambda make: make.__name__,
    )


def quality(case, said):
    """Return how good is what was said of rows that the fit had not seen; an AUROC where it can."""
    if case.name == "keywordextractor":
        hits = [word in " ".join(known).lower().split() for words, known in
                zip(said, case.y, strict=True) for word in words]  # fmt: skip
        return float(np.mean(hits))  # the share of the selected words that are keywords
    if case.name == "varianttester":
        truth = case.X["POS"].isin({2130, 2150, 2151}).to_numpy()
        return roc_auc_score(truth, said)
    return roc_auc_score(case.y, said[:, 1])


@those(experts, features, milgp, keywords)
def test_predictions_of_folds_clone_and_pickle(make, shared_data):
    case = make(shared_data)
    more = {"cv": 2, **case.more}
    if hasattr(case.pipeline, "predict_proba"):
        more["method"] = "predict_proba"
    said = cross_val_predict(clone(case.pipeline), case.X, case.y, **more)
    assert len(said) == len(case.X)
    found = clone(case.pipeline).fit(case.X, case.y)
    again = pickle.loads(pickle.dumps(found))
    for one, other in zip(again.predict(case.X), found.predict(case.X), strict=True):
        assert_array_equal(one, other)
    assert repr(clone(found)) == repr(case.pipeline)
    assert found._repr_html_()


@pytest.mark.slow
@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_predictions_of_folds_are_better_than_chance(make, shared_data):
    case = make(shared_data)
    more = {"cv": 4, **case.more}
    if hasattr(case.pipeline, "predict_proba"):
        more["method"] = "predict_proba"
    assert quality(case, cross_val_predict(case.pipeline, case.X, case.y, **more)) > 0.6


@those(experts, milgp)
def test_search(make, shared_data):
    case = make(shared_data)
    more = dict(case.more)
    groups = {"groups": more.pop("groups")} if "groups" in more else {}
    search = GridSearchCV(case.pipeline, case.grid, **{"cv": 2, **more}, error_score="raise")
    search.fit(case.X, case.y, **groups)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.isfinite(search.score(case.X, case.y))


def test_features_alone_are_searched_by_cells_that_are_hidden(shared_data):
    rows = pq.read_table(shared_data / "features" / "vote.parquet").to_pandas()
    X, new = rows.iloc[:200, 1:-1], rows.iloc[200:, 1:-1]
    asked = LatentFeatures(2, starts=1, tol=1e-3, random_state=0)
    found = asked.fit(X)
    counts = new.apply(lambda column: column.value_counts(normalize=True))
    chance = counts.to_numpy()[~np.isnan(counts.to_numpy())]
    alone = np.log(chance) @ chance / new.shape[1]  # each column by itself, as if it were known
    assert alone + 0.1 < found.score(new) < 0.0
    assert found.score(new) == found.score(new)


def test_keywords_are_judged_without_being_seen(shared_data):
    case = keywords(shared_data)
    table = pd.DataFrame({"Abstract": case.X, "Known": ["; ".join(y) for y in case.y]})
    asked = KeywordExtractor(keyword_rate=0.3, columns={"text": "Abstract", "keywords": "Known"})
    found = asked.fit(table)
    plain = KeywordExtractor(keyword_rate=0.3).fit(case.X, case.y)
    assert_allclose(found.coef_means_, plain.coef_means_)
    assert found.score(table) == plain.score(case.X, case.y)
    assert 0.6 < found.score(table) < 1.0
    alone = found.predict(table.drop(columns="Known"))
    assert_array_equal(found.predict(table), alone)
    assert found.transform(table)["keywords"].tolist() != alone.tolist()
    words = make_pipeline(plain, TfidfVectorizer(analyzer=words_as_they_are))
    assert words.fit_transform(case.X, case.y).shape[0] == len(case.X)


def test_counts_in_arrays_go_through_folds_with_the_control_for_a_reference(shared_data):
    case = variants(shared_data)
    names = [("test", "fwd"), ("test", "rev"), ("control", "fwd"), ("control", "rev")]
    wide = case.X.pivot_table(index="POS", columns=["sample", "replicate"], values=list("ACGT"))
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
    table = pipeline.fit(case.X)[-1]
    by_place = dict(zip(case.X["POS"], table.predict(case.X), strict=True))
    assert_array_equal([by_place[pos] for pos in wide.index], found.predict(counts))
    assert found.predict(counts).any()
    assert found.score(counts) == pytest.approx(table.score(case.X), rel=1e-3)
    with pytest.raises(ValueError, match="each of 4 replicates"):
        found.predict(counts, case=[True])
    with pytest.raises(ValueError, match="expected ref beside counts without a control"):
        VariantTester().fit(counts, case=np.ones(4, bool))


@pytest.mark.parametrize(
    ("estimator", "given"),
    [
        (MultimodalMIC(), ([np.zeros((2, 2))], [1])),
        (MILGPClassifier(), ([np.zeros((2, 2))], [1])),
        (StackedBagClassifier(), ([np.zeros((2, 2))], [1])),
        (LatentFeatures(), (np.zeros((2, 2)),)),
        (KeywordExtractor(), (["a text"], [["text"]])),
        (VariantTester(), (np.zeros((2, 2, 4), int),)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_weights_without_a_meaning_are_refused(estimator, given):
    with pytest.raises(TypeError, match=f"{type(estimator).__name__} takes no sample_weight: "):
        estimator.fit(*given, sample_weight=[1.0])
    step = type(estimator).__name__.lower()
    with pytest.raises(TypeError, match="takes no sample_weight"):
        make_pipeline(estimator).fit(*given, **{f"{step}__sample_weight": [1.0]})


@pytest.mark.parametrize("inference", ["additive", "cavi"])
def test_weights_of_rows(inference, shared_data):
    case = experts(shared_data)
    X, y = StandardScaler().fit_transform(case.X), case.y
    asked = MixtureOfExperts(1, inference=inference, tau=1.0, random_state=0)
    asked.set_params(standardise=False, max_iter=3000)
    plain = clone(asked).fit(X, y)
    ones = clone(asked).fit(X, y, sample_weight=np.ones(len(y)))
    assert_array_equal(ones.predict_proba(X), plain.predict_proba(X))
    heavy = clone(asked).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    same = clone(asked).set_params(class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    assert_array_equal(heavy.predict_proba(X), same.predict_proba(X))
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    some = np.arange(len(y)) % 3 > 0
    left = clone(asked).fit(X, y, sample_weight=some.astype(float))
    assert_array_equal(left.predict_proba(X), clone(asked).fit(X[some], y[some]).predict_proba(X))
    with pytest.raises(ValueError, match=r"sample_weight is for .* not mh"):
        MixtureOfExperts(1, inference="mh").fit(X, y, sample_weight=np.ones(len(y)))


def test_two_rows_and_a_weight_of_two_say_the_same(shared_data):
    case = experts(shared_data)
    X, y = StandardScaler().fit_transform(case.X), case.y
    asked = MixtureOfExperts(1, inference="cavi", tau=1.0, standardise=False, random_state=0)
    weight = 1.0 + (np.arange(len(y)) % 2)
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    one = clone(asked).fit(X, y, sample_weight=weight)
    other = clone(asked).fit(X[twice], y[twice])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-9)
