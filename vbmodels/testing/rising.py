"""Item 1: the bound never falls, and a fit leaves the best that it visited."""

from __future__ import annotations

import itertools

import numpy as np

from vbmodels.core.algorithm import Loop
from vbmodels.core.driver import Driver
from vbmodels.core.in_process import InProcess
from vbmodels.testing.case import Best, Case
from vbmodels.testing.identity import Figures, Identity
from vbmodels.testing.running import bound, run

RISES = Identity(1, "the bound never falls")
LEAVES = Identity(1, "a fit leaves the best that it visited")


def check_rise(case: Case, loop: Loop, seed: int) -> Figures:
    """The bound (or the fixed objective) never falls, and the fit moves it."""
    batches = case.batches(seed, 2)
    done = run(case, loop, batches, seed, case.sweeps)
    if case.objective is None:
        every, rtol, values = 1, case.rise_rtol, [step.elbo for step in done]
    else:
        every, rtol = case.objective.every, case.objective.rtol
        values = [case.objective.value(step.q, batches) for step in done[::every]]
    for i, (before, after) in enumerate(itertools.pairwise(values)):
        RISES.holds(
            after >= before - rtol * max(1.0, abs(before)),
            f"batches({seed}, 2), from step {i * every} to step {(i + 1) * every}",
            f"it fell by {before - after:.3g}, from {before!r} to {after!r}",
        )
    RISES.holds(
        values[-1] > values[0],
        f"batches({seed}, 2), {len(done)} steps",
        f"it did not move from {values[0]!r}: the test would prove nothing",
    )
    return {"first": values[0], "last": values[-1]}


def check_best(case: Case, loop: Loop, item: Best) -> Figures:
    """What a fit leaves has the bound that its trace ends with, the highest of the last phase."""
    batches = case.batches(0, 2)
    model, reduce = case.model(), InProcess(case.model(), batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    run_ = Driver(loop, model, q, reduce, tol=1e-7, max_iter=item.max_iter)
    seen = [(item.phase(step.q), step) for step in run_]
    where = f"batches(0, 2), {len(seen)} steps"
    LEAVES.holds(len(seen) > 1, where, "the fit took one step: the test would prove nothing")
    phase, left = seen[-1]
    tail = list(itertools.takewhile(lambda at: at[0] == phase, reversed(seen)))
    highest = max(step.elbo for _, step in tail)
    LEAVES.holds(
        left.elbo >= highest - case.rise_rtol * max(1.0, abs(highest)),
        where,
        f"the fit leaves the bound {left.elbo!r}; it visited {highest!r}",
    )
    states = reduce.local_states(left.iteration)
    plain, parameters, states = item.plain(model, left.q, states)
    again = bound(plain, parameters, batches, states)
    LEAVES.holds(
        bool(abs(again - left.elbo) <= case.rise_rtol * abs(left.elbo)),
        where,
        f"the bound of what the fit leaves is {again!r}; it names {left.elbo!r}",
    )
    return {"steps of the last phase": len(tail), "bound": left.elbo}
