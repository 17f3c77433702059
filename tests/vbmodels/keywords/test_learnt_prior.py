"""The prior learnt from other corpora: its file, how it is learnt, and the model under it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from benchmarks.prior_learning import (
    LabelledCorpus,
    ProbitFit,
    _fit,
    _line,
    pooled,
    read_corpus,
    text_of,
)
from tests.contract.words_drawn import simulate_words
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import has_few_documents
from vbmodels.keywords.learnt_prior import (
    ANY,
    LABEL_FREE_PHRASES,
    LABEL_FREE_WORDS,
    LearntPrior,
    PriorError,
    prior_of,
    shipped,
)
from vbmodels.keywords.prior.rates import OF_CORPORA, OF_LABELS, SOURCES, LearntRegression, RateLine

MEAN, SD = (0.0, 0.8, -0.4, 0.2, 0.0), (1.0, 0.1, 0.1, 0.1, 1.0)
LEARNT = LearntRegression(
    MEAN, SD, (False, True, True, True, False), RateLine(-1.5, 0.0, 0.5), False
)


def drawn(seed=0, documents=300, **options):
    w = np.array([-0.9, *MEAN[1:4], 0.3])
    return simulate_words(np.random.default_rng(seed), documents, coefficients=w, **options)


def unlabelled(batch):
    nobody = np.ones(batch.n_documents, bool)
    return replace(batch, y=np.zeros(batch.n_words, bool), unlabelled=nobody, complete=~nobody)


# The file.


def test_the_shipped_file_is_of_todays_features_and_says_where_it_is_from():
    prior = shipped()
    assert set(prior.words.features) == set(LABEL_FREE_WORDS)
    assert set(prior.phrases.features) == set(LABEL_FREE_PHRASES)
    assert (len(LABEL_FREE_WORDS), len(LABEL_FREE_PHRASES)) == (24, 29)
    assert len(prior.corpora) == 10
    assert all(one["licence"] and one["source"] and one["kind"] for one in prior.corpora)
    held_back = {"kpcrowd", "nguyen2007", "citeulike180"}
    assert not held_back & {str(one["name"]) for one in prior.corpora}
    assert prior.of_words("some").rate != prior.of_words(None).rate == prior.words.rates[ANY]


def test_a_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "prior.json"
    path.write_text(text_of(shipped()))
    assert prior_of(path) == shipped() == prior_of(None) == prior_of(shipped())
    assert prior_of("none") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 0}, "another version"),
        ({"words": None}, "not a prior"),
        ({"coverage": {"any": 0.0}}, "out of range"),
        ({"coverage": {}}, "out of range"),
    ],
)
def test_a_file_that_is_no_prior_is_refused(change, message):
    found = json.loads(text_of(shipped())) | change
    with pytest.raises(PriorError, match=message):
        LearntPrior.from_json(json.dumps(found))
    for text in ("", "[]", "[" * 10_000, "\x00", '{"version": 1}'):
        with pytest.raises(PriorError, match="not a prior"):
            LearntPrior.from_json(text)


def test_a_file_of_other_features_is_refused():
    found = json.loads(text_of(shipped()))
    found["words"]["features"]["shoe_size"] = found["words"]["features"].pop("log_tf")
    with pytest.raises(PriorError, match="another version"):
        LearntPrior.from_json(json.dumps(found))


# How it is learnt.


def test_labels_stand_at_their_words_where_texts_have_single_letters():
    texts = [
        f"Plan B of city {i} names vitamin C and hepatitis B. Hepatitis B and vitamin C are "
        "measured; plan B is a plan of the city."
        for i in range(6)
    ]
    read = read_corpus(LabelledCorpus("letters", texts, [["hepatitis B", "vitamin"]] * 6))
    tokens = read.part.read.tokens
    assert tokens.letter.any()
    assert read.words.sum() == 12
    assert {read.part.read.vocabulary[i] for i in tokens.term[read.words]} == {"hepat", "vitamin"}


def test_a_corpus_is_fitted_to_the_mode():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 2)) * [1.0, 5.0]
    y = rng.standard_normal(4000) < -1.0 + 0.7 * x[:, 0] - 0.1 * x[:, 1]
    found = _fit(x, y, 40, "some")
    assert_allclose(found.mean, [0.7, -0.5], atol=0.1)
    assert_allclose(np.linalg.inv(found.information).diagonal() ** 0.5, 0.026, rtol=0.2)
    assert_allclose(found.log_size, np.log(100.0))
    assert_allclose(np.exp(found.log_rate), y.mean())


def test_the_pool_is_what_the_corpora_were_drawn_from():
    rng = np.random.default_rng(2)
    fits = []
    for _ in range(60):
        information = np.diag([2000.0, 300.0])
        w = rng.normal([0.5, -0.2], [0.2, 0.1])
        seen = rng.normal(w, (0.3 * information.diagonal()) ** -0.5)
        fits.append(ProbitFit(seen, information, 0.0, 0.0, "some"))
    mean, sd = pooled(fits)
    assert_allclose(mean, [0.5, -0.2], atol=0.07)
    assert_allclose(sd, [0.2, 0.1], rtol=0.35)


def test_the_rate_is_a_line_in_the_logarithm_of_the_candidates():
    rng = np.random.default_rng(3)
    fits = []
    for log_size in rng.uniform(3.0, 7.0, 200):
        log_rate = rng.normal(0.3 - 0.6 * log_size, 0.5)
        fits.append(ProbitFit(np.zeros(1), np.eye(1), log_rate, log_size, "some"))
    line = _line(fits)
    assert_allclose([line.level, line.slope, line.sd], [0.3, -0.6, 0.5], atol=0.2)
    alone = _line(fits[:1])  # one corpus says little
    assert alone.sd > 1.0


# The model.


def test_without_labels_the_answer_is_the_prior():
    batch = unlabelled(drawn()[0])
    model = CorpusProbit(learnt=LEARNT)
    q = fit(model, [batch]).q
    assert [SOURCES[i] for i in q.sources.speaking] == ["other corpora"]
    x = (batch.x - q.location) / q.scale
    by_node = []
    for log_rate in (-1.5, -1.5 - 0.5 * 3**0.5, -1.5 + 0.5 * 3**0.5):
        correlations = np.corrcoef(x[:, 1:4].T)
        m = np.array(MEAN[1:4])
        spread = (1 + m @ correlations @ m + 3 * 0.01) ** 0.5
        eta = stats.norm.ppf(np.exp(log_rate)) * spread + x[:, 1:4] @ m
        by_node.append(stats.norm.cdf(eta / (1 + 0.01 * (x[:, 1:4] ** 2).sum(1)) ** 0.5))
    assert_allclose(model.by_node(q, batch, fitted=True), by_node, rtol=1e-9)
    assert_allclose(np.mean(by_node[0]), np.exp(-1.5), rtol=0.1)
    assert_allclose(q.rate, np.exp(-1.5), rtol=1e-12)
    low, high = q.sources.ends
    assert_allclose([low, high], np.exp([-1.5 - 0.5 * 3**0.5, -1.5 + 0.5 * 3**0.5]))
    assert not has_few_documents(q)


def test_the_objective_at_the_nodes_is_its_definition():
    batch, _ = drawn(1, 120)
    model, vague = CorpusProbit(learnt=LEARNT), CorpusProbit()
    q = fit(model, [batch]).q
    w, log_rate = q.theta[:, :-2], q.theta[:, -2]
    found = model.values(q, model.suff_stats(q, batch, None))
    mean = np.tile(MEAN, (3, 1))
    mean[:, 0] = stats.norm.ppf(np.exp(log_rate)) * q.spread
    sd = np.array([0.25, *SD[1:]])
    likelihood = vague.suff_stats(q, batch, None).value
    expected = likelihood + stats.norm.logpdf(w, mean, sd).sum(1)
    expected += stats.norm.logpdf(q.theta[:, -1], q.law.exponent, q.law.exponent_sd)
    assert_allclose(found, expected, rtol=1e-12)


def test_few_labels_shrink_to_the_prior_and_many_do_not():
    def away(documents, **more):
        batch, truth = drawn(4, documents, **more)
        w = fit(CorpusProbit(truth.keyword_rate, learnt=LEARNT), [batch]).q.mean
        return np.abs(w[1:4] - MEAN[1:4]).max()

    assert away(5) < 0.1
    off = replace(LEARNT, mean=(0.0, -0.8, 0.4, 0.2, 0.0))
    batch, truth = drawn(5, 2000, n_complete=2000)
    w = fit(CorpusProbit(truth.keyword_rate, learnt=off), [batch]).q.mean
    assert_allclose(w[1:4], MEAN[1:4], atol=0.12)


def test_the_shape_of_lists_of_one_length_is_not_read_where_a_kind_is_named():
    batch, _ = drawn(6, 200, mean_words=40.0)
    order = np.lexsort((~batch.y, batch.document_of_word))
    rank = np.arange(batch.n_words) - np.repeat(batch.offsets[:-1], batch.sizes)
    three = np.zeros(batch.n_words, bool)
    three[order] = rank < 3
    same = replace(batch, y=batch.y & three)
    for y, kind, read in ((batch, True, True), (same, False, True), (same, True, False)):
        q = fit(CorpusProbit(learnt=replace(LEARNT, kind_given=kind)), [y]).q
        assert (OF_LABELS in q.sources.speaking) == read
        assert OF_CORPORA in q.sources.speaking or not kind


def test_other_corpora_of_any_kind_are_silent_where_the_labels_are_clear():
    clear, rough = drawn(9, 500, n_complete=0)[0], drawn(9, 12, n_complete=0)[0]
    for batch, kind, used in ((clear, False, False), (clear, True, True), (rough, False, True)):
        q = fit(CorpusProbit(learnt=replace(LEARNT, kind_given=kind)), [batch]).q
        assert OF_LABELS in q.sources.speaking
        assert (OF_CORPORA in q.sources.speaking) == used


def test_a_restart_without_labels_is_the_prior_too():
    batch = unlabelled(drawn()[0])
    model = CorpusProbit(learnt=LEARNT)
    before = fit(model, [drawn(8)[0]]).q
    again = model.restart(model.observe(batch), before, np.random.default_rng(0))
    assert_array_equal(again.theta, fit(model, [batch]).q.theta)
