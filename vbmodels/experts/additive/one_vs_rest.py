"""More than two classes: one search for each class against the rest, and how they share a row.

Class k has a model of its own, "k or another", with its own additive form and experts, fitted to
all rows. Probabilities are shared in proportion,

    P(k | x) = p_k(x) / sum_j p_j(x),

which is exact where the p_k are those of one law, as they then add up to 1. It needs no further
fit, and each p_k is calibrated by itself: its ridge is chosen by leaving rows out.

Why not a softmax of K - 1 sums: its second moments couple all classes, (K - 1)^2 times as many
numbers for every step of Newton and for leaving rows out, which are what makes the additive form
cheap and its strength known; and each class here may have lines, steps or experts as it needs
them, and reads like a fit to two labels. Why not a fit of each class against one of reference: it
sees the rows of two classes alone and says anything where neither is.

All searches go on side by side: a pass over the rows answers for every class that is not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vbmodels.core.ascent import search
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.rows import Rows

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
    def against_rest(self) -> tuple[Rows | CodedRows, ...]:
        """The rows with the labels "of this class" and "of another", for each class; [K]."""
        found = []
        for k in range(self.n_classes):
            t = np.where(self.classes < 0, 0.0, np.where(self.classes == k, 1.0, -1.0))
            found.append(self.rows.relabelled(t))
        return tuple(found)


@dataclass(frozen=True)
class Several(State, kind="experts/additive.Several"):
    """The parameters of every class's model; None of one that is asked for nothing."""

    parts: tuple[Any, ...]


@dataclass(frozen=True)
class SeveralSums(Stats, kind="experts/additive.SeveralSums"):
    """What a partition returns to every class's model; None to one that asks for nothing."""

    parts: tuple[Any, ...]


@dataclass(frozen=True)
class SeveralCursor(Cursor, kind="experts/additive.SeveralCursor"):
    """A cursor with those of the classes' searches."""

    cursors: tuple[Any, ...] = ()


@dataclass(frozen=True)
class OneVersusRest:
    """Fit a model of two labels for each class against the rest.

    Parameters
    ----------
    model
        The model of two labels.
    """

    model: AdditiveExperts

    def observe(self, batch: ClassRows) -> SeveralSums:
        """Return what every class's model sums up first."""
        return SeveralSums(tuple(self.model.observe(b) for b in batch.against_rest))  # type: ignore[arg-type]

    def init(self, observed: SeveralSums, rng: np.random.Generator) -> Several:
        """Begin every search."""
        return Several(tuple(self.model.init(one, rng) for one in observed.parts))

    def local_step(self, q: Several, batch: ClassRows, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: Several, batch: ClassRows, local: None) -> SeveralSums:
        """Answer every class's model that asks."""
        pairs = zip(q.parts, batch.against_rest, strict=True)
        return SeveralSums(
            tuple(None if p is None else self.model.suff_stats(p, b, None) for p, b in pairs)  # type: ignore[arg-type]
        )

    def global_step(self, q: Several, stats: SeveralSums) -> Several:
        """Return the points one step up their gradients; the loop itself remembers more."""
        pairs = zip(q.parts, stats.parts, strict=True)
        return Several(tuple(self.model.global_step(p, s) for p, s in pairs))

    def elbo(self, q: Several, stats: SeveralSums) -> float:
        """Return the sum of what the models show."""
        pairs = zip(q.parts, stats.parts, strict=True)
        return float(sum(self.model.elbo(p, s) for p, s in pairs))

    def unfinished(self, q: Several) -> str | None:
        """Say what is being done while one of the searches has no posterior."""
        return next((said for p in q.parts if (said := self.model.unfinished(p))), None)

    def posterior(self, q: Several) -> SeveralPosterior:
        """Return the posteriors of all classes."""
        return SeveralPosterior(tuple(self.model.posterior(p) for p in q.parts))

    def baseline(self, q: Several) -> SeveralPosterior:
        """Return the logistic regressions of all classes."""
        return SeveralPosterior(tuple(self.model.baseline(p) for p in q.parts))

    algorithm = search

    def begin(self, cursor: Cursor) -> Cursor:
        """Begin every search at its own cursor."""
        if isinstance(cursor, SeveralCursor):
            return cursor
        pairs = zip(cursor.q.parts, cursor.stats.parts, strict=True)
        own = [Cursor(q, s, cursor.number, self.model.elbo(q, s)) for q, s in pairs]
        return self._joined([self.model.begin(one) for one in own], cursor.number)

    def shown(self, at: SeveralCursor) -> Step | None:
        """Show a point that every search shows; the last when all are over."""
        shown = [self.model.shown(one) for one in at.cursors]
        if any(step is None for step in shown):
            return None
        return Step.at(at, all(step.converged for step in shown if step is not None))

    def ask(self, at: SeveralCursor) -> Several:
        """Ask for what the searches that are not over ask for."""
        return Several(
            tuple(None if self._over(one) else self.model.ask(one) for one in at.cursors)
        )

    def take(self, at: SeveralCursor, asked: Several, stats: SeveralSums) -> SeveralCursor:
        """Hand every search its answer."""
        cursors = [
            one if q is None else self.model.take(one, q, s)
            for one, q, s in zip(at.cursors, asked.parts, stats.parts, strict=True)
        ]
        return self._joined(cursors, at.number + 1)

    def _over(self, cursor: Any) -> bool:
        step = self.model.shown(cursor)
        return step is not None and bool(step.converged)

    def _joined(self, cursors: Sequence[Any], number: int) -> SeveralCursor:
        q = Several(tuple(one.q for one in cursors))
        stats = SeveralSums(tuple(one.stats for one in cursors))
        bound = float(sum(one.elbo for one in cursors))
        return SeveralCursor(q, stats, number, bound, tuple(cursors))


@dataclass(frozen=True)
class SeveralPosterior(State, kind="experts/additive.SeveralPosterior"):
    """The posteriors of all classes, each against the rest."""

    parts: tuple[Any, ...]

    def probabilities(self, batch: ClassRows | CodedRows) -> FloatArray:
        """Return the probability of every class in every row; [N, K]."""
        rows = batch.rows if isinstance(batch, ClassRows) else batch
        unlabelled = rows.relabelled(np.zeros(rows.size))
        found = [one.predict(unlabelled).probability for one in self.parts]
        return shared(np.column_stack(found))


def shared(p: FloatArray) -> FloatArray:
    """Return probabilities [N, K] of classes against the rest, in proportion, with sum 1.

    >>> shared(np.array([[0.5, 0.25, 0.05]])).round(3)
    array([[0.625, 0.312, 0.062]])
    """
    safe = np.maximum(p, _LEAST)
    return np.asarray(safe / safe.sum(1, keepdims=True))
