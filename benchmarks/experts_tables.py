"""Experts on real tables with logistic regression and boosted trees, in one run.

    python -m benchmarks.experts_tables --data ../shared/data/experts [--set spambase pima ...]
                                        [--seeds 0 1 2] [--forms logistic default ...]

Test log loss on a quarter of the rows (a9a and breast cancer: on the parts they come in) and CPU
seconds on one thread. german_categories has its categories back in place of columns of 0 and 1,
german_gaps a tenth of its cells taken out besides, and pima_gaps the zeros that stand for missing
values of five columns as gaps. Any other name is a file of the folder, with `label` and columns as
they come. Forms are the default on a table as it comes, its additive part, and the default on
columns made by hand (one-hot, gaps at the mean with columns that say where); logistic regression on
the latter with its strength by cross-validation; scikit-learn's boosted trees, and the same in
slower steps on three tenths of the columns; explainable boosting machines with three bags, where
interpret-core is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.special import expit
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from vbmodels.estimators import MixtureOfExperts

PARTED = ("a9a", "breast_cancer")
NAMES = ("pima", "german", "breast_cancer", "spambase", "a9a")
GROUPS = (
    "checking_status", "credit_history", "purpose", "savings_status", "employment",
    "personal_status", "other_parties", "property_magnitude", "other_payment_plans", "housing",
    "job", "own_telephone", "foreign_worker",
)  # fmt: skip
ZERO_IS_MISSING = ["1_1", "2_2", "3_3", "4_4", "5_5"]
OTHERS = (
    "birdsong_11", "birdsong_1", "msrcv2_0", "corel_african", "birds_wiwr", "krvskp", "friedman"
)  # fmt: skip
"""Tables that were collected for something else: rows of bags, chess, and Friedman's curve."""
Table = np.ndarray | pd.DataFrame


def columns(path: Path) -> tuple[Table, np.ndarray]:
    """Return x and y of a file; x is a matrix where all columns are numbers without gaps."""
    table = pd.read_parquet(path)
    x, y = table.drop(columns=["id", "label"], errors="ignore"), table["label"].to_numpy()
    plain = len(x.select_dtypes("number").columns) == x.shape[1] and not x.isna().any(axis=None)
    return x.to_numpy(float) if plain else x, y.astype(int)


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


def loaded(folder: Path, name: str) -> tuple[Table, np.ndarray]:
    """Return x and y of a table that comes in one part."""
    if name in OTHERS:
        return other(folder, name)
    if name.startswith("german_"):
        x, y = german(folder)
        gone = np.random.default_rng(0).random(x.shape) < 0.1 * name.endswith("gaps")
        return x.mask(pd.DataFrame(gone, columns=x.columns)), y
    if name == "pima_gaps":
        table = pd.read_parquet(folder / "pima.parquet")
        x = table.drop(columns=["id", "label"])
        x[ZERO_IS_MISSING] = x[ZERO_IS_MISSING].where(x[ZERO_IS_MISSING] != 0.0)
        return x, table["label"].to_numpy()
    return columns(folder / f"{name}.parquet")


def split(folder: Path, name: str, seed: int) -> tuple[Table, ...]:
    """Return x and y of the rows to fit, then of the rows to score."""
    if name in PARTED:
        parts = (columns(folder / f"{name}_{part}.parquet") for part in ("train", "test"))
        return tuple(each for part in parts for each in part)
    x, y = loaded(folder, name)
    seen, new, t, truth = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return seen, t, new, truth


def by_hand(model: Any) -> Any:
    """Return a model of columns of numbers, made of a table as one would by hand."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore")
    made = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_include="category")),
        sparse_threshold=0.0,
    )
    return make_pipeline(made, model)


def logistic() -> LogisticRegressionCV:
    """Return logistic regression, its strength by cross-validation."""
    return LogisticRegressionCV(
        scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,), use_legacy_attributes=False
    )


def boosting_machine() -> Any:
    """Return an explainable boosting machine in one process."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(outer_bags=3, n_jobs=1, random_state=0)


TREES = partial(HistGradientBoostingClassifier, random_state=0, categorical_features="from_dtype")
FORMS: dict[str, Callable[[Table], Any]] = {
    "logistic": lambda x: (
        by_hand(logistic())
        if isinstance(x, pd.DataFrame)
        else make_pipeline(StandardScaler(), logistic())
    ),
    "trees": lambda x: TREES(),
    "careful trees": lambda x: TREES(learning_rate=0.05, max_features=0.3),
    "additive": lambda x: MixtureOfExperts(1, random_state=0),
    "by hand": lambda x: by_hand(MixtureOfExperts(random_state=0)),
    "default": lambda x: MixtureOfExperts(random_state=0),
}
if find_spec("interpret"):
    FORMS["EBM"] = lambda x: boosting_machine()


def main() -> None:
    """Print a row for every table, split and form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", nargs="+", default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--forms", nargs="+", choices=FORMS, default=("logistic", "trees", "additive", "default")
    )
    given = parser.parse_args()
    print("table | seed | form | log loss | CPU s")
    with threadpool_limits(1):
        for name in given.set:
            for seed in given.seeds[:1] if name in PARTED else given.seeds:
                x, y, new, truth = split(given.data, name, seed)
                for form in given.forms:
                    if form == "by hand" and not isinstance(x, pd.DataFrame):
                        continue
                    clock = time.process_time()
                    p = FORMS[form](x).fit(x, y).predict_proba(new)
                    seconds = time.process_time() - clock
                    loss = log_loss(truth, p)
                    print(f"{name} | {seed} | {form} | {loss:.4f} | {seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()
