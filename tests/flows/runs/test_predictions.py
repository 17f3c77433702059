"""Predictions of two runs are compared by the names of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flows.data import storage
from flows.data.runs import RunPaths
from flows.runs.predictions import compare_predictions


def run_with(target, name, **columns):
    paths = RunPaths(str(target), name)
    half = len(next(iter(columns.values()))) // 2
    table = pa.table(columns)
    storage.write_table(paths.table("rows", 0), table.slice(0, half))
    storage.write_table(paths.table("rows", 1), table.slice(half))
    return paths


def test_rows_are_matched_by_name_whatever_their_order(tmp_path):
    first = run_with(
        tmp_path, "a", id=["a", "a", "b", "c"], of=["x", None, None, None],
        same=["s", "s", "s", "s"], probability=[0.1, 0.4, 0.9, 0.5],
    )  # fmt: skip
    second = run_with(
        tmp_path, "b", id=["e", "b", "a", "a"], of=[None, None, None, "x"],
        same=["s", "s", "s", "s"], probability=[0.3, 0.85, 0.7, 0.1],
    )  # fmt: skip
    (found,) = compare_predictions(first, second)
    assert (found.shared, found.only_first, found.only_second) == (3, 1, 1)
    assert found.mean_change == pytest.approx((0.0 + 0.3 + 0.05) / 3)
    assert (found.moved, found.crossed) == (1, 1)
    assert found.largest[0] == ("a", 0.4, 0.7)
    assert found.largest[2] == ("a, x", 0.1, 0.1)
    expected = np.corrcoef([0.1, 0.4, 0.9], [0.1, 0.7, 0.85])[0, 1]
    assert found.correlation == pytest.approx(expected)


def test_rows_without_names_of_their_own_are_not_compared(tmp_path):
    columns = {"id": ["a", "a"], "probability": [0.1, 0.2]}
    assert compare_predictions(*(run_with(tmp_path, n, **columns) for n in "ab")) == []
    columns = {"value": [1.0, 2.0], "probability": [0.1, 0.2]}
    assert compare_predictions(*(run_with(tmp_path, n, **columns) for n in "cd")) == []


def test_a_run_without_spread_has_no_correlation(tmp_path):
    runs = [run_with(tmp_path, n, id=["a", "b"], probability=[0.5, 0.5]) for n in "ab"]
    (found,) = compare_predictions(*runs)
    assert found.correlation is None
    assert found.as_json()["mean_change"] == 0.0
