"""A case against a panel of controls: from counts and from reads, its report, VCF and faults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from flows.data.runs import open_run
from flows.variants.family import FAMILY
from flows.variants.report import of_panel
from flows.variants.roles import mixed, mixed_warnings
from flows.variants.sample_sheet import read_sheet
from flows.variants.settings import VariantSettings
from tests.flows.variants.scenario_files import write_scenario
from tests.flows.variants.variant_files import (
    check,
    options,
    run,
    run_stopped_and_resumed,
    write_bam,
    write_counts,
    write_fasta,
    write_sheet,
)
from vbmodels.variants.batch import Counts

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
    code, out, err = run(capsys, "variants", simulated, tmp_path, *QUICK, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["results"]["calls"] >= 1
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
    page = (place(tmp_path) / "report.html").read_text()
    assert "The panel" in page
    assert "Tumour-only test" in page
    assert "panel: all; most in" in page
    depth = pq.read_table(place(tmp_path) / "loci")["control_depth"].to_pylist()
    assert max(depth) > 3 * 3 * 3000  # three samples of three replicates
    shifts = pq.read_table(place(tmp_path) / "posterior" / "parameters.parquet").to_pylist()
    assert sum(row["name"] == "member_shift" for row in shifts) == 36


def test_it_has_the_same_bits_on_workers_and_when_resumed(capsys, monkeypatch, simulated, tmp_path):
    asked = (*QUICK, "--set", "rows_per_partition=250")
    whole, halves, resumed = (tmp_path / name for name in ("whole", "halves", "resumed"))
    code, _, err = run(capsys, "variants", simulated, whole, *asked)
    assert code == 0, err
    code, _, err = run(capsys, "variants", simulated, halves, *asked, "--workers", "2")
    assert code == 0, err
    assert same_calls(whole, halves)

    run_stopped_and_resumed(capsys, monkeypatch, simulated, resumed, *asked)
    assert same_calls(whole, resumed)


def test_a_later_run_and_a_score_take_up_the_fit(capsys, simulated, tmp_path):
    code, _, err = run(capsys, "variants", simulated, tmp_path / "out", *QUICK)
    assert code == 0, err
    code, _, err = run(capsys, "variants", simulated, tmp_path / "out", *QUICK, "--since", "latest")
    assert code == 0, err
    first = place(tmp_path / "out")
    code, out, err = run(capsys, "score", first, simulated, tmp_path / "scored",
                         "--json")  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["results"]["locations"] == 24
    code, _, err = run(capsys, "check", "variants", simulated, *QUICK[1:])
    assert code == 0, err


def sheet_of_reads(folder, roles):
    write_fasta(folder / "ref.fa")
    rows = ["sample,replicate,path,role"]
    for i, (sample, role) in enumerate(roles):
        write_bam(folder / f"{i}.bam")
        rows.append(f"{sample},{i},{i}.bam,{role}")
    path = folder / "sheet.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("matched", [False, True])
def test_a_sheet_says_who_is_who(capsys, tmp_path, matched):
    blood = [("blood", "control")] if matched else []
    sheet = sheet_of_reads(
        tmp_path, [("tumour", "case"), *blood, ("anna", "panel"), ("bela", "panel")]
    )
    asked = ("--set", "max_iter=3", *options(fasta=tmp_path / "ref.fa"))
    code, _, err = run(capsys, "variants", sheet, tmp_path / "out", *asked)
    assert code == 0, err
    about = json.loads((place(tmp_path / "out") / "run.json").read_text())["settings"]
    assert (about["case"], about["panel"]) == ("tumour", "anna,bela")
    assert about["control"] == ("blood" if matched else "")
    with pysam.VariantFile(str(place(tmp_path / "out") / "variants.vcf.gz")) as vcf:
        own = ["blood", "blood:1"] if matched else []
        assert list(vcf.header.samples) == ["tumour", "tumour:0", *own, "anna", "bela"]


def test_a_sheet_may_have_several_cases_of_which_one_is_named(capsys, tmp_path):
    sheet = sheet_of_reads(tmp_path, [("t1", "case"), ("t2", "case"), ("anna", "panel")])
    fasta = tmp_path / "ref.fa"
    assert check(capsys, sheet, fasta=fasta)[0] == 0
    assert FAMILY.settled(str(sheet), VariantSettings()).cases == "t1,t2"
    assert check(capsys, sheet, fasta=fasta, case="t2")[0] == 0
    settled = FAMILY.settled(str(sheet), VariantSettings(case="t2"))
    assert (settled.case, settled.control, settled.panel) == ("t2", "", "anna")
    # Without roles a sheet says nothing of settings.
    plain = write_sheet(tmp_path, name="plain.csv")
    assert FAMILY.settled(str(plain), VariantSettings()) == VariantSettings()


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ([("case", "case"), ("a", "normal")], "one of case, control, panel, found 'normal'"),
        ([("case", "case"), ("a", "control"), ("b", "control")], "give samples of other people"),
        ([("case", "case"), ("a", "panel"), ("a", "control")], "one role for all replicates of a"),
        ([("case", "case"), ('"a,b"', "panel")], "without a comma"),
    ],
)
def test_roles_that_make_no_sense_are_refused(capsys, tmp_path, roles, message):
    sheet = sheet_of_reads(tmp_path, roles)
    code, _, err = check(capsys, sheet, fasta=tmp_path / "ref.fa")
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"panel": "a,case"}, "'case' is named twice"),
        ({"panel": "a,control"}, "'control' is named twice"),
        ({"panel": "a", "test": "posterior_difference"}, "a panel needs test two_groups"),
        ({"panel": "a", "test": "sampled_difference"}, "not sampled_difference"),
        ({"panel": "nobody"}, "a sample named 'nobody'"),
    ],
)
def test_settings_of_a_panel_that_cannot_be_are_refused(capsys, tmp_path, asked, message):
    counts = write_counts(tmp_path / "counts.parquet")
    code, _, err = run(capsys, "variants", counts, tmp_path / "out", *options(**asked))
    assert code == 2
    assert message in err


def test_a_role_that_does_not_fit_the_settings_is_refused(capsys, tmp_path):
    sheet = sheet_of_reads(tmp_path, [("case", "case"), ("anna", "panel")])
    code, _, err = check(capsys, sheet, fasta=tmp_path / "ref.fa", test="posterior_difference")
    assert code == 2
    assert "a panel needs test two_groups" in err


def people(shares):
    """Counts of 5 locations: a case of one replicate, then the control's by share of C."""
    counts = np.zeros((5, 1 + len(shares), 4), np.int32)
    counts[:, :, 0] = 100
    for i, share in enumerate(shares):
        counts[:, 1 + i, 1] = np.rint(100 * np.array(share))
    return Counts(counts, np.zeros(5, np.int8), np.arange(1 + len(shares)) == 0)


def test_replicates_of_different_people_are_told():
    mine, other = [0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 1.0]
    found = mixed(people([mine, other]), VariantSettings())
    assert found == (("control", 3),)
    (told,) = mixed_warnings([found])
    assert "Replicates of control carry different alleles at 3 locations" in told
    assert "role=panel" in told
    assert mixed(people([mine, mine]), VariantSettings()) == ()
    assert mixed_warnings([(("control", 1),), (("control", 1),)]) == []
    # As samples of a panel they may.
    counts = people([mine, other])
    panel = Counts(counts.counts, counts.ref, counts.case, member=np.array([-1, 0, 1]))
    assert mixed(panel, VariantSettings(control="", panel="a,b")) == ()


def test_a_call_says_what_the_panel_has():
    settings = VariantSettings(control="", panel="anna,bela")
    call = {"replicates": {"panel": [(1, 1000), (300, 600)]}}
    assert of_panel(call, settings) == "301/1600; 300/600 in bela"
    assert of_panel({"replicates": {"panel": [(0, 9), (0, 8)]}}, settings) == "0/17"


def test_a_sheet_without_roles_reads_as_before(tmp_path):
    assert [line.role for line in read_sheet(str(write_sheet(tmp_path)))] == ["", ""]
