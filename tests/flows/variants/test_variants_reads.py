"""Which reads count at a position: a cap on the depth, mates that overlap."""

from __future__ import annotations

import numpy as np
import pysam
import pytest
from numpy.testing import assert_array_equal

from flows.variants.reads import count_region
from flows.variants.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants.variant_files import write_bam, write_fasta


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


def test_the_depth_cap_is_the_same_however_positions_are_cut(fasta, tmp_path):
    rng = np.random.default_rng(0)
    reads = [
        (0, int(s), 30, 0, -1, f"read:{i}", 30) for i, s in enumerate(rng.integers(0, 90, 600))
    ]
    bam = write_bam(tmp_path / "deep.bam", reads)
    settings = VariantSettings(fasta=str(fasta), max_depth=20)
    whole = counted(str(bam), Region("chr1", 0, 120), settings)
    cut = [counted(str(bam), Region("chr1", s, s + 10), settings) for s in range(0, 120, 10)]
    assert_array_equal(np.concatenate(cut), whole)
    free = depth(bam, fasta, 0, 120)
    assert free.max() > 150
    assert_array_equal(whole.sum(axis=(1, 2)), np.minimum(free, 20))


def test_the_depth_cap_takes_reads_at_random(fasta, tmp_path):
    """Numbered names, those of one kind odd: about half of the reads that count are of it."""
    reads = [(0, 10, 20, 16 * (i % 2), -1, f"lane1:{i:06d}", 30) for i in range(4000)]
    bam = write_bam(tmp_path / "deep.bam", reads)
    settings = VariantSettings(fasta=str(fasta), max_depth=1000)
    found = counted(str(bam), Region("chr1", 10, 12), settings)
    assert_array_equal(found[0].sum(axis=1), found[1].sum(axis=1))  # the same reads
    assert abs(int(found[0, 0].sum()) - 500) < 55  # 4 sd of a draw without replacement


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
    assert depth(bam, fasta, 0, 120, overlaps="both", **how).sum() > 1.2 * expected.sum()
    if not far:
        capped = depth(bam, fasta, 0, 120, max_depth=40, **how)
        assert capped.max() == 40
