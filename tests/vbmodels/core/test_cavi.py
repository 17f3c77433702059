"""The loop: the tree, convergence, acceleration, resume, and what stops a fit."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.contract.case_toy import batches
from tests.contract.toy import Toy
from vbmodels.core.algorithm import NonFiniteBound, Show, Stop, Sweep
from vbmodels.core.cavi import cavi, extrapolate, squarem
from vbmodels.core.driver import Driver, remaining_rise
from vbmodels.core.fit import Fit, InProcess, NotConverged, fit, loop_of
from vbmodels.core.state import State, Stats, tree_sum


@dataclass(frozen=True)
class Text(Stats):
    """A sum that shows its own order."""

    terms: str

    def __add__(self, other):
        return Text(f"({self.terms}+{other.terms})")


def letters(n, first=0):
    return [Text(chr(ord("a") + first + i)) for i in range(n)]


@pytest.mark.parametrize(
    ("n", "tree"),
    [
        (1, "a"),
        (3, "((a+b)+c)"),
        (7, "(((a+b)+(c+d))+((e+f)+g))"),
    ],
)
def test_tree_is_the_stated_one(n, tree):
    assert tree_sum(letters(n)).terms == tree


@pytest.mark.parametrize("size", [2, 8])
def test_tree_of_complete_subtrees_is_the_same_tree(size):
    for n in range(1, 34):
        parts = letters(n)
        blocks = [tree_sum(parts[i : i + size]) for i in range(0, n, size)]
        assert tree_sum(blocks).terms == tree_sum(parts).terms, n


def test_local_states_of_other_evaluations_are_gone():
    reduce = InProcess(Toy(), batches(0, 2))
    q = Toy().init(reduce.observe(), np.random.default_rng(0))
    list(itertools.islice(Driver(cavi, Toy(), q, reduce), 4))
    assert len(reduce.local_states(3)) == 2
    with pytest.raises(LookupError, match=r"sweep 0 are gone; kept: \[2, 3\]"):
        reduce.local_states(0)
    with pytest.raises(ValueError, match="expected 2 local states, one a partition, got 1"):
        reduce.restore(3, reduce.local_states(3)[:1])


def test_a_fit_that_does_not_converge_says_so():
    with pytest.warns(NotConverged, match="had not converged after 3 sweeps"):
        done = fit(Toy(), batches(0, 2), loop=cavi, max_iter=3, tol=1e-15)
    assert not done.converged
    assert done.iterations == len(done.trace) == 3


# Convergence.


def showing(values, by_trace=True):
    """An algorithm that shows these bounds."""

    def algorithm(model, q):
        for value in values:
            yield Sweep(q)
            yield Show(q, float(value), by_trace)
        yield Stop()

    return algorithm


def nothing(q, *, number, warm):
    return Stats()


def follow(values, tol=1e-6, max_iter=1000, **more):
    steps = Driver(showing(values), None, State(), nothing, tol=tol, max_iter=max_iter, **more)
    return list(steps), steps


def test_a_slow_creep_is_not_convergence():
    """Rises of 1e-7 that shrink by a thousandth still add up to 1e-4."""
    values = np.cumsum(1e-7 * 0.999 ** np.arange(400))
    assert not follow(values, tol=1e-6)[1].converged
    assert follow(values, tol=1e-3)[1].converged


def test_small_rises_between_leaps_are_not_convergence():
    """As SQUAREM makes them: a plain step of 1e-10 before each leap, 1e-4 to come in all."""
    rate = 0.97
    leaps = 1e-4 * (1 - rate) * rate ** np.arange(2000)
    values = np.cumsum(np.stack([np.full(2000, 1e-10 * rate ** np.arange(2000)), leaps]).T.ravel())
    taken, steps = follow(values, tol=1e-6, max_iter=5000)
    assert steps.converged
    assert values[-1] - taken[-1].elbo < 4e-6
    assert len(taken) < 4000


@pytest.mark.parametrize(
    "values", [[-10.0, -5.0, -3.0, -3.0, -2.0, -1.0], [-1.0, -2.0, -4.0, -8.0, -16.0]]
)
def test_one_small_rise_or_a_falling_bound_is_not_convergence(values):
    assert not follow(values)[1].converged


def test_remaining_rise_of_a_geometric_series_is_exact():
    trace = [1 - 0.7**k for k in range(6)]
    assert remaining_rise(trace) == pytest.approx(1 - trace[-2])


def test_the_tolerance_is_relative_to_the_bound_but_never_below_that_of_one():
    """The least tolerance that the same rises meet, near 0, near -0.5 and near -1000."""

    def least(level):
        grid = np.geomspace(1e-13, 1e-3, 1001)
        values = level + 1e-4 * np.cumsum(0.5 ** np.arange(8))
        return next(tol for tol in grid if follow(values, tol=tol)[1].converged)

    assert least(-0.5) == pytest.approx(least(0.0), rel=0.05)
    assert least(-1000.0) == pytest.approx(least(0.0) / 1000.0, rel=0.05)


def test_an_algorithm_that_ends_has_converged():
    def ending(model, q):
        yield Sweep(q)
        yield Show(q, 1.0, by_trace=False)
        return Toy().init(InProcess(Toy(), batches(0, 1)).observe(), np.random.default_rng(0))

    steps = Driver(ending, None, State(), nothing, tol=1e-6, max_iter=1)
    assert [step.elbo for step in steps] == [1.0]
    assert steps.converged
    assert steps.step.q.weight == Toy().k0
    flat = Driver(showing([1.0] * 50, by_trace=False), None, State(), nothing, tol=1e-6)
    assert len(list(flat)) == 50
    assert not flat.converged


def test_resumed_convergence_is_decided_alike():
    """Wherever a run is cut, it stops at the same step with the same verdict."""
    values = [-(0.6**k) for k in range(200)]
    whole, steps = follow(values)
    assert steps.converged
    assert 4 < len(whole) < 60
    for cut in range(1, len(whole) + 1):
        _, first = follow(values, max_iter=cut, tol=None)
        rest, again = follow(values, trace=values[:cut], log=first.log())
        assert again.converged, cut
        assert again.trace == steps.trace, cut
        assert len(rest) == len(whole) - cut, cut
    with pytest.raises(ValueError, match="not of the same fit"):
        follow(values, trace=[0.0], log=first.log())


# What is not finite.


@pytest.mark.parametrize("loop", [cavi, squarem])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_bound_that_is_not_finite_stops_the_fit(loop, value):
    class Broken(Toy):
        def elbo(self, q, stats):
            return super().elbo(q, stats) if q.weight == self.k0 else value

    with pytest.raises(NonFiniteBound, match=f"the bound became {value} at sweep 1; look"):
        fit(Broken(), batches(0, 2), loop=loop)


# Acceleration.


class Picky(Toy):
    """Every extrapolated point is worse than it looks: the guard must refuse it."""

    def from_vector(self, q, vector):
        return replace(super().from_vector(q, vector), mean=1e3)


def steps_of(model, loop, count, parts=2):
    reduce = InProcess(model, batches(0, parts))
    q = model.init(reduce.observe(), np.random.default_rng(0))
    return list(itertools.islice(Driver(loop, model, q, reduce), count))


def test_refused_trials_leave_plain_coordinate_ascent():
    plain, guarded = steps_of(Toy(), cavi, 12), steps_of(Picky(), squarem, 12)
    numbers = [step.iteration for step in guarded]
    assert numbers != list(range(12)), "no trial was made: the test would prove nothing"
    for a, b in zip(plain, guarded, strict=True):
        assert b.elbo == pytest.approx(a.elbo, rel=1e-9)


class Plain:
    """Its parameters are their own coordinates."""

    def to_vector(self, q):
        return q

    def from_vector(self, q, vector):
        return vector


def test_a_coordinate_that_turns_back_does_not_keep_the_others_short():
    """The first goes to 0 by a tenth of what is left; Newton's steps of the second overshoot."""
    points = [np.array([1.0, 1.0]), np.array([0.9, -0.4]), np.array([0.81, 0.2])]
    trial, length = extrapolate(Plain(), *points, 100.0, bold=True)
    assert length == pytest.approx(10.0)
    np.testing.assert_allclose(trial, [0.0, 0.2], atol=1e-12)
    assert extrapolate(Plain(), *(point[1:] for point in points), 100.0, bold=True) == (None, 1.0)


def test_a_trial_that_is_not_finite_is_refused():
    class Wild(Toy):
        def to_vector(self, q):
            return super().to_vector(q) * np.array([1.0, 1.0, 1.0, np.inf])

    with np.errstate(invalid="ignore"):
        wild = steps_of(Wild(), squarem, 8)
    assert [s.elbo for s in wild] == [s.elbo for s in steps_of(Toy(), cavi, 8)]


# A layout that differs in memory is the same state.


class Fortran(Toy):
    """Statistics and local states whose arrays arrive in Fortran's order or with gaps."""

    def local_step(self, q, batch, local):
        new = super().local_step(q, batch, local)
        gaps = np.repeat(new.z.mean, 2)[::2]
        return replace(new, z=replace(new.z, mean=gaps))


def test_local_states_are_laid_out_as_they_will_be_restored():
    reduce = InProcess(Fortran(), batches(0, 2))
    q = Toy().init(reduce.observe(), np.random.default_rng(0))
    next(iter(Driver(cavi, Fortran(), q, reduce)))
    for local in reduce.local_states(0):
        assert local.z.mean.flags.c_contiguous


def test_loop_of_a_model():
    class Plain:
        pass

    class Own(Toy):
        def algorithm(self, q):
            return cavi(self, q)

    assert loop_of(Toy()) is squarem
    assert loop_of(Plain()) is cavi
    done: Fit = fit(Own(), batches(0, 2))
    assert done.trace == fit(Toy(), batches(0, 2), loop=cavi).trace


@pytest.mark.parametrize("loop", [cavi, squarem])
@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8])
def test_what_is_left_at_convergence_is_within_the_tolerance(loop, tol):
    """On slow fits too, where a rule on the last rise alone stops far too early."""
    for model in (Toy(), Toy(c0=2.0, d0=60.0)):
        done = fit(model, batches(1, 2), loop=loop, tol=tol, max_iter=5000)
        best = fit(model, batches(1, 2), loop=squarem, tol=1e-14, max_iter=5000).trace[-1]
        assert done.converged
        assert best - done.trace[-1] <= tol * abs(best)
