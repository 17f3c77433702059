"""Tables as people have them: other formats than Parquet, other names, cells of text."""

import bz2
import csv
import gzip
import io
import json
import os
import time

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from flows import storage
from flows.cli import main
from flows.keywords.schema import DOCUMENTS
from flows.keywords.settings import KeywordSettings
from flows.storage.errors import StorageError
from flows.storage.formats import converted as formats
from flows.tables.partition import check_rows, cut, read_header
from tests.faults import pipelines
from tests.flows.commands import check_file, read_part

ROWS = [
    {"doc_id": "a", "text": 'Of "maps"; and,\nmore maps', "keywords": ["maps", "old maps"]},
    {"doc_id": "b", "text": "Ein Größenmaß", "keywords": []},
]


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))


def as_csv(mark=",", spell="; ".join):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark)
    writer.writerow(["doc_id", "text", "keywords"])
    writer.writerows([row["doc_id"], row["text"], spell(row["keywords"])] for row in ROWS)
    return out.getvalue()


def as_arrow(kind):
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(ROWS)
    with kind(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
FILES = {
    "x.csv": as_csv().encode(),
    "marked.csv": as_csv().encode("utf-8-sig"),
    "wide.csv": as_csv(";", json.dumps).encode("utf-16"),
    "python.csv": as_csv("|", repr).encode(),
    "x.csv.gz": gzip.compress(as_csv().encode()),
    "x.tsv": as_csv("\t").encode(),
    "x.tsv.bz2": bz2.compress(as_csv("\t").encode()),
    "x.CSV.zst": pa.compress(as_csv().encode(), "zstd", asbytes=True),
    "x.jsonl": LINES.encode(),
    "x.ndjson.gz": gzip.compress(LINES.encode()),
    "x.arrow": as_arrow(pa.ipc.new_file),
    "x.feather": as_arrow(pa.ipc.new_stream),
}


def read(url, table=DOCUMENTS):
    """Check a file and read it, as a run does both."""
    header, _ = read_header(url, table)
    assert header.faults.listed() == ()
    (part,) = cut(storage.expand(url, storage.SUFFIXES), [header.rows], 1000, None)
    assert not any(checker.faults for checker, _ in check_rows(part, table))
    return read_part(part, table)


@pytest.mark.parametrize("name", FILES)
def test_each_format_holds_the_same_documents(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    found = read(str(tmp_path / name))
    for column in ("doc_id", "text", "keywords"):
        given = [row[column] or (None if "csv" in name.lower() or "tsv" in name else [])
                 for row in ROWS]  # fmt: skip
        if column == "keywords" and name in ("wide.csv", "python.csv"):
            given[1] = []
        assert found[column].to_pylist() == given


def test_a_changed_file_is_read_anew(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("doc_id,text,keywords\na,one,\n")
    assert read(str(path))["text"].to_pylist() == ["one"]
    path.write_text("doc_id,text,keywords\na,two,\n")
    os.utime(path, (time.time() + 5,) * 2)
    assert read(str(path))["text"].to_pylist() == ["two"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("last", ["", '40,"forty"\n', '40,forty\n41,"forty one"\n'])
def test_a_quote_that_is_not_closed_is_refused_where_it_joins_lines(tmp_path, encoding, last):
    """Else the lines up to the next quote, or all that follow, would be one cell, in silence."""
    lines = [f"{i},text {i}\n" for i in range(40)]
    lines[3] = '3,"a text of ""two""\nlines"\n'
    lines[12] = '12,"open\n'
    (tmp_path / "a.csv").write_text("".join(["id,text\n", *lines, last]), encoding)
    with pytest.raises(StorageError, match='the quote " before open is not closed, line 15'):
        storage.parquet_file(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    "last",
    ['"two\nlines"', '"two\n"', '"two\nlines of 5"""', '5"', '5" and 6"', '"two\n""lines"""\n'],
)
def test_lines_within_closed_quotes_are_one_cell(tmp_path, last):
    text = f'id,text\n1,"a, text\nof ""two"" lines"\n2,6" wide\n3,{last}'
    (tmp_path / "a.csv").write_text(text)
    cells = storage.parquet_file(str(tmp_path / "a.csv")).read()["text"].to_pylist()
    assert cells == [row[1] for row in csv.reader(io.StringIO(text, newline=""))][1:]


def test_a_file_without_a_telling_name_that_is_written_again_may_be_of_another_format(tmp_path):
    path = tmp_path / "x.json"
    for content in (json.dumps(ROWS), LINES, f"\ufeff{json.dumps(ROWS)}"):
        path.write_text(content)
        assert storage.parquet_file(str(path)).metadata.num_rows == len(ROWS)


@pytest.mark.parametrize("block", [2**24, 2**12])
def test_json_lines_may_have_values_and_columns_that_begin_late(tmp_path, monkeypatch, block):
    monkeypatch.setattr(formats, "JSON_BLOCK", block)
    lines = [{"doc_id": str(i), "text": "some words", "keywords": None} for i in range(400)]
    (tmp_path / "none.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert read(str(tmp_path / "none.jsonl"))["keywords"].to_pylist() == [None] * 400
    lines[390] |= {"keywords": ["words"], "score": 1, "day": "2026-01-01"}
    lines[399] |= {"score": 2.5, "day": "soon"}
    (tmp_path / "late.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = read(str(tmp_path / "late.jsonl"))
    assert found["keywords"].to_pylist() == [None] * 390 + [["words"]] + [None] * 9
    lines[395]["keywords"] = {"a": 1}
    (tmp_path / "odd.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(StorageError, match="from array to object in row 396"):
        read(str(tmp_path / "odd.jsonl"))


def test_columns_that_only_some_files_have_are_named(tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"doc_id": "a", "text": "a river and a dam", "n": 1}\n')
    (folder / "b.jsonl").write_text('{"doc_id": "b", "text": "a dam", "keywords": ["dam"]}\n')
    command = ["check", "keywords", str(folder), "--set", "keyphrases=2"]
    with pytest.raises(SystemExit):
        main(command)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "keywords list of texts in 1 of 2 files keywords" in lines
    with pytest.raises(SystemExit) as ended:
        main([*command, "--strict"])
    assert ended.value.code == 2
    assert "column n: expected every column to be used" in capsys.readouterr().err


def test_ids_that_pandas_made_floats_have_a_remedy(tmp_path, capsys):
    rows = {"doc_id": [1.0, None], "text": ["a river", "a dam"]}
    pq.write_table(pa.table(rows), tmp_path / "x.parquet")
    with pytest.raises(SystemExit):
        main(["check", "keywords", str(tmp_path / "x.parquet")])
    assert "column doc_id: expected text or whole numbers, found" in capsys.readouterr().err


def test_rows_without_names_are_named_by_file_and_number(tmp_path):
    for folder in ("p", "q"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "x.csv").write_text("text\none\ntwo\n")
    url = str(tmp_path / "in" / "p" / "x.csv")
    assert read(url)["doc_id"].to_pylist() == ["x.csv:1", "x.csv:2"]
    family = pipelines.pipeline_named("keywords")
    files = storage.expand(str(tmp_path / "in"), family.suffixes)
    checked = [check_file(family, file, KeywordSettings()) for file in files]
    (fault,) = family.validate_dataset(files, checked)
    assert "a file name of its own" in fault.expected


@pytest.mark.thorough
def test_wide_tables_of_bags_are_those_with_lists(tmp_path):
    """The same bits from columns f0, f1, ... with labels yes and no as from lists and 0, 1."""
    url = pipelines.simulate("bags", str(tmp_path / "in"), 30)
    table = pq.read_table(url)
    (lists,) = {len(f) for f in table["features"].to_pylist()}
    wide = {"bag": table["bag_id"], "y": ["yes" if y else "no" for y in table["label"].to_pylist()]}
    for k in range(lists):
        wide[f"f{k}"] = [repr(f[k]) for f in table["features"].to_pylist()]
    other = {n: table[n] for n in table.column_names if n not in ("bag_id", "label", "features")}
    pa.csv.write_csv(pa.table({**wide, **other}), tmp_path / "wide.csv")
    columns = {"bag_id": "bag", "label": "y", "features": "f*"}
    found = [
        pipelines.published(pipelines.run("bags", source, str(tmp_path / f"out-{i}"), **extra))
        for i, (source, extra) in enumerate(
            [(url, {}), (str(tmp_path / "wide.csv"), {"columns": columns})]
        )
    ]
    # Columns have names, features of a list their numbers.
    named = ("posterior/bags.json", "posterior/parameters.parquet", "markers", "reasons")
    bits = [{k: v for k, v in one.items() if not k.startswith(named)} for one in found]
    assert {"posterior/q.npz"} < set(bits[0])
    assert bits[0] == bits[1]


def test_a_folder_of_texts_is_a_corpus(tmp_path):
    for name in ("a.txt", "b.md"):
        (tmp_path / name).write_text(f"The map of {name}", encoding="utf-8")
    family = pipelines.pipeline_named("keywords")
    files = storage.expand(str(tmp_path), family.suffixes)
    assert [check_file(family, file, KeywordSettings()).rows for file in files] == [1, 1]
    parts = cut(files, [1, 1], 10, None)
    assert read_part(parts[0], DOCUMENTS)["doc_id"].to_pylist() == [f.url for f in files]


def test_values_that_share_a_label_are_counted(tmp_path):
    path = str(tmp_path / "a.sav")
    answers = pd.DataFrame({"q": [1.0, 2.0, 3.0, None], "r": [1.0, 2.0, 2.0, 1.0]})
    labels = {"q": {1.0: "Yes", 2.0: "Yes", 3.0: "No"}, "r": {1.0: "a", 2.0: "b"}}
    pyreadstat.write_sav(answers, path, variable_value_labels=labels)
    assert storage.read_table(path)["q"].to_pylist() == ["Yes", "Yes", "No", None]
    ((note, _),) = storage.file_notes(path)
    assert note == "value labels are the categories of q (2 labels of 3 values), r"
