"""The example packages, installed, run end to end: in process and on two workers alike."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.outside.installed import installed

EXAMPLES = {
    "lda": ("documents have 5 topics", ("--set", "topics=5"), "document_topics"),
    "logistic": ("columns tell of the label", (), "labels"),
    "mixture": ("300 rows are of", ("--set", "components=4"), "groups"),
}
"""By pipeline: what the headline says, the settings, and the table that a score gives again."""


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    return request.param, installed(f"vbflows_{request.param}", place)


def run_of(target):
    return target / "runs" / json.loads((target / "latest.json").read_text())["run_id"]


def published(target, table):
    return pq.read_table(run_of(target) / table)


def posterior(target):
    return (run_of(target) / "posterior" / "q.npz").read_bytes()


def test_its_model_keeps_the_contract(example):
    name, outside = example
    done = outside.run("pytest", "-q", "-p", "no:cacheprovider", "--pyargs", f"vbflows_{name}")
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_it_runs_here_and_on_two_workers_with_the_same_bits(example, tmp_path):
    name, outside = example
    said, settings, table = EXAMPLES[name]
    assert name in outside.vbflows("--help").stdout
    done = outside.vbflows("simulate", name, tmp_path / "in", "--rows", 300)
    assert done.returncode == 0, done.stderr
    for target, options in {"here": (), "there": ("--workers", 2)}.items():
        done = outside.vbflows(
            name, tmp_path / "in", tmp_path / target, "--set", "partitions=4", *settings,
            *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    here = published(tmp_path / "here", table)
    assert here.num_rows == 300
    assert here.equals(published(tmp_path / "there", table))
    one, other = (published(tmp_path / t, "trace.parquet")["elbo"] for t in ("here", "there"))
    assert one.equals(other)
    one, other = (posterior(tmp_path / t) for t in ("here", "there"))
    assert one == other
    again = outside.vbflows("score", tmp_path / "here", tmp_path / "in", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert published(tmp_path / "again", table).equals(here)
