"""Every damaged input that was ever found, and some new ones, through the command itself."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flows.faults import Fault
from tests.fuzz.kinds import Kind, small_table
from tests.fuzz.mutate import damaged
from tests.fuzz.replay import replay

ROOT = Path(__file__).resolve().parents[2]


def fuzz(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *options], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # its threads do not survive a fork
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(550)
def test_the_corpus_and_some_new_damage():
    """With one seed, so that a failure can be repeated; `python -m tests.fuzz` has others."""
    said = fuzz("--cases", "25", "--seconds", "400", "--seed", "15")
    assert "cases of the corpus, 0 failed" in said
    assert "0 cases failed" in said


@pytest.mark.slow
def test_the_whole_corpus_and_ten_minutes_of_damage():
    fuzz("--whole", "--seconds", "600")


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("raise SystemExit(0)", "it was done and published nothing"),
        ("raise SystemExit(7)", "it ended with 7"),
        ("raise SystemExit(2)", "it failed without a word"),
        ("print('vbflows: this should not have happened: x'); raise SystemExit(1)", "it printed"),
        ("print('x' * 2001); raise SystemExit(1)", "a line of 2,001 characters"),
        ("raise ValueError('odd')", "it ended with 99"),
        ("print('no'); open('canary', 'w'); raise SystemExit(1)", "it executed what it read"),
        ("print('no'); open('in.csv', 'a').write('x'); raise SystemExit(1)", "changed the input"),
        (
            "import os; print('no'); os.makedirs('out/runs'); raise SystemExit(2)",
            "it left ['runs'] in the target after exit 2",
        ),
        ("import os; os.kill(os.getpid(), 10)", "a signal 10 ended it"),
        ("import time; time.sleep(99)", "a signal 14 ended it"),
    ],
)
def test_the_harness_sees_what_a_command_must_not_do(tmp_path, monkeypatch, body, wrong):
    base = tmp_path / "base"
    base.mkdir()
    (base / "in.csv").write_text("a\n")
    kind = Kind("toy", base, tmp_path / "here", "in.csv", ("toy", "@/in.csv", "@/out"))
    monkeypatch.setattr("tests.fuzz.replay.main", lambda arguments: exec(body))
    monkeypatch.setattr("tests.fuzz.replay.SECONDS", 2.0)
    assert wrong in replay(kind, b"b\n").wrong
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("name", ["a.parquet", "a.json", "a.npz", "a.csv", "a.bin"])
def test_damage_is_done_and_repeats_with_its_seed(tmp_path, name):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones((2, 2)))
    seeds = {
        "a.parquet": small_table({"a": [1, 2, 3], "b": ["x", "y", None]}),
        "a.json": b'{"a": [1, {"b": "c"}], "d": null}',
        "a.npz": (tmp_path / "a.npz").read_bytes(),
        "a.csv": b"a,b\n1,2\n",
        "a.bin": bytes(range(64)),
    }
    one, two = (
        [damaged(name, seeds[name], rng) for _ in range(40)]
        for rng in (np.random.default_rng(3), np.random.default_rng(3))
    )
    if name != "a.npz":  # zip archives carry the time
        assert one == two
    assert len({bytes(content) for content in one}) > 25
    assert sum(content != seeds[name] for content in one) > 35


def test_no_part_of_a_fault_is_longer_than_what_a_person_reads():
    long = "x" * 10_000
    said = str(Fault(long, long, long, long, 3, long))
    assert len(said) < 2000
    assert "row 3" in said
