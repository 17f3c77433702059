"""What a run says of its words: what is false of them, and which documents to label next."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.keywords import summary
from flows.keywords.settings import KeywordSettings
from flows.records.runs import open_run
from flows.report.answers import of_results
from flows.run import run as launch
from flows.settings import ComputeSettings
from vbmodels.core.state import from_bytes
from vbmodels.keywords.corpus.model import PLENTY
from vbmodels.keywords.corpus.states import CorpusGlobal

ABSTRACTS = Path(__file__).parents[3] / "examples" / "abstracts.csv"


def run(source, target, **options):
    settings = KeywordSettings(**{"unit": "word", "partitions": 3, "fdr": 0.2, **options})
    launch("keywords", str(source), str(target), settings, ComputeSettings())
    return open_run(str(target))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return pipeline_named("keywords").simulate(str(tmp_path_factory.mktemp("documents")), 200, 3)[0]


def words_of(place, record):
    parts = (storage.read_table(place.table("keywords", i)) for i in range(record.partitions))
    return pa.concat_tables(parts).to_pandas()


@pytest.mark.thorough
def test_shares_are_those_of_the_table_and_of_the_truth(tmp_path):
    source = pipeline_named("keywords").simulate(str(tmp_path / "in"), 200, 2)[0]
    place, record = run(source, tmp_path / "out", keyword_rate=0.35, partitions=2)
    found, words = of_results(KeywordSettings, record.results), words_of(place, record)
    documents = storage.read_table(source)
    gold = dict(zip(documents["doc_id"].to_pylist(), documents["gold"].to_pylist(), strict=True))
    new = words[words.selected & ~words.observed]
    assert found.ranking.apart.is_above
    for level in found.levels:
        above = new[new.probability > level.above]
        assert (level.count, level.documents) == (len(above), above.doc_id.nunique())
        assert level.right.value == pytest.approx(above.probability.mean())
        assert level.right.low < level.right.value < level.right.high
    assert found.new.right.value >= 0.8  # fdr=0.2
    # Known keyphrases prove no precision.
    unknown = words[~words.observed]
    pairs = zip(unknown.doc_id, unknown.term, strict=True)
    true, chosen = np.array([t in set(gold[d]) for d, t in pairs]), unknown.selected.to_numpy()
    assert found.measured.precision.value == pytest.approx(true[chosen].mean())
    assert found.measured.recall.value == pytest.approx(chosen[true].mean())
    assert found.measured.expected == pytest.approx(found.new.right.value)


def test_what_is_above_the_limit_and_not_selected_is_counted(tmp_path):
    """At most two a document, by the setting of one; the rest, parts and near copies are said."""
    place, record = run(ABSTRACTS, tmp_path, unit="phrase", keyphrases=1.0)
    table, rules = words_of(place, record), of_results(KeywordSettings, record.results).rules
    above = table[~table.observed & (table.probability >= rules.least)]
    left_out = above[~above.selected]
    assert rules.beyond_limit + rules.alike == len(left_out) > 0
    new = table[table.selected & ~table.observed]
    assert new.groupby("doc_id").size().max() <= 2


def test_documents_to_label_are_chosen_by_integrated_probabilities(simulated, tmp_path):
    """With few labels the expected numbers are those of the published table, not of the mode."""
    documents = pq.read_table(simulated).slice(0, 40)
    pq.write_table(documents, tmp_path / "few.parquet")
    place, record = run(tmp_path / "few.parquet", tmp_path / "few", ask=40)
    q = from_bytes(storage.read_bytes(f"{place.root}/posterior/q.npz"), CorpusGlobal)
    assert q.law.listed < PLENTY * len(q.location)
    words = words_of(place, record)
    expected = words.groupby("doc_id").probability.sum()
    to_label = storage.read_table(place.table("ask", 0)).to_pandas()
    assert len(to_label) == 40
    assert to_label.expected.to_numpy() == pytest.approx(expected[to_label.doc_id].to_numpy())


def test_a_likely_keyphrase_beyond_the_most_frequent_new_ones_has_its_form(monkeypatch):
    """Of a large corpus only the most frequent ones of each kind are kept."""
    monkeypatch.setattr(summary, "MOST_TERMS", 1)
    table = pa.table({"stem": ["a", "a", "b"], "term": ["A", "A", "B"]})
    found, known, likely = [True] * 3, [False] * 3, [False, False, True]
    counts = summary._count_terms(table, found, known, likely)
    assert set(counts.new) == {"a"}
    assert counts.written == {"a": "A", "b": "B"}
