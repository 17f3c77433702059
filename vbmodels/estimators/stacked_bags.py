"""A classifier of bags by what they are and by what is in them: a stack of several models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vbmodels.bags.embedding.contributions import contributions
from vbmodels.bags.embedding.model import EmbeddingModel
from vbmodels.bags.embedding.predict import BagScores, predict_bags
from vbmodels.bags.mil_gp.fit import DirectGP
from vbmodels.bags.stack.model import MEMBERS, WITNESS_MEMORY, AutoModel
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.core.options import option
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_classifier import OF_BAGS, BagClassifier
from vbmodels.estimators.bag_data import read_bags
from vbmodels.estimators.bags import ProcessOptions
from vbmodels.estimators.base import documented
from vbmodels.estimators.weights import without_weights


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
        "out, and instances have contributions only. 0 leaves it out.",
        ge=0.0,
    )
    standardise: bool | None = option(
        None, "Whether features become z-scores; None: unless rows have length 1."
    )

    @without_weights(OF_BAGS)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model; see `BagClassifier.fit`."""
        super().fit(X, y, groups)
        auto = self.model == "auto"
        self._embedding = self.q_.embedding if auto else self.q_
        self.weights_ = dict(zip(MEMBERS, self.q_.weights.tolist(), strict=True)) if auto else {}
        self.blocks_ = [*self._embedding.map.names(), "constant"]
        return self

    def _weights(self) -> list[str]:
        if not self.weights_:
            return []
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights_.items())
        return [f"Weights on held-out bags: {shares}."]

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
        given = read_bags(X, self._given, self.columns)
        return given.give_back(contributions(self._embedding, given.bags()))

    def predict_instance_proba(self, X: Any) -> Any:
        """Return the probability that an instance makes its bag positive.

        By the Gaussian process or by vMMIC, whichever has the larger weight.

        Raises
        ------
        ValueError
            For "embedding", which tells contributions only.
        """
        check_is_fitted(self)
        if self.model == "embedding":
            raise ValueError(
                "the embedding has no probabilities of instances; see contributions(X), or take "
                "model='auto'"
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
        return predict_bags(self._embedding, read_bags(X, self._given, self.columns).bags(), 0.0)

    def _model(self) -> Any:
        embedding = EmbeddingModel(eps=self.label_noise, sample_seed=self._seed())
        if self.model == "embedding":
            return embedding
        witness = DirectGP(self._kernel(self.standardise, self._seed()))
        return AutoModel(embedding, witness, witness_memory=int(self.witness_memory * 2**30))

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        if self.model == "embedding":
            nothing = tuple(np.full(len(m.features), np.nan) for m in data.modalities)
            return predict_bags(self.q_, data, self.model_.eps).probability, nothing
        found = predict_auto(self.model_, self.q_, data)
        instances = found.instances(data)
        if instances is None:
            instances = tuple(np.full(len(m.features), np.nan) for m in data.modalities)
        return found.probability, instances
