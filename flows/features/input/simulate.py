"""A table of categories with known features, and the truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows import storage
from vbmodels.features.table import simulate_table

LEVELS = np.array([2] * 24 + [3] * 4 + [5] * 2)
PREVALENCE = np.array([0.35, 0.25, 0.2, 0.15])
MISSING = 0.02


def write_table(target: str, rows: int, seed: int) -> list[str]:
    """Write ``table.parquet`` and ``_truth/features.parquet``; return their URLs.

    Parameters
    ----------
    target
        Folder.
    rows
        Number of rows.
    seed
        Seed of the draws.
    """
    rng = np.random.default_rng(seed)
    codes, z, _ = simulate_table(rng, rows, LEVELS, PREVALENCE, missing=MISSING)
    ids = pa.array([f"row-{i:07d}" for i in range(rows)])
    columns = {
        f"question_{d + 1:02d}": pa.array([None if c < 0 else f"answer {c}" for c in column])
        for d, column in enumerate(codes.T.tolist())
    }
    folder = storage.absolute(target)
    table = storage.join(folder, "table.parquet")
    storage.write_table(table, pa.table({"id": ids, **columns}))
    truth = storage.join(folder, "_truth", "features.parquet")
    named = {f"feature_{k + 1}": pa.array(on) for k, on in enumerate(z.T)}
    storage.write_table(truth, pa.table({"id": ids, **named}))
    return [table, truth]
