"""Sentences that most documents share, and exact copies: left out of the fit however it is cut."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

from flows import stages, storage
from flows.faults import RunError
from flows.keywords.settings import KeywordSettings
from flows.records.runs import open_run
from flows.records.states import read_state
from flows.run import begin, run
from flows.settings import ComputeSettings
from vbmodels.estimators import KeywordExtractor
from vbmodels.keywords.phrases.model import PhraseGlobal
from vbmodels.text.tokens import MOST_SAMPLED, Originals, Sample, find_copies

SUBJECTS = ("water tower", "bee hive", "solar panel", "river delta", "bike lane", "wind farm")
FOOTER = "You are reading the Green Valley Newsletter, issue {}."


def texts():
    """Return twelve texts, of different words but for a footer."""
    return [
        f"The {one} of town {town} is old. A new {one} costs money, and the {one} breaks often. "
        f"Each {one} has a pretty roof."
        for town in ("Riga", "Porto")
        for one in SUBJECTS
    ]


def fit(folder, given, known=None, **settings):
    """Return the rows of the fit, its parameters, and what was said."""
    names = [f"d{i}" for i in range(len(given))] if isinstance(given, list) else list(given)
    rows = given if isinstance(given, list) else list(given.values())
    table = pa.table({"doc_id": names, "text": rows, "keywords": known or [None] * len(rows)})
    folder.mkdir()
    pq.write_table(table.cast(pa.schema({
        "doc_id": pa.string(), "text": pa.string(), "keywords": pa.list_(pa.string()),
    })), folder / "in.parquet")  # fmt: skip
    target = str(folder / "out")
    outcome = run("keywords", str(folder / "in.parquet"), target, KeywordSettings(**settings),
                  ComputeSettings())  # fmt: skip
    place, record = open_run(target)
    parts = [storage.read_table(place.table("keywords", i)) for i in range(record.partitions)]
    q = read_state(f"{place.root}/posterior/q.npz", PhraseGlobal)
    return pa.concat_tables(parts).to_pandas(), q, outcome, record


def test_copies_count_once_and_each_gets_its_rows(tmp_path):
    known = [[one] for one in SUBJECTS] * 2
    alone = {f"d{i}": text for i, text in enumerate(texts())}
    copies = {f"c{i}": text for i, text in enumerate(texts()[:5] * 2)}
    both = alone | copies
    rows, q, _, _ = fit(tmp_path / "a", alone, known, partitions=3)
    every, again, _, record = fit(tmp_path / "b", both, [*known, *([None] * 10)], partitions=3)
    assert_allclose(again.phrases.theta, q.phrases.theta, atol=1e-9)
    assert again.observed.n_documents == len(alone)
    assert any("10 documents" in note for note in record.notes)
    found = {name: own for name, own in every.groupby("doc_id")}
    assert set(found) == set(both)
    for name, own in rows.groupby("doc_id"):
        assert_allclose(own.probability, found[name].probability, atol=1e-9)
    assert set(found["c0"].stem) == set(found["d0"].stem)


def test_a_labelled_copy_counts_before_one_without_labels(tmp_path):
    both = {f"d{i}": text for i, text in enumerate(texts() * 2)}
    known = [*([None] * 12), *([[one] for one in SUBJECTS] * 2)]
    _, q, _, _ = fit(tmp_path / "a", both, known)
    assert q.observed.known == 12
    assert q.observed.listed == 12


def test_shared_sentences_leave_no_trace(tmp_path):
    known = [[one] for one in SUBJECTS] * 2
    plain, q, _, _ = fit(tmp_path / "a", texts(), known, partitions=3)
    footed = [f"{text} {FOOTER.format(i)}" for i, text in enumerate(texts())]
    rows, again, _, record = fit(tmp_path / "b", footed, known, partitions=3)
    assert rows.equals(plain)
    assert again.phrases.theta.tobytes() == q.phrases.theta.tobytes()
    assert any("12 documents" in note for note in record.notes)


def test_a_file_that_changes_before_shared_sentences_are_left_out_is_refused(tmp_path):
    """It is read once more for that: the rest of the run would be of other documents."""
    path = tmp_path / "in.csv"
    rows = [f'd{i},"{text} {FOOTER.format(i)}"' for i, text in enumerate(texts())]
    path.write_text("\n".join(["doc_id,text", *rows]))

    def prepare():
        with begin("keywords", str(path), str(tmp_path / "out")) as begun:
            stages.check(begun)
            stages.ingest(begun)
            path.write_text("\n".join(["doc_id,text", *rows[:7]]))
            stages.prepare(begun)

    with pytest.raises(RunError, match="has changed since this run first read it"):
        prepare()


def test_new_documents_are_read_by_the_rules_of_the_fit(tmp_path):
    footed = [f"{text} {FOOTER.format(i)}" for i, text in enumerate(texts())]
    found = KeywordExtractor(n_partitions=2).fit(footed, [[one] for one in SUBJECTS] * 2)
    new = f"The tram stop is new. {FOOTER.format(99)}"
    terms = {row["term"] for row in rows_of(found.score_candidates([new]))}
    assert terms == {row["term"] for row in rows_of(found.score_candidates([new[:21]]))}
    assert not any("Newsletter" in term for term in terms)


def rows_of(table):
    return [dict(zip(table.dtype.names, row, strict=True)) for row in table]


def test_the_estimator_counts_copies_once():
    known = [[one] for one in SUBJECTS] * 2
    ids = [f"d{i}" for i in range(12)]
    one = KeywordExtractor().fit(texts(), known, ids=ids)
    both = KeywordExtractor(n_partitions=3).fit(
        [*texts(), *texts()], [*known, *([None] * 12)], ids=[*ids, *(f"c{i}" for i in range(12))]
    )
    assert_allclose(both.coef_means_, one.coef_means_, atol=1e-9)
    assert len(both.candidates_["doc_id"]) == 2 * len(one.candidates_["doc_id"])


def test_a_sample_is_the_same_however_it_is_cut():
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 2**63, 3000)).tolist()
    sentences = [[int(key % 7), 100] for key in keys]
    whole = Sample.of(keys, sentences)
    halves = Sample.of(keys[::2], sentences[::2]) + Sample.of(keys[1::2], sentences[1::2])
    assert halves.sentence.tobytes() == whole.sentence.tobytes()
    assert len(whole.document) == MOST_SAMPLED
    assert whole.shared == {100}
    assert Sample.of([1, 2], [[5], [5]]).shared == frozenset()


def test_the_first_that_is_looked_at_is_the_original():
    key, fold = np.array([7, 7, 9, 7], np.uint64), np.array([1, 2, 3, 4])
    parts = [
        Originals(key[:2], fold[:2], np.array([False, False])),
        Originals(key[2:], fold[2:], np.array([False, True])),
    ]
    first, second = find_copies(parts)
    assert first.counted.tolist() == [False, False]
    assert second.counted.tolist() == [True, True]
    assert [*first.fold, *second.fold] == [4, 4, 3, 4]
