"""The documents of the report: which are shown, what is marked, and the file for taggers."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.keywords import texts
from tests.flows.keywords.test_keywords_run import run
from tests.flows.report.browser import browser_page

LABELLED = 12
MARKUP = "<script>alert(1)</script><p>The <b>heat exchangers</b> of Köln.</p>"


def rows():
    found = []
    for i in range(40):
        text = (
            "Heat exchangers for houses.\nA heat exchanger (C++ code, quality of life), number "
            f"{i}, warms water. We compare heat\nexchangers with graph databases; graph database "
            "systems store quality of life data in C++."
        )
        known = ["heat exchanger", "C++"] if i < LABELLED else None
        found.append({"doc_id": f"d{i}", "text": text, "keywords": known})
    found.append({"doc_id": "markup", "text": MARKUP, "keywords": None})
    found.append({"doc_id": "empty", "text": "", "keywords": None})
    return pa.Table.from_pylist(found)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown")
    pq.write_table(rows(), folder / "in.parquet")
    return run(folder / "in.parquet", folder / "out", keyphrases=4.0, partitions=2)[0]


def page_of(place):
    return storage.read_bytes(place.file("report.html")).decode()


def data_of(page):
    found = re.search(r'data-script="documents.js"[^>]*><script[^>]*>(.*?)</script>', page, re.S)
    return json.loads(found[1])


def test_every_document_is_there_with_what_to_mark(done):
    data = data_of(page_of(done))
    documents = {one["doc_id"]: one for one in data["documents"]}
    assert len(documents) == 42
    first = documents["d0"]
    assert [p["text"] for p in first["keyphrases"] if p["known"]] == ["C++", "heat exchangers"]
    forms = {form for p in first["keyphrases"] if p["known"] for form in p["forms"]}
    assert {"C++", "heat exchanger", "heat exchangers", "Heat exchangers"} <= forms
    assert any(not p["known"] for p in documents["d39"]["keyphrases"])
    assert documents["markup"]["text"].strip() == "The heat exchangers of Köln."
    assert documents["empty"]["keyphrases"] == []
    terms = {one["text"]: one for one in data["terms"].values()}
    assert terms["C++"]["known"] == LABELLED
    assert terms["C++"]["new"] + terms["C++"]["known"] <= 40


def test_the_file_for_taggers_has_each_document_and_its_keyphrases(done):
    lines = [
        json.loads(line)
        for part in range(2)
        for line in storage.read_bytes(done.file(f"keyphrases/part-{part:05d}.jsonl"))
        .decode()
        .splitlines()
    ]
    assert [one["id"] for one in lines] == [f"d{i}" for i in range(40)] + ["markup"]
    table = pa.concat_tables([storage.read_table(done.table("keywords", i)) for i in range(2)])
    taken = [r for r in table.to_pylist() if r["observed"] or r["selected"]]
    for one in lines:
        own = {
            (r["term"], r["probability"], r["observed"]) for r in taken if r["doc_id"] == one["id"]
        }
        assert {(p["text"], p["probability"], p["known"]) for p in one["keyphrases"]} == own
        shares = [p["probability"] for p in one["keyphrases"]]
        assert shares == sorted(shares, reverse=True)


def test_of_many_documents_a_sample_is_shown_that_fits_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "BYTES", 6000)
    monkeypatch.setattr("flows.keywords.texts.LONGEST", 100)
    pq.write_table(rows(), tmp_path / "in.parquet")
    place, _, _ = run(tmp_path / "in.parquet", tmp_path / "out", keyphrases=4.0, partitions=3)
    page = page_of(place)
    data = data_of(page)
    shown = [one["doc_id"] for one in data["documents"]]
    assert 3 <= len(shown) < 20
    assert shown == sorted(shown, key=rows()["doc_id"].to_pylist().index)
    assert f"Here: {len(shown)} of 42 documents, drawn at random." in page
    assert all(len(one["text"]) <= 100 for one in data["documents"])
    assert len(json.dumps(data["documents"])) < 7000


def test_documents_are_searched_and_terms_have_pages(done):
    """In a browser, by the page's own policy."""
    with browser_page() as (shown, evaluate):
        shown.call("Page.navigate", url=f"file://{done.file('report.html')}")
        evaluate(
            "while (document.readyState !== 'complete' || !document.querySelector('.documents'))"
            " await new Promise((go) => setTimeout(go, 50));"
        )
        find = (
            "const input = document.querySelector('.documents input'); input.value = '{}';"
            " input.dispatchEvent(new Event('input'));"
            " const entries = [...document.querySelectorAll('.documents li button')];"
            " const names = entries.map((entry) => entry.firstChild.textContent);"
        )
        assert evaluate(find.format("KÖLN heat") + "return names;") == ["markup"]
        assert evaluate(find.format("number 11") + "return names;") == ["d11"]
        first = "document.querySelector('.documents li button').click();"
        every = (
            "return [...document.querySelectorAll('.text mark')]"
            ".map((m) => [m.textContent, m.className, m.title]);"
        )
        evaluate(find.format("number 39") + first)
        new = [title for _, kind, title in evaluate(every) if kind == "new"]
        assert new
        assert all(re.search(r": new, probability 0\.\d\d$", title) for title in new)
        evaluate(find.format("number 11") + first)
        marks = evaluate(every)
        assert ["heat\nexchangers", "known", "heat exchangers: known"] in marks
        assert [text for text, _, title in marks if "C++" in title] == ["C++", "C++"]
        assert evaluate("return document.querySelector('.text').textContent;") == (
            rows()["text"][11].as_py()
        )
        evaluate(
            "[...document.querySelectorAll('.chips button')]"
            ".find((b) => b.textContent === 'C++').click();"
        )
        found = evaluate("return document.querySelector('.documents article').textContent;")
        assert f"known in {LABELLED}, new in " in found
        assert "heat exchanger" in found
        quotes = evaluate("return document.querySelectorAll('.documents blockquote mark').length;")
        assert 5 <= quotes <= 10
        evaluate("document.querySelectorAll('.documents blockquote button')[1].click();")
        assert evaluate("return document.querySelector('.documents h3').textContent;") == "d1"
