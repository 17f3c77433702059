"""The memoised loop: its bound, its rounds, and where it ends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.contract.case_toy import batches
from tests.contract.toy import Toy
from vbmodels.core.cavi import Memoised, cavi
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, fit
from vbmodels.core.state import same_bits, tree_sum


class Watching(InProcess):
    """Says after every visit what the bound is, from all local states afresh."""

    def __init__(self, model, parts):
        super().__init__(model, parts)
        self.bounds, self.visits, self._held = [], [], {}

    def __call__(self, q, *, number, warm, group=0, groups=1):
        stats = super().__call__(q, number=number, warm=warm, group=group, groups=groups)
        self.visits.append((number, group))
        for i in range(group, self.partitions, groups):
            self._held[i] = self._locals[number][i]
        if len(self._held) == self.partitions:
            parts = [
                self.model.suff_stats(q, self.batches[i], self._held[i])
                for i in range(self.partitions)
            ]
            self.bounds.append(self.model.elbo(q, tree_sum(parts)))
        return stats

    visit = __call__


def steps(loop, model, reduce, count, seed=0):
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    return list(itertools.islice(Driver(loop, model, q, reduce), count))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rounds", [3, 16])
def test_the_bound_rises_at_every_visit_and_the_loop_knows_it_exactly(seed, rounds):
    model = Toy()
    reduce = Watching(model, batches(seed, 16))
    done = steps(Memoised(rounds), model, reduce, 6, seed)
    # The first sweep has a whole set of local states at its last visit.
    afresh = reduce.bounds[::rounds]
    assert [s.elbo for s in done] == pytest.approx(afresh, rel=1e-12)
    rises = np.diff(reduce.bounds)
    assert rises.min() >= -1e-12 * abs(afresh[-1])
    assert rises[0] > 1e-3
    assert reduce.visits == [(n, g) for n in range(6) for g in range(rounds)]


def test_a_visit_does_its_own_partitions_alone():
    model, parts = Toy(), batches(0, 7)
    reduce = InProcess(model, parts)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    found = [reduce.visit(q, number=0, warm=None, group=g, groups=3) for g in range(3)]
    for group, stats in enumerate(found):
        alone = InProcess(model, parts[group::3])
        assert same_bits(stats, alone(q, number=0, warm=None))
    whole = InProcess(model, parts)
    whole(q, number=0, warm=None)
    pairs = zip(reduce.local_states(0), whole.local_states(0), strict=True)
    assert all(same_bits(a, b) for a, b in pairs)


@pytest.mark.parametrize("parts", [1, 7])
def test_any_partitioning_ends_at_the_same_point(parts):
    model = Toy()
    sweeps = fit(model, batches(1, 1), tol=1e-15, loop=cavi)
    rounds = fit(model, batches(1, parts), tol=1e-15, loop=Memoised())
    assert rounds.converged
    at, to = model.to_vector(rounds.q), model.to_vector(sweeps.q)
    assert at == pytest.approx(to, rel=1e-7, abs=1e-7)
    assert rounds.trace[-1] == pytest.approx(sweeps.trace[-1], rel=1e-12)


def test_a_model_names_its_loop():
    parts = batches(1, 7)
    done = fit(Toy(loop="memoised"), parts, tol=1e-15)
    assert same_bits(done.q, fit(Toy(), parts, tol=1e-15, loop=Memoised()).q)
    with pytest.raises(ValueError, match=r"out of .*'cavi', 'memoised', 'squarem'.*'newton'"):
        fit(Toy(loop="newton"), parts)
