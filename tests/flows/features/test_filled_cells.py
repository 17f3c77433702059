"""Missing cells: how a run says that they were filled, and a baseline that does better."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from flows.features.input.categories import Column
from flows.features.simpler_models import (
    by_classes,
    by_logistic,
    by_shares,
    evaluate_cells,
    hidden_table,
)
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
    return HiddenCells(left, rows, columns, truth, np.log(1.0 / LEVELS[columns]), np.arange(n))


def test_simpler_models_are_compared_on_the_cells_that_they_predict():
    """Each of two equal columns is predicted by the other, but not by shares."""
    found = hidden_cells()
    columns = [Column(f"q{d}", tuple("abc"[:n]), (0,) * n, 0) for d, n in enumerate(LEVELS)]
    table = hidden_table(found, [f"r{i}" for i in range(400)], columns)
    test = evaluate_cells(table)
    assert (test.cells, test.rows) == (len(found.truth), len(np.unique(found.rows)))
    rivals = {one.rival.name: one for one in test.rivals}
    assert all(one.cells == test.cells for one in rivals.values())
    for name in ("logistic", "classes"):
        assert rivals[name].rival.more.high < 0.0
        assert rivals[name].rival.loss < test.loss.value - 0.2
    assert rivals["shares"].rival.more.high >= 0.0
    some = table.set_column(4, "logistic", pa.array([None, *table["logistic"].to_pylist()[1:]]))
    rivals = {one.rival.name: one for one in evaluate_cells(some).rivals}
    assert rivals["logistic"].cells == test.cells - 1
    assert evaluate_cells(table[:1]) is None


def test_latent_classes_and_shares_give_what_is_known_of_the_cells():
    found = hidden_cells(1000, 3)
    chance = np.where(found.columns == 2, np.log(1 / 3), np.log(1 / 2))
    assert_allclose(np.log(by_shares(found, LEVELS)).mean(), chance.mean(), atol=0.02)
    alone = (found.codes[found.rows][:, :2] == MISSING).all(1) & (found.columns < 2)
    sure = np.where((found.columns < 2) & ~alone, 0.0, chance)
    for by, within in ((by_classes, 0.03), (by_logistic, 0.06)):  # the latter has a penalty
        assert_allclose(np.log(by(found, LEVELS)).mean(), sure.mean(), atol=within)


def survey(n=120):
    """Eight questions on two traits; a tenth of the cells is missing."""
    rng = np.random.default_rng(0)
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
    found = record["results"]
    assert_allclose(sum(one["weight"] for one in found["members"]), 1.0)
    hidden = pq.read_table(folder / "hidden")
    assert len(hidden) == found["cells"]["cells"] > 20
    assert_allclose(-np.log(hidden["mixture"]).mean(), found["cells"]["loss"]["value"])
    names = pq.read_table(folder / "rows", columns=["id"])["id"].to_pylist()
    known = {(one["id"], one["column"]): one["category"] for one in hidden.to_pylist()}
    columns, _ = survey()
    assert all(columns[c][names.index(n)].as_py() == said for (n, c), said in known.items())
    cells = pq.read_table(folder / "imputed")
    total = cells.group_by(["id", "column"]).aggregate([("probability", "sum")])
    assert len(total) == gone
    assert_allclose(total["probability_sum"].to_numpy(), 1.0)


def test_a_run_that_stops_before_models_have_learned_says_so(tmp_path):
    _, record, gone = fitted(tmp_path, "short", "max_iter=110")
    assert record["results"]["sweeps_to_fill"] > 0
    assert record["results"]["members"] == []
    assert record["results"]["imputed"] == gone
