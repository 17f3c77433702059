"""Experts on real tables with the models that their users have at hand, in one run.

    python -m benchmarks.experts tables --data ../shared/data/experts [--set spambase pima ...]
                                        [--seeds 0 1 2] [--forms logistic default ...]
    python -m benchmarks.new_sets NEW
    python -m benchmarks.experts numbers --data NEW/numbers [the same]

A quarter of the rows is scored (of a9a and breast cancer: the part they come in); CPU seconds are
those of fit and prediction on one thread.

tables   Log loss of labels. german_categories has its categories back in place of columns of 0 and
         1, german_gaps a tenth of its cells taken out besides, and pima_gaps the zeros that stand
         for missing values of five columns as gaps. friedman is drawn, msrcv2_0 are instances of
         bags. Forms are the default on a table as it comes, its additive part, and the default on
         columns made by hand (one-hot, gaps at the mean with columns that say where); logistic
         regression on the latter with its strength by cross-validation; scikit-learn's boosted
         trees, and the same in slower steps on three tenths of the columns; explainable boosting
         machines with three bags, where interpret-core is installed.
numbers  RMSE, mean log density, and the share within the 95 % intervals, which trees have not.
         Forms are the default, the default without the Gaussian process, scikit-learn's boosted
         trees, and LightGBM where it is installed. The last lines are the default's RMSE over that
         without the process, for each table and in the mean.

Any other name of a set is a file of the folder, with `label` and columns as they come.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from vbmodels.estimators import AdditiveRegressor, MixtureOfExperts

SETS = {
    "tables": ("pima", "german", "breast_cancer", "spambase", "a9a"),
    "numbers": (
        "boston", "diabetes", "concrete", "auto", "college", "sacramento", "wage", "diamonds",
        "houseprices", "hitters", "car_prices",
    ),
}  # fmt: skip
PARTED = ("a9a", "breast_cancer")
GROUPS = (
    "checking_status", "credit_history", "purpose", "savings_status", "employment",
    "personal_status", "other_parties", "property_magnitude", "other_payment_plans", "housing",
    "job", "own_telephone", "foreign_worker",
)  # fmt: skip
ZERO_IS_MISSING = ["1_1", "2_2", "3_3", "4_4", "5_5"]
Table = np.ndarray | pd.DataFrame


# The sets.


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
        found[group] = pd.Categorical(table[own].idxmax(axis=1))
        names = {c: name for c, name in names.items() if c not in own}
    return pd.DataFrame({**{c: table[c] for c in names}, **found}), table["label"].to_numpy()


def friedman() -> tuple[np.ndarray, np.ndarray]:
    """Draw labels by Friedman's curve."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(4000, 20))
    f = 10.0 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20.0 * (x[:, 2] - 0.5) ** 2
    f += 10.0 * x[:, 3] + 5.0 * x[:, 4] - 14.4
    return x, (rng.uniform(size=4000) < expit(0.8 * f)).astype(int)


def loaded(folder: Path, name: str) -> tuple[Table, np.ndarray]:
    """Return x and y of a table that comes in one part."""
    if name == "friedman":
        return friedman()
    if name == "msrcv2_0":
        bags = pd.read_parquet(folder.parent / "bags/msrcv2_0.parquet")
        return np.stack(bags["features"]).astype(float), bags["instance_label"].to_numpy(int)
    if name.startswith("german_"):
        x, y = german(folder)
        if name == "german_gaps":
            gone = np.random.default_rng(0).random(x.shape) < 0.1
            x = x.mask(pd.DataFrame(gone, columns=x.columns))
        return x, y
    if name == "pima_gaps":
        table = pd.read_parquet(folder / "pima.parquet")
        x = table.drop(columns=["id", "label"])
        x[ZERO_IS_MISSING] = x[ZERO_IS_MISSING].where(x[ZERO_IS_MISSING] != 0.0)
        return x, table["label"].to_numpy()
    return columns(folder / f"{name}.parquet")


def split(folder: Path, name: str, seed: int) -> tuple[Any, ...]:
    """Return x and y of the rows to fit, then of the rows to score, of a table with labels."""
    if name in PARTED:
        parts = (columns(folder / f"{name}_{part}.parquet") for part in ("train", "test"))
        return tuple(each for part in parts for each in part)
    x, y = loaded(folder, name)
    seen, new, t, truth = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return seen, t, new, truth


def split_numbers(folder: Path, name: str, seed: int) -> tuple[Any, ...]:
    """Return the same of a table whose label is a number."""
    x = pd.read_parquet(folder / f"{name}.parquet")
    y = x.pop("label").to_numpy(float)
    seen, new, t, truth = train_test_split(x, y, test_size=0.25, random_state=seed)
    return seen, t, new, truth


# The forms.


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


def logistic(x: Table) -> Any:
    """Return logistic regression, its strength by cross-validation."""
    model = LogisticRegressionCV(
        scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,), use_legacy_attributes=False
    )
    return by_hand(model) if isinstance(x, pd.DataFrame) else make_pipeline(StandardScaler(), model)


def boosting_machine(x: Table) -> Any:
    """Return an explainable boosting machine in one process."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(outer_bags=3, n_jobs=1, random_state=0)


def lightgbm(x: Table) -> Any:
    """Return LightGBM with its defaults."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(verbose=-1, n_jobs=1, random_state=0)


TREES = partial(HistGradientBoostingClassifier, random_state=0, categorical_features="from_dtype")
FORMS: dict[str, dict[str, Any]] = {
    "tables": {
        "logistic": logistic,
        "trees": lambda x: TREES(),
        "additive": lambda x: MixtureOfExperts(1, random_state=0),
        "default": lambda x: MixtureOfExperts(random_state=0),
        "by hand": lambda x: by_hand(MixtureOfExperts(random_state=0)),
        "careful trees": lambda x: TREES(learning_rate=0.05, max_features=0.3),
    },
    "numbers": {
        "additive": lambda x: AdditiveRegressor(gaussian_process=False, random_state=0),
        "default": lambda x: AdditiveRegressor(random_state=0),
        "trees": lambda x: HistGradientBoostingRegressor(
            random_state=0, categorical_features="from_dtype"
        ),
    },
}
if find_spec("interpret"):
    FORMS["tables"]["EBM"] = boosting_machine
if find_spec("lightgbm"):
    FORMS["numbers"]["LightGBM"] = lightgbm
LEFT_OUT = ("by hand", "careful trees", "EBM")
"""Forms that run if they are named."""


def of_labels(model: Any, new: Table, truth: np.ndarray) -> list[float]:
    """Return the log loss."""
    return [log_loss(truth, model.predict_proba(new))]


def of_numbers(model: Any, new: Table, truth: np.ndarray) -> list[float]:
    """Return RMSE, log density and coverage."""
    density, inside = np.nan, np.nan
    if isinstance(model, AdditiveRegressor):
        mean, sd = model.predict(new, return_std=True)
        density = norm.logpdf(truth, mean, sd).mean()
        inside = np.mean(np.abs(truth - mean) < 1.959964 * sd)
    else:
        mean = model.predict(new)
    return [root_mean_squared_error(truth, mean), density, inside]


FORMATS = {
    "tables": {"log loss": ".4f"},
    "numbers": {"RMSE": ".5g", "log density": ".4f", "within 95 %": ".3f"},
}


def main() -> None:
    """Print a row for every table, split and form, and of numbers what the process changes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--forms", nargs="+", choices=FORMS["tables"] | FORMS["numbers"])
    given = parser.parse_args()
    made, formats = FORMS[given.kind], FORMATS[given.kind]
    forms = given.forms or [form for form in made if form not in LEFT_OUT]
    measure, part = of_labels, split
    if given.kind == "numbers":
        measure, part = of_numbers, split_numbers
    print(f"table | seed | form | {' | '.join(formats)} | CPU s")
    ratios = {}
    with threadpool_limits(1):
        for name in given.set or SETS[given.kind]:
            first: dict[str, list[float]] = {form: [] for form in forms}
            for seed in given.seeds[:1] if name in PARTED else given.seeds:
                x, y, new, truth = part(given.data, name, seed)
                for form in forms:
                    if form == "by hand" and not isinstance(x, pd.DataFrame):
                        continue
                    clock = time.process_time()
                    figures = measure(made[form](x).fit(x, y), new, truth)
                    seconds = f"{time.process_time() - clock:.1f}"
                    shown = map(format, figures, formats.values())
                    print(" | ".join([name, str(seed), form, *shown, seconds]), flush=True)
                    first[form].append(figures[0])
            if given.kind == "numbers" and {"additive", "default"} <= {*forms}:
                ratios[name] = np.divide(first["default"], first["additive"]).mean()
    for name, ratio in ratios.items():
        print(f"{name}: {100.0 * (ratio - 1.0):+.2f} %")
    if ratios:
        print(f"mean: {100.0 * (np.mean([*ratios.values()]) - 1.0):+.2f} %")


if __name__ == "__main__":
    main()
