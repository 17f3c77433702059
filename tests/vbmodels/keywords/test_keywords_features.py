"""The 33 features against their definitions, written out word by word."""

import math
from dataclasses import replace
from itertools import pairwise
from statistics import pstdev

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from reproduce.keyword_documents import textrank
from tests.vbmodels.keywords.keyword_documents import adjacency
from vbmodels.keywords.features import (
    FEATURE_NAMES,
    Elsewhere,
    build_batch,
    keyphraseness,
    label_rates,
)
from vbmodels.keywords.graph import system_matrix
from vbmodels.text.candidates import N_FOLDS, DocumentTokens
from vbmodels.text.words import POS_GROUPS

SEQUENCES = ([0, 1, 2, 0, 3, 1, 0, 4], [0, 0, 1, 2, 3, 1], [0])
OBSERVED = ({0, 2, 3}, {1, 2}, set())


def tokens(known=True, seed=0):
    """Three small documents over 9 terms with random marks on every occurrence."""
    rng = np.random.default_rng(seed)
    sizes = np.array([len(set(s)) for s in SEQUENCES])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    t = sum(map(len, SEQUENCES))

    def flags():
        return rng.random(t) < 0.4 if known else np.zeros(t, bool)

    return DocumentTokens(
        term=np.array([0, 1, 2, 3, 4, 2, 5, 6, 7, 8]),
        y=np.array([w in o for n, o in zip(sizes, OBSERVED, strict=True) for w in range(n)]),
        offsets=offsets,
        fold=np.array([3, 7, -1]),
        complete=np.array([False, True, False]),
        n_tokens=np.array([20, 6, 1]),
        length=rng.integers(2, 12, offsets[-1]),
        hyphen=rng.random(offsets[-1]) < 0.3,
        word=np.concatenate([np.array(s) + o for s, o in zip(SEQUENCES, offsets, strict=False)]),
        position=np.concatenate(
            [np.arange(len(s)) * (2 if s[1:2] == [1] else 1) for s in SEQUENCES]
        ),
        sentence=np.arange(t) // 3 if known else np.full(t, -1),
        title=flags(),
        pos=rng.integers(-2, len(POS_GROUPS), t) if known else np.full(t, -1),
        phrase=rng.integers(0, 4, t) if known else np.zeros(t, np.int64),
        capital=flags(),
        upper=flags(),
    )


def corpus(seed=1):
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, 5, (9, N_FOLDS))
    labels = rng.integers(0, documents + 1)
    return documents, labels, label_rates(documents.sum(axis=0), labels.sum(axis=0))


def batch(t, **options):
    documents, labels, rates = corpus()
    return build_batch(t, elsewhere(t, documents, labels), 100, rates, **options)


def elsewhere(t, documents, labels):
    folds = t.fold[t.document_of_word]
    return Elsewhere.of(documents[t.term], labels[t.term], folds)


def column(b, name):
    return b.x[:, FEATURE_NAMES.index(name)]


def test_text_features_by_their_definitions():
    t = tokens()
    documents = corpus()[0].sum(axis=1)
    expected = []
    for row in range(t.n_words):
        d = t.document_of_word[row]
        where = [i for i, w in enumerate(t.word) if w == row]
        places = [t.position[i] for i in where]
        idf = math.log(101 / (1 + documents[t.term[row]])) + 1
        share = [sum(t.pos[i] == code for i in where) / len(where) for code in range(7)]
        expected.append(
            [
                math.log(len(where)),
                idf,
                math.log(len(where) * idf),
                math.log(1 + min(places)),
                pstdev(map(float, places)) / t.n_tokens[d],
                math.log(t.length[row]),
                float(t.hyphen[row]),
                math.log(t.offsets[d + 1] - t.offsets[d]),
                *share,
                float(any(t.title[i] for i in where)),
                sum(t.capital[i] for i in where) / len(where),
                sum(t.upper[i] for i in where) / len(where),
                math.log(1 + max(t.phrase[i] for i in where)),
                sum(t.phrase[i] > 1 for i in where) / len(where),
            ]
        )
    names = [
        *("log_tf", "idf", "log_tf_idf", "first_position", "spread", "log_length", "hyphen"),
        *("log_n_words", *(f"share_{g}" for g in POS_GROUPS), "in_title", "capitalised"),
        *("all_caps", "longest_noun_phrase", "share_in_noun_phrases"),
    ]
    b = batch(t)
    for name, values in zip(names, np.array(expected).T, strict=True):
        assert_allclose(column(b, name), values, rtol=1e-12, err_msg=name)


def test_features_of_neighbours_by_their_definitions():
    t = tokens()
    t = replace(t, position=np.arange(len(t.word)) + (np.arange(len(t.word)) > 4))
    b = batch(t)
    pairs, phraseness = [], column(b, "keyphraseness")
    for d in range(t.n_documents):
        inside = [i for i, w in enumerate(t.word) if t.offsets[d] <= w < t.offsets[d + 1]]
        for i, j in pairwise(inside):
            if t.position[j] == t.position[i] + 1 and t.sentence[i] == t.sentence[j]:
                pairs.append((int(t.word[i]), int(t.word[j])))
    assert len(pairs) > 3
    for row in range(t.n_words):
        d = t.document_of_word[row]
        tf = np.sum(t.word == row)
        assert_allclose(column(b, "left_adjacent")[row], sum(j == row for _, j in pairs) / tf)
        assert_allclose(column(b, "right_adjacent")[row], sum(i == row for i, _ in pairs) / tf)
        own = [p for p in pairs if row in p and p[0] != p[1]]
        most = max((pairs.count(p) for p in own), default=0)
        assert_allclose(column(b, "repeated_bigram")[row], math.log(1 + most))
        a = b.adjacency(d)[row - t.offsets[d]].copy()
        a[row - t.offsets[d]] = 0.0
        expected = a @ phraseness[b.words(d)] / a.sum() if a.sum() else 0.0
        assert_allclose(column(b, "neighbours_keyphraseness")[row], expected, atol=1e-15)


def test_a_users_score_joins_as_it_is_and_by_its_rank():
    score = np.array([5.0, np.nan, -1.0, 5.0, 0.5, 2.0, 2.0, np.nan, 2.0, np.nan])
    b = batch(replace(tokens(), score=score))
    given = np.isfinite(score)
    assert_array_equal(column(b, "own_score_given"), given)
    assert_array_equal(column(b, "own_score"), np.where(given, score, 0.0))
    for d in range(3):
        own = score[b.words(d)]
        known = own[np.isfinite(own)]
        for found, one in zip(column(b, "own_score_rank")[b.words(d)], own, strict=True):
            if not np.isfinite(one):
                assert found == 0.0
                continue
            share = (np.sum(known < one) + 0.5 * np.sum(known == one)) / len(known)
            assert_allclose(found, norm.ppf(share), atol=1e-12)
    none = batch(tokens())
    assert not none.x[:, -3:].any()
    assert_array_equal(none.x[:, :-3], b.x[:, :-3])


@pytest.mark.parametrize("options", [{}, {"window": 3, "damping": 0.6}])
def test_graph_features_by_their_definitions(options):
    t = tokens()
    b = batch(t, **options)
    damping = options.get("damping", 0.85)
    graph = {k: v for k, v in options.items() if k != "damping"}
    for d, sequence in enumerate(SEQUENCES):
        rows = b.words(d)
        n = rows.stop - rows.start
        a = adjacency(np.array(sequence), n, **graph)
        assert_array_equal(b.adjacency(d), a)
        assert_allclose(column(b, "log_textrank")[rows], np.log(textrank(a, damping)))
        observed = sorted(OBSERVED[d])
        if len(observed) < 2:
            continue
        m = n * (1 - damping) * np.linalg.inv(system_matrix(a, damping))
        # The walk is D^-1 A with the damping d: one equation for each word, no symmetric root.
        walk = a / a.sum(axis=1, keepdims=True)
        visits = n * (1 - damping) * np.linalg.inv(np.eye(n) - damping * walk)
        aside = a - np.diag(np.diag(a))
        neighbours = aside / np.maximum(aside.sum(axis=1), 1)[:, None]
        for i in range(n):
            left_out = [i] if i in observed else observed
            others = [[j for j in observed if j != out] for out in left_out]
            level = np.mean([math.log(0.05 + np.mean(m[i, o])) for o in others])
            assert_allclose(column(b, "affinity")[rows][i], level)
            reach = np.mean([math.log(0.05 + np.mean(visits[i, o])) for o in others])
            assert_allclose(column(b, "reach")[rows][i], reach)
            share = np.mean([np.mean(neighbours[i, o]) for o in others])
            assert_allclose(column(b, "observed_neighbours")[rows][i], share)


def test_keyphraseness_leaves_the_documents_own_fold_out():
    documents, labels, rates = corpus()
    fold = np.array([3, -1])
    counts = Elsewhere.of(documents[:2], labels[:2], fold)
    assert_array_equal(counts.frequency, documents[:2].sum(axis=1))
    found = keyphraseness(counts.documents, counts.labels, rates[fold])
    others = [f for f in range(N_FOLDS) if f != 3]
    n, y = documents[0, others].sum(), labels[0, others].sum()
    rho = (labels[:, others].sum() + 1) / (documents[:, others].sum() + 2)
    assert_allclose(found[0], math.log((y + 3 * rho) / (n + 3) / rho))
    rho = (labels.sum() + 1) / (documents.sum() + 2)
    expected = math.log((labels[1].sum() + 3 * rho) / (documents[1].sum() + 3) / rho)
    assert_allclose(found[1], expected)
