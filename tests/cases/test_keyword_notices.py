"""What is lost or taken out of documents is said, with counts, examples and a cause."""

from dataclasses import replace

import pyarrow as pa
from pydantic import TypeAdapter

from flows.keywords.input.documents import prepare
from flows.keywords.input.reading import losses_of
from flows.keywords.settings import KeywordSettings
from flows.report.render import lines_of
from tests.cases.documents_read import reading
from vbmodels.text.reading import Report
from vbmodels.text.words import TextOptions

KEPT = TypeAdapter(Report)


def said(rows):
    """Return the notes and notices, and the losses, of documents."""
    settings = KeywordSettings()
    report = prepare(pa.Table.from_pylist(rows), TextOptions(), settings.with_phrases).report
    assert KEPT.validate_json(KEPT.dump_json(report)) == report
    losses = losses_of(report, settings)
    macros = ("read_notes", "read_warnings")
    notes = [text for macro in macros for text in lines_of("keywords", macro, reading(report))]
    return notes, [one for one in losses if one.count and not one.is_large]


def test_each_warning_is_a_line_of_its_own():
    rows = [{"doc_id": "a", "text": "Levies on cheese.", "keywords": ["trade policy"]}]
    report = prepare(pa.Table.from_pylist(rows), TextOptions(), True).report
    read = replace(reading(report), rate_from="known")
    first, second = lines_of("keywords", "read_warnings", read)
    assert first.endswith("--set lists=complete.")
    assert second.startswith("Nothing is learned from 1 of 1")


def test_absent_keyphrases_are_said_with_their_share_and_why():
    long = " ".join(f"word{i}" for i in range(14))
    rows = [
        {"doc_id": "a", "text": "The ministry lowered levies.", "keywords": ["trade policy"]},
        {
            "doc_id": "b",
            "text": "Nurses of cities and hospitals.",
            "keywords": ["hospitals nurses"],
        },
        {"doc_id": "c", "text": f"A {long} is here.", "keywords": [long, "word3"]},
    ]
    notices, small = said(rows)
    assert notices == [
        "Nothing is learned from 3 of 4 known keyphrases, not in their documents' text "
        f"(a: trade policy, b: hospitals nurses (its words are apart), c: {long} (more than 12 "
        "words)). Where the text spells one otherwise, write it in the list as in the text."
    ]
    assert small == []


def test_a_list_with_the_separator_of_csv_is_split():
    rows = [{"doc_id": "a", "text": "A graph database of nodes.",
             "keywords": ["graph database; nodes"]}]  # fmt: skip
    assert said(rows) == ([], [])


def test_documents_without_a_candidate_are_said_with_names():
    rows = [
        {"doc_id": f"d{i}", "text": "😀 ok :(" if i < 3 else "A graph of nodes.", "keywords": []}
        for i in range(20)
    ]
    notices, small = said(rows)
    assert len(notices) == 1
    assert notices[0].startswith(
        "No candidate in 3 of 20 documents, so no row in the result (d0, d1, d2): they are empty"
    )
    assert small == []
    notices, small = said(rows[1:] + [{**rows[-1], "doc_id": f"e{i}"} for i in range(20)])
    assert notices == []
    (one,) = small
    assert (one.reason, one.count, one.examples) == (
        "document without a candidate", 2, ["d1", "d2"],
    )  # fmt: skip
