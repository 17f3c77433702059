"""Several starts side by side: one reduce serves all, the best by one yardstick goes on alone.

Starts may come by different bounds (annealed Polya-Gamma, or the text's bound and a polish).
Bounds of different kinds do not compare, so the choice is by `yardstick`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.polish import polya_gamma_of
from vbmodels.features.yardstick import likelihood_draws, measured


@dataclass(frozen=True)
class StartsGlobal(State):
    """The starts that still run, and what all were worth.

    Parameters
    ----------
    members
        Global parameters of the starts that still run.
    bounds
        [S] last bound of every start, each of its own kind; -inf before the first sweep.
    yardstick, error
        [S] what they were chosen by and its Monte-Carlo error; -inf and 0 before the choice.
    chosen
        Number of the start that went on alone; -1 while all run.
    sweep
        Global steps so far.
    """

    members: tuple[State, ...]
    bounds: FloatArray
    yardstick: FloatArray
    error: FloatArray
    chosen: int
    sweep: int


@dataclass(frozen=True)
class StartsLocal(State):
    """Local states of the starts that still run."""

    members: tuple[State, ...]


@dataclass(frozen=True)
class StartsStats(Stats):
    """Statistics of the starts that still run; ``likelihood`` [S, draws] is made at the choice."""

    members: tuple[Stats, ...]
    likelihood: FloatArray | None


@dataclass(frozen=True)
class Restarts:
    """Runs several starts; after ``trial_sweeps`` sweeps the best one by the yardstick goes on.

    Parameters
    ----------
    models
        One a start: `PolyaGammaIBP` or `Polished`; ``warming(q)`` says whether it has yet to
        settle.
    trial_sweeps
        Sweeps that all starts make; every start must have reached Polya-Gamma by then.
    draws
        Monte-Carlo draws of the yardstick.
    """

    models: tuple[Any, ...]
    trial_sweeps: int
    draws: int = 32

    def observe(self, batch: Any) -> Stats:
        """Observe as every model does."""
        return StartsStats(tuple(m.observe(batch) for m in self.models), None)

    def init(self, observed: StartsStats, rng: np.random.Generator) -> StartsGlobal:
        """Start from generators of their own."""
        pairs = zip(self.models, observed.members, rng.spawn(len(self.models)), strict=True)
        members = tuple(m.init(o, own) for m, o, own in pairs)
        nothing = np.full(len(members), -np.inf)
        return StartsGlobal(members, nothing, nothing, np.zeros(len(members)), -1, 0)

    def running(self, q: StartsGlobal) -> list[int]:
        """Return the numbers of the starts that still run."""
        return list(range(len(self.models))) if q.chosen < 0 else [q.chosen]

    def chooses(self, q: StartsGlobal) -> bool:
        """Whether the trial ends with this sweep."""
        return q.chosen < 0 and q.sweep + 1 >= self.trial_sweeps

    def local_step(self, q: StartsGlobal, batch: Any, local: StartsLocal | None) -> StartsLocal:
        """Run every start's local step."""
        own = self.running(q)
        before: tuple[Any, ...] = (None,) * len(own)
        if local is not None:
            before = local.members
            if len(before) > len(own):
                before = (before[q.chosen],)
        pairs = zip(own, q.members, before, strict=True)
        return StartsLocal(tuple(self.models[i].local_step(m, batch, b) for i, m, b in pairs))

    def suff_stats(self, q: StartsGlobal, batch: Any, local: StartsLocal) -> StartsStats:
        """Collect every start's statistics, and what the choice needs."""
        triples = list(zip(self.running(q), q.members, local.members, strict=True))
        members = tuple(self.models[i].suff_stats(m, batch, x) for i, m, x in triples)
        likelihood = None
        if self.chooses(q) and len(self.models) > 1:
            likelihood = np.stack(
                [
                    likelihood_draws(polya_gamma_of(m), batch, x.nu, self.draws)  # type: ignore[attr-defined]
                    for _, m, x in triples
                ]
            )
        return StartsStats(members, likelihood)

    def global_step(self, q: StartsGlobal, stats: StartsStats) -> StartsGlobal:
        """Move every start; at the end of the trial keep the best."""
        own, bounds = self.running(q), q.bounds.copy()
        bounds[own] = self._bounds(q, stats)
        yardstick, error, chosen = q.yardstick, q.error, q.chosen
        if self.chooses(q):
            yardstick, error = self._measure(q, stats, bounds)
            chosen = int(np.argmax(yardstick))
        triples = zip(own, q.members, stats.members, strict=True)
        members = tuple(self.models[i].global_step(m, s) for i, m, s in triples)
        if self.chooses(q):
            members = (members[chosen],)
        return StartsGlobal(members, bounds, yardstick, error, chosen, q.sweep + 1)

    def _measure(
        self, q: StartsGlobal, stats: StartsStats, bounds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        if stats.likelihood is None:
            return bounds, np.zeros(len(bounds))
        found = []
        for i, member in enumerate(q.members):
            model = self.models[i]
            bias = getattr(model, "polya", model).bias_variance
            on = stats.members[i].on  # type: ignore[attr-defined]
            found.append(measured(polya_gamma_of(member), on, stats.likelihood[i], bias))
        values = np.array(found)
        return values[:, 0].copy(), values[:, 1].copy()

    def elbo(self, q: StartsGlobal, stats: StartsStats) -> float:
        """Return the best bound; while starts of several kinds run it only shows progress."""
        return max(self._bounds(q, stats))

    def shown(self, at: Cursor) -> Step:
        """Let the trace decide, but not before the trial is over."""
        return Step.at(at, False if self.warming(at.q) else None)

    def warming(self, q: StartsGlobal) -> bool:
        """Whether starts still compete, or the chosen one has yet to settle."""
        return q.chosen < 0 or self.models[q.chosen].warming(q.members[0])

    def _bounds(self, q: StartsGlobal, stats: StartsStats) -> list[float]:
        triples = zip(self.running(q), q.members, stats.members, strict=True)
        return [self.models[i].elbo(m, s) for i, m, s in triples]


def leader(q: StartsGlobal) -> Any:
    """Return the global parameters of the chosen start, or of the best bound so far."""
    return q.members[0 if q.chosen >= 0 else int(np.argmax(q.bounds))]


def leading(q: StartsGlobal, local: StartsLocal) -> Any:
    """Return the local state of the chosen start, or of the best bound so far."""
    return local.members[0 if q.chosen >= 0 else int(np.argmax(q.bounds))]
