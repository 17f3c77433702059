"""Differences by the strand that a location's reads lie on: what a run does and says."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.cli import main
from tests.flows.variants.variant_files import run

FAST = ("--set", "tol=1e-4", "--set", "types=strand")


@pytest.fixture(scope="module")
def oxidised(tmp_path_factory):
    target = tmp_path_factory.mktemp("oxidised")
    with pytest.raises(SystemExit):
        main(["simulate", "variants", str(target), "--rows", "450", "--seed", "2", "--scenario",
              "null_oxo5_amplicons"])  # fmt: skip
    return target / "counts.parquet"


def test_strands_are_said_and_not_called(capsys, oxidised, tmp_path):
    code, out, err = run(
        capsys, "variants", oxidised, tmp_path, *FAST, "--partitions", "3", "--json"
    )
    assert code == 0, err
    told = json.loads(out)
    assert told["results"]["calls"] == 0
    warned = " ".join(told["warnings"])
    assert "differ by the strand of the reads" in warned
    (place,) = Path(tmp_path, "runs").glob("*")
    assert "Differences by strand" in (place / "report.html").read_text()
    rows = pq.read_table(place / "posterior" / "parameters.parquet").to_pylist()
    of = {r["index"]: r["mean"] for r in rows if r["name"] == "context_shift"}
    assert len(of) == 48
    assert of["G>T forward"] > 1.0 > abs(of["G>T reverse"])
    assert of["C>A reverse"] > 1.0 > abs(of["C>A forward"])
    assert of["G>T forward"] > of["G>T both"] > of["G>T reverse"]


def test_counts_without_strands_are_refused(capsys, oxidised, tmp_path):
    bare = tmp_path / "bare.parquet"
    pq.write_table(pq.read_table(oxidised).drop_columns(["forward"]), bare)
    code, _, err = run(capsys, "variants", bare, tmp_path / "out", *FAST)
    assert code == 2
    assert "bare.parquet, column forward: expected reads on the forward strand" in err
    assert "types=12" in err
    assert not (tmp_path / "out").exists()


def test_rows_without_strands_are_refused_before_the_fit(capsys, oxidised, tmp_path):
    table = pq.read_table(oxidised)
    forward = table["forward"].to_pylist()
    forward[-1] = None
    at = table.column_names.index("forward")
    table = table.set_column(at, table.field("forward"), [forward])
    some = tmp_path / "some.parquet"
    pq.write_table(table, some)
    code, _, err = run(capsys, "variants", some, tmp_path / "out", *FAST)
    assert code == 2, err
    assert "types=12" in err
    assert "Traceback" not in err


def test_reads_of_one_strand_do_not_go_with_it(capsys, oxidised, tmp_path):
    code, _, err = run(
        capsys, "variants", oxidised, tmp_path / "out", *FAST, "--set", "strand=forward"
    )
    assert code == 2
    assert "types strand asks for the reads of both strands" in err
