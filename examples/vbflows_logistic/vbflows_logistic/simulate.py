"""Rows drawn from the model."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows.data import storage
from vbflows_logistic.model import Rows
from vbmodels.core.state import FloatArray


def simulate(rng: np.random.Generator, rows: int, w: FloatArray) -> Rows:
    """Return standard normal columns beside the constant, and labels at weights w [D]."""
    x = np.column_stack([np.ones(rows), rng.standard_normal((rows, len(w) - 1))])
    chance = 1.0 / (1.0 + np.exp(-(x @ w)))
    return Rows(x, (rng.random(rows) < chance).astype(np.int64))


def write_rows(target: str, rows: int, seed: int) -> list[str]:
    """Write labelled rows of five columns, and the weights behind them; a tenth has no label."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(6)
    drawn = simulate(rng, rows, w)
    names = [f"row-{i:07d}" for i in range(rows)]
    label = pa.array(drawn.label, mask=rng.random(rows) < 0.1)
    columns = {f"x{j}": drawn.x[:, j] for j in range(1, 6)}
    url = storage.join(storage.absolute(target), "rows.parquet")
    features = pa.array(np.column_stack(list(columns.values())).tolist(), pa.list_(pa.float64()))
    storage.write_table(url, pa.table({"id": names, "label": label, "features": features}))
    truth = storage.join(storage.absolute(target), "_truth", "weights.parquet")
    storage.write_table(truth, pa.table({"column": ["intercept", *columns], "weight": w}))
    return [url, truth]
