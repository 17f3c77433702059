"""Every fault of a file of documents is found, in its place, and all of them at once."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.data.checks import MAX_ROWS, shared_names
from flows.keywords.check import check_documents
from flows.keywords.schema import DOCUMENTS

GOOD = pa.table(
    {
        "doc_id": ["a", "b"],
        "tokens": [["one", "word"], ["two"]],
        "pos": [["CD", "NN"], None],
        "sentence": [[0, 0], [1]],
        "keywords": [["word"], []],
    }
)


def found(table, file="d.parquet"):
    return [str(fault) for fault in check_documents([(0, table)], file)[0].found.faults()]


def changed(name, values, kind=None):
    place = GOOD.column_names.index(name)
    return GOOD.set_column(place, name, pa.array(values, kind or GOOD.schema.field(name).type))


def test_good_tables_have_no_fault():
    assert found(GOOD) == []
    text = pa.table({"doc_id": ["a"], "text": ["A word."], "keywords": [None]})
    assert found(text.cast(text.schema.set(2, pa.field("keywords", pa.list_(pa.string()))))) == []
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert found(changed("doc_id", ["a", "b"], kind)) == []
        assert "column doc_id, row 2" in found(changed("doc_id", ["a", "a"], kind))[0]


def fault_of_name(what):
    return (
        f"d.parquet, column doc_id, row 2: expected the name of a document, found {what}; "
        "give every document a name"
    )


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            GOOD.slice(0, 0),
            "d.parquet: expected at least one document, found 0 rows; leave the file out or fill "
            "it",
        ),
        (GOOD.select(["pos"]), "expected a column text or a column tokens, found only pos"),
        (
            GOOD.set_column(1, "tokens", pa.array(["one word", "two"])),
            "d.parquet, column tokens: expected type list<item: string>, found type string",
        ),
        (changed("doc_id", ["a", None]), fault_of_name("null")),
        (changed("doc_id", ["a", ""]), fault_of_name("an empty text")),
        (
            changed("doc_id", ["b", "b"]),
            "d.parquet, column doc_id, row 2: expected a name used once, found 'b', which row 1 "
            "has too; give every document its own name",
        ),
        (
            changed("sentence", [[1], [1]]),
            "d.parquet, column sentence, row 1: expected 2 entries, one for each of the tokens, "
            "found 1; give each token its sentence, or leave the list null",
        ),
        (
            changed("tokens", [None, ["two"]]),
            "row 1: expected a text or tokens, found null",
        ),
        (changed("tokens", [["one", None], ["two"]]), "column tokens, row 1"),
        (changed("tokens", [["one", None], ["two"]]), "found a null at place 2"),
        (changed("pos", [["N", "V"], ["N"]]), "expected Penn or universal tags"),
        (GOOD.append_column("scored", pa.array([["word"], ["two"]])), "found scored alone"),
        (GOOD.append_column("scores", pa.array([[1.0], [2.0]])), "--column scored=NAME"),
    ],
)
def test_a_fault_has_its_place_and_its_sentence(table, sentence):
    assert sentence in found(table)[0]


def test_duplicates_between_files():
    faults = shared_names(DOCUMENTS, ["z.parquet", "y.parquet"], [["a", "c"], ["b", "a"]])
    assert [str(fault) for fault in faults] == [
        "z.parquet, column doc_id, row 1: expected a name used once over all files, found 'a', "
        "which y.parquet has too; give every document its own name"
    ]


@pytest.mark.parametrize("column", ["doc_id", "text", "keywords"])
def test_text_that_is_no_utf8(column, tmp_path):
    broken = pa.array([b"fine", b"caf\xe9", b"fine too"]).cast(pa.binary())
    broken = pa.StringArray.from_buffers(3, *broken.buffers()[1:])
    columns = {
        "doc_id": pa.array(["a", "b", "c"]),
        "text": pa.array(["x", "y", "z"]),
        "keywords": pa.array([["x"], ["y"], ["z"]]),
    }
    if column == "keywords":
        broken = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), broken)
    pq.write_table(pa.table(columns | {column: broken}), tmp_path / "d.parquet")
    faults = found(pq.read_table(tmp_path / "d.parquet"))
    assert faults == [
        f"d.parquet, column {column}, row 2: expected text in UTF-8, found bytes that are none; "
        "write the file again with its text encoded as UTF-8"
    ]


def test_all_faults_come_at_once_and_many_rows_are_summed_up():
    table = pa.table(
        {
            "doc_id": ["same"] * 100,
            "tokens": [["a", "b"]] * 100,
            "pos": [["NN"]] * 100,
            "keywords": [["a"]] * 100,
        }
    )
    faults = found(table)
    assert len(faults) == 2 * (MAX_ROWS + 1)
    assert "found the same in 80 more rows" in faults[MAX_ROWS]
    assert "found the same in 79 more rows" in faults[-1]
