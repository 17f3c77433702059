"""Tables on a terminal: the columns that fit are whole, others are named."""

from __future__ import annotations

from rich.console import Console

from flows.cli.tables import show_rows

ROWS = [
    {"doc_id": "a document", "text": "long " * 20, "probability": 0.1234567, "rank": 1, "b": "x"},
    {"doc_id": "b", "text": "short", "probability": 1.0, "rank": 20, "b": "y"},
]


def printed(width, **options):
    console = Console(width=width, record=True, markup=False)
    show_rows(console, ROWS, **options)
    return console.export_text()


def test_all_columns_are_shown_where_they_fit():
    assert "not shown" not in printed(80)


def test_the_column_of_the_order_is_shown_and_others_are_named(capsys):
    said = printed(30, first="probability", elsewhere="--columns")
    assert "probability" in said
    assert "0.1235" in said
    assert "not shown: text" in said
    assert "--columns" in said


def test_columns_without_a_value_are_named_and_not_shown():
    rows = [{"id": "a", "where": None, "n": 1}, {"id": "b", "where": "", "n": 2}]
    console = Console(width=80, record=True, markup=False)
    show_rows(console, rows)
    said = console.export_text().splitlines()
    assert said[0].split() == ["id", "n"]
    assert said[-1] == "empty in these rows: where"


def test_the_columns_that_name_a_row_are_there_however_narrow_the_terminal():
    rows = [
        {"doc_id": "openapi-spec-validator", "term": f"schema validation of {n}", "first": 0.2427,
         "second": 0.0571, "what": "no longer selected", "given": "no"}
        for n in range(2)
    ]  # fmt: skip
    for width in (40, 60, 80):
        console = Console(width=width, record=True, markup=False)
        show_rows(console, rows, ("first", "second", "what"), naming=2, elsewhere="--json")
        heading, *said = console.export_text().splitlines()
        assert {"doc_id", "term"} <= set(heading.split())
        left = {"first", "second", "what", "given"} - set(heading.split())
        assert not left or said[-1].startswith("not shown: ")
        assert all(name in said[-1] for name in left)
