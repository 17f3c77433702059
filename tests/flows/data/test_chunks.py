"""A file that is checked piece by piece says the same as one that is checked whole."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.keywords.schema import DOCUMENTS
from flows.tables.names import shared_names
from tests.flows.commands import check_file

NAMES = [f"n{i}" for i in range(60)]


def documents(**changes):
    columns = {
        "doc_id": NAMES,
        "tokens": [["red", "cell"]] * 60,
        "pos": [["NN", "NN"]] * 60,
        "keywords": [["red"]] * 60,
    }
    return pa.table({**columns, **changes})


def table_of_numbers(**changes):
    columns = {"id": NAMES, "x": np.arange(60.0), "label": np.arange(60) % 2}
    return pa.table({**columns, **changes})


def categories(**changes):
    return pa.table({"id": NAMES, "a": ["u", "v", "w"] * 20, "b": [1, 2] * 30, **changes})


def put(values, rows, value):
    values = list(values)
    for row in rows:
        values[row] = value
    return values


CASES = {
    "documents": ("keywords", documents()),
    "two documents of a name": ("keywords", documents(doc_id=put(NAMES, [45], "n2"))),
    "documents without a name": ("keywords", documents(doc_id=put(NAMES, [3, 50], None))),
    "many without a name": ("keywords", documents(doc_id=put(NAMES, range(5, 55), ""))),
    "tags unknown in some rows": ("keywords", documents(pos=[["?", "!"]] * 30 + [["NN"] * 2] * 30)),
    "lists of other lengths": ("keywords", documents(pos=put([["NN"] * 2] * 60, [40], ["NN"]))),
    "numbers": ("experts", table_of_numbers()),
    "numbers that are none": ("experts", table_of_numbers(x=put(range(60), [1, 33], np.nan))),
    "a label of 2": ("experts", table_of_numbers(label=put(np.arange(60) % 2, [58], 2))),
    "categories": ("features", categories()),
    "categories without a name": ("features", categories(id=put(NAMES, [55], None))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_faults_piece_by_piece(case, tmp_path):
    name, table = CASES[case]
    family = pipeline_named(name)
    url = str(tmp_path / "x.parquet")
    pq.write_table(table, url, row_group_size=25)
    (file,) = storage.expand(url, [])
    whole, pieces = (
        check_file(family, file, family.settings(partitions=number)) for number in (1, 7)
    )
    assert pieces.faults == whole.faults
    assert pieces.rows == whole.rows


def test_names_of_files_are_compared_without_a_table_of_them():
    names = [[f"{k}-{i}" for i in range(100_000)] for k in range(2)]
    names[1][7] = "0-3"
    tracemalloc.start()
    faults = shared_names(DOCUMENTS, ["f0", "f1"], names)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (fault,) = faults
    assert (fault.file, fault.row, fault.found) == ("f1", 8, "'0-3', which f0 has too")
    assert peak < 45 * 200_000  # a table of the names took 58 bytes each
