"""The examples: the package, installed, run end to end; the scripts."""

import json
import runpy

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.outside.installed import LDA, ROOT, installed


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    return installed(LDA, tmp_path_factory.mktemp("lda"))


def run_of(target):
    return target / "runs" / json.loads((target / "latest.json").read_text())["run_id"]


def published(target, table):
    return pq.read_table(run_of(target) / table)


@pytest.mark.thorough
def test_its_model_keeps_the_contract(outside):
    done = outside.run("pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "vbflows_lda")
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


@pytest.mark.thorough
def test_it_runs_here_and_on_two_workers_with_the_same_bits(outside, tmp_path):
    assert "lda" in outside.vbflows("--help").stdout
    done = outside.vbflows("simulate", "lda", tmp_path / "in", "--rows", 300)
    assert done.returncode == 0, done.stderr
    for target, options in {"here": (), "there": ("--workers", 2)}.items():
        done = outside.vbflows(
            "lda", tmp_path / "in", tmp_path / target, "--set", "partitions=4", "--set",
            "topics=5", *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "5 topics in 300 documents" in done.stdout
    here, there = tmp_path / "here", tmp_path / "there"
    assert published(here, "document_topics").num_rows == 300
    assert published(here, "document_topics").equals(published(there, "document_topics"))
    assert published(here, "trace.parquet")["elbo"].equals(
        published(there, "trace.parquet")["elbo"]
    )
    one, other = ((run_of(t) / "posterior" / "q.npz").read_bytes() for t in (here, there))
    assert one == other
    again = outside.vbflows("score", here, tmp_path / "in", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert published(tmp_path / "again", "document_topics").equals(
        published(here, "document_topics")
    )


@pytest.fixture
def script(capsys):
    """Return what runs a script of the examples: its posterior, and what it prints."""

    def run(name):
        q = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"]()
        return q, capsys.readouterr().out

    return run


def test_the_mixture_finds_the_groups(script):
    q, printed = script("mixture")
    assert sorted(np.round(q.conc / q.conc.sum(), 1).tolist()) == [0.2, 0.3, 0.5]
    assert printed.count("of the rows, centre") == 3


def test_the_logistic_regression_finds_the_slopes(script):
    q, printed = script("logistic")
    sd = np.sqrt(np.diag(q.w.covariance))
    assert np.all(np.abs(q.w.mean - [-0.5, 1.0, 0.0, -0.7]) < 3.0 * sd)
    assert "intercept -0.43, sd 0.07" in printed
