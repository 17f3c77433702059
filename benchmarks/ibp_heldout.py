"""Held-out cells of real surveys: the IBP beside its rivals, all in one run.

    python benchmarks/ibp_heldout.py npi40|youthdep26|mushroom23|krvskp|tmas|vote [--rows N]
                                     [--splits 3] [--draws CHAINS WARMUP DRAWS]

10 % of the cells are hidden; figures are mean log probabilities of their categories, one a split,
then the mean over splits and the CPU seconds of one thread for one split.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from ibp import say, table
from ibp_rivals import (
    factor_analysis,
    latent_classes,
    logistic_columns,
    logistic_factors,
    margins,
    multinomial_mixture,
)
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from vbmodels.core.fit import fit
from vbmodels.features.batch import FeatureBatch, feature_batch
from vbmodels.features.forms import apply, make
from tests.vbmodels.features.gibbs import GibbsIBP
from vbmodels.features.predict import missing_cells
from vbmodels.features.options import FeatureOptions
from vbmodels.features.polya_gamma import PolyaGammaIBP
from vbmodels.features.predict import impute
from vbmodels.features.restarts import Restarts, leader, leading

Table = NDArray[np.float64]
Draws = tuple[int, int, int]
Method = Callable[[FeatureBatch, int], Table]
SIZES = {
    "npi40": {"factors": 7, "classes": 12, "sampler": 16, "variational": 8},
    "youthdep26": {"factors": 3, "classes": 6, "sampler": 12, "variational": 6},
    "mushroom23": {"factors": 10, "classes": 40, "sampler": 20, "variational": 16},
    "krvskp": {"factors": 8, "classes": 40, "sampler": 12, "variational": 12},
    "tmas": {"factors": 8, "classes": 12, "sampler": 12, "variational": 12},
    "vote": {"factors": 4, "classes": 6, "sampler": 12, "variational": 12},
}


def ibp_gibbs(batch: FeatureBatch, k: int, draws: Draws, seed: int) -> Table:
    """Average the sampler's chains."""
    model = GibbsIBP(k, chains=draws[0], warmup=draws[1], draws=draws[2])
    done = fit(model, [batch], seed=seed, max_iter=10_000)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return np.asarray(local.cells / local.cells.sum(1, keepdims=True))


def ibp_vi(batch: FeatureBatch, k: int, seed: int) -> Table:
    """Take the best of four variational starts, as the pipeline does."""
    starts = (PolyaGammaIBP(k), PolyaGammaIBP(k))
    model = Restarts(starts * 2, trial_sweeps=90)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = fit(model, [batch], seed=seed, tol=1e-6, max_iter=400)
    at = leader(done.q)
    local = leading(done.q, done.reduce.local_states(done.iterations - 1)[0])
    rows, columns = missing_cells(batch)
    nu = local.nu[batch.row_of][rows]
    return impute(nu, at.mean, at.covariance, batch.levels, columns)


def ibp_searched(batch: FeatureBatch, seed: int, prediction: str) -> Table:
    """Take the pipeline's default search, its cells by sampled rows or by the mean."""
    settings = FeatureOptions(prediction=prediction)
    model = make(settings)
    done = fit(model, [batch], seed=seed, tol=1e-6, max_iter=settings.max_iter)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return apply(model, done.q, batch, local, settings).cells


def methods(sizes: dict[str, int], draws: Draws) -> dict[str, Method]:
    """Return the methods by name."""
    factors, classes = sizes["factors"], sizes["classes"]
    many, few = sizes["sampler"], sizes["variational"]
    one = (1, *draws[1:])
    return {
        "marginal frequencies": lambda b, s: margins(b),
        f"factor analysis ({factors}), mean-imputed": lambda b, s: factor_analysis(b, factors, 0),
        f"factor analysis ({factors}), re-imputed": lambda b, s: factor_analysis(b, factors, 10),
        f"latent classes ({classes}) by EM, 5 starts averaged": lambda b, s: latent_classes(
            b, classes, 5, s
        ),
        f"multinomial mixture ({classes}) by Gibbs": lambda b, s: multinomial_mixture(
            b, classes, draws, s
        ),
        f"IBP, variational (K={few})": lambda b, s: ibp_vi(b, few, s),
        "IBP, searched, mean": lambda b, s: ibp_searched(b, s, "mean"),
        "IBP, searched, sampled rows": lambda b, s: ibp_searched(b, s, "sampled"),
        "IBP, searched, stacked (default)": lambda b, s: ibp_searched(b, s, "stacked"),
        "one logistic regression a column": lambda b, s: logistic_columns(b),
        f"IBP, PG-Gibbs (K={many}), 1 chain": lambda b, s: ibp_gibbs(b, many, one, s),
        f"IBP, PG-Gibbs (K={many})": lambda b, s: ibp_gibbs(b, many, draws, s + 1),
        f"logistic factor analysis ({factors}), PG-Gibbs": lambda b, s: logistic_factors(
            b, factors, draws, s
        ),
    }


def main() -> None:
    """Compare all methods on the same held-out cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(SIZES))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, nargs=3, default=(3, 200, 300))
    parser.add_argument("--only", nargs="*", default=[""], help="names that contain any of these")
    asked = parser.parse_args()
    codes, levels = table(asked.name, asked.rows)
    draws = (asked.draws[0], asked.draws[1], asked.draws[2])
    say(f"## {asked.name}: {codes.shape[0]} x {codes.shape[1]}, chains, warm-up, draws: {draws}")
    with threadpool_limits(1):
        for name, method in methods(SIZES[asked.name], draws).items():
            if any(part in name for part in asked.only):
                say(f"| {name} | {line(method, codes, levels, asked.splits)} |")


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
