"""A number for each bag: blocks of bag features in one Gaussian."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from vbmodels.bags.bags import UNLABELLED, split, with_targets
from vbmodels.bags.embedding.contributions import contributions
from vbmodels.bags.embedding.number import NumberModel, Numbers, predict_numbers
from vbmodels.bags.multilabel import ONE_GROUP
from vbmodels.core.options import LARGEST
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_data import form_of, read_bags
from vbmodels.estimators.bags import FEATURE, feature_table
from vbmodels.estimators.base import (
    LoopEstimator,
    documented,
    warn_of_columns,
    without_weights,
)
from vbmodels.estimators.findings import largest, lines_of
from vbmodels.estimators.tables import is_missing, values_of


@documented
@dataclass(eq=False, repr=False)
class BagRegressor(RegressorMixin, LoopEstimator):
    """A number for each bag, by what the bag is as a whole.

    The model is `vbmodels.bags.embedding.number`: pooled features and kernels of the instances, in
    blocks with variances of their own by the evidence, all in closed form.

    Attributes
    ----------
    noise_sd_
        Standard deviation of the number around its prediction.
    blocks_
        Names of the blocks that `reasons` has a column for; the last is the constant.
    features_
        What an sd of each feature's summaries in a bag adds to the number, with 95 % intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((5, 2)) for _ in range(120)]
    >>> y = [10.0 + 3.0 * bag[:, 0].mean() + bag[:, 1].max() for bag in X]
    >>> found = BagRegressor(random_state=0).fit(X[:80], y[:80])
    >>> bool(found.score(X[80:], y[80:]) > 0.8)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags

    @without_weights("the likelihood counts every bag once; repeat a bag that counts for several")
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Bags; see `vbmodels.estimators.bag_data.read_bags`.
        y
            The bags' numbers, [bags]; None, NaN or NA: not known. A table may have them in its
            column ``label`` instead.
        groups
            What each bag is of, such as a patient, [bags]; or the table's column ``group``.

        Raises
        ------
        ValueError
            If a parameter is out of its range, a bag cannot be read, or fewer than two different
            numbers are known.
        """
        self._validate_params()
        self._given = read_bags(X)
        warn_of_columns(self._given.left_out, 5)
        labels = self._given.labels if y is None else values_of(y)
        if labels is None or len(labels) != len(self._given.ids):
            raise ValueError(
                f"expected a number for each of the {len(self._given.ids)} bags, found "
                f"{'none' if labels is None else len(labels)}"
            )
        target = np.array([np.nan if is_missing(one) else float(one) for one in labels])
        if np.any(np.abs(target) > LARGEST):
            raise ValueError(f"expected numbers of at most {LARGEST:g} in size (rescale them)")
        if np.unique(target[~np.isnan(target)]).size < 2:
            raise ValueError("expected numbers that differ, found fewer than two")
        data = with_targets(self._given.grouped([UNLABELLED] * len(labels), groups, target), target)
        self._groups = len(np.unique(data.group))
        if self._groups == 1:
            warnings.warn(ONE_GROUP, stacklevel=5)
        self._bags = int(np.count_nonzero(~np.isnan(target))), len(target)
        self._run(NumberModel(sample_seed=self._seed()), split(data, self.n_partitions))
        self._given = form_of(self._given)
        self.blocks_ = [*self.q_.map.names(), "constant"]
        self.noise_sd_ = float(self.q_.scale * np.sqrt(self.q_.noise.rate / self.q_.noise.shape))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the number of every bag, [bags]; with ``return_std`` and its sd, two of them."""
        found = self._numbers(X)
        return (found.mean, found.sd) if return_std else found.mean

    def predict_interval(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the 95 % interval of every bag's number, two of [bags]."""
        found = self._numbers(X)
        return found.low, found.high

    def reasons(self, X: Any) -> FloatArray:
        """Return what each of ``blocks_`` adds to a bag's number, [bags, blocks].

        They sum to the prediction less the mean of the fitted numbers.
        """
        return self._numbers(X).shares

    def contributions(self, X: Any) -> Any:
        """Return what each instance adds to its bag's number, in the form of the bags."""
        check_is_fitted(self)
        given = read_bags(X, self._given)
        adds = contributions(self.q_, given.bags())
        return given.give_back([self.q_.scale * one for one in adds])

    @property
    def features_(self) -> Any:
        """What each feature adds to a bag's number, by name."""
        check_is_fitted(self)
        return feature_table(self.q_, self._given, self.q_.scale)

    def _numbers(self, X: Any) -> Numbers:
        check_is_fitted(self)
        return predict_numbers(self.q_, read_bags(X, self._given).bags())

    def _found(self) -> str:
        labelled, bags = self._bags
        return (
            f"{bags} bags, {labelled} with a number of mean {self.q_.centre:.4g} and sd "
            f"{self.q_.scale:.4g}; noise sd {self.noise_sd_:.4g}."
        )

    def _weights(self) -> list[str]:
        found = largest(self.features_, FEATURE)
        return ["Most informative features (what an sd adds, 95 %):", *lines_of(found)]

    def _compared(self, X: Any, y: Any) -> str:
        found = self._numbers(X)
        true = np.array([np.nan if is_missing(one) else float(one) for one in values_of(y)])
        known = ~np.isnan(true)
        true, mean, low, high = (v[known] for v in (true, found.mean, found.low, found.high))
        rmse, base = (float(np.sqrt(np.mean((true - one) ** 2))) for one in (mean, self.q_.centre))
        inside = float(np.mean((true > low) & (true < high)))
        return (
            f"{len(true)} new bags: RMSE {rmse:.4g} (the mean of the fit {base:.4g}); "
            f"{inside:.0%} within their 95 % interval."
        )
