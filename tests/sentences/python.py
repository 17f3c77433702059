"""Estimators: data, labels, weights and parameters that cannot be, as Python says them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.pipeline import make_pipeline

from benchmarks.prior_learning import LabelledCorpus, learn_keyword_prior
from tests.estimators import data
from tests.sentences.said import Said
from vbmodels.estimators import (
    AdditiveRegressor,
    BagRegressor,
    KeywordExtractor,
    LatentFeatures,
    MILGPClassifier,
    MixtureOfExperts,
    MultimodalMIC,
    StackedBagClassifier,
    VariantTester,
    to_bags,
)


def raised(call: Callable[[], object]) -> Said:
    """Return a case: a call that must raise, and what it says."""

    def said(folder: Path) -> str:
        try:
            call()
        except (ValueError, TypeError) as error:
            return f"{type(error).__name__}: {error}"
        raise AssertionError("nothing was raised")

    return said


X, Y = data.crossed(rows=40)
COUNTS, REF, CASE = data.reads()
FRAME = pd.DataFrame(data.counts_table(COUNTS, CASE))
HUGE = [[10**400 if row == 3 else row % 7, f"{row % 2}"] for row in range(40)]
PLAIN = [[row % 7 + 0.5, f"{row % 2}x"] for row in range(40)]
BAGS, LABELS = data.bags()
NUMBERS = np.arange(len(BAGS)) / 7.0


class Lazy:
    """A table that is not in memory."""

    columns = ("a",)

    def __getitem__(self, name: str) -> object:
        raise KeyError(name)

    def collect(self) -> object:
        raise AssertionError("left to the user")


def experts(X: object = X, y: object = Y, n: int = 2, /, **options: object) -> Said:
    weight = options.pop("sample_weight", None)
    return raised(lambda: MixtureOfExperts(n, **options).fit(X, y, sample_weight=weight))


def sampled(weight: object) -> Said:
    return experts(inference="mh", warmup=5, draws=4, class_weight=weight)


def multimodal(bags: object, labels: object) -> Said:
    return raised(lambda: MultimodalMIC().fit(bags, labels))


def tested(*given: object, **of: object) -> Said:
    return raised(lambda: VariantTester().fit(*given, **of))


def tested_again(*given: object, **of: object) -> Said:
    found = VariantTester(tol=1e-2)
    return raised(lambda: found.fit(COUNTS, ref=REF, case=CASE).test(*given, **of))


def documents(given: object, y: object = None, scores: object = None, complete: object = None,
              **options: object) -> Said:  # fmt: skip
    table = pd.DataFrame(given) if isinstance(given, dict) else given
    lists = [["text"]] * len(table) if y is None else y
    more = {name: one for name, one in (("scores", scores), ("complete", complete))
            if one is not None}  # fmt: skip
    return raised(lambda: KeywordExtractor(**options).fit(table, lists, **more))


def learnt(lists: object, kind: str) -> Said:
    texts = ["a plain text of some words"]
    return raised(lambda: learn_keyword_prior([LabelledCorpus("a", texts, lists, kind)]))


WEIGHTED = {
    MultimodalMIC: ([np.zeros((2, 2))], [1]),
    MILGPClassifier: ([np.zeros((2, 2))], [1]),
    StackedBagClassifier: ([np.zeros((2, 2))], [1]),
    KeywordExtractor: (["a text"], [["text"]]),
    VariantTester: (np.zeros((2, 2, 4), int),),
}
ONE = ["a text"]
CASES = {
    "a prior of another inference": experts(inference="cavi", prior="mabn1"),
    "class weights of a sampler": sampled({0: 1.0, 1: 2.0}),
    "balanced weights of a sampler": sampled("balanced"),
    "labels of one class": experts(X, np.zeros(40)),
    "three classes by cavi": experts(X, np.arange(40) % 3, inference="cavi"),
    "no column": experts(np.full_like(X, np.nan)),
    "a huge whole number": experts(HUGE, [0, 1] * 20, 1, inference="cavi"),
    "a huge whole number in new rows": raised(
        lambda: MixtureOfExperts(1, inference="cavi").fit(PLAIN, [0, 1] * 20).predict(HUGE)
    ),
    "a huge weight": experts(sample_weight=[1e300, *[1.0] * 39]),
    "weights of a sampler": experts(inference="mh", sample_weight=np.ones(40)),
    "a client that nobody knows": experts(client=object()),
    "features of one category": raised(lambda: LatentFeatures().fit(np.ones((9, 2)))),
    "a huge whole number of features": raised(lambda: LatentFeatures(1).fit(HUGE)),
    "one label": multimodal([X], [1]),
    "bags of other widths": multimodal([X, X[:, :2]], [0, 1]),
    "fewer labels than bags": multimodal([X, X], [0]),
    "bags of nan": multimodal([X, X * np.nan], [0, 1]),
    "a table without bags": multimodal(pd.DataFrame(X), Y),
    "huge features of a bag": raised(
        lambda: MILGPClassifier(n_inducing=10).fit([*BAGS[:3], BAGS[3] * 1e200, *BAGS[4:]], LABELS)
    ),
    "fewer groups than bags": raised(
        lambda: MILGPClassifier(n_inducing=8).fit(BAGS, LABELS, groups=[1, 2, 3])
    ),
    "a list as a table of bags": raised(lambda: to_bags(BAGS)),
    "numbers of bags that do not differ": raised(lambda: BagRegressor().fit(BAGS, np.ones(60))),
    "fewer numbers than bags": raised(lambda: BagRegressor().fit(BAGS, [1.0, 2.0, 3.0])),
    "huge numbers of bags": raised(lambda: BagRegressor().fit(BAGS, NUMBERS * 1e200)),
    "words as numbers": raised(lambda: AdditiveRegressor().fit(X, ["a", "b"] * 20)),
    "one number in every row": raised(lambda: AdditiveRegressor().fit(X, np.full(40, 3.0))),
    "no counts": tested(X),
    "counts without a place": tested(pa.table({"pos": [1]})),
    "a place twice": tested(pd.concat([FRAME, FRAME.iloc[[3]]])),
    "two references": tested(FRAME.assign(ref=["A", "A", "A", "T", *["A"] * (len(FRAME) - 4)])),
    "a huge count": tested(FRAME.assign(C=3e9)),
    "a huge count of an array": tested(
        np.full((1, 2, 4), 3 * 10**9), ref=[0], case=[True, False]
    ),
    "no location": tested(COUNTS[:0], ref=REF[:0], case=CASE),
    "a reference for all": tested(COUNTS, ref=0, case=CASE),
    "a reference too few": tested(COUNTS, ref=REF[:59], case=CASE),
    **{
        f"the reference {odd} among {kind}": tested(
            COUNTS, ref=[*others[:3], odd, *others[4:]], case=CASE
        )
        for odd in (9, 0.5, 9.0)
        for kind, others in (("numbers", REF.tolist()), ("letters", ["A"] * 60))
    },
    "no location to test": tested_again(COUNTS[:0], ref=REF[:0], case=CASE),
    "a reference for all to test": tested_again(COUNTS, ref=0, case=CASE),
    "an odd reference to test": tested_again(COUNTS, ref=[*REF[:3], 9, *REF[4:]], case=CASE),
    "no row to test": tested_again(FRAME[:0]),
    "counts of the case alone": tested(COUNTS, case=np.ones(4, bool)),
    "a rate of phrases": documents(ONE, keyword_rate=0.3),
    "keyphrases of words": documents(ONE, keyphrases=3, unit="word"),
    "a vocabulary of words": documents(ONE, vocabulary=["a"], unit="word"),
    "the sd of no rate": documents(ONE, rate_sd=0.3),
    "a language": documents(ONE, language="klingon"),
    "no known keyphrase and no prior": documents(ONE, [["absent"]], prior="none"),
    "more lists than documents": documents(ONE, [["text"], []]),
    "a bare text": documents("a word here"),
    "fewer tags than tokens": documents({"tokens": [["a", "text"]], "pos": [["NN"]]}),
    "bytes": documents([b"a text"]),
    "bytes among tokens": documents([["a", b"text"]]),
    "a number as a document": documents([["a", "text"], 3]),
    "a number as tags": documents({"tokens": [["a", "text"]], "pos": [7]}),
    "a text as tags": documents({"tokens": [["a", "text"]], "pos": ["NN"]}),
    "a number among tags": documents({"tokens": [["a", "text"]], "pos": [["NN", 2]]}),
    "letters as sentences": documents({"tokens": [["a"]], "sentence": [["b"]]}),
    "more scores than terms": documents(
        {"text": ONE, "scored": [["text"]], "scores": [[1.0, 2.0]]}
    ),
    "a list as scores": documents(ONE, scores=[[0.5]]),
    "a word as a score": documents(ONE, scores=[{"text": "high"}]),
    "a huge score": documents(ONE, scores=[{"text": 10**400}]),
    "one mark for all": documents(ONE, complete=True),
    "a number as keywords": documents(ONE, [3]),
    "bytes among keywords": documents(ONE, [[b"text"]]),
    **{
        f"no candidate of {unit}": raised(
            lambda options=options, texts=texts: KeywordExtractor(**options).fit(texts)
        )
        for unit, options, texts in (
            ("phrases", {}, ["", ""]),
            ("words", {"unit": "word"}, ["", ""]),
            ("a vocabulary", {"vocabulary": ["zebra"]}, ["a plain text of some words"] * 2),
        )
    },
    "a kind of lists": learnt([["words"]], "Some"),
    "a list that is missing": learnt([None], "some"),
    **{
        f"weights of {kind.__name__}": raised(
            lambda kind=kind, given=given: kind().fit(*given, sample_weight=[1.0])
        )
        for kind, given in WEIGHTED.items()
    },
    **{
        f"weights of {kind.__name__} in a pipeline": raised(
            lambda kind=kind, given=given: make_pipeline(kind()).fit(
                *given, **{f"{kind.__name__.lower()}__sample_weight": [1.0]}
            )
        )
        for kind, given in WEIGHTED.items()
    },
    **{
        f"a table not in memory for {kind.__name__}": raised(
            lambda kind=kind: kind().fit(Lazy(), [0, 1])
        )
        for kind in (
            MixtureOfExperts, LatentFeatures, MILGPClassifier, KeywordExtractor, VariantTester
        )
    },
}  # fmt: skip
