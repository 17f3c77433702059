"""What a reader takes the false discovery rate to be is what the run controls and says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.runs import open_run
from flows.keywords.settings import KeywordSettings
from flows.run.launch import launch
from flows.settings import ComputeSettings


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return pipeline_named("keywords").simulate(str(tmp_path_factory.mktemp("documents")), 200, 2)[0]


@pytest.fixture(scope="module")
def done(simulated, tmp_path_factory):
    settings = KeywordSettings(unit="word", keyword_rate=0.35, fdr=0.2, partitions=2)
    target = str(tmp_path_factory.mktemp("target"))
    outcome = launch("keywords", simulated, target, settings, ComputeSettings(), None, False)
    place, record = open_run(target)
    table = pa.concat_tables(storage.read_table(place.table("keywords", i)) for i in range(2))
    documents = storage.read_table(simulated)
    gold = dict(zip(documents["doc_id"].to_pylist(), documents["gold"].to_pylist(), strict=True))
    return outcome["lines"][0], record.results, table.to_pandas(), gold


def test_the_headline_gives_the_share_that_is_expected_to_be_false(done):
    headline, results, words, _ = done
    new = words[words.selected & ~words.observed]
    share = float(np.mean(1.0 - new.probability))
    assert results["found"] == len(new) > 100
    assert results["expected_false_share"] == pytest.approx(share)
    assert f"{len(new):,} new keywords" in headline
    assert f"the model expects {share:.1%} to be false" in headline
    assert share <= 0.2


def test_known_keywords_prove_no_precision(done):
    _, results, words, gold = done
    new = words[~words.observed]
    true = np.array([t in set(gold[d]) for d, t in zip(new.doc_id, new.term, strict=True)])
    chosen = new.selected.to_numpy()
    assert results["precision"] == pytest.approx(true[chosen].mean())
    assert results["recall"] == pytest.approx(chosen[true].mean())


def test_a_run_that_finds_nothing_shows_what_comes_next(simulated, tmp_path):
    settings = KeywordSettings(unit="word", keyword_rate=0.35, fdr=1e-9, partitions=2)
    launch("keywords", simulated, str(tmp_path), settings, ComputeSettings(), None, False)
    place, record = open_run(str(tmp_path))
    assert record.results["found"] == 0
    page = storage.read_bytes(place.file("report.html")).decode()
    assert "No unknown word was selected (select=fdr, fdr=1e-09)" in page
    assert "Most frequent new keywords" not in page
    words = pa.concat_tables(storage.read_table(place.table("keywords", i)) for i in range(2))
    words = words.to_pandas()
    new = words[~words.observed]
    first = next(d for d in new.doc_id if f"<td>{d}</td>" in page)
    best = new[new.doc_id == first].sort_values("probability", ascending=False, kind="stable")
    listed = ", ".join(
        f"{t} {p:.2f}" for t, p in zip(best.term[:8], best.probability[:8], strict=True)
    )
    assert listed in page
