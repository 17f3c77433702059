"""Reads of the simulator: bases by their operations, slips by the length of a run."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from vbmodels.variants.slippage import (
    READ,
    draw_indels,
    draw_reads,
    draw_reference,
    runs_of,
    slip_rates,
)


def _shown(read, reference):
    """Return the aligned bases and the reference's, and the indels by anchor."""
    own, other, found, q, p = [], [], [], 0, read.start
    for operation, n in read.cigar:
        if operation == 0:
            own.append(read.bases[q : q + n])
            other.append(reference[p : p + n])
        else:
            found.append((p - 1, n if operation == 1 else -n))
        q += n if operation != 2 else 0
        p += n if operation != 1 else 0
    assert q == len(read.bases)
    assert p <= len(reference)
    return np.concatenate(own), np.concatenate(other), found


def test_reads_are_the_reference_but_for_their_indels():
    rng = np.random.default_rng(0)
    reference = draw_reference(rng, 400)
    none = np.zeros(len(runs_of(reference)))
    indels = draw_indels(rng, reference, 6, 0.5)
    assert len(indels) >= 4
    carried = 0
    for read in draw_reads(rng, reference, none, indels, 40, error_rate=0.0):
        own, other, found = _shown(read, reference)
        carried += len(found)
        assert len(read.bases) <= READ
        if all(min(i.anchor - read.start, read.start + READ - i.anchor) > 12 or
               not read.start <= i.anchor < read.start + READ for i in indels):  # fmt: skip
            assert_array_equal(own, other)
        places = {(i.anchor, len(i.gained) - i.lost) for i in indels}
        assert set(found) <= places
    assert carried > 20


def test_slips_are_as_frequent_as_their_rates():
    rng = np.random.default_rng(1)
    reference = np.array([0, 1] * 60 + [2] * 10 + [0, 1] * 60)
    rates = slip_rates(rng, runs_of(reference))
    assert rates.argmax() == 120
    assert rates[:120].max() < 1e-4 < rates[120]
    lost = spanning = 0
    for read in draw_reads(rng, reference, rates, [], 3000):
        if read.start < 110 and read.start + READ > 140:
            spanning += 1
            lost += any(operation == 2 for operation, _ in read.cigar)
    assert spanning > 1000
    expected = spanning * rates[120]  # times the replicate's factor, of sd .3
    assert 0.4 * expected < lost < 2.5 * expected
