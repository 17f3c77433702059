"""Algorithms in step: as many passes as the longest needs, and a resume at each of them."""

from dataclasses import dataclass

import numpy as np
import pytest

from vbmodels.core.algorithm import Evaluate, Phase, Save, Show, Sweep
from vbmodels.core.driver import Driver, Log, together
from vbmodels.core.state import FloatArray, State, Stats, from_bytes, same_bits, to_bytes


@dataclass(frozen=True)
class Points(State):
    """Numbers [n], and which algorithm each is of."""

    x: FloatArray
    of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Roots(Stats):
    """The logistic map of each number; [n]."""

    y: FloatArray


def points(*x):
    return Points(np.array(x, float))


class Reduce:
    """Answers, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, q, *, number, warm):
        self.asked.append((q.of, warm))
        return Roots(3.7 * q.x * (1.0 - q.x))


def iterated(x, times, request=Evaluate):
    """Save at every head; by way of a phase of its own, which forgets nothing."""
    done = 0
    while done < times:
        x, done = yield Save((x, done))
        found = yield request(points(x))
        yield Show(points(float(found.y[0])), float(done), by_trace=False)
        x, done = float(found.y[0]), done + 1
    return (yield Phase(twice(x, request), f"{times} were done"))


def twice(x, request):
    """Save nothing: both answers are replayed."""
    first = yield request(points(x))
    second = yield request(points(float(first.y[0])))
    return points(x, float(second.y[0]))


def alone(x, times):
    for _ in range(times):
        x = 3.7 * x * (1.0 - x)
    first = 3.7 * x * (1.0 - x)
    return points(x, 3.7 * first * (1.0 - first))


def join(asked):
    return Points(np.concatenate([q.x for q in asked.values()]), tuple(asked))


def parts(sums):
    return [Roots(one[None]) for one in sums.y]


def meet(shown):
    return Show(points(*(one.q.x[0] for one in shown)), float(sum(one.elbo for one in shown)))


STARTS = ((0.2, 1), (0.3, 4), (0.45, 2))


def loop(model, q):
    members = [iterated(x, times, model) for x, times in STARTS]
    found = yield together(members, join, parts, meet)
    return points(*np.concatenate([one.x for one in found]))


def run(request=Evaluate, **more):
    reduce = Reduce()
    return Driver(loop, request, points(0.0), reduce, **more), reduce


def passes(driver):
    """Answer one request after another; yield the log after each."""
    steps = iter(driver)
    while driver._request is not None:
        while isinstance(driver._request, Show):
            next(steps)
            driver._request = driver._next(None)
        answer = driver._frames.note(driver._request, driver._answer(driver._request))
        driver._request = driver._next(answer)
        yield to_bytes(driver.log())


def test_as_many_passes_as_the_longest_needs_with_the_bits_of_each_alone():
    driver, reduce = run()
    list(driver)
    expected = np.concatenate([alone(*start).x for start in STARTS])
    assert driver._frames.result.x.tobytes() == expected.tobytes()
    assert [of for of, _ in reduce.asked] == [(0, 1, 2)] * 3 + [(1, 2)] + [(1,)] * 2


@pytest.mark.parametrize("cut", range(6))
def test_a_resume_at_every_pass_repeats_none_and_has_the_same_bits(cut):
    whole, _ = run()
    logs = list(passes(whole))
    assert len(logs) == 6
    rest, reduce = run(log=from_bytes(logs[cut], Log))
    list(rest)
    assert len(reduce.asked) == 5 - cut
    assert same_bits(rest._frames.result, whole._frames.result)


def test_a_point_is_shown_where_all_have_shown_one_and_after_a_resume_from_it_again():
    driver, _ = run()
    steps = [(step.iteration, step.elbo, to_bytes(driver.log())) for step in driver]
    assert [(number, elbo) for number, elbo, _ in steps] == [(0, 0.0)]
    rest, reduce = run(log=from_bytes(steps[0][2], Log), trace=driver.trace[:1])
    assert rest.step.elbo == 0.0
    assert list(rest) == []
    assert len(reduce.asked) == 5
    assert same_bits(rest._frames.result, driver._frames.result)


def test_sweeps_stay_sweeps_and_start_at_the_local_states_of_the_last():
    driver, reduce = run(Sweep)
    list(driver)
    assert [warm for _, warm in reduce.asked] == [None, 0, 1, 2, 3, 4]


def test_what_the_first_does_that_says_so_is_what_all_do():
    driver, _ = run()
    done = []
    for _ in passes(driver):
        done.append(driver.doing)
    assert done == ["1 were done", "1 were done", "2 were done", "4 were done", "4 were done", ""]
