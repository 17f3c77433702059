"""The loop of models that search: the next point depends on more than the last one."""

from __future__ import annotations

from typing import Any, Protocol

from vbmodels.core.algorithm import Algorithm, Evaluate, Save, Show
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import aligned


class Searching(Protocol):
    """A model that asks for points and takes in what is found there.

    What it remembers of the way (a line search, draws that are kept) is in a cursor of its
    own class. Partitions keep nothing: every sweep is a cold one.
    """

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound."""

    def begin(self, cursor: Cursor) -> Cursor:
        """Return the model's own cursor at ``cursor``."""

    def shown(self, at: Any) -> Step | None:
        """Return the step at ``at``; a converged one is the last."""

    def ask(self, at: Any) -> Any:
        """Return the parameters to evaluate next."""

    def take(self, at: Any, asked: Any, stats: Any) -> Cursor:
        """Return the cursor after ``stats`` were found at ``asked``; its number is one higher."""


def search(model: Searching, q: Any) -> Algorithm:
    """Evaluate what the model asks for until it calls a step converged."""
    at = None
    q = aligned(q)
    while True:
        at = yield Save(at)
        if at is None:
            stats = yield Evaluate(q)
            at = model.begin(Cursor(q, stats, 0, float(model.elbo(q, stats))))
        step = model.shown(at)
        if step:
            yield Show(step.q, step.elbo, by_trace=step.converged is None)
            if step.converged:
                return step.q
        asked = aligned(model.ask(at))
        stats = yield Evaluate(asked)
        at = aligned(model.take(at, asked, stats))
