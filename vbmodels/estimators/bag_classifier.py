"""What the classifiers of bags share: reading, labels, and predictions of bags and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from vbmodels.bags.bags import UNLABELLED, split
from vbmodels.core.state import FloatArray
from vbmodels.estimators.bag_data import GivenBags, read_bags
from vbmodels.estimators.base import LoopEstimator
from vbmodels.estimators.columns import NamedColumns
from vbmodels.estimators.findings import classified
from vbmodels.estimators.tables import is_missing, values_of
from vbmodels.estimators.weights import without_weights

OF_BAGS = (
    "the likelihood counts every bag once; repeat a bag that stands for several, or move the "
    "threshold on predict_proba"
)


@dataclass(eq=False, repr=False)
class BagClassifier(ClassifierMixin, NamedColumns, LoopEstimator):
    """A classifier of bags; subclasses make the model and apply its posterior."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags

    def _model(self) -> Any:
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
        self._validate_params()
        self._given = read_bags(X, columns=self.columns)
        labels = self._given.labels if y is None else values_of(y)
        if labels is None or len(labels) != len(self._given.ids):
            raise ValueError(
                f"expected a label for each of the {len(self._given.ids)} bags, found "
                f"{'none' if labels is None else len(labels)}"
                f"{_OF_ROWS if labels is not None and _has_rows(self._given, labels) else ''}"
            )
        known = [label for label in labels if not is_missing(label)]
        self.classes_ = np.unique(known)
        if len(self.classes_) != 2:
            raise ValueError(f"expected bags of two classes, found {len(self.classes_)}")
        code = [
            UNLABELLED if is_missing(label) else int(label == self.classes_[1]) for label in labels
        ]
        share = float(np.mean([label == self.classes_[1] for label in known]))
        self._bags, self._share = (len(known), len(labels)), np.array([1.0 - share, share])
        data = self._given.grouped(code, groups)
        self._groups = len(np.unique(data.group))
        self._run(self._model(), split(data, self.n_partitions))
        self._given = form_of(self._given)
        return self

    def _found(self) -> str:
        labelled, bags = self._bags
        text = f"{bags} bags, {labelled} with a label; "
        text += f"{self.classes_[1]} are {100.0 * self._share[1]:.3g} % of these."
        if self._groups:
            text += f" Bags of a group and copies are left out together: {self._groups} groups."
        return text

    def _compared(self, X: Any, y: Any) -> str:
        return classified(
            self,
            X,
            read_bags(X, self._given, self.columns).labels if y is None else values_of(y),
            self._share,
        )

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes of every bag, [bags, 2]."""
        one = self._predicted(X)[1]
        return np.column_stack([1.0 - one, one])

    def predict(self, X: Any) -> Any:
        """Return the more probable class of every bag, [bags]."""
        second = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[second.astype(int)]

    def predict_instance_proba(self, X: Any) -> Any:
        """Return the probability that an instance makes its bag positive.

        One value a row for a table; for a list one array a bag, or a tuple of arrays.
        """
        given, _, instances = self._predicted(X)
        return given.give_back(instances)

    def _predicted(self, X: Any) -> tuple[Any, FloatArray, tuple[FloatArray, ...]]:
        check_is_fitted(self)
        given = read_bags(X, self._given, self.columns)
        bag, instances = self._apply(given.bags())
        return given, bag, instances

    def _apply(self, data: Any) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        raise NotImplementedError


_OF_ROWS = (
    ", one a row: leave y out for a table with labels; to cut a table into folds make bags of it "
    "first, by to_bags(table)"
)


def _has_rows(given: GivenBags, labels: Sequence[Any]) -> bool:
    """Say whether labels are those of a table's rows."""
    return given.rows is not None and len(labels) == sum(map(len, given.rows))


def form_of(given: GivenBags) -> GivenBags:
    """Return bags without their instances: what new ones are compared with."""
    empty = tuple(type(of)(of.features[:0], np.zeros(1, np.int64)) for of in given.instances)
    return replace(given, instances=empty, ids=(), labels=None, rows=None, groups=None)
