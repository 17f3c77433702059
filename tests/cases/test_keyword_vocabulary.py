"""A vocabulary, more stop words, and near duplicates, as people type them."""

import json

import numpy as np
import pyarrow as pa
import pytest

from flows.faults import InputError
from flows.keywords.input.documents import prepare
from flows.keywords.input.term_lists import terms_of, with_digest
from tests.cases.documents_read import candidates
from tests.flows.commands import run
from vbmodels.keywords.selection import without_near_duplicates, without_parts
from vbmodels.text.candidate_words import Vocabulary
from vbmodels.text.words import TextOptions

TWICE = (
    "Quality of life of patients and the quality of life. Deep networks of patients, deep networks."
)
TEXT = "Quality of life of patients. The IL-6 levels of the US patients were running high."


def terms(vocabulary, keywords=(), text=TEXT):
    rows = pa.Table.from_pylist([{"doc_id": "a", "text": text, "keywords": list(keywords)}])
    prepared = prepare(rows, TextOptions(), True, vocabulary)
    return candidates(prepared)[1].term


def test_a_vocabulary_is_all_or_more():
    listed = ("quality of life", "IL-6", "running high", "US", "not in it", "us")
    assert set(terms(Vocabulary(listed, True))) == {
        "quality of life", "IL-6", "running high", "US"
    }  # fmt: skip
    more = set(terms(Vocabulary(listed, False)))
    assert {"quality of life", "running high", "patients", "IL-6 levels"} <= more
    assert set(terms(Vocabulary(listed, True), ["levels"])) == set(terms(Vocabulary(listed, True)))


def test_parts_of_longer_selected_phrases_are_left_out():
    rows = pa.Table.from_pylist(
        [
            {"doc_id": "a", "text": TWICE, "keywords": ["quality of life", "deep networks"]},
            {"doc_id": "b", "text": "Life and life. Quality of life; quality of life.",
             "keywords": None},
        ]
    )  # fmt: skip
    prepared = prepare(rows, TextOptions(), True)
    spans, texts = candidates(prepared)
    found = texts.term
    every, r = np.ones(len(found), bool), np.full(len(found), 0.5)
    r[[term == "networks" for term in found]] = 0.9
    kept = without_parts(every, prepared.marks.y, r, spans)
    pairs = zip(spans.document.tolist(), found, kept.tolist(), strict=True)
    left = {(d, term) for d, term, stays in pairs if stays}
    assert {(0, "quality of life"), (0, "deep networks"), (0, "patients")} <= left
    assert not {(0, "life"), (0, "quality"), (0, "networks"), (1, "quality")} & left
    assert (1, "life") in left  # it is alone too
    r[[term == "quality" for term in found]] = 0.6
    kept = without_parts(every, np.zeros(len(found), bool), r, spans)
    assert [t for t, k in zip(found, kept, strict=True) if k and t == "quality"] == ["quality"] * 2


def test_slices_of_one_wording_are_one():
    rows = pa.Table.from_pylist(
        [{"doc_id": "a", "text": "Support vector machine kernels for support vector data.",
          "keywords": None}]
    )  # fmt: skip
    prepared = prepare(rows, TextOptions(), True)
    spans, texts = candidates(prepared)
    found = [term.lower() for term in texts.term]
    r = {"support vector machine": 0.4, "vector machine kernels": 0.5, "machine kernels": 0.3,
         "support vector": 0.2, "support vector data": 0.1}  # fmt: skip
    chosen = np.array([term in r for term in found])
    assert chosen.sum() == len(r)
    sure = np.array([r.get(term, 0.0) for term in found])
    kept = without_parts(chosen, np.zeros(len(found), bool), sure, spans)
    # Two of the three words of the first are in the second; half of those of "support vector" are.
    assert {t for t, k in zip(found, kept, strict=True) if k} == {
        "vector machine kernels", "support vector", "support vector data",
    }  # fmt: skip
    known = np.array([term == "support vector machine" for term in found])
    kept = without_parts(chosen, known, sure, spans)
    left = {t for t, k in zip(found, kept, strict=True) if k}
    assert "support vector machine" in left
    assert "vector machine kernels" not in left


def test_a_file_of_terms_is_read_once_and_must_stay_as_it_is(tmp_path):
    path = tmp_path / "terms.txt"
    path.write_text("\ufeffquality of life\n\n---\nIL-6; TNF-α\nIL-6\n", "utf-8")
    name = with_digest(str(path), "vocabulary")
    assert terms_of(name, "vocabulary") == ("quality of life", "IL-6", "TNF-α")
    assert with_digest(name, "vocabulary") == name
    terms_of.cache_clear()
    path.write_text("other\n")
    with pytest.raises(Exception, match=r"terms\.txt changed"):
        terms_of(name, "vocabulary")


def test_documents_without_a_term_are_said_and_a_score_needs_the_same_file(
    tmp_path, capsys, monkeypatch
):
    rows = "".join(f'd{i},"{TEXT if i % 4 else "Nothing of it"}"\n' for i in range(40))
    (tmp_path / "in.csv").write_text("doc_id,text\n" + rows, "utf-8")
    (tmp_path / "terms.txt").write_text("quality of life\nIL-6\n", "utf-8")
    (tmp_path / "none.txt").write_text("zebra\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    given = ("in.csv", "out", "--set", "keyphrases=1", "--set")
    code, _, err = run(capsys, "keywords", *given, "vocabulary=none.txt")
    assert code == 2
    assert "expected terms that some text holds, found none" in " ".join(err.split())
    code, out, err = run(capsys, "keywords", *given, "vocabulary=terms.txt")
    assert code == 0, err
    text = " ".join((out + err).split())
    assert "No candidate in 10 of 40 documents" in text
    assert "they hold no term of the vocabulary" in text
    (tmp_path / "more.txt").write_text("quality of life\nIL-6\nIL 6\nzebra\nhigh levels\n", "utf-8")
    given = (*given[:1], "more", *given[2:], "vocabulary=more.txt", "--set")
    code, out, err = run(capsys, "keywords", *given, "vocabulary_only=false")
    assert code == 0, err
    text = " ".join((out + err).split())
    assert "No text has 2 of 5 terms of the vocabulary (zebra, high levels)." in text
    assert "vocabulary_only=false takes other terms" not in text
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    code, _, err = run(capsys, "score", "../out", "../in.csv", "new")
    assert code == 0, err
    (tmp_path / "terms.txt").write_text("patients\n", "utf-8")
    code, _, err = run(capsys, "score", "../out", "../in.csv", "other")
    assert code == 2
    assert "terms.txt changed" in err


def test_a_column_that_no_document_has_is_said_to_be_left_out(tmp_path, capsys):
    rows = "".join(f'd{i},Plants {i},"{TEXT}"\n' for i in range(30))
    (tmp_path / "in.csv").write_text("PMID,Title,Abstract\n" + rows, "utf-8")
    code, _, err = run(capsys, "check", "keywords", tmp_path / "in.csv")
    assert code == 2
    said = " ".join(err.split())
    assert "found only PMID, Title, Abstract; name it by --column text=Title,Abstract, or " in said
    named = ("--column", "text=Abstract", "--column", "doc_id=PMID")
    code, out, _ = run(capsys, "check", "keywords", tmp_path / "in.csv", *named, "--json")
    assert code == 0
    found = {one["name"]: one["used"] for one in json.loads(out)["columns"]}
    assert found == {
        "PMID": "doc_id", "Abstract": "text",
        "Title": "left out: no column of documents is called so",
    }  # fmt: skip
    code, out, _ = run(capsys, "keywords", tmp_path / "in.csv", tmp_path / "out", *named)
    assert code == 0
    assert "left out: Title (no column of documents is called so)" in out


@pytest.mark.parametrize(
    ("stems", "kept"),
    [
        (["interleukin 12", "interleukin 21"], [True, True]),
        (["c++", "c#", "c"], [True, True, True]),
        (["हिन्दी भाषा", "हन्द भष"], [True, True]),
        (["e-mail", "email"], [True, False]),
    ],
)
def test_terms_that_differ_in_digits_signs_or_vowels_are_no_near_duplicates(stems, kept):
    size = len(stems)
    every, none = np.ones(size, bool), np.zeros(size, bool)
    probability = np.linspace(0.9, 0.5, size)
    found = without_near_duplicates(every, none, probability, stems, np.array([0, size]))
    assert found.tolist() == kept


def test_a_vocabulary_of_another_encoding_is_read_and_of_none_refused(tmp_path):
    path = tmp_path / "terms.txt"
    path.write_bytes("Erosion\nMüll".encode("utf-16"))
    assert terms_of(str(path), "vocabulary") == ("Erosion", "Müll")
    path = tmp_path / "bytes.txt"
    path.write_bytes(b"\xff\x00\xfe\x81")
    with pytest.raises(InputError, match="a file of text"):
        terms_of(str(path), "vocabulary")


def test_words_that_are_absent_are_a_part_of_all_that_are_listed(tmp_path, capsys):
    rows = [{"doc_id": f"{i}", "text": TEXT, "keywords": ["patients", "granite"]} for i in range(9)]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    code, out, _ = run(capsys, "check", "keywords", path, "--set", "unit=word")
    assert (code, "9 of 18" in out) == (0, True), out
