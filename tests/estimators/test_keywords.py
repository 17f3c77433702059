"""Keywords as an estimator: what a fit knows of its own documents, and input as users have it."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from tests.estimators import data
from vbmodels.estimators import KeywordExtractor
from vbmodels.keywords.features import OF_OWN_LABELS

PLAIN = {"unit": "word", "stem": "none", "stop_words": False, "language": "english"}


def extractor(**options):
    return KeywordExtractor(**PLAIN, keyword_rate=0.3, **options)


@pytest.fixture(scope="module")
def given():
    texts, known, _ = data.documents()
    return texts, known


@pytest.fixture(scope="module")
def fitted(given):
    return extractor().fit(*given)


def test_fit_transform_keeps_the_known_keywords(given):
    texts, known = given
    chosen = extractor().fit_transform(texts, known)
    assert [set(k) <= set(c) for k, c in zip(known, chosen, strict=True)] == [True] * len(texts)
    table = pa.table({"tokens": texts, "keywords": known, "doc_id": list(map(str, range(40)))})
    scored = extractor().fit_transform(table)
    assert scored["doc_id"].to_pylist() == table["doc_id"].to_pylist()
    assert scored["keywords"].to_pylist() == chosen


def test_a_fitted_documents_own_labels_do_not_raise_its_words():
    """Labels are noise: without names the fit's counts of labels give them away."""
    auc = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        words = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)]
        texts = [[words[i] for i in rng.integers(0, 600, 40)] for _ in range(80)]
        known = [list(rng.choice(sorted(set(text)), 6, replace=False)) for text in texts]
        found = extractor().fit(texts, known)
        scored = found.score_candidates(texts, ids=range(80))
        y = [w in known[d] for d, w in zip(scored["doc_id"], scored["term"], strict=True)]
        auc.append(roc_auc_score(y, scored["probability"]))
    assert abs(np.mean(auc) - 0.5) < 0.06


def test_scores_of_the_users_own_are_heard():
    """Nothing in the texts shows a keyword, a noisy score of another tool does."""
    rng = np.random.default_rng(2)
    words = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)]
    texts = [[words[i] for i in rng.choice(600, 30, replace=False)] for _ in range(80)]
    truth = [text[:10] for text in texts]
    texts = [list(rng.permutation(text)) for text in texts]
    known = [list(rng.choice(true, 4, replace=False)) for true in truth]
    own = [
        {w: 100.0 + 5.0 * (w in true) + 3.0 * rng.standard_normal() for w in text}
        for text, true in zip(texts, truth, strict=True)
    ]
    own[7] = None
    auc = []
    for scores in (None, own):
        found = extractor().fit(texts, known, scores=scores)
        scored = found.score_candidates(texts, known, scores=scores)
        new = [w not in known[d] for d, w in zip(scored["doc_id"], scored["term"], strict=True)]
        y = [w in truth[d] for d, w in zip(scored["doc_id"], scored["term"], strict=True)]
        auc.append(roc_auc_score(np.array(y)[new], scored["probability"][new]))
    assert auc[0] < 0.6
    assert auc[1] > 0.75
    table = pd.DataFrame({"tokens": texts, "keywords": known})
    table["scored"] = [None if one is None else list(one) for one in own]
    table["scores"] = [None if one is None else list(one.values()) for one in own]
    assert_allclose(extractor().fit(table).coef_means_, found.coef_means_)
    # Of a term that has several scores the greatest counts, wherever it is.
    table["scored"] = [None if one is None else [*one, next(iter(one))] for one in own]
    table["scores"] = [None if one is None else [*one.values(), -1e3] for one in own]
    assert_allclose(extractor().fit(table).coef_means_, found.coef_means_)
    with pytest.raises(ValueError, match="expected finite scores, got inf for"):
        extractor().fit(texts, known, scores=[{texts[0][0]: np.inf}] + [None] * 79)


def test_a_rate_that_is_not_given_is_estimated_from_the_labels(given):
    found = KeywordExtractor(**PLAIN).fit(*given)
    assert 0.02 < found.keyword_rate_ < 0.9
    sure = KeywordExtractor(**PLAIN, keyword_rate=0.2, rate_sd=0.02).fit(*given)
    assert abs(sure.keyword_rate_ - 0.2) < 0.005


def test_names_that_the_fit_did_not_see_are_those_of_new_documents(given, fitted):
    texts, _ = given
    other = [f"new {i}" for i in range(len(texts))]
    named = fitted.score_candidates(texts, ids=other)
    assert list(dict.fromkeys(named["doc_id"].tolist())) == other
    assert_array_equal(named["probability"], fitted.score_candidates(texts)["probability"])
    table = pd.DataFrame({"tokens": texts, "doc_id": range(len(texts))})
    seen = fitted.score_candidates(table)["probability"]
    assert_array_equal(seen, fitted.score_candidates(texts, ids=range(len(texts)))["probability"])
    assert not np.array_equal(seen, named["probability"])


def test_a_missing_document_has_no_words(given, fitted):
    texts, known = given
    joined = [" ".join(text) for text in texts]
    for hole in (None, float("nan"), pd.NA):
        assert fitted.transform([joined[0], hole])[1] == []
    table = pd.DataFrame({"text": [*joined[:-1], None], "keywords": known})
    for kind in (table, pa.table({"text": [*joined[:-1], None], "keywords": known})):
        assert_allclose(
            extractor().fit(kind).coef_means_,
            extractor().fit(joined[:-1], known[:-1]).coef_means_,
            atol=1e-6,
        )
    assert fitted.transform(table)["keywords"].tolist()[-1] == []


def test_tokens_go_before_the_text_of_the_same_row(given, fitted):
    texts, _ = given
    joined = [" ".join(text) for text in texts]
    table = pa.table({"tokens": [texts[0], None, None], "text": [joined[3], joined[1], None]})
    expected = fitted.transform([texts[0], texts[1], []])
    assert fitted.transform(table)["keywords"].to_pylist() == expected


@pytest.mark.parametrize("hole", [float("nan"), pd.NA])
def test_missing_keywords_are_those_that_nobody_looked_for(given, hole):
    texts, known = given
    none = extractor().fit(texts, [*known[:-1], None], complete=[True] * 39 + [False])
    found = extractor().fit(texts, [*known[:-1], hole], complete=[True] * 39 + [hole])
    assert_array_equal(found.coef_means_, none.coef_means_)
    looked = extractor().fit(texts, [*known[:-1], []])
    assert not np.array_equal(
        looked.coef_means_, extractor().fit(texts, [*known[:-1], hole]).coef_means_
    )
    one = extractor().fit(texts, ["; ".join(words) for words in known])
    assert_array_equal(one.coef_means_, extractor().fit(texts, known).coef_means_)


def test_whether_lists_are_complete_is_read_as_the_command_reads_it(given):
    texts, known = given
    plain = extractor().fit(texts, known, complete=[True] * 20 + [False] * 20)
    words = extractor().fit(texts, known, complete=["Yes", 1] * 10 + ["no", "", 0.0, None] * 5)
    assert_array_equal(words.coef_means_, plain.coef_means_)
    with pytest.raises(ValueError, match="expected yes or no for complete in document 2, found 'm"):
        extractor().fit(texts, known, complete=[True, False, "maybe"] + [True] * 37)


@pytest.mark.parametrize("hole", [None, float("nan"), pd.NA])
def test_gaps_in_lists_of_tokens_and_keywords_are_refused(given, hole):
    texts, known = given
    with pytest.raises(TypeError, match="keywords as a list of texts in document 0, found"):
        extractor().fit(texts, [[*known[0], hole], *known[1:]])
    with pytest.raises(TypeError, match="a list of tokens in document 1, found"):
        extractor().fit([texts[0], [*texts[1], hole], *texts[2:]], known)


def of_phrases(count, seed=4):
    """Documents of unrelated words with true phrases of two, of which one word is a keyword's."""
    rng = np.random.default_rng(seed)
    names = np.array([f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(400)])
    texts = [list(names[rng.choice(400, 30, replace=False)]) for _ in range(count)]
    return texts, [[" ".join(text[i : i + 2]) for i in (0, 8, 16)] for text in texts]


def test_words_of_known_phrases_are_not_found_by_their_neighbours():
    """Words known together are neighbours, which would separate known words from hidden ones."""
    texts, known = of_phrases(60)
    found = extractor().fit(texts, known)
    names = list(found.feature_names_)
    own = [found.coef_means_[names.index(name)] for name in OF_OWN_LABELS]
    assert_allclose(own, 0.0, atol=1e-12)
    single = [[phrase.split()[0] for phrase in phrases] for phrases in known]
    found = extractor().fit(texts, single)
    assert all(abs(found.coef_means_[names.index(name)]) > 1e-6 for name in OF_OWN_LABELS)


def test_known_phrases_of_a_document_say_nothing_where_another_has_no_list():
    """Their value without a list would bias what is said of the documents without one."""
    texts, known = of_phrases(60)
    options = {"language": "english", "stop_words": False, "stem": "none"}
    for lists, used in ((known, True), ([*known[:-1], None], False)):
        found = KeywordExtractor(**options).fit(texts, lists)
        names = list(found.feature_names_)
        own = ("inside_known", "shares_with_known")
        spread = [abs(found.coef_means_[names.index(name)]) > 1e-6 for name in own]
        assert any(spread) == used


def test_documents_without_labels_have_keyphrases():
    texts = [
        "Graph databases store nodes. A graph database answers queries fast.",
        "Neural networks learn. Training neural networks needs data.",
    ] * 3
    found = KeywordExtractor(language="english").fit(texts)
    assert found.transform(texts[:2])[0][0].lower() in ("graph database", "graph databases")
    table = found.candidates_
    assert not table["observed"].any()
    assert table.groupby("doc_id")["selected"].sum().max() <= 15
    with pytest.raises(ValueError, match="expected a known keyphrase"):
        KeywordExtractor(prior="none").fit(texts)
    by_word = KeywordExtractor(unit="word", lists="some").fit(texts)
    assert (
        by_word.keyword_rate_
        != KeywordExtractor(unit="word", lists="marked").fit(texts).keyword_rate_
    )


def test_a_table_of_complete_documents_hides_no_keyword_from_a_prediction(given):
    texts, known = given
    columns = {"tokens": texts, "keywords": known}
    plain, whole = pa.table(columns), pa.table({**columns, "complete": [True] * len(texts)})
    found = extractor(select="best_f").fit(texts, known)
    assert found.score(whole) == found.score(plain) > 0.9
    assert found.predict(whole).tolist() == found.predict(plain).tolist()
    assert all(found.predict(whole))


def test_packages_that_are_missing_are_named():
    """In a process of its own, as what is loaded once is kept."""
    code = """
import sys
sys.modules.update({"Stemmer": None, "textblob": None, "py3langid": None})
from vbmodels.estimators import KeywordExtractor
assert not {"flows", "pydantic"} & set(sys.modules)
german = "Der Hund und die Katze liegen am Abend gern vor dem Ofen in der alten Stube."
for text, stem in [("a dog", "auto"), ("a dog", "none"), (german, "none")]:
    try:
        KeywordExtractor(stem=stem).fit([text], [["dog"]])
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    for line, name in zip(lines, ["pystemmer", "textblob", "py3langid"], strict=True):
        assert f"install the package {name}, or" in line


def test_known_keywords_that_no_text_holds_are_said():
    texts = ["a plain text of some words", "another plain text of other words"]
    with pytest.warns(UserWarning, match="none of the 2 known keyphrases .* such as 0: zebra"):
        KeywordExtractor().fit(texts, [["zebra"], ["lion"]])
