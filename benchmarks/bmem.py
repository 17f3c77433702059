"""Mixtures of logistic experts beside logistic regression and boosted trees, in one run.

    python benchmarks/bmem.py --data ../shared/data/experts [--set breast_cancer|a9a|correlated]
                              [--rows 300 1000 ...] [--experts 1 5 ...] [--diversity] [--sweep]

``--set`` compares log-loss, accuracy, angles and CPU seconds; ``--diversity`` shows paired
differences over subsets of the rows with the angular prior and Omega; ``--sweep`` measures one
sweep of coordinate ascent beside the rank-k updates that any such sweep on dense rows needs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.linalg.blas import dsyrk
from scipy.special import expit, softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from reproduce.bmem_bouchard import BouchardExperts
from vbmodels.core.cavi import cavi, start
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.in_process import InProcess
from vbmodels.experts.batch import Rows
from vbmodels.experts.diversity import angles
from vbmodels.experts.published.cavi import BoundedExperts
from vbmodels.experts.published.metropolis import SampledExperts
from vbmodels.experts.published.walk import WalkPrior

SPARSE = {"a9a"}


def tell(*cells: object) -> None:
    """Write one row of a table."""
    sys.stdout.write(" | ".join(f"{c:.4f}" if isinstance(c, float) else str(c) for c in cells))
    sys.stdout.write("\n")
    sys.stdout.flush()


def correlated() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return 20,000 and 10,000 rows of three experts over 30 columns that share 5 factors."""
    rng = np.random.default_rng(0)
    factors, noise = rng.standard_normal((30_000, 5)), rng.standard_normal((30_000, 30))
    x = factors @ rng.standard_normal((5, 30)) / np.sqrt(5.0) + 0.5 * noise
    full = np.column_stack([x, np.ones(len(x))])
    gates, experts = rng.standard_normal((2, 3, 31)) * (rng.random((2, 3, 31)) < 0.3)
    share, right = softmax(full @ gates.T, axis=1), expit(1.5 * full @ experts.T)
    y = (rng.random(len(x)) < np.sum(share * right, axis=1)).astype(int)
    return [(x[:20_000], y[:20_000]), (x[20_000:], y[20_000:])]


def read(folder: Path, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (x, y) of the training and the test part."""
    if name == "correlated":
        return correlated()
    parts = []
    for part in ("train", "test"):
        table = pq.read_table(folder / f"{name}_{part}.parquet")
        columns = [c for c in table.column_names if c not in ("id", "label")]
        x = np.column_stack([table[c].to_numpy() for c in columns]).astype(float)
        parts.append((x, table["label"].to_numpy()))
    return parts


def losses(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the log-loss of every row."""
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return -np.where(y == 1, np.log(p), np.log1p(-p))


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


def compare(folder: Path, name: str, counts: Sequence[int], rows: int | None, sweeps: int) -> None:
    """Print one row a model; coordinate ascent stops after ``sweeps``."""
    train, test, truth = batches(name, read(folder, name), rows, 0)
    tell("model", "accuracy", "log-loss", "angle", "used", "passes", "CPU s")
    for peer, p, seconds in peers(train, test):
        tell(peer, float(np.mean((p > 0.5) == truth)), float(losses(truth, p).mean()), "", "", "",
             seconds)  # fmt: skip
    for k in counts:
        for label, model in models(k, train.size):
            clock = time.process_time()
            limit = sweeps if isinstance(model, BoundedExperts) else 10_000
            with warnings.catch_warnings():
                # That it stopped there stands in the table.
                warnings.simplefilter("ignore", NotConverged)
                done = fit(model, [train], seed=0, tol=1e-5, max_iter=limit)
            seconds = time.process_time() - clock
            posterior = model.posterior(done.q)
            found = posterior.predict(test)
            p = found.probability
            used = int(np.sum(np.bincount(np.argmax(found.responsibility, 0)) > 0))
            beta = posterior.components[0].mean[1, :, :-1]
            angle = float(np.degrees(angles(beta).mean())) if len(beta) > 1 else float("nan")
            tell(label, float(np.mean((p > 0.5) == truth)), float(losses(truth, p).mean()), angle,
                 used, done.iterations, seconds)  # fmt: skip


def sweep(folder: Path) -> None:
    """Print CPU seconds of a sweep on a9a's rows, each in turn with 20 dsyrk; medians of 5."""
    (x, y), _ = read(folder, "a9a")
    key = np.arange(len(y))
    tell("rows", "bound", "CPU s a sweep", "20 dsyrk", "ratio")
    full = np.asfortranarray(np.column_stack([x, np.ones(len(x))]))
    for sparse in (True, False):
        batch = Rows.of(x, 2.0 * y - 1.0, key, sparse=sparse)
        for bound, form in BOUNDS.items():
            model = form(10)
            reduce = InProcess(model, [batch])
            q = model.init(reduce.observe(), np.random.default_rng(0))
            steps = cavi(model, reduce, start(model, q, reduce))
            for _ in range(3):
                next(steps)
            pairs = np.array([(_timed(partial(next, steps)), _floor(full)) for _ in range(5)])
            seconds, floor = np.median(pairs, axis=0)
            ratio = float(np.median(pairs[:, 0] / pairs[:, 1]))
            tell("sparse" if sparse else "dense", bound, seconds, floor, ratio)


def _floor(full: np.ndarray) -> float:
    """CPU seconds of the rank-k updates of ten gates and ten experts."""
    return _timed(lambda: [dsyrk(1.0, full, trans=1) for _ in range(20)])


def _timed(action: Callable[[], Any]) -> float:
    clock = time.process_time()
    action()
    return time.process_time() - clock


def main() -> None:
    """Run what is asked for."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--data", type=Path, default=Path("../shared/data/experts"))
    asked.add_argument("--set", dest="name", default="breast_cancer")
    asked.add_argument("--rows", type=int, nargs="*", default=[])
    asked.add_argument("--experts", type=int, nargs="*", default=[1, 5])
    asked.add_argument("--sweeps", type=int, default=300)
    asked.add_argument("--sweep", action="store_true")
    given = asked.parse_args()
    with threadpool_limits(1):
        if given.sweep:
            sweep(given.data)
        else:
            for rows in given.rows or [None]:
                compare(given.data, given.name, given.experts, rows, given.sweeps)


if __name__ == "__main__":
    main()
