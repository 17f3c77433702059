"""Which reads count at a position: of mates that overlap one."""

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
