"""Weights of samples: taken where they have a meaning, elsewhere refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from vbmodels.core.state import FloatArray

Method = TypeVar("Method", bound=Callable[..., Any])


def without_weights(reason: str) -> Callable[[Method], Method]:
    """Make a method refuse ``sample_weight`` and say why.

    The method's signature stays as it is: by that scikit-learn's tools see that there are no
    weights, so that bagging, say, draws rows again in place of weighing them.

    Parameters
    ----------
    reason
        Why there are none, and what to do.

    Examples
    --------
    >>> class Model:
    ...     @without_weights("a bag counts once")
    ...     def fit(self, X):
    ...         return self
    >>> Model().fit([], sample_weight=[])
    Traceback (most recent call last):
    TypeError: Model takes no sample_weight: a bag counts once
    """

    def refusing(method: Method) -> Method:
        @wraps(method)
        def called(self: Any, *args: Any, **given: Any) -> Any:
            if "sample_weight" in given:
                raise TypeError(f"{type(self).__name__} takes no sample_weight: {reason}")
            return method(self, *args, **given)

        return called  # type: ignore[return-value]

    return refusing


def weighted(X: FloatArray, y: Any, sample_weight: Any) -> tuple[FloatArray, Any, FloatArray]:
    """Return the rows that have a weight, their labels and these weights; [N, D], [N] and [N].

    Raises
    ------
    ValueError
        If weights are not as many numbers of 0 or more as rows, or all are 0.

    Examples
    --------
    >>> x, y, weight = weighted(np.ones((3, 1)), np.array([0, 1, 1]), [1.0, 0.0, 2.0])
    >>> len(x), y.tolist(), weight.tolist()
    (2, [0, 1], [1.0, 2.0])
    """
    if sample_weight is None:
        return X, y, np.ones(len(X))
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = weight > 0.0
    if not kept.any():
        raise ValueError("sample_weight: expected a weight above 0, found zeros only")
    return X[kept], y[kept], weight[kept]
