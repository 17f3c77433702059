"""Probabilities of labels."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from vbflows_logistic.model import Global
from vbmodels.core import linalg
from vbmodels.core.state import FloatArray


def probability(q: Global, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return P(y = 1), and the mean and sd of its logit, [N] each.

    The mean of logistic(psi) over psi ~ N(m, s^2) is near logistic(m / sqrt(1 + pi s^2 / 8))
    (MacKay 1992, "The evidence framework applied to classification networks").
    """
    mean = x @ q.w.mean
    variance = (linalg.solve_lower(q.w.factor, x.T) ** 2).sum(axis=0)
    return expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)), mean, np.sqrt(variance)
