"""Held-out cells of real surveys: the IBP and its rivals, all in one run.

    python -m benchmarks.ibp_heldout npi40 youthdep26 mushroom23 krvskp tmas vote [--rows N]
                    [--data FOLDER] [--splits 3] [--only PARTS ...]

Any other name is a file of the folder. StepMix is a rival where it is installed. 10 % of the cells
are hidden; figures are mean log probabilities of their categories, one a split, then the mean over
splits and the CPU seconds of one thread for one split.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, row
from vbmodels.core.fit import fit
from vbmodels.features.forms import apply, make
from vbmodels.features.ibp.predict import missing_cells
from vbmodels.features.options import FeatureOptions
from vbmodels.features.rivals import by_bic
from vbmodels.features.rivals import latent_classes as one_fit
from vbmodels.features.table import FeatureBatch, feature_batch

Codes = NDArray[np.int64]
Table = NDArray[np.float64]
Method = Callable[[FeatureBatch, int], Table]
CLASSES = {"npi40": 12, "youthdep26": 6, "mushroom23": 40, "krvskp": 40, "tmas": 12, "vote": 6}
"""The number of latent classes that was chosen for a set; of others 12."""


def table(path: Path, rows: int | None = None) -> tuple[Codes, Codes]:
    """Return codes (-1 missing, the most frequent category 0) and numbers of categories."""
    found = pq.read_table(path)
    codes, levels = [], []
    for column in found.column_names:
        if column == "id":
            continue
        values = found[column].to_numpy(zero_copy_only=False)
        if values.dtype == object:
            text = ["" if value is None else str(value) for value in values]
            values = np.unique(text, return_inverse=True)[1].astype(float)
            values[np.array(text) == ""] = np.nan
        values = values.astype(float)
        missing = np.isnan(values) | (values == 255)
        kinds, counts = np.unique(values[~missing], return_counts=True)
        if len(kinds) < 2:
            continue
        code = np.full(len(values), -1)
        for i, kind in enumerate(kinds[np.argsort(-counts, kind="stable")]):
            code[values == kind] = i
        codes.append(code)
        levels.append(len(kinds))
    stacked = np.stack(codes, axis=1)
    if rows is not None:
        stacked = stacked[np.random.default_rng(99).permutation(len(stacked))[:rows]]
    return stacked, np.array(levels)


# What the IBP is compared with: the probability of every category of a missing cell, [M, R].


def one_hot(batch: FeatureBatch) -> tuple[Table, NDArray[np.int64]]:
    """Return indicators of all categories, NaN where missing, and each column's first one."""
    codes = batch.codes[batch.row_of].astype(np.int64)
    blocks = []
    for d, r in enumerate(batch.levels.tolist()):
        block = (codes[:, d, None] == np.arange(r)).astype(float)
        block[codes[:, d] < 0] = np.nan
        blocks.append(block)
    return np.concatenate(blocks, 1), np.concatenate([[0], np.cumsum(batch.levels)])


def picked(p: Table, batch: FeatureBatch, first: NDArray[np.int64]) -> Table:
    """Take each missing cell's categories from row-wise values of all of them."""
    rows, columns = missing_cells(batch)
    result = np.zeros((len(rows), int(batch.levels.max())))
    for d, r in enumerate(batch.levels.tolist()):
        mine = columns == d
        result[mine, :r] = p[rows[mine], first[d] : first[d] + r]
    return result / result.sum(1, keepdims=True)


def margins(batch: FeatureBatch) -> Table:
    """Every cell at its column's frequencies."""
    x, first = one_hot(batch)
    return picked(np.broadcast_to(np.nanmean(x, 0), x.shape), batch, first)


def latent_classes(batch: FeatureBatch, k: int, starts: int, seed: int) -> Table:
    """Multinomial mixture by EM; starts averaged."""
    x, first = one_hot(batch)
    seen, rng = np.nan_to_num(x), np.random.default_rng(seed)
    fits = [one_fit(seen, batch.levels, k, rng, starts=1) for _ in range(starts)]
    return picked(np.sum([fit.categories(seen) for fit in fits], axis=0), batch, first)


def latent_classes_by_bic(batch: FeatureBatch, seed: int) -> Table:
    """Latent class analysis with the number of classes that the BIC chooses."""
    x, first = one_hot(batch)
    seen = np.nan_to_num(x)
    return picked(by_bic(seen, batch.levels, seed).categories(seen), batch, first)


def stepmix_by_bic(batch: FeatureBatch, seed: int) -> Table:
    """Latent classes by the package StepMix; their number has the lowest BIC."""
    from stepmix.stepmix import StepMix

    codes = batch.codes[batch.row_of].astype(float)
    codes[codes < 0] = np.nan
    best, least, risen = None, np.inf, 0
    for k in range(1, 41):
        model = StepMix(
            k, measurement="categorical_nan", n_init=3, max_iter=300, abs_tol=1e-6,
            random_state=seed, progress_bar=0, verbose=0,
        ).fit(codes)  # fmt: skip
        value = model.bic(codes)
        best, least, risen = (model, value, 0) if value < least else (best, least, risen + 1)
        if risen == 2:
            break
    assert best is not None
    chance = best.get_parameters()["measurement"]["pis"]
    rows, columns = missing_cells(batch)
    p = (best.predict_proba_class(codes) @ chance).reshape(len(codes), codes.shape[1], -1)
    found = np.maximum(p[rows, columns], 1e-9)
    return found / found.sum(1, keepdims=True)


def logistic_columns(batch: FeatureBatch) -> Table:
    """Regress every column on the others' categories; a missing one is a category of its own."""
    codes = batch.codes[batch.row_of]
    rows, columns = missing_cells(batch)
    found = np.zeros((len(rows), int(batch.levels.max())))
    blocks = [codes[:, [d]] == np.arange(-1, r) for d, r in enumerate(batch.levels)]
    for d in np.unique(columns):
        others = np.concatenate([b for e, b in enumerate(blocks) if e != d], axis=1).astype(float)
        known, needed = codes[:, d] >= 0, np.flatnonzero(columns == d)
        if len(set(codes[known, d])) == 1:  # all others are hidden or missing
            found[needed, codes[known, d][0]] = 1.0
            continue
        model = LogisticRegression(C=0.1, max_iter=500).fit(others[known], codes[known, d])
        chance = model.predict_proba(others[rows[needed]])
        found[needed[:, None], model.classes_] = np.maximum(chance, 1e-9)
    return found / found.sum(1, keepdims=True)


def ibp_searched(batch: FeatureBatch, seed: int) -> Table:
    """Take the pipeline's default."""
    settings = FeatureOptions()
    model = make(settings)
    done = fit(model, [batch], seed=seed, tol=1e-6, max_iter=settings.max_iter)
    return apply(model, done.q, batch, settings).cells


def methods(classes: int) -> dict[str, Method]:
    """Return the methods by name."""
    found: dict[str, Method] = {
        "marginal frequencies": lambda b, s: margins(b),
        f"latent classes ({classes}) by EM, 5 starts averaged": lambda b, s: latent_classes(
            b, classes, 5, s
        ),
        "latent classes by BIC": latent_classes_by_bic,
        "StepMix by BIC": stepmix_by_bic,
        "IBP, searched (default)": ibp_searched,
        "one logistic regression a column": lambda b, s: logistic_columns(b),
    }
    if find_spec("stepmix") is None:
        del found["StepMix by BIC"]
    return found


def main() -> None:
    """Compare all methods on the same held-out cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--data", type=Path, default=DATA / "features")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="names that contain any of these")
    options = parser.parse_args()
    for of in options.names:
        codes, levels = table(options.data / f"{of}.parquet", options.rows)
        print(f"## {of}: {codes.shape[0]} x {codes.shape[1]}", flush=True)
        with threadpool_limits(1):
            for name, method in methods(CLASSES.get(of, 12)).items():
                if any(part in name for part in options.only):
                    print(row([name, *line(method, codes, levels, options.splits)]), flush=True)


def line(
    method: Method, codes: NDArray[np.int64], levels: NDArray[np.int64], splits: int
) -> list[str]:
    """Return the figures of one method."""
    found, cpu = [], 0.0
    for seed in range(splits):
        held = (np.random.default_rng(seed).random(codes.shape) < 0.1) & (codes >= 0)
        batch = feature_batch(np.where(held, -1, codes), levels, grouped=False)
        begun = time.process_time()
        p = method(batch, seed)
        cpu += time.process_time() - begun
        places = missing_cells(batch)
        true = codes[places]
        known = true >= 0
        found.append(float(np.log(p[np.arange(len(true)), true][known]).mean()))
    shown = " ".join(f"{x:.4f}" for x in found)
    return [shown, f"{np.mean(found):.4f}", f"{cpu / splits:.1f} s"]


if __name__ == "__main__":
    main()
