"""A search that is stopped anywhere and goes on from the bytes it left ends with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vbmodels.core.cavi import begin
from vbmodels.core.fit import loop_of
from vbmodels.core.in_process import InProcess
from vbmodels.core.protocol import Cursor
from vbmodels.core.state import State, from_bytes, same_bits, to_bytes


def stages_resumed(
    model: Any, batches: Sequence[Any], seed: int, stage: Callable[[Any], Any],
    last: Callable[[Any], bool],
) -> set[Any]:  # fmt: skip
    """Resume a fit from the first step of each stage; return the stages.

    Parameters
    ----------
    model, batches, seed
        The fit.
    stage
        The stage of a q, or None where it need not be resumed.
    last
        Whether the fit may end at a q.
    """
    loop, reduce, kept = loop_of(model), InProcess(model, batches), {}
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    for step in loop(model, reduce, begin(loop, model, q, reduce)):
        end, here = step.cursor, stage(step.cursor.q)
        if here is not None and here not in kept:
            kept[here] = to_bytes(end), [to_bytes(x) for x in reduce.local_states(end.number)]
        if last(end.q):
            break
        assert end.number < 800
    for cursor, states in kept.values():
        again, begun = InProcess(model, batches), from_bytes(cursor, Cursor)
        again.restore(begun.number, [from_bytes(x, State) for x in states])
        for step in loop(model, again, begun):
            if step.cursor.number >= end.number:
                break
        assert same_bits(step.cursor, end)
    return set(kept)
