"""Multiple-instance classifiers: which bags are positive, and which instances make them so.

Bags are no table of numbers, so what scikit-learn's checks ask of such a table (a common
width, NaN, sparse input, one row and all that) does not apply to these two; all that they ask
of parameters, cloning, storing and tags does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vbmodels.bags.mil_gp.fit import DirectGP
from vbmodels.bags.mil_gp.kernel import KernelOptions
from vbmodels.bags.mil_gp.predict import predict as predict_gp
from vbmodels.bags.options import GPOptions, VMMICOptions
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.options import option
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_classifier import OF_BAGS, BagClassifier
from vbmodels.estimators.base import Draws, documented
from vbmodels.estimators.findings import draw, intervals, largest, lines_of
from vbmodels.estimators.weights import without_weights


@documented
@dataclass(eq=False, repr=False)
class MultimodalMIC(VMMICOptions, BagClassifier):
    """Multimodal multiple-instance classification: two probit regressions (vMMIC).

    Attributes
    ----------
    classes_
        The two labels.
    coef_means_, coef_sds_
        Posterior means and standard deviations of all coefficients, on scaled features.
    coefficients_
        The same as a data frame: role (what an instance adds to its bag's score, or what makes it
        count), modality, feature, mean, sd, and the 95 % interval from low to high.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((5, 2)) for _ in range(80)]
    >>> y = [int((bag[:, 0] > 1.0).any()) for bag in X]  # one instance makes a bag positive
    >>> found = MultimodalMIC(random_state=0).fit(X, y)
    >>> bool(found.score(X, y) > 0.8), found.predict_instance_proba(X)[0].shape
    (True, (5,))
    """

    inference: Literal["collapsed", "mean_field"] = option(
        "collapsed",
        "collapsed: all local variables integrated out; mean_field: coordinate ascent.",
    )
    standardise: bool = option(True, "Whether features become z-scores.")

    @without_weights(OF_BAGS)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model; see `BagClassifier.fit`."""
        super().fit(X, y, groups)
        self.posterior_ = self.model_.posterior(self.q_)
        self.coef_means_, self.coef_sds_ = self.posterior_.moments()
        return self

    @property
    def coefficients_(self) -> Any:
        """The coefficients by name."""
        layout, given = self.posterior_.scaling.layout.plain, self._given
        modalities = given.modalities or ("",) * len(layout.features)
        features = [
            [f"f{j + 1}" for j in range(size)] if len(given.columns) != size else given.columns
            for size in layout.features
        ]
        parts = list(zip(modalities, features, strict=True))
        rows = [("score", "", "intercept")]
        rows += [("score", "", f"bag feature {j + 1}") for j in range(layout.own)]
        rows += [("score", name, feature) for name, own in parts for feature in own]
        rows += [("counts", name, f) for name, own in parts for f in ("intercept", *own)]
        named = dict(zip(("role", "modality", "feature"), zip(*rows, strict=True), strict=True))
        return intervals(named, self.coef_means_, self.coef_sds_)

    def _largest(self) -> Any:
        return largest(self.coefficients_, ("role", "modality", "feature"))

    def _weights(self) -> list[str]:
        return ["Largest coefficients (of scaled features, 95 %):", *lines_of(self._largest())]

    def plot(self, ax: Any = None) -> Any:
        """Draw the largest coefficients with 95 % intervals on matplotlib's axes; return these."""
        check_is_fitted(self)
        return draw(self._largest(), ax, "coefficient, with 95 % interval")

    def _model(self) -> Any:
        collapsed = self.inference == "collapsed"
        priors = Priors(
            intercept_variance=self.intercept_variance,
            slope_variance=self.slope_variance,
            learn=collapsed,
            rate=self.slope_length,
            gate=self.gate_variance,
        )
        if not collapsed:
            return MeanFieldVMMIC(priors, self.standardise)
        return CollapsedVMMIC(priors, self.standardise, kept_variance=self.kept_variance)

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        found = predict(self.posterior_.draws(), self.posterior_.scaling, data)
        return found.bag, found.instances

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        drawn = self.posterior_.coefficients(count, rng)
        return {"coef": drawn[None]}, {"coef": ["coefficient"]}


@dataclass(eq=False, repr=False)
class ProcessOptions(GPOptions):
    """Options of the Gaussian process of instances that the Python models have."""

    kernel_params: Literal["heuristic", "optimise"] = option(
        "optimise",
        "optimise: length scale and amplitude from a grid by evidence; heuristic: 1 and 3.",
    )
    linear_prior: Literal["auto", "independent", "correlated"] = option(
        "auto",
        "Prior of the linear kernel's weights. correlated: words of the same rows have similar "
        "weights; auto: correlated for rows of length 1 (TF-IDF), else independent.",
    )

    def _kernel(self, standardise: bool | None, seed: int) -> KernelOptions:
        one_value: dict[str, Any] = {"length_scales": (1.0,), "amplitudes": (3.0,)}
        return KernelOptions(
            kernel=self.kernel,
            n_inducing=self.n_inducing,
            standardise=standardise,
            sample_seed=seed,
            linear_prior=self.linear_prior,
            leak=self.leak,
            label_noise=self.label_noise,
            **(one_value if self.kernel_params == "heuristic" else {}),
        )


@documented
@dataclass(eq=False, repr=False)
class MILGPClassifier(ProcessOptions, BagClassifier):
    """A probit Gaussian process of instances; a bag is positive when one of them is (MIL-GP).

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

    standardise: bool | None = option(
        None, "Whether features become z-scores; None: unless rows have length 1."
    )

    @without_weights(OF_BAGS)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model; see `BagClassifier.fit`."""
        super().fit(X, y, groups)
        self.posterior_ = self.model_.posterior(self.q_)
        self.weight_means_ = self.posterior_.mean[0]
        half = np.linalg.inv(self.posterior_.factor[0])
        self.weight_sds_ = np.sqrt((half**2).sum(axis=0))
        return self

    def _model(self) -> Any:
        return DirectGP(self._kernel(self.standardise, self._seed()))

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        (found,) = predict_gp(self.posterior_, data)
        return found.bag_probability, (found.probability,)

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        noise = rng.standard_normal((count, len(self.weight_means_)))
        away = np.linalg.solve(self.posterior_.factor[0].T, noise.T).T
        return {"weight": (self.weight_means_ + away)[None]}, {"weight": ["point"]}
