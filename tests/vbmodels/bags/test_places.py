"""Columns that say where or when instances are are found by what they hold, not by name alone."""

import numpy as np
import pytest

from vbmodels.bags.places import find_places

BAG = np.repeat(np.arange(4), 5)
RISING = np.tile(np.array([0.0, 1.5, 1.5, 4.0, 9.0]), 4)


@pytest.mark.parametrize(
    ("name", "values", "bag", "is_clock"),
    [
        ("Time", RISING, BAG, True),
        ("event_time", RISING, BAG, True),
        ("Time", RISING[::-1].copy(), BAG, False),
        ("Time", np.where(np.arange(20) == 7, np.nan, RISING), BAG, False),
        ("survival", RISING, BAG, False),
        ("time", np.repeat([3.0, 1.5, 2.0, 8.5], 5), BAG, False),  # of the bag: a covariate
        ("time", np.linspace(0.5, 9.1, 20), np.arange(20), False),  # one instance a bag
        ("time", np.zeros(20), BAG, False),
        ("time", np.zeros(0), np.zeros(0, np.int64), False),
    ],
)
def test_a_clock_rises_within_bags(name, values, bag, is_clock):
    assert (find_places({name: values}, bag) != {}) == is_clock
