"""Documents to candidate words and arrays: small made-up documents and real abstracts."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from flows.keywords.input.documents import prepare as prepared_of
from flows.keywords.input.shards import rows_of, table_of
from flows.keywords.schema import DOCUMENTS
from flows.tables.checks import Checker
from tests.flows.keywords.one_corpus import features_of, words_of
from tests.vbmodels.keywords.keyword_documents import adjacency
from vbmodels.keywords.candidate_counts import added
from vbmodels.text.reading import Named
from vbmodels.text.tokens import Labels, Row, read_tokens
from vbmodels.text.words import POS_GROUPS, Normaliser, TextOptions

TITLED = (
    "Keyword extraction from graphs\n"
    "The graphs of Bayesian networks are small graphs. They don't have many words, "
    "but the GPU is a large network!"
)


def table(**columns):
    n = len(next(iter(columns.values())))
    columns.setdefault("doc_id", [f"d{i}" for i in range(n)])
    columns.setdefault("keywords", pa.array([[]] * n, pa.list_(pa.string())))
    return pa.table(columns)


def prepare(documents, options):
    return prepared_of(documents, options, False)


def words(prepared, what="stem"):
    return words_of(prepared)[what].to_pylist()


def test_raw_text_is_split_tagged_and_titled():
    tagged = read_tokens([Row(Labels("d"), TITLED)], TextOptions())[0]
    tokens = [tagged.names[i] for i in tagged.token]
    assert tokens[:5] == ["Keyword", "extraction", "from", "graphs", "The"]
    assert tagged.sentence[:5].tolist() == [0, 0, 0, 0, 1]
    assert max(tagged.sentence) == 2
    groups = {t: POS_GROUPS[c] for t, c in zip(tokens, tagged.pos, strict=True) if c >= 0}
    assert groups["graphs"] == "plural_noun"
    assert groups["small"] == "adjective"
    assert {"The", "of", "They", "!"}.isdisjoint(groups)


def test_candidates_are_stems_of_nouns_adjectives_and_verbs():
    p = prepare(table(text=[TITLED]), TextOptions())
    assert words(p) == [
        *("keyword", "extract", "graph", "bayesian", "network", "small", "word", "gpu", "larg")
    ]
    assert words(p, "term")[1:5] == ["extraction", "graphs", "Bayesian", "networks"]
    assert words(p, "term")[5:] == ["small", "words", "GPU", "large"]


@pytest.mark.parametrize(
    ("stem", "expected"),
    [("none", "generously"), ("auto", "gener"), ("porter", "gener"), ("snowball", "generous")],
)
def test_stems(stem, expected):
    assert Normaliser(TextOptions(stem=stem))("Generously") == expected


@pytest.mark.parametrize("token", ["is", "The", "x", "42", "--", "p(x", "a=b", "w" * 51, "%"])
def test_what_is_no_word(token):
    assert Normaliser(TextOptions())(token) is None


def test_tagged_input_is_taken_as_it_is():
    penn = prepare(table(tokens=[["Run", "the", "run"]], pos=[["NN", "DT", "MD"]]), TextOptions())
    assert words(penn) == ["run"]
    assert_array_equal(penn.tokens.position, [0])
    universal = prepare(
        table(tokens=[["Run", "the", "runs"]], pos=[["NOUN", "DET", "VERB"]]), TextOptions()
    )
    assert_array_equal(universal.tokens.pos, [0, 4])


def test_tokens_without_tags_are_candidates_unless_stop_words():
    documents = table(tokens=[["the", "quick", "fox", "x"]])
    assert words(prepare(documents, TextOptions(stem="none"))) == ["quick", "fox"]
    every = TextOptions(stem="none", stop_words=False)
    assert words(prepare(documents, every)) == ["the", "quick", "fox", "x"]


def test_minimum_count_follows_the_length_unless_it_is_set():
    short, long = ["alpha", "beta", "alpha"], ["alpha", "beta", "alpha"] * 2 + ["gamma"] * 1000
    documents = table(tokens=[short, long])
    by_rule = prepare(documents, TextOptions(stem="none"))
    assert words(by_rule) == ["alpha", "beta", "alpha", "gamma"]
    assert words(prepare(documents, TextOptions(stem="none", min_count=2))) == [
        *("alpha", "alpha", "beta", "gamma")
    ]


def test_rare_words_close_up_before_the_graph_is_made():
    p = prepare(table(tokens=[["aa", "xx", "yy", "bb", "aa", "bb"]]), TextOptions(min_count=2))
    (b,) = features_of(p, window=1)
    assert_array_equal(b.adjacency(0), adjacency(np.array([0, 1, 0, 1]), 2, window=1))
    assert_array_equal(p.tokens.position, [0, 3, 4, 5])


def test_known_keywords_are_split_normalised_and_matched():
    documents = table(
        text=["Semi supervised learning of networks for client and server."],
        keywords=[["Neural Networks", "semi-supervised learning", "client/server", "theory of X"]],
    )
    p = prepare(documents, TextOptions())
    seen = [s for s, y in zip(words(p), words(p, "observed"), strict=True) if y]
    assert seen == ["semi", "supervis", "learn", "network", "client", "server"]
    assert p.report.absent_keywords == Named(
        2, ("d0: Neural Networks (Neural: absent)", "d0: theory of X (theory: absent)")
    )


def test_documents_without_candidates_are_named_and_leave_no_trace():
    documents = table(text=["Of the and.", "Graphs.", "", "42"], complete=[None, True, None, None])
    p = prepare(documents, TextOptions())
    assert p.report.documents == 4
    assert p.report.without_words == Named(3, ("d0", "d2", "d3"))
    assert words(p, "doc_id") == ["d1"]
    assert_array_equal(p.tokens.complete, [True])
    (b,) = features_of(p, documents=4)
    assert b.n_documents == 1
    assert np.isfinite(b.x).all()


def test_a_document_of_20000_words_is_cut_to_its_most_frequent():
    rng = np.random.default_rng(0)
    rank = np.minimum(rng.zipf(1.2, 20_000), 15_000)
    documents = table(tokens=[[f"w{r}" for r in rank]], keywords=[["w1", f"w{rank.max()}"]])
    p = prepare(documents, TextOptions(stem="none", min_count=1, max_words=300))
    assert p.report.shortened.count == 1
    assert p.report.words == 300
    counts = {w: int((rank == int(w[1:])).sum()) for w in words(p)}
    every = np.bincount(rank)
    left_out = [every[r] for r in np.unique(rank) if f"w{r}" not in counts]
    rarest = f"w{rank.max()}"
    assert rarest in counts
    assert min(c for w, c in counts.items() if w != rarest) >= max(left_out)
    assert np.isfinite(features_of(p)[0].x).all()


def test_other_languages_are_not_tagged():
    options = TextOptions(language="dutch", stop_words=False)
    p = prepare(table(text=["De netten leren. Het net leert."]), options)
    assert words(p) == ["de", "net", "leer", "het", "leert"]
    assert_array_equal(p.tokens.pos, -1)
    assert p.tokens.sentence.max() == 1


def test_composed_and_decomposed_letters_are_the_same():
    documents = table(tokens=[["re\u0301seau", "ﬁne"]], keywords=[["r\u00e9seau fine"]])
    assert words(prepare(documents, TextOptions(stem="none")), "observed") == [True, True]


@pytest.fixture(scope="module")
def abstracts(shared_data):
    return pq.read_table(shared_data / "keywords" / "hulth.parquet").slice(0, 300)


@pytest.mark.thorough
def test_the_evaluation_sets_are_read_as_they_are(shared_data):
    """Their tokens are the candidates of the papers: mean 57.6 (abstracts), 308 (papers)."""
    for name, rows, mean in (("hulth_eval", 1463, 57.6), ("semeval_eval", 60, 308)):
        documents = pq.read_table(shared_data / "keywords" / f"{name}.parquet").slice(0, rows)
        documents = documents.rename_columns({"gold": "keywords"})
        options = TextOptions(stem="none", stop_words=False, min_count=1)
        p = prepare(documents, options)
        tokens = pc.list_flatten(documents["tokens"]).to_pylist()
        assert p.report.tokens == len(tokens)
        assert len(p.tokens.word) == sum(not t.isdigit() for t in tokens)
        assert p.report.words / len(documents) == pytest.approx(mean, rel=0.05)
        assert p.report.absent_keywords.count == 0
        gold = [len(set(k)) for k in documents["keywords"].to_pylist()]
        assert p.report.observed == sum(gold)


@pytest.mark.thorough
def test_the_partitioning_changes_no_feature_of_real_abstracts(abstracts):
    documents = abstracts.select(["doc_id", "text"]).append_column(
        "keywords", pa.array([g[:3] for g in abstracts["gold_phrases"].to_pylist()])
    )
    whole = prepare(documents, TextOptions())
    parts = [prepare(documents.slice(i, 70), TextOptions()) for i in range(0, 300, 70)]
    again = added([rows_of(p.counts["words"]) for p in reversed(parts)])
    assert table_of(again).equals(whole.counts["words"])
    x = features_of(whole)[0].x
    assert_array_equal(x, np.concatenate([b.x for b in features_of(*parts)]))
    assert np.isfinite(x).all()
    assert (x[:, 1:-3].std(axis=0) > 0).all()  # the user has given no scores


def test_the_users_scores_reach_the_words_with_their_stem():
    documents = pa.table(
        {
            "doc_id": ["a", "b", "c"],
            "text": ["Graphs of graph theory", "a graph", "no theory"],
            "keywords": pa.array([["graph"], [], None], pa.list_(pa.string())),
            "scored": pa.array([["graph", "Graphs", "absent", "the"], None, ["no theory"]]),
            "scores": pa.array([[0.2, 0.7, 9.0, 1.0], None, [0.5]]),
        }
    )
    checker = Checker(DOCUMENTS, "file")
    checker.read(documents)
    assert checker.faults.listed() == ()
    prepared = prepare(documents, TextOptions(tag=False))
    found = dict(zip(
        zip(words(prepared, "doc_id"), words(prepared), strict=True),
        prepared.tokens.score, strict=True,
    ))  # fmt: skip
    assert found["a", "graph"] == 0.7
    assert np.isnan(found["a", "theori"])
    assert np.isnan(found["b", "graph"])
    assert found["c", "theori"] == 0.5
    unused = prepared.report.unused_scores
    assert (unused.count, unused.names) == (2, ("a: absent", "a: the"))
    bare = pa.table({"doc_id": ["d"], "text": [""], "scored": [["x"]], "scores": [[1.0]]})
    both = pa.concat_tables([documents, bare], promote_options="default")
    assert prepare(both, TextOptions(tag=False)).report.unused_scores.names[2:] == ("d: x",)
    assert prepare(documents.drop_columns(["scored", "scores"]), TextOptions()).tokens.score is None
