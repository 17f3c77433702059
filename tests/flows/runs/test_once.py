"""A fault that ingest meets is reported as a check of all files reports it, and nothing is left."""

import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.events import Events, Stage, listening
from flows.faults import InputError, RunError
from flows.records.runs import RunPaths
from flows.run import run as launch
from flows.run import score as launch_score
from flows.runs import checking, incremental
from flows.runs.context import Run
from flows.settings import ComputeSettings
from flows.storage.objects import contents
from tests.faults import pipelines, stores
from tests.faults.proxy import Proxy

ID = {"keywords": "doc_id", "features": "id", "experts": "id"}


def with_cell(table, name, row, value):
    cells = table[name].to_pylist()
    cells[row] = value
    kind = pa.string() if isinstance(value, str) and value == "three" else table[name].type
    if kind != table[name].type:
        cells = [None if cell is None else str(cell) for cell in cells]
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(cells, kind))


def first_of(kind):
    return lambda table: next(f.name for f in table.schema if kind(f.type))


number = first_of(pa.types.is_floating)


def again(name):
    """Give the last row the name of the first, which is in another partition."""
    return lambda table: with_cell(table, ID[name], len(table) - 1, table[ID[name]][0].as_py())


def infinite(table):
    return with_cell(table, number(table), len(table) - 1, np.inf)


def word(table):
    return with_cell(table, number(table), len(table) - 1, "three")


def one_label(table):
    place = table.column_names.index("label")
    return table.set_column(place, "label", pc.if_else(table["label"].is_valid(), 1, None))


def narrower(table):
    features = table["features"].to_pylist()
    last = max(i for i, one in enumerate(features) if one)
    return with_cell(table, "features", last, features[last][:-1])


def gap(table):
    features = table["features"].to_pylist()
    last = max(i for i, one in enumerate(features) if one)
    return with_cell(table, "features", last, [float("inf"), *features[last][1:]])


def label_of_a_row(table):
    """Give the last labelled row of a bag with several another label than the rows before."""
    bags, labels = table["bag_id"].to_pylist(), table["label"].to_pylist()
    row = max(i for i in range(1, len(bags)) if bags[i] == bags[i - 1] and labels[i] is not None)
    return with_cell(table, "label", row, 1 - labels[row])


FAULTS = {
    "two documents of a name": ("keywords", again("keywords")),
    "two rows of a name": ("features", again("features")),
    "two rows of a name in a table": ("experts", again("experts")),
    "an infinite number": ("experts", infinite),
    "a word among numbers": ("experts", word),
    "labels of one class": ("experts", one_label),
    "features of another width": ("bags", narrower),
    "infinity in features": ("bags", gap),
    "two labels of a bag": ("bags", label_of_a_row),
    "bags of one label": ("bags", one_label),
    "a depth below zero": ("variants", lambda t: with_cell(t, "A", len(t) - 1, -1)),
    "a contig that no VCF can name": ("variants", lambda t: with_cell(t, "chrom", 0, "a b")),
}


def written(case, folder):
    name, change = FAULTS[case]
    url = pipelines.simulate(name, str(folder / "in"))
    pq.write_table(change(pq.read_table(url)), url, row_group_size=64)
    return name, url


def faults_of_a_check(name, url):
    family = pipeline_named(name)
    settings = family.settings(**{"partitions": 3, **pipelines.SETTINGS[name]})
    run = Run(family, url, RunPaths("nowhere", "check"), settings, Events())
    with pytest.raises(InputError) as refused:
        checking.look_at_files(run, rows=True)
    return refused.value.faults


def files_in(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_in_rows_is_reported_as_by_a_check_and_nothing_is_left(case, tmp_path, monkeypatch):
    """And every row is read once."""
    name, url = written(case, tmp_path)
    read, spans = storage.read_rows, []

    def recorded(url, start, stop, *columns):
        spans.append((start, stop))
        return read(url, start, stop, *columns)

    monkeypatch.setattr(storage, "read_rows", recorded)
    monkeypatch.setattr(storage, "read_table", lambda url, *_: pytest.fail(f"{url} is read whole"))
    with pytest.raises(InputError) as refused:
        pipelines.run(name, url, str(tmp_path / "out"))
    monkeypatch.undo()
    ends = [stop for _, stop in sorted(spans)]
    assert sorted(spans) == list(zip([0, *ends], ends, strict=False))
    assert ends[-1] == pq.read_metadata(url).num_rows
    assert refused.value.faults == faults_of_a_check(name, url)
    assert not (tmp_path / "out").exists()


def test_faults_of_all_files_come_together_with_those_of_columns(tmp_path):
    """One file lacks a column, as its footer shows, and another has infinity in its last row."""
    name, url = written("infinity in features", tmp_path)
    other = pq.read_table(url).drop_columns(["features"])
    pq.write_table(other, tmp_path / "in" / "other.parquet")
    with pytest.raises(InputError) as refused:
        pipelines.run(name, str(tmp_path / "in"), str(tmp_path / "out"))
    assert refused.value.faults == faults_of_a_check(name, str(tmp_path / "in"))
    assert {fault.row is None for fault in refused.value.faults} == {True, False}


def test_what_was_there_stays(tmp_path):
    url = pipelines.simulate("experts", str(tmp_path / "in"))
    pipelines.run("experts", url, str(tmp_path / "out"))
    before = {file: os.stat(file).st_mtime_ns for file in files_in(tmp_path / "out")}
    pq.write_table(infinite(pq.read_table(url)), url)
    with pytest.raises(InputError, match="a finite number"):
        pipelines.run("experts", url, str(tmp_path / "out"))
    with pytest.raises(InputError, match="a finite number"):
        launch_score(str(tmp_path / "out"), url, str(tmp_path / "out"), ComputeSettings())
    assert {file: os.stat(file).st_mtime_ns for file in files_in(tmp_path / "out")} == before


@pytest.mark.parametrize("name", ["features", "experts"])
def test_names_are_compared_though_another_file_names_no_rows(name, tmp_path):
    """One file names a row twice, in two partitions; the other leaves its rows without names."""
    url = pipelines.simulate(name, str(tmp_path / "in"))
    rows = pq.read_table(url)
    pq.write_table(rows.drop_columns(["id"]), tmp_path / "in" / "zz.parquet")
    pq.write_table(again(name)(rows), url)
    with pytest.raises(InputError, match="a name of its own"):
        pipelines.run(name, str(tmp_path / "in"), str(tmp_path / "out"))
    pq.write_table(rows, url)
    pq.write_table(rows, tmp_path / "in" / "y.parquet")
    with pytest.raises(InputError, match="a name used once over all files"):
        pipelines.run(name, str(tmp_path / "in"), str(tmp_path / "out"))


class _Killed(BaseException):
    pass


def test_a_run_that_was_killed_while_it_checked_is_refused_when_resumed(tmp_path, monkeypatch):
    """The fault is in its last partition: the others are done, and nothing is left of them."""
    name, url = written("an infinite number", tmp_path)
    apply, calls = incremental._made, []

    def stops(group, *args):
        calls.append(group)
        if len(calls) == 3:
            raise _Killed
        return apply(group, *args)

    monkeypatch.setattr(incremental, "_made", stops)
    monkeypatch.setattr("flows.runs.resume.forget", lambda *_: None)  # as kill -9 does
    with pytest.raises(_Killed):
        pipelines.run(name, url, str(tmp_path / "out"))
    (run_id,) = os.listdir(tmp_path / "out" / "runs")
    monkeypatch.undo()
    with pytest.raises(InputError) as refused:
        pipelines.run(name, url, str(tmp_path / "out"), resume=run_id)
    assert refused.value.faults == faults_of_a_check(name, url)
    assert not files_in(tmp_path / "out")


def test_a_file_that_changes_while_it_is_read_is_not_called_wrong(tmp_path, monkeypatch):
    url = pipelines.simulate("experts", str(tmp_path / "in"))
    apply = incremental._made

    def changes(group, *args):
        pq.write_table(infinite(pq.read_table(url)), url)
        return apply(group, *args)

    monkeypatch.setattr(incremental, "_made", changes)
    with pytest.raises(RunError, match="has changed"):
        pipelines.run("experts", url, str(tmp_path / "out"))


def test_a_file_that_is_mended_before_it_is_checked_again_is_not_taken(tmp_path, monkeypatch):
    """Ingest has read a name twice: that the file has it once by now does not make that right."""
    name, url = written("two rows of a name in a table", tmp_path)
    made = incremental.ingest

    def mends(run):
        found = made(run)
        pq.write_table(pq.read_table(url).slice(1), url)
        return found

    monkeypatch.setattr(incremental, "ingest", mends)
    with pytest.raises(RunError, match="has changed"):
        pipelines.run(name, url, str(tmp_path / "out"))


def test_access_that_is_lost_while_rows_are_read_is_no_fault_of_the_input(tmp_path, monkeypatch):
    """What was read until then stays for a resume."""
    url = pipelines.simulate("experts", str(tmp_path / "in"))
    read, calls = storage.read_rows, []

    def refused(*args):
        calls.append(args)
        if len(calls) == 3:
            raise storage.StorageError(f"cannot read {url}: permission denied")
        return read(*args)

    monkeypatch.setattr(storage, "read_rows", refused)
    with pytest.raises(RunError, match="permission denied; nothing was published"):
        pipelines.run("experts", url, str(tmp_path / "out"))
    (run_id,) = os.listdir(tmp_path / "out" / "runs")
    pipelines.run("experts", url, str(tmp_path / "out"), resume=run_id)
    assert len(calls) == 4


class _Enough(Exception):
    pass


class _UntilRead:
    def on_event(self, event):
        if event == Stage("prepare"):
            raise _Enough


def bytes_requested(proxy, name, size):
    """Return the bytes of an object that were requested, and how many times."""
    sizes = []
    for head in proxy.heads:
        if head.startswith("GET ") and name in head.partition("\r\n")[0]:
            span = re.search(r"(?i)^range: *bytes=(\d*)-(\d*)", head, re.MULTILINE)
            first, last = (0, size - 1) if span is None else (span[1], span[2] or size - 1)
            last = min(int(last), size - 1)  # a range may end behind the object
            sizes.append(int(last) - int(first) + 1 if first != "" else int(last))
    return sum(sizes), len(sizes)


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("small", [True, False])
def test_an_object_is_read_once(small, wrong, tmp_path, monkeypatch):
    """But for its footer, of which Arrow requests 64 KiB; also of one that comes in one request.

    And of one with a fault, in its last rows.

    Footers are read for each of: the columns' names, whether there are bags enough to hold
    some out, how to cut, and what a task reads.
    """
    (tmp_path / "s3" / "in").mkdir(parents=True)
    server = stores.Rclone(tmp_path / "s3")
    proxy = Proxy(server.port)
    try:
        url = pipelines.simulate("bags", str(tmp_path / "s3" / "in"), 500)
        if wrong:
            groups = pq.read_metadata(url).row_group(0).num_rows
            pq.write_table(gap(pq.read_table(url)), url, row_group_size=groups)
        size = os.path.getsize(url)
        if not small:
            monkeypatch.setattr(contents, "SMALL", 0)
        stores.enter(monkeypatch, proxy.url)
        settings = pipeline_named("bags").settings(**pipelines.SETTINGS["bags"], partitions=8)
        source = f"s3://in/{os.path.basename(url)}"
        with pytest.raises(InputError if wrong else _Enough), listening(_UntilRead()):
            launch("bags", source, str(tmp_path / "out"), settings, ComputeSettings())
        read, times = bytes_requested(proxy, os.path.basename(url), size)
        assert times == 1 if small else times < 20
        assert size <= read <= 1.05 * size + 8 * 2**16, times
    finally:
        proxy.close()
        server.kill()


def test_a_text_on_a_store_is_checked_and_read_by_one_request(tmp_path, monkeypatch):
    """Of a thousand texts each request costs a minute."""
    (tmp_path / "s3" / "in").mkdir(parents=True)
    for name in "abcd":
        (tmp_path / "s3" / "in" / f"{name}.txt").write_text(f"Rivers {name} carry sand. " * 9)
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))
    server = stores.Rclone(tmp_path / "s3")
    proxy = Proxy(server.port)
    try:
        stores.enter(monkeypatch, proxy.url)
        family = pipeline_named("keywords")
        settings, paths = family.settings(keyphrases=2), RunPaths("nowhere", "check")
        checking.look_at_files(Run(family, "s3://in", paths, settings, Events()), rows=True)
        storage.small_files.release()
        launch("keywords", "s3://in", str(tmp_path / "out"), settings, ComputeSettings())
        requests = [line.split()[0] for line in proxy.seen if "/in/a.txt" in line]
        assert requests == ["GET", "GET"]  # of the check, and of the run
    finally:
        proxy.close()
        server.kill()
