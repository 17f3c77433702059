"""Files and folders that change under a run, or after it: said, and never published over."""

import os
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.cli import main
from flows.events import Stage, Sweep, listening
from flows.faults import InputError, RunError
from flows.records.runs import RUN, RemovedError, latest_of
from flows.run import run as launch
from tests.faults import pipelines


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return pipelines.simulate("experts", str(tmp_path_factory.mktemp("in")))


def fit(source, target, **more):
    family = pipelines.pipeline_named("experts")
    settings = family.settings(**pipelines.SETTINGS["experts"])
    return launch("experts", source, str(target), settings, pipelines.ComputeSettings(), **more)


class Disturbs:
    """Calls a function at the first event of a kind."""

    def __init__(self, kind, action):
        self.kind, self.action = kind, action

    def on_event(self, event):
        if self.action is not None and self.kind(event):
            action, self.action = self.action, None
            action()


def in_stage(name):
    return lambda event: isinstance(event, Stage) and event.name == name


@pytest.mark.parametrize(
    "when", [in_stage("publish"), in_stage("score"), lambda event: isinstance(event, Sweep)]
)
def test_a_folder_that_is_removed_is_said_and_not_published_over(source, tmp_path, when):
    target = tmp_path / "out"
    first = fit(source, target)["run_id"]

    def remove():
        (new,) = {path.name for path in (target / "runs").iterdir()} - {first}
        shutil.rmtree(target / "runs" / new)

    with listening(Disturbs(when, remove)), pytest.raises(RemovedError, match="nothing was publ"):
        fit(source, target)
    assert latest_of(str(target)) == first


def test_a_target_that_is_removed_in_the_fit_ends_with_exit_1(source, tmp_path, capsys):
    target = tmp_path / "out"
    disturbs = Disturbs(lambda event: isinstance(event, Sweep), lambda: shutil.rmtree(target))
    with listening(disturbs), pytest.raises(SystemExit) as stopped:
        main(["experts", source, str(target), "--set", "inference=cavi", "--set", "n_experts=2"])
    assert stopped.value.code == 1
    assert "was removed while it ran; nothing was published" in capsys.readouterr().err
    assert not (target / "latest.json").exists()


def test_an_input_that_is_replaced_in_ingest_needs_a_new_run(source, tmp_path):
    own, target = tmp_path / "in.parquet", tmp_path / "out"
    shutil.copy(source, own)
    disturbs = Disturbs(in_stage("ingest"), own.touch)
    with listening(disturbs), pytest.raises(RunError) as raised:
        fit(str(own), target)
    assert "start a new run" in str(raised.value)
    assert "--resume" not in str(raised.value)
    assert not target.exists()


def test_a_file_of_the_same_size_and_time_is_new(tmp_path):
    own, target = tmp_path / "in.csv", tmp_path / "out"
    rows = [f"{i % 2},{i % 7},{i % 5}.5" for i in range(60)]
    own.write_text("\n".join(["label,a,b", *rows]) + "\n")
    first = fit(str(own), target, since="latest")["run_id"]
    assert fit(str(own), target, since="latest")["run_id"] == first
    before = own.stat()
    copy = tmp_path / "copy"
    copy.write_text("\n".join(["label,a,b", *reversed(rows)]) + "\n")
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    copy.replace(own)  # as rsync -t does
    assert (own.stat().st_size, own.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert fit(str(own), target, since="latest")["run_id"] != first


def test_resume_latest_before_anything_was_written_starts_from_the_beginning(source, tmp_path):
    target = tmp_path / "out"
    dead, others = (target / "runs" / f"20260101T000000-00000{n}" for n in (1, 2))
    storage.own(str(dead), RUN)
    others.mkdir()  # without a mark it may be anybody's
    run_id = fit(source, target, resume="latest")["run_id"]
    assert sorted(os.listdir(target / "runs")) == [others.name, run_id]
    with pytest.raises(InputError, match="found none"):
        fit(source, target, resume="latest")


def test_a_flipped_bit_of_a_published_table_is_found(source, tmp_path, capsys):
    outcome = fit(source, tmp_path / "out")
    run = Path(tmp_path / "out" / "runs" / outcome["run_id"])
    url = next((run / "rows").iterdir())
    whole, content = storage.read_table(str(url)), url.read_bytes()
    rng, found = random.Random(0), 0
    for _ in range(400):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        url.write_bytes(changed)
        try:
            assert storage.read_table(str(url)).equals(whole)
        except storage.StorageError:
            found += 1
    assert found > 300
    url.write_bytes(content)
    group = pq.read_metadata(str(url)).row_group(0)
    chunks = {(one := group.column(i)).path_in_schema: one for i in range(group.num_columns)}
    other = fit(source, tmp_path / "other")
    half = bytearray(content)
    chunk = chunks["probability_1"]
    half[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    url.write_bytes(half)
    for words in (("show", str(run), "rows"), ("compare", str(run), other["target"])):
        with pytest.raises(SystemExit) as stopped:
            main(list(words))
        assert stopped.value.code != 0
        assert url.name in capsys.readouterr().err
