"""An additive model of a number as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from vbmodels.core.options import option
from vbmodels.core.state import FloatArray
from vbmodels.estimators.base import documented, weighted
from vbmodels.estimators.effect_plots import draw_all, draw_named
from vbmodels.estimators.expert_tables import ExpertTable
from vbmodels.estimators.findings import MOST
from vbmodels.experts.additive.gaussian import GaussianAdditive, TargetRows
from vbmodels.experts.effects import Effect, PairEffect, effects_of, pair_effects_of
from vbmodels.experts.options import RARE_BELOW


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
