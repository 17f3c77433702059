"""What variants are called from: files that change, sheets, regions, BED files."""

from __future__ import annotations

import gzip
import os
import time

import pytest

from flows import stages
from flows.data import storage
from flows.faults import InputError
from flows.runs import count as count_pipeline
from flows.variants.regions import AnyContig, Region, fasta_contigs, regions
from flows.variants.sample_sheet import read_sheet
from flows.variants.settings import VariantSettings
from tests.flows.variants.variant_files import (
    CONTIGS,
    QUICK,
    check,
    check_refused,
    edit_bed,
    options,
    positions,
    run,
    succeed,
    write_bam,
    write_counts,
    write_fasta,
    write_reads,
    write_sheet,
)


@pytest.fixture
def reads(tmp_path):
    return write_reads(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["reads", "counts"])
def test_a_bed_that_was_edited_is_read_again(capsys, monkeypatch, reads, tmp_path, kind):
    source = reads if kind == "reads" else write_counts(tmp_path / "counts.parquet")
    bed, target = tmp_path / "x.bed", tmp_path / "out"
    how = (*QUICK, *options(fasta=tmp_path / "ref.fa", bed=bed))
    for start in (5, 20):
        edit_bed(bed, f"chr1\t{start}\t{start + 6}\n")
        succeed("variants", source, target, *how, "--since", "latest")
        assert positions(target) == set(range(start + 1, start + 7))

    def fails(*args):
        raise storage.StorageError("the store went away")

    with monkeypatch.context() as patch:
        patch.setattr(stages, "_score", fails)
        assert run(capsys, "variants", source, tmp_path / "stopped", *how)[0] == 1
    (run_id,) = (path.name for path in (tmp_path / "stopped" / "runs").iterdir())
    edit_bed(bed, "chr1\t25\t31\n")
    succeed("variants", source, tmp_path / "stopped", *how, "--resume", run_id)
    assert positions(tmp_path / "stopped") == set(range(26, 32))


@pytest.mark.parametrize(("kind", "named"), [("reads", "x.bed"), ("counts", "ref.fa")])
def test_a_bed_or_fasta_that_changes_during_the_run_is_refused(
    capsys, monkeypatch, reads, tmp_path, kind, named
):
    source = reads if kind == "reads" else write_counts(tmp_path / "counts.parquet")
    edit_bed(tmp_path / "x.bed", "chr1\t5\t11\n")
    begun = stages.computing

    def change(*given):
        edit_bed(tmp_path / named, (tmp_path / named).read_text())
        return begun(*given)

    monkeypatch.setattr(stages, "computing", change)
    asked = options(fasta=tmp_path / "ref.fa", bed=tmp_path / "x.bed")
    code, _, err = run(capsys, "variants", source, tmp_path / "out", *QUICK, *asked)
    assert code == 1
    assert f"{named} has changed since this run first read it" in err
    assert not (tmp_path / "out" / "latest.json").exists()


@pytest.mark.parametrize("changed", ["sheet.csv", "x.bed", "a.bam"])
def test_what_changes_during_a_count_is_refused(capsys, monkeypatch, reads, tmp_path, changed):
    edit_bed(tmp_path / "x.bed", "chr1\t5\t25\n")
    original, calls = count_pipeline.write_part_counts, []

    def edits(part, settings, target, names):
        if calls:  # after the first partition
            path = tmp_path / changed
            if changed == "sheet.csv":
                rows = [("control", "1", "a.bam"), ("case", "1", "b.bam")]
                write_sheet(tmp_path, rows)
            later = time.time_ns() + 10_000_000
            os.utime(path, ns=(later, later))
        calls.append(part)
        return original(part, settings, target, names)

    monkeypatch.setattr(count_pipeline, "write_part_counts", edits)
    asked = options(fasta=tmp_path / "ref.fa", bed=tmp_path / "x.bed")
    code, _, err = run(capsys, "count", reads, tmp_path / "counts", "--partitions", 2, *asked)
    assert code == 1
    assert f"{changed} has changed since this run first read it" in err
    assert not list((tmp_path / "counts").glob("*.parquet"))


def test_a_file_without_an_index_is_checked_like_any_other(capsys, reads, tmp_path):
    fasta = tmp_path / "ref.fa"
    write_bam(tmp_path / "b.bam", [(0, 0, 50, 0, -1, "r", 30)], length=100, index=False)
    (tmp_path / "b.bam.bai").unlink()
    for _ in range(2):  # the second time an index is kept
        err = check_refused(capsys, reads, fasta=fasta)
        assert "b.bam: expected chr1 of 120 bases" in err
        assert "found 100" in err
    assert not (tmp_path / "b.bam.bai").exists()
    (tmp_path / "b.bam").write_bytes((tmp_path / "b.bam").read_bytes()[:-28])
    err = check_refused(capsys, reads, fasta=fasta)
    assert "b.bam" in err
    assert "truncated" in err


@pytest.mark.parametrize("other", ["./a.bam", "link.bam", "sub/../a.bam", "file://{folder}/a.bam"])
def test_a_file_under_two_names_is_one_file(reads, tmp_path, other):
    (tmp_path / "link.bam").symlink_to(tmp_path / "a.bam")
    (tmp_path / "sub").mkdir()
    other = other.format(folder=tmp_path)
    sheet = write_sheet(tmp_path, [("case", "1", "a.bam"), ("control", "1", other)])
    with pytest.raises(InputError, match=r"a file of its own .* again, first in row 2"):
        read_sheet(str(sheet))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n\ncase,1,\ncase,2,a.bam\ncase,2,b.bam\n",
         ["column path, row 4: expected a value", "row 6: expected each sample's"]),
        ('case,1,"' + "x" * 140_000 + "\n", ["row 2: expected lines of CSV", "quotation mark"]),
        ('case,1,"a\nb.bam\ncase,2,\n', ["column path", "a path or URL", "control characters"]),
        (",path\ncase,1,a.bam,b.bam\n", ["column path: expected this column once"]),
    ],
)  # fmt: skip
def test_bad_sheets_tell_every_fault_and_its_row(tmp_path, text, words):
    path = tmp_path / "s.csv"
    head = "sample,replicate,path"
    path.write_text(head + text if text.startswith(",") else f"{head}\n{text}")
    with pytest.raises(InputError) as told:
        read_sheet(str(path))
    assert all(word in str(told.value) for word in words), str(told.value)


def asked(tmp_path, contigs=None, **settings):
    fasta = write_fasta(tmp_path / "ref.fa")
    of = fasta_contigs(str(fasta)) if contigs is None else contigs
    return regions(VariantSettings(fasta=str(fasta), **settings), of)


@pytest.mark.parametrize(
    ("region", "contigs", "expected"),
    [
        ("chr1", None, Region("chr1", 0, 120)), ("chr1:5-", None, Region("chr1", 4, 120)),
        ("chr1:-100", None, Region("chr1", 0, 100)), ("chr1:1,0-1,1", None, Region("chr1", 9, 11)),
        ("HLA*01:01", {"HLA*01:01": 50}, Region("HLA*01:01", 0, 50)),
        ("HLA*01:01:3-4", {"HLA*01:01": 50}, Region("HLA*01:01", 2, 4)),
    ],
)  # fmt: skip
def test_regions_are_read_as_samtools_reads_them(tmp_path, region, contigs, expected):
    assert asked(tmp_path, contigs, region=region) == [expected]


@pytest.mark.parametrize("region", ["chr1:1-2-3", "chr1:", "chr1:,5"])
@pytest.mark.parametrize("contigs", [None, AnyContig()])
def test_regions_that_are_none_are_refused(tmp_path, region, contigs):
    with pytest.raises(InputError, match="column region: expected CONTIG, CONTIG:START or"):
        asked(tmp_path, contigs, region=region)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfchr1\t0\t5\nchr2\t0\t7\n",
        gzip.compress(b"chr1\t0\t5\n") + gzip.compress(b"chr2\t0\t7\n"),  # as bgzip does
        b"track name=x\nbrowser position\nchr1 0 5\r\n\r\nchr2 0 7\r\n",
    ],
    ids=["mark", "packed", "spaced"],
)
def test_beds_of_many_kinds(tmp_path, data):
    (tmp_path / "x.bed").write_bytes(data)
    found = asked(tmp_path, bed=str(tmp_path / "x.bed"))
    assert found == [Region("chr1", 0, 5), Region("chr2", 0, 7)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("chr1\t²\t5\n".encode(), "row 1: expected contig, start and end"),
        (b"chr1\t0\t5\nchr\xff1\t0\t5\n", "byte 13, which is no UTF-8"),
        (b"\x1f\x8b\x08\x00\x92\xff", "text, plain or packed with gzip"),
        (gzip.compress(b"chr1\t0\t5\n")[:-6], "text, plain or packed with gzip"),
        (b"chr1\t0\t5\nchr7\t0\t5\nchr1\t0\t500\n", "row 3: expected positions within chr1:1-120"),
    ],
    ids=["digit", "latin", "no gzip", "cut gzip", "outside"],
)  # fmt: skip
def test_beds_that_are_none_have_their_sentence(capsys, reads, tmp_path, data, words):
    (tmp_path / "x.bed").write_bytes(data)
    for source in (reads, write_counts(tmp_path / "counts.parquet")):
        err = check_refused(capsys, source, fasta=tmp_path / "ref.fa", bed=tmp_path / "x.bed")
        assert words in err


def test_a_region_and_merged_beds_in_the_order_of_the_fasta(tmp_path):
    assert [r.contig for r in asked(tmp_path)] == list(CONTIGS)
    bed = tmp_path / "x.bed"
    bed.write_text("chr2\t0\t50\nchr1\t0\t8\nchr1\t6\t10\nchr1\t40\t60\n")
    found = asked(tmp_path, bed=str(bed), region="chr1:6-50")
    assert found == [Region("chr1", 5, 10), Region("chr1", 40, 50)]
    with pytest.raises(InputError, match="an interval within chr10, the region"):
        asked(tmp_path, bed=str(bed), region="chr10")
    bed.write_text("track_7\t0\t5\n")  # no line of a track
    assert asked(tmp_path, {"track_7": 9}, bed=str(bed)) == [Region("track_7", 0, 5)]


def test_positions_that_no_index_can_hold_are_refused(tmp_path):
    contigs = {"long": 2**29 + 10}
    assert asked(tmp_path, contigs, region="long:1-1000")
    for settings in ({}, {"region": f"long:{2**29}"}):
        with pytest.raises(InputError, match="positions below 2\\^29"):
            asked(tmp_path, contigs, **settings)


def test_reads_that_are_given_by_themselves_ask_for_a_sheet(capsys, tmp_path):
    write_bam(tmp_path / "a.bam")
    err = check_refused(capsys, tmp_path / "a.bam")
    assert "expected a sample sheet or counts in Parquet, found the reads of one replicate" in err
    assert "case,1,a.bam" in err


@pytest.mark.thorough
def test_a_contig_that_no_vcf_can_hold_is_refused_only_where_it_is_used(capsys, tmp_path):
    contigs = ("chr1", "HLA,1", "chr10")
    fasta = write_fasta(tmp_path / "ref.fa", contigs)
    for name in ("a", "b"):
        write_bam(tmp_path / f"{name}.bam", contigs=contigs)
    counts = write_counts(tmp_path / "counts.parquet", contigs)
    bed = tmp_path / "chr1.bed"
    bed.write_text("chr1\t0\t40\n")
    for source in (write_sheet(tmp_path), counts):
        err = check_refused(capsys, source, fasta=fasta)
        assert "'HLA,1', whose character 4 is ','" in err
        assert "chr10" not in err.replace("--set bed", "")
        assert check(capsys, source, fasta=fasta, bed=bed)[0] == 0
