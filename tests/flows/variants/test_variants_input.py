"""What variants are called from: files that change, sheets, regions, BED files."""

import gzip
import os
import time
from functools import update_wrapper

import pytest

from flows import count as count_pipeline
from flows import stages, storage
from flows.faults import InputError
from flows.variants.input.sample_sheet import read_sheet
from flows.variants.reads.contigs import fasta_contigs
from flows.variants.reads.regions import Region, regions
from flows.variants.settings import VariantSettings
from tests.flows.commands import run, succeed
from tests.flows.variants.variant_files import (
    CONTIGS,
    QUICK,
    edit_bed,
    options,
    positions,
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
        patch.setattr(stages.score, "function", update_wrapper(fails, stages.score.function))
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
    arguments = options(fasta=tmp_path / "ref.fa", bed=tmp_path / "x.bed")
    code, _, err = run(capsys, "variants", source, tmp_path / "out", *QUICK, *arguments)
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
    arguments = options(fasta=tmp_path / "ref.fa", bed=tmp_path / "x.bed")
    code, _, err = run(capsys, "count", reads, tmp_path / "counts", "--partitions", 2, *arguments)
    assert code == 1
    assert f"{changed} has changed since this run first read it" in err
    assert not list((tmp_path / "counts").glob("*.parquet"))


def test_rows_of_a_sheet_without_a_cell_are_blank(tmp_path):
    """As a spreadsheet writes rows below a table that once had cells."""
    (tmp_path / "s.csv").write_text("Sample;BAM;note\r\nann;a.bam;x\r\n;;\r\n ; ;\r\n")
    (line,) = read_sheet(str(tmp_path / "s.csv"))
    assert (line.sample, line.replicate, line.path) == ("ann", "1", str(tmp_path / "a.bam"))


def regions_for(tmp_path, contigs=None, **settings):
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
    assert regions_for(tmp_path, contigs, region=region) == [expected]


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
    found = regions_for(tmp_path, bed=str(tmp_path / "x.bed"))
    assert found == [Region("chr1", 0, 5), Region("chr2", 0, 7)]


def test_a_region_and_merged_beds_in_the_order_of_the_fasta(tmp_path):
    assert [r.contig for r in regions_for(tmp_path)] == list(CONTIGS)
    bed = tmp_path / "x.bed"
    bed.write_text("chr2\t0\t50\nchr1\t0\t8\nchr1\t6\t10\nchr1\t40\t60\n")
    found = regions_for(tmp_path, bed=str(bed), region="chr1:6-50")
    assert found == [Region("chr1", 5, 10), Region("chr1", 40, 50)]
    with pytest.raises(InputError, match="an interval within the region chr10"):
        regions_for(tmp_path, bed=str(bed), region="chr10")
    bed.write_text("track_7\t0\t5\n")  # no line of a track
    assert regions_for(tmp_path, {"track_7": 9}, bed=str(bed)) == [Region("track_7", 0, 5)]


def test_positions_that_no_index_can_hold_are_refused(tmp_path):
    contigs = {"long": 2**29 + 10}
    assert regions_for(tmp_path, contigs, region="long:1-1000")
    for settings in ({}, {"region": f"long:{2**29}"}):
        with pytest.raises(InputError, match="positions below 2\\^29"):
            regions_for(tmp_path, contigs, **settings)
