"""Advice of variants is obeyed as it stands, and its outcome is what it promises."""

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.records.runs import open_run
from flows.variants.input.counts import to_table
from tests.advice.commands import obey, page_of, results_of
from tests.answers.keep import command
from tests.answers.variant_runs import write_sources
from tests.flows.commands import answer, succeed
from tests.flows.variants.scenario_files import write_scenario

HOT = range(5, 60, 10)  # positions, from 0, with an error of 2 % in every sample


def write_counts(path: Path, depth: int = 2000) -> Path:
    """Write counts of two replicates a sample of 60 locations; at 20 the case carries 1 %."""
    rng = np.random.default_rng(8)
    ref = rng.integers(0, 4, 60).astype(np.int8)
    columns = [(sample, str(r)) for sample in ("case", "control") for r in (1, 2)]
    counts = np.zeros((60, 4, 4), int)
    for j in range(60):
        for i, (sample, _) in enumerate(columns):
            p = np.full(4, 3e-4)
            p[(ref[j] + 1) % 4] += 0.02 * (j in HOT) + 0.01 * (j == 20 and sample == "case")
            p[ref[j]] = 1.0 - p.sum() + p[ref[j]]
            counts[j, i] = rng.multinomial(depth, p)
    pq.write_table(to_table(counts, ref, "chr1", 0, columns), path)
    return path


def called(target):
    place, _ = open_run(str(target))
    rows = pq.read_table(place.table("loci")).to_pylist()
    return {row["pos"] - 1 for row in rows if row["called"]}


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A run of so few reads that no position is callable at 1 %."""
    folder = tmp_path_factory.mktemp("few")
    source = write_counts(folder / "counts.parquet", 200)
    succeed("variants", source, folder / "out", "--set", "callable_share=0.01")
    return folder


def commands_of(target) -> list[str]:
    return re.findall(r"<code>(vbflows [^<]*)</code>", page_of(target))


def test_every_command_of_a_page_runs_as_it_stands(capsys, few):
    place, _ = open_run(str(few / "out"))
    commands = commands_of(few / "out")
    assert len(commands) == 2
    printed = [obey(capsys, command) for command in commands]
    limits = pq.read_table(place.table("detection"))["limit"].to_pylist()
    first = next(line for line in printed[0].splitlines() if line.startswith("case "))
    assert float(first.split()[-1]) == pytest.approx(max(limits), rel=1e-3)


def test_more_reads_lower_the_limit_of_detection(few, tmp_path):
    source = write_counts(tmp_path / "counts.parquet", 4000)
    succeed("variants", source, tmp_path / "out", "--set", "callable_share=0.01")
    before, after = (results_of(one / "out")["cases"][0] for one in (few, tmp_path))
    assert after["callable"] > before["callable"]
    assert after["limit"] < before["limit"]


def test_a_control_separates_the_errors_that_all_reads_share(tmp_path):
    source = write_counts(tmp_path / "counts.parquet")
    succeed("variants", source, tmp_path / "alone", "--set", "control=")
    succeed("variants", source, tmp_path / "both")
    assert called(tmp_path / "alone") & set(HOT)
    assert called(tmp_path / "both") == {20}


def test_a_least_difference_leaves_fewer_false_calls(capsys, tmp_path):
    write_scenario(str(tmp_path), 60, 2, "af.01_4000")
    source = tmp_path / "counts.parquet"
    how = ("--set", "test=posterior_difference")
    found = answer(capsys, "variants", source, tmp_path / "zero", *how)
    (advice,) = [one for one in found["warnings"] if "tau=" in one]
    setting = re.search(r"tau=[\w.-]*\w", advice)[0]
    succeed("variants", source, tmp_path / "some", *how, "--set", setting)
    planted = {37, 40}
    zero, some = (called(tmp_path / name) for name in ("zero", "some"))
    assert planted <= some
    assert len(some - planted) < len(zero - planted)


def test_the_default_test_is_advised_where_the_papers_finds_no_difference(capsys, tmp_path):
    """Its command calls the planted allele; the papers' fit takes it for errors."""
    rng = np.random.default_rng(0)
    ref = np.zeros(60, np.int8)
    counts = np.zeros((60, 4, 4), int)
    counts[:, :, 1:] = rng.binomial(1000, 3e-4, (60, 4, 3))
    counts[7, :2, 3] = 60
    counts[:, :, 0] = 1000 - counts[:, :, 1:].sum(axis=2)
    columns = [(sample, str(r)) for sample in ("case", "control") for r in (1, 2)]
    pq.write_table(to_table(counts, ref, "chr1", 0, columns), tmp_path / "counts.parquet")
    how = ("--set", "test=posterior_difference", "--set", "tau=0.01")
    found = answer(capsys, "variants", tmp_path / "counts.parquet", tmp_path / "out", *how)
    (advice,) = [one for one in found["warnings"] if "vbflows variants" in one]
    succeed(*shlex.split(advice[advice.index("vbflows variants") :])[1:])
    assert 7 in called(tmp_path / "out")


def test_the_command_of_a_score_runs_too(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sources(tmp_path, ["two"])
    for name in ("called", "called_score"):
        succeed(*command("variants", name))
        for said in commands_of(name):
            obey(capsys, said)
