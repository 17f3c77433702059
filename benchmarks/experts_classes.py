"""Experts on labels of several classes beside multinomial logistic regression and boosted trees.

    python -m benchmarks.experts_classes [--set iris wine curved] [--seeds 0 1 2]

iris and wine are scikit-learn's, with 30 % of the rows held out; curved is simulated (three
classes, one of them on both sides of the others), 1000 rows to fit and 1000 to judge by. Cells are
test log-loss and CPU seconds on one thread. Logistic regression has its strength by
cross-validation; "alone" is each class against the rest by logistic regression, shared in
proportion as the experts are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.experts_rows import HEAD, print_rows
from vbmodels.estimators import MixtureOfExperts

REAL = {"iris": load_iris, "wine": load_wine}


def curved(seed: int) -> tuple[np.ndarray, ...]:
    """Return x of the rows to fit and to judge by, then their classes."""
    rng = np.random.default_rng([seed, 3])
    x = rng.standard_normal((2000, 4))
    odds = np.column_stack([2.0 * x[:, 0], -2.0 * x[:, 0], 2.0 * x[:, 1] ** 2 - 2.0])
    chance = np.exp(odds) / np.exp(odds).sum(1, keepdims=True)
    y = (rng.random((2000, 1)) > np.cumsum(chance, axis=1)).sum(1)
    return x[:1000], x[1000:], y[:1000], y[1000:]


def split(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Return x of the rows to fit and to judge by, then their classes."""
    if name == "curved":
        return curved(seed)
    x, y = REAL[name](return_X_y=True)
    found = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
    return tuple(found)


def logistic() -> object:
    """Return a logistic regression with its strength by cross-validation."""
    return LogisticRegressionCV(
        scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,), use_legacy_attributes=False
    )


def forms() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is compared, by name."""
    yield "multinomial", lambda: make_pipeline(StandardScaler(), logistic())
    yield "alone", lambda: make_pipeline(StandardScaler(), OneVsRestClassifier(logistic()))
    yield "trees", lambda: HistGradientBoostingClassifier(random_state=0)
    yield "additive", lambda: MixtureOfExperts(1, random_state=0)
    yield "default", lambda: MixtureOfExperts(random_state=0)


def main() -> None:
    """Print a row for every table, split and form."""
    names = (*REAL, "curved")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    sys.stdout.write(HEAD)
    with threadpool_limits(1):
        for name in given.set:
            for seed in given.seeds:
                x, new, y, truth = split(name, seed)
                print_rows(name, seed, forms(), (x, y), (new, truth))


if __name__ == "__main__":
    main()
