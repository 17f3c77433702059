"""IBP with categories: figure 4 and tables 1 to 5."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import expit
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF

from reproduce.ibp_images import base_images, matched_f1, simulate_images
from reproduce.ibp_laplace import LaplaceGibbs
from reproduce.page import NOT_SAID, Page, canvas, number, published, table
from vbmodels.core.fit import fit
from vbmodels.features.forms import best_of, make
from vbmodels.features.ibp.model import PolyaGammaIBP, second_moments, tilt_square, with_one
from vbmodels.features.moment_kernels import packed_moments
from vbmodels.features.options import FeatureOptions
from vbmodels.features.table import FeatureBatch, feature_batch

SUBJECTS = 43_093

# Figure 4: four base images from 200 noisy composites of them.

MOST_FEATURES = 8
OPTIONS = FeatureOptions(n_features=MOST_FEATURES, alpha=0.5, inference="multinomial")
SAMPLED_ROWS = 100


@dataclass(frozen=True)
class Found:
    """Features in use, their F1, white pixels' probability [4, 36] by base image, CPU seconds."""

    count: int
    f1: float
    white: np.ndarray
    seconds: float


def in_use(on: np.ndarray) -> np.ndarray:
    """Return the features that some 2 % of rows have or lack."""
    share = on.mean(0)
    return on[:, (share > 0.02) & (share < 0.98)]


def fit_rows(model: Any, batch: FeatureBatch, **options: Any) -> tuple[Any, np.ndarray]:
    """Fit one start; return what the fit leaves, and the rows' probabilities of features."""
    done = fit(model, [batch], **options)
    (local,) = done.reduce.local_states(done.iterations - 1)
    return done, local.nu[batch.row_of]


def variational(seed: int, rows: int) -> Found:
    """Fit one start of the text's variational inference."""
    codes, z = simulate_images(np.random.default_rng(seed), rows)
    begin = time.process_time()
    done, nu = fit_rows(
        make(OPTIONS), feature_batch(codes, np.full(36, 2)), seed=seed, max_iter=2000
    )
    seconds = time.process_time() - begin
    on = in_use(nu > 0.5)
    q = best_of(done.q)
    mean = with_one(nu) @ q.mean.T
    sd = np.sqrt(tilt_square(packed_moments(with_one(nu)), second_moments(q)) - mean**2)
    nodes, weight = np.polynomial.hermite_e.hermegauss(20)
    p = expit(mean[..., None] + sd[..., None] * nodes) @ (weight / weight.sum())
    white = np.full((4, 36), np.nan)
    for i in range(4):
        alone = z[:, i] & (z.sum(1) == 1)
        if alone.any():
            white[i] = p[alone].mean(0)
    return Found(on.shape[1], matched_f1(on, z), white, seconds)


def rival(seed: int, rows: int, kind: str) -> Found:
    """Factorise by NMF, or cluster by k-means, given that there are four images."""
    codes, z = simulate_images(np.random.default_rng(seed), rows)
    begin = time.process_time()
    if kind == "NMF":
        weights = NMF(4, init="nndsvda", max_iter=1000).fit_transform(codes)
        on = weights > 0.5 * weights.max(0)
    else:
        labels = KMeans(4, n_init=10, random_state=0).fit_predict(codes)
        on = labels[:, None] == np.arange(4)
    return Found(on.shape[1], matched_f1(on, z), np.empty(0), time.process_time() - begin)


def sampled(rows: int, iterations: int) -> tuple[np.ndarray, np.ndarray, list[float], float]:
    """Run the text's sampler: features, log evidence and F1 by iteration, seconds of each."""
    codes, z = simulate_images(np.random.default_rng(0), rows)
    sampler, rng = LaplaceGibbs(codes, np.full(36, 2)), np.random.default_rng(0)
    at, begin = sampler.start(rng), time.process_time()
    counts, evidence, f1 = [at.z.shape[1]], [at.log_evidence], []
    for _ in range(iterations):
        at = sampler.iterate(at, rng)
        counts.append(at.z.shape[1])
        evidence.append(at.log_evidence)
        f1.append(matched_f1(in_use(at.z)[:, :12], z))
    return np.array(counts), np.array(evidence), f1, (time.process_time() - begin) / iterations


def picture(white: np.ndarray, counts: np.ndarray, evidence: np.ndarray) -> Figure:
    """Draw the base images, what was found of each alone, and the sampler's course."""
    figure = canvas(5, 2, 1.9, 2.0)
    axes = np.array(figure.axes).reshape(2, 5)
    for line, images in zip(axes, (base_images(), white), strict=True):
        for panel, image in zip(line[:4], images, strict=True):
            panel.imshow(image.reshape(6, 6), cmap="gray", vmin=0, vmax=1)
            panel.set_xticks([])
            panel.set_yticks([])
    axes[0, 0].set_ylabel("base image", fontsize=8)
    axes[1, 0].set_ylabel("P(white), ours", fontsize=8)
    axes[0, 4].step(range(len(counts)), counts)
    axes[0, 4].set_title("features, sampler", fontsize=8)
    axes[1, 4].plot(evidence)
    axes[1, 4].set_title("log p(X | Z), sampler", fontsize=8)
    for panel in axes[:, 4]:
        panel.tick_params(labelsize=6)
    return figure


def figure_4(data: Path, quick: bool) -> Page:
    """Fit simulated images by ours, by the text's sampler and by two rivals."""
    seeds = range(1 if quick else 5)
    rows, iterations = (60, 2) if quick else (200, 40)
    ours = [variational(seed, rows) for seed in seeds]
    nmf, k_means = ([rival(seed, rows, kind) for seed in seeds] for kind in ("NMF", "k-means"))
    counts, evidence, f1, each = sampled(rows if quick else SAMPLED_ROWS, iterations)
    found = np.flatnonzero(np.array(f1) >= 0.85)
    images = base_images()
    values = {
        "ours": ours, "nmf": nmf, "k_means": k_means, "most": MOST_FEATURES,
        "four": sum(f.count == 4 for f in ours),
        "on": [np.nanmean(f.white[images]) for f in ours],
        "off": [np.nanmean(f.white[~images]) for f in ours],
        "counts": counts, "f1": f1[-1], "each": each, "iterations": iterations,
        "until": str(found[0] + 1) if found.size else f"more than {iterations}",
        "sampled_rows": SAMPLED_ROWS, "seeds": list(seeds),
    }  # fmt: skip
    return Page(values, {"ibp-figure-4.png": picture(ours[0].white, counts, evidence)})


# Table 1: shares of the three features of 20 disorders, and their independence.

HALF_A_DIGIT = 0.00005


def z_score(pair: float, product: float) -> float:
    """Return by how many standard errors a pair's share departs from independence."""
    return (pair - product) / float(np.sqrt(product * (1.0 - product) / SUBJECTS))


def nearest(pair: float, first: float, second: float) -> float:
    """Return the z-score nearest to 0 that the rounding of the three figures allows."""
    scores = [
        z_score(pair + a, (first + b) * (second + c))
        for a, b, c in product((-HALF_A_DIGIT, HALF_A_DIGIT), repeat=3)
    ]
    return 0.0 if min(scores) < 0.0 < max(scores) else min(scores, key=abs)


def table_1(data: Path, quick: bool) -> Page:
    """Make the table's products again and test the independence that it claims."""
    ((share, pairs, products),) = published("ibp-table-1")
    rows = [
        (f"feature {i + 1}", number(value, 4), NOT_SAID, NOT_SAID, NOT_SAID)
        for i, value in enumerate(share)
    ]
    wrong = []
    for at, (i, j) in enumerate(combinations(range(3), 2)):
        own = share[i] * share[j]
        z = nearest(pairs[at], share[i], share[j])
        if abs(z) > norm.isf(0.025):
            wrong.append(f"{i + 1} and {j + 1}")
        rows.append((
            f"features {i + 1} and {j + 1}", f"{number(pairs[at], 4)} / {number(products[at], 4)}",
            number(own, 5), f"{z_score(pairs[at], own):+.1f}",
            f"{z:+.1f} (p = {number(2 * norm.sf(abs(z)), 3)})",
        ))  # fmt: skip
    columns = (
        "", "published share", "ours product of the published shares", "rival binomial test, z",
        "rival the z nearest to 0 within rounding",
    )  # fmt: skip
    return Page({"wrong": wrong, "shares": table(columns, rows)})


# Tables 2 to 5: ten features of 52 criteria, alone, in pairs, as patterns.

TRUNCATION = 25
ROUNDING = 0.005


@dataclass(frozen=True)
class Published:
    """Tables 2 to 5; of table 3 [10, 10] with an empty diagonal."""

    total: np.ndarray
    single: np.ndarray
    pairs: np.ndarray
    given: np.ndarray
    patterns: np.ndarray

    @classmethod
    def read(cls) -> Published:
        """Read the tables."""
        (total, single), off_diagonal, given, patterns = published("ibp-tables-2-5")
        pairs = np.full((10, 10), np.nan)
        pairs[~np.eye(10, dtype=bool)] = np.ravel(off_diagonal)
        return cls(total, single, pairs, given, patterns)


def agreement(of: Published) -> tuple[str, list[str]]:
    """Check what in the tables follows from the others, and name what does not."""
    total, single, pairs, given = of.total, of.single, of.pairs, of.given
    upper = np.triu(np.ones((10, 10), dtype=bool), 1)
    both = np.where(upper, pairs, pairs.T)
    slack = ROUNDING * (1.0 + (total[:, None] + total) / 100.0)
    ratio = 100.0 * both / total[:, None]
    ratio_slack = 100.0 * (ROUNDING + ROUNDING * both / total[:, None]) / total[:, None] + ROUNDING
    alone = {int(np.argmax(p[2:])): p[1] for p in of.patterns if sum(p[2:]) == 1}
    counted = np.array([100.0 * alone.get(k, 0.0) / SUBJECTS for k in range(10)])
    checks = (
        ("table 3, below the diagonal: products of table 2", upper.T,
         np.abs(pairs - np.outer(total, total) / 100.0), slack),
        ("table 4: table 3 above the diagonal over table 2", ~np.eye(10, dtype=bool),
         np.abs(given - ratio), ratio_slack),
        ("table 2, single features: counts of table 5", np.isin(np.arange(10), list(alone)),
         np.abs(counted - single), np.full(10, 2 * ROUNDING)),
    )  # fmt: skip
    rows, wrong = [], []
    for name, where, gap, allowed in checks:
        bad = where & (gap > allowed + 1e-9)
        right, largest = (where & ~bad).sum(), float(gap[where].max())
        rows.append((name, str(where.sum()), str(right), number(largest)))
        wrong += [f"{name}, at {tuple(int(i) + 1 for i in at)}" for at in np.argwhere(bad)]
    columns = (
        "", "published figures", "ours: recomputed, agree within rounding",
        "ours: largest difference",
    )  # fmt: skip
    return table(columns, rows), wrong


def synthetic(data: Path, quick: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Fit rows of the SYNTHETIC set; returns features found [N, K'], true ones [N, 10], sweeps.

    As in section 5.3 of the text features of more than 80 % of the rows are flipped and those
    of too few rows left out.
    """
    file, rows = data / "features/SYNTHETIC_nesarc_like52", 400 if quick else 6000
    codes = pd.read_parquet(f"{file}.parquet").drop(columns="id", errors="ignore")
    codes = codes.to_numpy(np.int64)[:rows]
    z = pd.read_parquet(f"{file}_truth.parquet").to_numpy(bool)[:rows]
    model = PolyaGammaIBP(6 if quick else TRUNCATION, learn=False)
    batch = feature_batch(codes, np.full(codes.shape[1], 2))
    done, nu = fit_rows(model, batch, seed=0, tol=1e-6, max_iter=15 if quick else 80)
    on = nu > 0.5
    on = np.where(on.mean(0) > 0.8, ~on, on)
    on = on[:, on.sum(0) > max(50 * rows / SUBJECTS, 1)]
    return on[:, np.argsort(-on.mean(0))], z[:, np.argsort(-z.mean(0))], done.iterations


def feature_rows(of: Published, *sets: np.ndarray) -> list[tuple[str, ...]]:
    """Return table 2 of the NESARC (published) and of the SYNTHETIC set (fitted, true)."""
    columns = [[f"{a:.2f} / {b:.2f}" for a, b in zip(of.total, of.single, strict=True)]]
    for z in sets:
        alone = z & (z.sum(1) == 1)[:, None]
        shares = zip(100 * z.mean(0), 100 * alone.mean(0), strict=True)
        columns.append([f"{a:.2f} / {b:.2f}" for a, b in shares])
    most = max(map(len, columns))
    filled = [cells + [NOT_SAID] * (most - len(cells)) for cells in columns]
    return [(str(k + 1), *cells) for k, cells in enumerate(zip(*filled, strict=True))]


def summary(
    counted: np.ndarray, expected: np.ndarray, features: int, without: float, commonest: float
) -> tuple[str, ...]:
    """Return how often pairs occur, and how many rows have no feature or a common pattern."""
    return (
        str(features),
        f"{100 * without:.1f} %",
        f"{100 * np.mean(counted > expected):.0f} %",
        f"{np.median(counted / expected):.2f}",
        f"{100 * commonest:.1f} %",
    )


def summary_of(z: np.ndarray) -> tuple[str, ...]:
    """Return the summary of a set whose features are known."""
    share = z.mean(0)
    i, j = np.triu_indices(z.shape[1], 1)
    common = Counter(map(bytes, z.astype(np.uint8))).most_common(20)
    return summary(
        (z[:, i] & z[:, j]).mean(0), share[i] * share[j], z.shape[1],
        float(np.mean(~z.any(1))), sum(n for _, n in common) / len(z),
    )  # fmt: skip


def tables_2_5(data: Path, quick: bool) -> Page:
    """Check the published tables against each other; make the same summaries of synthetic rows."""
    of = Published.read()
    checks, wrong = agreement(of)
    found, true, sweeps = synthetic(data, quick)
    i, j = np.triu_indices(10, 1)
    occurrences = of.patterns[:, 1] / SUBJECTS
    theirs = summary(
        of.pairs[i, j], of.total[i] * of.total[j] / 100.0, 10, occurrences[0], occurrences.sum()
    )
    labels = (
        "features", "rows without any", "pairs above their product",
        "counted / product, median pair", "rows in the 20 commonest patterns",
    )  # fmt: skip
    names = ("published, NESARC", "ours, SYNTHETIC set, fitted", "rival: SYNTHETIC set, truth")
    summaries = zip(labels, theirs, summary_of(found), summary_of(true), strict=True)
    near = np.abs(np.corrcoef(true.T, found.T)[:10, 10:])
    return Page({
        "rows": f"{len(found):,}", "wrong": wrong, "checks": checks, "sweeps": sweeps,
        "features": table(("feature", *names), feature_rows(of, found, true)),
        "pairs": table(("", *names), summaries), "truncation": TRUNCATION,
        "met": int(np.sum(np.nanmax(near, axis=1) > 0.5)),
    })  # fmt: skip
