"""Tables on a terminal: the columns that fit are whole, others are named."""

from rich.console import Console

from flows.cli.tables import first_columns, show_meanings, show_rows
from flows.read.rows import ColumnOfTable

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
    said = printed(30, first=["probability"], elsewhere="--columns")
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


def rows_printed(rows, width=80, **options):
    console = Console(width=width, record=True, markup=False)
    show_rows(console, rows, first_columns(list(rows[0])), **options)
    return console.export_text().splitlines()


def test_label_and_probability_come_before_the_shares_of_experts():
    shares = {f"expert_{k}": 0.2 for k in range(1, 6)}
    rows = [
        {"id": f"row {n}", "label": "benign", "probability_malignant": p, **shares}
        for n, p in enumerate((0.123, 1 - 1e-12))
    ]
    heading, *said = rows_printed(rows)
    assert heading.split() == ["id", "label", "probability_malignant"]
    assert said[1].split()[-1] == ">0.9999"
    assert said[-1].startswith("not shown: expert_1, ")
    rows[0]["expert_1"], rows[1]["expert_2"] = 0.9, 0.9
    heading, *said = rows_printed(rows)
    assert heading.split()[:4] == ["id", "label", "probability_malignant", "expert_1"]
    assert "expert_5" in said[-1]


def test_a_call_is_shown_with_its_place_and_q_value():
    rates = {f"{who}_{what}": 0.1 for who in ("case", "control") for what in ("mean", "sd", "q95")}
    rows = [
        {"sample": "case", "chrom": "chr1", "pos": n, "ref": "A", "alt": "T", **rates,
         "prob": 0.9, "q_value": 0.01, "called": True, "filter": "PASS"}
        for n in range(2)
    ]  # fmt: skip
    heading, *_ = rows_printed(rows)
    assert {"chrom", "pos", "ref", "alt", "prob", "q_value"} <= set(heading.split())


def test_columns_that_mean_the_same_share_a_line_without_blanks_at_its_end():
    columns = [ColumnOfTable(f"expert_{k}", "number", "its share") for k in (1, 2, 3)]
    console = Console(width=80, record=True, markup=False)
    named = ColumnOfTable("id", "text", "name of the row", "patient")
    show_meanings(console, [named, *columns])
    said = console.export_text().splitlines()
    assert [line.split() for line in said] == [
        ["id", "(patient):", "name", "of", "the", "row"],
        ["expert_1", "to", "expert_3:", "its", "share"],
    ]  # fmt: skip
    assert all(line == line.rstrip() for line in said)
