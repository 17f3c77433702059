"""Proposals swept side by side, of which the best takes the fit's place; single sweeps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Request, Save, Show, Sweep
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, aligned
from vbmodels.features.ibp.predict import measured as yardstick
from vbmodels.features.search.proposals import HeldOmega, deletes, held_of, plain_edit
from vbmodels.features.search.states import (
    ALL,
    HELD,
    IDLE,
    NEWEST,
    NO_KEYS,
    Candidate,
    CandidateStats,
    SearchGlobal,
    SearchOptions,
    SearchRequest,
    SearchStats,
    Swept,
)

SAME = 0.01
"""Nats: proposals whose bounds differ by less are one."""
CALM = 0.1
"""Nats: a fit whose bound rises by less waits while proposals are tried."""
RIVAL = 20.0
"""Nats: a proposal that cannot come nearer than this to the bound of the best one is given up."""


@dataclass(frozen=True)
class Plan:
    """How fits of one kind are swept, and what a proposal must bring.

    Attributes
    ----------
    name
        Of the kind.
    held, newest, free
        Sweeps with nu held, with its last feature alone, and with every feature.
    slack
        A proposal whose bound fell by more nats is not measured.
    check, behind
        After so many sweeps, and in each that follows, a proposal whose bound is further behind
        that of the fit, in nats, is given up, and so is one with the bound of another: they have
        come to the same fit.
    gain
        Nats of the yardstick that it must bring.
    redraws
        Whether rows are drawn again once one is accepted.
    residue
        Whether proposals start along directions of residuals.
    """

    name: str
    held: int = 0
    newest: int = 0
    free: int = 0
    slack: float = 100.0
    check: int = 1_000
    behind: float = 0.0
    gain: float = 0.0
    redraws: bool = True
    residue: bool = False

    @property
    def sweeps(self) -> int:
        """All of them."""
        return self.held + self.newest + self.free

    def moves(self, step: int) -> int:
        """Return what moves at a sweep."""
        if step < self.held:
            return HELD
        return NEWEST if step < self.held + self.newest else ALL


@dataclass(frozen=True)
class Tried(State, kind="features/search.Tried"):
    """What became of proposals.

    Attributes
    ----------
    at
        The search, with the fit that goes on.
    accepted
        Whether that is the best proposal.
    best, place, sums
        The best proposal, its place, and its sums at the last sweep; None if it was not measured.
    """

    at: SearchGlobal
    accepted: bool
    best: Candidate
    place: int
    sums: CandidateStats | None

    def deletes(self, model: SearchOptions, kept: int | None = None) -> tuple[Candidate, ...]:
        """Propose deletes from the best proposal."""
        if self.sums is None:
            return ()
        return deletes(self.best, held_of(self.best, self.sums, model.fit), self.place, kept)


Between = Callable[[tuple[Candidate, ...], SearchStats, int], tuple[tuple[Candidate, ...], int]]
"""From the fits after a sweep, its sums, and the next step to the fits and the step that follow."""


def trial(
    model: SearchOptions,
    at: SearchGlobal,
    plan: Plan,
    proposals: tuple[Candidate, ...],
    keys: IntArray = NO_KEYS,
    between: Between | None = None,
) -> Algorithm:
    """Sweep proposals side by side; the best takes the fit's place if its yardstick is higher.

    Parameters
    ----------
    model, at
        The model, and the search.
    plan
        How they are swept.
    proposals
        Fits.
    keys
        By which they are known once refused.
    between
        What else changes between sweeps.

    Returns
    -------
    tried
        `Tried`.
    """
    fits, step, last = (at.best, *proposals), 0, plan.sweeps - 1
    given_up = np.zeros(len(fits), bool)
    while True:
        at, fits, step, given_up = yield Save((at, fits, step, given_up))
        ends, least = step == last, fits[0].bound - plan.slack
        proposed = []
        for one, gone in zip(fits[1:], given_up[1:].tolist(), strict=True):
            measured = bool(ends and not gone and one.bound >= least)
            waits = gone or (ends and not measured)
            proposed.append(Swept(one, IDLE if waits else plan.moves(step), measured))
        compared = any(one.measured for one in proposed)
        swept = (_fit_itself(fits[0], ends, compared), *proposed)
        every = between is not None or step >= plan.held + plan.newest
        at, fits, sums, bounds = yield from sweep(
            model, at, swept, plan.name, every=every, residue=plan.residue
        )
        before = np.array([one.bound for one in fits])
        fits = tuple(
            moved(model, fit, own, bound, one.measured)
            for fit, one, own, bound in zip(fits, swept, sums.fits, bounds, strict=True)
        )
        if ends:
            break
        if every:
            rises = np.array(bounds) - before
            given_up = _given_up(given_up, np.array(bounds), rises, plan, step)
            if given_up[1:].all():
                break
        step += 1
        if between is not None:
            fits, step = between(fits, sums, step)
        elif every and all(one.calm for one, gone in zip(fits, given_up, strict=True) if not gone):
            step = last
    best = 1 + int(np.argmax([one.value for one in fits[1:]]))
    fit, winner = fits[0], fits[best]
    history = replace(at.history, tried=at.history.tried + sum(p.measured for p in proposed))
    if not winner.value > fit.value + plan.gain:
        at = replace(at, fit=fit, history=history, failed=np.concatenate([at.failed, keys]))
        return Tried(at, False, winner, best, sums.fits[best])
    history = replace(
        history,
        stages=np.append(history.stages, plan.name).astype("<U8"),
        sizes=np.concatenate([history.sizes, [[len(fit.labels), len(winner.labels)]]]),
        gains=np.append(history.gains, winner.value - fit.value),
    )
    taken = replace(winner, source=plain_edit(best, np.arange(len(winner.labels))))
    redrawn = at.redrawn and not plan.redraws
    at = replace(at, fit=taken, history=history, failed=NO_KEYS, changed=True, redrawn=redrawn)
    return Tried(at, True, winner, best, sums.fits[best])


def _fit_itself(fit: Candidate, ends: bool, compared: bool) -> Swept:
    """Sweep the fit that proposals would replace: a calm one waits for them.

    Its yardstick is measured where it is not known, at the end, if any proposal's is.
    """
    if (ends and np.isfinite(fit.value)) or (fit.calm and not ends):
        return Swept(fit, IDLE)
    return Swept(fit, HELD if fit.calm else ALL, ends and compared)


def _given_up(
    before: BoolArray, bounds: FloatArray, rises: FloatArray, plan: Plan, step: int
) -> BoolArray:
    """Return the proposals that are far behind, or the same as an earlier one.

    The bound of coordinate ascent rises less from sweep to sweep: in the sweeps that are left a
    proposal comes no further than as many times its last rise.
    """
    gone = before.copy()
    reach = bounds + np.maximum(rises, 0.0) * (plan.sweeps - 1 - step)
    least = max(bounds[0] - plan.slack, np.max(bounds[1:][~gone[1:]], initial=-np.inf) - RIVAL)
    for i in range(1, len(bounds)):
        gone[i] = gone[i] or reach[i] < least
        if step >= plan.check:
            earlier = [j for j in range(1, i) if not gone[j]]
            same = any(abs(bounds[i] - bounds[j]) < SAME for j in earlier)
            gone[i] = gone[i] or same or bounds[i] < bounds[0] - plan.behind
    return gone


def moved(
    model: SearchOptions, one: Candidate, sums: CandidateStats | None, bound: float, measured: bool
) -> Candidate:
    """Return a fit after a sweep: its parameters move unless it was idle or measured."""
    if sums is None:
        return replace(one, source=None)
    calm = bool(np.isfinite(one.bound) and bound - one.bound < CALM)
    q, value, error = one.q, -np.inf, 0.0
    if not measured:
        q = model.fit.global_step(one.q, sums.fit)
    elif sums.likelihood is not None:
        value, error = yardstick(q, sums.fit.on, sums.likelihood, model.fit.bias_variance)
    return Candidate(q, one.labels, None, bound, calm, value, error)


def still(
    model: SearchOptions, at: SearchGlobal, phase: str, **options: Any
) -> Generator[Request, Any, tuple[SearchGlobal, SearchStats]]:
    """Sum over the rows of the best fit, which does not move."""
    swept = (Swept(at.best, HELD),)
    at, fits, sums, bounds = yield from sweep(model, at, swept, phase, **options)
    return replace(at, fit=replace(fits[0], bound=bounds[0], source=None)), sums


def held_omega_of(model: SearchOptions, at: SearchGlobal, sums: SearchStats) -> HeldOmega:
    """Return the sums of the best fit with omega held."""
    assert sums.fits[0] is not None
    return held_of(at.best, sums.fits[0], model.fit)


def sweep(
    model: SearchOptions,
    at: SearchGlobal,
    swept: tuple[Swept, ...],
    phase: str,
    *,
    every: bool = False,
    best: bool = False,
    by_trace: bool = False,
    **options: Any,
) -> Generator[
    Request, Any, tuple[SearchGlobal, tuple[Candidate, ...], SearchStats, tuple[float, ...]]
]:
    """Sweep fits side by side; return the search, the fits, the sums and the bounds.

    Parameters
    ----------
    model, at, swept
        The model, the search, and the fits.
    phase
        What the sweep is for.
    every
        Whether the bounds of proposals are wanted; else they are -inf.
    best
        Whether the best of the fits is shown; else the first.
    by_trace
        Whether the trace of bounds may end the fit here.
    **options
        Other fields of the request.
    """
    request = aligned(
        SearchRequest(at.seed, at.attempt, at.share, swept, pooled=at.pooled, **options)
    )
    sums, fits = (yield Sweep(request)), tuple(one.fit for one in request.fits)

    def bound_of(number: int) -> float:
        own = sums.fits[number]
        if own is None:
            return fits[number].bound
        wanted = number == 0 or every or best
        return model.fit.elbo(fits[number].q, own.fit) if wanted else -np.inf

    bounds = tuple(map(bound_of, range(len(fits))))
    at = replace(at, pooled=np.zeros(0, np.int64), phase=phase, sweep=at.sweep + 1)
    if not fits:
        elbo = float(np.mean([own.log_likelihood for own in sums.chains]))
        yield Show(at, elbo, by_trace=False)
        return at, fits, sums, bounds
    place = int(np.argmax(bounds)) if best else 0
    yield Show(replace(at, fit=fits[place], place=place), bounds[place], by_trace)
    return at, fits, sums, bounds
