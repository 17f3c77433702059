"""Rows drawn from the model."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from scipy import stats

from flows.data import storage
from vbflows_mixture.model import Mixture
from vbmodels.core.state import FloatArray, IntArray


def simulate(
    rng: np.random.Generator, rows: int, components: int, size: int, prior: Mixture | None = None
) -> tuple[FloatArray, IntArray]:
    """Return rows [N, D] and their components [N], all from the prior."""
    prior = prior or Mixture()
    freedom = size + prior.freedom
    pi = rng.dirichlet(np.full(components, prior.alpha))
    z = rng.choice(components, rows, p=pi)
    x = np.empty((rows, size))
    for k in range(components):
        inverse0 = freedom * prior.spread * np.eye(size)
        precision = np.atleast_2d(stats.wishart.rvs(freedom, np.linalg.inv(inverse0), 1, rng))
        covariance = np.linalg.inv(precision)
        mean = rng.multivariate_normal(np.zeros(size), covariance / prior.weight0)
        own = z == k
        x[own] = rng.multivariate_normal(mean, covariance, int(own.sum()))
    return x, z


def write_rows(target: str, rows: int, seed: int) -> list[str]:
    """Write rows of four components in three columns, and their components."""
    x, z = simulate(np.random.default_rng(seed), rows, 4, 3, Mixture(weight0=0.02, freedom=10.0))
    names = [f"row-{i:07d}" for i in range(rows)]
    url = storage.join(storage.absolute(target), "rows.parquet")
    features = pa.array(x.tolist(), pa.list_(pa.float64()))
    storage.write_table(url, pa.table({"id": names, "features": features}))
    truth = storage.join(storage.absolute(target), "_truth", "components.parquet")
    storage.write_table(truth, pa.table({"id": names, "component": z}))
    return [url, truth]
