"""Counts at thresholds against scikit-learn's, and their intervals where rows are of groups."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix

from flows.evaluate.thresholds import AT, called_at, thresholds_of


def scores():
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 3.0, 400)
    return (rng.random(400) < p).astype(float), p


def test_counts_and_intervals_are_those_of_each_threshold():
    y, p = scores()
    for one in thresholds_of(y, p, np.arange(400)):
        _, alarms, missed, true = confusion_matrix(y, p >= one.at).ravel()
        assert (one.alarms, one.missed) == (alarms, missed)
        low, high = binomtest(missed, missed + true).proportion_ci(method="wilson")
        assert (one.miss_share.low, one.miss_share.high) == pytest.approx((low, high), abs=2e-3)
        assert one.at == pytest.approx(1.0 / (1.0 + one.cost))


def test_those_that_matter_miss_none_or_call_none_falsely_or_are_usual():
    y, p = np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.9, 0.95])
    found = thresholds_of(y, p, np.arange(3))
    assert [one.at for one in found if one.matters] == [0.05, 0.1, 0.2, 0.5, 0.8]
    assert [one.at for one in found] == sorted({one.at for one in found})


def test_the_ends_matter_where_no_usual_threshold_has_their_counts():
    y, p = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.25, 0.6, 0.35, 0.95])
    found = {one.at: one for one in thresholds_of(y, p, np.arange(4)) if one.matters}
    assert list(found) == [0.05, 0.1, 0.2, 0.3, 0.5, 0.8]
    assert (found[0.3].missed, found[0.3].alarms) == (0, 1)


def test_rows_of_a_group_count_as_many_as_they_are_worth():
    """Each row eight times: as wide as once."""
    y, p = scores()
    once = thresholds_of(y, p, np.arange(400))
    often = thresholds_of(np.repeat(y, 8), np.repeat(p, 8), np.repeat(np.arange(400), 8))
    for one, other in zip(once, often, strict=True):
        assert other.missed == 8 * one.missed
        if 0.0 < one.miss_share.value < 1.0:
            assert other.miss_share.high == pytest.approx(one.miss_share.high, abs=2e-3)


def test_new_rows_are_counted_at_each_threshold():
    p = np.array([0.3, 0.5, 0.97])
    assert called_at(p).tolist() == [int((p >= at).sum()) for at in AT]
