"""Which reads count at a position: of mates that overlap one."""

import itertools
from collections import Counter

import numpy as np
import pysam
import pytest
from numpy.testing import assert_array_equal

from flows.variants.input.read_account import kept_bases, kept_reads, reads_of
from flows.variants.reads import bam_kernels, reads
from flows.variants.reads.alignments import open_alignment
from flows.variants.reads.regions import Region, windows_of
from flows.variants.settings import VariantSettings
from tests.flows.variants import hostile_bam
from tests.flows.variants.pileup import count_region
from tests.flows.variants.variant_files import (
    header_of,
    make_read,
    save_reads,
    write_bam,
    write_fasta,
)


def counted(path, region, settings):
    return count_region(path, region, settings).counts


@pytest.fixture
def fasta(tmp_path):
    return write_fasta(tmp_path / "ref.fa")


def depth(path, fasta, start, stop, **settings):
    found = counted(
        str(path), Region("chr1", start, stop), VariantSettings(fasta=str(fasta), **settings)
    )
    return found.sum(axis=(1, 2))


def _templates_by_position(bam, region):
    """Count the templates that show a base at each position, by their reads' names."""
    names = [set() for _ in range(region.length)]
    with pysam.AlignmentFile(str(bam)) as file:
        for read in file.fetch(region.contig, region.start, region.stop):
            if read.flag & 0x704:
                continue
            for _, at in read.get_aligned_pairs(matches_only=True):
                if region.start <= at < region.stop:
                    names[at - region.start].add(read.query_name)
    return np.array([len(of) for of in names])


def _pairs(flags, far):
    """Return reads of 300 templates; ``flags`` of the two mates, ``far`` from where they say."""
    rng = np.random.default_rng(3)
    reads = []
    for i in range(300):
        start, apart = int(rng.integers(0, 45)), int(rng.integers(0, 45))
        one, two = flags if i % 2 else (flags[0] ^ 0x30, flags[1] ^ 0x30)
        mate = -1 if far else start + apart
        reads.append((0, start, 30, one, mate, f"t{i}", 30))
        reads.append((0, start + apart, 30, two, -1 if far else start, f"t{i}", 30))
        if i % 5 == 0:  # a supplementary part of the second mate over both
            reads.append((0, start + apart // 2, 30, two | 0x800, start, f"t{i}", 30))
    return sorted(reads, key=lambda read: read[1])


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("flags", [(99, 147), (65, 129), (105, 153)])
def test_with_orphans_each_template_counts_once_whatever_its_flags_say(fasta, tmp_path, flags, far):
    bam = write_bam(tmp_path / "pairs.bam", _pairs(flags, far))
    region = Region("chr1", 0, 120)
    expected = _templates_by_position(bam, region)
    how = {"orphans": True, "min_base_quality": 0}
    assert_array_equal(depth(bam, fasta, 0, 120, **how), expected)


def _rule_of(read):
    """Return by which rule htslib's pileup leaves a read out, as its flags say it."""
    for name in ("is_unmapped", "is_secondary", "is_qcfail", "is_duplicate"):
        if getattr(read, name):
            return name
    if read.mapping_quality < 20:
        return "mapping"
    return "orphan" if read.is_paired and not read.is_proper_pair else "counted"


@pytest.mark.parametrize("cut", [[0, 1000], [0, 130, 131, 400, 1000]])
def test_every_read_is_in_one_account(tmp_path, cut):
    """Over intervals and windows that reads span, and however the positions are cut."""
    fasta = hostile_bam.write_fasta(tmp_path / "ref.fa")
    bam = hostile_bam.write(tmp_path / "odd.bam", 0, kind="odd")
    with pysam.AlignmentFile(str(bam)) as file:  # more of the flags
        header, reads = file.header, list(file)
    for i, read in enumerate(reads):
        read.is_duplicate, read.is_qcfail = i % 5 == 0, i % 7 == 0
        read.is_secondary, read.mapping_quality = i % 11 == 0, 10 if i % 13 == 0 else 60
    save_reads(bam, header, reads)
    regions = [Region("amp", 20, 420), Region("amp", 450, 950), Region("last", 50, 150)]
    settings = VariantSettings(fasta=str(fasta))
    account = sum(
        count_region(str(bam), window, settings, met).account
        for low, high in itertools.pairwise(cut)
        for window, met in windows_of(regions, low, high)
    )
    expected, seen = Counter(), set()
    with pysam.AlignmentFile(str(bam)) as file:
        for region in regions:
            for read in file.fetch(region.contig, region.start, region.stop):
                key = read.to_string()
                expected[_rule_of(read)] += key not in seen
                seen.add(key)
        total = file.mapped + file.unmapped
    names = ("is_unmapped", "is_secondary", "is_qcfail", "is_duplicate", "mapping", "orphan")
    assert account[: bam_kernels.BASES].tolist() == [
        sum(expected.values()), *(expected[name] for name in names)
    ]  # fmt: skip
    assert all(expected[name] for name in ("is_duplicate", "is_qcfail", "mapping", "counted"))
    of_all = np.append(account, total)
    assert kept_reads(of_all) == expected["counted"]
    counts = sum(
        count_region(str(bam), region, settings).counts.sum(dtype=np.int64) for region in regions
    )
    assert kept_bases(of_all) == counts
    assert reads_of(str(bam), settings) == total


def test_a_file_is_opened_once_for_all_of_its_regions(tmp_path, monkeypatch):
    """With thousands of contigs the header and the index took most of the time."""
    fasta = hostile_bam.write_fasta(tmp_path / "ref.fa")
    bam = hostile_bam.write(tmp_path / "odd.bam", 0, kind="odd")
    regions = [Region("amp", 20, 420), Region("amp", 450, 950), Region("last", 50, 150)]
    settings = VariantSettings(fasta=str(fasta))
    alone = [count_region(str(bam), region, settings) for region in regions]
    opened = []

    def open_and_note(path, settings):
        opened.append(path)
        return open_alignment(path, settings)

    monkeypatch.setattr(reads, "open_alignment", open_and_note)
    with reads.ReadCounter(settings) as counter:
        for region, expected in zip(regions, alone, strict=True):
            np.testing.assert_array_equal(counter.count(str(bam), region).counts, expected.counts)
    assert opened == [str(bam)]


def _long_contigs(path):
    """Write reads over two contigs of several windows: dense, sparse, spliced, none."""
    rng, header, made = np.random.default_rng(0), header_of(["long", "bare", "last"], 300_000), []
    for contig, starts in ((0, [9_000, 70_000, 200_000]), (2, [40_000, 260_000])):
        at = np.concatenate([start + rng.integers(0, 20_000, 400) for start in starts])
        for i, start in enumerate(np.sort(at)):
            over = [(0, 50), (3, int(rng.integers(1, 90_000))), (0, 50)] if i % 9 == 0 else None
            if over and start + over[1][1] > 299_000:
                over = None
            made.append(make_read(header, f"{contig}-{i}", int(start), "A" * 100, over, 0, contig))
    return save_reads(path, header, made, index=False)


@pytest.mark.parametrize("index", [["-b"], ["-c"], ["-c", "-m", "11"], ["-c", "-m", "17"]])
def test_every_kind_of_index_finds_all_reads_of_a_region(tmp_path, index):
    bam = str(_long_contigs(tmp_path / "long.bam"))
    fasta = tmp_path / "ref.fa"
    fasta.write_text("".join(f">{name}\n{'C' * 300_000}\n" for name in ("long", "bare", "last")))
    pysam.index(*index, bam)
    settings = VariantSettings(fasta=str(fasta), min_base_quality=0)
    for contig in ("long", "bare", "last"):
        for start in (0, 8_000, 16_384, 29_000, 69_990, 120_000, 219_900, 240_000, 299_000):
            for stop in (start + 40, min(start + 30_000, 300_000)):
                with pysam.AlignmentFile(bam) as file:
                    expected = np.sum(file.count_coverage(contig, start, stop, None, 0, "all"), 0)
                found = counted(bam, Region(contig, start, stop), settings).sum(axis=(1, 2))
                assert_array_equal(found, expected)
