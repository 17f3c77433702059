"""Which reads count at a position: a cap on the depth, mates that overlap."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.parametrize("quality", [0, 1, 20])
def test_mates_that_overlap_count_once_at_any_least_quality(fasta, tmp_path, quality):
    reads = [(0, 10, 40, 99, 30, "p", 30), (0, 30, 40, 147, 10, "p", 30)]
    bam = write_bam(tmp_path / "pair.bam", reads)
    assert_array_equal(depth(bam, fasta, 10, 70, min_base_quality=quality), 1)
    both = depth(bam, fasta, 10, 70, min_base_quality=quality, overlaps="both")
    assert_array_equal(both[20:40], 2)
