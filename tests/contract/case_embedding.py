"""The row of the embedding of bags."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr

from tests.contract import ends
from tests.contract.case_milgp import unlabelled
from tests.vbmodels.bags.joined import concatenate
from vbmodels.bags.bags import Bags, Instances, bags, split
from vbmodels.bags.embedding.block_variances import log_prior
from vbmodels.bags.embedding.model import EmbeddingModel
from vbmodels.bags.embedding.predict import predict_bags
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import Agreement, Best, Case, Evidence, Extremes, Recovery, Sampler


def drawn(seed: int, n: int) -> tuple[Bags, FloatArray]:
    """Bags whose chance of the label 1 rises with the mean of a feature and the max of another."""
    rng = np.random.default_rng([seed, 17])
    bag = np.repeat(np.arange(n), rng.integers(1, 7, n))
    rows = rng.standard_normal((bag.size, 3))
    mean = np.bincount(bag, rows[:, 0]) / np.bincount(bag)
    starts = np.searchsorted(bag, np.arange(n))
    high = np.maximum.reduceat(rows[:, 1], starts)
    chance = ndtr(1.5 * mean + high - 0.7)
    label = (rng.random(n) < chance).astype(np.int8)
    return bags([Instances.from_rows(bag, rows, n)], label), chance


def batches(seed: int, parts: int) -> list[Bags]:
    return split(drawn(seed, 60)[0], parts)


def tiny(seed: int) -> list[Bags]:
    """Six bags, both labels among them."""
    data, _ = drawn(seed, 6)
    return split(bags(data.modalities, [0, 1, 0, 1, 1, 0]), 2)


def kernel(q: Any, data: Bags) -> FloatArray:
    """Prior covariance of f, from the blocks' columns."""
    columns = q.map.columns(data)
    return (columns * q.block_variance) @ columns.T


def log_evidence(data: Sequence[Bags]) -> float:
    """P(y) is the chance that N(0, K + I), turned by the labels, is positive throughout."""
    q = fit(MODEL, data, max_iter=3000).q
    whole = concatenate(data)
    turned = np.outer(whole.sign, whole.sign) * (kernel(q, whole) + np.eye(whole.n_bags))
    zeros = np.zeros(whole.n_bags)
    return float(np.log(stats.multivariate_normal.cdf(zeros, zeros, turned)) + log_prior(q.at))


def sampled(data: Sequence[Bags], rng: np.random.Generator) -> FloatArray:
    """Scores of all bags by Gibbs sampling (Albert and Chib 1993), [chain, draw, B]."""
    q = fit(MODEL, data, max_iter=3000).q
    whole = concatenate(data)
    prior = kernel(q, whole) + 1e-9 * np.eye(whole.n_bags)
    cov = prior - prior @ np.linalg.solve(prior + np.eye(len(prior)), prior)
    half = np.linalg.cholesky(cov + 1e-10 * np.eye(len(cov)))
    chains = []
    for _ in range(4):
        f, kept = rng.standard_normal(len(cov)), []
        for i in range(9000):
            low = ndtr(-whole.sign * f)
            away = stats.norm.ppf(low + (1.0 - low) * rng.random(len(f)))
            z = f + whole.sign * np.clip(away, -8.0, 8.0)
            f = cov @ z + half @ rng.standard_normal(len(f))
            if i >= 1000 and i % 4 == 0:
                kept.append(f)
        chains.append(kept)
    return np.array(chains)


def moments(q: Any, _: Any) -> tuple[FloatArray, FloatArray]:
    mean, variance = q.marginals(q.map.columns(batches(0, 1)[0]))
    return mean, np.sqrt(variance)


def error(seed: int) -> float:
    """Root mean square error of the probabilities of 300 other bags."""
    data, _ = drawn(seed, 300)
    new, chance = drawn(seed + 100, 300)
    q = fit(EmbeddingModel(), split(data, 2), max_iter=3000).q
    return float(np.sqrt(np.mean((predict_bags(q, new).probability - chance) ** 2)))


def probabilities(model: Any, q: Any, batch: Bags, *_: Any) -> FloatArray:
    return predict_bags(q, batch).probability


MODEL = EmbeddingModel(gathered=8, rise=1e-3)
"""Variances by some of the bags, then by all; `test_embedding` checks the same the other way."""

CASE = Case(
    name="bag_embedding",
    model=lambda: MODEL,
    calibration="Its landmarks are chosen by label, so its prior cannot be drawn from before them.",
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=ends.tables_of_bags,
        empty=ends.no_bags,
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement=Agreement(
        published=probabilities, scored=probabilities, hidden=unlabelled, tol=1e-8, atol=1e-10
    ),
    global_step="sites are no maximum of a bound: test_ep.py checks the slope by differences",
    local_step="a site matches moments and maximises nothing: test_ep.py checks the moments",
    monte_carlo="EP's evidence is no expectation under q: item 6 compares it with the exact one",
    evidence=Evidence(log_evidence=log_evidence, largest_gap=0.05, strict=False),
    sampler=Sampler(
        draws=sampled,
        moments=moments,
        mean_tolerance=0.1,
        sd_ratio=(0.85, 1.1),
        largest_r_hat=1.03,
    ),
    recovery=Recovery(error=error, tolerance=0.16, seeds=(0, 1, 2)),
    best=Best(phase=lambda q: "sweeps", max_iter=2000),
    sweeps=8,
    resume_sweeps=4,
    seeds=(0,),
    rise_rtol=1e-6,
    partition_rtol=1e-8,
    slow=frozenset({"sampler"}),
    thorough=frozenset({"partition"}),
)
