"""Features: tables whose features are known, and hidden cells of real surveys.

    python -m benchmarks.ibp search --rows 200 --features 4 [--first 100] [--seeds 20]
    python -m benchmarks.ibp cells npi40 youthdep26 mushroom23 krvskp tmas vote [--rows N]
                    [--data FOLDER] [--splits 3] [--only PARTS ...]

search  Tables have 30 columns of 2 to 5 categories, weights of sd 2, and features that 15 to 50 %
        of the rows have. A feature is matched where more than nine rows of ten agree with it or its
        complement, each found feature being used once. Two fits of every table: the default search,
        and coordinate ascent started at the truth. The yardstick is the true bound by Monte Carlo
        with the same 64 random numbers.
cells   10 % of the cells are hidden; figures are mean log probabilities of their categories, one a
        split, then the mean over splits and the CPU seconds of one thread for one split. Any other
        name is a file of the folder. StepMix is a rival where it is installed.
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
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, head, row
from vbmodels.core.fit import fit
from vbmodels.features.forms import apply, best_of, make, rows_of
from vbmodels.features.ibp.model import FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.predict import likelihood_draws, measured, missing_cells
from vbmodels.features.options import FeatureOptions
from vbmodels.features.rivals import by_bic
from vbmodels.features.rivals import latent_classes as one_fit
from vbmodels.features.table import FeatureBatch, feature_batch, simulate_table

Codes = NDArray[np.int64]
Table = NDArray[np.float64]
Method = Callable[[FeatureBatch, int], Table]
SETTINGS = FeatureOptions()


def default_fit(batch: FeatureBatch, seed: int, tol: float) -> tuple[Any, Any]:
    """Fit the pipeline's default; return its model and what the fit leaves."""
    model = make(SETTINGS)
    return model, fit(model, [batch], seed=seed, tol=tol, max_iter=SETTINGS.max_iter)


def published(batch: FeatureBatch, seed: int, tol: float = SETTINGS.tol) -> Any:
    """Return what a run publishes by default: rows' features, missing cells."""
    model, done = default_fit(batch, seed, tol)
    return apply(model, done.q, batch, SETTINGS)


# Tables whose features are known.

LEVELS = np.array([2, 3, 4, 5] * 7 + [3, 4])
MATCHED, USED = 0.9, 5


def drawn(seed: int, rows: int, features: int, missing: float = 0.0) -> tuple[Any, Any]:
    """Draw a table and its features."""
    rng = np.random.default_rng([seed, rows, features])
    prevalence = rng.uniform(0.15, 0.5, features)
    return simulate_table(rng, rows, LEVELS, prevalence, missing=missing)[:2]


def matched(on: Any, z: Any) -> tuple[Any, Any, Any]:
    """Return pairs of true and found features, and the share of rows in which they agree."""
    agree = (on[:, None, :] == z[:, :, None]).mean(0)
    true, found = linear_sum_assignment(-np.maximum(agree, 1.0 - agree))
    return true, found, agree[true, found]


def from_truth(batch: FeatureBatch, z: Any, sweeps: int = 200) -> tuple[Any, Any]:
    """Return coordinate ascent from the true features: parameters and nu."""
    model = PolyaGammaIBP(z.shape[1])
    shares = np.zeros((len(batch.count), z.shape[1]))
    np.add.at(shares, batch.row_of, z)
    nu = np.clip(shares / batch.count[:, None], 0.02, 0.98)
    q = model.init(model.observe(batch), np.random.default_rng(0))
    for _ in range(3):
        q = model.global_step(q, model.suff_stats(q, batch, FeatureLocal(nu)))
    for _ in range(sweeps):
        nu = model.local_step(q, batch, FeatureLocal(nu)).nu
        q = model.global_step(q, model.suff_stats(q, batch, FeatureLocal(nu)))
    return q, model.local_step(q, batch, FeatureLocal(nu)).nu


def searched(batch: FeatureBatch, seed: int) -> tuple[Any, Any, int]:
    """Return the default fit: parameters, nu, passes over the rows."""
    _, done = default_fit(batch, seed, SETTINGS.tol)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return best_of(done.q), rows_of(done.q, local).nu, done.iterations


def search_once(seed: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit one table in both ways; return what was found by each."""
    codes, z = drawn(seed, given.rows, given.features, given.missing)
    batch = feature_batch(codes, LEVELS)
    runs = []
    for name in ("search", "truth"):
        begun = time.process_time()
        if name == "search":
            q, nu, passes = searched(batch, seed)
        else:
            (q, nu), passes = from_truth(batch, z), 204
        cpu = time.process_time() - begun
        on = nu[batch.row_of] > 0.5
        count = on.sum(0)
        used = (count >= USED) & (count <= given.rows - USED)
        true, _, agree = matched(on[:, used], z)
        right = np.full(z.shape[1], 0.5)
        right[true] = np.maximum(agree, 1.0 - agree)
        draws = likelihood_draws(q, batch, nu, 64)
        bound = measured(q, batch.count @ nu, draws, PolyaGammaIBP(1).bias_variance)[0]
        runs.append({
            "seed": seed, "way": name, "kept": int(used.sum()), "accuracy": right.mean(),
            "exact": used.sum() == given.features, "matched": (right > MATCHED).all(),
            "yardstick": bound, "passes": passes, "cpu": cpu,
        })  # fmt: skip
    shown = "; ".join(
        f"{r['way']} {r['kept']} kept, accuracy {r['accuracy']:.3f}, {r['yardstick']:.0f} nats, "
        f"{r['cpu']:.1f} s"
        for r in runs
    )
    print(f"seed {seed}: {shown}", flush=True)
    return runs


def search(given: argparse.Namespace) -> None:
    """Run the fits and print the table."""
    searched(feature_batch(drawn(0, 60, 2)[0], LEVELS), 0)  # compiles
    seeds = range(given.first, given.first + given.seeds)
    runs = pd.DataFrame([found for seed in seeds for found in search_once(seed, given)])
    truth = runs[runs["way"] == "truth"].set_index("seed")["yardstick"]
    runs["ahead"] = runs["yardstick"] - runs["seed"].map(truth)
    print(head([
        "", "exact", "matched", "accuracy", "yardstick >= truth's - 5, >= truth's", "passes",
        "CPU s",
    ]))  # fmt: skip
    for name, own in runs.groupby("way", sort=False):
        print(row([
            name, own["exact"].sum(), own["matched"].sum(), f"{own['accuracy'].mean():.3f}",
            f"{(own['ahead'] >= -5.0).sum()}, {(own['ahead'] >= 0.0).sum()}",
            f"{own['passes'].mean():.0f}",
            f"{own['cpu'].mean():.1f}, median {own['cpu'].median():.1f}",
        ]))  # fmt: skip


# Hidden cells: the probability of every category of a missing cell, [M, R].

CLASSES = {"npi40": 12, "youthdep26": 6, "mushroom23": 40, "krvskp": 40, "tmas": 12, "vote": 6}
"""The number of latent classes that was chosen for a set; of others 12."""


def table(path: Path, rows: int | None = None) -> tuple[Codes, Codes]:
    """Return codes (-1 missing, the most frequent category 0) and numbers of categories."""
    found = pd.read_parquet(path).drop(columns="id", errors="ignore")
    codes, levels = [], []
    for column in found:
        values = found[column]
        values = values.mask(values.isin(["", 255]))
        counts = values.value_counts().sort_index()
        kinds = counts.sort_values(ascending=False, kind="stable").index
        if len(kinds) > 1:
            codes.append(pd.Categorical(values, kinds).codes.astype(np.int64))
            levels.append(len(kinds))
    stacked = np.stack(codes, axis=1)
    if rows is not None:
        stacked = stacked[np.random.default_rng(99).permutation(len(stacked))[:rows]]
    return stacked, np.array(levels)


def hidden(codes: Codes, levels: Codes, seed: int) -> tuple[FeatureBatch, Codes, Codes]:
    """Hide a tenth of the cells; return the batch, its missing cells' categories and columns."""
    held = (np.random.default_rng(seed).random(codes.shape) < 0.1) & (codes >= 0)
    batch = feature_batch(np.where(held, -1, codes), levels, grouped=False)
    places = missing_cells(batch)
    return batch, codes[places], places[1]


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


def margins(batch: FeatureBatch, seed: int) -> Table:
    """Every cell at its column's frequencies."""
    x, first = one_hot(batch)
    return picked(np.broadcast_to(np.nanmean(x, 0), x.shape), batch, first)


def latent_classes(k: int, starts: int) -> Method:
    """Multinomial mixture by EM; starts averaged."""

    def method(batch: FeatureBatch, seed: int) -> Table:
        x, first = one_hot(batch)
        seen, rng = np.nan_to_num(x), np.random.default_rng(seed)
        fits = [one_fit(seen, batch.levels, k, rng, starts=1) for _ in range(starts)]
        return picked(np.sum([fit.categories(seen) for fit in fits], axis=0), batch, first)

    return method


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


def logistic_columns(batch: FeatureBatch, seed: int) -> Table:
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
    return published(batch, seed, tol=1e-6).cells


def cells(given: argparse.Namespace) -> None:
    """Compare all methods on the same held-out cells."""
    for of in given.names:
        codes, levels = table(given.data / f"{of}.parquet", given.rows)
        print(f"## {of}: {codes.shape[0]} x {codes.shape[1]}", flush=True)
        classes = CLASSES.get(of, 12)
        methods: dict[str, Method] = {
            "marginal frequencies": margins,
            f"latent classes ({classes}) by EM, 5 starts averaged": latent_classes(classes, 5),
            "latent classes by BIC": latent_classes_by_bic,
            "StepMix by BIC": stepmix_by_bic,
            "IBP, searched (default)": ibp_searched,
            "one logistic regression a column": logistic_columns,
        }
        if find_spec("stepmix") is None:
            del methods["StepMix by BIC"]
        for name, method in methods.items():
            if not any(part in name for part in given.only):
                continue
            found, cpu = [], 0.0
            for seed in range(given.splits):
                batch, true, _ = hidden(codes, levels, seed)
                begun = time.process_time()
                p = method(batch, seed)
                cpu += time.process_time() - begun
                chance = p[np.arange(len(true)), true][true >= 0]
                found.append(float(np.log(chance).mean()))
            shown = " ".join(f"{x:.4f}" for x in found)
            seconds = f"{cpu / given.splits:.1f} s"
            print(row([name, shown, f"{np.mean(found):.4f}", seconds]), flush=True)


def main() -> None:
    """Search tables that are drawn, or fill cells of real ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(required=True)
    of = kinds.add_parser("search")
    of.add_argument("--rows", type=int, default=200)
    of.add_argument("--features", type=int, default=4)
    of.add_argument("--first", type=int, default=100)
    of.add_argument("--seeds", type=int, default=20)
    of.add_argument("--missing", type=float, default=0.0)
    of.set_defaults(run=search)
    of = kinds.add_parser("cells")
    of.add_argument("names", nargs="+")
    of.add_argument("--data", type=Path, default=DATA / "features")
    of.add_argument("--rows", type=int)
    of.add_argument("--splits", type=int, default=3)
    of.add_argument("--only", nargs="*", default=[""], help="names that contain any of these")
    of.set_defaults(run=cells)
    given = parser.parse_args()
    with threadpool_limits(1):
        given.run(given)


if __name__ == "__main__":
    main()
