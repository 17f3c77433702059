"""Data, models and rivals of the BMEM tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from reproduce.bmem_bouchard import BouchardExperts
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior
from vbmodels.experts.bmem.model import BoundedExperts
from vbmodels.experts.rows import Rows

SPARSE = {"a9a"}


def read(folder: Path, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (x, y) of the training and the test part."""
    parts = []
    for part in ("train", "test"):
        table = pq.read_table(folder / f"{name}_{part}.parquet")
        columns = [c for c in table.column_names if c not in ("id", "label")]
        x = np.column_stack([table[c].to_numpy() for c in columns]).astype(float)
        parts.append((x, table["label"].to_numpy()))
    return parts


def losses(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the log loss of every row."""
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return np.asarray(np.where(y == 1, -np.log(p), -np.log1p(-p)))


def batches(name: str, parts: Any, rows: int | None, seed: int) -> tuple[Rows, Rows, np.ndarray]:
    """Return training rows (a random subset), test rows and its labels."""
    (x, y), (new, truth) = parts
    if rows is not None and rows < len(y):
        chosen = np.random.default_rng(seed).permutation(len(y))[:rows]
        x, y = x[chosen], y[chosen]
    if name not in SPARSE:
        mean, sd = x.mean(0), np.maximum(x.std(0), 1e-12)
        x, new = (x - mean) / sd, (new - mean) / sd
    sparse = name in SPARSE
    one = Rows.of(x, 2.0 * y - 1.0, np.arange(len(y)), sparse=sparse)
    two = Rows.of(new, 2.0 * truth - 1.0, 10**7 + np.arange(len(truth)), sparse=sparse)
    return one, two, truth


def dense(batch: Rows) -> np.ndarray:
    """Return the columns without the intercept."""
    x = batch.dense if batch.dense is not None else batch._rows.toarray()
    return np.asarray(x)[:, :-1]


BOUNDS = {"bohning": BoundedExperts, "bouchard": BouchardExperts}


def peers(train: Rows, test: Rows) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield (name, probabilities, CPU seconds) of scikit-learn's models."""
    for name, model in (
        ("logistic regression", LogisticRegression(max_iter=2000)),
        ("boosted trees", HistGradientBoostingClassifier(random_state=0)),
    ):
        clock = time.process_time()
        model.fit(dense(train), train.t > 0)
        yield name, model.predict_proba(dense(test))[:, 1], time.process_time() - clock


def models(k: int, rows: int) -> Iterator[tuple[str, Any]]:
    """Yield the models with K experts; sampling only where it is quick."""
    for bound, form in BOUNDS.items() if k > 1 else [("bohning", BoundedExperts)]:
        yield f"K={k} cavi gaussian {bound}", form(k, "gaussian")
        yield f"K={k} cavi mabn2 {bound}", form(k, "mabn2")
        if k > 1:
            yield f"K={k} cavi Omega 10 {bound}", form(k, omega=10.0)
    if rows < 1000 and k <= 5:
        yield f"K={k} mh mabn1", SampledExperts(k, WalkPrior("mabn1"), learn=True)
