"""What a reader takes the false discovery rate to be is what the run controls and says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.runs import open_run
from flows.keywords.report import BINS, KeywordSummary, report
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


@pytest.mark.thorough
def test_the_headline_gives_the_share_that_is_expected_to_be_false(done):
    headline, results, words, gold = done
    new = words[words.selected & ~words.observed]
    share = float(np.mean(1.0 - new.probability))
    assert results["found"] == len(new) > 100
    assert results["expected_false_share"] == pytest.approx(share)
    assert f"{len(new):,} new keywords" in headline
    assert f"the model expects {share:.1%} to be false" in headline
    assert share <= 0.2
    # Known keywords prove no precision.
    unknown = words[~words.observed]
    pairs = zip(unknown.doc_id, unknown.term, strict=True)
    true, chosen = np.array([t in set(gold[d]) for d, t in pairs]), unknown.selected.to_numpy()
    assert results["precision"] == pytest.approx(true[chosen].mean())
    assert results["recall"] == pytest.approx(chosen[true].mean())


def test_chains_that_disagree_are_warned_of():
    one = KeywordSummary(
        documents=1, candidates=3, observed=1, selected=1, expected_false=0.0, terms=Counter(),
        histogram=np.ones(BINS, int), confusion=np.zeros(4, np.int64), examples=(), r_hat=np.inf,
    )  # fmt: skip
    found = report(None, None, [one], KeywordSettings(model="bss"))
    assert found.results["r_hat"] is None
    assert "chains disagree (largest R-hat inf" in found.warnings[0]
