"""Counts from the model, with the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.counts import Counts


@dataclass(frozen=True)
class Truth:
    """What a simulation put in.

    Attributes
    ----------
    location, alt
        [V] variant locations and the index of their allele.
    mu_case, mu_control
        [J, 4] the alleles' rates in the two samples (0 at the reference).
    """

    location: IntArray
    alt: IntArray
    mu_case: FloatArray
    mu_control: FloatArray


def simulate(
    rng: np.random.Generator,
    *,
    n_locations: int = 400,
    n_variants: int = 14,
    vaf: float = 0.01,
    depth: int = 4000,
    n_replicates: int = 3,
    dispersion: float = 1e4,
    error_shape: float = 2.0,
    error_rate: float = 2e-4,
    type_spread: float = 0.7,
    depth_spread: float = 0.1,
) -> tuple[Counts, Truth]:
    """Draw a case and a control with the same number of replicates.

    Substitution type t has mean error rate ``error_rate`` times a log-normal of sd
    ``type_spread``; location j and allele a have mu ~ Beta(A, A / mean_t), A =
    ``error_shape``; in a variant allele of the case the rate is vaf + (1-vaf) mu. In every
    replicate theta ~ Beta(M mu, M (1-mu)), independently by allele, and the reads are
    multinomial.

    Parameters
    ----------
    rng
        Source of randomness.
    n_locations, n_variants
        Number of locations, and how many of them carry one variant allele.
    vaf
        Share of the variant allele.
    depth
        Mean reads at a location in a replicate.
    n_replicates
        Replicates of each sample.
    dispersion
        M; replicates differ the more the smaller it is.
    error_shape, error_rate, type_spread
        Shape of the error rates, their mean a substitution, spread between types.
    depth_spread
        Relative sd of the depth between locations and replicates.
    """
    if not 0 <= n_variants <= n_locations:
        raise ValueError(f"expected 0 to {n_locations} variants, got {n_variants}")
    ref = rng.integers(0, 4, n_locations).astype(np.int8)
    rank = np.arange(3)
    alts = rank + (rank >= ref[:, None])
    mean = error_rate * np.exp(type_spread * rng.standard_normal(12) - 0.5 * type_spread**2)
    kind_mean = mean[3 * ref[:, None].astype(int) + rank]
    errors = rng.beta(error_shape, error_shape * (1.0 - kind_mean) / kind_mean)
    rows = np.arange(n_locations)[:, None]
    mu_control = np.zeros((n_locations, 4))
    mu_control[rows, alts] = errors
    mu_case = mu_control.copy()
    location = np.sort(rng.choice(n_locations, n_variants, replace=False))
    alt = alts[location, rng.integers(0, 3, n_variants)]
    mu_case[location, alt] = vaf + (1.0 - vaf) * mu_case[location, alt]
    case = np.arange(2 * n_replicates) < n_replicates
    counts = np.empty((n_locations, 2 * n_replicates, 4), dtype=np.int32)
    for i, in_case in enumerate(case):
        mu = mu_case if in_case else mu_control
        reads = rng.normal(depth, depth_spread * depth, n_locations)
        total = np.maximum(np.rint(reads), 1).astype(int)
        counts[:, i] = _replicate(rng, mu, ref, total, dispersion)
    truth = Truth(location.astype(np.int64), alt.astype(np.int64), mu_case, mu_control)
    return Counts(counts, ref, case), truth


def _replicate(
    rng: np.random.Generator, mu: FloatArray, ref: np.ndarray, total: IntArray, dispersion: float
) -> np.ndarray:
    shape = np.clip(dispersion * mu, 1e-12, None), np.clip(dispersion * (1.0 - mu), 1e-12, None)
    theta = np.where(mu > 0.0, rng.beta(*shape), 0.0)
    rows = np.arange(len(ref))
    theta[rows, ref] = 0.0
    others = theta.sum(axis=1)
    theta /= np.maximum(others, 1.0)[:, None]
    theta[rows, ref] = np.maximum(1.0 - others, 0.0)
    return rng.multinomial(total, theta / theta.sum(axis=1, keepdims=True)).astype(np.int32)
