"""Filters of indels by their reads: the reference's at the anchor, without those of any allele."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flows.variants.counts import Loci
from flows.variants.indel_rows import judge_indels
from flows.variants.schema import READ_SUMS
from vbmodels.variants.batch import Counts
from vbmodels.variants.indels import Indels, indel_units

DEPTH, SHOWN = 200, 40
CASE = np.array([True, False])


def sums(n: int, to_end: float, quality: float) -> np.ndarray:
    """Sums over n reads alike."""
    return np.array([n * to_end, n * to_end**2, n * quality, n * quality**2], np.int64)


def drawn(n: int, seed: int, length: int = 150) -> np.ndarray:
    """Sums over n reads that lie anywhere, mapped at 60."""
    place = np.random.default_rng(seed).integers(0, length, n)
    end = np.minimum(place, length - 1 - place)
    return np.array([end.sum(), (end**2).sum(), 60 * n, 3600 * n], np.int64)


def made(own: np.ndarray, of_reference: int = DEPTH - SHOWN, control: int = DEPTH):
    """A case with a deletion of 40 reads behind the only location, and a control."""
    columns = [list(READ_SUMS).index(name) for name in
               ("to_end", "to_end_2", "mapping_quality", "mapping_quality_2")]  # fmt: skip
    counts = np.zeros((1, 2, 4), np.int32)
    counts[0, :, 0] = of_reference + SHOWN, control
    known = np.zeros((1, 2, 4, len(READ_SUMS)), np.int64)
    known[0, 0, 0, columns] = own + drawn(of_reference, 1)
    known[0, 1, 0, columns] = drawn(control, 2)
    batch = Counts(counts, np.zeros(1, np.int8), CASE)
    loci = Loci(np.array(["c"]), np.array([7]), None, np.array([0]), known)
    reads = np.array([[SHOWN, 0]])
    found = Indels(np.array([0]), np.array([-2]), np.array(["CG"]), reads, reads // 2,
                   np.zeros(1, int), np.full(1, -1), np.stack([own, 0 * own])[None])  # fmt: skip
    return indel_units(found, counts.sum(axis=2), CASE), batch, loci, found


def judged(parts, level: float = 1e-3):
    of, batch, loci, found = parts
    taken, z = judge_indels(of, np.array([0]), batch, loci, found, level)
    return {name for name, of in taken.items() if of[0]}, float(z[0])


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (drawn(SHOWN, 3), set()),
        (sums(SHOWN, 4, 60), {"read_end"}),
        (sums(SHOWN, 60, 60), set()),
        (drawn(SHOWN, 3) * [1, 1, 0, 0] + [0, 0, 12 * SHOWN, 144 * SHOWN], {"low_mapq"}),
        (sums(SHOWN, 3, 5), {"read_end", "low_mapq"}),
    ],
)
@pytest.mark.parametrize("of_reference", [DEPTH - SHOWN, 0])
def test_reads_are_judged_beside_the_reference_s(own, expected, of_reference):
    """Without reads of the reference in the case, beside the control's."""
    taken, z = judged(made(own, of_reference))
    assert taken == expected
    assert (z < -3.0) == ("read_end" in expected)


def test_other_alleles_reads_are_not_the_reference_s():
    of, batch, loci, found = made(drawn(SHOWN, 3))
    beside = np.array([[60, 0]])
    near = np.stack([sums(60, 1, 60), 0 * sums(60, 1, 60)])[None]
    counts = batch.counts.copy()
    counts[0, 0, 0] += 60
    at = [list(READ_SUMS).index(name) for name in
          ("to_end", "to_end_2", "mapping_quality", "mapping_quality_2")]  # fmt: skip
    known = loci.sums.copy()
    known[0, 0, 0, at] += sums(60, 1, 60)
    both = replace(
        found, location=np.zeros(2, int), length=np.array([-2, -1]), bases=np.array(["CG", "C"]),
        reads=np.vstack([found.reads, beside]), forward=np.vstack([found.forward, beside // 2]),
        sums=np.concatenate([found.sums, near]),
    )  # fmt: skip
    changed = (
        indel_units(both, counts.sum(axis=2), CASE), replace(batch, counts=counts),
        replace(loci, sums=known), both,
    )  # fmt: skip
    first = np.flatnonzero(changed[0].alt == 0)
    _, z = judge_indels(changed[0], first, *changed[1:], 1e-3)
    _, alone = judge_indels(of, np.flatnonzero(of.alt == 0), batch, loci, found, 1e-3)
    np.testing.assert_allclose(z, alone)


@pytest.mark.parametrize("unknown", ["alleles", "locations", "this location"])
def test_what_is_not_known_is_not_judged(unknown):
    of, batch, loci, found = made(sums(SHOWN, 3, 5))
    if unknown == "alleles":
        found = replace(found, sums=None)
    elif unknown == "locations":
        loci = replace(loci, looked_at=None, sums=None)
    else:
        loci = replace(loci, looked_at=np.zeros(0, int), sums=loci.sums[:0])
    taken, z = judged((of, batch, loci, found))
    assert taken == set()
    assert np.isnan(z)
