"""What is told of a row: its component, and its density."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from vbflows_mixture.model import Global
from vbmodels.core import linalg
from vbmodels.core.state import FloatArray


def log_densities(q: Global, x: FloatArray) -> FloatArray:
    """Return the log of share times predictive density of every component, [N, K].

    A component's predictive density is Student's t with shape + 1 - D degrees of freedom (Bishop
    2006, (10.81) and (10.82)).
    """
    size = x.shape[1]
    freedom = q.shape + 1.0 - size
    scale = freedom * q.weight / (1.0 + q.weight)  # L_k = scale W_k
    half = linalg.solve_lower(q.factor, np.broadcast_to(np.eye(size), q.factor.shape))
    distance = np.stack(
        [((x @ h.T - h @ m) ** 2).sum(axis=1) for h, m in zip(half, q.mean, strict=True)], axis=1
    )
    log_det = size * np.log(scale) - linalg.log_det(q.factor)
    norm = gammaln(0.5 * (freedom + size)) - gammaln(0.5 * freedom)
    norm = norm + 0.5 * (log_det - size * np.log(np.pi * freedom))
    tail = 0.5 * (freedom + size) * np.log1p(scale / freedom * distance)
    return np.log(q.conc / q.conc.sum()) + norm - tail


def told(q: Global, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probability of every component, [N, K], and the log density of every row, [N]."""
    parts = log_densities(q, x)
    density: FloatArray = logsumexp(parts, axis=1)
    return np.exp(parts - density[:, None]), density
