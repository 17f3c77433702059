"""Streams: what a night's bound is, what is forgotten, and what cannot learn so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.contract.case_toy import batches
from tests.contract.toy import Groups, Toy
from vbmodels.core.fit import fit
from vbmodels.core.in_process import InProcess, tree_sum
from vbmodels.core.moments import Moments
from vbmodels.core.state import from_bytes, same_bits, to_bytes
from vbmodels.core.streaming import Remembered, updated


def local_states(model, parts, q):
    reduce = InProcess(model, parts)
    reduce(q, number=0, warm=None)
    return reduce.local_states(0)


@pytest.mark.parametrize("factor", [1.0, 0.8, 0.25])
def test_the_bound_of_three_nights_is_that_of_their_frozen_local_states(factor):
    model, parts = Toy(), batches(0, 9)
    nights = [parts[:3], parts[3:6], parts[6:]]
    left, held = None, []
    for night in nights:
        done, left = updated(model, left, night, forgetting_factor=factor, tol=1e-14)
        kept = done.reduce.local_states(done.iterations - 1)
        held.append(list(zip(night, kept, strict=True)))
    ages = zip((2, 1, 0), held, strict=True)
    total = tree_sum(
        model.suff_stats(done.q, batch, local).scaled(factor**age)
        for age, night in ages
        for batch, local in night
    )
    assert done.trace[-1] == pytest.approx(model.elbo(done.q, total), rel=1e-10)
    assert np.diff(done.trace).min() >= -1e-12 * abs(done.trace[-1])
    at = model.to_vector(done.q)
    np.testing.assert_allclose(model.to_vector(model.global_step(done.q, total)), at, atol=1e-5)


def test_a_stream_of_many_nights_ends_near_the_fit_of_all_rows():
    rng = np.random.default_rng(3)
    centres = rng.normal(2.0, 0.7, (400, 1))
    parts = [Groups(y) for y in np.split(centres + rng.normal(size=(400, 5)), 20)]
    model, left = Toy(), None
    for i in range(0, 20, 2):
        done, left = updated(model, left, parts[i : i + 2], tol=1e-13)
    whole, last = (fit(model, rows, tol=1e-13).q for rows in (parts, parts[18:]))
    stream, all_, one = (model.to_vector(q) for q in (done.q, whole, last))
    np.testing.assert_allclose(stream[1:3], all_[1:3], rtol=1e-12)  # counts of groups
    assert abs(stream[0] - all_[0]) < 0.1 * abs(one[0] - all_[0])
    assert abs(stream[3] - all_[3]) < 0.1


def test_old_rows_weigh_less_from_night_to_night():
    model, left = Toy(), None
    for _ in range(60):
        _, left = updated(model, left, batches(1, 2), forgetting_factor=0.5)
    groups = sum(len(batch.y) for batch in batches(1, 2))
    assert left.held.stats.n == pytest.approx(2.0 * groups)


def test_what_is_left_is_stored_and_read_with_the_same_bits():
    model, parts = Toy(), batches(2, 6)
    _, left = updated(model, None, parts[:3])
    again = from_bytes(to_bytes(left), Remembered)
    ours, theirs = (updated(model, x, parts[3:])[1] for x in (left, again))
    assert same_bits(ours, theirs)


def test_scaled_moments_are_those_of_weighted_rows():
    x = np.random.default_rng(0).normal(size=(20, 3))
    ours, theirs = Moments.of(x).scaled(0.3), Moments.of(x, np.full(20, 0.3))
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-12)
    np.testing.assert_allclose(ours.scatter, theirs.scatter, rtol=1e-12)
    assert ours.weight == pytest.approx(theirs.weight)


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.1, float("nan")])
def test_a_factor_out_of_its_range_is_refused(factor):
    with pytest.raises(ValueError, match=r"forgetting factor in \(0, 1\]"):
        updated(Toy(), None, batches(0, 2), forgetting_factor=factor)
