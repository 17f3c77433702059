"""The search for features on tables whose features are known, and fits from the truth.

    python -m benchmarks.ibp_search --rows 200 --features 4 --first 100 --seeds 20

Tables have 30 columns of 2 to 5 categories, weights of sd 2, and features that 15 to 50 % of the
rows have. A feature is matched where more than nine rows of ten agree with it or its complement,
each found feature being used once. Two fits of every table: the default search, and coordinate
ascent started at the truth. The yardstick is the true bound by Monte Carlo with the same 64 random
numbers.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from vbmodels.core.fit import fit
from vbmodels.features.forms import apply, best_of, make, rows_of
from vbmodels.features.ibp.model import FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.predict import likelihood_draws, measured
from vbmodels.features.options import FeatureOptions
from vbmodels.features.table import FeatureBatch, feature_batch, simulate_table

LEVELS = np.array([2, 3, 4, 5] * 7 + [3, 4])
MATCHED, USED = 0.9, 5


def table(seed: int, rows: int, features: int, missing: float) -> tuple[Any, Any]:
    """Draw a table and its features."""
    rng = np.random.default_rng([seed, rows, features])
    prevalence = rng.uniform(0.15, 0.5, features)
    return simulate_table(rng, rows, LEVELS, prevalence, missing=missing)[:2]


def accuracies(on: Any, z: Any) -> Any:
    """Return the share of rows of every true feature that its found one gets right; [K]."""
    right = (on[:, None, :] == z[:, :, None]).mean(0)
    right = np.maximum(right, 1.0 - right)
    true, found = linear_sum_assignment(-right)
    result = np.full(z.shape[1], 0.5)
    result[true] = right[true, found]
    return result


def yardstick(q: Any, batch: FeatureBatch, nu: Any) -> float:
    """Return the true bound of a fit by Monte Carlo."""
    draws = likelihood_draws(q, batch, nu, 64)
    return measured(q, batch.count @ nu, draws, PolyaGammaIBP(1).bias_variance)[0]


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
    settings = FeatureOptions()
    done = fit(make(settings), [batch], seed=seed, tol=settings.tol, max_iter=settings.max_iter)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return best_of(done.q), rows_of(done.q, local).nu, done.iterations


def published(batch: FeatureBatch, seed: int) -> Any:
    """Return the rows' probabilities of the reported features, by the default; [N, F]."""
    settings = FeatureOptions()
    model = make(settings)
    done = fit(model, [batch], seed=seed, tol=settings.tol, max_iter=settings.max_iter)
    return apply(model, done.q, batch, settings).features


def one(seed: int, rows: int, features: int, missing: float, say: Any) -> dict[str, Any]:
    """Fit one table in both ways; return for each what was found."""
    codes, z = table(seed, rows, features, missing)
    batch = feature_batch(codes, LEVELS)
    ways = {
        "search": lambda: searched(batch, seed),
        "truth": lambda: (*from_truth(batch, z), 204),
    }
    found = {}
    for name, run in ways.items():
        begun = time.process_time()
        q, nu, passes = run()
        cpu = time.process_time() - begun
        on = nu[batch.row_of] > 0.5
        count = on.sum(0)
        used = (count >= USED) & (count <= rows - USED)
        right = accuracies(on[:, used], z)
        found[name] = {
            "exact": int(used.sum()) == features, "matched": bool((right > MATCHED).all()),
            "accuracy": right.mean(), "cpu": cpu, "passes": passes,
            "yardstick": yardstick(q, batch, nu), "kept": int(used.sum()),
        }  # fmt: skip
    line = "; ".join(
        f"{name} {int(r['kept'])} kept, accuracy {r['accuracy']:.3f}, {r['yardstick']:.0f} nats, "
        f"{r['cpu']:.1f} s"
        for name, r in found.items()
    )
    say(f"seed {seed}: {line}")
    return found


def main() -> None:
    """Run the fits and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--features", type=int, default=4)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--missing", type=float, default=0.0)
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, flush=True)

    with threadpool_limits(1):
        searched(feature_batch(table(0, 60, 2, 0.0)[0], LEVELS), 0)  # compiles
        seeds = range(options.first, options.first + options.seeds)
        runs = [one(s, options.rows, options.features, options.missing, say) for s in seeds]
    say("| | exact | matched | accuracy | yardstick >= truth's - 5, >= truth's | passes | CPU s |")
    say("|---|---|---|---|---|---|---|")
    for name in runs[0]:
        rows = [run[name] for run in runs]
        ahead = np.array([r[name]["yardstick"] - r["truth"]["yardstick"] for r in runs])
        median = np.median([r["cpu"] for r in rows])
        mean = {key: np.mean([r[key] for r in rows]) for key in ("accuracy", "passes", "cpu")}
        say(
            f"| {name} | {sum(r['exact'] for r in rows)} | {sum(r['matched'] for r in rows)} | "
            f"{mean['accuracy']:.3f} | {(ahead >= -5.0).sum()}, {(ahead >= 0.0).sum()} | "
            f"{mean['passes']:.0f} | {mean['cpu']:.1f}, median {median:.1f} |"
        )


if __name__ == "__main__":
    main()
