"""A whole fit: the start, the model's loop, convergence."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbmodels.core.cavi import begin, cavi
from vbmodels.core.convergence import UntilConverged
from vbmodels.core.in_process import InProcess
from vbmodels.core.memoised import Memoised
from vbmodels.core.protocol import Accelerable, Cursor, Driven, Loop, Looped, Observing
from vbmodels.core.squarem import squarem


class NotConverged(UserWarning):
    """A fit stopped at its largest number of sweeps before the bound had converged."""


@dataclass(frozen=True)
class Fit:
    """What a fit leaves: the posterior, the bound's trace, and whether it converged."""

    q: Any
    trace: list[float]
    iterations: int
    converged: bool
    reduce: Any
    cursor: Cursor


LOOPS: dict[str, Loop] = {"cavi": cavi, "squarem": squarem, "memoised": Memoised()}


def loop_of(model: Any) -> Loop:
    """Return the loop of a model: its own (`Driven`), the one that it names (`Looped`), or another.

    That is `squarem` where the model is `Accelerable`, else `cavi`.
    """
    if isinstance(model, Driven):
        return lambda model, reduce, cursor: model.steps(reduce, cursor)
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
        Relative tolerance on the bound; see `UntilConverged`.
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
    run = loop or loop_of(model)
    return go_on(model, reduce, q, tol=tol, max_iter=max_iter, loop=run)


def go_on(model: Any, reduce: Observing, q: Any, *, tol: float, max_iter: int, loop: Loop) -> Fit:
    """Fit a model from given first parameters; other parameters are those of `drive`."""
    reduce.most_sweeps = max_iter
    steps = UntilConverged(loop(model, reduce, begin(loop, model, q, reduce)), tol, max_iter)
    step = deque(steps, maxlen=1).pop()
    return Fit(step.q, steps.trace, step.iteration + 1, steps.converged, reduce, step.cursor)
