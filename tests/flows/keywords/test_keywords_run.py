"""Both units through the pipeline: the table, workers, --since, scores, what the page says."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from benchmarks.prior_learning import LabelledCorpus, learn_keyword_prior, text_of
from flows import storage
from flows.faults import InputError
from flows.keywords.input import shards
from flows.keywords.input.documents import prepare
from flows.keywords.settings import KeywordSettings
from flows.records.runs import open_run
from flows.report.answers import of_results
from flows.run import run as launch
from flows.run import score as launch_score
from flows.runs.publish import publish as publish_run
from flows.settings import ComputeSettings
from tests.cases.documents_read import candidates
from vbmodels.text.words import Normaliser, TextOptions

ABSTRACTS = Path(__file__).parents[3] / "examples" / "abstracts.csv"
SUBJECTS = ("support vector machine", "neural network", "decision tree", "random forest")
THINGS = ("market price", "patient record", "river basin", "power station", "protein structure")


def texts(size, seed=0):
    """Short texts about a subject and a thing; the subject's is the keyphrase."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(size):
        subject, other = rng.choice(SUBJECTS, 2, replace=False)
        thing = rng.choice(THINGS)
        text = (
            f"{subject.capitalize()} methods for a {thing}\n"
            f"We use the {subject} to predict a {thing}. The new {subject} is compared with "
            f"the {other} on small data. A large {thing} was observed in {i % 7 + 2} cities."
        )
        known = [subject] if rng.random() < 0.5 else []
        rows.append((f"d{i}", text, known, [subject, f"{subject} methods"]))
    names = ("doc_id", "text", "keywords", "gold")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "documents.parquet"
    pq.write_table(texts(150), path)
    return str(path)


def run(source, target, compute=None, since=None, **options):
    settings = KeywordSettings(**{"partitions": 3, **options})
    compute = compute or ComputeSettings()
    outcome = launch("keywords", str(source), str(target), settings, compute, since)
    return *open_run(str(target)), outcome


def table_of(place, record):
    parts = (storage.read_table(place.table("keywords", i)) for i in range(record.partitions))
    return pa.concat_tables(parts)


@pytest.fixture(scope="module")
def done(source, tmp_path_factory):
    return run(source, tmp_path_factory.mktemp("phrases"))


def test_the_table_holds_phrases_as_they_are_written(done):
    place, record, _ = done
    phrases = table_of(place, record).to_pandas()
    own = phrases[phrases.doc_id == "d0"].set_index("stem")
    text = texts(1)["text"][0].as_py()
    subject = text.split(" methods")[0].lower()
    stem = " ".join(map(Normaliser(TextOptions()), subject.split()))
    row = own.loc[stem]
    assert (row.surface, row.position, row.occurrences) == (subject.capitalize(), 0, 3)
    assert row.term == subject
    assert row.words == len(subject.split())
    assert 0.0 <= own.probability.min() <= own.probability.max() <= 1.0
    assert not own.index.duplicated().any()
    first = own.reset_index().sort_values(["position", "words"], kind="stable")
    assert first.stem.tolist() == own.index.tolist()
    assert "the" not in " ".join(own.index)


def test_known_phrases_are_labels_and_hidden_ones_are_found(done):
    place, record, _ = done
    phrases = table_of(place, record).to_pandas()
    rows = texts(150).to_pandas().set_index("doc_id")
    known = rows.keywords[phrases.doc_id].to_numpy()
    expected = [t.lower() in set(k) for t, k in zip(phrases.term, known, strict=True)]
    assert phrases.observed.tolist() == expected
    assert (phrases.probability[phrases.observed] == 1.0).all()
    hidden = [
        t.lower() == g[0] and not o
        for t, g, o in zip(phrases.term, rows.gold[phrases.doc_id], phrases.observed, strict=True)
    ]
    others = ~np.array(hidden) & ~phrases.observed
    assert phrases.selected[hidden].mean() > 0.9
    assert phrases.selected[others].mean() < 0.1
    best = phrases[~phrases.observed & phrases.selected]
    assert (best["rank"] <= 5).all()


def test_the_answer_is_that_of_the_table(done):
    place, record, _ = done
    found = of_results(KeywordSettings, record.results)
    phrases = table_of(place, record).to_pandas()
    new = phrases[phrases.selected & ~phrases.observed]
    assert (found.new.count, found.new.documents) == (len(new), new.doc_id.nunique())
    assert found.new.right.value == pytest.approx(new.probability.mean())
    assert found.new.right.low < found.new.right.value < found.new.right.high
    assert found.counts.candidates == len(phrases)
    assert found.rate.sources == ("known keyphrases", "other corpora")
    assert found.known.given >= found.known.found == phrases.observed.sum()
    ranked = storage.read_table(place.table("ranked", 0)).to_pandas()
    possible = ranked.known.clip(upper=10).sum()
    assert found.ranking.by_model == pytest.approx(ranked.by_model.sum() / possible)
    assert found.ranking.by_tf_idf == pytest.approx(ranked.by_tf_idf.sum() / possible)
    assert found.ranking.apart.low <= 0.0 <= found.ranking.apart.high
    known = phrases[phrases.observed].groupby("doc_id").size()
    assert ranked.set_index("doc_id").known.to_dict() == known[ranked.doc_id].to_dict()
    assert new.probability.min() >= found.rules.least
    assert new["rank"].max() <= found.rules.most
    unknown = phrases[~phrases.observed]
    right = unknown.gold.astype(bool)
    assert found.measured.precision.value == pytest.approx(right[unknown.selected].mean())
    assert found.measured.recall.value == pytest.approx(unknown.selected[right].mean())
    assert found.measured.precision.low < found.measured.precision.value
    posterior = storage.read_table(place.file("posterior/parameters.parquet"))
    assert {"coefficient", "keyword_rate", "length_exponent"} == set(posterior["name"].to_pylist())


def test_a_run_without_a_known_phrase_says_that_there_is_nothing_to_learn(tmp_path):
    whole = texts(60)
    # One with a stop word inside, and words that never stand side by side.
    known = pa.array([["machine of support", "predict price"]] * 60)
    whole = whole.set_column(whole.column_names.index("keywords"), "keywords", known)
    pq.write_table(whole, tmp_path / "in.parquet")
    place, record, _ = run(tmp_path / "in.parquet", tmp_path / "out", partitions=1, prior="none")
    assert not any(table_of(place, record)["selected"].to_pylist())
    assert record.results["doubts"]["learned"] == "nothing"
    assert any("not in its document" in one.reason and one.count == 120 for one in record.dropped)
    assert storage.read_table(place.table("ask", 0)).num_rows == 20
    # Other corpora say what such a document's keyphrases are.
    place, record, _ = run(tmp_path / "in.parquet", tmp_path / "other", partitions=1)
    assert any(table_of(place, record)["selected"].to_pylist())
    assert record.results["doubts"]["learned"] == "other corpora"


def without_labels(size):
    return texts(size).select(["doc_id", "text", "gold"])


def test_documents_without_any_label_are_ranked_by_other_corpora(tmp_path):
    pq.write_table(without_labels(40), tmp_path / "in.parquet")
    place, record, _ = run(tmp_path / "in.parquet", tmp_path / "out")
    table = table_of(place, record).to_pandas()
    assert record.results["levels"][1]["count"] == 0
    (question,) = record.warnings
    assert "lists=complete" not in question
    assert record.results["rate"]["sources"] == ["other corpora"]
    assert table.groupby("doc_id").selected.sum().between(1, 15).all()
    best = table[table["rank"] == 1]
    stem = Normaliser(TextOptions())
    terms = {" ".join(str(stem(word)) for word in t.split()) for t in (*SUBJECTS, *THINGS)}
    assert best.stem.isin(terms).mean() > 0.8
    assert storage.read_table(place.table("ask", 0)).num_rows == 20
    launch_score(place.root, str(tmp_path / "in.parquet"), str(tmp_path / "score"),
                 ComputeSettings())  # fmt: skip
    scored = open_run(str(tmp_path / "score"))[1].results
    assert (scored["fit"]["files"], scored["fit"]["seen"]) == (1, 1)
    assert scored["levels"][0]["count"] == record.results["levels"][0]["count"]
    _, given, _ = run(tmp_path / "in.parquet", tmp_path / "given", keyphrases=2.0)
    right = given.results["levels"][0]["right"]
    assert right["low"] < right["value"] < right["high"]
    assert given.results["rate"]["is_exact"]


def test_a_book_has_no_thousands_of_keyphrases(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"wo{a}{b}ter" for a in "abcdefghijklmnopqrst" for b in "aeiouy"])
    text = ". ".join(" ".join(rng.choice(words, 12)) for _ in range(1500))
    book = pa.table({"doc_id": ["book"], "text": [text], "keywords": [[str(words[0])]]})
    for name, table in (("known", book), ("none", book.drop_columns("keywords"))):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        place, record, _ = run(tmp_path / f"{name}.parquet", tmp_path / name, partitions=1)
        assert table_of(place, record).num_rows > 1000
        assert record.results["levels"][0]["count"] <= 15


def test_lists_that_are_complete_are_said_once(tmp_path):
    whole = texts(60)
    marked = whole.append_column("complete", pa.array([True] * 60))
    found = []
    for name, table, more in (("said", whole, {"lists": "complete"}), ("marked", marked, {})):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        place, record, _ = run(tmp_path / f"{name}.parquet", tmp_path / name, **more)
        assert not any("How many keyphrases" in warning for warning in record.warnings)
        found.append(table_of(place, record))
    assert found[0].equals(found[1])


def test_a_prior_of_ones_own_is_a_file(tmp_path):
    pq.write_table(without_labels(20), tmp_path / "in.parquet")
    rows = texts(30).to_pylist()
    corpora = [
        LabelledCorpus(f"c{i}", [r["text"] for r in part], [r["gold"] for r in part], "some")
        for i, part in enumerate((rows[:15], rows[15:]))
    ]
    path = tmp_path / "prior.json"
    path.write_text(text_of(learn_keyword_prior(corpora)))
    _, ours, _ = run(tmp_path / "in.parquet", tmp_path / "ours", prior=str(path))
    _, theirs, _ = run(tmp_path / "in.parquet", tmp_path / "theirs")
    assert ours.results["rate"]["share"] != theirs.results["rate"]["share"]
    path.write_text("{}")
    with pytest.raises(InputError, match="it is not a prior that vbflows wrote"):
        run(tmp_path / "in.parquet", tmp_path / "bad", prior=str(path))
    with pytest.raises(InputError, match="known keyphrases of some documents"):
        run(tmp_path / "in.parquet", tmp_path / "none", prior="none")


def documents(**columns):
    size = len(columns["text"])
    table = {"doc_id": [f"d{i}" for i in range(size)], "keywords": [[] for _ in range(size)]}
    return pa.table({**table, **columns})


def test_random_keyphrases_are_not_better_than_tf_idf(tmp_path):
    """A list must not be found by the candidates that it made."""
    rng = np.random.default_rng(2)
    documents, lists = csv.read_csv(ABSTRACTS), []
    for text in documents["text"].to_pylist():
        pieces, own = re.split(r"[.,;:()]", text), []
        while len(own) < 8:
            words, size = pieces[rng.integers(len(pieces))].split(), int(rng.integers(1, 4))
            if len(words) >= size:
                first = rng.integers(len(words) - size + 1)
                own.append(" ".join(words[first : first + size]).lower())
        lists.append(own)
    pq.write_table(
        documents.select(["text"]).append_column("keywords", [lists]), tmp_path / "in.parquet"
    )
    _, record, _ = run(tmp_path / "in.parquet", tmp_path / "out", partitions=1)
    apart = record.results["ranking"]["apart"]
    assert apart["low"] <= 0.0 <= apart["high"]


@pytest.mark.parametrize("options", [{"keyphrases": 3}, {"unit": "word", "keyword_rate": 0.1}])
def test_partitions_without_a_candidate_are_empty_tables(tmp_path, options):
    """In a run and in its score, also where no document has any."""
    texts = [f"Bayesian inference of sparse models uses data set {i}." for i in range(12)]
    names = [f"d{i}" for i in range(13)]
    pq.write_table(pa.table({"doc_id": names, "text": ["the of and", *texts]}), tmp_path / "in")
    pq.write_table(pa.table({"doc_id": ["a", "b"], "text": ["the of", "and"]}), tmp_path / "none")
    settings = KeywordSettings(rows_per_partition=1, **options)
    launch("keywords", str(tmp_path / "in"), str(tmp_path / "out"), settings, ComputeSettings())
    for source, rows in (("in", 12), ("none", 0)):
        target = str(tmp_path / f"scored {source}")
        launch_score(str(tmp_path / "out"), str(tmp_path / source), target, ComputeSettings())
        table = pq.read_table(open_run(target)[0].root + "/keywords")
        assert len(set(table["doc_id"].to_pylist())) == rows


def test_terms_are_matched_as_phrases():
    text = ["The semi-supervised client/server model. Degrees of freedom of client server models."]
    known = [["The Semi-Supervised client", "client-server model", "degrees of freedom", "model x"]]
    prepared = prepare(documents(text=text, keywords=known), TextOptions(), True)
    _, found = candidates(prepared)
    labelled = [s for s, y in zip(found.stem, prepared.marks.y, strict=True) if y]
    # "client-server" is no word of the text, its parts are; a stop word is inside a known phrase.
    assert labelled == ["semi-supervis client", "client server model"]
    assert [one.stem for one in prepared.listed] == ["degre of freedom"]
    assert prepared.marks.listed == 4


@pytest.mark.thorough
def test_no_partition_is_in_memory_while_tables_are_written(source, tmp_path, monkeypatch):
    held = []

    def publish(at_work):
        held.append(at_work.executor.holder.held)
        return publish_run(at_work)

    monkeypatch.setattr("flows.stages.publish_run", publish)
    run(source, tmp_path)
    assert held == [0]


def test_the_size_of_shards_moves_no_bit(done, source, tmp_path, monkeypatch):
    for name in ("add_counts", "look_up_counts"):
        small = partial(getattr(shards, name), most_rows=100)
        monkeypatch.setattr(f"flows.keywords.family.{name}", small)
    place, record, _ = run(source, tmp_path / "out")
    for kind in (shards.WORDS, shards.PHRASES):
        assert len(storage.names(place.file(f"posterior/corpus/{kind}"))) > 1
    assert table_of(place, record).equals(table_of(done[0], done[1]))
    # Scores from many shards are those from one, and those from one in many pieces.
    tables = []
    for number, fit in enumerate((place, done[0])):
        target = tmp_path / f"score-{number}"
        launch_score(fit.root, source, str(target), ComputeSettings())
        tables.append(table_of(*open_run(str(target))))
    assert tables[0].equals(tables[1])
