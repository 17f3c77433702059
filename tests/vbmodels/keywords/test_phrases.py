"""Phrases: candidates, features, scores that have not seen their labels, the stages of a fit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.contract.phrases_drawn import drawn
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.features import FEATURE_NAMES, OF_OWN_LABELS, Elsewhere
from vbmodels.keywords.phrases.batch import FOLLOWING, IDF, SCORED
from vbmodels.keywords.phrases.features import (
    PHRASE_FEATURES,
    build_phrases,
)
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.candidates import VERB, DocumentTokens, find_spans, stem_keys
from vbmodels.text.words import POS_GROUPS

STEMS = [f"w{i}" for i in range(12)]
NOUN, ADJECTIVE = POS_GROUPS.index("noun"), POS_GROUPS.index("adjective")


def tokens_of(documents, lengths=None, position=None, sentence=None, pos=None):
    """Documents as lists of words of STEMS, with blanks ("") where a token is no candidate."""
    term, word, places, offsets, of = [], [], [], [0], []
    for d, document in enumerate(documents):
        rows = {}
        for place, stem in enumerate(document):
            if not stem:
                continue
            rows.setdefault(stem, offsets[-1] + len(rows))
            word.append(rows[stem])
            places.append(place)
            of.append(d)
        term += [STEMS.index(stem) for stem in rows]
        offsets.append(offsets[-1] + len(rows))
    size, n = len(term), len(word)
    plain = np.zeros(n, bool)
    return DocumentTokens(
        term=np.array(term, np.int64),
        y=np.zeros(size, bool),
        offsets=np.array(offsets, np.int64),
        fold=np.arange(len(documents), dtype=np.int64) % 10,
        complete=np.zeros(len(documents), bool),
        n_tokens=np.array(lengths or [len(d) for d in documents], np.int64),
        length=np.full(size, 2, np.int64),
        hyphen=np.zeros(size, bool),
        word=np.array(word, np.int64),
        position=np.array(places if position is None else position, np.int64),
        sentence=np.zeros(n, np.int64) if sentence is None else np.array(sentence, np.int64),
        title=plain,
        pos=np.full(n, NOUN, np.int64) if pos is None else np.array(pos, np.int64),
        phrase=np.zeros(n, np.int64),
        capital=plain,
        upper=plain,
    )


def spans_of(tokens):
    return find_spans(tokens, stem_keys(STEMS))


def stems_and_counts(tokens, spans):
    """Phrases as tuples of stems, with their counts."""
    found = []
    for rows, count in zip(spans.words, spans.count, strict=True):
        stems = tuple(STEMS[tokens.term[r]] for r in rows if r >= 0)
        found.append((stems, int(count)))
    return found


def enumerated(document, pos, sentence):
    """Every candidate of one document by the rule as it is written down, slowly."""
    counts = {}
    for size in range(1, 5):
        for i in range(len(document) - size + 1):
            run = document[i : i + size]
            tags = pos[i : i + size]
            if not all(run) or len(set(run)) < size or VERB in tags:
                continue
            if tags[-1] == ADJECTIVE or len(set(sentence[i : i + size])) > 1:
                continue
            counts[tuple(run)] = counts.get(tuple(run), 0) + 1
    return counts


@pytest.mark.parametrize("seed", range(2))
def test_candidates_are_those_of_the_rule(seed):
    rng = np.random.default_rng(seed)
    document = [STEMS[i] if i < 12 else "" for i in rng.integers(0, 15, 60)]
    pos = rng.choice([NOUN, ADJECTIVE, VERB], 60, p=[0.6, 0.25, 0.15]).tolist()
    sentence = np.sort(rng.integers(0, 5, 60)).tolist()
    there = [i for i, stem in enumerate(document) if stem]
    tokens = tokens_of(
        [document, document[:7]],
        pos=[pos[i] for i in there] + [pos[i] for i in there if i < 7],
        sentence=[sentence[i] for i in there] + [sentence[i] for i in there if i < 7],
    )
    spans = spans_of(tokens)
    assert int(spans.offsets[-1]) == len(spans.size)
    first = slice(0, int(spans.offsets[1]))
    assert dict(stems_and_counts(tokens, spans)[first]) == enumerated(document, pos, sentence)
    rest = dict(stems_and_counts(tokens, spans)[first.stop :])
    assert rest == enumerated(document[:7], pos[:7], sentence[:7])
    starts = tokens.position[spans.first]
    assert all(np.all(np.diff(starts[a:b]) >= 0) for a, b in pairwise(spans.offsets))


def test_in_long_documents_a_phrase_stands_twice_or_early():
    document = ["w0", "", "w1", "", "w2", "", "w1"]
    position = [10, 700, 800, 900]
    tokens = tokens_of([document], lengths=[1001], position=position)
    assert [stems for stems, _ in stems_and_counts(tokens, spans_of(tokens))] == [("w0",), ("w1",)]
    shorter = replace(tokens, n_tokens=np.array([1000]))
    assert len(stems_and_counts(shorter, spans_of(shorter))) == 3


def features(tokens, y, n_documents=50, own_labels=True):
    spans = spans_of(tokens)
    size = len(spans.size)
    words = KeywordBatch(
        x=np.ones((tokens.n_words, len(FEATURE_NAMES))),
        y=tokens.y,
        offsets=tokens.offsets,
        fold=tokens.fold,
        complete=tokens.complete,
        edge_row=np.zeros(0, np.int64),
        edge_col=np.zeros(0, np.int64),
        edge_count=np.zeros(0),
        edge_offsets=np.zeros(tokens.n_documents + 1, np.int64),
    )
    nothing = np.zeros(size, np.int64)
    batch = build_phrases(
        tokens, spans, words, y(spans), None, 3, np.full(tokens.n_words, 4),
        Elsewhere(nothing, nothing, nothing), n_documents, np.full(11, 0.1),
        own_labels=own_labels,
    )  # fmt: skip
    return spans, batch, {name: batch.x[:, i] for i, name in enumerate(PHRASE_FEATURES[:33])}


def test_features_by_hand():
    tokens = tokens_of([["w0", "w1", "", "w1", "w0", "w1", "w2"]])
    spans, batch, x = features(tokens, lambda s: np.zeros(len(s.size), bool))
    names = [stems for stems, _ in stems_and_counts(tokens, spans)]
    at = {name: i for i, name in enumerate(names)}
    pair, whole = at["w0", "w1"], at["w0", "w1", "w2"]
    assert batch.x.shape == (len(names), len(PHRASE_FEATURES) - len(SCORED))
    assert_allclose(x["log_tf"][pair], np.log(2))
    assert_allclose(x["maximal"][pair], 0.5)  # the other time w1 and w2 are its neighbours
    assert x["two_words"][pair] == x["three_words"][whole] == 1.0
    assert_allclose(x["pmi"][pair], np.log(1) + np.log(50) - 2 * np.log(4))
    assert_allclose(x["log_tf_over_commonest_word"][pair], np.log(2) - np.log(3))
    assert_allclose(x["first_position"][at["w2",]], np.log(1 + 6))
    assert_allclose(x["log_n_phrases"], np.log(len(names)))
    assert_allclose(x["idf"], np.log(51 / 2) + 1)  # seen in no counts: as if in this one alone


def test_columns_are_left_out_where_they_follow_from_others():
    tokens = tokens_of([["w0", "w1", "", "w1", "w0", "w1", "w2"], ["w2", "w0"]])
    _, batch, _ = features(tokens, lambda s: np.zeros(len(s.size), bool))
    assert [PHRASE_FEATURES[i] for i in (IDF, *FOLLOWING)] == [
        "idf",
        "pmi",
        "pmi_log_documents",
        "least_word_keyphraseness",
        "most_word_keyphraseness",
    ]
    assert FEATURE_NAMES[IDF] == "idf"
    seen = batch.words.x.copy()
    seen[:, IDF] = np.log(51 / 5) + 1.0  # in four of 50 documents
    for words, left_out in ((batch.words, 0), (replace(batch.words, x=seen), 50)):
        own = replace(batch, words=words).compact()
        assert (own.n_documents, own.member.dtype) == (left_out, np.uint8)
        assert own.features.tobytes() == np.asfortranarray(batch.x).tobytes()


def test_no_phrase_knows_its_own_label():
    """Changing one label moves features of others, never the phrase's own."""
    rng = np.random.default_rng(3)
    document = [STEMS[i] for i in rng.integers(0, 12, 30)]
    tokens = tokens_of([document])
    size = len(spans_of(tokens).size)
    labels = np.zeros(size, bool)
    labels[rng.choice(size, 6, replace=False)] = True
    before = features(tokens, lambda s: labels)[1].x
    moved = 0
    for i in range(0, size, 7):
        other = labels.copy()
        other[i] = ~other[i]
        after = features(tokens, lambda s, y=other: y)[1].x
        moved += int(np.any(after != before))
        values = np.array([before[i], after[i]])
        # As known it is compared with the five or six others, as unknown with five of the six:
        # the mean over those is the same up to the logarithm's curve.
        assert_allclose(values[0, :-6], values[1, :-6], atol=1e-12)
        assert np.abs(np.diff(values, axis=0)).max() < 0.35
    assert moved


def test_phrases_are_compared_with_known_ones_only_where_all_documents_have_labels():
    tokens = tokens_of([["w0", "w1", "", "w1", "w0", "w1", "w2"]])
    names = ("inside_known", "holds_known", "shares_with_known")
    with_labels, without = (
        features(tokens, lambda s: s.size < 3, own_labels=own)[2] for own in (True, False)
    )
    for name in names:
        assert np.ptp(with_labels[name]) > 0.0
        assert np.ptp(without[name]) == 0.0
    assert_array_equal(without["pmi"], with_labels["pmi"])


@pytest.fixture(scope="module")
def corpus():
    return drawn(np.random.default_rng(0), 300, mean_words=15.0)


@pytest.fixture(scope="module")
def done(corpus):
    return fit(Keyphrases(), [corpus[0]])


def test_the_scores_are_those_of_refits_without_each_fold(corpus, done):
    """One Newton step comes close to leaving a tenth of the documents out."""
    words = corpus[0].words
    model = CorpusProbit()
    free = done.q.scorer
    for fold in (0, 7):
        seen = replace(words, unlabelled=words.fold == fold)
        # Same standardisation, same law of lengths, same prior: only the fold's labels go.
        q = replace(free, expected=False)
        for _ in range(20):
            q = model.global_step(q, model.suff_stats(q, seen, None))
        found = done.q.coefficients[fold]
        moved = np.abs(q.theta[0, :-2] - free.theta[0, :-2]).max()
        assert np.abs(found - q.theta[0, :-2]).max() < 0.25 * moved
    q = replace(free, expected=False)
    for _ in range(20):
        q = model.global_step(q, model.suff_stats(q, words, None))
    assert_allclose(done.q.coefficients[-1], q.theta[0, :-2], atol=1e-5)


def test_features_that_hold_labels_are_left_out_of_the_scores():
    rng = np.random.default_rng(1)
    batch, _ = drawn(rng, 60)
    x = np.column_stack([batch.words.x[:, :1], rng.standard_normal((batch.words.n_words, 32))])
    batch = replace(batch, words=replace(batch.words, x=x))
    model = Keyphrases()
    q = model.init(model.observe(batch), rng)
    dropped = [FEATURE_NAMES[i] for i in np.flatnonzero(np.isinf(q.scorer.scale))]
    assert dropped == list(OF_OWN_LABELS)


def test_the_rate_is_given_as_keyphrases_a_document(corpus):
    batch, truth = corpus
    mean = truth.sum() / batch.words.n_documents
    model = Keyphrases(per_document=2.0 * mean)
    half = replace(batch, listed=2 * batch.listed)  # as many again are in no text
    rate = model.phrase_rate(model.observe(half))
    assert_allclose(rate, truth.mean(), rtol=2e-3)
    q = fit(model, [half]).q
    assert_allclose(q.phrases.rate, rate, rtol=1e-12)
    assert Keyphrases().phrase_rate(model.observe(batch)) is None


def test_more_keyphrases_than_a_document_can_have_are_reported_and_cut(corpus):
    batch, _ = corpus
    observed = Keyphrases().observe(batch)
    each = batch.n_phrases / batch.words.n_documents
    coverage = (observed.known + 0.5) / (observed.listed + 0.5)
    most = 0.95 * each / coverage
    assert Keyphrases(per_document=0.99 * most).most_per_document(observed) is None
    assert Keyphrases().most_per_document(observed) is None
    model = Keyphrases(per_document=1.01 * most)
    assert model.most_per_document(observed) == pytest.approx(most)
    assert model.phrase_rate(observed) == 0.95
