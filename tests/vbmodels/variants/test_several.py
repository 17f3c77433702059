"""Several cases in one fit: each has the bits of a fit of its own."""

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest

from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, fit, loop_of
from vbmodels.core.state import same_bits, tree_sum
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.cases import Branch, CaseSums, OfCase, Several
from vbmodels.variants.two_groups.model import Observed

NAMES = ("ann", "bob", "cid")
PARTS = (3, 1, 2)
MODEL = BatchNull()
SMALL = replace(SCENARIOS["null"], depth=1000, replicates=2)


@pytest.fixture(scope="module")
def data():
    """Partitions of three cases."""
    drawn = [simulate_scenario(np.random.default_rng(s), SMALL, 12)[0] for s in range(3)]
    return [
        [counts.take(at) for at in np.array_split(np.arange(12), n)]
        for counts, n in zip(drawn, PARTS, strict=True)
    ]


@pytest.fixture(scope="module")
def alone(data):
    return [fit(MODEL, own, tol=1e-7) for own in data]


def mixed(data):
    """Return the partitions of all cases, the first of each, then the second of each."""
    columns = [[OfCase(c, p, one) for p, one in enumerate(own)] for c, own in enumerate(data)]
    return [one for row in zip_longest(*columns) for one in row if one is not None]


def test_tables_of_one_case_are_held_at_a_time(data):
    held = []

    class Noted(Several):
        def local_step(self, q, batch, local):
            found = super().local_step(q, batch, local)
            held.append((batch.which, found is not None))
            return found

    with pytest.warns(match="had not converged"):
        fit(Noted(MODEL, NAMES, max_iter=4), mixed(data))
    count = sum(PARTS)
    for first in range(0, len(held), count):
        assert len({which for which, kept in held[first : first + count] if kept}) <= 1


def test_a_case_stops_after_as_many_sweeps_as_alone(data):
    with pytest.warns(match="had not converged"):
        done = fit(Several(MODEL, NAMES, max_iter=3), mixed(data))
    assert not done.converged
    for own, q in zip(data, done.q.of, strict=True):
        with pytest.warns(match="had not converged"):
            assert same_bits(fit(MODEL, own, max_iter=3).q, q)


def test_sums_have_the_bits_of_a_tree_over_the_case_alone():
    rng = np.random.default_rng(0)
    stats = [Observed(rng.random(12), rng.random(12), 1.0) for _ in range(7)]
    leaves = [CaseSums((Branch(0, i, 1, one),)) for i, one in enumerate(stats)]
    # As the tree of all partitions adds them where two of another case stand between.
    left = tree_sum([*leaves[:3], CaseSums((Branch(1, 0, 1, stats[0]),)), leaves[3]])
    both = left + tree_sum([CaseSums((Branch(1, 1, 1, stats[1]),)), *leaves[4:]])
    assert same_bits(both.total(0), tree_sum(stats))
    assert same_bits(both.total(1), stats[0] + stats[1])
    assert both.total(2) is None


def test_a_later_fit_starts_from_the_case_of_the_same_name(data, alone):
    before = fit(Several(MODEL, NAMES, tol=1e-7), mixed(data)).q
    model = Several(MODEL, ("new", "ann"))
    observed = tree_sum([model.observe(one) for one in mixed([data[2], data[0]])])
    q = model.restart(observed, before, np.random.default_rng(0))
    assert q.of[1].pi == alone[0].q.pi
    assert same_bits(q.of[0], model.init(observed, np.random.default_rng(0)).of[0])
    # Of an earlier fit of one case nothing is known whose it was.
    fresh = model.restart(observed, alone[0].q, np.random.default_rng(0))
    assert same_bits(fresh, model.init(observed, np.random.default_rng(0)))


def test_a_case_without_a_partition_stays_where_it_is(data, alone):
    model = Several(MODEL, NAMES, tol=1e-7)
    every = mixed(data)
    q = model.init(tree_sum([model.observe(one) for one in every]), np.random.default_rng(0))
    reduce = InProcess(model, [one for one in every if one.which == 1])
    run = Driver(loop_of(model), model, q, reduce)
    *_, last = run
    assert run.converged
    assert same_bits(last.q.of[1], alone[1].q)
    assert same_bits(last.q.of[0], q.of[0])
