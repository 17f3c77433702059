"""The driver: what it answers, what a resume replays, and where it stops."""

import subprocess
import sys
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from vbmodels.core.algorithm import Evaluate, Phase, Save, Show, Stop, Sweep, within
from vbmodels.core.driver import Driver, Log, checksum
from vbmodels.core.state import FloatArray, State, Stats, from_bytes, same_bits, to_bytes


@dataclass(frozen=True)
class Point(State):
    """A number."""

    x: FloatArray


@dataclass(frozen=True)
class Unknown(State):
    """A number that may not be known."""

    x: FloatArray | None


@dataclass(frozen=True)
class Value(Stats):
    """Twice the number."""

    y: FloatArray


def at(x):
    return Point(np.array(float(x)))


class Reduce:
    """Doubles, and keeps what it was called with."""

    def __init__(self):
        self.calls = []

    def __call__(self, q, *, number, warm):
        self.calls.append((float(q.x), number, warm))
        return Value(2.0 * q.x)


def two_phases(model, q):
    """Add up to 16, then count, by way of a phase."""
    q = yield Phase(doubling(q), "adding up")
    return (yield Phase(counting(q)))


def doubling(q):
    while q.x < 16.0:
        stats = yield Sweep(q)
        yield Show(q, float(stats.y), by_trace=False)
        q = Point(stats.y)
    return q


def counting(q):
    done = 0
    while True:
        q, done = yield Save((q, done))
        stats = yield Sweep(q)
        yield Show(q, float(stats.y), by_trace=False)
        if done == 4:
            return q
        q, done = Point(q.x + 1.0), done + 1


def run(algorithm=two_phases, **more):
    reduce = Reduce()
    return Driver(algorithm, None, at(1.0), reduce, **more), reduce


def test_sweeps_start_where_they_are_said_to():
    def algorithm(model, q):
        yield Evaluate(at(1))
        yield Sweep(at(2))
        yield Sweep(at(3), again=True)
        yield Sweep(at(4))
        yield Evaluate(at(5))
        yield Show(q, 1.0)
        return q

    fit, reduce = run(algorithm)
    list(fit)
    starts = [(number, warm) for _, number, warm in reduce.calls]
    assert starts == [(0, None), (1, 0), (2, 0), (3, 2), (4, None)]


def test_a_resume_computes_nothing_again():
    whole, reduce = run()
    logs = []
    for _ in whole:
        logs.append(to_bytes(whole.log()))
    assert whole.converged
    assert float(whole.step.q.x) == 20.0
    assert len(logs) == 9
    for i, log in enumerate(logs):
        rest, again = run(log=from_bytes(log, Log), trace=whole.trace[: i + 1])
        list(rest)
        assert again.calls == reduce.calls[i + 1 :]
        assert rest.trace == whole.trace
        assert same_bits(rest.step.q, whole.step.q)


def test_a_log_holds_what_came_since_the_last_save():
    fit, _ = run()
    sizes = [[len(frame.answers) for frame in fit.log().frames] for _ in fit]
    assert sizes == [[0, n] for n in (1, 2, 3, 4)] + [[1, 1]] * 5


def test_another_request_goes_on_without_the_log():
    """As where a resume runs on a processor that rounds otherwise."""
    fit, _ = run()
    steps = iter(fit)
    for _ in range(3):
        next(steps)
    log = fit.log()

    def other(model, q):
        q = yield Phase(doubling(Point(q.x + 1e-15)), "adding up")
        return q

    rest, reduce = run(other, log=log, trace=fit.trace)
    shown = [step.iteration for step in rest]
    assert len(reduce.calls) == 4
    assert shown == [3, 4, 5, 6]
    assert rest.converged


def test_sweeps_that_are_over_stop_a_fit_and_say_what_it_did():
    fit, reduce = run(max_iter=3)
    assert len(list(fit)) == len(reduce.calls) == 3
    assert not fit.converged
    assert fit.doing == "adding up"
    fit, _ = run(max_iter=6)
    assert len(list(fit)) == 6
    assert fit.doing == ""
    assert not fit.converged
    fit, _ = run(max_iter=9)
    list(fit)
    assert fit.converged


def test_silent_sweeps_of_a_phase_without_a_posterior_are_counted():
    def silent(model, q):
        def inside():
            while True:
                yield Sweep(q)

        yield Phase(inside(), lambda: "looking")

    fit, reduce = run(silent, max_iter=5)
    assert list(fit) == []
    assert len(reduce.calls) == 5
    assert fit.doing == "looking"
    assert not fit.converged


def test_a_step_that_was_refused_may_be_followed_by_one_that_holds():
    def guarded(model, q):
        yield Sweep(q)
        yield Show(q, 1.0)
        yield Sweep(at(7))
        yield Sweep(at(8), again=True)
        yield Show(at(8), 2.0)
        yield Stop()

    fit, reduce = run(guarded, max_iter=2)
    assert [step.elbo for step in fit] == [1.0, 2.0]
    assert len(reduce.calls) == 3
    assert not fit.converged


def test_within_wraps_what_is_sent_and_shown():
    def inner(q):
        return (yield Phase(doubling(q), "adding up"))

    def outer(model, q):
        return (yield from within(inner(q), lambda part: Point(-part.x)))

    fit, reduce = run(outer)
    assert [float(step.q.x) for step in fit][:2] == [-1.0, 2.0]
    assert [x for x, _, _ in reduce.calls][:2] == [-1.0, 2.0]


def test_an_algorithm_saves_first_or_never():
    def late(model, q):
        yield Sweep(q)
        yield Save(q)

    fit, _ = run(late)
    with pytest.raises(RuntimeError, match="saves before it requests anything else"):
        list(fit)


def test_steps_go_on_where_they_were_left():
    fit, _ = run()
    first = next(iter(fit)).iteration
    assert [first, next(iter(fit)).iteration] == [0, 1]
    assert len(list(fit)) == 7


def test_a_trace_of_another_fit_is_refused():
    fit, _ = run()
    next(iter(fit))
    with pytest.raises(ValueError, match="not of the same fit"):
        run(log=fit.log(), trace=[7.0])


def test_a_trace_may_differ_in_the_last_bits():
    """Another machine, or another version of a library, made it."""
    fit, _ = run()
    for _ in zip(range(3), fit, strict=False):
        pass
    trace = [*fit.trace[:-1], float(np.nextafter(fit.trace[-1], np.inf))]
    assert run(log=fit.log(), trace=trace)[0].step.elbo == fit.step.elbo


def test_a_long_phase_holds_no_parameters_that_it_was_evaluated_at():
    sent = []

    def long(model, q):
        for step in range(50):
            q = at(step)
            sent.append(weakref.ref(q.x))
            yield Evaluate(q)
        return q

    run = Driver(long, None, at(0), Reduce())
    list(run)
    assert sum(one() is not None for one in sent) <= 2
    assert len(run.log().frames[0].questions) == 50


def test_a_request_has_the_same_checksum_in_every_process():
    """A resume replays the answers of a process that was killed."""
    code = "from tests.vbmodels.core.test_driver import checksum_of_nothing as of; print(of())"
    found = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert {int(one.stdout) for one in found} == {checksum_of_nothing()}


def checksum_of_nothing() -> int:
    return checksum(Evaluate(Unknown(None)))
