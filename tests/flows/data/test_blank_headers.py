"""Columns of a CSV without a name, and two with the same: read and said, or a sentence."""

import json

import pytest

from flows import storage
from tests.flows.commands import printed


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))


def read(path, text):
    path.write_text(text)
    notes = [note for note, _ in storage.file_notes(str(path))]
    return storage.read_table(str(path)), notes


@pytest.mark.parametrize(
    ("text", "names", "named", "dropped"),
    [
        ("a,b,\n1,2,\n3,4,\n", ["a", "b"], (), 1),
        ("a,b,,\n1,2,,\n3,4,x,\n", ["a", "b", "column 3"], ("column 3",), 1),
        (",a,b\n0,1,2\n1,3,4\n", ["column 1", "a", "b"], ("column 1",), 0),
        ('"",a,"  "\n0,1, \n1,3,\n', ["column 1", "a"], ("column 1",), 1),
        ("a;;b\n1;;2\n3;;4\n", ["a", "b"], (), 1),
        ("a,b,\n1,2\n3,4\n", ["a", "b"], (), 1),  # the lines have no such separator
        (",a,\n0,1\n1,3\n", ["column 1", "a"], ("column 1",), 1),
        (",column 1\n0,1\n2,3\n", ["column 1_", "column 1"], ("column 1_",), 0),
        ('"a\nx",\n1,2\n3,4\n', ["a\nx", "column 2"], ("column 2",), 0),
        ("\ufeff,a\n0,1\n1,3\n", ["column 1", "a"], ("column 1",), 0),
        ("a,b\n1,2\n3,4\n", ["a", "b"], (), 0),
    ],
)
def test_blank_cells_of_a_header_get_names(tmp_path, text, names, named, dropped):
    table, notes = read(tmp_path / "t.csv", text)
    assert table.column_names == names
    assert [f" called {', '.join(named)} here" in note for note in notes if "called" in note] == (
        [True] if named else []
    )
    gone = [note.rpartition(": ")[2] for note in notes if "not read" in note]
    assert gone == ([str(dropped)] if dropped else [])
    assert table.num_rows == 2


def test_a_table_with_blank_headers_is_read_and_scored(tmp_path, capsys):
    for name in ("fit.csv", "new.csv"):
        lines = [["", "q1", "q2", "q3", ""]]
        lines += [[i, "ab"[i % 2], "ab"[i // 2 % 2], "xy"[i // 3 % 2], ""] for i in range(60)]
        (tmp_path / name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    gone = "fit.csv: columns without a name or values are not read: 1."
    said = printed(capsys, "features", tmp_path / "fit.csv", tmp_path / "out", "--max-iter", 80)
    assert "fit.csv: 1 column has no name and is called column 1 here" in said
    assert gone in said
    record = json.loads(next((tmp_path / "out" / "runs").glob("*/run.json")).read_text())
    assert any(gone in warning for warning in record["warnings"])
    said = printed(capsys, "score", tmp_path / "out", tmp_path / "new.csv", tmp_path / "scores")
    assert "new.csv: 1 column has no name" in said
