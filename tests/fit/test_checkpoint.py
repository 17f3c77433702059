"""Checkpoints are refused, or fallen back from, in one sentence; one run has one driver."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows import storage
from flows.fit.checkpoint import CheckpointError, discard
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.records import lock
from flows.records.lock import RunBusy, claim
from flows.records.runs import RUN, RunPaths, RunRecord, mark_latest
from tests.contract.toy import Groups, Looping
from tests.fit.jobs import Killed, kill_at, toy_job
from vbmodels.core.state import same_bits, to_bytes

ROOT = Path(__file__).resolve().parents[2]


def interrupted(job, at=8):
    with pytest.raises(Killed):
        run_fit(job, InProcess(job), on_step=kill_at(at))


def resumed(job):
    return run_fit(job, InProcess(job), resume=True)


def expected(job):
    job = replace(job, store=job.store + "-whole")
    return run_fit(job, InProcess(job))


def folder(job, number):
    return Path(job.store) / "checkpoints" / f"{number:08d}"


def test_the_last_two_checkpoints_are_kept(tmp_path):
    job = toy_job(tmp_path, checkpoint_every=1)
    interrupted(job, at=6)
    kept = sorted(p.name for p in (Path(job.store) / "checkpoints").iterdir())
    assert kept == ["00000004", "00000005"]
    discard(job)
    assert not (Path(job.store) / "checkpoints").exists()


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"model": Looping(a0=2.5, loop="cavi")}, r"model\.a0 is 2\.5, the checkpoint has 2\.0"),
        ({"seed": 1}, "seed is 1, the checkpoint has 0"),
        (
            {"model": Looping(loop="squarem")},
            r"model\.loop is 'squarem', the checkpoint has 'cavi'",
        ),
        ({"settings": (("window", "3"),)}, "settings.window is 3, the checkpoint has none"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused(tmp_path, change, difference):
    job = toy_job(tmp_path)
    interrupted(job)
    with pytest.raises(CheckpointError, match=difference):
        resumed(replace(job, **change))
    assert same_bits(resumed(job).q, expected(job).q)


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    job = toy_job(tmp_path)
    interrupted(job)
    before = storage.read_bytes(job.partitions[4])
    storage.write_bytes(job.partitions[4], to_bytes(Groups(np.ones((3, 5)))))
    with pytest.raises(
        CheckpointError, match=r"1 of 11 partitions .* first is partition 4 .*00004"
    ):
        resumed(job)
    storage.write_bytes(job.partitions[4], before)
    with pytest.raises(CheckpointError, match="in 10 partitions, the checkpoint's in 11"):
        resumed(replace(job, partitions=job.partitions[:10]))
    assert same_bits(resumed(job).q, expected(job).q)


def corrupt(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def swap(path):
    path.write_bytes(path.with_name("local-000001.npz").read_bytes())


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (corrupt, "fit.npz"),
        (cut, "fit.npz"),
        (cut, "local-000010.npz"),
        (swap, "local-000003.npz"),
        (Path.unlink, "local-000003.npz"),
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, damage, name, caplog):
    job = toy_job(tmp_path)
    interrupted(job, at=8)
    damage(folder(job, 6) / name)
    with caplog.at_level("INFO"):
        result = resumed(job)
    assert same_bits(result.q, expected(job).q)
    assert "checkpoint 6 cannot be used" in caplog.text
    assert "after sweep 3" in caplog.text


def test_without_a_whole_checkpoint_the_fit_starts_again(tmp_path, caplog):
    job = toy_job(tmp_path)
    interrupted(job, at=8)
    for number in (3, 6):
        corrupt(folder(job, number) / "fit.npz")
    result = resumed(job)
    assert same_bits(result.q, expected(job).q)
    assert "no usable checkpoint: starting from the beginning" in caplog.text


def test_other_versions_are_said(tmp_path, caplog, monkeypatch):
    job = toy_job(tmp_path)
    monkeypatch.setattr("flows.fit.checkpoint.versions", lambda: {"numpy": "1.0"})
    interrupted(job)
    monkeypatch.undo()
    resumed(job)
    assert "numpy 1.0" in caplog.text


HOLDER = """
import sys, time
from flows.records.lock import claim
with claim(sys.argv[1], "run"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    store = str(tmp_path / "run")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, store], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout.readline() == "held\n"
    yield store, process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.thorough
def test_a_dead_driver_on_this_machine_is_replaced_at_once(holder):
    store, process = holder
    process.kill()
    process.wait()
    began = time.monotonic()
    with claim(store, "run"):
        assert json.loads(storage.read_bytes(store + "/lock.json"))["pid"] == os.getpid()
    assert time.monotonic() - began < 5
    assert not storage.exists(store + "/lock.json")


def test_the_last_heartbeats_neither_fail_nor_come_back(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(lock, "BEAT", 0.0)
    record = RunRecord.model_construct(pipeline="features")
    for number in range(100):
        paths = RunPaths(str(tmp_path), f"r{number}")
        storage.own(paths.root, RUN)
        with claim(paths.work, paths.run_id):
            for name in "abcdefgh":
                storage.write_bytes(storage.join(paths.work, name, "file"), b"x", durable=False)
            storage.remove_debris(paths.root, "work")
            mark_latest(paths, record)
            assert not storage.exists(paths.work)
        assert not storage.exists(paths.work)
    assert "heartbeat" not in caplog.text


@pytest.fixture
def elsewhere(holder, monkeypatch):
    """The holder seen from another machine, whose clock is a year ahead."""
    monkeypatch.setattr(lock, "_machine", lambda: "another")
    monkeypatch.setattr(time, "time", lambda: 2e9)
    return holder


@pytest.mark.thorough
def test_a_living_driver_elsewhere_is_seen_by_its_heartbeat(elsewhere):
    store, _ = elsewhere
    with pytest.raises(RunBusy, match="is still going"):
        claim(store, "run").__enter__()


@pytest.mark.thorough
def test_a_dead_driver_elsewhere_is_replaced_after_watching_it(elsewhere):
    store, process = elsewhere
    process.kill()
    process.wait()
    with claim(store, "run", timeout=1.0) as held:
        held.check()


def test_of_two_that_start_together_one_goes_on(tmp_path):
    store = str(tmp_path / "run")
    barrier = threading.Barrier(4)
    claims = [lock.Claim(store, "run") for _ in range(4)]
    taken = []

    def take(candidate):
        barrier.wait()
        try:
            candidate.acquire(1.0)
        except RunBusy:
            return
        taken.append(candidate)

    threads = [threading.Thread(target=take, args=(c,)) for c in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    taken[0].release()
