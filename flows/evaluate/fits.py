"""Fits of simple models that a model must beat, in one thread each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from vbmodels.core.state import FloatArray, IntArray


def class_trees(
    x: np.ndarray,
    y: IntArray,
    seed: int,
    careful: bool = True,
    weight: FloatArray | None = None,
) -> Callable[[np.ndarray], FloatArray]:
    """Return a function of new rows that gives P [n, K] by boosted trees, fitted to K classes.

    ``careful``: slower steps on fewer columns than scikit-learn's own, whose log loss on few rows
    is far worse. They take one thread, as the models do.
    """
    # Workers load this module and grow no trees: scikit-learn takes a second of CPU to load.
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings: dict[str, Any] = {}
    if careful:
        settings = {
            "learning_rate": 0.05,
            "max_features": 0.3,
            "min_samples_leaf": int(np.clip(len(y) // 4, 1, 20)),
        }
    return _with_one_thread(
        HistGradientBoostingClassifier(random_state=seed, **settings), x, y, sample_weight=weight
    )


FARTHEST = 1e100
"""Size of a number beyond which it counts as that: its square overflows."""


def within_range(x: np.ndarray) -> np.ndarray:
    """Return numbers whose squares are finite; those of 32 bits are."""
    return np.clip(x, -FARTHEST, FARTHEST) if x.dtype == np.float64 else x


def multinomial(
    x: np.ndarray, y: IntArray, weight: FloatArray | None = None
) -> Callable[[np.ndarray], FloatArray]:
    """Return a function of new rows that gives P [n, K] by ridge multinomial regression.

    On standardised columns, a missing cell at its column's mean, with scikit-learn's ridge.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    imputer = SimpleImputer(keep_empty_features=True)
    model = make_pipeline(imputer, StandardScaler(), LogisticRegression(max_iter=2000))
    return _with_one_thread(model, x, y, logisticregression__sample_weight=weight)


def _with_one_thread(
    model: Any, x: np.ndarray, y: IntArray, **weights: FloatArray | None
) -> Callable[[np.ndarray], FloatArray]:
    def predict(new: np.ndarray) -> FloatArray:
        with threadpool_limits(1):
            return np.asarray(model.predict_proba(within_range(new)))

    with threadpool_limits(1):
        model.fit(within_range(x), y, **weights)
    return predict
