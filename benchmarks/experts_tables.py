"""Experts on real tables with logistic regression and boosted trees, in one run.

    python -m benchmarks.experts_tables --data ../shared/data/experts [--set spambase pima ...]
                                        [--seeds 0 1 2] [--ebm]

Test log loss on a quarter of the rows (a9a and breast cancer: on the parts they come in) and CPU
seconds on one thread of: scikit-learn's logistic regression with its strength by cross-validation,
its boosted trees, the additive part and the default; or of the default and of explainable boosting
machines with three bags, where interpret-core is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.experts_others import OTHERS, other
from benchmarks.experts_rows import HEAD, print_rows
from vbmodels.estimators import MixtureOfExperts

PARTED = ("a9a", "breast_cancer")
NAMES = ("pima", "german", "breast_cancer", "spambase", "a9a")


def columns(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of a file."""
    table = pq.read_table(path)
    named = [c for c in table.column_names if c not in ("id", "label")]
    x = np.column_stack([table[c].to_numpy() for c in named]).astype(float)
    return x, table["label"].to_numpy().astype(int)


def split(folder: Path, name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Return x and y of the rows to fit, then of the rows to score."""
    if name in PARTED:
        return (
            *columns(folder / f"{name}_train.parquet"),
            *columns(folder / f"{name}_test.parquet"),
        )
    x, y = other(folder, name) if name in OTHERS else columns(folder / f"{name}.parquet")
    seen, new, t, truth = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return seen, t, new, truth


def forms() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is compared, by name."""
    yield (
        "logistic",
        lambda: make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(
                scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,), use_legacy_attributes=False
            ),
        ),
    )
    yield "trees", lambda: HistGradientBoostingClassifier(random_state=0)
    yield "additive", lambda: MixtureOfExperts(1, random_state=0)
    yield "default", lambda: MixtureOfExperts(random_state=0)


def with_ebm() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the default, and explainable boosting machines in one process."""
    from interpret.glassbox import ExplainableBoostingClassifier

    yield "default", lambda: MixtureOfExperts(random_state=0)
    yield "EBM", lambda: ExplainableBoostingClassifier(outer_bags=3, n_jobs=1, random_state=0)


def main() -> None:
    """Print a row for every table, split and form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", nargs="+", choices=NAMES + OTHERS, default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ebm", action="store_true", help="the default and EBM alone")
    given = parser.parse_args()
    sys.stdout.write(HEAD)
    with threadpool_limits(1):
        for name in given.set:
            for seed in given.seeds[:1] if name in PARTED else given.seeds:
                x, y, new, truth = split(given.data, name, seed)
                compared = with_ebm() if given.ebm else forms()
                print_rows(name, seed, compared, (x, y), (new, truth))


if __name__ == "__main__":
    main()
