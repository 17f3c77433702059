"""A panel, and several cases, stopped at writes and by kill -9: the same bits when resumed."""

from __future__ import annotations

import random
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.data.runs import open_run
from tests.faults import journeys
from tests.faults.processes import Process
from tests.faults.test_every_write import moments, stop_at
from tests.flows.variants.case_files import write_cases, write_counts_of

PANEL = {"control": "", "panel": "normal1,normal2,normal3"}
CASES = {"cases": "case1,case2,case3"}
SEED = 4
MAIN = ("-c", "from flows.cli import main; main()")


def renamed(sample):
    """Return a function that makes a sample of every replicate of a sample."""

    def change(table):
        samples, replicates = (np.array(table[n].to_pylist()) for n in ("sample", "replicate"))
        of = samples == sample
        word = {"control": "normal", "case": "case"}[sample]
        names = np.where(of, np.char.add(word, replicates.astype(str)), samples)
        return table.set_column(
            table.column_names.index("sample"), "sample", pa.array(names.tolist())
        )

    return change


@pytest.fixture
def set_out(monkeypatch, tmp_path):
    journeys.quicken(monkeypatch)

    def made(kind, sample, changes):
        real, change = journeys._input, renamed(sample)
        monkeypatch.setattr(
            journeys, "_input", lambda *where: [change(table) for table in real(*where)]
        )
        return journeys.set_out("variants", kind, tmp_path, str(tmp_path), **changes)

    return made


@pytest.mark.parametrize("kind", journeys.JOURNEYS)
@pytest.mark.parametrize(("sample", "changes"), [("control", PANEL), ("case", CASES)])
def test_a_stop_at_a_few_writes(set_out, kind, sample, changes):
    made = set_out(kind, sample, changes)
    stop_at(made, random.Random(f"{SEED} {kind}").sample(moments(made), 2))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("sample", "changes"), [("control", PANEL), ("case", CASES)])
def test_a_stop_at_every_write(set_out, sample, changes):
    made = set_out("fit", sample, changes)
    stop_at(made, moments(made))


def results(target):
    """Return the bits of what a run left."""
    root = open_run(str(target))[0].root
    tables = {name: pq.read_table(f"{root}/{name}") for name in ("loci", "detection")}
    with open(f"{root}/posterior/q.npz", "rb") as file:
        return tables, file.read()


def killed(source, target, asked, at):
    """Give a command, kill it when it has come so far, and go on; return how it ended."""
    command = (*MAIN, "variants", str(source), str(target), *asked)
    first = Process(*command)
    try:
        first.await_line(at, 240)
        first.send(signal.SIGKILL)
        assert first.wait(30) == -signal.SIGKILL
    finally:
        first.end()
    assert not (target / "latest.json").exists()
    (name,) = (p.name for p in (target / "runs").iterdir())
    again = Process(*command, "--resume", name)
    try:
        assert again.wait(300) == 0, again.output
    finally:
        again.end()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("at", ["^ingest", "^fit", "^score", "^publish"])
@pytest.mark.parametrize("kind", ["panel", "cases", "reads"])
def test_a_kill_at_every_stage(tmp_path, kind, at):
    quick = ("--set", "max_iter=8", "--set", "checkpoint_every=2")
    if kind == "reads":
        source = write_cases(tmp_path, cases=("ann", "bob"))
        asked = (*quick, "--set", f"fasta={tmp_path / 'ref.fa'}")
    else:
        cases, controls = (("ann",), ("anna", "bela")) if kind == "panel" else (
            ("ann", "bob", "cid"), ("normal",))  # fmt: skip
        source = write_counts_of(tmp_path / "counts.parquet", cases, controls)
        named = ("case=ann", "control=", "panel=anna,bela") if kind == "panel" else (
            "cases=ann,bob,cid", "control=normal")  # fmt: skip
        asked = (*quick, "--set", "rows_per_partition=20",
                 *(x for name in named for x in ("--set", name)))  # fmt: skip
    whole = Process(*MAIN, "variants", str(source), str(tmp_path / "whole"), *asked)
    assert whole.wait(300) == 0, whole.output
    killed(source, tmp_path / "killed", asked, at)
    one, other = results(tmp_path / "whole"), results(tmp_path / "killed")
    assert one[1] == other[1]
    assert all(table.equals(other[0][name]) for name, table in one[0].items())
