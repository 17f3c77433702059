"""Regressors of numbers: of bags, by blocks of their features; of rows, by an additive model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from vbmodels.bags.bags import UNLABELLED, split, with_targets
from vbmodels.bags.embedding.contributions import contributions
from vbmodels.bags.embedding.number import NumberModel, Numbers, predict_numbers
from vbmodels.bags.multilabel import ONE_GROUP
from vbmodels.core.options import LARGEST, option
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_data import form_of, read_bags
from vbmodels.estimators.bags import FEATURE, feature_table
from vbmodels.estimators.base import (
    MOST,
    STACKED,
    LoopEstimator,
    documented,
    largest,
    lines_of,
    warn_of_columns,
    weighted,
    without_weights,
)
from vbmodels.estimators.effect_plots import draw_all, draw_named
from vbmodels.estimators.expert_tables import ExpertTable
from vbmodels.experts.additive.gaussian import GaussianAdditive
from vbmodels.experts.additive.step_rows import TargetRows
from vbmodels.experts.effects import Effect, PairEffect, effects_of, pair_effects_of
from vbmodels.experts.options import RARE_BELOW
from vbmodels.tables.frames import is_missing, values_of


@documented
@dataclass(eq=False, repr=False)
class AdditiveRegressor(RegressorMixin, ExpertTable):
    """A number as the sum of a curve for each column and of surfaces for pairs of columns.

    The model is `vbmodels.experts.additive.gaussian`: each block has a variance of its own by the
    evidence, pairs are screened and weighed by held-out rows, and all is in closed form. Tables
    are read as by `MixtureOfExperts`. What columns and pairs add is all there is to a prediction:
    `plot` shows it whole.

    Attributes
    ----------
    columns_
        Data frame of the table's columns: name, what each is read as, its missing cells, what it
        holds, and whether it is used or why not.
    centre_, scale_
        What is taken off every column, and what it is divided by.
    mean_, sd_
        Those of the target in the fit.
    noise_sd_
        Standard deviation of the target around its expectation: by held-out rows, less what the
        coefficients are uncertain by.
    r2_
        Share of the target's variance that is explained, on rows held out while the form was
        chosen; those chose it, so it is a little too large.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> y = np.abs(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(300)
    >>> found = AdditiveRegressor().fit(X[:200], y[:200])
    >>> bool(found.score(X[200:], y[200:]) > 0.9)
    True
    """

    pairs: bool = option(
        True, "Whether pairs of columns may join, where they predict held-out rows better."
    )
    standardise: bool = option(
        True,
        "Whether columns are brought to mean 0 and standard deviation 1; columns of 0 and 1 stay "
        "as they are.",
    )
    max_levels: int = option(
        100,
        "Most levels of a category with a column of their own; the least frequent of more join "
        "the reference.",
        ge=2,
        le=1000,
    )
    rare_below: int = option(
        RARE_BELOW,
        "Levels of a category with fewer cells are joined to the reference; from so many missing "
        "cells on a column says where they are.",
        ge=1,
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Numbers, categories, dates, yes or no, [rows, columns]; see `MixtureOfExperts`.
        y
            Finite numbers, [rows].
        sample_weight
            How many rows each counts as, [rows]; None: one. Rows of weight 0 are left out.

        Raises
        ------
        ValueError
            If a parameter is out of its range, a number is infinite, or the target has one value.
        """
        self._validate_params()
        raw, y = self._raw(X, y)
        raw, y, weight = weighted(raw, y, sample_weight)
        weight = weight / weight.mean()
        y = self._numbers(y)
        t = np.ones(len(y))
        raw, keys = self._kept(raw)
        X, sums = self._designed(raw, t)
        self.mean_ = float(np.average(y, weights=weight))
        away = y - self.mean_
        unit = float(np.abs(away).max()) or 1.0  # whose square neither overflows nor vanishes
        self.sd_ = unit * float(np.sqrt(np.average((away / unit) ** 2, weights=weight)))
        if np.ptp(y) == 0.0 or self.sd_ == 0.0:
            raise ValueError(f"expected a target with several values, got {y[0]:g} in every row")
        copies = self._based(raw, (X, keys, sums), None)
        rows = [
            replace(one, copies=copies) for one in self._partitions(X, t, keys, weight / copies)
        ]
        cut = np.array_split((y - self.mean_) / self.sd_, len(rows))
        batches = [TargetRows(one, own) for one, own in zip(rows, cut, strict=True)]
        model = GaussianAdditive(self.pairs)
        q = self._run(model, batches)
        self.posterior_ = model.posterior(q)
        self.noise_sd_ = float(np.sqrt(self.posterior_.noise)) * self.sd_
        self.r2_ = float(1.0 - q.chosen.errors[-1] / q.chosen.errors[0])
        return self

    def _numbers(self, y: Any) -> FloatArray:
        try:
            found = np.asarray(column_or_1d(y), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"expected numbers as target ({error}): for classes take MixtureOfExperts"
            ) from error
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found))[0])
            raise ValueError(f"expected finite numbers as target, got {found[row]} in row {row}")
        return found

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted number of every row, [rows].

        With ``return_std`` also the standard deviation of a new row's number around it.
        """
        check_is_fitted(self)
        mean, sd = self.posterior_.predict(self._unlabelled(X))
        mean = self.mean_ + self.sd_ * mean
        return (mean, self.sd_ * sd) if return_std else mean

    def plot(self, ax: Any = None, column: Any = None) -> Any:
        """Draw what columns and pairs add to the target, with 95 % bands, on matplotlib's axes.

        Parameters
        ----------
        ax
            Axes to draw on, or in whose place; None makes a figure.
        column
            A column's name, or a pair of names; None draws the largest of all on one scale.

        Returns
        -------
        axes
            Those drawn on; of all columns an array.
        """
        check_is_fitted(self)
        effects, pairs = self._effects()
        if column is None:
            return draw_all(effects, pairs, ax, "added to the target")
        return draw_named(effects, pairs, column, ax, "added to the target")

    def _effects(self) -> tuple[tuple[Effect, ...], tuple[PairEffect, ...]]:
        """Return what columns and pairs add, in the target's unit."""
        part, how = self.posterior_.part, (self._encoded, (self.centre_, self.scale_), self._basis)
        effects = [one.times(self.sd_) for one in effects_of(part, *how)]
        pairs = [one.times(self.sd_) for one in pair_effects_of(part, *how)]
        return tuple(effects), tuple(pairs)

    def _found(self) -> str:
        used = sum(not one.left_out for one in self._columns)
        return (
            f"{used} of {len(self._columns)} columns used; R2 {self.r2_:.3f} on rows held out of "
            f"the choice of form, standard deviation of the rest {self.noise_sd_:.4g}."
        )

    def _weights(self) -> list[str]:
        effects, pairs = self._effects()
        moved = [(one.column, one.spread) for one in effects]
        moved += [(" and ".join(one.columns), one.spread) for one in pairs]
        moved = sorted(moved, key=lambda one: -one[1])[:MOST]
        width = max((len(name) for name, _ in moved), default=0)
        head = "What moves the target most (standard deviation over rows):"
        return [head, *(f"  {name:<{width}}  {spread:.3g}" for name, spread in moved)]

    def _compared(self, X: Any, y: Any) -> str:
        y = self._numbers(y)
        error, base = y - self.predict(X), y - self.mean_
        gain = base**2 - error**2
        around = float(np.sum((y - y.mean()) ** 2))
        rest = 1.0 - float(np.sum(error**2)) / around if around else np.nan
        sure = 1.96 * gain.std(ddof=1) / np.sqrt(len(y)) if len(y) > 1 else np.inf
        better = "better" if gain.mean() > sure else "not surely better"
        return (
            f"On {len(y)} rows: RMSE {np.sqrt(np.mean(error**2)):.4g}, of the mean in the fit "
            f"{np.sqrt(np.mean(base**2)):.4g}, R2 {rest:.3f}; {better}."
        )


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

    input_kinds = STACKED

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
