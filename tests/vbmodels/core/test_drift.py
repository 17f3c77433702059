"""The drift alarm: how often it is false, what it finds, and when it says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from vbmodels.core.drift import LEAST, Night, drift

DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: -rng.exponential(size=n),
    "heavy": lambda rng, n: rng.standard_t(4, n),
    "counts": lambda rng, n: -rng.poisson(0.2, n).astype(float),
}


def nights(rng, draw, count, units):
    return [Night.of([draw(rng, units)]) for _ in range(count)]


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(("before", "units"), [(1, 50), (3, 200), (20, 50)])
def test_false_alarms_are_at_most_one_in_a_hundred(name, before, units):
    rng, runs = np.random.default_rng(1), 2000
    false = sum(
        drift(nights(rng, DRAWS[name], before, units), Night.of([DRAWS[name](rng, units)])).alarm
        for _ in range(runs)
    )
    assert false / runs <= 0.01 + 2.6 * np.sqrt(0.01 * 0.99 / runs)


def test_a_night_that_differs_is_found():
    rng = np.random.default_rng(2)
    before = nights(rng, DRAWS["normal"], 5, 500)
    found = drift(before, Night.of([rng.normal(-0.5, 1.0, 500)]))
    assert found.alarm
    assert found.difference == pytest.approx(-0.5, abs=4 * found.sd)


def test_nights_that_always_differ_raise_no_alarm():
    rng = np.random.default_rng(3)
    shared = [Night.of([rng.normal(rng.normal(), 1.0, 2000)]) for _ in range(20)]
    alone = [Night.of([rng.normal(0.0, 1.0, 2000)]) for _ in range(20)]
    tonight = Night.of([rng.normal(1.0, 1.0, 2000)])
    assert not drift(shared, tonight).alarm
    assert drift(alone, tonight).alarm


def test_the_first_night_and_small_ones_are_not_judged():
    rng = np.random.default_rng(4)
    small, large = (Night.of([rng.normal(size=n)]) for n in (LEAST - 1, 100))
    assert drift([], large) is None
    assert drift([small], large) is None
    assert drift([large], small) is None
    assert drift([large, small], large) == drift([large], large)


def test_units_that_are_all_alike_raise_no_alarm_and_others_do():
    same = Night.of([np.full(100, -2.0)])
    assert not drift([same, same], same).alarm
    assert drift([same, same], Night.of([np.full(100, -2.1)])).alarm


def test_a_night_is_the_same_in_any_partitions():
    values = np.random.default_rng(5).normal(size=90)
    assert Night.of([values]) == Night.of(np.split(values, 9))
