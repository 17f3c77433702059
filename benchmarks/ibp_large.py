"""The search for features in long tables: by all rows, or by a sample of them.

    python -m benchmarks.ibp_large --rows 100000 --seeds 3 --search-rows 5000 10000 [--whole]
    python -m benchmarks.ibp_large --rows 100000 --rare .003 .01 --seeds 3 --whole

The tables are those of `benchmarks.ibp_search` with eight features that 10 to 40 % of the rows
have. ``--rare`` adds one for each share that it names: is it found, and how well do its rows
agree (F1)? ``--whole`` searches by all rows, too. Every fit is judged by a tenth of the cells of
new rows, hidden from it: their mean log probability. CPU is that of the process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.ibp_search import LEVELS, MATCHED, USED, accuracies, searched
from vbmodels.features.batch import MISSING, feature_batch
from vbmodels.features.polya_gamma import PolyaGammaIBP
from vbmodels.features.predict import impute_sampled, missing_cells
from vbmodels.features.simulate import simulate_table

FEATURES, NEW, HIDDEN = 8, 10_000, 0.1


def drawn(seed: int, rows: int, columns: int, rare: list[float]) -> tuple[Any, Any, Any]:
    """Draw a table; return codes, levels and features."""
    rng = np.random.default_rng([seed, rows, columns])
    levels = np.resize(LEVELS, columns)
    prevalence = np.append(rng.uniform(0.1, 0.4, FEATURES), rare)
    codes, z, _ = simulate_table(rng, rows, levels, prevalence)
    return codes, levels, z


def hidden_cells(q: Any, codes: Any, levels: Any) -> float:
    """Return the mean log probability of a tenth of the cells of new rows, hidden from them."""
    shown = codes.copy()
    shown[np.random.default_rng(0).random(codes.shape) < HIDDEN] = MISSING
    batch = feature_batch(shown, levels)
    nu = PolyaGammaIBP(1).features(q, batch).nu
    rows, columns = missing_cells(batch)
    found = impute_sampled(q, batch, nu)
    return float(np.log(found[np.arange(len(rows)), codes[rows, columns]]).mean())


def one(seed: int, asked: argparse.Namespace, sample: int) -> dict[str, Any]:
    """Search one table; return what was found."""
    codes, levels, z = drawn(seed, asked.rows + NEW, asked.columns, asked.rare)
    batch = feature_batch(codes[: asked.rows], levels)
    begun = time.process_time()
    q, nu, passes = searched(batch, seed, search_rows=sample)
    cpu = time.process_time() - begun
    on, truth = nu[batch.row_of] > 0.5, z[: asked.rows]
    count = on.sum(0)
    used = (count >= USED) & (count <= asked.rows - USED)
    right = accuracies(on[:, used], truth[:, :FEATURES])
    found = {
        "kept": int(used.sum()), "exact": int(used.sum()) == z.shape[1],
        "matched": int((right > MATCHED).sum()), "accuracy": right.mean(), "cpu": cpu,
        "passes": passes, "hidden": hidden_cells(q, codes[asked.rows :], levels),
    }  # fmt: skip
    for share, column in zip(asked.rare, truth[:, FEATURES:].T, strict=True):
        found[f"F1 of {share:g}"] = best_f1(on, column)
    return found


def best_f1(on: Any, truth: Any) -> float:
    """Return the F1 of the found feature, or complement, that is nearest to a true one."""
    sides = np.concatenate([on, ~on], axis=1)
    both = (sides & truth[:, None]).sum(0)
    return float((2.0 * both / (sides.sum(0) + truth.sum())).max(initial=0.0))


def main() -> None:
    """Run what was asked, a line a fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search-rows", type=int, nargs="*", default=[10_000])
    parser.add_argument("--rare", type=float, nargs="+", default=[])
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    samples = asked.search_rows + ([asked.rows] if asked.whole else [])
    with threadpool_limits(1):
        searched(feature_batch(*drawn(0, 600, 30, [])[:2]), 0)  # compiles
        for seed in range(asked.first, asked.first + asked.seeds):
            for sample in samples:
                found = one(seed, asked, sample)
                told = ", ".join(f"{k} {v:.5g}" for k, v in found.items())
                print(f"seed {seed}, {sample} rows searched: {told}", flush=True)


if __name__ == "__main__":
    main()
