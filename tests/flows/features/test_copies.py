"""Exact copies of rows are said, and rows that are equal by chance are not."""

import numpy as np
import pytest

from flows.features.patterns import find_copies
from flows.features.simpler_models import sample_rows
from tests.feature_tables import split_rows
from tests.flows.commands import printed, setting_args
from tests.flows.experts.runs import written


def copies_in(codes, parts=2):
    levels = codes.max(axis=0) + 1
    return find_copies([sample_rows(b, len(codes)) for b in split_rows(codes, levels, parts)])


@pytest.mark.parametrize("sure", [0.7, 0.9])
def test_rows_of_clear_classes_are_equal_by_chance_until_some_are_copied(sure):
    rng = np.random.default_rng(0)
    own = rng.random((3, 12)) < 0.5
    codes = (own[rng.integers(0, 3, 600)] ^ (rng.random((600, 12)) > sure)).astype(int)
    found = copies_in(codes)
    assert not found.too_many
    assert found.copies == 600 - len(np.unique(codes, axis=0))
    if sure < 0.9:  # of clearer classes most rows are equal anyway
        twice = copies_in(np.concatenate([codes, codes]))
        assert twice.too_many
        assert twice.copies == 600 + found.copies


def test_copies_are_in_the_warnings(tmp_path, capsys):
    answers = np.random.default_rng(0).choice(["a", "b", "c"], (90, 6))
    rows = np.concatenate([answers, answers[:30]])
    source = written(tmp_path, {f"q{d}": column.tolist() for d, column in enumerate(rows.T)})
    more = setting_args("n_features=1", "starts=1", "max_iter=61")
    said = printed(capsys, "features", source, tmp_path / "out", *more)
    assert f"{120 - len(np.unique(rows, axis=0))} of 120 rows are exact copies" in said
