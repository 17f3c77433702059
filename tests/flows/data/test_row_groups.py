"""A row group is decoded once, however many partitions lie in it; the rows are the same."""

import io
import itertools
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.events import Stage, listening
from flows.run import run as launch
from flows.settings import ComputeSettings
from flows.storage import InputFile
from flows.storage.formats import tables
from tests.faults import pipelines


class Counting(io.FileIO):
    """A file that counts the bytes read, but for looks at its end, where the footer is."""

    def __init__(self, path, counted):
        super().__init__(path)
        self.path, self.counted = path, counted
        self.size = Path(path).stat().st_size

    def read(self, size=-1):
        found = super().read(size)
        if self.tell() < self.size:
            self.counted[self.path] = self.counted.get(self.path, 0) + len(found)
        return found

    def __del__(self):
        self.close()


@pytest.fixture
def counted(monkeypatch):
    """Count the bytes that are read of each local Parquet file, without footers."""
    counts, lock = {}, threading.Lock()
    plain = tables.arrow

    class System:
        def __init__(self, system):
            self.system = system

        def open_input_file(self, path):
            with lock:
                return pa.PythonFile(Counting(path, counts), mode="r")

    monkeypatch.setattr(tables, "arrow", lambda url: (System(plain(url)[0]), plain(url)[1]))
    yield counts
    storage.release_decoded()


def written(path, rows, group, seed=0):
    rng = np.random.default_rng(seed)
    lists = pa.array([[float(i)] * (i % 4) for i in range(rows)])
    table = pa.table(
        {"n": np.arange(rows), "x": rng.standard_normal(rows), "lists": lists,
         "text": [f"row {i}" for i in range(rows)]}
    )  # fmt: skip
    pq.write_table(table, path, row_group_size=group)
    return str(path), table


def cuts(rows, parts):
    edges = [rows * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(edges))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("group", [10_000, 999, 130])
def test_the_rows_are_those_of_the_file_and_its_bytes_are_read_once(
    tmp_path, monkeypatch, counted, large, group
):
    if large:
        monkeypatch.setattr(tables, "LARGE", 100)
        monkeypatch.setattr(tables, "PIECE", 2000)
        monkeypatch.setattr(tables, "BUFFER", 1000)
    url, table = written(tmp_path / "t.parquet", 10_000, group)
    with storage.sharing([InputFile(url, Path(url).stat().st_size, "v1")]):
        for start, stop in cuts(10_000, 37):
            assert storage.read_rows(url, start, stop).equals(table.slice(start, stop - start))
        alone = storage.read_rows(url, 0, 10_000)
    assert alone.equals(table)
    size = Path(url).stat().st_size
    assert counted[url] <= 2.0 * size  # once by parts, once as a whole


def test_rows_are_those_that_the_options_of_the_file_say(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i},x\n" for i in range(9)))
    for skipped in (0, 2):
        with storage.reading_with(storage.FileOptions(skip_rows=skipped)):
            assert storage.read_rows(str(path), 0, 3)["a"][0].as_py() == str(skipped)


ROWS = {"keywords": 300, "bags": 200, "variants": 3000, "features": 3000, "experts": 2000}


class Enough(Exception):
    """The input was read."""


class UntilRead:
    """Stops a run when its input was checked and ingested."""

    def on_event(self, event):
        if event == Stage("prepare"):
            raise Enough


@pytest.mark.parametrize("name", ROWS)
def test_a_run_reads_its_input_once(name, tmp_path, counted):
    """To check it and to ingest it, and to see where to cut it."""
    url = pipelines.simulate(name, str(tmp_path / "in"), ROWS[name])
    settings = pipeline_named(name).settings(**pipelines.SETTINGS[name], partitions=16)
    with pytest.raises(Enough), listening(UntilRead()):
        launch(name, url, str(tmp_path / "out"), settings, ComputeSettings())
    assert 0 < counted[url] <= 1.05 * Path(url).stat().st_size


def test_since_an_earlier_run_no_row_that_it_knows_is_read(tmp_path, counted):
    """Of a file that is there again only the names of its bags and a few rows are looked at."""
    url = Path(pipelines.simulate("bags", str(tmp_path / "drawn"), 80))
    table, source = pq.read_table(url).sort_by("bag_id"), tmp_path / "in"
    cut = len(table) // 2
    while table["bag_id"][cut] == table["bag_id"][cut - 1]:
        cut += 1
    source.mkdir()
    pq.write_table(table.slice(0, cut), source / "a.parquet", row_group_size=10)
    settings = pipeline_named("bags").settings(model="vmmic", max_iter=2)

    def run():
        target = str(tmp_path / "out")
        launch(
            "bags", str(source), target, settings, ComputeSettings(),
            since="latest",
        )  # fmt: skip

    run()
    pq.write_table(table.slice(cut), source / "b.parquet")
    counted.clear()
    run()
    sizes = {name: (source / name).stat().st_size for name in ("a.parquet", "b.parquet")}
    read = {Path(path).name: count for path, count in counted.items()}
    assert read["a.parquet"] < 0.2 * sizes["a.parquet"]
    assert 0.9 * sizes["b.parquet"] < read["b.parquet"] <= 1.05 * sizes["b.parquet"]
