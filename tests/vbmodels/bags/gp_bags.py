"""Bags that the tests of the probit GP share."""

import numpy as np

from tests.vbmodels.bags.gp_simulate import simulate_gp
from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.likelihood import Points

ONE = KernelOptions(kernel="rbf", length_scales=(1.0,), amplitudes=(3.0,), n_inducing=15)


def simulated(seed: int = 0, n_bags: int = 40) -> Bags:
    return simulate_gp(np.random.default_rng(seed), n_bags, 6)[0]


def one_bag(rows, labels, sizes) -> Bags:
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return bags([Instances.from_rows(bag, np.asarray(rows, float), len(sizes))], labels)


def evaluate(features, points, batch):
    """Return the likelihood and its gradient at points [K, C, P]."""
    return Points(features, points, np.ones(points.shape[:2], bool)).sums(batch)
