"""Cells that are missing because of another answer, and columns that exclude each other."""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.features.input.categories import Column
from flows.features.input.columns import FoundColumns, compare_columns
from flows.features.input.pairs import survey_codes
from tests.flows.commands import setting_args, succeed
from tests.flows.experts.runs import latest, written


def compared(codes, levels, parts=1):
    columns = tuple(
        Column(f"q{d}", tuple(names), tuple(np.bincount(codes[:, d][codes[:, d] >= 0]).tolist()),
               int((codes[:, d] < 0).sum()))
        for d, names in enumerate(levels)
    )  # fmt: skip
    edges = np.linspace(0, len(codes), parts + 1).astype(int)
    sizes = [len(names) for names in levels]
    surveys = [
        survey_codes(codes[i:j], sizes, i, np.ones(j - i)) for i, j in itertools.pairwise(edges)
    ]
    return compare_columns(FoundColumns(columns, {}, (), ()), surveys)


def drawn(rows=300, seed=0):
    """q1 is skipped where q0 is never or seldom; a tenth of its other cells is missing, too."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (rows, 3))
    codes[:, 1:] %= 2
    codes[rng.random(rows) < 0.1, 1] = -1
    codes[codes[:, 0] > 0, 1] = -1
    return codes


GATE = (("often", "never", "seldom"), ("no", "yes"), ("no", "yes"))


@pytest.mark.parametrize("parts", [1, 3])
def test_the_answers_that_skip_a_question_are_found_among_other_missing_cells(parts):
    codes = drawn()
    kept, found = compared(codes, GATE, parts)
    assert [c.structural for c in kept] == [None, ("q0", ("never", "seldom")), None]
    skipped = int((codes[:, 0] > 0).sum())
    (said,) = found.warnings
    assert f"({skipped:,} cells): q1 where q0 = never or seldom" in said


def test_a_rare_answer_without_a_cell_by_chance_is_no_reason():
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 2, 200), rng.integers(0, 2, 200)])
    codes[rng.random(200) < 0.4, 1] = -1
    codes[:3, 0] = 2
    codes[:3, 1] = -1
    kept, found = compared(codes, (("a", "b", "c"), ("no", "yes")))
    assert kept[1].structural is None
    assert not found.warnings


def test_parts_of_a_questionnaire_are_no_answers_that_skip_a_question():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (300, 4))
    first = rng.random(300) < 0.5
    codes[first, 2:] = -1
    codes[~first, :2] = -1
    codes[:9, :] = 0  # a few rows have both parts
    kept, _ = compared(codes, [("a", "b", "c")] * 4)
    assert [c.structural for c in kept] == [None] * 4


def test_dummies_of_one_question_are_said_also_where_some_rows_have_none():
    rng = np.random.default_rng(0)
    of = rng.integers(0, 5, 300)
    codes = np.column_stack([*(of == k for k in range(4)), rng.random(300) < 0.5]).astype(int)
    _, found = compared(codes, [("no", "yes")] * 5)
    (said,) = found.warnings
    none = int((of == 4).sum())
    assert f"at most one yes in a row: q0, q1, q2, q3 ({none} of 300 rows have none)" in said


def test_skipped_cells_are_not_filled_and_other_missing_ones_are(tmp_path):
    codes = drawn(200)
    names = [np.array([*levels, None], object) for levels in GATE]
    columns = {f"q{d}": names[d][codes[:, d]].tolist() for d in range(3)}
    source = written(tmp_path, {"id": [f"r{i}" for i in range(200)], **columns})
    more = setting_args("n_features=1", "starts=1", "max_iter=61", "partitions=2")
    succeed("features", source, tmp_path / "out", *more)
    imputed = pq.read_table(latest(tmp_path / "out")[0] / "imputed")
    filled = {(r["id"], r["column"]) for r in imputed.to_pylist()}
    wanted = np.flatnonzero((codes[:, 1] < 0) & (codes[:, 0] == 0))
    assert filled == {(f"r{i}", "q1") for i in wanted}
