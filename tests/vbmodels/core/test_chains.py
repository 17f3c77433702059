"""Which sweeps of a chain are kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vbmodels.core.chains import Schedule


@pytest.mark.parametrize(("warmup", "draws", "thin"), [(0, 1, 1), (5, 3, 1), (4, 3, 5)])
def test_the_last_sweep_of_every_stretch_is_kept(warmup, draws, thin):
    schedule = Schedule(warmup, draws, thin)
    made = itertools.count()
    kept = schedule.kept({"x": np.array([sweep, -sweep])} for sweep in made)
    last = warmup + thin * np.arange(1, draws + 1) - 1
    assert_array_equal(kept["x"], [last, -last])
    assert next(made) == schedule.sweeps == last[-1] + 1, "a sweep was made for nothing"
    assert schedule.slot(schedule.sweeps + thin) is None


@pytest.mark.parametrize("sizes", [(-1, 1, 1), (0, 0, 1), (0, 1, 0)])
def test_nothing_to_draw_is_refused(sizes):
    with pytest.raises(ValueError, match="expected a warmup of at least 0"):
        Schedule(*sizes)
