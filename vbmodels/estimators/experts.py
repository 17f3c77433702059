"""Rows of tables: mixtures of logistic experts, and an additive model of a number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from vbmodels.core.draws import inference_data, load_arviz
from vbmodels.core.options import option
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.base import (
    MOST,
    classified,
    documented,
    intervals,
    largest,
    lines_of,
    parameter,
    weighted,
)
from vbmodels.estimators.effect_plots import draw, spread_lines
from vbmodels.estimators.expert_tables import ExpertTable, RowLabels
from vbmodels.experts.additive.gaussian import GaussianAdditive
from vbmodels.experts.additive.one_vs_rest import ClassRows, SeveralPosterior
from vbmodels.experts.bmem.metropolis import SampledExperts
from vbmodels.experts.effects import Effect, PairEffect, effects_of, pair_effects_of
from vbmodels.experts.forms import (
    has_process,
    landmarks_for,
    make,
    make_several,
    names_of,
    weights_of,
)
from vbmodels.experts.options import RARE_BELOW, ExpertTuning, refusal
from vbmodels.experts.posterior import unweighted
from vbmodels.experts.shared_rows import units_of
from vbmodels.experts.terms.step_rows import TargetRows
from vbmodels.tables.frames import like


@documented
@dataclass(eq=False, repr=False)
class MixtureOfExperts(ClassifierMixin, ExpertTuning, ExpertTable):
    """A mixture of logistic experts with softmax gates, for two classes or more.

    The models are those of the pipeline ``experts``: `vbmodels.experts.additive.model` (the
    default), `vbmodels.experts.bmem.model` and `vbmodels.experts.bmem.metropolis`. With more than
    two classes each has a fit against the rest, side by side, and they share a row in proportion
    (`vbmodels.experts.additive.one_vs_rest`; "additive"). Columns are brought to mean 0 and
    standard deviation 1 here, but for those of 0 and 1; columns with one value are left out, in
    new rows too; tables of few nonzero cells are kept sparse. "additive" holds cells at six
    standard deviations.

    Tables are taken as they come, by the rules of the command (`vbmodels.tables.columns`): text may
    be numbers with decimal commas, currencies, percent or units, dates, yes or no, and words for
    missing cells. A missing number is the mean, and a further column says where that is. Words for
    yes and no are 1 and 0, dates are days since 1970-01-01. All else, and what a table calls
    categorical, are categories: each level has a column of 0 and 1, but for rare ones, which are
    the reference, as levels are that the fit never saw (a warning counts them). Columns that name
    or describe their rows (an id, free text) are left out with a warning.

    Attributes
    ----------
    classes_
        The labels, sorted.
    n_experts_
        Experts of the fit, after hold-out; 1 where the additive part is used alone. Of several
        classes this and the next four are tuples, one for each class.
    expert_means_, expert_sds_
        Posterior means and standard deviations of the experts' weights, [n_experts_, columns
        + 1], the intercept last, on the scaled columns; those of the best start. "additive":
        what experts add to the additive part, on the columns' quantiles (of up to 12 columns on
        their lines and steps); of one expert, the additive part itself, lines first, then curves.
    gate_means_, gate_sds_
        The same of the gates.
    columns_
        Data frame of the table's columns, as ``vbflows check`` prints it: name, what each is read
        as, its missing cells, what it holds, and whether it is used or why not.
    coefficients_
        Data frame of the additive part ("additive"): column, or function of its curve
        ("age (curve 1)", the smoothest first), posterior mean and standard deviation of its
        coefficient, 95 % interval. Of several classes with their ``label``.
    experts_
        Data frame of every expert's weights and its gate's, of the best start: expert, role,
        column, mean, sd, low, high.
    centre_, scale_
        What is taken off every column, and what it is divided by: infinity where it has one
        value in the fit, so that it counts for nothing, in new rows either.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0)  # no one line parts these
    >>> found = MixtureOfExperts(2, random_state=0).fit(X, y)
    >>> bool(found.score(X, y) > 0.9)
    True
    """

    class_weight: Any = parameter(
        None,
        [StrOptions({"balanced"}), dict, None],
        '"balanced", weights by class, or None (additive, cavi): what `predict` goes by.',
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.inference == "additive"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X
            Numbers, categories, dates, yes or no, [rows, columns]: an array, a SciPy sparse matrix,
            which is made dense, or a pandas, polars or Arrow table. None, NaN, pandas' NA and an
            empty text are missing cells.
        y
            Two classes or more, [rows].
        sample_weight
            How many rows each counts as in the likelihood, [rows] (additive, cavi);
            None: one. Scales, folds, knots and starts go by rows all the same, so that only under
            cavi a weight of two is two rows to the last digit. Rows of weight 0 are left out.

        Raises
        ------
        ValueError
            If a parameter is out of its range, a number is infinite, some cells of a column are
            numbers or dates and others are not, or there is one class.
        """
        self._validate_params()
        wrong = refusal(self)
        if wrong:
            raise ValueError(wrong)
        raw, y = self._raw(X, y)
        if sample_weight is not None and self.inference == "mh":
            raise ValueError("sample_weight is for inference additive or cavi, not mh")
        if self.inference == "mh":
            load_arviz()  # what diagnoses the draws: missed before they are made
        raw, y, share = weighted(raw, y, sample_weight)
        self.classes_, code = self._coded(y)
        several = len(self.classes_) > 2
        model = make_several(self) if several else make(self)
        t: FloatArray = np.where(code == 1, 1.0, -1.0)
        raw, keys = self._kept(raw)
        X, sums = self._designed(raw, t)
        units, copied = units_of(keys, code)
        self._basis, copies = None, 1.0
        if self.inference == "additive":
            copies = self._based(
                raw,
                (X, keys, sums),
                RowLabels(code, len(self.classes_)),
                partial(landmarks_for, has_process(self), False, *X.shape),
                copied,
            )
        self._class_weight = self._class_weights(y)
        weight = share * self._class_weight[code] / copies
        batches: list[Any] = self._partitions(raw, t, units, weight)
        if self.inference == "additive":
            batches = [replace(rows, copies=copies) for rows in batches]
        if several:
            pairs = zip(batches, np.array_split(code, len(batches)), strict=True)
            batches = [ClassRows(rows, labels, len(self.classes_)) for rows, labels in pairs]
        self._share = np.bincount(code, minlength=len(self.classes_)) / len(code)
        self._keep(model.posterior(self._run(model, batches)))
        return self

    @property
    def coefficients_(self) -> Any:
        """The additive part's coefficients by name."""
        return self._named_weights(True, ("column",))

    @property
    def experts_(self) -> Any:
        """The experts' and gates' weights by name."""
        return self._named_weights(False, ("expert", "role", "column"))

    def _named_weights(self, shared: bool, names: tuple[str, ...]) -> Any:
        """Return the weights of the additive part, or of the experts, named by these columns."""
        lines = [name for column in self._encoded for name in column.names]
        constant = [name for name, s in zip(lines, self.scale_, strict=True) if np.isinf(s)]
        parts: list[Any] = [self.posterior_]
        if isinstance(self.posterior_, SeveralPosterior):
            parts = list(self.posterior_.parts)
        labelled = [
            (label, weight)
            for label, part in zip(self.classes_[-len(parts) :], parts, strict=True)
            for weight in weights_of(part, names_of(part, lines, self._basis))
            if (weight.expert == 0) == shared and weight.column not in constant
        ]
        weights = [weight for _, weight in labelled]
        named: dict[str, Any] = {name: [getattr(w, name) for w in weights] for name in names}
        if len(parts) > 1:
            named = {"label": [label for label, _ in labelled], **named}
        return intervals(named, [w.mean for w in weights], [w.sd for w in weights])

    def _found(self) -> str:
        counts = ", ".join(
            f"{label} {100.0 * share:.3g} %"
            for label, share in zip(self.classes_, self._share, strict=True)
        )
        used = sum(not column.left_out for column in self._columns)
        text = f"{used} of {len(self._columns)} columns used; classes {counts}."
        experts = self.n_experts_ if isinstance(self.n_experts_, tuple) else (self.n_experts_,)
        if self.inference == "additive" and not len(self.experts_):
            return f"{text} No mixture beat the additive model on held-out rows; it is used alone."
        return f"{text} Experts: {', '.join(map(str, experts))}."

    def _weights(self) -> list[str]:
        if self.inference == "additive":
            rest = " against the rest" if len(self.classes_) > 2 else ""
            of_class = f" of {self.classes_[-1]}{rest}"
            head = f"What moves the log odds{of_class} most (standard deviation over rows):"
            return [head, *spread_lines(*self._effects(None), MOST)]
        head = f"Largest weights (log odds of {self.classes_[1]} for each standard deviation of a "
        head += "column, of a category 1 against the reference, 95 %):"
        table = self.coefficients_ if len(self.coefficients_) else self.experts_
        return [head, *lines_of(largest(table, ("label", "expert", "role", "column")))]

    def _compared(self, X: Any, y: Any) -> str:
        return classified(self, X, y, self._share)

    def plot(self, ax: Any = None, column: Any = None, label: Any = None) -> Any:
        """Draw what columns add to the log odds, with 95 % bands, on matplotlib's axes.

        A number is a curve over its data's range, with ticks at its quantiles, a category has a
        bar for every level; an effect is less its mean over rows. A pair of columns is a heat map
        of what both add beyond that.

        Parameters
        ----------
        ax
            Axes to draw on, or in whose place; None makes a figure.
        column
            A column's name, or a pair of names; None draws the largest of all on one scale.
        label
            Of several classes, that whose log odds against the rest are drawn; None: the last.

        Returns
        -------
        axes
            Those drawn on; of all columns an array.

        Raises
        ------
        ValueError
            If the inference is not "additive": ``experts_`` has the weights of the others.
        """
        check_is_fitted(self)
        if self.inference != "additive":
            raise ValueError(
                f"expected inference additive for pictures of columns, got {self.inference}: "
                "experts_ has its weights"
            )
        return draw(*self._effects(label), column, ax, "log odds")

    def _effects(self, label: Any) -> tuple[tuple[Effect, ...], tuple[PairEffect, ...]]:
        """Return the effects of the additive form, of a class against the rest."""
        posterior = self.posterior_
        if isinstance(posterior, SeveralPosterior):
            labels = self.classes_.tolist()
            if label is not None and label not in labels:
                listed = ", ".join(map(str, labels))
                raise ValueError(f"label: expected one of {listed}, got {label!r}")
            posterior = posterior.parts[-1 if label is None else labels.index(label)]
        how = self._encoded, (self.centre_, self.scale_), self._basis
        return effects_of(posterior.additive, *how), pair_effects_of(posterior.pairs, *how)

    def _keep(self, posterior: Any) -> None:
        """Keep a posterior, its means and standard deviations; of several classes in tuples."""
        self.posterior_ = posterior
        several = isinstance(posterior, SeveralPosterior)
        ones = [part.components[0] for part in (posterior.parts if several else [posterior])]

        def of_classes(values: list[Any]) -> Any:
            return tuple(values) if several else values[0]

        self.gate_means_, self.expert_means_ = (
            of_classes([o.mean[r] for o in ones]) for r in (0, 1)
        )
        self.gate_sds_, self.expert_sds_ = (of_classes([o.sd[r] for o in ones]) for r in (0, 1))
        self.n_experts_: Any = of_classes([o.mean.shape[1] for o in ones])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, [rows, classes], corrected for class_weight."""
        return unweighted(self._weighted(X), self._class_weight)

    def _weighted(self, X: Any) -> FloatArray:
        """Return the classes' shares of each row as fitted, in proportion to weight and P."""
        check_is_fitted(self)
        if isinstance(self.posterior_, SeveralPosterior):
            return self.posterior_.probabilities(self._unlabelled(X))
        positive = self._predicted(X).probability
        return np.column_stack([1.0 - positive, positive])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log odds of the second class, [rows]; of several, log p, [rows, classes]."""
        batch = self._unlabelled(X)
        if isinstance(self.posterior_, SeveralPosterior):
            return np.asarray(np.log(self.posterior_.probabilities(batch)))
        return np.asarray(self.posterior_.log_odds(batch))

    def predict(self, X: Any) -> Any:
        """Return the class of the largest probability times class_weight, [rows]."""
        best = np.argmax(self._weighted(X), axis=1)
        return self.classes_[best]

    def responsibilities(self, X: Any) -> Any:
        """Return each expert's share of every row by the gates, in the kind of table of ``X``.

        Of several classes the columns are named by the class's number too: ``class_1_expert_2``.
        """
        check_is_fitted(self)
        if isinstance(self.posterior_, SeveralPosterior):
            batch = self._unlabelled(X)
            named = {
                f"class_{c + 1}_expert_{k + 1}": column
                for c, part in enumerate(self.posterior_.parts)
                for k, column in enumerate(part.predict(batch).responsibility)
            }
            return like(X, named)
        share = self._predicted(X).responsibility
        return like(X, {f"expert_{k + 1}": column for k, column in enumerate(share)})

    def _predicted(self, X: Any) -> Any:
        check_is_fitted(self)
        posterior: Any = self.posterior_
        return posterior.predict(self._unlabelled(X))

    def _class_weights(self, y: Any) -> FloatArray:
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        for label, weight in zip(self.classes_.tolist(), weights, strict=True):
            if not 0.0 < weight < np.inf:
                raise ValueError(
                    f"class_weight: expected a positive number for each class, got {weight:g} for "
                    f"{label!r}: a fit needs rows of both classes, so give it a small weight"
                )
        return np.asarray(weights, np.float64)

    def _coded(self, y: Any) -> tuple[Any, IntArray]:
        check_classification_targets(y)
        if type_of_target(y, input_name="y") not in ("binary", "multiclass"):
            raise ValueError(f"expected one label a row, got {type_of_target(y)}")
        classes, code = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"expected rows of two classes, got one class: {classes[0]!r}")
        return classes, code

    def to_arviz(self) -> Any:
        """Return a sampler's draws (mh) as ArviZ's ``InferenceData``; ArviZ 1: a ``DataTree``.

        Raises
        ------
        ValueError
            If the inference is not "mh": other forms draw nothing.
        """
        check_is_fitted(self)
        if not isinstance(self.model_, SampledExperts):
            raise ValueError(f"expected inference mh for draws, got {self.inference}")
        named = {name: self.q_.draws[:, :, r] for r, name in enumerate(("gate", "expert"))}
        return inference_data(named, {name: [f"{name}_number", "column"] for name in named})


@documented
@dataclass(eq=False, repr=False)
class AdditiveRegressor(RegressorMixin, ExpertTable):
    """A number as the sum of a curve for each column, surfaces for pairs, and a Gaussian process.

    The model is `vbmodels.experts.additive.gaussian`: each block has a variance of its own by the
    evidence, pairs are screened and weighed by held-out rows, and all is in closed form. A Gaussian
    process of all columns has the share `process_weight_` of predictions. Tables are read as by
    `MixtureOfExperts`. `plot` shows what columns and pairs add, which has the other share: all of a
    prediction with ``gaussian_process=False``.

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
    process_weight_
        Share of the Gaussian process in predictions, by held-out rows; 0 for none.
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
    gaussian_process: bool = option(
        True,
        "Whether a Gaussian process of all columns together may have a share of predictions, where "
        "held-out rows say that it surely helps (up to 50,000 rows).",
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
        y = (y - self.mean_) / self.sd_
        units, copied = units_of(keys, y)
        copies = self._based(
            raw,
            (X, keys, sums),
            RowLabels(np.zeros(len(y), np.int64), 1, y),
            partial(landmarks_for, self.gaussian_process, True, *X.shape),
            copied,
        )
        parts = self._partitions(raw, t, units, weight / copies)
        rows = [replace(part, copies=copies) for part in parts]
        cut = np.array_split(y, len(rows))
        batches = [TargetRows(part, target) for part, target in zip(rows, cut, strict=True)]
        model = GaussianAdditive(self.pairs)
        q = self._run(model, batches)
        self.posterior_ = model.posterior(q)
        self.noise_sd_ = float(np.sqrt(self.posterior_.noise)) * self.sd_
        self.process_weight_ = self.posterior_.weight
        self.r2_ = float(1.0 - q.chosen.errors[-1] / q.chosen.errors[0])
        return self

    def _numbers(self, y: Any) -> FloatArray:
        try:
            numbers = np.asarray(column_or_1d(y), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"expected numbers as target ({error}): for classes take MixtureOfExperts"
            ) from error
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise ValueError(f"expected finite numbers as target, got {numbers[row]} in row {row}")
        return numbers

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted number of every row, [rows].

        With ``return_std`` also the standard deviation of a new row's number around it: larger
        where a number is missing, by what its column adds.
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
        return draw(*self._effects(), column, ax, "added to the target")

    def _effects(self) -> tuple[tuple[Effect, ...], tuple[PairEffect, ...]]:
        """Return what columns and pairs add, in the target's unit."""
        part, how = self.posterior_.part, (self._encoded, (self.centre_, self.scale_), self._basis)
        effects = [effect.times(self.sd_) for effect in effects_of(part, *how)]
        pairs = [pair.times(self.sd_) for pair in pair_effects_of(part, *how)]
        return tuple(effects), tuple(pairs)

    def _found(self) -> str:
        used = sum(not column.left_out for column in self._columns)
        return (
            f"{used} of {len(self._columns)} columns used; R2 {self.r2_:.3f} on rows held out of "
            f"the choice of form, standard deviation of the rest {self.noise_sd_:.4g}."
        )

    def _weights(self) -> list[str]:
        head = "What moves the target most (standard deviation over rows):"
        return [head, *spread_lines(*self._effects(), MOST)]

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
