"""The sweeps of a search: how long each stage lasts, and what moves in each of its sweeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.search.states import (
    ALL,
    BIRTH,
    CHAINS,
    DELETE,
    HELD,
    IDLE,
    NEWEST,
    RARE,
    REFIT,
    RELABEL,
    RESIDUE,
    SCREEN,
    SETTLE,
    START,
    SWAP,
    TIDY,
    TRIALS,
    WIDEN,
    Lane,
    LaneStats,
    SearchGlobal,
)

CALM = 0.05
"""Nats: a fit whose bound rises by less waits while proposals are tried beside it."""


@dataclass(frozen=True)
class Plan:
    """Sweeps of a stage with nu held, with its last feature alone, and with every feature."""

    held: int = 0
    newest: int = 0
    free: int = 0
    slack: float = 100.0

    @property
    def length(self) -> int:
        """All of them."""
        return self.held + self.newest + self.free

    def mode(self, step: int) -> int:
        """Return what moves at a sweep."""
        if step < self.held:
            return HELD
        return NEWEST if step < self.held + self.newest else ALL


PLANS = {
    START: Plan(held=3, free=40),
    DELETE: Plan(free=6),
    REFIT: Plan(held=3, free=30),
    RELABEL: Plan(held=1, free=10),
    BIRTH: Plan(held=2, newest=4, free=8, slack=30.0),
    SWAP: Plan(free=6),
    RARE: Plan(held=1, newest=5, free=4, slack=30.0),
    WIDEN: Plan(free=30),
}
"""``slack``: a proposal whose bound fell by more nats is not judged."""


def following(
    q: SearchGlobal, stage: str, step: int, lanes: tuple[Lane, ...], **changes: Any
) -> SearchGlobal:
    """Return the parameters of the next sweep: these fits in that stage.

    ``changes`` go to fields of `SearchGlobal`; what is said to one sweep only is cleared.
    """
    modes = _modes(stage, step, lanes, len(q.chains) if stage == START else 0)
    once: dict[str, Any] = {
        "fresh": np.full(len(lanes), -1, np.int64),
        "pooled": np.zeros(0, np.int64),
        "drop": stage == SETTLE,
        "directions": np.zeros((0, 0)),
    }
    if stage not in (CHAINS, START):
        once |= {"chains": (), "kept": ()}
    return replace(
        q,
        **(
            once
            | {
                "stage": stage,
                "step": step,
                "lanes": lanes,
                "modes": modes,
                "judged": _judged(stage, step, lanes, modes),
                "sweep": q.sweep + 1,
            }
            | changes
        ),
    )


def _modes(stage: str, step: int, lanes: tuple[Lane, ...], n_new: int) -> IntArray:
    """Return what moves in every fit's rows; where starts run, in the last ``n_new`` of them."""
    modes = np.full(len(lanes), IDLE, np.int64)
    if stage == START:
        modes[len(lanes) - n_new :] = PLANS[START].mode(step)
    elif stage in (TIDY, SCREEN, RESIDUE):
        modes[0] = HELD
    elif stage in (WIDEN, SETTLE):
        modes[0] = ALL
    elif stage in TRIALS:
        modes[1:] = PLANS[stage].mode(step)
        last, calm = step == PLANS[stage].length - 1, lanes[0].calm
        if not calm and not (last and np.isfinite(lanes[0].value)):
            modes[0] = ALL
        elif last and not np.isfinite(lanes[0].value):
            modes[0] = HELD
    return modes


def _judged(stage: str, step: int, lanes: tuple[Lane, ...], modes: IntArray) -> BoolArray:
    judged = np.zeros(len(lanes), bool)
    if stage in TRIALS and step == PLANS[stage].length - 1:
        least = lanes[0].bound - PLANS[stage].slack
        judged[1:] = [lane.bound >= least for lane in lanes[1:]]
        judged[0] = modes[0] != IDLE and bool(judged.any())
        modes[1:][~judged[1:]] = IDLE
    return judged


def moved_lanes(
    q: SearchGlobal, got: tuple[LaneStats | None, ...], fit: PolyaGammaIBP
) -> tuple[Lane, ...]:
    """Return the fits after a sweep; bounds of proposals are asked for at the end only.

    But those of refits are, which may end sooner.
    """
    early = q.stage in TRIALS and q.stage != REFIT and q.step < PLANS[q.stage].length - 2
    return tuple(
        _moved(lane, one, fit, bool(judged), place == 0 or not early)
        for place, (lane, one, judged) in enumerate(zip(q.lanes, got, q.judged, strict=True))
    )


def _moved(
    lane: Lane, got: LaneStats | None, fit: PolyaGammaIBP, judged: bool, priced: bool
) -> Lane:
    """Return a fit after a sweep: its parameters move unless it was idle or judged."""
    if got is None:
        return replace(lane, edit=None)
    bound = fit.elbo(lane.q, got.fit) if priced else -np.inf
    calm = bool(np.isfinite(lane.bound) and bound - lane.bound < CALM)
    q = lane.q if judged else fit.global_step(lane.q, got.fit)
    return replace(lane, q=q, bound=bound, calm=calm, value=-np.inf, error=0.0, edit=None)
