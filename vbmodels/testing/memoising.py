"""What the memoised loop needs of a model: `Memoisable.coupling`, and where its fits end."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from vbmodels.core.cavi import Memoised
from vbmodels.core.fit import fit
from vbmodels.testing.case import Case, GlobalStep
from vbmodels.testing.identity import Figures, Identity
from vbmodels.testing.running import bound, plain_loop, steps
from vbmodels.testing.stationary import directions, largest_distance

COUPLING = Identity(4, "coupling is the part of the bound that moves with the global parameters")
END = Identity(4, "the memoised loop ends where the bound is stationary")
FAR = 4.0  # differences


def check_coupling(case: Case, item: GlobalStep, seed: int) -> Figures:
    """`coupling` adds up over partitions, and says how the bound moves with all else held.

    With S made at q, G(q') = elbo(q', S) + C(q', S) - C(q, S) is the bound at q' with what is
    local held. The bound of fresh statistics at q', whose factors that are not stored follow q',
    lies above it and touches it at q: so it is nowhere lower, on either side of q. And the global
    step takes G to its maximum.
    """
    batches, model, move = case.tiny(seed), case.model(), item.coordinates
    largest = 0.0
    for step, run in itertools.islice(steps(case, plain_loop(case), batches, seed), 3):
        states = run.reduce.local_states(step.iteration)
        where = f"tiny({seed}), after sweep {step.iteration}"
        q, stats, held = step.q, step.stats, model.coupling(step.q, step.stats)
        pairs = zip(batches, states, strict=True)
        parts = [model.coupling(q, model.suff_stats(q, b, x)) for b, x in pairs]
        scale = max(1.0, abs(held), abs(step.elbo))
        COUPLING.holds(
            abs(sum(parts) - held) <= 1e-9 * scale,
            where,
            f"of the sum it is {held!r}, of the partitions {sum(parts)!r} together",
        )
        at = move.to_vector(q)
        for along, size in itertools.product(directions(at.size, 10), (1.0, -1.0, FAR, -FAR)):
            there = move.from_vector(q, at + size * move.step * along)
            fresh = bound(model, there, batches, states)
            kept = model.elbo(there, stats) + model.coupling(there, stats) - held
            COUPLING.holds(
                bool(fresh >= kept - 1e-9 * scale),
                f"{where}, {size:g} differences away",
                f"with what is local held the bound is {kept!r}; it can be no more than {fresh!r}",
            )
            largest = max(largest, float(fresh - kept))
        if item.at == "step":

            def held_local(to: Any, stats: Any = stats) -> float:
                return float(model.elbo(to, stats) + model.coupling(to, stats))

            after = model.global_step(q, stats)
            largest_distance(COUPLING, where, held_local, after, move, item.tolerance)
    return {"largest gap": largest}


def check_end(case: Case, item: GlobalStep, seed: int) -> Figures:
    """The end of a fit in rounds is a stationary point of the bound, as that of plain sweeps is."""
    batches = case.tiny(seed)
    done = fit(
        case.model(), batches, seed=seed, tol=item.fit_tol, max_iter=item.max_iter, loop=Memoised()
    )
    model, states = case.model(), done.reduce.local_states(done.iterations - 1)
    END.holds(len(batches) > 1, f"tiny({seed})", "one partition: the test would prove nothing")
    distance = largest_distance(
        END, f"tiny({seed}), the end of a fit", lambda q: bound(model, q, batches, states), done.q,
        item.coordinates, max(item.tolerance, 1e-5),
    )  # fmt: skip
    again = bound(model, done.q, batches, states)
    END.holds(
        bool(abs(again - done.trace[-1]) <= 1e-9 * max(1.0, abs(again))),
        f"tiny({seed}), the end of a fit",
        f"the loop says that the bound is {done.trace[-1]!r}, afresh it is {again!r}",
    )
    return {"distance": distance, "rise": float(np.ptp(done.trace))}
