"""Reads with artefacts: what is drawn is what was asked for, and of the case alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vbmodels.variants import read_artefacts
from vbmodels.variants.read_artefacts import (
    ARTEFACTS,
    CLIPPED,
    DELETED,
    DELETION,
    GAP,
    READ,
    Artefacts,
    draw_genome,
    draw_pairs,
    library,
)

LENGTH = 1200


def drawn(what, of_case=True, seed=1, depth=60):
    rng = np.random.default_rng(seed)
    what = replace(what, depth=depth)
    genome = draw_genome(rng, LENGTH, what)
    return genome, draw_pairs(rng, genome, what, of_case)


def reads_of(pairs):
    return [read for pair in pairs for read in (pair.left, pair.right)]


def shown(genome, reads):
    """Return how many reads show each base, [L, 4], where they are aligned."""
    counts = np.zeros((LENGTH, 4), int)
    for read in reads:
        base, position = 0, read.start
        for operation, n in read.operations:
            if operation == read_artefacts.MATCHED:
                np.add.at(counts, (np.arange(position, position + n),
                                   read.bases[base : base + n]), 1)  # fmt: skip
            base += n * (operation != DELETION)
            position += n * (operation != CLIPPED)
        assert base == READ
    return counts


def test_depth_and_overlap_of_mates_are_those_asked_for():
    for name, overlap in (("bam_null", False), ("bam_overlaps", True)):
        genome, pairs = drawn(ARTEFACTS[name], of_case=False, depth=600)
        counts = shown(genome, reads_of(pairs))
        assert counts[300:900].sum(axis=1).mean() == pytest.approx(600, rel=0.1)
        over = np.mean([p.left.start + READ > p.right.start for p in pairs])
        assert bool(over > 0.95) is overlap
        assert bool(over < 0.05) is not overlap


def test_variants_have_their_share_in_the_case_and_none_in_the_control():
    what = Artefacts("", variants=60, share=0.3)
    genome, pairs = drawn(what)
    at, base = np.array(genome.variants).T
    assert len(at) > 8
    assert (base != genome.reference[at]).all()
    counts = shown(genome, reads_of(pairs))
    assert (counts[at, base].sum() / counts[at].sum()) == pytest.approx(0.3, abs=0.06)
    none = shown(genome, reads_of(draw_pairs(np.random.default_rng(2), genome, what, False)))
    assert none[at, base].sum() < 0.01 * none[at].sum()


def test_errors_in_their_context_and_on_one_strand_are_of_the_case_alone():
    rng = np.random.default_rng(3)
    what = Artefacts("", context=20.0, strand=0.05)
    genome = draw_genome(rng, LENGTH, what)
    case, control = (library(np.random.default_rng(4), genome, what, c) for c in (True, False))
    assert np.array_equal(control[0], control[1])
    assert np.array_equal((case[0] != case[1]).any(axis=1), genome.one_strand.any(axis=(0, 2)))
    factor = (case - genome.one_strand)[0] / np.maximum(control[0], 1e-300)
    changed = np.argwhere(factor > 10)
    assert len(changed) > 50
    for p, allele in changed:
        before_or_behind = genome.reference[p - 1 if allele == 0 else p + 1]
        assert (genome.reference[p], allele, before_or_behind) in ((1, 0, 1), (2, 3, 2))


def test_clips_leave_the_read_aligned_up_to_a_few_bases_of_the_adapter():
    genome, pairs = drawn(Artefacts("", clips=1.0))
    for pair in pairs:
        assert all(op == CLIPPED or i == 0 for i, (op, _) in enumerate(pair.left.operations))
    counts = shown(genome, reads_of(pairs))
    wrong = 1 - counts[np.arange(LENGTH), genome.reference].sum() / counts.sum()
    assert 0.002 < wrong < 0.03


def test_reads_that_end_beside_a_deletion_are_aligned_as_they_come():
    genome, pairs = drawn(Artefacts("", deletion=1.0))
    at = genome.deletion_at
    gaps = [r for r in reads_of(pairs) if any(op == DELETION for op, _ in r.operations)]
    assert gaps
    for read in gaps:
        assert read.start + read.operations[0][1] == at
        assert min(read.operations[0][1], read.operations[2][1]) >= GAP
    counts = shown(genome, reads_of(pairs))
    inside = counts[at : at + DELETED].sum()
    assert 0 < inside < 0.3 * counts[at - 20 : at - 20 + DELETED].sum()
