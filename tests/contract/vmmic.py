"""vMMIC from its generative model alone: data, densities and the exact evidence."""

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from vbmodels.bags.bags import Bags, Instances, bags, split
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.state import FloatArray

VARIANCE = 0.25
PRIORS = Priors(learn=False, intercept_variance=VARIANCE, slope_variance=VARIANCE)


def simulate(seed: int, n: int, sizes: Sequence[int], width: int = 1, own: int = 0) -> Bags:
    """Draw bags with about ``sizes[k]`` instances of modality k; some have none."""
    rng = np.random.default_rng(seed)
    own_features = rng.normal(size=(n, own))
    score = 0.2 + own_features.sum(1)
    parts = []
    for k, size in enumerate(sizes):
        bag = np.repeat(np.arange(n), rng.integers(max(size - 1, 0), size + 2, n))
        x = rng.normal(3.0 * k, 1.0 + k, (bag.size, width))
        scaled = (x - 3.0 * k) / (1.0 + k)
        delta = rng.random(bag.size) < stats.norm.cdf(scaled.sum(1) - 0.3)
        score += np.bincount(bag, delta * scaled.sum(1) * (1.0 - 0.5 * k), minlength=n)
        parts.append(Instances.from_rows(bag, x, n))
    label = (rng.random(n) < stats.norm.cdf(score)).astype(np.int8)
    label[:2] = 0, 1
    return bags(parts, label, own_features)


def whole(batches: Sequence[Bags]) -> tuple[list[FloatArray], list[FloatArray], FloatArray]:
    """Return z-scored features and bag numbers of each modality, and the labels."""
    labels = np.concatenate([b.label for b in batches])
    features, numbers = [], []
    for k in range(len(batches[0].modalities)):
        x = np.concatenate([b.modalities[k].features for b in batches])
        features.append((x - x.mean(0)) / x.std(0))
        first = np.cumsum([0, *(b.n_bags for b in batches)])
        numbers.append(
            np.concatenate([b.modalities[k].bag + f for b, f in zip(batches, first, strict=False)])
        )
    return features, numbers, labels


def log_prior(t: FloatArray) -> FloatArray:
    return stats.norm.logpdf(t, 0.0, np.sqrt(VARIANCE)).sum(-1)


def log_likelihood(t: FloatArray, batches: Sequence[Bags]) -> FloatArray:
    """log p(y | t) for t [S, dim] by enumeration of every bag's indicators."""
    return np.sum(bag_log_likelihoods(t, batches), axis=0)


def bag_log_likelihoods(t: FloatArray, batches: Sequence[Bags]) -> list[FloatArray]:
    features, numbers, labels = whole(batches)
    widths = [x.shape[1] for x in features]
    ends = np.cumsum([1, *widths])
    slopes = [t[:, a:b] for a, b in itertools.pairwise(ends)]
    gates, at = [], ends[-1]
    for width in widths:
        gates.append((t[:, at], t[:, at + 1 : at + 1 + width]))
        at += 1 + width
    found = []
    for i, label in enumerate(labels):
        score, up, down = [], [], []
        for x, bag, beta, (a, b) in zip(features, numbers, slopes, gates, strict=True):
            for row in x[bag == i]:
                score.append(beta @ row)
                up.append(stats.norm.logcdf(a + b @ row))
                down.append(stats.norm.logcdf(-a - b @ row))
        terms = []
        for delta in itertools.product((0, 1), repeat=len(score)):
            mu, weight = t[:, 0].copy(), np.zeros(len(t))
            for on, s, p, q in zip(delta, score, up, down, strict=True):
                mu += on * s
                weight += p if on else q
            terms.append(weight + stats.norm.logcdf((1.0 if label else -1.0) * mu))
        found.append(logsumexp(terms, axis=0))
    return found


def quadrature(dim: int, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Hermite points and log weights of the prior N(0, VARIANCE I)."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    points = np.array(list(itertools.product(x, repeat=dim))) * np.sqrt(VARIANCE)
    weights = np.array(list(itertools.product(np.log(w / w.sum()), repeat=dim))).sum(1)
    return points, weights


def log_evidence(batches: Sequence[Bags]) -> float:
    """log p(y) with one feature in one modality: t = (alpha, beta, a, b) by quadrature."""
    points, weights = quadrature(4, 16)
    return float(logsumexp(weights + log_likelihood(points, batches)))


def batches(seed: int, parts: int) -> list[Bags]:
    return split(simulate(seed, 40, (3, 1)), parts)


def tiny(seed: int) -> list[Bags]:
    return split(simulate(seed, 6, (2,)), 2)
