"""A case against a panel of controls: from counts and from reads, its report, VCF and faults."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from flows.records.runs import open_run
from flows.variants.calls.samples import Mixed, mixed, mixed_in
from flows.variants.settings import VariantSettings
from tests.flows.commands import answer, succeed
from tests.flows.variants.scenario_files import write_scenario
from tests.flows.variants.variant_files import (
    options,
    run_stopped_and_resumed,
    write_bam,
    write_fasta,
)
from vbmodels.variants.counts import Counts

NORMALS = "normal1,normal2,normal3"
QUICK = ("--set", "max_iter=3", "--set", "control=", "--set", f"panel={NORMALS}")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    target = tmp_path_factory.mktemp("panel")
    write_scenario(str(target), 24, 3, "simpanel_carriers")
    path = target / "counts.parquet"
    rows = pq.read_table(path)
    reads = {b: rows[b].to_numpy().copy() for b in "ACGT"}
    carried = (rows["pos"].to_numpy() == 20) & (np.array(rows["sample"].to_pylist()) == "case")
    alt = "A" if rows["ref"][int(np.flatnonzero(carried)[0])].as_py() != "A" else "C"
    reads[alt][carried] += 400
    for b, values in reads.items():
        rows = rows.set_column(rows.column_names.index(b), b, pa.array(values))
    pq.write_table(rows, path)
    return path


def place(target):
    return Path(open_run(str(target))[0].root)


def same_calls(one, other):
    tables = [pq.read_table(place(t) / "loci") for t in (one, other)]
    q = [(place(t) / "posterior" / "q.npz").read_bytes() for t in (one, other)]
    return tables[0].equals(tables[1]) and q[0] == q[1]


def test_a_tumour_alone_is_called_against_a_panel(capsys, simulated, tmp_path):
    result = answer(capsys, "variants", simulated, tmp_path, *QUICK)
    assert result["results"]["calls"]
    with pysam.VariantFile(str(place(tmp_path) / "variants.vcf.gz")) as vcf:
        names = list(vcf.header.samples)
        assert names == ["case", "case:1", "case:2", "case:3", "normal1", "normal2", "normal3"]
        assert "case's error rates are the panel's times a factor" in str(vcf.header)
        record = next(r for r in vcf if r.pos == 20)
        rows = pq.read_table(simulated).to_pylist()
        for name in ("case", "normal2"):
            own = [r for r in rows if r["pos"] == record.pos and r["sample"] == name]
            assert record.samples[name]["AD"][1] == sum(r[record.alts[0]] for r in own)
        assert record.info["CMU"] < record.info["MU"]
    depth = pq.read_table(place(tmp_path) / "loci")["control_depth"].to_pylist()
    assert max(depth) > 3 * 3 * 3000  # three samples of three replicates
    shifts = pq.read_table(place(tmp_path) / "posterior" / "parameters.parquet").to_pylist()
    assert sum(row["name"] == "member_shift" for row in shifts) == 36


@pytest.mark.thorough
def test_it_has_the_same_bits_on_workers_and_when_resumed(capsys, monkeypatch, simulated, tmp_path):
    arguments = (*QUICK, "--set", "rows_per_partition=250")
    whole, halves, resumed = (tmp_path / name for name in ("whole", "halves", "resumed"))
    succeed("variants", simulated, whole, *arguments)
    succeed("variants", simulated, halves, *arguments, "--workers", "2")
    assert same_calls(whole, halves)

    run_stopped_and_resumed(capsys, monkeypatch, simulated, resumed, *arguments)
    assert same_calls(whole, resumed)


def sheet_of_reads(folder, roles):
    write_fasta(folder / "ref.fa")
    rows = ["sample,replicate,path,role"]
    for i, (sample, role) in enumerate(roles):
        write_bam(folder / f"{i}.bam")
        rows.append(f"{sample},{i},{i}.bam,{role}")
    path = folder / "sheet.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("matched", [False, True])
def test_a_sheet_says_who_is_who(tmp_path, matched):
    blood = [("blood", "control")] if matched else []
    sheet = sheet_of_reads(
        tmp_path, [("tumour", "case"), *blood, ("anna", "panel"), ("bela", "panel")]
    )
    arguments = ("--set", "max_iter=3", *options(fasta=tmp_path / "ref.fa"))
    succeed("variants", sheet, tmp_path / "out", *arguments)
    about = json.loads((place(tmp_path / "out") / "run.json").read_text())["settings"]
    assert (about["case"], about["panel"]) == ("tumour", "anna,bela")
    assert about["control"] == ("blood" if matched else "")
    with pysam.VariantFile(str(place(tmp_path / "out") / "variants.vcf.gz")) as vcf:
        own = ["blood", "blood:1"] if matched else []
        assert list(vcf.header.samples) == ["tumour", "tumour:0", *own, "anna", "bela"]


def people(shares):
    """Counts of 5 locations: a case of one replicate, then the control's by share of C."""
    counts = np.zeros((5, 1 + len(shares), 4), np.int32)
    counts[:, :, 0] = 100
    for i, share in enumerate(shares):
        counts[:, 1 + i, 1] = np.rint(100 * np.array(share))
    return Counts(counts, np.zeros(5, np.int8), np.arange(1 + len(shares)) == 0)


def test_replicates_of_different_people_are_reported():
    mine, other = [0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 1.0]
    found = mixed(people([mine, other]), VariantSettings())
    assert found == (Mixed("control", 3),)
    assert mixed_in([found]) == (Mixed("control", 3),)
    assert mixed(people([mine, mine]), VariantSettings()) == ()
    assert mixed_in([[Mixed("control", 1)], [Mixed("control", 1)]]) == ()
    # As samples of a panel they may.
    counts = people([mine, other])
    panel = Counts(counts.counts, counts.ref, counts.case, member=np.array([-1, 0, 1]))
    assert mixed(panel, VariantSettings(control="", panel="a,b")) == ()
