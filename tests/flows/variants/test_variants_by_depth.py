"""Positions of a sample sheet are cut by depth: a deep amplicon does not hold one worker."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flows.data import storage
from flows.variants.bam_index import boundaries
from flows.variants.family import FAMILY
from flows.variants.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants.variant_files import write_bam, write_fasta, write_sheet

LENGTH = 60_000
DEEP = Region("chr1", 40_000, 40_400)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Reads of one amplicon on a long contig, and a few elsewhere."""
    folder = tmp_path_factory.mktemp("deep")
    write_fasta(folder / "ref.fa", ("chr1",), LENGTH)
    rng = np.random.default_rng(0)
    starts = np.concatenate([rng.integers(40_000, 40_300, 6000), np.arange(0, 59_000, 300)])
    reads = [(0, int(s), 100, 0, -1, f"r{i}", 30) for i, s in enumerate(starts)]
    for name in ("a", "b"):
        write_bam(folder / f"{name}.bam", reads, ("chr1",), LENGTH)
    return folder


def test_a_deep_amplicon_is_shared(deep):
    wanted = [Region("chr1", 0, 4000), DEEP, Region("chr1", 50_000, 53_600)]
    settings = VariantSettings(fasta=str(deep / "ref.fa"))
    paths = [str(deep / "a.bam"), str(deep / "b.bam")]
    edges = boundaries(wanted, paths, 8, settings)
    assert edges[0] == 0
    assert edges[-1] == 8000
    assert (np.diff(edges) > 0).all()
    assert (np.diff(edges) <= 2 * 1000).all()
    inside = [e for e in edges if 4000 < e < 4400]
    assert len(inside) >= 3  # cut by positions alone there is none


def test_the_parts_of_a_sheet_are_all_positions_once(deep):
    sheet = write_sheet(deep)
    settings = VariantSettings(fasta=str(deep / "ref.fa"), partitions=7)
    files = storage.expand(str(sheet), (".csv",))
    checked = [FAMILY.check(file, settings) for file in files]
    parts = FAMILY.plan(files, checked, settings)
    spans = [(p.slices[0].start, p.slices[0].stop) for p in parts]
    assert len(spans) == 7
    assert spans[0][0] == 0
    assert spans[-1][1] == LENGTH
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    assert [p.index for p in parts] == list(range(7))
    assert len({p.fingerprint for p in parts}) == 7
