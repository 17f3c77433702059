"""Where searches of the witness begin."""

from __future__ import annotations

import numpy as np

from vbmodels.bags.gp_data import FOLDS
from vbmodels.bags.gp_features import FeatureMap
from vbmodels.bags.gp_probit import Search
from vbmodels.core.state import FloatArray, IntArray

NEAR = 4.0
"""Nats below the best evidence from which a kernel value may be the best without some bags.

In 50 folds of ten sets the largest distance of a fold's choice was 3.8.
"""


def near(q: Search) -> IntArray:
    """Return the kernel values whose evidence is near the best, for the first class."""
    evidence = q.evidence[:, 0]
    return np.flatnonzero(evidence >= evidence.max() - NEAR)


def at_values(q: Search, kernels: IntArray, classes: int) -> Search:
    """Return the start of a search over some kernel values, of so many classes."""
    return Search.start(q.features.at_values(kernels), classes)


def at_mean(features: FeatureMap, mean: FloatArray, factor: FloatArray) -> Search:
    """Return the folds' fits at one q(w), to go on to the Gaussian that is nearest to each."""
    return Search(
        features=features,
        points=np.repeat(mean[None, None], FOLDS, axis=1),
        wanted="averages",
        factor=np.empty(0),
        active=np.ones(FOLDS, dtype=bool),
        kernel=np.zeros(FOLDS, dtype=np.int64),
        precision=np.repeat(factor[None], FOLDS, axis=0),
        evidence=np.empty(0),
    )
