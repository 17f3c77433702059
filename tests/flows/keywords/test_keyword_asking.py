"""The table of documents worth labelling: what is asked for, and what its answers are worth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.runs import open_run
from flows.keywords.settings import KeywordSettings
from flows.run.launch import launch
from flows.settings import ComputeSettings
from vbmodels.core.state import from_bytes
from vbmodels.keywords.corpus import PLENTY, CorpusGlobal


def run(source, target, **options):
    settings = KeywordSettings(**{"unit": "word", "partitions": 3, "fdr": 0.2, **options})
    outcome = launch("keywords", str(source), str(target), settings, ComputeSettings(), None, False)
    return open_run(str(target)), outcome


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return pipeline_named("keywords").simulate(str(tmp_path_factory.mktemp("documents")), 200, 3)[0]


def words_of(place, record):
    parts = (storage.read_table(place.table("keywords", i)) for i in range(record.partitions))
    return pa.concat_tables(parts).to_pandas()


@pytest.mark.thorough
def test_labelling_what_is_asked_for_settles_the_rate(simulated, tmp_path):
    (place, record), outcome = run(simulated, tmp_path / "first")
    asked = storage.read_table(place.table("ask", 0)).to_pandas()
    words = words_of(place, record)
    assert asked.place.tolist() == list(range(1, 21))
    assert asked.doc_id.is_unique
    assert 0.0 < asked.settles.sum() < 1.0
    assert asked.settles.iloc[0] > asked.settles.iloc[-1] > 0.0
    for row in asked.head(3).itertuples():
        own = words[words.doc_id == row.doc_id]
        assert (row.candidates, row.known) == (len(own), own.observed.sum())
        assert row.expected == pytest.approx(own.probability.sum())
    with open(outcome["report"]) as page:
        assert "Documents worth labelling next" in page.read()
    # Somebody lists all keywords of these documents.
    documents = pq.read_table(simulated)
    chosen = np.isin(documents["doc_id"].to_pylist(), asked.doc_id.tolist())
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
    assert later.results["keyword_rate_sources"] == ["complete documents", "labels"]
    more = storage.read_table(again.table("ask", 0))["doc_id"].to_pylist()
    assert not set(more) & set(asked.doc_id)


def test_what_is_asked_for_is_told_by_integrated_probabilities(simulated, tmp_path):
    """With few labels the expected numbers are those of the published table, not of the mode."""
    documents = pq.read_table(simulated).slice(0, 40)
    pq.write_table(documents, tmp_path / "few.parquet")
    (place, record), _ = run(tmp_path / "few.parquet", tmp_path / "few", ask=40)
    q = from_bytes(storage.read_bytes(f"{place.root}/posterior/q.npz"), CorpusGlobal)
    assert q.law.listed < PLENTY * len(q.location)
    words = words_of(place, record)
    expected = words.groupby("doc_id").probability.sum()
    asked = storage.read_table(place.table("ask", 0)).to_pandas()
    assert len(asked) == 40
    assert asked.expected.to_numpy() == pytest.approx(expected[asked.doc_id].to_numpy())
