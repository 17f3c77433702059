"""Copies of a row stay on one side of every hold-out, and a mixture of one is called so."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.cli import main
from flows.experts.design import fitted_rows, groups_of
from flows.experts.report import report
from flows.experts.settings import ExpertSettings
from flows.experts.summary import BINS, ExpertSummary
from vbmodels.estimators import MixtureOfExperts
from vbmodels.experts.batch import Rows
from vbmodels.experts.columns import cell_keys
from vbmodels.experts.posterior import Component, Posterior

COPIES = 4


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Write rows of which each stands four times under names of their own, in two files."""
    rng = np.random.default_rng(4)
    x = np.repeat(rng.integers(0, 9, (80, 3)).astype(float), COPIES, axis=0)
    label = (x[:, 0] + rng.normal(0, 3, len(x)) > 4).astype(int)
    order = rng.permutation(len(x))
    folder = tmp_path_factory.mktemp("copies")
    for i, rows in enumerate(np.array_split(order, 2)):
        columns = {f"x{j}": x[rows, j] for j in ((0, 1, 2), (2, 0, 1))[i]}
        names = [f"row-{r}" for r in rows]
        pq.write_table(
            pa.table({"id": names, "label": label[rows], **columns}), folder / f"{i}.parquet"
        )
    distinct, counts = np.unique(x, axis=0, return_counts=True)
    return folder, distinct, counts


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert stopped.value.code == 0, captured.err
    return json.loads(captured.out)


def test_copies_are_judged_or_fitted_together(capsys, copies, tmp_path):
    """The rows not fitted are those of whole groups, whose sizes are known."""
    folder, distinct, counts = copies
    out = run(
        capsys, "experts", folder, tmp_path / "out", "--json", "--partitions", 3,
        *("--set", "inference=cavi"), *("--set", "n_experts=2"), *("--set", "test_share=0.3"),
    )  # fmt: skip
    held = ~fitted_rows(cell_keys(distinct), np.ones(len(distinct)), 0.3)
    assert 0.15 < held.mean() < 0.45
    assert out["results"]["test_rows"] == counts[held].sum()


def test_the_order_of_columns_and_the_sign_of_zero_do_not_matter():
    x = np.array([[1.0, -0.0, 3.0], [2.0, 5.0, 0.5]])
    one = groups_of(x, ["b", "a", "c"])
    other = groups_of(np.abs(x[:, [2, 0, 1]]), ["c", "b", "a"])
    np.testing.assert_array_equal(one, other)
    assert one[0] != one[1]


def test_folds_go_by_cells_and_draws_by_names():
    """A sampler that gave copies the same draws would not sample the posterior."""
    x = np.repeat(np.random.default_rng(1).normal(size=(50, 2)), COPIES, axis=0)
    key = np.arange(len(x))
    batch = Rows.of(x, np.ones(len(x)), key, group=cell_keys(x))
    folds = batch.fold(5).reshape(50, COPIES)
    assert np.all(folds == folds[:, :1])
    assert set(folds[:, 0]) == set(range(5))
    assert np.unique(batch.uniforms(1, 1)).size == len(x)


def test_the_estimator_holds_copies_out_together():
    rng = np.random.default_rng(2)
    x = np.repeat(rng.normal(size=(40, 2)), COPIES, axis=0)
    y = (x[:, 0] + rng.normal(size=len(x)) > 0).astype(int)
    made: list[Rows] = []

    class Watched(MixtureOfExperts):
        def _rows(self, *given):
            made.append(super()._rows(*given))
            return made[-1]

    Watched(n_experts=2, inference="cavi", tol=1e-3).fit(x, y)
    folds = made[0].fold(3).reshape(40, COPIES)
    assert np.all(folds == folds[:, :1])


@pytest.mark.parametrize("held", [(300.0, 0.0, 0.0), (200.0, 100.0, 0.0)])
def test_one_expert_for_all_rows_is_no_mixture(held):
    rng = np.random.default_rng(0)
    one = Component(rng.normal(size=(2, 3, 3)), np.ones((2, 3, 3)), None)
    summary = ExpertSummary(
        300, np.array(held), np.array([250.0, 30.0, 20.0]), np.ones((4, 3)),
        np.zeros((3, BINS)), np.zeros(7), ("a", "b"), False,
    )  # fmt: skip
    found = report(Posterior((one,)), None, [summary], ExpertSettings(n_experts=3))
    alone = held[0] == 300.0
    assert found.headline.startswith("One of 3 experts holds all 300 rows") is alone
    assert any("This is no mixture" in warning for warning in found.warnings) is alone
    assert ("2 of 3 experts are responsible" in found.headline) is not alone
