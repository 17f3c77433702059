"""Newton's method on problems whose maxima are known."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vbmodels.core.newton import MOST_STEPS, Newton


def told(x):
    """Return value, gradient and negative Hessian of -sum log cosh(a (x - 1)), [S, P]."""
    a = np.array([1.0, 100.0])
    u = a * (x - 1.0)
    value = -np.log(np.cosh(u)).sum(axis=1)
    bend = (a / np.cosh(u)) ** 2
    return value, -a * np.tanh(u), bend[:, :, None] * np.eye(2)


def climbed(start, metric):
    at = Newton.start(start, *told(start), metric)
    values = [at.value]
    for _ in range(MOST_STEPS):
        if at.done.all():
            break
        at = at.updated(*told(at.trial))
        values.append(at.value)
    return at, np.array(values)


def test_it_ends_at_the_maximum_wherever_it_begins():
    metric = np.tile(np.diag([1.0, 1e4]), (3, 1, 1))
    start = np.array([[1.1, 1.001], [0.9, 1.01], [3.0, 0.97]])  # the last is past a bend
    at, values = climbed(start, metric)
    assert at.done.all()
    assert_allclose(at.at, 1.0, atol=1e-14)
    assert (np.diff(values, axis=0) >= -1e-12).all()


def test_a_curvature_of_both_signs_is_met_by_the_metric():
    """x^2/2 - x^4/4 bends upwards at .1; its maxima are at -1 and 1."""

    def value(x):
        return (x**2 / 2 - x**4 / 4)[:, 0], x - x**3, (3 * x**2 - 1.0)[:, :, None]

    start = np.array([[0.1], [-0.3]])
    at = Newton.start(start, *value(start), np.full((2, 1, 1), 2.0))
    for _ in range(MOST_STEPS):
        at = at.updated(*value(at.trial))
    assert_allclose(at.at[:, 0], [1.0, -1.0], atol=1e-9)


def test_one_that_has_ended_stays():
    start = np.array([[1.0, 1.0], [1.2, 1.0]])
    at = Newton.start(start, *told(start), np.tile(np.eye(2), (2, 1, 1)))
    at = at.updated(*told(at.trial))
    assert_array_equal(at.done, [True, False])
    assert_array_equal(at.updated(*told(at.trial)).at[0], start[0])
