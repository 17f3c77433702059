import json
import os
from datetime import UTC, datetime

import pytest

from flows import storage
from flows.fit.versions import PACKAGES
from flows.records import json_files
from flows.records.runs import (
    RUN,
    PublishError,
    RunPaths,
    RunRecord,
    complete,
    mark_latest,
    open_run,
    versions,
)


def record(run_id="r1", **changes):
    now = datetime(2026, 1, 2, tzinfo=UTC)
    values = {
        "run_id": run_id, "pipeline": "keywords", "source": "in", "settings": {"fdr": 0.1},
        "versions": versions(), "started": now, "finished": now, "seconds": 1.0,
        "peak_memory_bytes": 2**20, "inputs": [], "rows_read": 2, "rows_kept": 1, "dropped": [],
        "partitions": 1, "iterations": 3, "converged": True, "elbo": -1.5, "warnings": [],
    }  # fmt: skip
    return RunRecord(**{**values, **changes})


def test_latest_is_named_last_and_working_files_go(tmp_path, monkeypatch):
    paths = RunPaths(str(tmp_path), "r1")
    storage.own(paths.root, RUN)
    storage.write_bytes(storage.join(paths.work, "globals"), b"1")
    written, original = [], storage.write_bytes

    def write(url, data, **options):
        written.append(url)
        original(url, data, **options)

    for module in (storage, json_files):
        monkeypatch.setattr(module, "write_bytes", write)
    complete(paths, record())
    mark_latest(paths, record())
    assert [url.rsplit("/", 1)[-1] for url in written] == ["run.json", "latest.json"]
    assert not storage.exists(paths.work)
    assert json.loads((tmp_path / "latest.json").read_text())["run_id"] == "r1"


def test_what_a_killed_worker_left_half_written_is_not_published(tmp_path):
    """Another worker wrote the same table whole; what begins with a dot but is no part stays."""
    paths = RunPaths(str(tmp_path), "r1")
    storage.own(paths.root, RUN)
    for name in (".part-00000.parquet.0123abcd.part", "part-00000.parquet", ".mine"):
        storage.write_bytes(storage.join(paths.root, "keywords", name), b"1")
    complete(paths, record())
    mark_latest(paths, record())
    assert sorted(os.listdir(tmp_path / "runs" / "r1" / "keywords")) == [
        ".mine", "part-00000.parquet",
    ]  # fmt: skip


def test_a_run_is_found_by_its_target_or_its_folder(tmp_path):
    for run_id in ("r1", "r2"):
        paths = RunPaths(str(tmp_path), run_id)
        storage.own(paths.root, RUN)
        complete(paths, record(run_id))
        mark_latest(paths, record(run_id))
    assert open_run(str(tmp_path))[1].run_id == "r2"
    assert open_run(str(tmp_path / "runs" / "r1"))[1].run_id == "r1"


def test_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(PublishError, match="expected a finished run, found a folder without runs"):
        open_run(str(tmp_path))
    storage.write_bytes(str(tmp_path / "runs" / "r1" / "work" / "x"), b"")
    with pytest.raises(PublishError, match="has not finished"):
        open_run(str(tmp_path / "runs" / "r1"))


def test_a_record_has_the_versions_of_what_a_run_imports():
    found = versions()
    assert set(PACKAGES) - set(found) == {"llvmlite"}  # which comes with numba
    assert {"python", "vbflows", "prefect", "s3fs", "pysam"} <= set(found)
    assert not {"pytest", "sphinx", "ruff"} & set(found)
