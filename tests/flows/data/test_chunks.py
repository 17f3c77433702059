"""A file that is checked piece by piece says the same as one that is checked whole."""

import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.keywords.schema import DOCUMENTS
from flows.tables.names import shared_names
from tests.flows.commands import check_file

NAMES = [f"n{i}" for i in range(60)]


KINDS = {
    "tags unknown in some rows": {"pos": [["?", "!"]] * 30 + [["NN"] * 2] * 30},
    "lists of other lengths": {"pos": [["NN"] * 2] * 40 + [["NN"]] + [["NN"] * 2] * 19},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_faults_piece_by_piece(kind, tmp_path):
    """Of documents whose tokens are given; tests/properties has those of cells."""
    family = pipeline_named("keywords")
    columns = {"doc_id": NAMES, "tokens": [["red", "cell"]] * 60, **KINDS[kind]}
    url = str(tmp_path / "x.parquet")
    pq.write_table(pa.table(columns), url, row_group_size=25)
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
