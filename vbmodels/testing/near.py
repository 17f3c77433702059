"""What loops that leave the path need: any vector near it is the vector of a state."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from vbmodels.core.state import FloatArray, leaves
from vbmodels.testing.case import Case, GlobalStep
from vbmodels.testing.identity import Figures, Identity
from vbmodels.testing.running import bound, plain_loop, steps
from vbmodels.testing.stationary import directions

NEAR = Identity(4, "every vector near the path is that of a state, from which the bound rises")
STRIDE = 4.0  # of SQUAREM's first leap, at most
FARTHEST = 1.0  # of random directions, in the coordinates


def check_near(case: Case, item: GlobalStep, seed: int) -> Figures:
    """Leaps along the path, and steps aside as long as a sweep's, are states to go on from.

    The state of q's own vector has q's bound, and that of a vector near it has finite leaves, and
    local steps there raise a bound that is finite. SQUAREM does not show where it is not so: it
    refuses the leap, and goes on by plain sweeps.
    """
    batches, model = case.tiny(seed), case.model()
    path = list(itertools.islice(steps(case, plain_loop(case), batches, seed), 3))
    (step, _), *_, (last, run) = path
    states, largest = run.reduce.local_states(last.iteration), 0.0
    rtol = max(case.rise_rtol, 1e-9)
    for named, vector in _vectors([model.to_vector(one.q) for one, _ in path]):
        where = f"tiny({seed}), {named} sweep {step.iteration}"
        there = model.from_vector(step.q, vector)
        _finite(there, where)
        if named == "at":
            same = model.elbo(step.q, step.stats), model.elbo(there, step.stats)
            NEAR.holds(
                bool(np.isclose(*same, rtol=1e-9, atol=1e-9)),
                where,
                f"the bound is {same[0]!r}, that of the state of its vector {same[1]!r}",
            )
        before = bound(model, there, batches, states)
        settled = [model.local_step(there, b, x) for b, x in zip(batches, states, strict=True)]
        after = bound(model, there, batches, settled)
        NEAR.holds(
            bool(np.isfinite(before) and after >= before - rtol * max(1.0, abs(before))),
            where,
            f"the local steps take the bound from {before!r} to {after!r}",
        )
        largest = max(largest, after - before)
    return {"largest rise": largest}


def _vectors(three: list[FloatArray]) -> list[tuple[str, FloatArray]]:
    """Return vectors near the first of three points of the path, each with a word of where."""
    zero, one, two = three
    r, v = one - zero, two - 2.0 * one + zero
    a = float(np.clip(np.linalg.norm(r) / max(float(np.linalg.norm(v)), 1e-300), 1.0, STRIDE))
    found = [("at", zero), (f"a leap of {a:.2g} from", zero + 2.0 * a * r + a * a * v)]
    far = min(FARTHEST, float(np.max(np.abs(r))))
    aside = itertools.product(directions(zero.size, 4), (-far, far))
    return found + [(f"{size:.2g} aside of", zero + size * along) for along, size in aside]


def _finite(state: Any, where: str) -> None:
    for name, leaf in leaves(state):
        number = np.asarray(leaf).dtype.kind == "f"
        NEAR.holds(not number or bool(np.isfinite(leaf).all()), where, f"{name} is not finite")
