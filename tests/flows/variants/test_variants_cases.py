"""Several cases that share their controls in one run: results, faults, resume and later runs."""

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pysam
import pytest

from flows.records.runs import open_run
from flows.records.states import read_state
from flows.variants.family import FAMILY
from flows.variants.settings import VariantSettings
from tests.flows.commands import succeed
from tests.flows.variants.case_files import write_cases, write_counts_of
from tests.flows.variants.variant_files import options, run_stopped_and_resumed
from vbmodels.core.state import State, same_bits

CASES = ("ann", "bob", "cid")
QUICK = ("--set", "max_iter=5")
CUT = options(rows_per_partition=16)
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
    succeed("variants", reads, target, *QUICK, *fasta_of(reads), "--since", "latest")
    return target


def fasta_of(sheet):
    return options(fasta=sheet.parent / "ref.fa")


@pytest.fixture(scope="module")
def of_counts(tmp_path_factory, counts):
    target = tmp_path_factory.mktemp("counts")
    succeed("variants", counts, target, *QUICK, *NAMED, *CUT)
    return target


def test_each_case_of_counts_has_the_bits_of_a_run_of_its_own(counts, of_counts, tmp_path):
    about = json.loads((place(of_counts) / "run.json").read_text())
    results = about["results"]
    assert results["passed"] == sum(own["passed"] for own in results["cases"]) == 9
    assert about["partitions"] == 3 * 3  # 240 rows of 6 replicates' 16 each, of every case
    succeed("score", place(of_counts), counts, tmp_path / "scored")
    columns = ["pos", "case_reads", "control_reads"]
    for number, case in enumerate(CASES):
        alone = tmp_path / case
        succeed("variants", counts, alone, *QUICK, *options(case=case, control="normal"), *CUT)
        assert same_as_alone(of_counts, alone, case, number, ("loci", "detection"))
        fit, score = (rows_of(t, "loci", case) for t in (of_counts, tmp_path / "scored"))
        assert fit.select(columns).equals(score.select(columns))


@pytest.mark.thorough
def test_it_has_the_same_bits_on_workers_and_when_resumed(
    capsys, monkeypatch, counts, of_counts, tmp_path
):  # fmt: skip
    workers, resumed = tmp_path / "workers", tmp_path / "resumed"
    arguments = (*QUICK, *NAMED, *CUT)
    succeed("variants", counts, workers, *arguments, "--workers", "2")
    run_stopped_and_resumed(capsys, monkeypatch, counts, resumed, *arguments)
    for other in (workers, resumed):
        assert same_bits(posterior(of_counts), posterior(other))
        for case in CASES:
            assert rows_of(of_counts, "loci", case).equals(rows_of(other, "loci", case))


@pytest.mark.thorough
def test_each_case_of_reads_has_the_bits_of_a_run_of_its_own(reads, together, tmp_path):
    for number, case in enumerate(CASES[:2]):
        alone = tmp_path / case
        succeed("variants", reads, alone, *QUICK, *fasta_of(reads), *options(case=case))
        assert same_as_alone(together, alone, case, number, ("loci", "detection", "indels"))
    assert deletions(together) == [("chr1", 3)]
    assert not any(rows_of(together, "indels", "bob")["called"].to_pylist())


def deletions(target):
    called = [r for r in rows_of(target, "indels", "ann").to_pylist() if r["called"]]
    return [(r["chrom"], len(r["ref"]) - len(r["alt"])) for r in called]


@pytest.mark.thorough
def test_the_files_list_the_cases(together):
    rows = pq.read_table(place(together) / "posterior" / "parameters.parquet").to_pylist()
    assert {r["index"] for r in rows if r["name"] == "site_sd"} == set(CASES)
    # Rates of indels are fitted for the cases in which an allele has two reads.
    with_indels = set(pq.read_table(place(together) / "indels")["sample"].to_pylist())
    assert {r["index"] for r in rows if r["name"] == "indel_pi"} == with_indels == {"ann"}
    for case in CASES:
        path = str(place(together) / "cases" / case / "variants.vcf.gz")
        with pysam.VariantFile(path) as vcf:
            samples = [f"{s}{r}" for s in (case, "blood") for r in ("", ":1", ":2")]
            assert list(vcf.header.samples) == samples


@pytest.mark.thorough
def test_a_later_run_counts_new_cases_alone(monkeypatch, reads, tmp_path):
    from flows.variants.reads.reads import ReadCounter

    read = []
    real = ReadCounter.count

    def noted(self, path, *rest):
        read.append(Path(path).name)
        return real(self, path, *rest)

    monkeypatch.setattr(ReadCounter, "count", noted)
    lines = reads.read_text().splitlines()
    first = reads.parent / "first.csv"
    first.write_text("\n".join(line for line in lines if not line.startswith("cid")) + "\n")
    target = tmp_path / "nightly"
    arguments = (*QUICK, *fasta_of(reads), "--since", "latest")
    succeed("variants", first, target, *arguments)
    assert set(read) == {f"{s}{r}.bam" for s in ("ann", "bob", "blood") for r in (1, 2)}
    before = posterior(target)
    read.clear()
    succeed("variants", reads, target, *arguments)
    assert set(read) == {"cid1.bam", "cid2.bam"}
    assert "started from its posterior" in (place(target) / "report.html").read_text()
    after = posterior(target)
    assert list(before.names) == ["ann", "bob"]
    assert list(after.names) == list(CASES)
    # Counts as they were: those of a run that read all of it.
    succeed("variants", reads, tmp_path / "afresh", *arguments)
    for table in ("loci", "indels"):
        columns = ["chrom", "pos", "case_reads", "case_depth", "control_reads", "control_depth"]
        one, other = (
            rows_of(t, table, "cid").select(columns) for t in (target, tmp_path / "afresh")
        )
        assert one.equals(other)


def test_a_sheet_with_several_cases_is_one_run(reads):
    settled = FAMILY.settings_from_input(str(reads), VariantSettings())
    assert (settled.cases, settled.control) == ("ann,bob,cid", "blood")
    one = FAMILY.settings_from_input(str(reads), VariantSettings(case="bob"))
    assert (one.case, one.cases) == ("bob", "")
    some = FAMILY.settings_from_input(str(reads), VariantSettings(cases="bob,cid"))
    assert some.several == ["bob", "cid"]


@pytest.mark.thorough
def test_a_later_run_in_which_a_case_and_the_control_have_changed_places_reads_both(
    reads, tmp_path
):  # fmt: skip
    other = reads.parent / "other-places.csv"
    text = reads.read_text().replace("ann1.bam", "*1").replace("ann2.bam", "*2")
    text = text.replace("blood1.bam", "ann1.bam").replace("blood2.bam", "ann2.bam")
    other.write_text(text.replace("*", "blood").replace("blood1,", "blood1.bam,")
                     .replace("blood2,", "blood2.bam,"))  # fmt: skip
    arguments = (*QUICK, *fasta_of(reads), "--since", "latest")
    for target, sheets in ((tmp_path / "nightly", (reads, other)), (tmp_path / "afresh", (other,))):
        for sheet in sheets:
            succeed("variants", sheet, target, *arguments)
    columns = ["chrom", "pos", "case_depth", "control_depth"]
    for case in CASES:
        one, two = (rows_of(tmp_path / t, "loci", case).select(columns)
                    for t in ("nightly", "afresh"))  # fmt: skip
        assert one.equals(two)
