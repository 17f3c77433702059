"""The loop of models that search: the next point hangs on more than the last one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.state import aligned


class Searching(Protocol):
    """A model that asks for points and takes in what is found there.

    What it remembers of the way (a line search, draws that are kept) stands in a cursor of its
    own class. Partitions keep nothing: every sweep is a cold one.
    """

    def begin(self, cursor: Cursor) -> Cursor:
        """Return the model's own cursor at ``cursor``; one that is the model's own goes on."""

    def shown(self, at: Any) -> Step | None:
        """Return the step at ``at`` as `Judging.shown` does; a converged one is the last."""

    def ask(self, at: Any) -> Any:
        """Return the parameters to evaluate next."""

    def take(self, at: Any, asked: Any, stats: Any) -> Cursor:
        """Return the cursor after ``stats`` were found at ``asked``; its number is one higher."""


def search(model: Searching, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """Evaluate what the model asks for, from ``cursor``, until it calls a step converged.

    Where ``reduce`` has an attribute ``most_sweeps``, the sweep of this number is the last one: it
    is shown though the model would pass it in silence, so that sweeps are not overrun.
    """
    at = model.begin(cursor)
    most = getattr(reduce, "most_sweeps", None)
    while True:
        step = model.shown(at)
        if step is None and most is not None and at.number + 1 >= most:
            step = Step.at(at, converged=False)
        if step:
            yield step
            if step.converged:
                return
        asked = aligned(model.ask(at))
        stats = aligned(reduce(asked, number=at.number + 1, warm=None))
        at = aligned(model.take(at, asked, stats))
