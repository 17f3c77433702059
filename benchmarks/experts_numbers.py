"""Numbers as targets on real tables, with boosted trees in the same run.

    python -m benchmarks.new_sets NEW
    python -m benchmarks.experts_numbers --data NEW/numbers [--set boston ...] [--seeds 0 1 2]
                                         [--forms additive default ...]

Of a quarter of the rows: RMSE, mean log density, share within the 95 % intervals; and CPU seconds
of fit and prediction on one thread. Forms are the default, the default without the Gaussian
process, scikit-learn's boosted trees, and LightGBM where it is installed; trees have no intervals.
The last lines are the default's RMSE over that without the process, for each table and in the mean.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from vbmodels.estimators import AdditiveRegressor

NAMES = (
    "boston", "diabetes", "concrete", "auto", "college", "sacramento", "wage", "diamonds",
    "houseprices", "hitters", "car_prices",
)  # fmt: skip


def lightgbm() -> Any:
    """Return LightGBM with its defaults."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(verbose=-1, n_jobs=1, random_state=0)


FORMS: dict[str, Callable[[], Any]] = {
    "additive": lambda: AdditiveRegressor(gaussian_process=False, random_state=0),
    "default": lambda: AdditiveRegressor(random_state=0),
    "trees": lambda: HistGradientBoostingRegressor(
        random_state=0, categorical_features="from_dtype"
    ),
}
if find_spec("lightgbm"):
    FORMS["LightGBM"] = lightgbm


def measured(form: str, x: pd.DataFrame, y: np.ndarray, new: pd.DataFrame, t: np.ndarray) -> Any:
    """Return RMSE, log density, coverage and CPU seconds of a form."""
    clock, density, inside = time.process_time(), np.nan, np.nan
    model = FORMS[form]().fit(x, y)
    if form in ("additive", "default"):
        mean, sd = model.predict(new, return_std=True)
        density = float(norm.logpdf(t, mean, sd).mean())
        inside = float(np.mean(np.abs(t - mean) < 1.959964 * sd))
    else:
        mean = model.predict(new)
    seconds = time.process_time() - clock
    return float(np.sqrt(np.mean((t - mean) ** 2))), density, inside, seconds


def main() -> None:
    """Print a row for every table, split and form, and what the process changes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", nargs="+", default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    given = parser.parse_args()
    print("table | seed | form | RMSE | log density | within 95 % | CPU s")
    ratios: dict[str, float] = {}
    with threadpool_limits(1):
        for name in given.set:
            x = pd.read_parquet(given.data / f"{name}.parquet")
            y = x.pop("label").to_numpy(float)
            found: dict[str, list[float]] = {form: [] for form in given.forms}
            for seed in given.seeds:
                seen, new, own, t = train_test_split(x, y, test_size=0.25, random_state=seed)
                for form in given.forms:
                    rmse, density, inside, seconds = measured(form, seen, own, new, t)
                    found[form].append(rmse)
                    row = f"{rmse:.5g} | {density:.4f} | {inside:.3f} | {seconds:.1f}"
                    print(f"{name} | {seed} | {form} | {row}", flush=True)
            if {"additive", "default"} <= {*found}:
                ratio = np.divide(found["default"], found["additive"])
                ratios[name] = float(ratio.mean())
    for name, ratio in ratios.items():
        print(f"{name}: {100.0 * (ratio - 1.0):+.2f} %")
    if ratios:
        print(f"mean: {100.0 * (np.mean([*ratios.values()]) - 1.0):+.2f} %")


if __name__ == "__main__":
    main()
