"""BMEM, table 1: data, models and rivals."""

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
from reproduce.page import NOT_SAID, Page, Table, number
from vbmodels.core.fit import fit
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior
from vbmodels.experts.bmem.model import BoundedExperts
from vbmodels.experts.rows import Rows

# Data, models and rivals of the BMEM tables.

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


# Table 1 of BMEM: accuracy on Adult.

# The table is in the main paper, of which the text version holds the supplement only; its range
# for the Bayesian mixtures was noted when the models were built.
RANGE = "86 to 89 %"
SWEEPS = 40
SHOWN = {
    "cavi gaussian bohning": "Gaussian prior, coordinate ascent",
    "cavi mabn2 bohning": "mutual angular prior II, coordinate ascent",
    "cavi Omega 10 bohning": "posterior regularisation 10, coordinate ascent",
}


def forms(k: int, rows: int) -> dict[str, Any]:
    """Return the paper's models with K experts."""
    found: dict[str, Any] = {}
    for label, model in models(k, rows):
        kind = label.removeprefix(f"K={k} ")
        if kind in SHOWN:
            found[SHOWN[kind]] = model
    return found


def cells(y: np.ndarray, p: np.ndarray, seconds: float) -> tuple[str, ...]:
    """Return accuracy and log loss with standard errors over test rows, and seconds."""
    right, loss = (p > 0.5) == y, losses(y, p)
    root = np.sqrt(len(y))
    return (
        f"{100 * right.mean():.2f} ({100 * right.std() / root:.2f})",
        f"{number(loss.mean(), 4)} ({number(loss.std() / root, 4)})",
        f"{seconds:.1f}",
    )


def table_1(data: Path, quick: bool) -> Page:
    """Fit Adult (a9a, its standard split) by our forms and by peers."""
    train, test, truth = batches("a9a", read(data / "experts", "a9a"), 400 if quick else None, 0)
    rows: list[tuple[str, ...]] = []
    best = 0.0
    for peer, p, seconds in peers(train, test):
        rows.append((peer, *[NOT_SAID] * 4, *cells(truth, p, seconds)))
        best = max(best, float(np.mean((p > 0.5) == truth)))
    for k in (2,) if quick else (5, 10):
        for label, model in forms(k, train.size).items():
            limit = (5 if quick else SWEEPS) if isinstance(model, BoundedExperts) else 10_000
            begin = time.process_time()
            posterior = model.posterior(fit(model, [train], tol=1e-5, max_iter=limit).q)
            spent = time.process_time() - begin
            p = posterior.predict(test).probability
            rows.append((f"K = {k}, {label}", RANGE, *cells(truth, p, spent), *[NOT_SAID] * 3))
            best = max(best, float(np.mean((p > 0.5) == truth)))
    return Page(
        title="BMEM, table 1: Adult",
        source=(
            "Xie, Zhu and Xing (2016), table 1 of the main paper; the text version holds its "
            "supplement only, so all that is known here is the range noted when the models were "
            f"built, {RANGE}, over numbers of experts and forms"
        ),
        says=(
            f"The published accuracies of {RANGE} are not reached by anything on the standard "
            f"split: the best here is {100 * best:.2f} %, and logistic regression and boosted "
            "trees lie in the same place. So they are no target."
        ),
        tables=(
            Table(
                f"{train.size:,} rows fitted, {test.size:,} tested. Accuracy in %, log loss, CPU "
                "seconds; in brackets standard errors over the test rows.",
                ("model", "published accuracy", "ours accuracy", "ours log loss", "ours seconds",
                 "rival accuracy", "rival log loss", "rival seconds"),
                tuple(rows),
            ),
        ),
        differences=(
            "Data: the published split or preprocessing is not known; on the standard one (a9a, "
            "123 binary features) no peer measured here reaches the range; logistic regression "
            "and boosted trees have .8495 and .8517 in our notes.",
            "Errata: the supplement's bound on the prior's normaliser is none for 18 columns or "
            "more, and its update of the experts drops the labels; ours are the corrected ones.",
            f"Convergence: coordinate ascent is stopped after {SWEEPS} sweeps.",
        ),
        seeds="seed 0 of the starts; one fit each.",
    )  # fmt: skip
