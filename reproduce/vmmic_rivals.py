"""Rivals of vMMIC: logistic regressions on bags and on instances.

Each takes training bags and returns what predicts new ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.posterior import Prediction

Fitted = Callable[[Bags], Prediction]
Methods = dict[str, Callable[[Bags], Fitted]]


def blocks(data: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return all instances in one matrix, modalities in blocks, zeros elsewhere, and their bags."""
    widths = [m.n_features for m in data.modalities]
    starts = np.cumsum([0, *widths])
    x = np.zeros((data.n_instances, starts[-1]))
    first = 0
    for k, m in enumerate(data.modalities):
        x[first : first + len(m.features), starts[k] : starts[k + 1]] = m.features
        first += len(m.features)
    return x, np.concatenate([m.bag for m in data.modalities])


def means(some: Bags) -> np.ndarray:
    """Return each bag's mean features."""
    columns = []
    for m in some.modalities:
        sums = [np.bincount(m.bag, x, some.n_bags) for x in m.features.T]
        columns.append(np.array(sums).T / np.maximum(m.sizes, 1)[:, None])
    return np.hstack(columns)


def pooled(data: Bags) -> Fitted:
    """Logistic regression on each bag's mean features (scikit-learn, its defaults)."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(means(data), data.label)
    return lambda new: Prediction(model.predict_proba(means(new))[:, 1], (), ())


def single(data: Bags) -> Fitted:
    """Logistic regression on instances that carry their bag's label; a bag is their mean."""
    x, bag = blocks(data)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(x, data.label[bag])

    def predicted(new: Bags) -> Prediction:
        x, bag = blocks(new)
        p = model.predict_proba(x)[:, 1]
        size = np.maximum(np.bincount(bag, minlength=new.n_bags), 1)
        ends = np.cumsum([len(m.features) for m in new.modalities])[:-1]
        return Prediction(np.bincount(bag, p, new.n_bags) / size, tuple(np.split(p, ends)), ())

    return predicted


RIVALS: Methods = {"mean-pooled logistic": pooled, "single-instance logistic": single}
