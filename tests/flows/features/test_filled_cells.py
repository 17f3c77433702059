"""Missing cells: how a run says that they were filled, and a rival that does better."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from flows.cli import main
from flows.features import cell_baselines
from flows.features.cell_baselines import beside_classes, beside_logistic, beside_shares
from flows.features.fit_sections import _beside
from vbmodels.features.batch import MISSING
from vbmodels.features.completion.judged import Judged, together

LEVELS = np.array([2, 2, 3])


def judged(n=400, seed=0):
    """Columns 0 and 1 are the same, column 2 says nothing; a tenth of the cells is hidden."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, n)
    codes = np.column_stack([first, first, rng.integers(0, 3, n)]).astype(np.int16)
    hidden = rng.random(codes.shape) < 0.1
    rows, columns = np.nonzero(hidden)
    truth = codes[hidden]
    left = np.where(hidden, np.int16(MISSING), codes)
    return Judged(left, rows, columns, truth, np.log(1.0 / LEVELS[columns]))


def test_a_rival_that_is_better_is_told_of():
    found = beside_logistic(judged(), LEVELS)
    copied = found.cells
    assert copied == len(judged().truth)
    assert found.rival > found.mixture + 0.2
    (grid,), warnings = _beside({"filling_beside_logistic": found.__dict__})
    assert f"{found.rival:.4f}" in grid.rows[0]
    assert len(warnings) == 1
    level = Judged(*[getattr(judged(), n) for n in ("codes", "rows", "columns", "truth")],
                   log_p=np.zeros(copied))  # fmt: skip
    told = {"filling_beside_logistic": beside_logistic(level, LEVELS).__dict__}
    assert _beside(told)[1] == []


def test_latent_classes_and_shares_are_judged_on_the_same_cells():
    """Classes tell the columns that are the same from one another, shares tell nothing."""
    found = judged(1000, 3)
    classes, shares = beside_classes(found, LEVELS), beside_shares(found, LEVELS)
    assert classes.classes == 2
    assert classes.cells == shares.cells == len(found.truth)
    chance = np.where(found.columns == 2, np.log(1 / 3), np.log(1 / 2))
    assert_allclose(shares.rival, chance.mean(), atol=0.02)
    alone = (found.codes[found.rows][:, :2] == MISSING).all(1) & (found.columns < 2)
    sure = np.where((found.columns < 2) & ~alone, 0.0, chance)
    assert_allclose(classes.rival, sure.mean(), atol=0.03)
    told = {"filling_beside_classes": classes.__dict__, "filling_beside_shares": shares.__dict__}
    (grid,), (warning,) = _beside(told)
    assert [row[0] for row in grid.rows] == ["latent classes (2 by the BIC)", "the columns' shares"]
    assert warning.startswith("Latent class analysis fills cells better here")
    one = Judged(found.codes, *(np.zeros(1, int),) * 2, np.zeros(1, np.int16), np.zeros(1))
    assert beside_classes(one, LEVELS) is None
    assert beside_shares(one, LEVELS) is None


def test_of_a_large_table_classes_learn_from_some_rows(monkeypatch):
    found = judged(900, 3)
    monkeypatch.setattr(cell_baselines, "MOST_INDICATORS", 300 * LEVELS.sum())
    some = beside_classes(found, LEVELS)
    assert (some.rows, some.cells) == (300, len(found.truth))


def test_parts_together_are_the_whole():
    one, two = judged(100, 1), judged(150, 2)
    whole = together([one, two])
    assert_allclose(whole.rows[len(one.rows) :] - 100, two.rows)
    assert whole.codes[whole.rows, whole.columns].tolist() == [MISSING] * len(whole.rows)


def test_a_column_with_one_known_category_and_too_few_cells():
    codes = np.zeros((6, 3), np.int16)
    codes[0, 0] = MISSING
    none = np.zeros(0, int)
    alone = Judged(codes, np.array([0]), np.array([0]), np.array([1]), np.zeros(1))
    assert beside_logistic(alone, LEVELS) is None
    assert beside_logistic(Judged(codes, none, none, none, np.zeros(0)), LEVELS) is None
    two = Judged(codes, np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), np.zeros(2))
    found = beside_logistic(two, LEVELS)
    assert_allclose(found.rival, np.log(1e-9) / 2)


def test_a_single_column_has_nothing_to_be_regressed_on():
    at = np.arange(3)
    alone = Judged(
        np.array([[-1], [-1], [-1], [0], [1]], np.int16), at, at * 0, at % 2, np.zeros(3)
    )
    assert beside_logistic(alone, LEVELS[:1]) is None


def test_of_a_wide_table_some_columns_are_regressed(monkeypatch):
    found = judged()
    whole = beside_logistic(found, LEVELS)
    monkeypatch.setattr(cell_baselines, "MOST_WORK", 2.0 * found.codes.size * LEVELS.mean())
    some = beside_logistic(found, LEVELS)
    assert whole.cells == len(found.truth)
    assert some.cells == np.isin(found.columns, [0, 2]).sum()


def survey(n=120, seed=0):
    rng = np.random.default_rng(seed)
    psi = rng.normal(size=(n, 2)) @ rng.normal(0.0, 2.0, (2, 8))
    codes = rng.random(psi.shape) < expit(psi)
    gone = rng.random(psi.shape) < 0.1
    cells = np.where(gone, None, np.where(codes, "yes", "no"))
    return {f"q{d}": pa.array(cells[:, d], pa.string()) for d in range(8)}, int(gone.sum())


def fitted(tmp_path, name, *options):
    columns, gone = survey()
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    with pytest.raises(SystemExit) as stopped:
        main(["features", str(tmp_path / "in.parquet"), str(tmp_path / name),
              "--set", "n_features=4", *options])  # fmt: skip
    assert stopped.value.code == 0
    run_id = json.loads((tmp_path / name / "latest.json").read_text())["run_id"]
    folder = Path(tmp_path / name / "runs" / run_id)
    return folder, json.loads((folder / "run.json").read_text()), gone


def test_a_run_says_which_models_filled_its_cells(tmp_path):
    folder, record, gone = fitted(tmp_path, "whole", "--partitions", "3")
    filling = record["results"]["filling"]
    assert_allclose(sum(one["weight"] for one in filling["members"].values()), 1.0)
    assert filling["hidden_cells"] > 20
    rival = record["results"]["filling_beside_logistic"]
    assert_allclose(rival["mixture"], filling["mixture"], atol=0.01)
    for name in ("classes", "shares"):
        other = record["results"][f"filling_beside_{name}"]
        assert (other["cells"], other["mixture"]) == (rival["cells"], rival["mixture"])
    page = (folder / "report.html").read_text()
    assert "How missing cells are filled" in page
    assert f"latent classes ({record['results']['filling_beside_classes']['classes']}" in page
    cells = pq.read_table(folder / "imputed")
    total = cells.group_by(["id", "column"]).aggregate([("probability", "sum")])
    assert len(total) == gone
    assert_allclose(total["probability_sum"].to_numpy(), 1.0)


def test_a_run_that_stops_before_models_have_learned_says_so(tmp_path):
    _, record, gone = fitted(tmp_path, "short", "--set", "max_iter=110")
    assert any("before the models that fill missing cells had learned" in warning
               for warning in record["warnings"])  # fmt: skip
    assert "filling" not in record["results"]
    assert record["results"]["imputed_cells"] == gone
