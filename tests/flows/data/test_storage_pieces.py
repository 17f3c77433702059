"""Files far larger than what may be held: read and checked in pieces, with the same result."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from flows import storage

ROOT = Path(__file__).resolve().parents[3]


def csv_of(path, rows, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(columns)]
    cells = {n: pa.array(rng.choice(["a", "b", "NA", ""], rows)) for n in names}
    pc.write_csv(pa.table({"id": [f"r{i}" for i in range(rows)], **cells}), path)
    return str(path)


@pytest.mark.parametrize("span", [(0, None), (777, 4321), (4999, 6000)])
def test_csv_in_pieces_is_the_whole(tmp_path, monkeypatch, span):
    monkeypatch.setattr("flows.storage.formats.text_files.BLOCK", 1000)
    url = csv_of(tmp_path / "x.csv", 5000)
    whole = storage.read_table(url)
    assert whole.num_rows == 5000
    assert whole["c0"].null_count > 1000
    assert set(whole.schema.types) == {pa.string()}
    start, stop = span
    expected = whole.slice(start, None if stop is None else stop - start)
    assert storage.read_rows(url, start, 5000 if stop is None else stop).equals(expected)


def test_lines_within_quotes_may_be_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr("flows.storage.formats.text_files.BLOCK", 4000)
    path = tmp_path / "x.csv"
    texts = ["".join(f"line {k}\n" for k in range(50 + i)) for i in range(40)]
    table = pa.table({"id": [f"r{i}" for i in range(40)], "text": texts})
    pc.write_csv(table, path)
    assert storage.read_table(str(path)).equals(table)
    assert storage.read_rows(str(path), 7, 31).equals(table.slice(7, 24))


def test_an_empty_line_of_a_single_column_is_a_missing_cell(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\nx\n\ny\n\n")
    assert storage.read_table(str(path))["a"].to_pylist() == ["x", None, "y", None]
    path.write_text("a\nx")
    assert storage.read_table(str(path))["a"].to_pylist() == ["x"]
    path.write_text("\na\nx\n")  # above the names it is none
    assert storage.read_table(str(path))["a"].to_pylist() == ["x"]
    path.write_text("\n\n")
    with pytest.raises(storage.StorageError, match="it is empty"):
        storage.read_table(str(path))
    path.write_text("a,b\nx,y\n\ny,z\n\n")
    assert storage.read_table(str(path))["a"].to_pylist() == ["x", "y"]


def bags_of(path, rows, width=8, per_bag=10, seed=0):
    rng = np.random.default_rng(seed)
    bag = np.arange(rows) // per_bag
    values = rng.standard_normal((rows, width))
    own = rng.standard_normal((bag[-1] + 1, 2))[bag]
    columns = {
        "bag_id": [f"b{b}" for b in bag],
        "instance_id": [f"i{i}" for i in range(rows)],
        "label": (bag % 2).astype(np.int8),
        "features": list(values),
        "bag_features": list(own),
    }
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return str(path)


PEAK = """
import json, resource, sys
from flows import storage
from flows.catalogue import pipeline_named
name, url, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
family = pipeline_named(name)
chosen = family.settings(**settings)
(file,) = storage.expand(sys.argv[4], family.suffixes)
header = family.read_header(file, chosen)  # loads what a check needs
family.check(*family.plan([file], [header], chosen), chosen)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(file,) = storage.expand(url, family.suffixes)
header = family.read_header(file, chosen)
parts = family.plan([file], [header], chosen)
pieces = [piece for part in parts for piece in family.check(part, chosen)]
checked = family.merge(file, header, pieces, chosen)
assert not checked.faults, checked.faults[:3]
last = parts[-1]
if name == "features":
    import tempfile
    from flows.records.runs import RunPaths
    family.ingest(last, chosen, RunPaths(tempfile.mkdtemp(), "20260101T000000-000000"))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"rows": checked.rows, "bytes": (after - before) * 1024}))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["features", "bags"])
def test_memory_is_bounded_by_a_partition(tmp_path, name):
    """A file of several times the bound is checked, and its last partition read, below it."""
    if name == "features":
        small = csv_of(tmp_path / "small.csv", 100)
        large, settings = str(tmp_path / "x.csv"), {"n_features": 2}
        header, *lines = Path(csv_of(tmp_path / "part.csv", 2000, 2000)).read_text().splitlines()
        with open(large, "w") as file:
            file.write(header + "\n")
            for k in range(64):
                file.write("".join(f'"{k}{line[1:]}\n' for line in lines))
        bound = 600 * 2**20  # a partition, what the allocator keeps, and the names of all rows
    else:
        small = bags_of(tmp_path / "small.parquet", 100)
        large, settings = str(tmp_path / "x.parquet"), {}
        writer = None
        for k in range(20):
            part = pq.read_table(bags_of(tmp_path / "p.parquet", 20_000, 250, seed=k))
            place = part.column_names.index("bag_id")
            named = pa.array([f"{k}-{b}" for b in part["bag_id"].to_pylist()])
            part = part.set_column(place, "bag_id", named)
            writer = writer or pq.ParquetWriter(large, part.schema)
            writer.write_table(part, row_group_size=20_000)
        writer.close()
        bound = 350 * 2**20
    size = Path(large).stat().st_size
    assert size > 1.5 * bound
    done = subprocess.run(
        [sys.executable, "-c", PEAK, name, large, json.dumps(settings), small],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["bytes"] < bound, (found, size)
