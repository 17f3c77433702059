"""Experts on tables as they come, with logistic regression on one-hot columns and boosted trees.

    python -m benchmarks.experts_mixed --data ../shared/data/experts [--seeds 0 1 2]

german has its categories back in place of columns of 0 and 1; "gaps" has a tenth of its cells
taken out. pima has the zeros that stand for missing values of five columns as gaps. A quarter of
the rows is held out; cells are test log loss and CPU seconds on one thread of: the default on the
table as it comes, the default on columns made by hand (one-hot, gaps at the mean with columns
that say where), logistic regression with its strength by cross-validation on the latter, and
scikit-learn's boosted trees, which take categories and gaps by themselves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.experts_rows import HEAD, print_rows
from vbmodels.estimators import MixtureOfExperts

GROUPS = (
    "checking_status", "credit_history", "purpose", "savings_status", "employment",
    "personal_status", "other_parties", "property_magnitude", "other_payment_plans", "housing",
    "job", "own_telephone", "foreign_worker",
)  # fmt: skip
ZERO_IS_MISSING = ["1_1", "2_2", "3_3", "4_4", "5_5"]


def german(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the table with its categories, and labels."""
    table = pd.read_parquet(folder / "german.parquet")
    found = {}
    names = {c: c.partition("_")[2] for c in table.columns if c not in ("id", "label")}
    for group in GROUPS:
        own = [c for c, name in names.items() if name.startswith(f"{group}_")]
        if not (table[own].sum(axis=1) == 1).all():
            raise ValueError(f"expected one level a row in {group}")
        found[group] = pd.Categorical(table[own].idxmax(axis=1))
        names = {c: name for c, name in names.items() if c not in own}
    return pd.DataFrame({**{c: table[c] for c in names}, **found}), table["label"].to_numpy()


def pima(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the table with its zeros that stand for missing values as gaps, and labels."""
    table = pd.read_parquet(folder / "pima.parquet")
    x = table.drop(columns=["id", "label"])
    x[ZERO_IS_MISSING] = x[ZERO_IS_MISSING].where(x[ZERO_IS_MISSING] != 0.0)
    return x, table["label"].to_numpy()


def tables(folder: Path) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Yield name, columns and labels of every table."""
    x, y = german(folder)
    yield "german", x, y
    gone = np.random.default_rng(0).random(x.shape) < 0.1
    yield "german with gaps", x.mask(pd.DataFrame(gone, columns=x.columns)), y
    yield "pima with gaps", *pima(folder)


def by_hand() -> object:
    """Return what makes columns of numbers, as one would by hand."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
        sparse_threshold=0.0,
    )


def forms() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is compared, by name."""
    yield "as it comes", lambda: MixtureOfExperts(random_state=0)
    yield "by hand", lambda: make_pipeline(by_hand(), MixtureOfExperts(random_state=0))
    yield (
        "logistic",
        lambda: make_pipeline(
            by_hand(),
            LogisticRegressionCV(
                scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,), use_legacy_attributes=False
            ),
        ),
    )
    yield (
        "trees",
        lambda: HistGradientBoostingClassifier(random_state=0, categorical_features="from_dtype"),
    )


def main() -> None:
    """Print a row for every table, split and form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    sys.stdout.write(HEAD)
    with threadpool_limits(1):
        for name, x, y in tables(given.data):
            for seed in given.seeds:
                seen, new, t, truth = train_test_split(
                    x, y, test_size=0.25, random_state=seed, stratify=y
                )
                print_rows(name, seed, forms(), (seen, t), (new, truth))


if __name__ == "__main__":
    main()
