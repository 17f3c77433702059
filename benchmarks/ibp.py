"""The IBP with categorical observations beside its rivals, and its speed.

    python -m benchmarks.ibp collapsed | grouping

Real data are read from ../shared/data/features beside the repository. Times are CPU seconds of
one thread. The rivals on held-out cells are in ibp_heldout.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from vbmodels.features.batch import feature_batch
from vbmodels.features.polya_gamma import PolyaGammaIBP
from vbmodels.features.published.laplace_gibbs import LaplaceGibbs
from vbmodels.features.simulate import matched_f1, simulate_images

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "features"
Codes = NDArray[np.int64]


def say(*words: object) -> None:
    """Print one line now."""
    sys.stdout.write(" ".join(str(w) for w in words) + "\n")
    sys.stdout.flush()


def table(name: str, rows: int | None = None) -> tuple[Codes, Codes]:
    """Return codes (-1 missing, the most frequent category 0) and numbers of categories."""
    found = pq.read_table(DATA / f"{name}.parquet")
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


def collapsed(iterations: int = 40) -> None:
    """Section 5.1 by the text's own sampler: features and F1 as it goes."""
    codes, z = simulate_images(np.random.default_rng(0))
    sampler, rng = LaplaceGibbs(codes, np.full(36, 2)), np.random.default_rng(0)
    at, begun = sampler.start(rng), time.process_time()
    for i in range(1, iterations + 1):
        at = sampler.iterate(at, rng)
        if i % 10 == 0:
            share = at.z.mean(0)
            used = np.flatnonzero((share > 0.02) & (share < 0.98))[:12]
            say(
                f"| collapsed Gibbs, iteration {i} | {len(used)} features | "
                f"F1 {matched_f1(at.z[:, used], z):.2f} | "
                f"{(time.process_time() - begun) / i:.2f} s an iteration |"
            )


def grouping() -> None:
    """What equal rows save when they share their local step: CPU of a sweep, apart and together."""
    synthetic, _ = table("SYNTHETIC_nesarc_like52")
    npi, _ = table("npi40")
    for name, codes in (
        ("synthetic criteria", synthetic),
        ("NPI", npi),
        ("NPI, first 15 questions", npi[:, :15]),
        ("synthetic, first 20 criteria", synthetic[:, :20]),
        ("synthetic, first 10 criteria", synthetic[:, :10]),
    ):
        model, levels, cost = PolyaGammaIBP(12), np.full(codes.shape[1], 2), []
        for grouped in (False, True):
            batch = feature_batch(codes, levels, grouped=grouped)
            q, local, times = model.init(model.observe(batch), np.random.default_rng(0)), None, []
            for _ in range(4):
                begun = time.process_time()
                local = model.local_step(q, batch, local)
                q = model.global_step(q, model.suff_stats(q, batch, local))
                times.append(time.process_time() - begun)
            cost.append(min(times))
        rows = f"{len(batch.count)} distinct of {len(codes)} rows"
        say(f"| {name}, K=12 | {rows} | {cost[0]:.3f} s | {cost[1]:.3f} s | "
            f"{cost[0] / cost[1]:.1f} |")  # fmt: skip


def main() -> None:
    """Run what was asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["collapsed", "grouping"])
    asked = parser.parse_args()
    with threadpool_limits(1):
        {"collapsed": collapsed, "grouping": grouping}[asked.what]()


if __name__ == "__main__":
    main()
