"""Features: cells, columns and settings that cannot be."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.flows.experts.runs import written
from tests.flows.features.test_features import many, words
from tests.sentences.said import Said, command, table


def features(*settings: str, n: int = 300, **columns: object) -> Said:
    return table("check features", many(n, columns), *settings)


def two_files(folder: Path) -> None:
    written(folder, many(20, {}), "1.parquet")
    other = many(20, {"b": ["x", "y"] * 10})
    written(folder, {**other, "id": [f"s{i}" for i in range(20)]}, "2.parquet")


N = 40
EMPTY = {"b": words(np.random.default_rng(1), N), "empty": pa.nulls(N, pa.string())}
EMPTY["same"] = ["x"] * N
RARE = ["common" if i < 30 else "usual" if i < 50 else f"rare {i}" for i in range(60)]

CASES = {
    "half a code": features(x=[1.0, 2.5] * 150),
    "half codes": features(x=[0.5, 2.5] * 150),
    "lists": features(x=[[1]] * 300),
    "one name for all": features(id=["r0"] * 300),
    "one column": features("n_features=150", "missing=[left]"),
    "more features than rows": features(n=10),
    "columns that are empty": features(n=N, **EMPTY),
    "rare categories": features("rare_below=3", "max_levels=8", n=60, x=RARE),
    "columns of two files": command("check features @", two_files),
    "too few sweeps": features("n_features=3", "max_iter=60"),
    "one sweep more": features("n_features=3", "max_iter=61"),
    "an infinite code": features(x=[np.inf, 1.0] * 150),
    "no order": features("ordered=[a]"),
    "no column to be ordered": features("ordered=[aa]"),
    "a huge code": features(x=[2.0**60, 1.0] * 150),
}
