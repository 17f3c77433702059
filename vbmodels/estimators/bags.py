"""Bags as a whole and their instances: which are positive, which number they have, and why.

Bags are no table of numbers, so what scikit-learn's checks require of such a table (a common
width, NaN, sparse input, one row and all that) does not apply to them; all that they require
of parameters, cloning, storing and tags does.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from vbmodels.bags.bags import UNLABELLED, split, with_targets
from vbmodels.bags.embedding.model import Embedding, EmbeddingModel
from vbmodels.bags.embedding.number import NumberModel, Numbers, predict_numbers
from vbmodels.bags.embedding.predict import BagScores, contributions, feature_columns, predict_bags
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.mil_gp.predict import predict as predict_gp
from vbmodels.bags.multilabel import ONE_GROUP
from vbmodels.bags.options import GPOptions, VMMICOptions
from vbmodels.bags.stack.model import MEMBERS, WITNESS_MEMORY, AutoModel
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.options import LARGEST, option
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_data import GivenBags, form_of, read_bags
from vbmodels.estimators.base import (
    STACKED,
    LoopEstimator,
    classified,
    documented,
    intervals,
    largest,
    lines_of,
    warn_of_columns,
    without_weights,
)
from vbmodels.tables.frames import is_missing, values_of
from vbmodels.tables.levels import join_case

OF_BAGS = (
    "the likelihood counts every bag once; repeat a bag that counts for several, or move the "
    "threshold on predict_proba"
)


@dataclass(eq=False, repr=False)
class BagEstimator(LoopEstimator):
    """What is fitted to bags."""

    input_kinds = STACKED

    def _read(self, X: Any, y: Any, what: str) -> list[Any]:
        """Read bags and what is known of each, in the table or by itself."""
        self._validate_params()
        self._given = read_bags(X)
        warn_of_columns(self._given.left_out, 5)
        labels = self._given.labels if y is None else values_of(y)
        if labels is None or len(labels) != len(self._given.ids):
            rows = self._given.rows
            of_rows = labels is not None and rows is not None and len(labels) == sum(map(len, rows))
            raise ValueError(
                f"expected {what} for each of the {len(self._given.ids)} bags, found "
                f"{'none' if labels is None else len(labels)}{_OF_ROWS if of_rows else ''}"
            )
        return list(labels)

    def _fit_to(self, data: Any, model: Any) -> None:
        """Fit a model to bags, of which what new ones are compared with is kept."""
        self._groups = len(np.unique(data.group))
        if self._groups == 1:
            warnings.warn(ONE_GROUP, stacklevel=4)
        self._run(model, split(data, self.n_partitions), depth=5)
        self._given = form_of(self._given)


@dataclass(eq=False, repr=False)
class BagClassifier(ClassifierMixin, BagEstimator):
    """A classifier of bags; subclasses make the model and apply its posterior."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _model(self) -> Any:
        raise NotImplementedError

    def _keep(self) -> None:
        """Keep what the fit found."""
        raise NotImplementedError

    @without_weights(OF_BAGS)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            A list with an array [instances, features] for each bag (a tuple or dict of arrays
            where there are several modalities), or a long table; see
            `vbmodels.estimators.bag_data.read_bags`.
        y
            The bags' labels, two classes, [bags]; None, NaN or NA: unlabelled. A table may have
            them in its column ``label`` instead.
        groups
            What each bag is of, such as a patient, [bags]; or the table's column ``group``. Bags of
            one group, and copies of a bag, are left out together wherever some are left out.

        Raises
        ------
        ValueError
            If a parameter is out of its range, a bag cannot be read, or there are not two
            classes.
        """
        labels = self._read(X, y, "a label")
        spelt = len(set(map(str, labels)))
        labels = join_case(labels)
        known = [label for label in labels if not is_missing(label)]
        self.classes_ = np.unique(known)
        if joined := spelt - len(set(map(str, labels))):
            warnings.warn(f"{joined} labels differ from others in case alone: joined", stacklevel=3)
        if len(self.classes_) != 2:
            raise ValueError(f"expected bags of two classes, found {len(self.classes_)}")
        code = [
            UNLABELLED if is_missing(label) else int(label == self.classes_[1]) for label in labels
        ]
        share = float(np.mean([label == self.classes_[1] for label in known]))
        self._bags, self._share = (len(known), len(labels)), np.array([1.0 - share, share])
        self._fit_to(self._given.grouped(code, groups), self._model())
        self._keep()
        return self

    def _found(self) -> str:
        labelled, bags = self._bags
        text = f"{bags} bags, {labelled} with a label; "
        text += f"{self.classes_[1]} are {100.0 * self._share[1]:.3g} % of these."
        if self._groups:
            text += f" Bags of a group and copies are left out together: {self._groups} groups."
        return text

    def _compared(self, X: Any, y: Any) -> str:
        labels = read_bags(X, self._given).labels if y is None else values_of(y)
        labels = join_case([] if labels is None else list(labels), self.classes_.tolist())
        return classified(self, X, labels, self._share)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of bags whose label is predicted."""
        labels = join_case(values_of(y), self.classes_.tolist())
        return float(super().score(X, labels, sample_weight))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes of every bag, [bags, 2]."""
        positive = self._predicted(X)[1]
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: Any) -> Any:
        """Return the more probable class of every bag, [bags]."""
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]

    def predict_instance_proba(self, X: Any) -> Any:
        """Return the probability that an instance makes its bag positive.

        One value a row for a table; for a list one array a bag, or a tuple of arrays.
        """
        data, _, instances = self._predicted(X)
        return data.give_back(instances)

    def _predicted(self, X: Any) -> tuple[Any, FloatArray, tuple[FloatArray, ...]]:
        check_is_fitted(self)
        data = read_bags(X, self._given)
        bag, instances = self._apply(data.bags())
        return data, bag, instances

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        raise NotImplementedError


_OF_ROWS = (
    ", one a row: leave y out for a table with labels; to cut a table into folds make bags of it "
    "first, by to_bags(table)"
)


FEATURE = ("modality", "feature", "summary")
"""What names a row of `feature_table`."""


def feature_table(embedding: Embedding, bags: GivenBags, unit: float = 1.0) -> Any:
    """Return what an sd of each feature's summaries in a bag adds, times ``unit``, by name."""
    names: list[tuple[str, str, str]] = []
    mean, variance = [np.empty(0)], [np.empty(0)]
    modalities = bags.modalities or ("",) * len(bags.instances)
    pools = feature_columns(embedding)
    for modality, features, columns_by_pool in zip(modalities, bags.features, pools, strict=True):
        for pool, columns in columns_by_pool.items():
            names += [(modality, feature, pool) for feature in features]
            marginals = embedding.marginals(columns)
            mean.append(unit * marginals[0])
            variance.append(unit**2 * marginals[1])
    named = {key: [name[i] for name in names] for i, key in enumerate(FEATURE)}
    return intervals(named, np.concatenate(mean), np.sqrt(np.concatenate(variance)))


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

    def _keep(self) -> None:
        self.posterior_ = self.model_.posterior(self.q_)
        self.coef_means_, self.coef_sds_ = self.posterior_.moments()

    @property
    def coefficients_(self) -> Any:
        """The coefficients by name."""
        layout, bags = self.posterior_.scaling.layout.plain, self._given
        modalities = bags.modalities or ("",) * len(layout.features)
        parts = list(zip(modalities, bags.features, strict=True))
        rows = [("score", "", "intercept")]
        rows += [("score", "", f"bag feature {j + 1}") for j in range(layout.own)]
        rows += [("score", name, feature) for name, columns in parts for feature in columns]
        rows += [("counts", name, f) for name, columns in parts for f in ("intercept", *columns)]
        named = dict(zip(("role", "modality", "feature"), zip(*rows, strict=True), strict=True))
        return intervals(named, self.coef_means_, self.coef_sds_)

    def _weights(self) -> list[str]:
        rows = largest(self.coefficients_, ("role", "modality", "feature"))
        return ["Largest coefficients (of scaled features, 95 %):", *lines_of(rows)]

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
        prediction = predict(self.posterior_.draws(), self.posterior_.scaling, data)
        return prediction.bag, prediction.instances


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
        Posterior means and standard deviations of the weights w of the kernel's columns.
    coefficients_
        Weights of the linear kernel, on scaled features, as a data frame: feature, mean, sd, and
        the 95 % interval from low to high. No row where the kernel is the Gaussian alone.

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

    def _keep(self) -> None:
        self.posterior_ = self.model_.posterior(self.q_)
        self.weight_means_ = self.posterior_.mean[0]
        half = np.linalg.inv(self.posterior_.factor[0])
        self.weight_sds_ = np.sqrt((half**2).sum(axis=0))

    @property
    def coefficients_(self) -> Any:
        """The linear kernel's weights by name."""
        check_is_fitted(self)
        features, kernel = self.posterior_.features, int(self.posterior_.kernel[0])
        if not features.linear:
            return intervals({"feature": []}, [], [])
        scale = features.weights[kernel]
        half = np.linalg.inv(self.posterior_.factor[0]) * scale
        weights = features.linear_weights(kernel, self.weight_means_ * scale, half)
        return intervals({"feature": list(self._given.features[0])}, *weights)

    def _weights(self) -> list[str]:
        lines = lines_of(largest(self.coefficients_, ["feature"]))
        return ["Largest weights (of scaled features, 95 %):", *lines] if lines else []

    def _model(self) -> Any:
        return DirectGP(self._kernel(self.standardise, self._seed()))

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        (prediction,) = predict_gp(self.posterior_, data)
        return prediction.bag_probability, (prediction.probability,)


@documented
@dataclass(eq=False, repr=False)
class StackedBagClassifier(ProcessOptions, BagClassifier):
    """Pooled features, a Gaussian process of instances, vMMIC and the base rate, stacked.

    Bags' probabilities are the weighted mean of the members'; those of instances are the Gaussian
    process's own, or vMMIC's where its weight is larger.

    Attributes
    ----------
    classes_
        The two labels.
    weights_
        Of the members by name: pooled features (the embedding), instances (the Gaussian process),
        primary instances (vMMIC) and base rate; 0 where one was left out. Empty for "embedding".
    blocks_
        Names of the blocks that add to a bag's score, the constant last.
    features_
        What a standard deviation of each feature's summary in a bag adds to its probit score, as a
        data frame: modality, feature, summary (mean, max, min or sd over instances; words), mean,
        sd, and the 95 % interval from low to high. What kernels of all features together add is
        not in it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((5, 2)) for _ in range(80)]
    >>> y = [int((bag[:, 0] > 1.0).any()) for bag in X]
    >>> found = StackedBagClassifier(n_inducing=20, random_state=0).fit(X, y)
    >>> bool(found.score(X, y) > 0.8), round(sum(found.weights_.values()), 6)
    (True, 1.0)
    >>> bool(np.allclose(found.reasons(X).sum(axis=1), found.decision_function(X)))
    True
    """

    model: Literal["auto", "embedding"] = option(
        "auto",
        "auto: all members; embedding: that alone, which has no probabilities of instances.",
    )
    witness_memory: float = option(
        WITNESS_MEMORY / 2**30,
        "GiB that the Gaussian process may keep in memory; where it would take more it is left "
        "out, and instances have contributions only. 0 leaves it and vMMIC out.",
        ge=0.0,
    )
    standardise: bool | None = option(
        None, "Whether features become z-scores; None: unless rows have length 1."
    )

    def _keep(self) -> None:
        auto = self.model == "auto"
        self._embedding = self.q_.embedding if auto else self.q_
        self.weights_ = dict(zip(MEMBERS, self.q_.weights.tolist(), strict=True)) if auto else {}
        self.blocks_ = [*self._embedding.map.names(), "constant"]

    def _weights(self) -> list[str]:
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights_.items())
        return [
            *([f"Weights on held-out bags: {shares}."] if shares else []),
            "Most informative features (what an sd adds to the score, 95 %):",
            *lines_of(largest(self.features_, FEATURE)),
        ]

    @property
    def features_(self) -> Any:
        """What each feature adds to a bag's score, by name."""
        check_is_fitted(self)
        return feature_table(self._embedding, self._given)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the mean of the embedding's probit score of every bag, [bags]."""
        return self._said(X).mean

    def reasons(self, X: Any) -> FloatArray:
        """Return what each of ``blocks_`` adds to a bag's score, [bags, blocks]."""
        return self._said(X).shares

    def contributions(self, X: Any) -> Any:
        """Return what each instance adds to its bag's score, in the form of the bags.

        A bag's sum is what the blocks add that are means and maxima over instances.
        """
        check_is_fitted(self)
        data = read_bags(X, self._given)
        return data.give_back(contributions(self._embedding, data.bags()))

    def predict_instance_proba(self, X: Any) -> Any:
        """Return the probability that an instance makes its bag positive.

        By the Gaussian process or by vMMIC, whichever has the larger weight.

        Raises
        ------
        ValueError
            For "embedding", which has contributions only.
        """
        check_is_fitted(self)
        if self.model == "embedding":
            raise ValueError(
                "the embedding has no probabilities of instances; see contributions(X), or take "
                "model='auto'"
            )
        if not self.witness_memory:
            raise ValueError(
                "witness_memory=0 leaves out the members that give instances probabilities: raise "
                "it, or see contributions(X)"
            )
        if self.q_.witness is None and self.q_.vmmic is None:
            raise ValueError(
                "the Gaussian process was left out of this stack, for it would have taken "
                f"{self.q_.needed / 2**30:.1f} GiB of memory, so instances have no probabilities; "
                "see contributions(X), or raise witness_memory"
            )
        return super().predict_instance_proba(X)

    def _said(self, X: Any) -> BagScores:
        check_is_fitted(self)
        return predict_bags(self._embedding, read_bags(X, self._given).bags())

    def _model(self) -> Any:
        embedding = EmbeddingModel(sample_seed=self._seed())
        if self.model == "embedding":
            return embedding
        witness = DirectGP(self._kernel(self.standardise, self._seed()))
        return AutoModel(embedding, witness, witness_memory=int(self.witness_memory * 2**30))

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        if self.model == "embedding":
            nothing = tuple(np.full(len(m.features), np.nan) for m in data.modalities)
            return predict_bags(self.q_, data).probability, nothing
        prediction = predict_auto(self.model_, self.q_, data)
        instances = prediction.instances(data)
        if instances is None:
            instances = tuple(np.full(len(m.features), np.nan) for m in data.modalities)
        return prediction.probability, instances


@documented
@dataclass(eq=False, repr=False)
class BagRegressor(RegressorMixin, BagEstimator):
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
        labels = self._read(X, y, "a number")
        target = np.array([np.nan if is_missing(label) else float(label) for label in labels])
        if np.any(np.abs(target) > LARGEST):
            raise ValueError(f"expected numbers of at most {LARGEST:g} in size (rescale them)")
        if np.unique(target[~np.isnan(target)]).size < 2:
            raise ValueError("expected numbers that differ, found fewer than two")
        data = with_targets(self._given.grouped([UNLABELLED] * len(labels), groups, target), target)
        self._bags = int(np.count_nonzero(~np.isnan(target))), len(target)
        self._fit_to(data, NumberModel(sample_seed=self._seed()))
        self.blocks_ = [*self.q_.map.names(), "constant"]
        self.noise_sd_ = float(self.q_.scale * np.sqrt(self.q_.noise.rate / self.q_.noise.shape))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the number of every bag, [bags]; with ``return_std`` and its sd, two of them."""
        numbers = self._numbers(X)
        return (numbers.mean, numbers.sd) if return_std else numbers.mean

    def predict_interval(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the 95 % interval of every bag's number, two of [bags]."""
        numbers = self._numbers(X)
        return numbers.low, numbers.high

    def reasons(self, X: Any) -> FloatArray:
        """Return what each of ``blocks_`` adds to a bag's number, [bags, blocks].

        They sum to the prediction less the mean of the fitted numbers.
        """
        return self._numbers(X).shares

    def contributions(self, X: Any) -> Any:
        """Return what each instance adds to its bag's number, in the form of the bags."""
        check_is_fitted(self)
        data = read_bags(X, self._given)
        adds = contributions(self.q_, data.bags())
        return data.give_back([self.q_.scale * values for values in adds])

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
        rows = largest(self.features_, FEATURE)
        return ["Most informative features (what an sd adds, 95 %):", *lines_of(rows)]

    def _compared(self, X: Any, y: Any) -> str:
        numbers = self._numbers(X)
        true = np.array([np.nan if is_missing(value) else float(value) for value in values_of(y)])
        known = ~np.isnan(true)
        true, mean, low, high = (v[known] for v in (true, numbers.mean, numbers.low, numbers.high))
        rmse, base = (
            float(np.sqrt(np.mean((true - guess) ** 2))) for guess in (mean, self.q_.centre)
        )
        inside = float(np.mean((true > low) & (true < high)))
        return (
            f"{len(true)} new bags: RMSE {rmse:.4g} (the mean of the fit {base:.4g}); "
            f"{inside:.0%} within their 95 % interval."
        )
