"""Multiple-instance classifiers: which bags are positive, and which instances make them so.

Bags are no table of numbers, so what scikit-learn's checks ask of such a table (a common
width, NaN, sparse input, one row and all that) does not apply to these two; all that they ask
of parameters, cloning, storing and tags does.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from vbmodels.bags.choice import LENGTHS, ChosenVMMIC
from vbmodels.bags.collapsed import CollapsedVMMIC
from vbmodels.bags.gp_direct import DirectGP
from vbmodels.bags.gp_kernel import KernelOptions
from vbmodels.bags.gp_predict import predict as predict_gp
from vbmodels.bags.gp_probit import CollapsedGP
from vbmodels.bags.posterior import predict
from vbmodels.bags.priors import Priors
from vbmodels.bags.published.vmmic import MeanFieldVMMIC
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_classifier import BagClassifier
from vbmodels.estimators.base import LOOP_CONSTRAINTS, Draws, positive

HEURISTIC_AMPLITUDE = 3.0


class MultimodalMIC(BagClassifier):
    """Multimodal multiple-instance classification: two probit regressions (vMMIC).

    Parameters
    ----------
    inference
        "collapsed": all local variables integrated out; "mean_field": coordinate ascent.
    prior_scale
        collapsed: "learned": each block's prior scale with the fit; "evidence",
        "cross_validation": one for all, the best of ``slope_lengths``; "fixed":
        ``slope_variance``, as mean_field always takes.
    intercept_mean, intercept_variance, slope_mean, slope_variance
        Of the normal priors.
    slope_length
        learned: squared length of a block of slopes that is expected beforehand.
    slope_lengths, folds
        The grid, and the folds of cross_validation.
    standardise
        Whether features are brought to mean 0 and standard deviation 1.
    tol, max_iter, n_partitions, random_state, client
        See `vbmodels.estimators.experts.MixtureOfExperts`.

    Attributes
    ----------
    classes_
        The two labels.
    coef_means_, coef_sds_
        Posterior means and standard deviations of all coefficients, on scaled features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((5, 2)) for _ in range(80)]
    >>> y = [int((bag[:, 0] > 1.0).any()) for bag in X]  # one instance makes a bag positive
    >>> found = MultimodalMIC(random_state=0).fit(X, y)
    >>> bool(found.score(X, y) > 0.8), found.predict_instance_proba(X)[0].shape
    (True, (5,))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "inference": [StrOptions({"collapsed", "mean_field"})],
        "prior_scale": [StrOptions({"learned", "evidence", "cross_validation", "fixed"})],
        "intercept_mean": [Real],
        "intercept_variance": [positive()],
        "slope_mean": [Real],
        "slope_variance": [positive()],
        "slope_length": [positive()],
        "slope_lengths": ["array-like"],
        "folds": [Interval(Integral, 2, 100, closed="both")],
        "standardise": ["boolean"],
        **LOOP_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        inference: str = "collapsed",
        prior_scale: str = "learned",
        intercept_mean: float = 0.0,
        intercept_variance: float = 16.0,
        slope_mean: float = 0.0,
        slope_variance: float = 4.0,
        slope_length: float = 8.0,
        slope_lengths: Any = LENGTHS,
        folds: int = 5,
        standardise: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_partitions: int = 1,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self.inference = inference
        self.prior_scale = prior_scale
        self.intercept_mean = intercept_mean
        self.intercept_variance = intercept_variance
        self.slope_mean = slope_mean
        self.slope_variance = slope_variance
        self.slope_length = slope_length
        self.slope_lengths = slope_lengths
        self.folds = folds
        self.standardise = standardise
        self.tol = tol
        self.max_iter = max_iter
        self.n_partitions = n_partitions
        self.random_state = random_state
        self.client = client

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model; see `BagClassifier.fit`."""
        super().fit(X, y)
        self.posterior_ = self.model_.posterior(self.q_)
        self.coef_means_, self.coef_sds_ = self.posterior_.moments()
        return self

    def _model(self) -> Any:
        collapsed = self.inference == "collapsed"
        if not collapsed and self.prior_scale in ("evidence", "cross_validation"):
            raise ValueError(f"expected inference collapsed with prior_scale {self.prior_scale}")
        priors = Priors(
            intercept_mean=self.intercept_mean,
            intercept_variance=self.intercept_variance,
            slope_mean=self.slope_mean,
            slope_variance=self.slope_variance,
            learn=collapsed and self.prior_scale != "fixed",
            rate=self.slope_length,
        )
        if not collapsed:
            return MeanFieldVMMIC(priors, self.standardise)
        model = CollapsedVMMIC(priors, self.standardise)
        if self.prior_scale in ("fixed", "learned"):
            return model
        folds = self.folds if self.prior_scale == "cross_validation" else 0
        return ChosenVMMIC(model, tuple(self.slope_lengths), folds)

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        found = predict(self.posterior_.draws(), self.posterior_.scaling, data)
        return found.bag, found.instances

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        parts = self.posterior_.components
        which = rng.integers(len(parts), size=count)
        noise = rng.standard_normal((count, len(self.coef_means_)))
        drawn = np.stack(
            [parts[c].mean + parts[c].spread(z[None])[0] for c, z in zip(which, noise, strict=True)]
        )
        return {"coef": drawn[None]}, {"coef": ["coefficient"]}


class MILGPClassifier(BagClassifier):
    """A probit Gaussian process of instances; a bag is positive when one of them is (MIL-GP).

    Parameters
    ----------
    inference
        "direct": a search for the mode of the collapsed bound, then a Gaussian; "collapsed":
        coordinate ascent, with heuristic kernel parameters.
    kernel
        "linear", "rbf", "exponential", "matern32", "matern52", a sum such as "linear+rbf", or
        "auto": linear for rows of length 1 (TF-IDF), else rbf.
    kernel_params
        "optimise": length scale and amplitude from a grid by evidence (direct); "heuristic".
    n_inducing
        Inducing points; None: 50.
    linear_prior
        "auto", "independent" or "correlated": prior of the linear kernel's weights.
    posterior
        "auto", "laplace" or "gaussian" (direct).
    standardise
        Whether features become z-scores; None: unless rows have length 1.
    tol, max_iter, n_partitions, random_state, client
        See `vbmodels.estimators.experts.MixtureOfExperts`.

    Attributes
    ----------
    classes_
        The two labels.
    weight_means_, weight_sds_
        Posterior means and standard deviations of the weights w of the kernel's features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((4, 2)) for _ in range(60)]
    >>> y = [int((bag[:, 0] > 1.0).any()) for bag in X]
    >>> found = MILGPClassifier(n_inducing=20, random_state=0).fit(X, y)
    >>> bool(found.score(X, y) > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "inference": [StrOptions({"direct", "collapsed"})],
        "kernel": [str],
        "kernel_params": [StrOptions({"optimise", "heuristic"})],
        "n_inducing": [Interval(Integral, 1, 5000, closed="both"), None],
        "linear_prior": [StrOptions({"auto", "independent", "correlated"})],
        "posterior": [StrOptions({"auto", "laplace", "gaussian"})],
        "standardise": ["boolean", None],
        **LOOP_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        inference: str = "direct",
        kernel: str = "auto",
        kernel_params: str = "optimise",
        n_inducing: int | None = None,
        linear_prior: str = "auto",
        posterior: str = "auto",
        standardise: bool | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_partitions: int = 1,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self.inference = inference
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.n_inducing = n_inducing
        self.linear_prior = linear_prior
        self.posterior = posterior
        self.standardise = standardise
        self.tol = tol
        self.max_iter = max_iter
        self.n_partitions = n_partitions
        self.random_state = random_state
        self.client = client

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model; see `BagClassifier.fit`."""
        super().fit(X, y)
        self.posterior_ = self.model_.posterior(self.q_)
        self.weight_means_ = self.posterior_.mean[0]
        half = np.linalg.inv(self.posterior_.factor[0])
        self.weight_sds_ = np.sqrt((half**2).sum(axis=0))
        return self

    def _model(self) -> Any:
        given: dict[str, Any] = {
            "kernel": self.kernel,
            "n_inducing": self.n_inducing,
            "standardise": self.standardise,
            "sample_seed": self._seed(),
            "linear_prior": self.linear_prior,
        }
        one_value: dict[str, Any] = {"length_scales": (1.0,), "amplitudes": (HEURISTIC_AMPLITUDE,)}
        if self.inference == "collapsed":
            return CollapsedGP(KernelOptions(**given, **one_value))
        grid: dict[str, Any] = {} if self.kernel_params == "optimise" else one_value
        form: Any = self.posterior
        return DirectGP(KernelOptions(**given, **grid), posterior_form=form)

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        (found,) = predict_gp(self.posterior_, data)
        return found.bag_probability, (found.probability,)

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        noise = rng.standard_normal((count, len(self.weight_means_)))
        away = np.linalg.solve(self.posterior_.factor[0].T, noise.T).T
        return {"weight": (self.weight_means_ + away)[None]}, {"weight": ["point"]}
