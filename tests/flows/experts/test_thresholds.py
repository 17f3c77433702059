"""Counts at thresholds against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, roc_auc_score

from flows.experts.report import log_loss_of
from flows.experts.thresholds import (
    area,
    count_scores,
    misses_in_words,
    threshold_tables,
)


def scores():
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 3.0, 400)
    return rng.random(400) < p, p


def in_words(part, of):
    low, high = binomtest(int(part), int(of)).proportion_ci(method="wilson")
    return f"{part}, {100 * part / of:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"


def test_counts_of_partitions_add_up_to_the_area_and_the_table():
    y, p = scores()
    counts = count_scores(y[:150], p[:150]) + count_scores(y[150:], p[150:])
    assert area(counts) == pytest.approx(roc_auc_score(y, p), abs=1e-3)
    grids, found = threshold_tables(counts, "ill")
    for one in found:
        called = p >= one["threshold"]
        no, false, missed, true = confusion_matrix(y, called).ravel()
        names = ("true_negatives", "false_positives", "false_negatives", "true_positives")
        assert [one[name] for name in names] == [no, false, missed, true]
    half = next(row for row in grids[-1].rows if row[0] == "0.5")
    missed, false = np.sum(y & (p < 0.5)), np.sum(~y & (p >= 0.5))
    assert half[1:] == ("1", in_words(missed, y.sum()), in_words(false, np.sum(~y)))


def test_five_thresholds_are_in_the_table_where_their_counts_are_those_before_them():
    y, p = np.array([False, True, True]), np.array([0.2, 0.9, 0.95])
    (first, every), _ = threshold_tables(count_scores(y, p), "ill")
    assert len(every.rows) == 9
    missed, alarm, none = "none (0 to 66 %)", "1, 100 % (21 to 100 %)", "none (0 to 79 %)"
    assert first.rows == [
        ("0.05", "19", missed, alarm), ("0.1", "9", missed, alarm), ("0.2", "4", missed, alarm),
        ("0.5", "1", missed, none), ("0.8", "0.25", missed, none),
    ]  # fmt: skip
    assert first.columns[2:] == ("missed of 2 ill (95 %)", "false alarms of 1 others (95 %)")
    assert first.caption.endswith(
        "costs as much as 4 false alarms, take 0.2: 1 / (1 + 4). Choose by what a miss costs you, "
        "not by these counts: 3 rows are too few. The rule takes the probabilities as right, which "
        "so few cannot check."
    )


def test_a_lower_threshold_is_named_where_it_misses_fewer():
    y, p = np.array([False, False, True, True]), np.array([0.05, 0.6, 0.4, 0.95])
    _, found = threshold_tables(count_scores(y, p), "ill")
    assert misses_in_words(found, "ill") == (
        "the threshold 0.5 misses 1 of 2 ill, with 1 false alarm in 2 others; 0.2 misses none "
        "(95 %: up to 66 %), with 1 false alarm"
    )
    _, found = threshold_tables(count_scores(y, y.astype(float)), "ill")
    assert misses_in_words(found, "ill") == (
        "the threshold 0.5 misses none of 2 ill, with no false alarms in 2 others"
    )


def test_equal_losses_and_a_single_one_have_no_interval():
    assert log_loss_of(7, 7 * 0.3, 7 * 0.3**2) == {"log_loss": pytest.approx(0.3)}
    assert log_loss_of(1, 0.3, 0.09) == {"log_loss": 0.3}
    losses = np.array([0.1, 0.5, 0.2])
    low, high = log_loss_of(3, losses.sum(), losses @ losses)["log_loss_interval"]
    half = 1.96 * losses.std() / np.sqrt(3)
    assert (low, high) == pytest.approx((max(losses.mean() - half, 0.0), losses.mean() + half))
