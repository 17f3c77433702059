"""Fit and apply every estimator on a few rows: run by the Python of an installation."""

import numpy as np

from vbmodels.estimators import (
    AdditiveRegressor,
    KeywordExtractor,
    LatentFeatures,
    MILGPClassifier,
    MixtureOfExperts,
    MultimodalMIC,
    StackedBagClassifier,
    VariantTester,
)


def tables(rng: np.random.Generator) -> None:
    x = rng.standard_normal((120, 3))
    label = x[:, 0] + 0.3 * rng.standard_normal(120) > 0
    experts = MixtureOfExperts(1, random_state=0).fit(x, label)
    assert experts.score(x, label) > 0.7
    number = AdditiveRegressor(random_state=0).fit(x, 2.0 * x[:, 1])
    assert number.score(x, 2.0 * x[:, 1]) > 0.7
    has = rng.random((120, 1)) < 0.4
    answers = np.where(has ^ (rng.random((120, 4)) < 0.1), "yes", "no")
    assert len(LatentFeatures(3, starts=1, random_state=0).fit(answers).transform(answers)) == 120


def bags(rng: np.random.Generator) -> None:
    label = np.arange(40) % 2
    given = [rng.normal([2.0 * one, 0.0, 0.0], 1.0, (5, 3)) for one in label]
    for kind in (StackedBagClassifier, MILGPClassifier, MultimodalMIC):
        fitted = kind(random_state=0).fit(given, label)
        assert fitted.score(given, label) > 0.7, kind
        assert np.shape(fitted.predict_proba(given)) == (40, 2)


def documents() -> None:
    texts = ["the cat sat with a cat on the mat", "a dog ran with the dog to a log"] * 6
    fitted = KeywordExtractor(keyphrases=1).fit(texts, [["cat"], ["dog"]] * 6)
    assert len(fitted.transform(texts[:2])) == 2


def reads(rng: np.random.Generator) -> None:
    counts = np.zeros((60, 4, 4), int)  # locations, replicates, bases
    counts[:, :, 1:] = rng.binomial(1000, 0.0005, (60, 4, 3))
    counts[7, :2, 2] = 50
    counts[:, :, 0] = 1000 - counts[:, :, 1:].sum(axis=2)
    case = np.array([True, True, False, False])
    called = VariantTester(tol=1e-4).fit(counts, case=case).predict(counts, case=case)
    assert np.flatnonzero(called).tolist() == [7]


def main() -> None:
    rng = np.random.default_rng(0)
    tables(rng)
    bags(rng)
    documents()
    reads(rng)


if __name__ == "__main__":
    main()
