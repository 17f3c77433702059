"""Held-out cells of real surveys: the IBP and its rivals, all in one run.

    python -m benchmarks.ibp_heldout npi40 youthdep26 mushroom23 krvskp tmas vote [--rows N]
                    [--data FOLDER] [--splits 3] [--draws CHAINS WARMUP DRAWS] [--only PARTS ...]

Any other name is a file of the folder. StepMix is a rival where it is installed. 10 % of the cells
are hidden; figures are mean log probabilities of their categories, one a split, then the mean over
splits and the CPU seconds of one thread for one split.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.ibp_rivals import (
    latent_classes,
    latent_classes_by_bic,
    logistic_columns,
    logistic_factors,
    margins,
    stepmix_by_bic,
)
from tests.vbmodels.features.gibbs import GibbsIBP
from vbmodels.core.fit import fit
from vbmodels.features.forms import apply, make
from vbmodels.features.ibp.predict import missing_cells
from vbmodels.features.options import FeatureOptions
from vbmodels.features.table import FeatureBatch, feature_batch

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "features"
Codes = NDArray[np.int64]
Table = NDArray[np.float64]
Draws = tuple[int, int, int]
Method = Callable[[FeatureBatch, int], Table]
SIZES = {
    "npi40": {"factors": 7, "classes": 12, "sampler": 16},
    "youthdep26": {"factors": 3, "classes": 6, "sampler": 12},
    "mushroom23": {"factors": 10, "classes": 40, "sampler": 20},
    "krvskp": {"factors": 8, "classes": 40, "sampler": 12},
    "tmas": {"factors": 8, "classes": 12, "sampler": 12},
    "vote": {"factors": 4, "classes": 6, "sampler": 12},
}
USUAL = {"factors": 4, "classes": 12, "sampler": 12}


def say(*words: object) -> None:
    """Print one line now."""
    sys.stdout.write(" ".join(str(w) for w in words) + "\n")
    sys.stdout.flush()


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


def ibp_gibbs(batch: FeatureBatch, k: int, draws: Draws, seed: int) -> Table:
    """Average the sampler's chains."""
    model = GibbsIBP(k, chains=draws[0], warmup=draws[1], draws=draws[2])
    done = fit(model, [batch], seed=seed, max_iter=10_000)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return np.asarray(local.cells / local.cells.sum(1, keepdims=True))


def ibp_searched(batch: FeatureBatch, seed: int) -> Table:
    """Take the pipeline's default."""
    settings = FeatureOptions()
    model = make(settings)
    done = fit(model, [batch], seed=seed, tol=1e-6, max_iter=settings.max_iter)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return apply(model, done.q, batch, local, settings).cells


def methods(sizes: dict[str, int], draws: Draws) -> dict[str, Method]:
    """Return the methods by name."""
    factors, classes, many = sizes["factors"], sizes["classes"], sizes["sampler"]
    found: dict[str, Method] = {
        "marginal frequencies": lambda b, s: margins(b),
        f"latent classes ({classes}) by EM, 5 starts averaged": lambda b, s: latent_classes(
            b, classes, 5, s
        ),
        "latent classes by BIC": latent_classes_by_bic,
        "StepMix by BIC": stepmix_by_bic,
        "IBP, searched (default)": ibp_searched,
        "one logistic regression a column": lambda b, s: logistic_columns(b),
        f"IBP, PG-Gibbs (K={many})": lambda b, s: ibp_gibbs(b, many, draws, s + 1),
        f"logistic factor analysis ({factors}), PG-Gibbs": lambda b, s: logistic_factors(
            b, factors, draws, s
        ),
    }
    if find_spec("stepmix") is None:
        del found["StepMix by BIC"]
    return found


def main() -> None:
    """Compare all methods on the same held-out cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, nargs=3, default=(3, 200, 300))
    parser.add_argument("--only", nargs="*", default=[""], help="names that contain any of these")
    options = parser.parse_args()
    draws: Draws = tuple(options.draws)
    for of in options.names:
        codes, levels = table(options.data / f"{of}.parquet", options.rows)
        say(f"## {of}: {codes.shape[0]} x {codes.shape[1]}, chains, warm-up, draws: {draws}")
        with threadpool_limits(1):
            for name, method in methods(SIZES.get(of, USUAL), draws).items():
                if any(part in name for part in options.only):
                    say(f"| {name} | {line(method, codes, levels, options.splits)} |")


def line(method: Method, codes: NDArray[np.int64], levels: NDArray[np.int64], splits: int) -> str:
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
    return f"{shown} | {np.mean(found):.4f} | {cpu / splits:.1f} s"


if __name__ == "__main__":
    main()
