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


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_other_forms_of_text_are_read(kind):
    assert found(changed("doc_id", ["a", "b"], kind)) == []
    assert "column doc_id, row 2" in found(changed("doc_id", ["a", "a"], kind))[0]


def test_an_empty_table():
    assert found(GOOD.slice(0, 0)) == [
        "d.parquet: expected at least one document, found 0 rows; leave the file out or fill it"
    ]


def test_documents_without_text_are_refused():
    (fault,) = found(GOOD.select(["pos"]))
    assert "expected a column text or a column tokens, found only pos" in fault


def test_a_wrong_type():
    table = GOOD.set_column(1, "tokens", pa.array(["one word", "two"]))
    assert found(table) == [
        "d.parquet, column tokens: expected type list<item: string>, found type string"
    ]


@pytest.mark.parametrize(("name", "told"), [(None, "null"), ("", "an empty text")])
def test_a_document_without_a_name(name, told):
    assert found(changed("doc_id", ["a", name])) == [
        f"d.parquet, column doc_id, row 2: expected the name of a document, found {told}; "
        "give every document a name"
    ]


def test_duplicates_within_a_file():
    assert found(changed("doc_id", ["b", "b"])) == [
        "d.parquet, column doc_id, row 2: expected a name used once, found 'b', which row 1 has "
        "too; give every document its own name"
    ]


def test_duplicates_between_files():
    faults = shared_names(DOCUMENTS, ["z.parquet", "y.parquet"], [["a", "c"], ["b", "a"]])
    assert [str(fault) for fault in faults] == [
        "z.parquet, column doc_id, row 1: expected a name used once over all files, found 'a', "
        "which y.parquet has too; give every document its own name"
    ]


@pytest.mark.parametrize("name", ["pos", "sentence"])
def test_lists_of_another_length_than_the_tokens(name):
    value = ["NN"] if name == "pos" else [1]
    assert found(changed(name, [value, value])) == [
        f"d.parquet, column {name}, row 1: expected 2 entries, one for each of the tokens, "
        f"found 1; give each token its {name}, or leave the list null"
    ]


def test_a_document_without_text():
    assert (
        "row 1: expected a text or tokens, found null"
        in found(changed("tokens", [None, ["two"]]))[0]
    )


def test_a_null_among_the_tokens():
    faults = found(changed("tokens", [["one", None], ["two"]]))
    assert "column tokens, row 1" in faults[0]
    assert "found a null at place 2" in faults[0]


def test_tags_of_an_unknown_set():
    faults = found(changed("pos", [["N", "V"], ["N"]]))
    assert "expected Penn or universal tags" in faults[0]
    assert "found 'N', 'V'" in faults[0]


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


@pytest.mark.parametrize(("given", "missing"), [("scored", "scores"), ("scores", "scored")])
def test_terms_without_scores_and_scores_without_terms_are_refused(given, missing):
    cells = [["word"], ["two"]] if given == "scored" else [[1.0], [2.0]]
    (fault,) = found(GOOD.append_column(given, pa.array(cells)))
    assert f"expected columns scored and scores, found {given} alone" in fault
    assert f"--column {missing}=NAME" in fault
