"""A file that is checked piece by piece says the same as one that is checked whole."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.catalogue import pipeline_named
from flows.data import names, slabs, storage
from flows.data.checks import shared_names
from flows.keywords.schema import DOCUMENTS

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
    "unknown tags": ("keywords", documents(pos=[["?", "!"]] * 60)),
    "tags unknown in some rows": ("keywords", documents(pos=[["?", "!"]] * 30 + [["NN"] * 2] * 30)),
    "lists of other lengths": ("keywords", documents(pos=put([["NN"] * 2] * 60, [40], ["NN"]))),
    "another type": ("keywords", documents(doc_id=list(range(60)))),
    "numbers": ("experts", table_of_numbers()),
    "numbers that are none": ("experts", table_of_numbers(x=put(range(60), [1, 33], np.nan))),
    "many that are none": ("experts", table_of_numbers(x=put(range(60), range(9, 59), np.inf))),
    "a label of 2": ("experts", table_of_numbers(label=put(np.arange(60) % 2, [58], 2))),
    "two rows of a name": ("experts", table_of_numbers(id=put(NAMES, [59], "n0"))),
    "categories": ("features", categories()),
    "categories without a name": ("features", categories(id=put(NAMES, [55], None))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_faults_piece_by_piece(case, tmp_path, monkeypatch):
    name, table = CASES[case]
    family = pipeline_named(name)
    url = str(tmp_path / "x.parquet")
    pq.write_table(table, url, row_group_size=25)
    (file,) = storage.expand(url, [])
    whole = family.check(file, family.settings())
    monkeypatch.setattr(slabs, "SLAB", 200)
    assert len(list(slabs.slabs(url))) > 3
    pieces = family.check(file, family.settings())
    assert sorted(map(str, pieces.faults)) == sorted(map(str, whole.faults))
    assert pieces.rows == whole.rows
    if not whole.faults:
        assert pieces == whole


@pytest.mark.slow
def test_a_large_file_is_not_held_whole(tmp_path):
    """What Arrow holds while a row group of 160 MB is read: a part of it."""
    url = str(tmp_path / "large.parquet")
    rows = 20_000
    values = pa.array(np.random.default_rng(0).standard_normal(rows * 1000))
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * 1000)
    table = pa.table({"x": pa.ListArray.from_arrays(offsets, values)})
    size = table.nbytes
    pq.write_table(table, url, row_group_size=rows, compression="none")
    del table, values, offsets
    gc.collect()
    before, peak, stop = pa.total_allocated_bytes(), [0], threading.Event()

    def watch():
        while not stop.wait(0.001):
            peak[0] = max(peak[0], pa.total_allocated_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    seen = sum(batch.num_rows for batch in storage.read_batches(url, 500))
    part = storage.read_rows(url, 9_000, 9_500)
    stop.set()
    watcher.join()
    assert (seen, part.num_rows) == (rows, 500)
    assert size > 150e6
    assert peak[0] < size / 2


def test_names_of_several_lists_are_compared_by_their_hashes(monkeypatch):
    """Also where all hashes are equal, and where nothing is: as a table of all names says."""
    rng = np.random.default_rng(0)
    lists = [
        [str(n) if n else "" for n in rng.choice(400, 60, replace=False).tolist()] for _ in range(4)
    ]
    flat = [(k, name) for k, own in enumerate(lists) for name in own]
    first = {}
    expected = {
        place: first[name][1]
        for place, (k, name) in enumerate(flat)
        if name and first.setdefault(name, (k, place))[1] != place
    }
    assert names.seen_before(lists) == expected
    assert expected
    monkeypatch.setattr(names, "hash", lambda name: 7, raising=False)
    assert names.seen_before(lists) == expected
    assert names.seen_before([["a", "b"], [], ["c"]]) == {}
    assert names.seen_before([["a", "a"]]) == {1: 0}
    assert names.seen_before([]) == {}


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
