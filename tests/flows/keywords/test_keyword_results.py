"""What a run says of its words: what is false of them, and which documents to label next."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.runs import open_run
from flows.keywords import summary
from flows.keywords.document_sections import label_section
from flows.keywords.report import report
from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import (
    BINS,
    PHRASES,
    DocumentToLabel,
    KeywordSummary,
    TermCounts,
    _worth_showing,
)
from flows.keywords.tiles import next_steps
from flows.run import run as launch
from flows.settings import ComputeSettings
from vbmodels.core.state import from_bytes
from vbmodels.keywords.corpus.model import PLENTY
from vbmodels.keywords.corpus.states import CorpusGlobal

ABSTRACTS = Path(__file__).parents[3] / "examples" / "abstracts.csv"


def run(source, target, **options):
    settings = KeywordSettings(**{"unit": "word", "partitions": 3, "fdr": 0.2, **options})
    outcome = launch("keywords", str(source), str(target), settings, ComputeSettings())
    return open_run(str(target)), outcome


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return pipeline_named("keywords").simulate(str(tmp_path_factory.mktemp("documents")), 200, 3)[0]


def words_of(place, record):
    parts = (storage.read_table(place.table("keywords", i)) for i in range(record.partitions))
    return pa.concat_tables(parts).to_pandas()


@pytest.mark.thorough
def test_the_headline_gives_the_share_that_is_expected_to_be_false(tmp_path):
    source = pipeline_named("keywords").simulate(str(tmp_path / "in"), 200, 2)[0]
    (place, record), outcome = run(source, tmp_path / "out", keyword_rate=0.35, partitions=2)
    headline, results, words = outcome["headline"], record.results, words_of(place, record)
    documents = storage.read_table(source)
    gold = dict(zip(documents["doc_id"].to_pylist(), documents["gold"].to_pylist(), strict=True))
    new = words[words.selected & ~words.observed]
    share = float(np.mean(1.0 - new.probability))
    assert results["found"] == len(new) > 100
    assert results["expected_false_share"] == pytest.approx(share)
    assert headline.startswith(f"{len(new):,} new keywords in ")
    assert new.probability.min() > 0.5
    right = f"; {100 * (1 - share):.0f} % expected to be right, each more probable than not"
    assert headline.endswith(right)
    against = {tile["label"]: tile for tile in record.tiles}["ranking against TF-IDF"]
    assert against["note"].startswith("better: ")
    assert against["value"].startswith("+")
    assert share <= 0.2
    with open(outcome["report"]) as page:
        text = page.read()
    for level in (0.5, 0.8):
        above = new.probability[new.probability > level]
        if 0 < len(above) < len(new):
            cells = (level, f"{len(above):,}", f"{100 * above.mean():.0f} %")
            assert re.search(".*".join(f">{cell}</td>" for cell in cells), text)
    # Known keyphrases prove no precision.
    unknown = words[~words.observed]
    pairs = zip(unknown.doc_id, unknown.term, strict=True)
    true, chosen = np.array([t in set(gold[d]) for d, t in pairs]), unknown.selected.to_numpy()
    assert results["precision"] == pytest.approx(true[chosen].mean())
    assert results["recall"] == pytest.approx(chosen[true].mean())


def test_chains_that_disagree_are_warned_of():
    one = KeywordSummary(
        documents=1, candidates=3, observed=1, selected=1, expected_false=0.0,
        expected_true=np.ones(1), terms=TermCounts(Counter(), Counter(), Counter(), {}),
        histogram=np.ones(BINS, int), confusion=np.zeros(4, np.int64), examples=(), r_hat=np.inf,
        above=np.zeros((2, 2)),
    )  # fmt: skip
    found = report(None, None, [one], KeywordSettings(model="vbss", inference="gibbs"), rows=1)
    assert found.results["r_hat"] is None
    assert "chains disagree (largest R-hat inf" in found.warnings[0]


def test_true_keyphrases_are_a_next_step_until_they_are_given():
    steps = [one.command for one in next_steps(False, 7, measured=False)]
    assert steps[1] == "{again}"
    assert "{again}" not in [one.command for one in next_steps(False, 7)]


def test_what_is_above_the_limit_and_not_selected_is_counted(tmp_path):
    """At most two a document, by the setting of one; the rest, parts and near copies are said."""
    (place, record), outcome = run(ABSTRACTS, tmp_path, unit="phrase", keyphrases=1.0)
    table = words_of(place, record)
    above = table[~table.observed & (table.probability >= record.results["least_probability"])]
    left_out = above[~above.selected]
    with open(outcome["report"]) as page:
        said = re.findall(r": ([\d,]+) left out\.", page.read())
    assert sum(int(one.replace(",", "")) for one in said) == len(left_out) > 0
    new = table[table.selected & ~table.observed]
    assert new.groupby("doc_id").size().max() <= 2


def test_labels_of_suggested_documents_are_not_said_to_change_a_number_that_is_exact():
    shown = [DocumentToLabel(1, "a", 9, 2, 3.0, 0.1)]
    exact, estimated = (label_section(shown, PHRASES, given).text for given in (True, False))
    assert "run again without --set keyphrases: the fit then learns the number" in exact
    assert estimated.endswith("run again.")
    assert estimated.startswith("Measure first, as What to do next says (column gold). If fewer")
    assert label_section(shown, PHRASES, True, measured=True).text.startswith("If fewer are right")


def test_documents_to_label_that_remove_about_as_much_have_no_order():
    documents = [
        DocumentToLabel(k, "a", 9, 2, 3.0, removes) for k, removes in ((1, 0.03), (2, 0.025))
    ]
    alike = label_section(documents, PHRASES, True)
    assert "these documents, in any order, into the column" in alike.text
    said = "the fit then learns the number of keyphrases of a document from them, in place of yours"
    assert alike.text.endswith(f"{said}.\na, a.")
    ten = [replace(documents[0], place=k) for k in range(1, 13)]
    text = label_section(ten, PHRASES, False).text
    assert text.endswith(  # sqrt(.7), sqrt(.64)
        "They narrow the range of the estimated number of wrong keyphrases by 16 %. vbflows show "
        "{run} ask lists 12 documents: 20 %."
    )
    apart = [*documents, DocumentToLabel(3, "a", 9, 2, 3.0, 0.01)]
    ordered = label_section(apart, PHRASES, True).text
    assert "these documents, the first of them first, into" in ordered


@pytest.mark.thorough
def test_labels_of_the_suggested_documents_settle_the_rate(simulated, tmp_path):
    (place, record), outcome = run(simulated, tmp_path / "first")
    to_label = storage.read_table(place.table("ask", 0)).to_pandas()
    words = words_of(place, record)
    assert to_label.place.tolist() == list(range(1, 21))
    assert to_label.doc_id.is_unique
    assert 0.0 < to_label.removes.sum() < 1.0
    assert to_label.removes.iloc[0] > to_label.removes.iloc[-1] > 0.0
    for row in to_label.head(3).itertuples():
        own = words[words.doc_id == row.doc_id]
        assert (row.candidates, row.known) == (len(own), own.observed.sum())
        assert row.expected == pytest.approx(own.probability.sum())
    with open(outcome["report"]) as page:
        assert "Documents worth labelling next" in page.read()
    # Somebody lists all keywords of these documents.
    documents = pq.read_table(simulated)
    chosen = np.isin(documents["doc_id"].to_pylist(), to_label.doc_id.tolist())
    pairs = zip(chosen, documents["gold"].to_pylist(), documents["keywords"].to_pylist(),
                strict=True)  # fmt: skip
    listed = [gold if one else known for one, gold, known in pairs]
    table = documents.set_column(
        documents.column_names.index("keywords"), "keywords", pa.array(listed)
    ).append_column("complete", pa.array(chosen))
    pq.write_table(table, tmp_path / "labelled.parquet")
    (again, later), _ = run(tmp_path / "labelled.parquet", tmp_path / "second")
    before, after = (r.results["keyword_rate_log_sd"] for r in (record, later))
    assert after < 0.5 * before
    assert later.results["keyword_rate_sources"] == ["complete documents", "known keyphrases"]
    more = storage.read_table(again.table("ask", 0))["doc_id"].to_pylist()
    assert not set(more) & set(to_label.doc_id)


def test_documents_to_label_are_chosen_by_integrated_probabilities(simulated, tmp_path):
    """With few labels the expected numbers are those of the published table, not of the mode."""
    documents = pq.read_table(simulated).slice(0, 40)
    pq.write_table(documents, tmp_path / "few.parquet")
    (place, record), _ = run(tmp_path / "few.parquet", tmp_path / "few", ask=40)
    q = from_bytes(storage.read_bytes(f"{place.root}/posterior/q.npz"), CorpusGlobal)
    assert q.law.listed < PLENTY * len(q.location)
    words = words_of(place, record)
    expected = words.groupby("doc_id").probability.sum()
    to_label = storage.read_table(place.table("ask", 0)).to_pandas()
    assert len(to_label) == 40
    assert to_label.expected.to_numpy() == pytest.approx(expected[to_label.doc_id].to_numpy())


@pytest.mark.parametrize(("model", "probable"), [("textrank", False), ("corpus", True)])
def test_no_next_step_takes_a_score_for_a_probability(tmp_path, model, probable):
    (source,) = pipeline_named("keywords").simulate(str(tmp_path / "in"), 20, 3)
    (place, _), _ = run(source, tmp_path / "out", model=model, partitions=1)
    page = storage.read_bytes(place.file("report.html")).decode()
    assert "keyphrases/*.jsonl" in page
    assert ("more probable than not" in page) is probable


def test_documents_with_new_keyphrases_are_shown_before_those_without():
    assert _worth_showing(0, 1, 0) > _worth_showing(9, 0, 0) > _worth_showing(1, 0, 0)
    assert _worth_showing(4, 3, 0) > _worth_showing(0, 3, 0)
    assert _worth_showing(0, 1, 1) > _worth_showing(9, 9, 0)


def test_what_half_and_twice_the_rate_would_give_is_in_the_table(simulated, tmp_path):
    _, outcome = run(simulated, tmp_path / "given", keyword_rate=0.3, max_iter=40)
    with open(outcome["report"]) as page:
        text = page.read()
    assert "follows from your keyword_rate=0.3" in text
    assert re.search(r"right at your 0\.3<.*if 0\.15<.*if 0\.6<", text, re.DOTALL)


def test_a_likely_keyphrase_beyond_the_most_frequent_new_ones_has_its_form(monkeypatch):
    """Of a large corpus only the most frequent ones of each kind are kept."""
    monkeypatch.setattr(summary, "MOST_TERMS", 1)
    table = pa.table({"stem": ["a", "a", "b"], "term": ["A", "A", "B"]})
    found, known, likely = [True] * 3, [False] * 3, [False, False, True]
    counts = summary._count_terms(table, found, known, likely)
    assert set(counts.new) == {"a"}
    assert counts.written == {"a": "A", "b": "B"}
