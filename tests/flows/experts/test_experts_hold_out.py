"""Copies of a row stay on one side of every hold-out, and a mixture of one is called so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.experts.design import fitted_rows
from tests.flows.commands import setting_args, succeed
from tests.flows.experts.runs import latest, written
from vbmodels.experts.columns import cell_keys
from vbmodels.experts.rows import Rows

COPIES = 4


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Write rows that occur four times each under different names, in two files."""
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


@pytest.mark.thorough
def test_copies_are_held_out_or_fitted_together(copies, tmp_path):
    """The rows not fitted are those of whole groups, whose sizes are known."""
    folder, distinct, counts = copies
    more = setting_args("inference=cavi", "n_experts=2", "test_share=0.3")
    succeed("experts", folder, tmp_path / "out", "--partitions", 3, *more)
    held = ~fitted_rows(cell_keys(distinct), np.ones(len(distinct)), 0.3)
    assert 0.15 < held.mean() < 0.45
    assert latest(tmp_path / "out")[1]["results"]["test_rows"] == counts[held].sum()


def test_folds_go_by_cells_and_draws_by_names():
    """A sampler that gave copies the same draws would not sample the posterior."""
    x = np.repeat(np.random.default_rng(1).normal(size=(50, 2)), COPIES, axis=0)
    key = np.arange(len(x))
    batch = Rows.of(x, np.ones(len(x)), key, group=cell_keys(x))
    folds = batch.fold(5).reshape(50, COPIES)
    assert np.all(folds == folds[:, :1])
    assert set(folds[:, 0]) == set(range(5))
    assert np.unique(batch.uniforms(1, 1)).size == len(x)


def test_a_copy_of_the_label_is_asked_about(tmp_path):
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, 200)
    given = written(tmp_path, {"label": label, "left": 1 - label, "age": rng.normal(50, 9, 200)})
    succeed("experts", given, tmp_path / "out", *setting_args("test_share=0.3"))
    warnings = " ".join(latest(tmp_path / "out")[1]["warnings"])
    assert "If left, which has the largest effect, is only known once the label is" in warnings
