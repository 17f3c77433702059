"""Several cases that share their controls in one run: results, faults, resume and later runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pysam
import pytest

from flows.cli import main
from flows.data.runs import open_run
from flows.data.states import read_state
from flows.run.compare import compared_results
from flows.variants.cases_report import _once
from flows.variants.family import FAMILY
from flows.variants.settings import VariantSettings
from tests.flows.variants.case_files import write_cases, write_counts_of, write_reads_of
from tests.flows.variants.variant_files import check, options, run, run_stopped_and_resumed
from vbmodels.core.state import State, same_bits

CASES = ("ann", "bob", "cid")
QUICK = ("--set", "max_iter=5")
NAMED = options(cases=",".join(CASES), control="normal")


def place(target):
    return Path(open_run(str(target))[0].root)


def rows_of(target, table, case):
    rows = pq.read_table(place(target) / table)
    return rows.filter(pc.field("sample") == case).sort_by([("chrom", "ascending"),
                                                            ("pos", "ascending")])  # fmt: skip


def posterior(target):
    return read_state(str(place(target) / "posterior" / "q.npz"), State)


def records(path):
    with pysam.VariantFile(str(path)) as vcf:
        return [str(record) for record in vcf]


def same_as_alone(several, alone, case, number, tables):
    """Whether a case of a run of several has what a run of it alone has, to the bit."""
    here, there = place(several), place(alone)
    vcf = "variants.vcf.gz"
    return (
        all(rows_of(several, t, case).equals(rows_of(alone, t, case)) for t in tables)
        and same_bits(posterior(several).of[number], posterior(alone))
        and records(here / "cases" / case / vcf) == records(there / vcf)
        and (here / "cases" / case / "callable.bed").read_bytes()
        == (there / "callable.bed").read_bytes()
    )


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    return write_counts_of(folder / "counts.parquet", CASES, missing=[("bob", 7)])


@pytest.fixture(scope="module")
def reads(tmp_path_factory):
    return write_cases(tmp_path_factory.mktemp("reads"))


@pytest.fixture(scope="module")
def together(tmp_path_factory, reads):
    target = tmp_path_factory.mktemp("together")
    with pytest.raises(SystemExit) as stopped:
        main(["variants", str(reads), str(target), *QUICK, *asked_of(reads), "--since", "latest"])
    assert stopped.value.code == 0
    return target


def asked_of(sheet):
    return options(fasta=sheet.parent / "ref.fa")


def test_each_case_of_counts_has_the_bits_of_a_run_of_its_own(capsys, counts, tmp_path):
    cut = options(rows_per_partition=16)
    code, out, err = run(capsys, "variants", counts, tmp_path / "all", *QUICK, *NAMED, *cut,
                         "--json")  # fmt: skip
    assert code == 0, err
    told = json.loads(out)["results"]
    assert told["passed"] == sum(own["passed"] for own in told["cases"].values()) == 9
    about = json.loads((place(tmp_path / "all") / "run.json").read_text())
    assert about["partitions"] == 3 * 3  # 240 rows of 6 replicates' 16 each, of every case
    for number, case in enumerate(CASES):
        alone = tmp_path / case
        asked = options(case=case, control="normal")
        code, _, err = run(capsys, "variants", counts, alone, *QUICK, *asked, *cut)
        assert code == 0, err
        assert same_as_alone(tmp_path / "all", alone, case, number, ("loci", "detection"))


def test_each_case_of_reads_has_the_bits_of_a_run_of_its_own(capsys, reads, together, tmp_path):
    for number, case in enumerate(CASES[:2]):
        alone = tmp_path / case
        code, _, err = run(capsys, "variants", reads, alone, *QUICK, *asked_of(reads),
                           *options(case=case))  # fmt: skip
        assert code == 0, err
        tables = ("loci", "detection", "indels")
        assert same_as_alone(together, alone, case, number, tables)
    deletion = [r for r in rows_of(together, "indels", "ann").to_pylist() if r["called"]]
    assert [(r["chrom"], len(r["ref"]) - len(r["alt"])) for r in deletion] == [("chr1", 3)]
    assert not any(rows_of(together, "indels", "bob")["called"].to_pylist())


def test_tools_accept_the_vcf_of_every_case(together):
    bcftools = shutil.which("bcftools")
    if bcftools is None:
        pytest.skip("bcftools is not installed")
    for case in CASES:
        path = str(place(together) / "cases" / case / "variants.vcf.gz")
        for asked in (["view", path], ["norm", "-c", "w", "-f", _fasta(together), path],
                      ["stats", path], ["query", "-f", "%POS[ %AD]\n", path]):  # fmt: skip
            done = subprocess.run([bcftools, *asked], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        with pysam.VariantFile(path) as vcf:
            assert list(vcf.header.samples) == [case, f"{case}:1", f"{case}:2", "blood",
                                                "blood:1", "blood:2"]  # fmt: skip


def _fasta(target):
    return json.loads((place(target) / "run.json").read_text())["settings"]["fasta"]


def test_the_report_lists_the_cases(together):
    page = (place(together) / "report.html").read_text()
    for text in ("3 of 3 cases", "what a run of it alone calls", "A case far from the others",
                 *CASES):  # fmt: skip
        assert text in page
    calls = json.loads((place(together) / "vbflows_calls_mqc.json").read_text())["data"]
    assert set(calls) == set(CASES)
    rates = json.loads((place(together) / "vbflows_errors_mqc.json").read_text())["data"]
    assert set(rates) == {*CASES, "blood"}
    rows = pq.read_table(place(together) / "posterior" / "parameters.parquet").to_pylist()
    assert {r["index"] for r in rows if r["name"] == "tau"} == set(CASES)
    assert {r["index"] for r in rows if r["name"] == "indel_pi"} == set(CASES)


def test_it_has_the_same_bits_on_workers_and_when_resumed(
    capsys, monkeypatch, counts, tmp_path
):  # fmt: skip
    asked = (*QUICK, *NAMED, *options(rows_per_partition=16))
    whole, workers, resumed = (tmp_path / name for name in ("whole", "workers", "resumed"))
    code, _, err = run(capsys, "variants", counts, whole, *asked)
    assert code == 0, err
    code, _, err = run(capsys, "variants", counts, workers, *asked, "--workers", "2")
    assert code == 0, err

    run_stopped_and_resumed(capsys, monkeypatch, counts, resumed, *asked)
    for other in (workers, resumed):
        assert same_bits(posterior(whole), posterior(other))
        for case in CASES:
            assert rows_of(whole, "loci", case).equals(rows_of(other, "loci", case))


def test_a_later_run_counts_new_cases_alone(capsys, monkeypatch, reads, tmp_path):
    from flows.variants import case_reads

    read = []
    real = case_reads.count_region

    def noted(path, *rest):
        read.append(Path(path).name)
        return real(path, *rest)

    monkeypatch.setattr(case_reads, "count_region", noted)
    lines = reads.read_text().splitlines()
    first = reads.parent / "first.csv"
    first.write_text("\n".join(line for line in lines if not line.startswith("cid")) + "\n")
    target = tmp_path / "nightly"
    asked = (*QUICK, *asked_of(reads), "--since", "latest")
    code, _, err = run(capsys, "variants", first, target, *asked)
    assert code == 0, err
    assert set(read) == {f"{s}{r}.bam" for s in ("ann", "bob", "blood") for r in (1, 2)}
    before = posterior(target)
    read.clear()
    code, _, err = run(capsys, "variants", reads, target, *asked)
    assert code == 0, err
    assert set(read) == {"cid1.bam", "cid2.bam"}
    assert "started from its posterior" in (place(target) / "report.html").read_text()
    after = posterior(target)
    assert list(before.names) == ["ann", "bob"]
    assert list(after.names) == list(CASES)
    # Counts as they were: those of a run that read all of it.
    code, _, err = run(capsys, "variants", reads, tmp_path / "anew", *asked)
    assert code == 0, err
    for table in ("loci", "indels"):
        columns = ["chrom", "pos", "case_reads", "case_depth", "control_reads", "control_depth"]
        one, other = (rows_of(t, table, "cid").select(columns) for t in (target, tmp_path / "anew"))
        assert one.equals(other)


def test_a_finished_run_scores_new_counts_of_its_cases(capsys, counts, tmp_path):
    code, _, err = run(capsys, "variants", counts, tmp_path / "out", *QUICK, *NAMED)
    assert code == 0, err
    code, _, err = run(capsys, "score", place(tmp_path / "out"), counts, tmp_path / "scored")
    assert code == 0, err
    columns = ["pos", "case_reads", "control_reads"]
    for case in CASES:
        one, other = (rows_of(tmp_path / t, "loci", case).select(columns)
                      for t in ("out", "scored"))  # fmt: skip
        assert one.equals(other)


def test_cases_share_a_panel(capsys, tmp_path):
    source = write_counts_of(tmp_path / "counts.parquet", CASES[:2], ("anna", "bela"))
    asked = options(cases="ann,bob", control="", panel="anna,bela")
    code, _, err = run(capsys, "variants", source, tmp_path / "all", *QUICK, *asked)
    assert code == 0, err
    alone = options(case="bob", control="", panel="anna,bela")
    code, _, err = run(capsys, "variants", source, tmp_path / "bob", *QUICK, *alone)
    assert code == 0, err
    assert same_as_alone(tmp_path / "all", tmp_path / "bob", "bob", 1, ("loci", "detection"))


def test_a_sheet_with_several_cases_is_one_run(reads):
    settled = FAMILY.settled(str(reads), VariantSettings())
    assert (settled.cases, settled.control) == ("ann,bob,cid", "blood")
    one = FAMILY.settled(str(reads), VariantSettings(case="bob"))
    assert (one.case, one.cases) == ("bob", "")
    some = FAMILY.settled(str(reads), VariantSettings(cases="bob,cid"))
    assert some.several == ["bob", "cid"]


def test_a_case_that_the_sheet_does_not_have_is_not_taken_for_all_of_them(capsys, reads):
    code, _, err = check(capsys, reads, fasta=reads.parent / "ref.fa", case="anm")
    assert code == 2
    assert "expected the name of one of the sheet's cases, found 'anm', and the role case" in err


def test_a_later_run_in_which_a_case_and_the_control_have_changed_places_reads_both(
    capsys, reads, tmp_path
):  # fmt: skip
    other = reads.parent / "other-places.csv"
    text = reads.read_text().replace("ann1.bam", "*1").replace("ann2.bam", "*2")
    text = text.replace("blood1.bam", "ann1.bam").replace("blood2.bam", "ann2.bam")
    other.write_text(text.replace("*", "blood").replace("blood1,", "blood1.bam,")
                     .replace("blood2,", "blood2.bam,"))  # fmt: skip
    asked = (*QUICK, *asked_of(reads), "--since", "latest")
    for target, sheets in ((tmp_path / "nightly", (reads, other)), (tmp_path / "anew", (other,))):
        for sheet in sheets:
            code, _, err = run(capsys, "variants", sheet, target, *asked)
            assert code == 0, err
    columns = ["chrom", "pos", "case_depth", "control_depth"]
    for case in CASES:
        one, two = (rows_of(tmp_path / t, "loci", case).select(columns)
                    for t in ("nightly", "anew"))  # fmt: skip
        assert one.equals(two)


def test_a_warning_of_some_cases_names_them_however_short_their_names():
    told = {"a": ["A limit is reached."], "b": ["A limit is reached."], "1": ["All 12 of it."]}
    assert _once(told) == ["a, b: A limit is reached.", "1: All 12 of it."]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cases": "ann,bob", "case": "cid"}, "case names 'cid', cases 'ann,bob'; give one of"),
        ({"cases": "ann,bob,ann"}, "cases names 'ann' twice"),
        ({"cases": "ann,normal"}, "'normal' is named as a case and as a control"),
        ({"cases": "ann,.."}, "cannot name the folder of its results"),
        ({"cases": "ann,b/c"}, "cannot name the folder of its results"),
        ({"cases": "ann,bob", "test": "posterior_difference"}, "in one run need test two_groups"),
        ({"cases": "ann,bob", "test": "sampled_difference"}, "not sampled_difference"),
        ({"cases": "ann,bob", "control": ""}, "share a control or a panel"),
        ({"cases": "ann,nobody"}, "a sample named 'nobody'"),
    ],
)
def test_settings_of_several_cases_that_cannot_be_are_refused(capsys, counts, asked, message):
    code, _, err = check(capsys, counts, **{"control": "normal", **asked})
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["ann,1,a.bam,case", "ann,1,b.bam,case", "n,1,c.bam,control"], "ann 1 again"),
        (["ann,1,a.bam,case", "bob,1,b.bam,case", "bob,2,c.bam,control"], "one role for all"),
        (['"a,b",1,a.bam,case', "bob,1,b.bam,case", "n,1,c.bam,control"], "without a comma"),
        (["ann,,a.bam,case", "bob,1,b.bam,case", "n,1,c.bam,control"], "expected a value"),
        (["ann,1,a.bam,case", "bob,1,b.bam,case"], "a sample named 'control'"),
        (["ann,1,a.bam,case", "b/b,1,b.bam,case", "n,1,c.bam,control"], "cannot name the folder"),
    ],
)
def test_sheets_of_several_cases_that_make_no_sense_are_refused(capsys, tmp_path, rows, message):
    write_cases(tmp_path, cases=())
    for name in "abc":
        write_reads_of(tmp_path / f"{name}.bam", ord(name), depth=5)
    sheet = tmp_path / "other.csv"
    sheet.write_text("\n".join(["sample,replicate,path,role", *rows]) + "\n")
    code, _, err = check(capsys, sheet, fasta=tmp_path / "ref.fa")
    assert code == 2
    assert message in err


def test_cases_and_a_panel_are_read_from_cram(capsys, tmp_path, reads, together):
    (tmp_path / "cram").mkdir()
    sheet = write_cases(tmp_path / "cram", cram=True)
    code, _, err = run(capsys, "variants", sheet, tmp_path / "all", *QUICK, *asked_of(sheet),
                       "--workers", "2")  # fmt: skip
    assert code == 0, err
    for case in CASES:
        for table in ("loci", "indels"):
            one, other = (rows_of(target, table, case) for target in (together, tmp_path / "all"))
            assert one.equals(other)
    panel = options(case="ann", panel="bob,cid")
    for target, source in (("panel", sheet), ("panel_of_bam", reads)):
        asked = (*QUICK, *panel, *asked_of(source))
        code, _, err = run(capsys, "variants", source, tmp_path / target, *asked)
        assert code == 0, err
    one, other = (rows_of(tmp_path / t, "indels", "ann") for t in ("panel", "panel_of_bam"))
    assert one.equals(other)
    called = [r for r in one.to_pylist() if r["called"]]
    assert [(r["chrom"], len(r["ref"]) - len(r["alt"])) for r in called] == [("chr1", 3)]
    with pysam.VariantFile(str(place(tmp_path / "panel") / "variants.vcf.gz")) as vcf:
        (deletion,) = (r for r in vcf if len(r.ref) > 1)
        shown = {name: of["AD"][1] for name, of in deletion.samples.items()}
        assert shown["ann"] == shown["ann:1"] + shown["ann:2"] > 10
        assert shown["bob"] == shown["cid"] == shown["blood"] == 0


@pytest.mark.parametrize("asked", [{"cases": ",".join(CASES)}, {"panel": "bob", "case": "ann"}])
def test_a_cap_on_the_depth_holds_for_cases_and_panels(capsys, reads, tmp_path, asked):
    asked = {"control": "blood", "max_depth": 20, **asked}
    code, out, err = run(capsys, "variants", reads, tmp_path, *QUICK, *asked_of(reads),
                         *options(**asked), "--json")  # fmt: skip
    assert code == 0, err
    depth = rows_of(tmp_path, "loci", "ann")["case_depth"].to_pylist()
    assert max(depth) == 2 * 20
    assert any("max_depth caps" in warning for warning in json.loads(out)["warnings"])


def test_two_runs_of_several_cases_are_compared_case_by_case():
    one, two = {"cases": {"ann": {"passed": 3}}, "passed": 3}, {"cases": {"bob": {"passed": 4}}}
    told = {line.name: (line.first, line.second) for line in compared_results(one, two)}
    assert told == {"ann: passed": (3, None), "bob: passed": (None, 4), "passed": (3, None)}
