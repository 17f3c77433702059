"""Bags drawn from MIL-GP-Probit, with ground truth."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.core.state import BoolArray, FloatArray

FREQUENCIES = 400


@dataclass(frozen=True)
class GPTruth:
    """What a simulation was made with."""

    latent: FloatArray
    probability: FloatArray
    positive: BoolArray


def simulate_gp(
    rng: np.random.Generator,
    n_bags: int = 200,
    bag_size: int = 10,
    n_features: int = 3,
    offset: float = -2.0,
    amplitude: float = 4.0,
    length_scale: float = 1.0,
) -> tuple[Bags, GPTruth]:
    """Draw bags of x ~ N(0, I) with f from an RBF Gaussian process of x / sqrt(D).

    f is drawn by random Fourier features (Rahimi and Recht 2007), so it needs no matrix over
    instances; bags have 1 to 2 ``bag_size`` - 1 instances.
    """
    sizes = rng.integers(1, 2 * bag_size, n_bags)
    x = rng.standard_normal((sizes.sum(), n_features))
    frequency = rng.standard_normal((n_features, FREQUENCIES)) / length_scale
    waves = np.cos(x @ frequency / np.sqrt(n_features) + rng.uniform(0, 2 * np.pi, FREQUENCIES))
    draws = rng.standard_normal(FREQUENCIES)
    latent = offset + np.sqrt(2.0 * amplitude / FREQUENCIES) * (waves @ draws)
    probability = ndtr(latent)
    positive = rng.random(len(x)) < probability
    bag = np.repeat(np.arange(n_bags), sizes)
    label = np.bincount(bag, weights=positive, minlength=n_bags) > 0
    data = bags([Instances.from_rows(bag, x, n_bags)], label.astype(np.int8))
    return data, GPTruth(latent, probability, positive)
