"""Diagnostics on chains whose truth is known, and which sweeps of a chain are kept."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vbmodels.core.draws import Schedule, diagnose


def autoregressive(rho, draws=20_000, chains=4, seed=0):
    """AR(1) chains of unit variance: effective size n (1 - rho) / (1 + rho)."""
    rng = np.random.default_rng(seed)
    x = np.empty((chains, draws))
    x[:, 0] = rng.standard_normal(chains)
    noise = rng.standard_normal((chains, draws)) * np.sqrt(1 - rho**2)
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_effective_size_of_an_autoregression(rho):
    seen = diagnose(autoregressive(rho)[:, :, None])
    exact = 80_000 * (1 - rho) / (1 + rho)
    assert seen.ess_bulk[0] == pytest.approx(exact, rel=0.15)
    assert seen.mcse[0] == pytest.approx(exact**-0.5, rel=0.1)
    assert seen.mean[0] == pytest.approx(0.0, abs=4 * seen.mcse[0])
    assert seen.sd[0] == pytest.approx(1.0, abs=0.05)
    assert seen.r_hat[0] < 1.01


def test_chains_that_disagree_are_seen_each_by_itself():
    draws = np.random.default_rng(0).standard_normal((4, 500, 3))
    draws[0, :, 1] += 3.0
    seen = diagnose(draws)
    assert seen.r_hat[1] > 1.2
    assert np.all(seen.r_hat[[0, 2]] < 1.02)
    assert seen.ess_bulk[1] < 20 < seen.ess_bulk[0]


def test_what_never_varies_has_no_r_hat_and_chains_that_stand_apart_an_infinite_one():
    draws = np.random.default_rng(0).standard_normal((4, 50, 4))
    draws[:, :, 1] = 0.1
    draws[:, :, 2] = np.arange(4.0)[:, None]
    draws[0, :, 3] = 5.0
    seen = diagnose(draws)
    assert np.isnan(seen.r_hat).tolist() == [False, True, False, False]
    assert seen.r_hat[2] == seen.largest_r_hat == np.inf
    assert seen.r_hat[0] < 1.05 < 1.2 < seen.r_hat[3]
    assert diagnose(draws[:, :, [0, 1]]).largest_r_hat == seen.r_hat[0]
    assert diagnose(draws[:, :, [1]]).largest_r_hat == 1.0


@pytest.mark.parametrize(("warmup", "draws", "thin"), [(0, 1, 1), (5, 3, 1), (4, 3, 5)])
def test_the_last_sweep_of_every_stretch_is_kept(warmup, draws, thin):
    schedule = Schedule(warmup, draws, thin)
    made = itertools.count()
    kept = schedule.kept({"x": np.array([sweep, -sweep])} for sweep in made)
    last = warmup + thin * np.arange(1, draws + 1) - 1
    assert_array_equal(kept["x"], [last, -last])
    assert next(made) == schedule.sweeps == last[-1] + 1, "a sweep was made for nothing"
    assert schedule.slot(schedule.sweeps + thin) is None
