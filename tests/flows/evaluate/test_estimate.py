"""Means and shares with their intervals: how often these hold the truth, by simulation."""

import numpy as np
import pytest

from flows.evaluate.estimate import (
    MOST_DRAWN,
    design_effect,
    mean_of,
    ratio_of,
    share_of,
    standard_error,
)

SETS = 200


def covered(draw, estimate, truth, sets=SETS):
    """Return the share of simulated sets whose interval holds the truth."""
    random = np.random.default_rng(1)
    found = [estimate(*draw(random)) for _ in range(sets)]
    return np.mean([one.low <= truth <= one.high for one in found])


def alone(values):
    return values, np.arange(values.size)


def grouped(random, groups, size, between):
    """Rows of groups of a size: normal numbers around a normal mean of each group."""
    group = np.repeat(np.arange(groups), size)
    return between * random.normal(size=groups)[group] + random.normal(size=group.size), group


def shares_of_groups(random, groups, size):
    """Rows of groups whose shares are drawn around 0.8."""
    group = np.repeat(np.arange(groups), size)
    share = random.beta(4.0, 1.0, groups)[group]
    return random.random(group.size) < share, group


@pytest.mark.thorough
@pytest.mark.parametrize("n", [60, MOST_DRAWN + 100])
def test_an_interval_of_a_mean_holds_the_truth(n):
    """By the bootstrap and by the normal distribution; few rows make it a little narrow."""
    share = covered(lambda random: alone(random.normal(size=n)), mean_of, 0.0)
    assert 0.92 <= share <= 0.98


@pytest.mark.thorough
@pytest.mark.parametrize(("groups", "size"), [(40, 5), (MOST_DRAWN + 20, 3)])
def test_an_interval_of_a_mean_holds_the_truth_where_rows_are_of_groups(groups, size):
    share = covered(lambda random: grouped(random, groups, size, 1.0), mean_of, 0.0)
    assert 0.91 <= share <= 0.98
    as_if_alone = covered(
        lambda random: alone(grouped(random, groups, size, 1.0)[0]), mean_of, 0.0, 200
    )
    assert as_if_alone < 0.85


@pytest.mark.parametrize("n", [80, MOST_DRAWN + 100])
def test_an_interval_of_a_ratio_holds_the_truth(n):
    def draw(random):
        units = random.gamma(2.0, size=n)
        return 0.5 * units + 0.3 * random.normal(size=n), units, np.arange(n)

    assert 0.91 <= covered(draw, ratio_of, 0.5, SETS // 2) <= 0.98


@pytest.mark.parametrize(("n", "truth"), [(14, 0.9), (60, 0.5), (500, 0.02)])
def test_an_interval_of_a_share_holds_the_truth(n, truth):
    share = covered(lambda random: alone(random.random(n) < truth), share_of, truth, 4 * SETS)
    assert 0.92 <= share <= 0.99


def test_an_interval_of_a_share_holds_the_truth_where_rows_are_of_groups():
    share = covered(lambda random: shares_of_groups(random, 40, 6), share_of, 0.8, 2 * SETS)
    assert 0.92 <= share <= 0.99
    as_if_alone = covered(
        lambda random: alone(shares_of_groups(random, 40, 6)[0]), share_of, 0.8, 2 * SETS
    )
    assert as_if_alone < share - 0.05


def test_the_bootstrap_and_the_normal_interval_agree_where_one_takes_over_from_the_other():
    values = np.random.default_rng(0).normal(size=MOST_DRAWN)
    drawn = mean_of(values, np.arange(values.size))
    half = 1.96 * standard_error(values, np.arange(values.size))
    assert drawn.high - drawn.low == pytest.approx(2.0 * half, rel=0.03)


def test_rows_of_one_group_are_worth_what_their_mean_is():
    """Copies of 30 rows say no more than these; a group of all says nothing of others."""
    values = np.random.default_rng(0).normal(size=30)
    copies, group = np.tile(values, 4), np.tile(np.arange(30), 4)
    assert standard_error(copies, group) == pytest.approx(standard_error(values, np.arange(30)))
    one, other = mean_of(copies, group), mean_of(values, np.arange(30))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-12)
    assert design_effect(copies, group) == pytest.approx(4.0, rel=0.05)
    assert mean_of(values, np.zeros(30, int)).low is None
    true = np.ones(120, bool)
    assert design_effect(true.astype(float), group) == 4.0
    assert share_of(true, group).low == pytest.approx(share_of(true[:30], np.arange(30)).low)
