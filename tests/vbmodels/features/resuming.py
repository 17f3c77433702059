"""A search that is stopped anywhere and goes on from the bytes it left ends with the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vbmodels.core.driver import Driver, Log
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import State, from_bytes, same_bits, to_bytes


def stages_resumed(
    model: Any, batches: Sequence[Any], seed: int, stage: Callable[[Any], Any],
    last: Callable[[Any], bool],
) -> set[Any]:  # fmt: skip
    """Resume a fit from the first and the third step of each stage; return the stages.

    Parameters
    ----------
    model, batches, seed
        The fit.
    stage
        The stage of a q, or None where it need not be resumed.
    last
        Whether the fit may end at a q.
    """
    loop, reduce, kept, seen = loop_of(model), InProcess(model, batches), {}, {}
    run = Driver(loop, model, model.init(reduce.observe(), np.random.default_rng(seed)), reduce)
    for end in run:
        here = stage(end.q)
        seen[here] = seen.get(here, 0) + 1
        if here is not None and seen[here] in (1, 3):
            states = [to_bytes(x) for x in reduce.local_states(end.iteration)]
            kept[here, seen[here]] = to_bytes(run.log()), states
        if last(end.q):
            break
        assert end.iteration < 800
    for log, states in kept.values():
        again, begun = InProcess(model, batches), from_bytes(log, Log)
        again.restore(begun.number, [from_bytes(x, State) for x in states])
        resumed = Driver(loop, model, begun.start, again, log=begun)
        steps = itertools.chain([resumed.step], resumed)
        step = next(step for step in steps if step.iteration >= end.iteration)
        assert same_bits(step.q, end.q)
        assert step.elbo == end.elbo
    return {here for here, _ in kept}
