"""Columns of odd types and texts: said by `check` before a run, with their place."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.bags.bag_files import run

N = 60
BROKEN = b"\xff\xfe"


def text_with(broken_row, kind=None, n=N):
    """Text of two kinds in which one row is no UTF-8."""
    values = [BROKEN if i == broken_row else f"v{i % 7}".encode() for i in range(n)]
    kind = kind or pa.string()
    offset = np.uint64 if pa.types.is_large_string(kind) else np.uint32
    ends = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(offset)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, n, buffers)


def categories(**more):
    rng = np.random.default_rng(0)
    columns = {f"c{i}": [str(x) for x in rng.choice(["a", "b"], N)] for i in range(3)}
    return {"id": [f"r{i}" for i in range(N)], **columns, **more}


def numbers(**more):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 2))
    label = (x[:, 0] > 0).astype(np.int8)
    return {"id": [f"r{i}" for i in range(N)], "a": x[:, 0], "b": x[:, 1], "label": label, **more}


def check(capsys, tmp_path, pipeline, columns):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table(columns), path)
    code, _, err = run(capsys, "check", pipeline, path)
    assert "should not have happened" not in err
    return code, err


LISTS = pa.array([[i] for i in range(N)])
HALF = np.arange(N) + 0.5
NAN = np.where(np.arange(N) == 3, np.nan, np.arange(N, dtype=float))
INF = np.where(np.arange(N) == 3, np.inf, np.arange(N) % 4)
HUGE = np.where(np.arange(N) == 3, 2.0**60, np.arange(N) % 4)


@pytest.mark.parametrize("pipeline", ["features", "experts"])
@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (LISTS, "column id: expected names of rows (text, whole numbers or a dictionary"),
        (HALF, "column id: expected names of rows"),
        (NAN, "column id: expected names of rows"),
        (text_with(3), "column id, row 4: expected text in UTF-8"),
        (text_with(3, pa.large_string()), "column id, row 4: expected text in UTF-8"),
    ],
    ids=["list", "half", "nan", "text", "large text"],
)
def test_names_of_rows_must_be_names(tmp_path, capsys, pipeline, ids, said):
    make = {"features": categories, "experts": numbers}[pipeline]
    code, err = check(capsys, tmp_path, pipeline, make(id=ids))
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (INF, "column odd, row 4: expected whole numbers as codes of categories, below 2**53, "
              "found inf"),
        (HUGE, "column odd, row 4: expected whole numbers as codes of categories, below 2**53"),
        (HUGE.astype(np.float32), "column odd, row 4: expected whole numbers as codes"),
        (text_with(3), "column odd, row 4: expected text in UTF-8, found bytes that are none"),
        (pa.DictionaryArray.from_arrays(np.arange(N) % 4, text_with(3, n=4)),
         "in.parquet: expected a file that can be read"),
    ],
    ids=["inf", "huge", "huge single", "text", "dictionary"],
)  # fmt: skip
def test_categories_of_odd_values_are_refused(tmp_path, capsys, cells, said):
    code, err = check(capsys, tmp_path, "features", categories(odd=cells))
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(N),
        pa.array([f"r{i}" for i in range(N)]).dictionary_encode(),
        pa.array([f"r{i}" for i in range(N)], pa.string_view()),
    ],
    ids=["integer", "dictionary", "view"],
)
@pytest.mark.parametrize("pipeline", ["features", "experts"])
def test_names_of_every_kind_are_taken(tmp_path, capsys, pipeline, ids):
    make = {"features": categories, "experts": numbers}[pipeline]
    odd = {"odd": (np.arange(N) % 2).astype(np.float16)} if pipeline == "features" else {}
    code, err = check(capsys, tmp_path, pipeline, make(id=ids, **odd))
    assert code == 0, err


def test_large_whole_numbers_are_numbers(tmp_path, capsys):
    large = 2**60 + np.arange(N)
    code, err = check(capsys, tmp_path, "experts", numbers(a=large))
    assert code == 0, err
    code, err = check(capsys, tmp_path, "experts", numbers(label=large))
    assert code == 2
    assert "expected rows with two labels, found 60 with 1152921504606846976 alone" in err


@pytest.mark.parametrize(
    ("text", "encoding"), [("id,größe\nr1,x\nr2,y\n", "latin-1"), ("id,a\nr1,ß\nr2,y\n", "cp1252")]
)
def test_a_csv_in_another_encoding_has_its_sentence(tmp_path, capsys, text, encoding):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    code, _, err = run(capsys, "check", "features", path)
    assert code == 2
    assert "x.csv: its text is not UTF-8" in err
