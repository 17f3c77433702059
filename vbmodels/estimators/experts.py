"""Mixtures of logistic experts as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.base import Draws, LoopEstimator, parameter
from vbmodels.estimators.tables import like
from vbmodels.estimators.weights import weighted
from vbmodels.experts.batch import Rows
from vbmodels.experts.coded import CodedRows, basis_of
from vbmodels.experts.columns import (
    FURTHEST,
    LARGEST,
    SPARSE,
    ColumnSums,
    cell_keys,
    scaled,
    too_large,
)
from vbmodels.experts.forms import make
from vbmodels.experts.knots import RowSample, coded
from vbmodels.experts.options import ExpertOptions, refusal
from vbmodels.experts.posterior import METHODS
from vbmodels.experts.published.metropolis import SampledExperts


@dataclass(eq=False, repr=False)
class MixtureOfExperts(ClassifierMixin, ExpertOptions, LoopEstimator):
    """A mixture of logistic experts with softmax gates, for two classes.

    The models are those of the pipeline ``experts``: `vbmodels.experts.additive` (the default),
    `vbmodels.experts.marginal`, `vbmodels.experts.published.cavi` and
    `vbmodels.experts.published.metropolis`. With more than two classes put it into
    scikit-learn's ``OneVsRestClassifier``. Columns are brought to mean 0 and standard deviation 1
    here, but for those of 0 and 1; columns with one value are left out, in new rows too; tables
    of few nonzero cells are kept sparse. "additive" holds cells at six standard deviations.

    Parameters
    ----------
    n_experts
        K; 1 is Bayesian logistic regression. "marginal" falls back to it where no mixture
        predicts held-out rows better by more than one standard error. "additive": the most
        experts, of which half are tried too; 1 is the additive part alone, which stands where no
        mixture beside it is better. None: 10 (additive) or 5.
    inference
        "additive": a line and steps for each column, with experts beside them where they predict
        held-out rows better; "marginal": the responsible expert summed out, several starts
        averaged; "cavi": coordinate ascent on bounds; "mh": Metropolis-Hastings, for few columns.
    prior
        "gaussian", or the mutual angular priors "mabn1" (mh) and "mabn2", which keep experts
        apart.
    select
        "cv": the number of experts is chosen up to ``n_experts`` by held-out rows (additive,
        marginal).
    gate_bound
        Bound on the gates' softmax, "bohning" or "bouchard" (cavi).
    tau
        Precision of the weights' prior; None: chosen by held-out rows (additive, marginal)
        or 1.
    shared
        Whether the experts' prior has a common mean; None: chosen by held-out rows (marginal).
    kappa
        Concentration of the angular priors.
    omega
        Weight of the angular regulariser Omega (additive, marginal; cavi with the Gaussian prior).
    alpha1, alpha2
        Shape and rate of the lengths' Gamma under an angular prior (cavi, mh).
    learn_lengths
        Whether these are learned by EM during warmup (mh).
    chains, warmup, draws, thin
        Of mh: chains, first evaluations thrown away, draws kept of each chain, and evaluations
        from one to the next; None takes as many as move every gate in every way.
    restarts
        Starts that are averaged (additive, marginal).
    predict_by
        "plug_in", "mackay" or "monte_carlo": how the posterior enters predictions; mh averages
        over its draws.
    class_weight
        "balanced", weights by class, or None (additive, marginal, cavi).
    standardise
        Whether columns are brought to mean 0 and standard deviation 1.
    tol
        additive, marginal: rise of the objective, in nats a row, that ends a search; cavi: relative
        tolerance on the rise of the bound to come.
    max_iter
        Most evaluations of all rows.
    n_partitions
        Parts that the rows are cut into; with a client, take at least as many as it has workers.
    random_state
        Seed of the starts; an integer means what ``seed`` means to the pipeline.
    client
        Where to fit: None for this process, a ``distributed.Client``, the address of a Dask
        scheduler, or an executor (`vbmodels.estimators.executors`).

    Attributes
    ----------
    classes_
        The two labels.
    n_experts_
        Experts of the fit, after hold-out; 1 where the additive part stands alone.
    expert_means_, expert_sds_
        Posterior means and standard deviations of the experts' weights, [n_experts_, columns
        + 1], the intercept last, on the scaled columns; those of the best start. "additive":
        what experts add to the additive part, on the columns' quantiles (of up to 12 columns on
        their lines and steps); of one expert, the additive part itself, lines first, then steps.
    gate_means_, gate_sds_
        The same of the gates.
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

    predict_by: str = parameter("plug_in", [StrOptions(set(METHODS))])
    class_weight: Any = parameter(None, [StrOptions({"balanced"}), dict, None])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X
            Numbers, [rows, columns]: an array, a SciPy sparse matrix, which is made dense, or a
            pandas, polars or Arrow table.
        y
            Two classes, [rows].
        sample_weight
            How many rows each stands for in the likelihood, [rows] (additive, marginal, cavi);
            None: one. Scales, folds, knots and starts go by rows all the same, so that only under
            cavi a weight of two is two rows to the last digit. Rows of weight 0 are left out.

        Raises
        ------
        ValueError
            If a parameter is out of its range, cells are not finite numbers, or there are not
            two classes.
        """
        self._validate_params()
        wrong = refusal(self)
        if wrong:
            raise ValueError(wrong)
        X, y = self._table(X, y, reset=True, dtype=np.float64, order="C", ensure_min_samples=2)
        if sample_weight is not None and self.inference == "mh":
            raise ValueError("sample_weight goes with inference additive, marginal or cavi, not mh")
        X, y, share = weighted(X, y, sample_weight)
        self.classes_, code = self._coded(y)
        t: FloatArray = np.where(code == 1, 1.0, -1.0)
        sums = ColumnSums.of(X, t)
        self.centre_, self.scale_ = sums.scaling(self.standardise)
        self._sparse = sums.density(self.centre_) < SPARSE
        self._basis = None
        if self.inference == "additive":
            self._basis = basis_of(
                RowSample.of(X, cell_keys(X)),
                (self.centre_, self.scale_),
                sums.binary | sums.constant,
                self._sparse,
                FURTHEST if self.standardise else np.inf,
            )
        weight = share * self._class_weights(y)[code]
        key = np.arange(len(y))
        batches = [
            self._rows(X[part], t[part], key[part], weight[part])
            for part in np.array_split(key, min(self.n_partitions, len(y)))
        ]
        model = make(self, baseline_beside=False)
        self.posterior_ = model.posterior(self._run(model, batches))
        one = self.posterior_.components[0]
        self.gate_means_, self.expert_means_ = one.mean
        self.gate_sds_, self.expert_sds_ = one.sd
        self.n_experts_ = len(self.expert_means_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes, [rows, 2]."""
        one = self._predicted(X).probability
        return np.column_stack([1.0 - one, one])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log odds of the second class, [rows]."""
        batch = self._unlabelled(X)
        odds: FloatArray = self.posterior_.log_odds(batch, self.predict_by)
        return odds

    def predict(self, X: Any) -> Any:
        """Return the more probable class, [rows]."""
        second = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[second.astype(int)]

    def responsibilities(self, X: Any) -> Any:
        """Return each expert's share of every row by the gates, in the kind of table of ``X``."""
        share = self._predicted(X).responsibility
        return like(X, {f"expert_{k + 1}": column for k, column in enumerate(share)})

    def _predicted(self, X: Any) -> Any:
        batch = self._unlabelled(X)
        return self.posterior_.predict(batch, self.predict_by)

    def _unlabelled(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._table(X, reset=False, dtype=np.float64, order="C")
        return self._rows(X, np.zeros(len(X)), cell_keys(X), np.ones(len(X)))

    def _rows(
        self, X: FloatArray, t: FloatArray, key: IntArray, weight: FloatArray
    ) -> Rows | CodedRows:
        x = scaled(X, self.centre_, self.scale_)
        found = too_large(x)
        if found:
            row, column = found
            raise ValueError(
                f"expected cells within {LARGEST:g} after scaling, got {X[row, column]:g} in "
                f"column {column}: give the column in another unit, or leave it out"
            )
        if self._basis is None:
            return Rows.of(x, t, key, weight, self._sparse, cell_keys(X))
        x = np.clip(x, -self._basis.limit, self._basis.limit)
        rows = Rows.of(x, t, key, weight, self._sparse, cell_keys(X))
        return CodedRows(rows, coded(X, self._basis.knots), self._basis)

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
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}."
            )
        if len(classes) < 2:
            raise ValueError(f"expected rows of two classes, got one class: {classes[0]!r}")
        return classes, code

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        dims = {name: [f"{name}_number", "column"] for name in ("gate", "expert")}
        if isinstance(self.model_, SampledExperts):
            kept = self.q_.draws
            return {name: kept[:, :, r] for r, name in enumerate(("gate", "expert"))}, dims
        one = self.posterior_.components[0]
        if one.covariance is None:
            noise = rng.standard_normal((count, *one.mean.shape))
            drawn = one.mean + one.sd * noise
        else:
            jitter = 1e-12 * np.eye(one.mean.shape[-1])
            factor = np.linalg.cholesky(one.covariance + jitter)
            noise = rng.standard_normal((count, *one.mean.shape))
            drawn = one.mean + np.einsum("rkij,srkj->srki", factor, noise)
        return {name: drawn[None, :, r] for r, name in enumerate(("gate", "expert"))}, dims
