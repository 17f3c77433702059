"""What a declared table refuses: each rule in its sentence, with the rows of the file."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from flows.data.checks import MAX_ROWS, Checker
from flows.data.table import NUMBERS, ROW_ID, TEXT, WORDS, Bound, Column, Either, Table

COLUMNS = Table(
    "rows",
    "Rows with one column of each kind.",
    (
        ROW_ID,
        Column("label", pa.int8(), "a label", nullable=True, required=False, values=(0, 1),
               accepts=(pa.float64(),), remedy="code it"),
        Column("count", pa.int64(), "a count", required=False, bounds=(Bound("1 or more", least=1),
               Bound("9 at most", most=9))),
        Column("code", TEXT, "a category", nullable=True, required=False,
               accepts=(pa.float64(),)),
        Column("x", pa.float64(), "a number", required=False, finite=True),
        Column("many", NUMBERS, "numbers", nullable=True, required=False, finite=True,
               largest=100.0),
        Column("words", WORDS, "words", nullable=True, required=False),
        Column("tags", WORDS, "tags", nullable=True, required=False, as_long_as="words"),
    ),
)  # fmt: skip


def found(columns, table=COLUMNS, cut=None):
    """The sentences about a file, read whole or cut behind a row."""
    given = pa.table(columns)
    pieces = [(0, given)] if cut is None else [(0, given[:cut]), (cut, given[cut:])]
    checker = Checker(table, "f")
    assert len(list(checker.slabs(pieces))) == (len(pieces) if len(given) else 0)
    assert checker.rows == len(given)
    return [str(fault).removeprefix("f, ") for fault in checker.found.faults()]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["a", None, ""]}, [
            "column id, row 2: expected the name of a row, found null; give every row a name",
            "column id, row 3: expected the name of a row, found an empty text; "
            "give every row a name",
        ]),
        ({"id": [1, 2, 1]}, [
            "column id, row 3: expected a name used once, found '1', which row 1 has too; "
            "give every row its own name",
        ]),
        ({"id": [0.5, 1.0, 2.0]}, [
            "column id: expected names of rows (text, whole numbers or a dictionary of them), "
            "found type double; write the names as text",
        ]),
        ({"id": pa.nulls(3)}, [
            "column id: expected names of rows (text, whole numbers or a dictionary of them), "
            "found type null; write the names as text",
        ]),
        ({"label": [1.0, None, 0.5]},
         ["column label, row 3: expected 0, 1 or null, found 0.5; code it"]),
        ({"label": pa.nulls(3)}, []),
        ({"count": [0, 9, 10]}, [
            "column count, row 1: expected 1 or more, found 0",
            "column count, row 3: expected 9 at most, found 10",
        ]),
        ({"count": [1, None, 2]}, ["column count, row 2: expected a value, found null"]),
        ({"count": pa.array([2**64 - 1, 1, 1], pa.uint64())},
         ["column count, row 1: expected 9 at most, found 18446744073709551615"]),
        ({"code": [1.0, float("nan"), 1.5]}, [
            "column code, row 3: expected whole numbers as codes of categories, below 2**53, "
            "found 1.5; cut the column into classes or leave it out",
        ]),
        ({"x": [1.0, float("inf"), None]}, [
            "column x, row 2: expected a finite number, found inf; fill the cell or leave the row "
            "out",
            "column x, row 3: expected a finite number, found null; fill the cell or leave the "
            "row out",
        ]),
        ({"many": [[1.0, -101.0], None, [100.0, None]]}, [
            "column many, row 1: expected numbers of at most 100 in size, found -101.0 at place 2; "
            "fill the gap, rescale the numbers or leave the row out",
            "column many, row 3: expected finite numbers, found null at place 2; "
            "fill the gap, rescale the numbers or leave the row out",
        ]),
        ({"words": [["a"], None, ["b", None]]}, [
            "column words, row 3: expected a list without nulls, found a null at place 2; "
            "leave the null out or fill it",
        ]),
        ({"words": [["a"], None, ["b"]], "tags": [["t"], ["t"], None]}, [
            "column tags, row 2: expected 0 entries, one for each of the words, found 1; "
            "give each word its tags, or leave the list null",
        ]),
    ],
)  # fmt: skip
def test_each_rule_has_its_sentence(columns, said):
    columns = {"id": ["p", "q", "r"], **columns}
    assert found(columns) == said
    assert found(columns, cut=1) == said
    assert found(columns, cut=2) == said


def test_the_columns_are_checked_before_the_rows():
    either = Either(("text", "words"), "give one", "fill it")
    named = replace(ROW_ID, required=True)
    columns = (named, Column("text", TEXT, "a text", nullable=True, required=False))
    numbers = Column("numeric column", pa.float64(), "a number", finite=True, expected="numbers")
    table = Table("t", "", columns, either=either, others=numbers)
    assert found({"text": ["a"]}, table) == [
        "column id: expected a column of type text, found none; the columns are text",
        "f: expected at least one numeric column, found none beside id and text",
    ]
    assert found({"id": ["a"], "x": ["no"]}, table) == [
        "column x: expected numbers, found type string",
        "f: expected a column text or a column words, found only id, x; give one",
    ]
    assert found({"id": ["a", "b"], "text": ["t", None], "x": [1, 2]}, table) == [
        "column text, row 2: expected a text or words, found null; fill it"
    ]
    twice = pa.table([["a"], [1.0], [2.0]], names=["id", "x", "x"])
    checker = Checker(table, "f")
    assert [len(read) for read in checker.slabs([(0, twice)])] == [1]
    assert "column x: expected a name used once, found it twice" in str(checker.found.faults()[0])
    assert found({"id": pa.array([], TEXT.arrow)}) == [
        "f: expected at least one row, found 0 rows; leave the file out or fill it"
    ]


def test_rows_beyond_the_limit_are_counted_over_slabs():
    told = found({"id": [f"r{i}" for i in range(99)], "count": [0] * 99}, cut=10)
    assert len(told) == MAX_ROWS + 1
    assert told[MAX_ROWS - 1] == "column count, row 20: expected 1 or more, found 0"
    assert told[-1] == "column count: expected 1 or more, found the same in 79 more rows"
