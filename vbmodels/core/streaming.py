"""Streams: a posterior that goes on with new rows alone, and forgets old ones by and by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vbmodels.core.fit import Fit, drive, go_on
from vbmodels.core.in_process import InProcess
from vbmodels.core.memoised import ROUNDS, Held, Memoised, NotMemoisable, refuse
from vbmodels.core.protocol import Streamable
from vbmodels.core.state import State


@dataclass(frozen=True)
class Remembered(State):
    """All that a stream keeps of the rows it has learnt from.

    Attributes
    ----------
    q
        The posterior.
    held
        Their statistics, old ones discounted.
    """

    q: State
    held: Held

    @classmethod
    def of(cls, model: Any, done: Fit) -> Remembered:
        """Return what a fit of a `Streamable` model leaves, whatever its loop."""
        return cls(done.q, Held.of(model, done.cursor))


def refuse_stream(model: Any) -> None:
    """Raise `NotMemoisable` where a model cannot learn from new rows alone."""
    refuse(model)
    if not isinstance(model, Streamable):
        raise NotMemoisable(
            f"{type(model).__name__} cannot learn from new rows alone: it has no method "
            "unit_bounds, so part of what it learns may stand outside of its statistics"
        )


def updated(
    model: Any,
    before: Remembered | None,
    batches: Sequence[Any],
    *,
    forgetting_factor: float = 1.0,
    seed: int = 0,
    tol: float = 1e-8,
    max_iter: int = 1000,
    rounds: int = ROUNDS,
) -> tuple[Fit, Remembered]:
    """Learn from new rows; return the fit to them, and what to go on from next time.

    With S_0 the statistics of earlier rows as they were left, made with their local states z_0,
    f the factor and z the new rows' local states, the fit climbs

        L(q, z) = f E_q[log p(x_0, z_0 | global)] + E_q[log p(x, z | global)] + H(z) - KL(q || p),

    that is, up to a constant, the bound under the power prior p(global) p(x_0, z_0 | global)^f
    (Ibrahim and Chen 2000); with f = 1 that of streaming variational Bayes (Broderick et al.
    2013). Earlier rows keep their local states: where f = 1 and these would hardly move, the
    posterior is that of all rows together. A row learnt n times ago weighs f^n.

    Parameters
    ----------
    model
        A `Streamable` model.
    before
        What was left; None for the first rows.
    batches
        The new rows, one partition's each.
    forgetting_factor
        f, in (0, 1].
    seed, tol, max_iter
        As in `vbmodels.core.fit.fit`.
    rounds
        Of the memoised loop.

    Raises
    ------
    NotMemoisable
        If the model cannot learn so.
    ValueError
        If the factor is not in (0, 1].
    """
    refuse_stream(model)
    _refuse_factor(forgetting_factor)
    reduce = InProcess(model, batches)
    if before is None:
        done = drive(model, reduce, seed=seed, tol=tol, max_iter=max_iter, loop=Memoised(rounds))
    else:
        loop = after(before, forgetting_factor, rounds)
        done = go_on(model, reduce, before.q, tol=tol, max_iter=max_iter, loop=loop)
    return done, Remembered.of(model, done)


def after(before: Remembered, forgetting_factor: float, rounds: int = ROUNDS) -> Memoised:
    """Return the loop that goes on from ``before.q`` with new rows; see `updated`."""
    _refuse_factor(forgetting_factor)
    return Memoised(rounds, before.held.scaled(forgetting_factor))


def _refuse_factor(factor: float) -> None:
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"expected a forgetting factor in (0, 1], got {factor}")
