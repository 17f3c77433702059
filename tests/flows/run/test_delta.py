"""Results as Delta tables: what other engines read of them, and what a stopped run leaves."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.data import storage
from flows.data.runs import RunPaths
from flows.engine.certs import make_certificates
from flows.faults import InputError, RunError
from flows.run import tables as tables_of_runs
from flows.run.delta import copies
from flows.run.launch import launch_score
from flows.run.tables import tables_of
from flows.settings import ComputeSettings
from tests.faults import pipelines
from tests.faults.stores import Rclone, enter

deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")


def run(source, target, folder, name="bags", resume=None, **changes):
    return pipelines.run(
        name, str(source), str(target), ComputeSettings(delta=str(folder)), resume, **changes
    )


def versions(folder, names=("bags", "instances", "posterior")):
    found = {name: deltalake.DeltaTable(f"{folder}/{name}") for name in names}
    return {name: (one.version(), one.history(1)[0]["vbflows.run"]) for name, one in found.items()}


def sorted_rows(table):
    return table.sort_by([(name, "ascending") for name in table.column_names[:2]])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return pipelines.simulate("bags", str(tmp_path_factory.mktemp("in")))


def test_every_table_is_read_by_another_engine_as_it_was_published(source, tmp_path):
    """Twice: the second run replaces all that the first has brought, in one commit a table."""
    polars = pytest.importorskip("polars")
    outcomes = [run(source, tmp_path / "out", tmp_path / "lake", seed=k) for k in (1, 2)]
    for number, outcome in enumerate(outcomes):
        paths = RunPaths(str(tmp_path / "out"), outcome["run_id"])
        names = tables_of(paths)
        assert {"bags", "instances"} <= set(names)
        for name in names:
            parts = [
                storage.read_table(storage.join(paths.table(name), part))
                for part in tables_of_runs.parts_of(paths, name)
            ]
            assert len(parts) == 3
            url = str(tmp_path / "lake" / name)
            seen = polars.read_delta(url, version=number).to_arrow()
            expected = pa.concat_tables(parts)
            for column in expected.column_names:
                assert sorted(seen[column].to_pylist(), key=repr) == sorted(
                    expected[column].to_pylist(), key=repr
                )
            assert deltalake.DeltaTable(url, version=number).count() == len(expected)
        line = next(line for line in outcome["lines"] if line.startswith("Delta tables below"))
        assert f"bags {number}" in line
    assert {who for _, who in versions(tmp_path / "lake").values()} == {outcomes[1]["run_id"]}
    fields = {
        f.name: f for f in deltalake.DeltaTable(str(tmp_path / "lake" / "bags")).schema().fields
    }
    assert fields["bag_id"].metadata["comment"] == "name of the bag"


@pytest.mark.parametrize("told", [False, True], ids=["alone", "told"])
def test_a_run_that_stops_between_two_tables_brings_the_others_when_resumed(
    told, source, tmp_path, monkeypatch
):
    from flows.run.delta import tables

    first = run(source, tmp_path / "out", tmp_path / "lake")
    before, replace = versions(tmp_path / "lake"), tables.replace

    def refuse_instances(url, *rest):
        if url.endswith("instances"):
            raise storage.StorageError("no space is left there")
        return replace(url, *rest)

    monkeypatch.setattr(tables, "replace", refuse_instances)
    with pytest.raises(RunError, match="--resume") as caught:
        run(source, tmp_path / "out", tmp_path / "lake")
    run_id = str(caught.value).rpartition("--resume ")[2]
    latest = storage.read_bytes(str(tmp_path / "out" / "latest.json")).decode()
    assert first["run_id"] in latest
    between = versions(tmp_path / "lake")
    assert between["bags"] == (before["bags"][0] + 1, run_id)
    assert between["instances"] == before["instances"]
    monkeypatch.setattr(tables, "replace", replace)
    if told:
        note = tmp_path / "out" / "runs" / run_id / "work" / "delta.json"
        note.write_bytes(note.read_bytes()[:-9])
        with pytest.raises(storage.DamagedError, match="again, with --delta"):
            pipelines.run("bags", source, str(tmp_path / "out"), None, run_id)
        run(source, tmp_path / "out", tmp_path / "lake", resume=run_id)
    else:  # where the tables were to be is known from the run
        pipelines.run("bags", source, str(tmp_path / "out"), None, run_id)
    after = versions(tmp_path / "lake")
    assert after["bags"] == between["bags"]
    assert after["instances"] == (before["instances"][0] + 1, run_id)
    latest = storage.read_bytes(str(tmp_path / "out" / "latest.json")).decode()
    assert run_id in latest


def test_a_table_that_a_run_does_not_have_is_emptied(source, tmp_path):
    run(source, tmp_path / "out", tmp_path / "lake", model="embedding")
    assert deltalake.DeltaTable(str(tmp_path / "lake" / "reasons")).count() > 0
    run(source, tmp_path / "out", tmp_path / "lake")
    reasons = deltalake.DeltaTable(str(tmp_path / "lake" / "reasons"))
    assert reasons.count() == 0
    assert reasons.schema().fields


def test_a_folder_with_another_targets_tables_is_refused_before_the_run(source, tmp_path):
    run(source, tmp_path / "out", tmp_path / "lake")
    deltalake.write_deltalake(str(tmp_path / "theirs" / "bags"), pa.table({"a": [1]}))
    for folder in ("lake", "theirs"):
        with pytest.raises(InputError, match="choose a folder of its own for each target"):
            run(source, tmp_path / "other", tmp_path / folder)
    assert not (tmp_path / "other").exists()
    assert deltalake.DeltaTable(str(tmp_path / "theirs" / "bags")).version() == 0


def test_what_is_no_place_for_tables_is_refused(source, tmp_path):
    for folder in ("https://lake.example/a", "memory://lake"):
        with pytest.raises(InputError, match="expected a path or s3://"):
            run(source, tmp_path / "out", folder)


def test_a_folder_with_a_secret_is_refused_before_anything_records_it(source, tmp_path):
    with pytest.raises(InputError, match="URLs stand in logs") as caught:
        run(source, tmp_path / "out", "s3://key:canary@lake/bags")
    assert "canary" not in str(caught.value)


def test_scores_are_delta_tables_too(source, tmp_path):
    run(source, tmp_path / "out", tmp_path / "lake")
    scored = launch_score(
        str(tmp_path / "out"),
        str(source),
        str(tmp_path / "scored"),
        ComputeSettings(delta=str(tmp_path / "scores")),
        False,
    )
    found = deltalake.DeltaTable(str(tmp_path / "scores" / "bags"))
    assert found.history(1)[0]["vbflows.run"] == scored["run_id"]


def test_names_that_engines_refuse_are_written_without_what_they_refuse(tmp_path):
    paths = RunPaths(str(tmp_path / "out"), "r1")
    table = pa.table(
        {"id": ["a"], "probability_Iris setosa": [0.5], "probability_Iris_setosa": [0.25]}
    )
    storage.write_table(paths.table("rows", 0), table)
    storage.write_table(paths.table("posterior", 0), table)
    found = copies.copy_tables(
        paths,
        str(tmp_path / "lake"),
        lambda function, items, *rest: [function(i, *rest) for i in items],
    )
    written = pq.read_table(tmp_path / "lake" / "rows" / found.tables["rows"][0].name)
    assert written.column_names == ["id", "probability_Iris_setosa", "probability_Iris_setosa_"]
    assert written.columns[1].to_pylist() == [0.5]


@pytest.mark.parametrize("protocol", ["http", "https"])
def test_delta_tables_on_an_object_store(protocol, source, tmp_path, monkeypatch):
    (tmp_path / "s3" / "lake").mkdir(parents=True)
    options, certificates = (), tmp_path / "certificates"
    if protocol == "https":
        make_certificates(str(certificates), ["127.0.0.1"])
        own, key = certificates / "scheduler.pem", certificates / "scheduler-key.pem"
        options = ("--cert", str(own), "--key", str(key))
    server = Rclone(tmp_path / "s3", *options)
    try:
        enter(monkeypatch, server.url.replace("http", protocol))
        if protocol == "https":
            monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
        run(source, tmp_path / "out", "s3://lake/bags")
        again = run(source, tmp_path / "out", "s3://lake/bags")
        with pytest.raises(InputError, match="a folder of its own"):
            run(source, tmp_path / "other", "s3://lake/bags")
        with pytest.raises(InputError, match="no bucket"):
            run(source, tmp_path / "out", "s3://none/bags")
    finally:
        server.kill()
    folder = tmp_path / "s3" / "lake" / "bags"
    assert {one for one in versions(folder).values()} == {(1, again["run_id"])}
    assert deltalake.DeltaTable(str(folder / "bags")).count() == pipelines.ROWS["bags"]


@pytest.mark.parametrize(("folder", "expected"), [
    ("p%41q", "a folder without %"),
    ("s3://lake/a#b", "a folder without #"),
    ("out/runs", "not among the runs of the target"),
    ("out/runs/lake", "not among the runs of the target"),
])  # fmt: skip
def test_folders_that_would_be_mistaken_are_refused_before_the_run(
    folder, expected, source, tmp_path
):
    with pytest.raises(InputError, match=expected):
        run(source, tmp_path / "out", folder if "://" in folder else tmp_path / folder)
    assert not list(tmp_path.iterdir())


def test_a_run_that_stops_while_it_copies_knows_where_to_when_resumed(
    source, tmp_path, monkeypatch
):
    from flows.run import outcome

    def refuse(*_):
        raise storage.StorageError("no space is left there")

    with monkeypatch.context() as patch:
        patch.setattr(outcome, "copy_tables", refuse)
        with pytest.raises(RunError, match="--resume") as caught:
            run(source, tmp_path / "out", tmp_path / "lake")
    run_id = str(caught.value).rpartition("--resume ")[2]
    pipelines.run("bags", source, str(tmp_path / "out"), None, run_id)
    assert {one for one in versions(tmp_path / "lake").values()} == {(0, run_id)}


@pytest.mark.parametrize("earlier", [[], ["r1"]])
def test_a_commit_that_another_comes_before_is_made_again(earlier, tmp_path, monkeypatch):
    from flows.run.delta import tables

    url, table = str(tmp_path / "rows"), pa.table({"x": [1]})
    names = {run_id: f"{run_id}-part-00000.parquet" for run_id in (*earlier, "r2", "r3")}

    def replace(run_id):
        path = f"{url}/{names[run_id]}"
        storage.write_table(path, table)
        files = [(names[run_id], storage.size_of(path), 1)]
        return tables.replace(url, "latest results", run_id, table.schema, files)

    for run_id in earlier:
        replace(run_id)
    opened = tables._opened

    def overtaken(place):
        found = opened(place)
        monkeypatch.setattr(tables, "_opened", opened)
        replace("r2")
        return found

    monkeypatch.setattr(tables, "_opened", overtaken)
    assert replace("r3") == len(earlier) + 1
    found = deltalake.DeltaTable(url)
    assert [one.rpartition("/")[2] for one in found.file_uris()] == [names["r3"]]
    assert [one["vbflows.run"] for one in found.history()] == ["r3", "r2", *earlier]


def test_tables_in_the_folder_of_the_input_are_not_read_as_input(source, tmp_path):
    folder = tmp_path / "in"
    for _ in range(2):
        storage.copy(str(source), str(folder / "bags.parquet"))
        outcome = run(folder, folder, folder)
    assert outcome["rows_read"] == run(source, tmp_path / "out", tmp_path / "lake")["rows_read"]
    table = storage.expand(str(folder / "bags"), (".parquet",))
    assert len(table) == 6  # who names a table means it


def test_names_of_columns_differ_in_more_than_their_case():
    schema = pa.schema([(name, pa.float64()) for name in ("p_A", "p_a", "p a")])
    assert copies.fit_names(schema) == ["p_A", "p_a_", "p_a__"]


def test_a_table_that_cannot_be_read_is_refused_before_the_run(source, tmp_path):
    log = tmp_path / "lake" / "bags" / "_delta_log"
    deltalake.write_deltalake(str(log.parent), pa.table({"a": [1]}))
    (log / f"{0:020}.json").write_text("{garbage")
    with pytest.raises(InputError, match=r"expected Delta tables that can be read.*bags"):
        run(source, tmp_path / "out", tmp_path / "lake")
    assert not (tmp_path / "out").exists()
