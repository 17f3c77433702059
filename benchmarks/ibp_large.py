"""The search for features in long tables: by all rows, or by a sample of them.

    python -m benchmarks.ibp_large --rows 100000 --seeds 3 --search-rows 5000 10000 [--whole]
    python -m benchmarks.ibp_large --rows 100000 --rare .001 .002 .003 .005 .01 --seeds 5

The tables are those of `benchmarks.ibp_search` with eight features that 10 to 40 % of the rows
have. ``--rare`` adds one that so large a share has: is it found, and how many of its rows are?
``--whole`` searches by all rows, too. CPU is that of the process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.ibp_search import LEVELS, MATCHED, USED, accuracies, searched
from vbmodels.features.batch import feature_batch
from vbmodels.features.simulate import simulate_table

FEATURES = 8


def drawn(seed: int, rows: int, columns: int, rare: float | None) -> tuple[Any, Any, Any]:
    """Draw a table; return codes, levels and features."""
    rng = np.random.default_rng([seed, rows, columns])
    levels = np.resize(LEVELS, columns)
    prevalence = rng.uniform(0.1, 0.4, FEATURES)
    if rare is not None:
        prevalence = np.append(prevalence, rare)
    codes, z, _ = simulate_table(rng, rows, levels, prevalence)
    return codes, levels, z


def one(seed: int, asked: argparse.Namespace, rare: float | None, sample: int) -> dict[str, Any]:
    """Search one table; return what was found."""
    codes, levels, z = drawn(seed, asked.rows, asked.columns, rare)
    batch = feature_batch(codes, levels)
    begun = time.process_time()
    _, nu, passes = searched(batch, seed, search_rows=sample)
    cpu = time.process_time() - begun
    on = nu[batch.row_of] > 0.5
    count = on.sum(0)
    used = (count >= USED) & (count <= asked.rows - USED)
    right = accuracies(on[:, used], z[:, :FEATURES])
    found = {
        "kept": int(used.sum()), "exact": int(used.sum()) == z.shape[1],
        "matched": int((right > MATCHED).sum()), "accuracy": right.mean(), "cpu": cpu,
        "passes": passes,
    }  # fmt: skip
    if rare is not None:
        found["rare"] = best_f1(on, z[:, FEATURES])
    return found


def best_f1(on: Any, truth: Any) -> float:
    """Return the F1 of the found feature, or complement, that is nearest to a true one."""
    sides = np.concatenate([on, ~on], axis=1)
    both = (sides & truth[:, None]).sum(0)
    return float((2.0 * both / (sides.sum(0) + truth.sum())).max())


def main() -> None:
    """Run what was asked, a line a fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search-rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--rare", type=float, nargs="+", default=[None])
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    samples = asked.search_rows + ([asked.rows] if asked.whole else [])
    with threadpool_limits(1):
        searched(feature_batch(*drawn(0, 600, 30, None)[:2]), 0)  # compiles
        for seed in range(asked.first, asked.first + asked.seeds):
            for rare in asked.rare:
                for sample in samples:
                    found = one(seed, asked, rare, sample)
                    told = ", ".join(f"{k} {v:.4g}" for k, v in found.items())
                    print(f"seed {seed}, rare {rare}, {sample} rows searched: {told}", flush=True)


if __name__ == "__main__":
    main()
