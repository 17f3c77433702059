"""Bases of primers do not count: reads that begin within one, by strand, mates and single reads."""

import numpy as np
import pysam
import pytest

from flows.variants.input import read_account
from flows.variants.reads import bam_kernels as kernels
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants.pileup import count_region
from tests.flows.variants.variant_files import (
    check_refused,
    header_of,
    make_read,
    save_reads,
    sequence,
    write_counts,
    write_sheet,
)

LENGTH = 160
REFERENCE = sequence("amp", LENGTH)
FORWARD, REVERSE = (20, 40), (120, 140)
PAIRS, THROUGH, SINGLE = 30, 20, 10
BED = f"amp\t{FORWARD[0]}\t{FORWARD[1]}\ta_L\t1\t+\namp\t{REVERSE[0]}\t{REVERSE[1]}\ta_R\t1\t-\n"


def _pair(header, name, first, second, length):
    """Mates of the amplicon, of which each begins with its primer."""
    for flag, (low, high), mate in ((99, first, second), (147, second, first)):
        read = make_read(header, name, low, REFERENCE[low:high], None, flag, quality=37)
        read.next_reference_id, read.next_reference_start = 0, mate[0]
        read.template_length = length if flag == 99 else -length
        yield read


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("primers")
    (folder / "ref.fa").write_text(f">amp\n{REFERENCE}\n")
    pysam.faidx(str(folder / "ref.fa"))
    (folder / "primers.bed").write_text(BED)
    header, reads = header_of(["amp"], LENGTH), []
    for i in range(PAIRS):
        reads += _pair(header, f"p{i}", (20, 100), (60, 140), 120)
    for i in range(THROUGH):
        reads += _pair(header, f"t{i}", (20, 140), (20, 140), 120)
    reads += [make_read(header, f"s{i}", 10, REFERENCE[10:110], quality=37) for i in range(SINGLE)]
    for name in ("a", "b"):
        save_reads(folder / f"{name}.bam", header, reads)
    write_sheet(folder)
    return folder


def counted(folder, **settings):
    how = VariantSettings(fasta=str(folder / "ref.fa"), **settings)
    return count_region(str(folder / "a.bam"), Region("amp", 0, LENGTH), how)


def test_bases_of_primers_do_not_count_and_are_in_the_account(folder):
    found = counted(folder, primers=str(folder / "primers.bed"))
    depth = np.zeros(LENGTH, int)
    depth[40:120] += PAIRS + THROUGH
    depth[10:110] += SINGLE
    assert found.counts.sum(axis=(1, 2)).tolist() == depth.tolist()
    account = found.account
    assert account[kernels.PRIMER] == 2 * 20 * PAIRS + 2 * 40 * THROUGH
    assert account[kernels.LOW_QUALITY] == account[kernels.NO_BASE] == 0
    whole = np.append(account, 0)
    assert read_account.kept_bases(whole) == depth.sum()
    # Of mates that agree each base was sequenced at 37; nothing of a primer is a mismatch.
    assert not found.sums[:, :, 8].any()


def test_reads_that_begin_in_a_primer_are_counted_and_an_offset_reaches_further(folder):
    """Single reads begin 10 bases before a primer; of primers a base further in no read does."""
    primers = folder / "primers.bed"
    for offset, primed, single in ((0, 2 * (PAIRS + THROUGH), SINGLE), (9, 100, SINGLE),
                                   (10, 100 + SINGLE, 0)):  # fmt: skip
        found = counted(folder, primers=str(primers), primer_offset=offset)
        assert found.account[kernels.PRIMED] == primed
        assert found.counts[30].sum() == single
    early = folder / "early.bed"
    early.write_text(BED.replace("\t20\t40", "\t21\t40").replace("\t120\t140", "\t120\t139"))
    for offset, n in ((0, 0), (1, 100)):
        how = {"primers": str(early), "primer_offset": offset}
        account = np.append(counted(folder, **how).account, 0)[None]
        assert account[0, kernels.PRIMED] == n
        settings = VariantSettings(fasta=str(folder / "ref.fa"), **how)
        said = read_account.warnings(account, [("case", "1")], settings)
        assert [s.partition(":")[0] for s in said if "in a primer" in s] == (
            [] if n else ["0 of 110 reads of case begin in a primer"]
        )


def test_without_primers_all_bases_count(folder):
    depth = counted(folder).counts.sum(axis=(1, 2))
    assert depth[30] == PAIRS + THROUGH + SINGLE
    assert depth[130] == PAIRS + THROUGH


def test_a_mate_that_no_primer_masks_counts_in_full(folder):
    """Where one of two mates is masked, the other keeps its base, its strand and its quality."""
    path = folder / "one.bam"
    header = header_of(["amp"], LENGTH)
    save_reads(path, header, list(_pair(header, "p", (20, 100), (10, 90), 130)))
    how = VariantSettings(fasta=str(folder / "ref.fa"), primers=str(folder / "primers.bed"))
    found = count_region(str(path), Region("amp", 0, LENGTH), how)
    assert found.counts[20:40, 0].sum() == 0
    assert found.counts[20:40, 1].sum() == 20
    assert found.counts[10:100].sum() == 90


def test_what_is_wrong_with_primers_is_named(capsys, folder, tmp_path):
    bed = tmp_path / "primers.bed"
    bed.write_text("amp\t20\t40\nother\t1\t20\tb\t1\t-\n")
    err = check_refused(capsys, folder / "sheet.csv", fasta=folder / "ref.fa", primers=bed)
    assert "primers.bed, row 1: expected contig, start, end, name, score and strand" in err
    assert "primers.bed, row 2" in err
    bed.write_text(
        "amp\t50\t20\ta\t0\t+\namp\t5000\t5020\ta\t0\t+\namp\t0\t99999999999999999999\ta\t0\t+\n"
    )
    err = check_refused(capsys, folder / "sheet.csv", fasta=folder / "ref.fa", primers=bed)
    assert "row 1: expected a start below the end" in err
    assert "row 2: expected a start below the end" in err
    assert "row 3: expected contig, start, end" in err
    counts = write_counts(tmp_path / "counts.parquet")
    err = check_refused(capsys, counts, primers=folder / "primers.bed")
    assert "expected reads, whose bases of primers do not count, found counts" in err
