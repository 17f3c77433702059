"""Missing cells: how a run says that they were filled, and a baseline that does better."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from flows.features.cell_baselines import score_classes, score_logistic, score_shares
from flows.features.sections import _baseline_grids
from tests.flows.commands import setting_args, succeed
from tests.flows.experts.runs import latest, written
from vbmodels.features.imputation.predict import HiddenCells
from vbmodels.features.table import MISSING

LEVELS = np.array([2, 2, 3])


def hidden_cells(n=400, seed=0):
    """Columns 0 and 1 are the same, column 2 says nothing; a tenth of the cells is hidden."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, n)
    codes = np.column_stack([first, first, rng.integers(0, 3, n)]).astype(np.int16)
    hidden = rng.random(codes.shape) < 0.1
    rows, columns = np.nonzero(hidden)
    truth = codes[hidden]
    left = np.where(hidden, np.int16(MISSING), codes)
    return HiddenCells(left, rows, columns, truth, np.log(1.0 / LEVELS[columns]))


def test_a_better_baseline_is_warned_of():
    found = score_logistic(hidden_cells(), LEVELS)
    copied = found.cells
    assert copied == len(hidden_cells().truth)
    assert found.baseline > found.mixture + 0.2
    (grid,), warnings = _baseline_grids({"filling_baseline_logistic": found.__dict__})
    assert f"{found.baseline:.4f}" in grid.rows[0]
    assert len(warnings) == 1
    copy = hidden_cells()
    level = HiddenCells(*(getattr(copy, n) for n in ("codes", "rows", "columns", "truth")),
                   log_p=np.zeros(copied))  # fmt: skip
    results = {"filling_baseline_logistic": score_logistic(level, LEVELS).__dict__}
    assert _baseline_grids(results)[1] == []


def test_latent_classes_and_shares_are_scored_on_the_same_cells():
    """Classes predict each of two equal columns by the other, shares do not."""
    found = hidden_cells(1000, 3)
    classes, shares = score_classes(found, LEVELS), score_shares(found, LEVELS)
    assert classes.classes == 2
    assert classes.cells == shares.cells == len(found.truth)
    chance = np.where(found.columns == 2, np.log(1 / 3), np.log(1 / 2))
    assert_allclose(shares.baseline, chance.mean(), atol=0.02)
    alone = (found.codes[found.rows][:, :2] == MISSING).all(1) & (found.columns < 2)
    sure = np.where((found.columns < 2) & ~alone, 0.0, chance)
    assert_allclose(classes.baseline, sure.mean(), atol=0.03)
    results = {
        "filling_baseline_classes": classes.__dict__,
        "filling_baseline_shares": shares.__dict__,
    }
    (grid,), (warning,) = _baseline_grids(results)
    assert [row[0] for row in grid.rows] == ["latent classes (2 by the BIC)", "the columns' shares"]
    assert warning.startswith("Latent class analysis fills cells better here")
    one = HiddenCells(found.codes, *(np.zeros(1, int),) * 2, np.zeros(1, np.int16), np.zeros(1))
    assert score_classes(one, LEVELS) is None
    assert score_shares(one, LEVELS) is None


def survey(n=120, seed=0):
    rng = np.random.default_rng(seed)
    psi = rng.normal(size=(n, 2)) @ rng.normal(0.0, 2.0, (2, 8))
    codes = rng.random(psi.shape) < expit(psi)
    gone = rng.random(psi.shape) < 0.1
    cells = np.where(gone, None, np.where(codes, "yes", "no"))
    return {f"q{d}": pa.array(cells[:, d], pa.string()) for d in range(8)}, int(gone.sum())


def fitted(tmp_path, name, *options):
    columns, gone = survey()
    path = written(tmp_path, columns)
    succeed("features", path, tmp_path / name, *setting_args("n_features=4", *options))
    return *latest(tmp_path / name), gone


@pytest.mark.thorough
def test_a_run_says_which_models_filled_its_cells(tmp_path):
    folder, record, gone = fitted(tmp_path, "whole", "partitions=3")
    filling = record["results"]["filling"]
    assert_allclose(sum(one["weight"] for one in filling["members"].values()), 1.0)
    assert filling["hidden_cells"] > 20
    logistic = record["results"]["filling_baseline_logistic"]
    assert_allclose(logistic["mixture"], filling["mixture"], atol=0.01)
    for name in ("classes", "shares"):
        other = record["results"][f"filling_baseline_{name}"]
        assert (other["cells"], other["mixture"]) == (logistic["cells"], logistic["mixture"])
    page = (folder / "report.html").read_text()
    assert "How missing cells are filled" in page
    assert f"latent classes ({record['results']['filling_baseline_classes']['classes']}" in page
    cells = pq.read_table(folder / "imputed")
    total = cells.group_by(["id", "column"]).aggregate([("probability", "sum")])
    assert len(total) == gone
    assert_allclose(total["probability_sum"].to_numpy(), 1.0)


def test_a_run_that_stops_before_models_have_learned_says_so(tmp_path):
    _, record, gone = fitted(tmp_path, "short", "max_iter=110")
    assert any("before the models that fill missing cells had learned" in warning
               for warning in record["warnings"])  # fmt: skip
    assert "filling" not in record["results"]
    assert record["results"]["imputed_cells"] == gone
