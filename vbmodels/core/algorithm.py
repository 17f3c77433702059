"""Algorithms: generators that yield what they need, and are answered by `vbmodels.core.driver`.

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
