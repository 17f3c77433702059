"""Differences by the bases beside a location, from a FASTA: what a run does and says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.variants.counts import Loci
from flows.variants.fitted_on import contexts_of
from flows.variants.settings import VariantSettings
from tests.flows.variants.scenario_files import write_scenario
from tests.flows.variants.variant_files import run
from vbmodels.variants.contexts import UNKNOWN, along

FAST = ("--set", "tol=1e-4")


@pytest.fixture(scope="module")
def deaminated(tmp_path_factory):
    target = tmp_path_factory.mktemp("deaminated")
    write_scenario(str(target), 450, 2, "null_cpg8")
    return target


def options(folder):
    return ("--set", f"fasta={folder / 'reference.fa'}", "--set", "types=trinucleotide")


def answer(capsys, folder, target, *more):
    code, out, err = run(
        capsys, "variants", folder / "counts.parquet", target, *FAST, *options(folder), *more,
        "--json",
    )  # fmt: skip
    assert code == 0, err
    return json.loads(out)


def test_contexts_are_said_and_not_called(capsys, deaminated, tmp_path):
    told = answer(capsys, deaminated, tmp_path, "--partitions", "3")
    assert told["results"]["calls"] == 0
    warned = " ".join(told["warnings"])
    assert "differ by the bases beside them" in warned
    assert "[C>T]G x" in warned or "C[G>A]" in warned
    (place,) = Path(tmp_path, "runs").glob("*")
    assert "Differences by context" in (place / "report.html").read_text()
    rows = pq.read_table(place / "posterior" / "parameters.parquet").to_pylist()
    of = {r["index"]: r["mean"] for r in rows if r["name"] == "context_shift"}
    assert len(of) == 204
    assert of["A[C>T]G"] > 1.2 > of["A[C>T]A"]


def test_a_fit_and_its_score_have_the_same_evidence_however_it_is_cut(capsys, deaminated, tmp_path):
    answer(capsys, deaminated, tmp_path / "one", "--partitions", "1")
    answer(capsys, deaminated, tmp_path / "more", "--partitions", "4")
    tables = []
    for name in ("one", "more"):
        (place,) = (tmp_path / name / "runs").glob("*")
        tables.append(pq.read_table(place / "loci").sort_by("pos"))
    for column in ("prob", "case_mean", "case_q95"):
        one, other = (table[column].to_numpy() for table in tables)
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-9, err_msg=column)


def test_without_a_fasta_it_is_refused(capsys, deaminated, tmp_path):
    code, _, err = run(
        capsys, "variants", deaminated / "counts.parquet", tmp_path / "out",
        "--set", "types=trinucleotide",
    )  # fmt: skip
    assert code == 2
    assert "no FASTA is named" in err
    assert not (tmp_path / "out").exists()


def test_a_run_since_one_by_substitution_begins_anew(capsys, deaminated, tmp_path):
    code, _, err = run(
        capsys, "variants", deaminated / "counts.parquet", tmp_path, *FAST,
        "--set", f"fasta={deaminated / 'reference.fa'}",
    )  # fmt: skip
    assert code == 0, err
    told = answer(capsys, deaminated, tmp_path, "--since", "latest")
    assert "differ by the bases beside them" in " ".join(told["warnings"])


def test_bases_beside_locations_come_from_the_fasta(deaminated):
    settings = VariantSettings(
        fasta=str(deaminated / "reference.fa"), types="trinucleotide", chr_names="map"
    )
    letters = (deaminated / "reference.fa").read_text().split("\n")[1]
    ref = np.array(["ACGT".index(base) for base in letters])
    pos = np.array([450, 1, 2, 17, 300])
    loci = Loci(np.array(["chrsimulated"] * 5), pos, None, None, None)
    assert contexts_of(loci, settings).tolist() == along(ref)[pos - 1].tolist()
    assert contexts_of(loci, settings)[:2].tolist() == [UNKNOWN, UNKNOWN]
    other = Loci(np.array(["elsewhere"]), np.array([5]), None, None, None)
    assert contexts_of(other, settings).tolist() == [UNKNOWN]
    assert contexts_of(loci, VariantSettings()) is None
