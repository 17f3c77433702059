"""The IBP with categorical observations beside its rivals, and its speed.

    python benchmarks/ibp.py images | sweep | heldout [npi40|youthdep26|mushroom23] [--splits N]

Real data are read from ../shared/data/features beside the repository. Times are CPU seconds of
one thread. Held-out figures are mean log probabilities of 10 % of the cells.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from sklearn.decomposition import FactorAnalysis
from threadpoolctl import threadpool_limits

from vbmodels.cavi import fit
from vbmodels.features.batch import FeatureBatch, feature_batch, signs_of
from vbmodels.features.gibbs import GibbsIBP, missing_cells
from vbmodels.features.kernels import draw_omega, row_keys
from vbmodels.features.polya_gamma import PolyaGammaIBP
from vbmodels.features.predict import category_probabilities, impute
from vbmodels.features.restarts import Restarts, leader, leading
from vbmodels.features.simulate import matched_f1, simulate_images

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "features"
Codes = NDArray[np.int64]
CHAINS, WARMUP, DRAWS = 3, 150, 150


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
        values = found[column].to_numpy(zero_copy_only=False).astype(float)
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


# Held-out cells: each method returns P(category) of the missing cells [M, R].


def ibp_gibbs(batch: FeatureBatch, k: int, chains: int, seed: int) -> NDArray[np.float64]:
    """The sampler, chains averaged."""
    model = GibbsIBP(k, chains=chains, warmup=WARMUP, draws=DRAWS)
    done = fit(model, [batch], seed=seed, max_iter=10_000)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return np.asarray(local.cells / local.cells.sum(1, keepdims=True))


def ibp_vi(batch: FeatureBatch, k: int, seed: int) -> NDArray[np.float64]:
    """Variational inference, the better of two starts."""
    model = Restarts(PolyaGammaIBP(k), 2, race=80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = fit(model, [batch], seed=seed, tol=1e-6, max_iter=400)
    at = leader(done.q)
    local = leading(done.q, done.reduce.local_states(done.iterations - 1)[0])
    rows, columns = missing_cells(batch)
    nu = local.nu[batch.row_of][rows]
    return impute(nu, at.mean, at.covariance, batch.levels, columns)


def one_hot(batch: FeatureBatch) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return indicators of all categories, NaN where missing, and each column's first one."""
    codes = batch.codes[batch.row_of].astype(np.int64)
    blocks = []
    for d, r in enumerate(batch.levels.tolist()):
        block = (codes[:, d, None] == np.arange(r)).astype(float)
        block[codes[:, d] < 0] = np.nan
        blocks.append(block)
    return np.concatenate(blocks, 1), np.concatenate([[0], np.cumsum(batch.levels)])


def picked(
    p: NDArray[np.float64], batch: FeatureBatch, first: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Take each missing cell's categories from row-wise values of all of them."""
    rows, columns = missing_cells(batch)
    result = np.zeros((len(rows), int(batch.levels.max())))
    for d, r in enumerate(batch.levels.tolist()):
        mine = columns == d
        result[mine, :r] = p[rows[mine], first[d] : first[d] + r]
    return result / result.sum(1, keepdims=True)


def margins(batch: FeatureBatch) -> NDArray[np.float64]:
    """Every cell at its column's frequencies."""
    x, first = one_hot(batch)
    return picked(np.broadcast_to(np.nanmean(x, 0), x.shape), batch, first)


def factor_analysis(batch: FeatureBatch, k: int, rounds: int) -> NDArray[np.float64]:
    """Gaussian factors of indicators; missing cells at the mean, filled again ``rounds`` times.

    Predictions are cut to [0.005, 0.995] before they are normalised.
    """
    whole, first = one_hot(batch)
    # The most frequent category is what is left: with it the indicators would add up to one.
    x = np.delete(whole, first[:-1], axis=1)
    gone = np.isnan(x)
    filled = np.where(gone, np.nanmean(x, 0), x)
    for _ in range(rounds + 1):
        model = FactorAnalysis(k, random_state=0, max_iter=200).fit(filled)
        predicted = model.transform(filled) @ model.components_ + model.mean_
        filled = np.where(gone, predicted, x)
    p = np.clip(predicted, 0.005, 0.995)
    rest = [1.0 - p[:, i:j].sum(1) for i, j in pairwise((first - np.arange(len(first))).tolist())]
    full = np.insert(p, (first - np.arange(len(first)))[:-1], np.stack(rest, 1), axis=1)
    return picked(np.clip(full, 0.005, 0.995), batch, first)


def latent_classes(batch: FeatureBatch, k: int, starts: int, seed: int) -> NDArray[np.float64]:
    """Multinomial mixture by EM with Dirichlet(1.1) smoothing; starts averaged."""
    x, first = one_hot(batch)
    seen = np.nan_to_num(x)
    total = np.zeros_like(seen)
    rng = np.random.default_rng(seed)
    for _ in range(starts):
        r = rng.dirichlet(np.full(k, 0.3), len(x))
        before = -np.inf
        for _ in range(300):
            log_pi = np.log(r.sum(0) + 0.1) - np.log(len(x) + 0.1 * k)
            counts = r.T @ seen + 0.1
            log_p = np.empty_like(counts)
            for d, n in enumerate(batch.levels.tolist()):
                block = slice(first[d], first[d] + n)
                log_p[:, block] = np.log(counts[:, block]) - np.log(
                    counts[:, block].sum(1, keepdims=True)
                )
            joint = log_pi + seen @ log_p.T
            value = float(logsumexp(joint, axis=1).sum())
            r = np.exp(log_softmax(joint, axis=1))
            if value - before < 1e-6 * abs(value):
                break
            before = value
        total += r @ np.exp(log_p)
    return picked(total, batch, first)


def logistic_factors(batch: FeatureBatch, k: int, chains: int, seed: int) -> NDArray[np.float64]:
    """Logistic factor analysis by PG-Gibbs: psi = b + W f, f ~ N(0, I); chains averaged."""
    sign = signs_of(batch.codes[batch.row_of], batch.levels)
    half, n, units = 0.5 * sign, len(sign), sign.shape[1]
    rows, columns = missing_cells(batch)
    total = np.zeros((len(rows), int(batch.levels.max())))
    ids = np.arange(n)
    for c in range(chains):
        rng = np.random.default_rng([seed, c])
        f = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, k))], 1)
        w, variance = rng.normal(0, 0.3, (units, k + 1)), 1.0
        for i in range(WARMUP + DRAWS):
            omega = draw_omega(f @ w.T, sign, row_keys(ids, seed, c, i))
            outer = (f[:, :, None] * f[:, None, :]).reshape(n, -1)
            prior = np.diag([0.1, *[1 / variance] * k])
            precision = (omega.T @ outer).reshape(units, k + 1, k + 1) + prior
            w = _gaussian(precision, half.T @ f, rng)
            variance = (1 + 0.5 * (w[:, 1:] ** 2).sum()) / rng.gamma(1 + 0.5 * w[:, 1:].size)
            load = w[:, 1:]
            both = (load[:, :, None] * load[:, None, :]).reshape(units, -1)
            precision = (omega @ both).reshape(n, k, k) + np.eye(k)
            f[:, 1:] = _gaussian(precision, (half - omega * w[:, 0]) @ load, rng)
            if i >= WARMUP:
                psi = f[rows] @ w.T
                total += category_probabilities(psi, batch.levels, columns)
    return total / total.sum(1, keepdims=True)


def _gaussian(
    precision: NDArray[np.float64], linear: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    factor = np.linalg.cholesky(precision)
    half = np.linalg.solve(factor, linear[..., None]) + rng.standard_normal((*linear.shape, 1))
    drawn = np.linalg.solve(np.swapaxes(factor, -1, -2), half)
    return np.asarray(drawn[..., 0])


def heldout(name: str, splits: int) -> None:
    """Compare all methods on the same held-out cells."""
    rows = {"npi40": 4000, "mushroom23": 2000}.get(name)
    codes, levels = table(name, rows)
    classes = {"npi40": 12, "youthdep26": 6, "mushroom23": 40}[name]
    k = {"npi40": 16, "youthdep26": 12, "mushroom23": 16}[name]
    few = {"npi40": 8, "youthdep26": 6, "mushroom23": 16}[name]
    factors = {"npi40": 7, "youthdep26": 3, "mushroom23": 10}[name]
    methods: dict[str, Callable[[FeatureBatch, int], NDArray[np.float64]]] = {
        "marginal frequencies": lambda b, s: margins(b),
        f"factor analysis ({factors}), mean-imputed": lambda b, s: factor_analysis(b, factors, 0),
        f"factor analysis ({factors}), re-imputed": lambda b, s: factor_analysis(b, factors, 10),
        f"latent classes = multinomial mixture ({classes}), 5 starts averaged": lambda b, s: (
            latent_classes(b, classes, 5, s)
        ),
        f"logistic factor analysis ({factors}), PG-Gibbs, 3 chains": lambda b, s: logistic_factors(
            b, factors, CHAINS, s
        ),
        f"IBP, variational (K={few}, 2 starts)": lambda b, s: ibp_vi(b, few, s),
        f"IBP, PG-Gibbs (K={k}), 1 chain": lambda b, s: ibp_gibbs(b, k, 1, s),
        f"IBP, PG-Gibbs (K={k}), 3 chains": lambda b, s: ibp_gibbs(b, k, CHAINS, s + 1),
    }
    say(f"## {name}: {codes.shape[0]} x {codes.shape[1]}, {splits} splits")
    for method, run in methods.items():
        found, cpu = [], 0.0
        for seed in range(splits):
            held = (np.random.default_rng(seed).random(codes.shape) < 0.1) & (codes >= 0)
            batch = feature_batch(np.where(held, -1, codes), levels, grouped=False)
            begun = time.process_time()
            p = run(batch, seed)
            cpu += time.process_time() - begun
            places = missing_cells(batch)
            true = codes[places]
            known = true >= 0
            found.append(float(np.log(p[np.arange(len(true)), true][known]).mean()))
        shown = " ".join(f"{x:.4f}" for x in found)
        say(f"| {method} | {shown} | {cpu / splits:.1f} s |")


def images(seeds: int) -> None:
    """Section 5.1: exactly four features and their F1 from a cold start."""
    for k in (6, 8, 10):
        good, scores, seconds = 0, [], []
        for seed in range(seeds):
            codes, z = simulate_images(np.random.default_rng(seed))
            batch = feature_batch(codes, np.full(36, 2))
            begun = time.process_time()
            done = fit(PolyaGammaIBP(k, alpha=0.5), [batch], seed=seed, tol=1e-6, max_iter=2000)
            seconds.append(time.process_time() - begun)
            (local,) = done.reduce.local_states(done.iterations - 1)
            on = local.nu[batch.row_of] > 0.5
            share = on.mean(0)
            used = (share > 0.02) & (share < 0.98)
            f1 = matched_f1(on[:, used], z) if used.sum() == 4 else 0.0
            scores.append(f1)
            good += f1 >= 0.85
        say(
            f"| K={k} | {good} of {seeds} with exactly four features and F1 >= .85 | "
            f"F1 {min(scores):.2f}-{max(scores):.2f} | "
            f"{np.mean(seconds):.2f} s mean, {max(seconds):.2f} s most |"
        )


def sweep() -> None:
    """One sweep of 43,093 x 52 synthetic rows at K = 25, its floor, and what grouping saves."""
    codes, levels = table("SYNTHETIC_nesarc_like52")
    model = PolyaGammaIBP(25)
    for grouped in (False, True):
        batch = feature_batch(codes, levels, grouped=grouped)
        q, local = model.init(model.observe(batch), np.random.default_rng(0)), None
        times = []
        for _ in range(4):
            begun = time.process_time()
            local = model.local_step(q, batch, local)
            q = model.global_step(q, model.suff_stats(q, batch, local))
            times.append(time.process_time() - begun)
        say(f"| sweep, K=25, grouped={grouped} | {len(batch.count)} distinct rows | "
            f"{min(times):.2f} s |")  # fmt: skip
    size = 26 * 26
    a, b = np.ones((43_093, size)), np.ones((size, 52))
    begun = time.process_time()
    for _ in range(4):
        a @ b
    say(f"| floor: the four matrix products of a sweep | | {time.process_time() - begun:.2f} s |")
    for name in ("npi40", "youthdep26", "mushroom23"):
        codes, levels = table(name)
        batch = feature_batch(codes, levels)
        say(f"| grouping {name} | {len(batch.count)} distinct of {len(codes)} rows | |")
    sampler = GibbsIBP(25, chains=1)
    codes, levels = table("SYNTHETIC_nesarc_like52")
    batch = feature_batch(codes, levels, grouped=False)
    state, kept = sampler.init(sampler.observe(batch), np.random.default_rng(0)), None
    times = []
    for _ in range(4):
        begun = time.process_time()
        kept = sampler.local_step(state, batch, kept)
        state = sampler.global_step(state, sampler.suff_stats(state, batch, kept))
        times.append(time.process_time() - begun)
    say(f"| one Gibbs iteration, K=25, one chain | | {min(times[1:]):.2f} s |")


def main() -> None:
    """Run what was asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["images", "sweep", "heldout"])
    parser.add_argument("name", nargs="?", default="npi40")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    with threadpool_limits(1):
        if asked.what == "images":
            images(asked.seeds)
        elif asked.what == "sweep":
            sweep()
        else:
            heldout(asked.name, asked.splits)


if __name__ == "__main__":
    main()
