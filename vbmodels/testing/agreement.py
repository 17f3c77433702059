"""Item 10 of the contract: a score of the training rows gives what the fit published of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.identity import Figures, Identity

if TYPE_CHECKING:
    from vbmodels.testing.case import Case

SCORES = Identity(10, "a score of the training rows gives what the fit published of them")
MOST_REPEATS = 500


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Item 10.

    Attributes
    ----------
    published
        (model, q, partition, its state at the end of the fit) -> what is published of it.
    scored
        (model, q, the same rows as a new partition) -> what a score gives; None where that is
        ``published`` of a state that was made from cold.
    hidden
        A partition -> its rows as a score sees them: without labels, say.
    atol
        Largest difference of what is made from cold.
    cold
        Whether a state from cold is to be the fit's; not so where states are draws.
    astray
        Largest share of rows that may be told something else altogether: see ``because``.
    largest
        Largest difference of the score's own, where it says something else than the fit:
        ``because`` says what.
    """

    published: Callable[[Any, Any, Any, Any], FloatArray]
    scored: Callable[[Any, Any, Any], FloatArray] | None = None
    hidden: Callable[[Any], Any] = lambda batch: batch
    model: Callable[[], Any] | None = None
    batches: Callable[[], Sequence[Any]] | None = None
    tol: float = 1e-12
    max_iter: int = 3000
    atol: float = 1e-6
    cold: bool = True
    astray: float = 0.0
    largest: float | None = None
    because: str = ""

    def __post_init__(self) -> None:
        if (self.largest is not None or self.astray) and len(self.because.split()) < 5:
            raise ValueError("expected a sentence that says why a score may differ from the fit")


def settled(model: Any, q: Any, batch: Any, show: Callable[[Any], FloatArray]) -> Any:
    """Return a partition's state from cold at ``q``: steps until what they show stands still."""
    local = model.local_step(q, batch, None)
    before = show(local)
    for _ in range(MOST_REPEATS):
        local = model.local_step(q, batch, local)
        now = show(local)
        if np.max(np.abs(now - before), initial=0.0) < 1e-12:
            break
        before = now
    return local


def check_agreement(case: Case, item: Agreement) -> Figures:
    """What is published of the training rows is had again, from cold and by a score."""
    model = (item.model or case.model)()
    parts = 1 if case.undivided is not None else 3
    batches = item.batches() if item.batches else case.batches(0, parts)
    with warnings.catch_warnings():
        # Coordinate ascent over discrete patterns may creep for long; what is left is published.
        warnings.simplefilter("ignore", NotConverged)
        done = fit(model, batches, tol=item.tol, max_iter=item.max_iter)
    states = done.reduce.local_states(done.iterations - 1)
    allowed = item.atol if item.largest is None else item.largest
    cold: list[FloatArray] = []
    away: list[FloatArray] = []
    values = []
    for i, (batch, state) in enumerate(zip(batches, states, strict=True)):
        told = item.published(model, done.q, batch, state)
        finite = bool(np.isfinite(told).all())
        SCORES.holds(finite, f"partition {i}", "what is published is not finite")
        values.append(told.ravel())
        new = item.hidden(batch)
        if item.cold and (item.scored is None or state is not None):

            def show(local: Any, batch: Any = batch) -> FloatArray:
                return item.published(model, done.q, batch, local)

            again = show(settled(model, done.q, new, show))
            cold.append(_differences(again, told))
        if item.scored is not None:
            score = item.scored(model, done.q, new)
            SCORES.holds(
                score.shape == told.shape,
                f"partition {i}",
                f"a score has the shape {score.shape}, what is published {told.shape}",
            )
            away.append(_differences(score, told))
    spread = float(np.ptp(np.concatenate(values)))
    SCORES.holds(
        spread > 10.0 * item.atol,
        f"batches(0, {parts}), {done.iterations} sweeps",
        "all rows are told the same: the test would prove nothing",
    )
    return {
        "from cold": _within(cold, item.atol, item.astray, "from cold, what is published"),
        "by a score": _within(away, allowed, item.astray, "a score of the training rows"),
        "spread": spread,
    }


def _differences(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the largest difference of each row."""
    largest: FloatArray = np.abs(one - other).reshape(len(one), -1).max(axis=1, initial=0.0)
    return largest


def _within(parts: Sequence[FloatArray], allowed: float, astray: float, what: str) -> float:
    if not parts:
        return 0.0
    found = np.concatenate(parts)
    off = float(np.mean(found > allowed))
    SCORES.holds(
        off <= astray,
        f"row {int(found.argmax())} and others, {off:.1%} of all",
        f"{what} differs by {found.max():.3g}, allowed {allowed:.3g}",
    )
    return float(found[found <= allowed].max(initial=0.0))
