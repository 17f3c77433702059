"""A family of an outside package is found by its entry point, and runs like ours."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.outside.installed import COUNTS, installed


@pytest.fixture(scope="module")
def vbflows(tmp_path_factory):
    """Install the example with vbflows; return what runs the command with it."""
    return installed(COUNTS, tmp_path_factory.mktemp("outside")).vbflows


def published(target):
    outcome = json.loads((target / "latest.json").read_text())
    return pq.read_table(target / "runs" / outcome["run_id"] / "rates")


@pytest.mark.thorough
def test_it_runs_here_and_on_workers_with_the_same_bits(vbflows, tmp_path):
    listed = vbflows("--help")
    assert "What is the rate of each group" in listed.stdout
    assert vbflows("simulate", "counts", tmp_path / "in", "--rows", 200).returncode == 0
    for name, options in {"here": (), "there": ("--workers", 2)}.items():
        done = vbflows(
            "counts", tmp_path / "in", tmp_path / name, "--set", "partitions=3",
            *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "200 groups have a mean rate of" in done.stdout
    here, there = published(tmp_path / "here"), published(tmp_path / "there")
    assert here.equals(there)
    assert here.num_rows == 200
    scored = vbflows("score", tmp_path / "here", tmp_path / "in", tmp_path / "again")
    assert scored.returncode == 0, scored.stderr
    assert published(tmp_path / "again").equals(here)


@pytest.mark.thorough
def test_what_its_table_does_not_allow_is_wrong_input(vbflows, tmp_path):
    table = pa.table({"group": ["a", "a"], "first": [1, -2], "second": [0, 1]})
    pq.write_table(table, tmp_path / "counts.parquet")
    done = vbflows("counts", tmp_path / "counts.parquet", tmp_path / "out")
    assert done.returncode == 2
    assert "column group, row 2: expected a name used once" in done.stderr
    assert "column first, row 2: expected a number from 0 on, found -2" in done.stderr
