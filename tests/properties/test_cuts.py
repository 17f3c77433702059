"""The same rows in one file or many, cut into any partitions, are the same input."""

import csv
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import storage
from flows.catalogue import pipeline_named
from flows.records.runs import RunPaths
from flows.storage import InputFile
from flows.tables.partition import cut
from vbmodels.tables.cells import NOT_ASKED


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 200))
def test_cuts_are_those_of_the_definition(rows, count):
    files = [InputFile(f"f{i:06d}", 10, str(i)) for i in range(len(rows))]
    parts = cut(files[::-1], rows[::-1], 1000, count)
    place = [(f, r) for f, n in enumerate(rows) for r in range(n)]
    count = max(1, min(count, len(place)))
    assert [part.index for part in parts] == list(range(count))
    found = [
        [(int(s.url[1:]), r) for s in part.slices for r in range(s.start, s.stop)] for part in parts
    ]
    edges = [len(place) * i // count for i in range(count + 1)]
    assert found == [place[low:high] for low, high in itertools.pairwise(edges)]
    for part in parts:
        assert len({s.url for s in part.slices}) == len(part.slices)
        assert all(s.start < s.stop and s.fingerprint == str(int(s.url[1:])) for s in part.slices)


CELLS = st.sampled_from(["1.5", "2", "-3", "", "NA", "7.25", "100"])
WORDS = st.sampled_from(["red", "green", "blue", "", "n/a"])
COUNTS = st.sampled_from(["0", "3", "250", "9", "1", "12"])
COLUMNS = {
    "experts": {
        "age": CELLS,
        "colour": WORDS,
        "label": st.sampled_from(["yes", "no"]),
        "w": COUNTS,
    },
    "features": {"age": CELLS, "colour": WORDS, "often": st.sampled_from(["never", "always", ""])},
    "bags": {"x": CELLS, "colour": WORDS},
    "keywords": {
        "text": st.text("ab c.", min_size=1, max_size=20).filter(str.strip),
        "keywords": st.sampled_from(["", "a b", "c;b"]),
    },
    "variants": dict.fromkeys("ACGT", COUNTS),
}
"""Cells of columns, and below those that are wrong in rows."""
WRONG = {
    "experts": [("w", "-1"), ("id", ""), ("id", "r00")],
    "features": [("id", ""), ("id", "r00")],
    "bags": [("x", "inf"), ("label", "2"), ("bag_id", ""), ("x", "one")],
    "keywords": [("text", ""), ("doc_id", ""), ("doc_id", "r00")],
    "variants": [("A", "-1"), ("pos", "0"), ("ref", "x"), ("sample", "")],
}
SETTINGS = {
    "experts": {"columns": {"weight": "w"}},
    "features": {},
    "bags": {"model": "embedding", "columns": {"features": "x"}},
    "keywords": {},
    "variants": {"case": "case", "control": "control"},
}
KEPT = {
    "experts": ("rows",),
    "features": ("cells",),
    "bags": ("bag_rows", "instance_rows"),
    "keywords": ("documents", "listed", "texts"),
    "variants": ("slices",),
}
LOCAL = {"place", "bag", "row", "document", "start"}  # columns that count the rows of a partition
UNITS = 3  # rows of a bag, which no file cuts


def named(family, i):
    """Return what names a row: that of its bag or place, or its own."""
    if family == "variants":
        sample = ("case", "control")[i % 2]
        return {
            "chrom": "c1",
            "pos": str(1 + i // 2),
            "ref": "A",
            "sample": sample,
            "replicate": "1",
        }
    if family == "bags":
        return {"bag_id": f"b{i // UNITS:02d}", "label": str(i // UNITS % 2)}
    return {"doc_id" if family == "keywords" else "id": f"r{i:02d}"}


@st.composite
def inputs(draw, name):
    """Return rows as dictionaries of text, where files begin, and numbers of partitions."""
    row = st.fixed_dictionaries(COLUMNS[name])
    rows = draw(st.lists(row, min_size=4, max_size=14))
    rows = [named(name, i) | one for i, one in enumerate(rows)]
    if draw(st.booleans()):
        for i in draw(st.sets(st.integers(1, len(rows) - 1), min_size=1)):
            column, cell = draw(st.sampled_from(WRONG[name]))
            rows[i][column] = cell
    starts = draw(st.sets(st.integers(1, len(rows) - 1), max_size=3))
    return rows, sorted(starts), draw(st.integers(1, 6))


def write(path, rows):
    if "pos" in rows[0]:  # counts are numbers
        table = [
            {k: int(v) if k in ("pos", "replicate", *"ACGT") else v for k, v in row.items()}
            for row in rows
        ]
        pq.write_table(pa.Table.from_pylist(table), path.with_suffix(".parquet"))
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def shared(row):
    """Return what a row has in any partition: N/A beside yes and no is marked for later."""
    return {k: None if v == NOT_ASKED else v for k, v in row.items() if k not in LOCAL}


def ingested(name, folder, partitions):
    """Return the faults of files, and what is kept of their rows, in the order of the rows."""
    family = pipeline_named(name)
    settings = family.settings(**SETTINGS[name], partitions=partitions)
    files = storage.expand(str(folder), family.suffixes)
    headers = [family.read_header(file, settings) for file in files]
    faults = [str(fault) for header in headers for fault in header.faults]
    if faults:
        return faults, {}
    parts = family.plan(files, headers, settings)
    pieces = [piece for part in parts for piece in family.check(part, settings)]
    for file, header in zip(files, headers, strict=True):
        own = [piece for piece in pieces if piece.url == file.url]
        checked = family.merge(file, header, own, settings)
        faults += sorted(map(str, checked.faults))  # of the first rows first
    if faults:
        return faults, {}
    paths = RunPaths(str(folder.parent), f"run-{folder.name}-{partitions}")
    done = [family.ingest(part, settings, paths) for part in parts]
    kept = {"counts": (sum(one.rows_read for one in done), sum(one.rows_kept for one in done))}
    for table in KEPT[name]:
        of_parts = (pq.read_table(paths.part(table, part.index)) for part in parts)
        kept[table] = [shared(row) for one in of_parts for row in one.to_pylist()]
        if name == "keywords":  # documents of a partition are in an order of their own
            kept[table].sort(key=str)
    return faults, kept


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_neither_files_nor_partitions_change_what_is_read(name, data):
    rows, starts, partitions = data.draw(inputs(name))
    with TemporaryDirectory() as above:
        for folder, edges in {"one": [], "many": starts}.items():
            Path(above, folder).mkdir()
            for i, (low, high) in enumerate(itertools.pairwise([0, *edges, len(rows)])):
                write(Path(above, folder, f"{i}.csv"), rows[low:high])
        whole = ingested(name, Path(above, "one"), 1)
        assert ingested(name, Path(above, "one"), partitions) == whole
        many = ingested(name, Path(above, "many"), 1)
        assert ingested(name, Path(above, "many"), partitions) == many
        if not whole[0]:  # a name that two files have is no fault of one
            assert many == whole
