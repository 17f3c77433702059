import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.data import json_files, storage
from flows.data.lock import claim
from flows.data.runs import (
    Dropped,
    InputRecord,
    PublishError,
    RunPaths,
    RunRecord,
    complete,
    name_latest,
    new_run_id,
    open_run,
    versions,
)
from flows.features import sections as feature_sections
from flows.report import plots
from flows.report.page import Grid, Section, render


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
    storage.write_bytes(storage.join(paths.work, "globals"), b"1")
    written, original = [], storage.write_bytes

    def write(url, data, **options):
        written.append(url)
        original(url, data, **options)

    for module in (storage, json_files):
        monkeypatch.setattr(module, "write_bytes", write)
    complete(paths, record())
    name_latest(paths, record())
    assert [url.rsplit("/", 1)[-1] for url in written] == ["run.json", "latest.json"]
    assert not storage.exists(paths.work)
    assert json.loads((tmp_path / "latest.json").read_text())["run_id"] == "r1"


def test_what_a_killed_worker_left_half_written_is_not_published(tmp_path):
    """Another worker wrote the same table whole; what begins with a dot but is no part stays."""
    paths = RunPaths(str(tmp_path), "r1")
    for name in (".part-00000.parquet.0123abcd.part", "part-00000.parquet", ".mine"):
        storage.write_bytes(storage.join(paths.root, "keywords", name), b"1")
    complete(paths, record())
    name_latest(paths, record())
    assert sorted(os.listdir(tmp_path / "runs" / "r1" / "keywords")) == [
        ".mine", "part-00000.parquet",
    ]  # fmt: skip


def test_a_run_is_found_by_its_target_or_its_folder(tmp_path):
    for run_id in ("r1", "r2"):
        complete(RunPaths(str(tmp_path), run_id), record(run_id))
        name_latest(RunPaths(str(tmp_path), run_id), record(run_id))
    assert open_run(str(tmp_path))[1].run_id == "r2"
    assert open_run(str(tmp_path / "runs" / "r1"))[1].run_id == "r1"


def test_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(PublishError, match=r"expected a target with latest\.json, .*, found"):
        open_run(str(tmp_path))
    storage.write_bytes(str(tmp_path / "runs" / "r1" / "work" / "x"), b"")
    with pytest.raises(PublishError, match="has not finished"):
        open_run(str(tmp_path / "runs" / "r1"))


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "-x", "a" * 81, "a\n", "=cmd"])
def test_a_run_id_cannot_leave_the_target(tmp_path, run_id):
    with pytest.raises(PublishError, match="cannot be a run id"):
        RunPaths(str(tmp_path), run_id)


def test_run_ids_do_not_repeat():
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert len({new_run_id(moment) for _ in range(100)}) > 95


def test_the_report_escapes_what_comes_from_the_input():
    evil = "<script>alert(1)</script>"
    html = render(
        record(
            source=evil, warnings=[evil], settings={evil: evil},
            inputs=[InputRecord(url=evil, size=1, fingerprint="x", rows=1)],
            dropped=[Dropped(reason=evil, count=1, examples=[evil])],
        ),
        evil,
        [Section(evil, evil, [plots.bars([evil], [1], evil, evil)], [Grid([evil], [[evil]])])],
    )  # fmt: skip
    assert evil not in html
    assert html.count("<script") == 1  # the page's own
    assert html.count("&lt;script&gt;") >= 10


def test_plots_take_their_colours_from_the_page():
    for svg in (
        plots.trace([0, 1, 2], [-3.0, -2.0, -1.0]),
        plots.histogram([0.1, 0.9], "probability", "words", "spread"),
        plots.bars(["a$x", "b"], [1, 2], "count", "words"),
        plots.intervals(["a", "b"], [1.0, -1.0], [0.1, 0.2], "value", "coefficients"),
    ):
        assert svg.startswith("<svg viewBox")
        assert "currentColor" in svg
        assert "var(--accent)" in svg
        assert "#010203" not in svg


def test_a_heartbeat_does_not_make_a_finished_runs_folder_again(tmp_path, monkeypatch):
    monkeypatch.setattr("flows.data.lock.BEAT", 0.01)
    paths = RunPaths(str(tmp_path), "r1")
    with claim(paths.work, "r1"):
        time.sleep(0.1)
        complete(paths, record("r1"))
        name_latest(paths, record("r1"))
        time.sleep(0.1)
    assert not Path(paths.work).exists()
    assert Path(tmp_path, "latest.json").exists()


def test_figures_of_many_columns_take_no_quadratic_time():
    class Name(str):
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [f"column {i}" for i in range(400)]
    rows = [
        (Name(name), category, 0, None, None, 0.5, 1.0 + 0.01 * i)
        for i, name in enumerate(names)
        for category in ("no", "yes")
    ]
    (section,) = feature_sections._figures(rows, 0)
    assert section.title == "What features change"
    assert Name.compared < 20 * len(rows)
