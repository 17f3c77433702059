"""The texts of a run's report, and rows to decide by drawn of documents that it has."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from flows.data import storage
from flows.data.runs import RunPaths, open_run
from flows.keywords.settings import KeywordSettings
from flows.run import run
from flows.runs.changed_rows import DRAWN, drawn_rows
from flows.runs.predictions import GAINED, Names
from flows.runs.sentences import sentence_with, texts_of
from flows.settings import ComputeSettings
from tests.faults import pipelines as small


def test_a_report_has_the_texts_of_its_documents_as_they_were_given(tmp_path):
    rows = {
        "doc_id": ["a", "b"],
        "text": ["Wet moss. Moss & <b> grow on wet stones!", "Stones of old walls."],
        "keywords": [["wet moss"], ["old walls"]],
    }
    storage.write_table(str(tmp_path / "in.parquet"), pa.table(rows))
    settings = KeywordSettings(keyphrases=2, max_iter=20)
    target = str(tmp_path / "out")
    run("keywords", str(tmp_path / "in.parquet"), target, settings, ComputeSettings())
    texts = texts_of(open_run(target)[0])
    assert texts["b"] == rows["text"][1]
    assert sentence_with(texts["a"], "wet stones").startswith("Moss & ")


def test_a_report_without_texts_gives_none(tmp_path):
    source = small.simulate("experts", str(tmp_path / "in"))
    small.run("experts", source, str(tmp_path / "out"))
    paths = open_run(str(tmp_path / "out"))[0]
    assert texts_of(paths) == {}
    assert texts_of(RunPaths(str(tmp_path / "nowhere"), "none")) == {}


@pytest.mark.parametrize("data", ["{", "[]", '{"documents": [{"id": 1}]}', '{"documents": 3}'])
def test_a_report_that_somebody_changed_gives_no_texts(tmp_path, data):
    paths = RunPaths(str(tmp_path), "run")
    page = f'<div data-script="documents.js"><script type="application/json">{data}</script>'
    storage.write_bytes(paths.file("report.html"), page.encode())
    assert texts_of(paths) == {}


def test_a_long_sentence_is_cut_around_the_phrase():
    long = f"{'so ' * 200}many toads{' and so' * 200}."
    found = sentence_with(f"First. {long}", "Many toads")
    assert found.startswith("... so")
    assert found.endswith((" so ...", " and ..."))
    assert "many toads" in found
    assert len(found) < 180


def test_rows_are_drawn_of_documents_with_a_text_where_these_are_enough():
    names = [f"{i:03d}" for i in range(100)]
    table = pa.table({"doc_id": names})
    p = np.full(100, 0.5)
    every = Names(table, ["doc_id"], "", p, p)
    moved = SimpleNamespace(gained=100, truth="", places={GAINED: np.arange(100)}, every=every)
    texts = dict.fromkeys(names[:30], "text")
    drawn = {one.row["doc_id"] for one in drawn_rows(moved, texts)}
    assert len(drawn) == DRAWN
    assert drawn <= texts.keys()
    few = {one.row["doc_id"] for one in drawn_rows(moved, dict.fromkeys(names[:5], "text"))}
    assert few == {one.row["doc_id"] for one in drawn_rows(moved)}
