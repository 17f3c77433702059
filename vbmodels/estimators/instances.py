"""A scikit-learn transformer for the instances of bags, so that bags can go through pipelines."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_classifier import form_of
from vbmodels.estimators.bag_data import GivenBags, read_bags
from vbmodels.estimators.tables import is_frame


class InstanceTransformer(TransformerMixin, BaseEstimator):
    """Put every instance of every bag through a transformer of rows, such as PCA.

    Parameters
    ----------
    transformer
        It is fitted to the instances of all bags, one row each, without labels; where bags have
        several modalities, a copy to the instances of each.

    Attributes
    ----------
    transformers_
        The fitted transformers, one a modality.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((int(n), 5)) for n in rng.integers(2, 6, 30)]
    >>> reduced = InstanceTransformer(PCA(2)).fit_transform(X)
    >>> len(reduced), reduced[0].shape[1]
    (30, 2)
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to all instances.

        Parameters
        ----------
        X
            A list with an array [instances, features] for each bag, or a tuple or dict of such
            arrays.
        y
            Not used: a bag's label is not that of its instances.

        Raises
        ------
        ValueError
            If bags cannot be read, or there is no instance.
        """
        given = _listed(X, None)
        if not all(len(of.features) for of in given.instances):
            raise ValueError("expected bags with instances, found none in any of them")
        self.transformers_ = [clone(self.transformer).fit(of.features) for of in given.instances]
        self._given = form_of(given)
        return self

    def transform(self, X: Any) -> Any:
        """Return the bags with their instances transformed."""
        check_is_fitted(self)
        given = _listed(X, self._given)
        parts = [
            np.split(_rows(transformer, of.features), of.offsets[1:-1])
            for transformer, of in zip(self.transformers_, given.instances, strict=True)
        ]
        if given.modalities is None:
            return list(parts[0])
        return [dict(zip(given.modalities, bag, strict=True)) for bag in zip(*parts, strict=True)]


def _listed(X: Any, like: GivenBags | None) -> GivenBags:
    if is_frame(X):
        raise ValueError(
            "expected a list with an array for each bag, found a table: make bags of it first, by "
            "to_bags(table)"
        )
    return read_bags(X, like)


def _rows(transformer: Any, rows: Any) -> FloatArray:
    """Return transformed rows; where there are none, as many columns as one would have."""
    some = rows if len(rows) else np.zeros((1, rows.shape[1]))
    found: Any = transformer.transform(some)
    dense: FloatArray = np.asarray(found.toarray() if hasattr(found, "toarray") else found, float)
    return dense[: len(rows)]
