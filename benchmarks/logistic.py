"""Bayesian logistic regression beside scikit-learn and Spark: CPU to the same held-out density.

    python -m benchmarks.logistic [--rows 200000] [--columns 20] [--seeds 3]

The example package `vbflows_logistic` and `LogisticRegression` by lbfgs, newton-cholesky and sag
and Spark MLlib's, each with the strength that the fitted prior precision of ours comes to, on
simulated rows; a tenth is held out. Values are log densities a held-out label. They give a point,
ours a posterior.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Rival
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "vbflows_logistic"))

from vbflows_logistic.model import Global, LogisticRegression, Rows  # noqa: E402
from vbflows_logistic.predict import probability  # noqa: E402
from vbflows_logistic.simulate import simulate  # noqa: E402

from benchmarks import beside, spark  # noqa: E402
from vbmodels.core.cavi import cavi  # noqa: E402
from vbmodels.core.fit import fit  # noqa: E402
from vbmodels.core.memoised import Memoised  # noqa: E402

ROUNDS = (1, 2, 3, 4, 6, 8, 12, 20)
SOLVERS = ("lbfgs", "newton-cholesky", "sag")


def density(held: Rows) -> Callable[[Global], float]:
    """Return what tells the log density a held-out label by a posterior."""

    def value(q: Global) -> float:
        p = probability(q, held.x)[0]
        return float(np.log(np.where(held.label == 1, p, 1.0 - p)).mean())

    return value


def point(held: Rows) -> Callable[[Rival], float]:
    """Return what tells the log density a held-out label by scikit-learn's fit."""

    def value(fitted: Rival) -> float:
        logit = fitted.decision_function(held.x[:, 1:])
        return float(log_expit(np.where(held.label == 1, logit, -logit)).mean())

    return value


def rival(rows: Rows, solver: str, strength: float) -> Callable[[int], Rival]:
    """Return what fits scikit-learn's model for at most some iterations."""
    x = np.ascontiguousarray(rows.x[:, 1:])

    def fits(iterations: int) -> Rival:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = Rival(C=strength, solver=solver, max_iter=iterations, tol=1e-8, random_state=0)
            return model.fit(x, rows.label)

    return fits


def spark_rival(session: Any, folder: str, rows: Rows, strength: float) -> Callable[[int], Any]:
    """Return what fits Spark's model, with the same penalty, for at most some iterations."""
    from pyspark.ml.classification import LogisticRegression as Theirs

    frame = spark.cached(session, folder, "rows", rows.x[:, 1:], rows.label)

    def fits(iterations: int) -> Any:
        return Theirs(
            maxIter=iterations, regParam=1.0 / (strength * len(rows.label)), elasticNetParam=0.0,
            tol=1e-8, standardization=False,
        ).fit(frame)  # fmt: skip

    return fits


def spark_point(held: Rows) -> Callable[[Any], float]:
    """Return what tells the log density a held-out label by Spark's fit."""

    def value(fitted: Any) -> float:
        logit = held.x[:, 1:] @ fitted.coefficients.toArray() + fitted.intercept
        return float(log_expit(np.where(held.label == 1, logit, -logit)).mean())

    return value


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(arguments)
    curves: dict[str, list[beside.Curve]] = {}
    with threadpool_limits(1):
        for seed in range(given.seeds):
            rng = np.random.default_rng(seed)
            w = np.concatenate([[-1.0], 0.5 * rng.standard_normal(given.columns)])
            train, held = simulate(rng, given.rows, w), simulate(rng, given.rows // 10, w)
            cuts = np.array_split(np.arange(given.rows), 8)
            batches = [Rows(train.x[part], train.label[part]) for part in cuts]
            model = LogisticRegression()
            strength = 1.0 / float(fit(model, batches, tol=1e-6).q.a.mean)
            for name, loop in (
                ("vbflows_logistic, memoised", Memoised()),
                ("vbflows_logistic, squarem", None),
                ("vbflows_logistic, cavi", cavi),
            ):
                curve = beside.ours(model, batches, density(held), seed=0, sweeps=20, loop=loop)
                curves.setdefault(name, []).append(curve)
            for solver in SOLVERS:
                curve = beside.anew(rival(train, solver, strength), ROUNDS, point(held))
                curves.setdefault(f"scikit-learn, {solver}", []).append(curve)
            if beside.absent("pyspark"):
                continue
            with tempfile.TemporaryDirectory() as folder, spark.session(folder) as session:
                fits = spark_rival(session, folder, train, strength)
                fits(1)  # what the virtual machine compiles at first
                curve = beside.anew(fits, ROUNDS, spark_point(held), spark.cpu)
                curves.setdefault("Spark MLlib", []).append(curve)
    print(f"{given.rows:,} rows, {given.columns} columns, medians of {given.seeds} seeds")
    print(beside.compared(curves, within=1e-4, unit="nats a held-out label"))


if __name__ == "__main__":
    main()
