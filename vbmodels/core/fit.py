"""A whole fit: the start, the model's loop, convergence."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Driven, Loop
from vbmodels.core.cavi import cavi
from vbmodels.core.driver import Driver
from vbmodels.core.in_process import InProcess
from vbmodels.core.memoised import Memoised
from vbmodels.core.protocol import Accelerable, Looped, Observing
from vbmodels.core.squarem import squarem


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


LOOPS: dict[str, Loop] = {"cavi": cavi, "squarem": squarem, "memoised": Memoised()}


def loop_of(model: Any) -> Loop:
    """Return the loop of a model: its own (`Driven`), the one that it names (`Looped`), or another.

    That is `squarem` where the model is `Accelerable`, else `cavi`.
    """
    if isinstance(model, Driven):
        return lambda model, q: model.algorithm(q)
    if isinstance(model, Looped) and model.loop is not None:
        if model.loop not in LOOPS:
            raise ValueError(f"expected a loop out of {sorted(LOOPS)}, got {model.loop!r}")
        return LOOPS[model.loop]
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
        `cavi`, `squarem`, `Memoised` or another; by default that of `loop_of`.
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
