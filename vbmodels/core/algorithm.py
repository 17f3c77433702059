"""Algorithms, generators that `vbmodels.core.driver` answers, and what a model supplies: protocols.

An algorithm reads from top to bottom, as `vbmodels.core.cavi.cavi` does:

    def cavi(model, q):
        while True:
            q = yield Save(q)
            stats = yield Sweep(q)
            yield Show(q, model.elbo(q, stats))
            q = model.global_step(q, stats)

It is deterministic, so the answers that it was given are all that a resume needs: it runs again
and is given them without computing. It ends by returning the posterior; one that does not end is
stopped where the bound has converged. Algorithms compose by ``yield from`` and by `Phase`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Sweep:
    """Local steps at ``q`` on every partition; answered with the summed statistics.

    Local states start at those of the last sweep or, with ``again``, at those that it started at.
    """

    q: Any
    again: bool = False


@dataclass(frozen=True)
class Evaluate:
    """As `Sweep`, with no local states to start at."""

    q: Any


@dataclass(frozen=True)
class Save:
    """Answered with ``value``: all that is needed from here on, at the head of a loop.

    A resume answers it with the value of the last one, and answers before that are forgotten. So
    an algorithm saves before it requests anything else, or never. The value is a state, or a
    tuple of states, arrays and scalars; or a function that returns one, called where a checkpoint
    is made before the next sweep.
    """

    value: Any


@dataclass(frozen=True)
class Phase:
    """Another algorithm; answered with what it returns, which a resume knows without running it.

    Attributes
    ----------
    algorithm
        A generator.
    doing
        What it does, where no posterior is known before it ends: "the kernel was being chosen". Or
        a function that returns that.
    """

    algorithm: Algorithm
    doing: str | Callable[[], str] = ""


@dataclass(frozen=True)
class Show:
    """A point to show: a step of the fit. At most one follows a sweep.

    Attributes
    ----------
    q
        What a fit that ends here leaves.
    elbo
        The bound at it.
    by_trace
        Whether the fit has converged where the trace of bounds has.
    if_last
        Whether it is a step only where no sweep may follow.
    """

    q: Any
    elbo: float
    by_trace: bool = True
    if_last: bool = False


@dataclass(frozen=True)
class Stop:
    """Ends a fit that has not converged, though its sweeps are not over."""


Request = Sweep | Evaluate | Save | Phase | Show | Stop
Algorithm = Generator[Request, Any, Any]
Loop = Callable[[Any, Any], Algorithm]
"""From a model and its first parameters to an algorithm."""


@runtime_checkable
class Driven(Protocol):
    """A model with an algorithm of its own."""

    def algorithm(self, q: Any) -> Algorithm:
        """Fit from the first parameters."""


def within(algorithm: Algorithm, whole: Callable[[Any], Any]) -> Algorithm:
    """Run an algorithm on parameters that are a part of those that it sends and shows."""
    answer = None
    while True:
        try:
            request = algorithm.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(request, Sweep | Evaluate | Show):
            request = replace(request, q=whole(request.q))
        elif isinstance(request, Phase):
            request = replace(request, algorithm=within(request.algorithm, whole))
        answer = yield request


class Model(Protocol):
    """Priors and options of one model; it holds neither data nor parameters.

    Every method is a pure function of its arguments. ``batch`` is one partition's data,
    ``q`` the global parameters, ``local`` the partition's own parameters (None at first).
    """

    def observe(self, batch: Any) -> Any:
        """Return the additive statistics that are needed once, before the first sweep."""

    def init(self, observed: Any, rng: np.random.Generator) -> Any:
        """Return the first global parameters."""

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        """Return the partition's local parameters at ``q``, warm-started from ``local``."""

    def suff_stats(self, q: Any, batch: Any, local: Any) -> Any:
        """Return the additive statistics, with the local part of the bound."""

    def global_step(self, q: Any, stats: Any) -> Any:
        """Return the global parameters that maximise the bound given ``stats``."""

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound at ``q`` and the local parameters behind ``stats``."""


class Summing(Protocol):
    """What an algorithm sends to partitions, where it says itself what it wants of each."""

    def sums(self, batch: Any) -> Any:
        """Return the additive statistics of a partition."""


class WithoutLocals:
    """Base of a model whose partitions have no parameters of their own, and `Summing` is asked."""

    def local_step(self, q: Summing, batch: Any, local: None) -> None:
        """Do nothing."""

    def suff_stats(self, q: Summing, batch: Any, local: None) -> Any:
        """Return the additive statistics that are asked for."""
        return q.sums(batch)


@runtime_checkable
class Accelerable(Protocol):
    """A model whose global parameters can be read as a vector without constraints."""

    def to_vector(self, q: Any) -> FloatArray:
        """Return the unconstrained coordinates of ``q``."""

    def from_vector(self, q: Any, vector: FloatArray) -> Any:
        """Return ``q`` moved to these coordinates."""


@runtime_checkable
class Drawing(Protocol):
    """A model whose parameters hold the draws that it keeps, which no partition needs."""

    def without_draws(self, q: Any) -> Any:
        """Return ``q`` as it is sent to the partitions."""


@runtime_checkable
class Continuable(Model, Protocol):
    """A model that can start near the posterior of an earlier fit, to other data."""

    def restart(self, observed: Any, before: Any, rng: np.random.Generator) -> Any:
        """Return first global parameters as `Model.init` does, near those of ``before``.

        What depends on the data alone (scales, counts) comes from ``observed``. Parameters
        of another shape cannot be started from: then this is `Model.init`.
        """


@runtime_checkable
class Phased(Protocol):
    """A model whose fit has phases, the sweeps of which its trace of bounds does not foretell."""

    def progress(self, q: Any) -> tuple[str, float | None]:
        """Return the phase of a fit that is at ``q``, and about how many sweeps are to come.

        The latter is None where the trace of bounds says.
        """


@runtime_checkable
class Remembering(Protocol):
    """A model that keeps something of every partition between sweeps, to save time.

    It changes no bit; it serves the estimate of what a fit will take.
    """

    def remembered(self, q: Any, batch: Any) -> int:
        """Return about how many bytes that is of a partition in a fit that starts at ``q``."""


@runtime_checkable
class Uneven(Protocol):
    """A model whose first sweeps say little of what the others take."""

    def heavy(self, q: Any) -> tuple[Any, float] | None:
        """Return parameters at which a sweep takes longest, and the share of such sweeps.

        The sweep needs no local states. None where all are as at ``q``, at which a fit starts.
        """


@runtime_checkable
class Rebuilding(Protocol):
    """A model whose local states follow from the data and from what a fit never moves.

    `Model.local_step` with None gives their bits at any of the fit's points, so they are made
    again where they are lost, and no checkpoint holds them.

    Attributes
    ----------
    rebuilds_locals
        True.
    """

    rebuilds_locals: bool


@runtime_checkable
class Repeating(Protocol):
    """A model whose fit is several fits, each of which may take so many sweeps as one may."""

    def most_sweeps(self, of_one: int) -> int:
        """Return the most sweeps of all together."""


class Reduce(Protocol):
    """The executor: local steps on every partition, then the sum of their statistics."""

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Return the summed statistics at ``q``.

        Parameters
        ----------
        q
            The global parameters.
        number
            Number of this sweep, counted from 0. The local states that it leaves
            are known by this number.
        warm
            Number of the sweep whose local states are the start; None for a cold
            start. It is one of the last two sweeps.
        """


class Observing(Reduce, Protocol):
    """A `Reduce` that can also sum what is needed before the first sweep."""

    def observe(self) -> Any:
        """Return the sum of `Model.observe` over the partitions."""


class NonFiniteBound(ArithmeticError):
    """The bound became NaN or infinite: the fit cannot go on."""


DRAWN = ("log density", "log likelihood")
"""Objectives of draws, which wander; a fit climbs any other."""


def objective_of(model: Any, q: Any) -> str:
    """Return what the model's ``elbo`` at ``q`` is: a bound, unless it says otherwise.

    A model says it by its attribute ``objective``: a name, or a method that has one for each phase.
    """
    named = getattr(model, "objective", "bound")
    return named(q) if callable(named) else named
