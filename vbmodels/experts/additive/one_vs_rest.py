"""More than two classes: one search for each class against the rest, and how they share a row.

Class k has a model of its own, "k or another", with its own additive form and experts, fitted to
all rows. Probabilities are shared in proportion,

    P(k | x) = p_k(x) / sum_j p_j(x),

which is exact where the p_k are those of one law, as they then add up to 1. It needs no further
fit, and each p_k is calibrated by itself: its ridge is chosen by leaving rows out.

Why not a softmax of K - 1 sums: its second moments couple all classes, (K - 1)^2 times as many
numbers for every step of Newton and for leaving rows out, which are what makes the additive form
cheap and its strength known; and each class here may have lines, curves or experts as it needs
them, and reads like a fit to two labels. Why not a fit of each class against one of reference: it
sees the rows of two classes alone and says anything where neither is.

Of classes in an order a fit is "above class k", for each but the last, and a row's probabilities
are what is between two of them (Frank and Hall 2001): P(k | x) = P(> k - 1) - P(> k). Each has its
own curves, so nothing is assumed proportional; where the fits cross, the chance of being above a
class is held to that of being above the one before.

All searches go on side by side: a pass over the rows answers for every class that is not done.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Show, WithoutLocals
from vbmodels.core.driver import together
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.newton import Fits
from vbmodels.experts.additive.states import AdditiveState, Mixtures
from vbmodels.experts.rows import Rows
from vbmodels.experts.terms.step_rows import CodedRows

_LEAST = 1e-300


@dataclass(frozen=True)
class ClassRows(State, kind="experts/additive.ClassRows"):
    """Rows with labels of several classes.

    Attributes
    ----------
    rows
        The rows, as a model of two labels takes them; what they say of labels is not looked at.
    classes
        Number of each row's class, from 0; -1 where there is no label; [N].
    n_classes
        K.
    """

    rows: Rows | CodedRows
    classes: IntArray
    n_classes: int

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.rows.size

    @property
    def weight(self) -> FloatArray:
        """Weight of each row in the likelihood; [N]."""
        return self.rows.weight

    @cached_property
    def splits(self) -> tuple[Rows | CodedRows, ...]:
        """The rows with two labels, once for each fit; [K] or [K - 1]."""
        found = []
        for yes in self.sides:
            t = np.where(self.classes < 0, 0.0, np.where(yes, 1.0, -1.0))
            found.append(self.rows.relabelled(t))
        return tuple(found)

    @property
    def sides(self) -> list[BoolArray]:
        """Which rows are of each class, and not of another; [K][N]."""
        return [self.classes == k for k in range(self.n_classes)]


@dataclass(frozen=True)
class OrderedRows(ClassRows, kind="experts/additive.OrderedRows"):
    """Rows with labels of several classes in an order."""

    @property
    def sides(self) -> list[BoolArray]:
        """Which rows are of a class above each, but for the last one; [K - 1][N]."""
        return [self.classes > k for k in range(self.n_classes - 1)]


@dataclass(frozen=True)
class SeveralSums(Stats, kind="experts/additive.SeveralSums"):
    """What a partition returns to every class's model; None to one that has ended."""

    parts: tuple[Any, ...]

    def known(self) -> list[Any]:
        """Return what is returned to those that have not."""
        return [part for part in self.parts if part is not None]


@dataclass(frozen=True)
class Requests(State, kind="experts/additive.Requests"):
    """What every class's fit needs of a partition; None of one that has ended."""

    parts: tuple[Any, ...]

    def sums(self, batch: ClassRows) -> SeveralSums:
        """Return it of a partition."""
        pairs = zip(self.parts, batch.splits, strict=True)
        return SeveralSums(tuple(None if p is None else p.sums(b) for p, b in pairs))


@dataclass(frozen=True)
class OneVersusRestState(Requests, kind="experts/additive.OneVersusRestState"):
    """The parameters of every class's model."""

    parts: tuple[AdditiveState, ...]


@dataclass(frozen=True)
class OneVersusRest(WithoutLocals):
    """Fit a model of two labels for each class against the rest.

    Parameters
    ----------
    model
        The model of two labels.
    ordered
        Whether the classes have an order: the rows are `OrderedRows` then.
    """

    model: AdditiveExperts
    ordered: bool = False

    def observe(self, batch: ClassRows) -> SeveralSums:
        """Return what every class's model sums up first."""
        return SeveralSums(tuple(self.model.observe(b) for b in batch.splits))  # type: ignore[arg-type]

    def init(self, observed: SeveralSums, rng: np.random.Generator) -> OneVersusRestState:
        """Begin every search."""
        return OneVersusRestState(tuple(self.model.init(one, rng) for one in observed.parts))

    def elbo(self, q: OneVersusRestState, stats: SeveralSums) -> float:
        """Return the sum of what the models show."""
        pairs = zip(q.parts, stats.parts, strict=True)
        return float(sum(self.model.elbo(p, s) for p, s in pairs))

    def objective(self, q: OneVersusRestState) -> str:
        """Return what the sum of the classes' objectives is: they may be in different phases."""
        names = {self.model.objective(part) for part in q.parts}
        return names.pop() if len(names) == 1 else "objective of all classes"

    def posterior(self, q: OneVersusRestState) -> SeveralPosterior:
        """Return the posteriors of all classes."""
        return SeveralPosterior(tuple(self.model.posterior(p) for p in q.parts), self.ordered)

    def algorithm(self, q: OneVersusRestState) -> Algorithm:
        """Run every class's fit; a sweep answers all that have not ended."""

        def join(asked: dict[int, Fits | Mixtures]) -> Requests:
            return Requests(tuple(asked.get(k) for k in range(len(q.parts))))

        def show(shown: list[Show]) -> Show:
            elbo = float(sum(one.elbo for one in shown))
            return Show(OneVersusRestState(tuple(one.q for one in shown)), elbo, by_trace=False)

        algorithms = [self.model.algorithm(part) for part in q.parts]
        return OneVersusRestState((yield together(algorithms, join, SeveralSums.known, show)))


@dataclass(frozen=True)
class SeveralPosterior(State, kind="experts/additive.SeveralPosterior"):
    """The posteriors of all classes, each against the rest; ``ordered``: of "above each"."""

    parts: tuple[Any, ...]
    ordered: bool = False

    def probabilities(self, batch: ClassRows | CodedRows) -> FloatArray:
        """Return the probability of every class in every row; [N, K]."""
        rows = batch.rows if isinstance(batch, ClassRows) else batch
        unlabelled = rows.relabelled(np.zeros(rows.size))
        found = [one.predict(unlabelled).probability for one in self.parts]
        return between(np.column_stack(found)) if self.ordered else shared(np.column_stack(found))


def shared(p: FloatArray) -> FloatArray:
    """Return probabilities [N, K] of classes against the rest, in proportion, with sum 1.

    >>> shared(np.array([[0.5, 0.25, 0.05]])).round(3)
    array([[0.625, 0.312, 0.062]])
    """
    safe = np.maximum(p, _LEAST)
    return np.asarray(safe / safe.sum(1, keepdims=True))


def between(above: FloatArray) -> FloatArray:
    """Return the probability of each class [N, K] by that of being above each [N, K - 1].

    >>> between(np.array([[0.75, 0.25], [0.5, 0.75]])).round(3)
    array([[0.25, 0.5 , 0.25],
           [0.5 , 0.  , 0.5 ]])
    """
    falling = np.minimum.accumulate(above, axis=1)
    ends = np.ones((len(above), 1)), np.zeros((len(above), 1))
    steps = np.hstack([ends[0], falling, ends[1]])
    return np.asarray(steps[:, :-1] - steps[:, 1:])
