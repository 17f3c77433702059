"""Mixture of logistic experts with z summed out: hold-out choice, modes, then Gaussians.

The likelihood is that of `likelihood`, exact at a point and averaged over draws that are fixed
for each row under a Gaussian, so every phase climbs a smooth function that does not change,
by L-BFGS (`lbfgs`) at the driver. A partition has no state; it returns log-likelihoods and
gradients at all points at once (restarts and candidates share the pass).

1. Choice: every candidate prior is fitted to the rows but those held out, to its mode; the
   one with the best log-likelihood of the held-out rows stands. Logistic regression (K = 1)
   is among them, and a mixture must beat it by one standard error of the paired difference.
   Priors with as many experts that are within two standard errors of the best share its starts.
2. Mode: from several starts, on all rows.
3. Gaussian: q = N(m, diag s^2) from each mode. From 5000 rows on only s is fitted and m stays
   at the mode: on a9a moving m as well raised the bound and lowered the held-out
   log-likelihood. Predictions average over the starts.

In the trace stands the objective: in phase 3 the bound (its expectation by the fixed draws, the
mean over starts, which lies below that of their mixture); in phase 2 the bound of a narrow
spike at the point, below anything in phase 3; in phase 1 the same, averaged over candidates,
which is not comparable. The fit is judged by its own rises, at ``tolerance``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from vbmodels.core.ascent import search
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, State
from vbmodels.experts.batch import Observed, Rows
from vbmodels.experts.candidate import Candidate, Point, Sums
from vbmodels.experts.choice import Choice, choose
from vbmodels.experts.posterior import Component, Posterior
from vbmodels.experts.searches import Climbing, begun, judged, trials

FEW_ROWS = 5000
"""Below this many rows hold-out takes every row once (five parts), and more draws are used."""
FOLDS = 5


@dataclass(frozen=True)
class Search(State):
    """The points of a phase: "choice", "judged", "mode" or "gaussian".

    Attributes
    ----------
    observed
        Counts of the rows.
    seed
        Seed of the starts.
    chosen
        The prior after the choice, with its held-out log-likelihood a row; None before.
    """

    phase: str
    points: tuple[Point, ...]
    observed: Observed
    seed: int
    chosen: Choice | None = None

    @property
    def own(self) -> tuple[Point, ...]:
        """The mixture's points, without the logistic regression that it is compared with."""
        k = max(p.candidate.n_experts for p in self.points)
        return tuple(p for p in self.points if p.candidate.n_experts == k)


@dataclass(frozen=True)
class SearchCursor(Cursor):
    """A cursor with the searches."""

    searches: tuple[Climbing, ...] = ()

    @property
    def going(self) -> list[int]:
        """Which searches go on."""
        return [i for i, s in enumerate(self.searches) if not s.done]

    @property
    def over(self) -> bool:
        """Whether all have ended."""
        return not self.going


@dataclass(frozen=True)
class MarginalExperts:
    """Fit a mixture of logistic experts by its marginal likelihood.

    Parameters
    ----------
    n_experts
        K, or the largest K where several are tried.
    tau
        Precision of the prior; None to choose by hold-out.
    shared
        Whether the experts have a common mean; None to choose by hold-out.
    counts
        Numbers of experts to choose from; by default n_experts alone (and 1, which is
        logistic regression).
    kappas, omegas
        Weights of the mutual angular prior and of Omega to choose from.
    n_restarts
        Starts whose posteriors are averaged.
    gaussian
        What is fitted from the modes on: "full", "widths" (s alone), "none", or "auto".
    draws
        Fixed draws of each row, even; by default 4, and 32 below 5000 rows.
    tolerance
        Rise of the objective, in nats a row, that ends a search.
    choice_tolerance
        The same while candidates are compared.
    baseline_beside
        Whether a logistic regression is fitted beside the mixture, to compare predictions.
    """

    n_experts: int = 5
    tau: float | None = None
    shared: bool | None = None
    counts: tuple[int, ...] = ()
    kappas: tuple[float, ...] = (0.0,)
    omegas: tuple[float, ...] = (0.0,)
    taus: tuple[float, ...] = (0.1, 1.0, 3.0, 10.0)
    n_restarts: int = 5
    gaussian: Literal["auto", "full", "widths", "none"] = "auto"
    draws: int | None = None
    tolerance: float = 3e-6
    choice_tolerance: float = 1e-5
    baseline_beside: bool = False

    def observe(self, batch: Rows) -> Observed:
        """Count the rows and the columns' squares."""
        return Observed.of(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> Search:
        """Begin the choice, or the modes where there is nothing to choose."""
        observed.refuse_one_class()
        seed = int(rng.integers(2**62))
        candidates = self.candidates()
        if len(candidates) == 1:
            only = Choice(tuple(candidates), np.zeros(1), 0, (0,), 0.0, 0.0)
            return replace(self._modes(observed, seed, only, ()), chosen=None)
        folds = range(1 if observed.rows >= FEW_ROWS else FOLDS)
        columns = observed.squares.size
        points = tuple(
            Point.random(
                replace(c, fold=f), columns, np.random.default_rng([seed, 0, f, i])
            ).narrowed(observed)
            for c in candidates
            for f in folds
            for i in range(2 if len(folds) == 1 and c.n_experts > 1 else 1)
        )
        return Search("choice", points, observed, seed)

    def candidates(self) -> list[Candidate]:
        """Return the priors to choose from; those of logistic regression first."""
        taus = self.taus if self.tau is None else (self.tau,)
        shared = (False, True) if self.shared is None else (self.shared,)
        counts = [k for k in (self.counts or (self.n_experts,)) if k > 1]
        fixed = self.tau is not None and self.shared is not None and not self.counts
        fixed = fixed and len(self.kappas) == len(self.omegas) == 1
        grid = itertools.product(counts, taus, shared, self.kappas, self.omegas)
        mixtures = [Candidate(*one) for one in grid]
        if fixed and mixtures:
            return mixtures
        return [Candidate(1, tau, False) for tau in taus] + mixtures

    def local_step(self, q: Search, batch: Rows, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: Search, batch: Rows, local: None) -> Sums:
        """Evaluate every point on the partition."""
        return Sums.at(q.points, batch, FOLDS, self._draws(q.observed))

    def global_step(self, q: Search, stats: Sums) -> Search:
        """Return the points one step up their gradients; the loop itself remembers more."""
        searches = begun(q.points, q.observed, stats)
        return replace(q, points=trials(q.points, searches, q.observed))

    def elbo(self, q: Search, stats: Sums) -> float:
        """Return the mean of the points' objectives; see the module's text."""
        chosen = q.points if q.phase in ("choice", "judged") else q.own
        values = [
            p.objective(float(v), g)[0]
            for p, v, g in _evaluated(q, stats)
            if any(p is own for own in chosen)
        ]
        return sum(values) / len(values)

    def unfinished(self, q: Search) -> str | None:
        """Say so while the prior is being chosen."""
        return "the prior was being chosen" if q.phase in ("choice", "judged") else None

    def posterior(self, q: Search) -> Posterior:
        """Return the components whose predictions are averaged."""
        if self.unfinished(q):
            raise ValueError("the prior is still being chosen: there is no posterior yet")
        return _posterior(q.own)

    def baseline(self, q: Search) -> Posterior | None:
        """Return the logistic regression fitted beside the mixture, where there is one."""
        rest = tuple(p for p in q.points if p.candidate.n_experts == 1)
        return _posterior(rest) if rest and len(rest) < len(q.points) else None

    steps = search

    def begin(self, cursor: Cursor) -> Cursor:
        """Begin a search at every point."""
        if isinstance(cursor, SearchCursor):
            return cursor
        q = cursor.q
        return SearchCursor(**vars(cursor), searches=begun(q.points, q.observed, cursor.stats))

    def shown(self, at: SearchCursor) -> Step | None:
        """Show the points after each evaluation; the last phase ends with its searches."""
        if at.q.phase == "judged":
            return None
        last = "mode" if self.gaussian == "none" else "gaussian"
        return Step.at(at, at.q.phase == last and at.over)

    def ask(self, at: SearchCursor) -> Search:
        """Ask for the trials of the searches that go on, or for the points of the next phase."""
        q: Search = at.q
        if not at.over:
            asked = trials(q.points, at.searches, q.observed)
            return replace(q, points=tuple(asked[i] for i in at.going))
        if q.phase == "choice":
            # All points once more, together: their held-out rows are compared in pairs.
            return replace(q, phase="judged")
        if q.phase == "judged":
            return self._modes(q.observed, q.seed, choose(q.points, at.stats), q.points)
        narrow = self.gaussian == "widths"
        narrow = narrow or (self.gaussian == "auto" and q.observed.rows >= FEW_ROWS)
        # The best start first: its experts are those that are reported.
        value = {id(p): p.objective(float(v), g)[0] for p, v, g in _evaluated(q, at.stats)}
        ordered = sorted(q.points, key=lambda p: (-p.candidate.n_experts, -value[id(p)]))
        wide = tuple(p.widened(q.observed, narrow) for p in ordered)
        return replace(q, phase="gaussian", points=wide)

    def take(self, at: SearchCursor, asked: Search, stats: Sums) -> SearchCursor:
        """Take or shorten each trial, or begin the searches of the next phase."""
        q, number = at.q, at.number + 1
        if asked.phase != q.phase:
            new = asked.phase != "judged"
            searches = begun(asked.points, q.observed, stats) if new else ()
            return SearchCursor(asked, stats, number, self.elbo(asked, stats), searches)
        tolerance = self.choice_tolerance if q.phase == "choice" else self.tolerance
        points, searches, stats = judged(
            q.points, at.searches, at.stats, at.going, (asked.points, stats),
            q.observed, tolerance * q.observed.rows,
        )  # fmt: skip
        q = replace(q, points=points)
        return SearchCursor(q, stats, number, self.elbo(q, stats), searches)

    def _modes(
        self, observed: Observed, seed: int, choice: Choice, found: Sequence[Point]
    ) -> Search:
        """Begin at what hold-out found on its parts, and at random for the rest."""
        columns = observed.squares.size
        kept = [choice.candidates[i] for i in choice.kept]
        starts = [[p for p in found if replace(p.candidate, fold=-1) == c] for c in kept]
        points = []
        for i in range(self.n_restarts if kept[0].n_experts > 1 else 1):
            at = i % len(kept)
            if starts[at]:
                points.append(replace(starts[at].pop(0), candidate=kept[at]))
            else:
                rng = np.random.default_rng([seed, 1, i])
                points.append(Point.random(kept[at], columns, rng).narrowed(observed))
        if self.baseline_beside and kept[0].n_experts > 1:
            tau = choice.logistic_tau if found else self.taus[0]
            plain = Candidate(1, tau, False)
            points.append(Point.random(plain, columns, np.random.default_rng(seed)))
        return Search("mode", tuple(points), observed, seed, choice)

    def _draws(self, observed: Observed) -> int:
        if self.draws is not None:
            return self.draws
        return 4 if observed.rows >= FEW_ROWS else 32


def _posterior(points: Sequence[Point]) -> Posterior:
    return Posterior(
        tuple(
            Component(p.mean, np.zeros_like(p.mean) if p.log_sd is None else np.exp(p.log_sd))
            for p in points
        )
    )


def _evaluated(q: Search, stats: Sums) -> Iterator[tuple[Point, float, FloatArray]]:
    return zip(q.points, stats.value, stats.gradient, strict=True)
