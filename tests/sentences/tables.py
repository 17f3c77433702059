"""Tables and files of any family: names of rows and columns, types, encodings, formats."""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.faults import Fault
from flows.tables.checks import Checker, add_up, faults_of, repeated_names
from flows.tables.table import NUMBERS, ROW_ID, TEXT, WORDS, Bound, Column, Either, Table
from tests.sentences.said import Said, command, table, text

N = 60


def categories(**more: object) -> Said:
    rng = np.random.default_rng(0)
    cells = {f"c{i}": [str(x) for x in rng.choice(["a", "b"], N)] for i in range(3)}
    return table("check features", {"id": NAMES, **cells, **more})


def numbers(**more: object) -> Said:
    x = np.random.default_rng(0).standard_normal((N, 2))
    label = (x[:, 0] > 0).astype(np.int8)
    return table("check experts", {"id": NAMES, "a": x[:, 0], "label": label, **more})


def text_with(row: int, kind: pa.DataType, n: int = N) -> pa.Array:
    """Text of two kinds in which one row is no UTF-8."""
    values = [b"\xff\xfe" if i == row else f"v{i % 7}".encode() for i in range(n)]
    offset = np.uint64 if pa.types.is_large_string(kind) else np.uint32
    ends = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(offset)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, n, buffers)


NAMES = [f"r{i}" for i in range(N)]
IDS = {
    "lists": pa.array([[i] for i in range(N)]),
    "halves": np.arange(N) + 0.5,
    "nan": np.where(np.arange(N) == 3, np.nan, np.arange(N, dtype=float)),
    "no UTF-8": text_with(3, pa.string()),
    "no UTF-8 in large text": text_with(3, pa.large_string()),
}
TAKEN = {
    "whole": np.arange(N),
    "dictionary": pa.array(NAMES).dictionary_encode(),
    "view": pa.array(NAMES, pa.string_view()),
}
BYTES = {"text": text_with(3, pa.string()),
         "dictionary": pa.DictionaryArray.from_arrays(np.arange(N) % 4,
                                                      text_with(3, pa.string(), 4))}  # fmt: skip


COLUMNS = Table(
    "rows", "Rows with one column of each kind.", (
        ROW_ID,
        Column("label", pa.int8(), "a label", nullable=True, required=False, values=(0, 1),
               accepts=(pa.float64(),), remedy="code it"),
        Column("count", pa.int64(), "a count", required=False, bounds=(Bound("1 or more", least=1),
               Bound("9 at most", most=9))),
        Column("code", TEXT, "a category", nullable=True, required=False, accepts=(pa.float64(),)),
        Column("x", pa.float64(), "a number", required=False, finite=True),
        Column("many", NUMBERS, "numbers", nullable=True, required=False, finite=True,
               largest=100.0),
        Column("words", WORDS, "words", nullable=True, required=False),
        Column("tags", WORDS, "tags", nullable=True, required=False, as_long_as="words"),
    ),
)  # fmt: skip


def faults_in(made: Table, pieces: Sequence[tuple[int, pa.Table]]) -> list[Fault]:
    """Return what a declared table refuses in the pieces of a file, added up."""
    checkers = [Checker(made, "f", first) for first, _ in pieces]
    for checker, (_, rows) in zip(checkers, pieces, strict=True):
        if rows.num_rows:
            checker.read(rows)
        else:
            checker.read_header(rows, len(pieces) - 1)
    names = [name for one in checkers for name in one.names]
    faults = [*faults_of(add_up(one.faults.kinds for one in checkers))]
    whole = len(names) == sum(rows.num_rows for _, rows in pieces)
    return faults + (repeated_names(made, "f", names) if whole else [])


def rule(columns: dict[str, object], made: Table = COLUMNS) -> Said:
    """Say what a declared table refuses, in whole and however the rows are cut."""

    def said(folder: Path) -> str:
        given = pa.table(columns)
        found = []
        for cut in range(len(given) + 1):
            pieces = [(0, given[:cut]), (cut, given[cut:])] if cut else [(0, given)]
            found.append("\n".join(map(str, faults_in(made, pieces))))
        assert set(found[:-1] or found) == {found[0]}
        return found[0]

    return said


def rows(**columns: object) -> Said:
    return rule({"id": ["p", "q", "r"], **columns})


EITHER = Table(
    "t", "", (
        Column("id", TEXT, "a name", names="row", unique=True),
        Column("text", TEXT, "a text", nullable=True, required=False),
    ),
    either=Either(("text", "words"), "give one", "fill it"),
    others=Column("numeric column", pa.float64(), "a number", finite=True, expected="numbers"),
)  # fmt: skip


def arrays(name: str, array: np.ndarray) -> Said:
    return command(
        f"check bags @/{name}.h5",
        lambda folder: write_arrays(folder / f"{name}.h5", {name: array}),
    )


def flat(folder: Path) -> None:
    write_arrays(folder / "flat.h5", {"x": np.zeros(3), "y": np.zeros(3)})


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def twice(folder: Path) -> None:
    made = pa.Table.from_arrays([pa.array(NAMES), pa.array(NAMES)], ["q1", "q1"])
    pq.write_table(made, folder / "in.parquet")


def nameless(folder: Path) -> None:
    made = pa.Table.from_arrays([pa.array(NAMES), pa.array(NAMES)], ["q1", " "])
    pq.write_table(made, folder / "in.parquet")


DAMAGED = b"\xff\x00\xfe{]\n,,,\n\x80" * 9

CASES = {
    **{f"names of rows: {name}": categories(id=ids) for name, ids in IDS.items()},
    **{f"names of rows of numbers: {name}": numbers(id=ids) for name, ids in TAKEN.items()},
    "names of rows of numbers: lists": numbers(id=IDS["lists"]),
    "large whole numbers": numbers(large=2**60 + np.arange(N)),
    **{f"categories of bytes: {name}": categories(odd=cells) for name, cells in BYTES.items()},
    "a column twice": command("check features @/in.parquet", twice),
    "a column twice in CSV": text("check experts", "age,age,label\n" + "1,2,0\n2,3,1\n" * 9),
    "a column without a name": command("check features @/in.parquet", nameless),
    "a blank header": text("check features", ",q1,q2,\n" + "1,a,b,\n2,b,a,\n3,b,b,\n" * 9),
    "a header without names": text("check features", ",\n1,2\n"),
    "an empty first line": text("check features", "\na\nx\n"),
    "an empty file": text("check features", ""),
    "no row": text("check features", "id,a\n"),
    "a line of another length": text("check features", "id,a\nx,1\ny,2,3\n"),
    "Latin-1": text("check features", "id,größe\nr1,x\nr2,y\n".encode("latin-1")),
    "damaged CSV": text("check keywords", DAMAGED),
    "cells under another name": command(
        "check experts @/in.csv --column label=Outcome",
        lambda folder: (folder / "in.csv").write_text("Outcome,age\nyes,30\nno,31\n,32\n"),
    ),
    "cells of text": text("check experts", "label,age\nyes,30\nno,old\n" + "yes,31\nno,5\n" * 20),
    "an array of three axes": arrays("features", np.zeros((2, 3, 4))),
    "an array of text": arrays("text", np.array([["a"]], "S1")),
    "arrays of one axis": command("check bags @/flat.h5", flat),
    "nothing there": command("check features @/none", lambda folder: None),
    "rule: no name": rule({"id": ["a", None, ""]}),
    "rule: a name twice": rule({"id": [1, 2, 1]}),
    "rule: names that are numbers": rule({"id": [0.5, 1.0, 2.0]}),
    "rule: names that are null": rule({"id": pa.nulls(3)}),
    "rule: a value": rows(label=[1.0, None, 0.5]),
    "rule: no value": rows(label=pa.nulls(3)),
    "rule: bounds": rows(count=[0, 9, 10]),
    "rule: a null": rows(count=[1, None, 2]),
    "rule: a large bound": rows(count=pa.array([2**64 - 1, 1, 1], pa.uint64())),
    "rule: a code": rows(code=[1.0, float("nan"), 1.5]),
    "rule: finite": rows(x=[1.0, float("inf"), None]),
    "rule: numbers of a list": rows(many=[[1.0, -101.0], None, [100.0, None]]),
    "rule: words of a list": rows(words=[["a", "b"], None, ["c", None]]),
    "rule: lists as long": rows(words=[["a"], None, ["b"]], tags=[["t"], ["t"], None]),
    "rule: many rows": rule({"id": [f"r{i}" for i in range(22)], "count": [0] * 22}),
    "rule: no column": rule({"text": ["a"]}, EITHER),
    "rule: neither column": rule({"id": ["a"], "x": ["no"]}, EITHER),
    "rule: neither cell": rule({"id": ["a", "b"], "text": ["t", None], "x": [1, 2]}, EITHER),
    "rule: no row": rule({"id": pa.array([], TEXT.arrow)}),
}
