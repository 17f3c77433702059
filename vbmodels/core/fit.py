"""A whole fit: the start, the model's loop, convergence; and the executor in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from vbmodels.core.algorithm import Accelerable, Driven, Loop, Model, Observing
from vbmodels.core.cavi import cavi, squarem
from vbmodels.core.driver import Driver
from vbmodels.core.state import aligned, tree_sum

R = TypeVar("R")


class InProcess:
    """The executor in this process, with threads over partitions where that helps.

    Parameters
    ----------
    model
        The model.
    batches
        One partition's data each; their order is the order of the partition ids.
    threads
        Partitions that are worked on at once. It changes no bit of the result.
    """

    def __init__(self, model: Model, batches: Sequence[Any], threads: int = 1) -> None:
        self.model = model
        self.batches = list(batches)
        self._locals: dict[int, list[Any]] = {}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.batches)

    def map(self, function: Callable[..., R], *columns: Sequence[Any]) -> Iterator[R]:
        """Apply ``function(batch, ...)`` to every partition, results in partition order."""
        run = self._pool.map if self._pool else map
        return iter(run(function, self.batches, *columns))

    def observe(self) -> Any:
        """Return the summed statistics that are needed before the first sweep."""
        return tree_sum(self.map(self.model.observe))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `Reduce`."""
        start = [None] * self.partitions if warm is None else self.local_states(warm)

        def sweep(batch: Any, local: Any) -> tuple[Any, Any]:
            local = self.model.local_step(q, batch, local)
            if local is not None:
                local = aligned(local)
            return local, self.model.suff_stats(q, batch, local)

        states: list[Any] = []

        def sums() -> Iterator[Any]:
            for local, stats in self.map(sweep, start):
                states.append(local)
                yield stats

        total = tree_sum(sums())
        self._locals = {k: v for k, v in self._locals.items() if k == warm} | {number: states}
        return total

    def local_states(self, number: int) -> list[Any]:
        """Return the partitions' local states after sweep ``number``."""
        if number not in self._locals:
            raise LookupError(
                f"the local states of sweep {number} are gone; kept: {sorted(self._locals)}"
            )
        return self._locals[number]

    def restore(self, number: int, states: Sequence[Any]) -> None:
        """Take local states that were stored after sweep ``number``."""
        if len(states) != len(self.batches):
            raise ValueError(
                f"expected {len(self.batches)} local states, one a partition, got {len(states)}"
            )
        self._locals = {number: list(states)}


class NotConverged(UserWarning):
    """A fit stopped at its largest number of sweeps before the bound had converged."""


@dataclass(frozen=True)
class Fit:
    """What a fit leaves: the posterior, the bound's trace, and whether it converged.

    ``doing`` is what it did when its sweeps were over, if there was no posterior yet.
    """

    q: Any
    trace: list[float]
    iterations: int
    converged: bool
    doing: str
    reduce: Any


def loop_of(model: Any) -> Loop:
    """Return a model's own loop (`Driven`); else `squarem` where it is `Accelerable`, or `cavi`."""
    if isinstance(model, Driven):
        return type(model).algorithm
    return squarem if isinstance(model, Accelerable) else cavi


def fit(
    model: Any,
    batches: Sequence[Any],
    *,
    seed: int = 0,
    tol: float = 1e-8,
    max_iter: int = 1000,
    threads: int = 1,
    loop: Loop | None = None,
) -> Fit:
    """Fit a model in this process.

    Parameters
    ----------
    model
        The model.
    batches
        One partition's data each.
    seed
        Seed of the start.
    tol
        Relative tolerance on the bound; see `Driver`.
    max_iter
        Most sweeps; `NotConverged` is warned of when they do not suffice.
    threads
        Partitions that are worked on at once.
    loop
        `cavi`, `squarem` or another; by default that of `loop_of`.
    """
    done = drive(
        model, InProcess(model, batches, threads), seed=seed, tol=tol, max_iter=max_iter, loop=loop
    )
    if not done.converged:
        warnings.warn(
            f"the bound had not converged after {done.iterations} sweeps; raise max_iter or tol",
            NotConverged,
            stacklevel=2,
        )
    return done


def drive(
    model: Any, reduce: Observing, *, seed: int, tol: float, max_iter: int, loop: Loop | None = None
) -> Fit:
    """Fit a model wherever ``reduce`` computes; whether it converged stands in the result.

    Parameters are those of `fit`.
    """
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    run = Driver(loop or loop_of(model), model, q, reduce, tol=tol, max_iter=max_iter)
    for _ in run:
        pass
    q, number = (None, run.number) if run.step is None else (run.step.q, run.step.iteration)
    doing = "" if run.converged else run.doing
    return Fit(q, run.trace, number + 1, run.converged, doing, reduce)
