"""An area's interval solves its equation, is of some width everywhere and covers as it says."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import rankdata

from flows.evaluate.estimate import auroc_interval


def spread(t, m, n):
    half = (m + n) / 2 - 1
    inner = t * (1 - t) + half * t * (1 - t) ** 2 / (2 - t) + half * t**2 * (1 - t) / (1 + t)
    return np.sqrt(inner / (m * n))


@pytest.mark.parametrize(("auroc", "m", "n"), [(0.5, 10, 10), (0.83, 7, 40), (1.0, 12, 11)])
def test_its_ends_are_z_deviations_away(auroc, m, n):
    low, high = auroc_interval(auroc, m, n)
    assert auroc - low == pytest.approx(1.959964 * spread(low, m, n), abs=1e-9)
    if auroc < 1.0:
        assert high - auroc == pytest.approx(1.959964 * spread(high, m, n), abs=1e-9)
    assert auroc_interval(1.0 - auroc, m, n) == pytest.approx((1.0 - high, 1.0 - low), abs=1e-9)


def test_few_bags_without_an_error_prove_little():
    low, high = auroc_interval(1.0, 12, 11)
    assert high == 1.0
    assert 0.7 < low < 0.9


@pytest.mark.parametrize("distance", [0.5, 1.5, 2.5])
def test_it_covers_the_area_of_two_normals(distance):
    rng = np.random.default_rng(3)
    truth, m, n, covered = ndtr(distance / np.sqrt(2.0)), 12, 15, []
    for _ in range(600):
        ranks = rankdata(np.r_[rng.normal(distance, 1.0, m), rng.normal(0.0, 1.0, n)])
        area = (ranks[:m].sum() - m * (m + 1) / 2) / (m * n)
        low, high = auroc_interval(area, m, n)
        covered.append(low <= truth <= high)
    assert 0.92 <= np.mean(covered) <= 0.995
