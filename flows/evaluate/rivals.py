"""How a model compares with others on the same rows: losses, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from flows.evaluate.estimate import Estimate, auroc, mean_of
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.terms.likelihoods import poisson_deviance

Loss = Callable[[FloatArray, FloatArray], FloatArray]
"""Loss of each row [n], of its truth [n] and what is predicted, [n] or [n, K]."""
_LEAST = 1e-15


@dataclass(frozen=True)
class Target:
    """What is predicted, and its loss; of a number it is a share of what the mean loses.

    ``mean`` gives what that predicts, of the truth [n], what the fit's mean gave each row [n] and
    the rows' weights [n].
    """

    loss: Loss
    mean: Callable[[FloatArray, FloatArray, FloatArray | float], FloatArray] | None = None


@dataclass(frozen=True)
class Rival:
    """Another model on the same rows.

    Attributes
    ----------
    name
        What it is called.
    loss
        Its mean loss; of a number the root of the mean square.
    more
        Its mean loss less the model's, of a number as a share of the mean's: above 0 the model
        is better.
    auroc
        Of two labels.
    explained
        Of a number: the share of the squares, or of the deviance, that it explains.
    """

    name: str
    loss: float
    more: Estimate
    auroc: float | None = None
    explained: float | None = None


def label_loss(truth: FloatArray, p: FloatArray) -> FloatArray:
    """Return the log loss of labels of 0 and 1, in nats."""
    p = np.clip(p, _LEAST, 1.0 - _LEAST)
    return np.asarray(-np.log(np.where(truth == 1, p, 1.0 - p)))


def class_loss(truth: FloatArray, p: FloatArray) -> FloatArray:
    """Return the log loss of classes, numbered from 0, in nats; p is [n, K]."""
    return np.asarray(-np.log(np.maximum(p[np.arange(truth.size), truth.astype(int)], _LEAST)))


def square_loss(truth: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return squares of errors."""
    return np.asarray((truth - predicted) ** 2)


LABEL, CLASSES = Target(label_loss), Target(class_loss)
NUMBER = Target(square_loss, lambda y, base, weight: np.full(y.size, (y * weight).mean()))
COUNT = Target(
    poisson_deviance,
    lambda y, base, weight: base * ((y * weight).sum() / (base * weight).sum()),
)


def compare(
    target: Target,
    truth: FloatArray,
    ours: FloatArray,
    theirs: Mapping[str, FloatArray],
    group: IntArray,
    base: FloatArray | None = None,
    weight: FloatArray | float = 1.0,
) -> tuple[Rival, ...]:
    """Compare predictions [n] or [n, K] with others' by name, those of the smallest loss first.

    Rows of one ``group`` [n] are drawn together; ``base`` [n] is what the fit's mean gives, by
    default the same; ``weight`` [n] has a mean of 1.
    """
    our_loss, unit = target.loss(truth, ours), 1.0
    if target.mean is not None:
        of_mean = target.mean(truth, np.ones(truth.size) if base is None else base, weight)
        unit = float((target.loss(truth, of_mean) * weight).mean()) or 1.0
    rivals = []
    for name, p in theirs.items():
        loss = target.loss(truth, p)
        mean, more = float((loss * weight).mean()), mean_of((loss - our_loss) / unit, group, weight)
        if target in (NUMBER, COUNT):
            rmse = float(np.sqrt((square_loss(truth, p) * weight).mean()))
            rivals.append(Rival(name, rmse, more, explained=1.0 - mean / unit))
        else:
            rivals.append(Rival(name, mean, more, auroc=auroc_of(truth, p, weight)))
    return tuple(sorted(rivals, key=lambda rival: rival.more.value))


def auroc_of(truth: FloatArray, p: FloatArray, weight: FloatArray | float = 1.0) -> float | None:
    """Return the AUROC, of classes their mean; None where there is one label only."""
    if p.ndim == 1:
        return auroc(truth.astype(int), p, weight) if 0.0 < truth.mean() < 1.0 else None
    areas = [
        auroc((truth == k).astype(int), p[:, k], weight)
        for k in range(p.shape[1])
        if 0.0 < np.mean(truth == k) < 1.0
    ]
    return float(np.mean(areas)) if areas else None
