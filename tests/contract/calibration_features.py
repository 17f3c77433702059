"""Calibration of features: hidden cells of tables drawn from the prior, and the sampler."""

import numpy as np
from scipy.special import expit

from flows.features.settings import FeatureSettings
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features import forms as feature_models
from vbmodels.features.table import feature_batch
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings

BIAS = 10.0
LEVELS = np.array([2, 2, 2, 2, 3, 3])


def table(
    rng: np.random.Generator, rows: int, levels: IntArray, k: int
) -> tuple[IntArray, float, float, FloatArray]:
    """Draw a table with every hyperparameter from its prior: codes, alpha, variance, psi."""
    alpha, variance = rng.gamma(1.0), 1.0 / rng.gamma(1.0)
    pi = np.cumprod(rng.random(k) ** (1.0 / alpha))  # v ~ Beta(alpha, 1)
    z = rng.random((rows, k)) < pi
    units = int((levels - 1).sum())
    weights = np.sqrt(variance) * rng.standard_normal((units, k))
    psi = np.sqrt(BIAS) * rng.standard_normal(units) + z @ weights.T
    on, first = rng.random(psi.shape) < expit(psi), 0
    codes = np.zeros((rows, len(levels)), np.int64)
    for d, r in enumerate(levels):
        codes[:, d] = np.cumprod(on[:, first : first + r - 1], axis=1).sum(1)
        first += r - 1
    return codes, alpha, variance, psi


def variational(rng: np.random.Generator) -> Readings:
    """The probability of every category but the first of a hidden cell, a tenth of the table."""
    settings = FeatureSettings()
    codes, *_ = table(rng, 40, LEVELS, settings.n_features)
    hidden = rng.random(codes.shape) < 0.1
    batch = feature_batch(np.where(hidden, -1, codes), LEVELS)
    model = feature_models.make(settings)
    done = fit(
        model, [batch], seed=int(rng.integers(2**31)), tol=settings.tol, max_iter=settings.max_iter
    )
    found = feature_models.apply(model, done.q, batch, settings)
    true = codes[found.rows, found.columns]
    scored = (np.arange(3) > 0) & (np.arange(3) < LEVELS[found.columns][:, None])
    right = true[:, None] == np.arange(3)
    return {"hidden cells": Forecast(found.cells[scored], right[scored])}


VARIATIONAL = (
    Calibration(
        form="features, variational",
        run=variational,
        bounds={
            "hidden cells": Bounds(
                large=(-0.02, 0.02),
                slope=(0.8, 1.15),
                bins=0.1,
                measured="150 runs of the mixture: -.001 +- .005, slope 1.05 +- .03",
            )
        },
        few=3,
    ),
)
