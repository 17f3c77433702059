"""Rows from a mixture of logistic experts, with the truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows import storage
from vbmodels.experts.simulate import simulate

FEATURES = 6
EXPERTS = 3
UNLABELLED = 0.1


def write_rows(target: str, rows: int, seed: int) -> list[str]:
    """Write ``table.parquet`` and ``_truth/rows.parquet``; return their URLs.

    Parameters
    ----------
    target
        Folder.
    rows
        Number of rows; a tenth of them have no label.
    seed
        Seed of the draws.
    """
    rng = np.random.default_rng(seed)
    x, t, truth = simulate(rng, rows, FEATURES, EXPERTS)
    ids = pa.array([f"row-{i:07d}" for i in range(rows)])
    label = pa.array((t > 0).astype(np.int8), mask=rng.random(rows) < UNLABELLED)
    columns = {f"x{d + 1}": pa.array(column) for d, column in enumerate(x.T)}
    folder = storage.absolute(target)
    table = storage.join(folder, "table.parquet")
    storage.write_table(table, pa.table({"id": ids, **columns, "label": label}))
    known = {
        "id": ids,
        "label": pa.array((t > 0).astype(np.int8)),
        "expert": pa.array(truth.expert + 1),
        "probability": pa.array(truth.probability),
    }
    truth_url = storage.join(folder, "_truth", "rows.parquet")
    storage.write_table(truth_url, pa.table(known))
    return [table, truth_url]
