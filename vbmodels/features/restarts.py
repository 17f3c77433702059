"""Several starts of one model side by side: one reduce serves all, the best bound goes on alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.cavi import Cursor, Reduce, Step, cavi
from vbmodels.state import FloatArray, State, Stats


@dataclass(frozen=True)
class StartsGlobal(State):
    """The starts that still run, and the bounds of all.

    Parameters
    ----------
    members
        Global parameters of the starts that still run.
    bounds
        [S] last bound of every start; -inf before the first sweep.
    chosen
        Number of the start that went on alone; -1 while all run.
    sweep
        Global steps so far.
    """

    members: tuple[State, ...]
    bounds: FloatArray
    chosen: int
    sweep: int


@dataclass(frozen=True)
class StartsLocal(State):
    """Local states of the starts that still run."""

    members: tuple[State, ...]


@dataclass(frozen=True)
class StartsStats(Stats):
    """Statistics of the starts that still run."""

    members: tuple[Stats, ...]


@dataclass(frozen=True)
class Restarts:
    """Runs ``starts`` starts of ``model``; after ``race`` sweeps the best bound goes on.

    All starts have the same bound, so their values compare.

    Parameters
    ----------
    model
        The model; its ``warming(q)`` says whether a start has yet to settle.
    starts
        S.
    race
        Sweeps that all starts make.
    """

    model: Any
    starts: int
    race: int

    def observe(self, batch: Any) -> Any:
        """Observe as the model does."""
        return self.model.observe(batch)

    def init(self, observed: Any, rng: np.random.Generator) -> StartsGlobal:
        """Start S times from generators of their own."""
        members = tuple(self.model.init(observed, own) for own in rng.spawn(self.starts))
        return StartsGlobal(members, np.full(self.starts, -np.inf), -1, 0)

    def local_step(self, q: StartsGlobal, batch: Any, local: StartsLocal | None) -> StartsLocal:
        """Run every start's local step."""
        before: tuple[Any, ...] = (None,) * len(q.members)
        if local is not None:
            before = local.members
            if len(before) > len(q.members):
                before = (before[q.chosen],)
        pairs = zip(q.members, before, strict=True)
        return StartsLocal(tuple(self.model.local_step(m, batch, b) for m, b in pairs))

    def suff_stats(self, q: StartsGlobal, batch: Any, local: StartsLocal) -> StartsStats:
        """Collect every start's statistics."""
        pairs = zip(q.members, local.members, strict=True)
        return StartsStats(tuple(self.model.suff_stats(m, batch, x) for m, x in pairs))

    def global_step(self, q: StartsGlobal, stats: StartsStats) -> StartsGlobal:
        """Move every start; at the end of the race keep the best."""
        bounds = q.bounds.copy()
        running = range(self.starts) if q.chosen < 0 else [q.chosen]
        bounds[list(running)] = self._bounds(q, stats)
        pairs = zip(q.members, stats.members, strict=True)
        members = tuple(self.model.global_step(m, s) for m, s in pairs)
        chosen = q.chosen
        if chosen < 0 and q.sweep + 1 >= self.race:
            chosen = int(np.argmax(bounds))
            members = (members[chosen],)
        return StartsGlobal(members, bounds, chosen, q.sweep + 1)

    def elbo(self, q: StartsGlobal, stats: StartsStats) -> float:
        """Return the best bound."""
        return max(self._bounds(q, stats))

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Coordinate ascent that does not converge before the race is over."""
        for step in cavi(self, reduce, cursor):
            warming = step.q.chosen < 0 or any(self.model.warming(m) for m in step.q.members)
            yield replace(step, converged=False) if warming else step

    def _bounds(self, q: StartsGlobal, stats: StartsStats) -> list[float]:
        pairs = zip(q.members, stats.members, strict=True)
        return [self.model.elbo(m, s) for m, s in pairs]


def leader(q: StartsGlobal) -> Any:
    """Return the global parameters of the start with the best bound."""
    return q.members[0 if q.chosen >= 0 else int(np.argmax(q.bounds))]


def leading(q: StartsGlobal, local: StartsLocal) -> Any:
    """Return the local state of the start with the best bound."""
    return local.members[0 if q.chosen >= 0 else int(np.argmax(q.bounds))]
