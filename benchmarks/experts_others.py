"""Tables of numbers that were collected for something else, and a simulated one.

Rows of bags as rows of a table, split at random; chess end games with a column as the label; and
Friedman's curve among columns of noise. What is chosen on these is tested on other tables.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.special import expit

OTHERS = (
    "birdsong_11", "birdsong_1", "msrcv2_0", "corel_african", "birds_wiwr", "krvskp", "friedman"
)  # fmt: skip


def other(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of one of `OTHERS`; ``folder`` is that of the experts' tables."""
    if name == "friedman":
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(4000, 20))
        f = 10.0 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20.0 * (x[:, 2] - 0.5) ** 2
        f += 10.0 * x[:, 3] + 5.0 * x[:, 4] - 14.4
        return x, (rng.uniform(size=4000) < expit(0.8 * f)).astype(int)
    if name == "krvskp":
        table = pq.read_table(folder.parent / "features/krvskp.parquet")
        named = [c for c in table.column_names if c not in ("id", "class")]
        codes = [np.unique(table[c].to_numpy(), return_inverse=True)[1] for c in named]
        y = np.unique(table["class"].to_numpy(), return_inverse=True)[1]
        return np.column_stack(codes).astype(float), y
    bags, _, species = name.partition("_") if name.startswith("birdsong") else (name, "", "")
    table = pq.read_table(folder.parent / f"bags/{bags}.parquet")
    x = np.array(table["features"].to_pylist(), float)
    if species:
        return x, (np.array(table["instance_label"]) == int(species)).astype(int)
    label = "instance_label" if "instance_label" in table.column_names else "label"
    return x, np.array(table[label]).astype(int)
