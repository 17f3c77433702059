"""What a stream needs of a model: statistics that can be discounted and are all that it learns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from vbmodels.core.fit import fit
from vbmodels.core.in_process import InProcess
from vbmodels.core.memoised import Memoised
from vbmodels.core.protocol import Accelerable
from vbmodels.core.state import leaves
from vbmodels.core.streaming import updated
from vbmodels.testing.case import Case, GlobalStep
from vbmodels.testing.identity import Figures, Identity
from vbmodels.testing.running import bound, plain_loop, steps

UNITS = Identity(4, "unit_bounds adds up to what the statistics bring to the bound")
LINEAR = Identity(4, "statistics, their bound and coupling are linear in the units' weights")
ALL = Identity(4, "all that the global step needs of the data is in the statistics")
STREAM = Identity(4, "a stream climbs a bound that is right for the rows of all its nights")


def check_statistics(case: Case, item: GlobalStep, seed: int) -> Figures:
    """Units add up, weights are linear, and the first parameters keep nothing of other rows."""
    batches, model, move = case.tiny(seed), case.model(), item.coordinates
    first = model.init(model.observe(batches[0]), np.random.default_rng(seed))
    units = 0
    for step, reduce in itertools.islice(steps(case, plain_loop(case), batches, seed), 3):
        where = f"tiny({seed}), after sweep {step.iteration}"
        q, stats, states = step.q, step.cursor.stats, reduce.local_states(step.cursor.number)
        for i, (batch, local) in enumerate(zip(batches, states, strict=True)):
            each = np.asarray(model.unit_bounds(q, batch, local))
            own = model.suff_stats(q, batch, local)
            told = model.elbo(q, own) - model.elbo(q, own.scaled(0.0))
            UNITS.holds(
                bool(each.ndim == 1 and abs(each.sum() - told) <= 1e-9 * max(1.0, abs(told))),
                f"{where}, partition {i}",
                f"the units have {each.sum()!r} together, the statistics {told!r}",
            )
            units += len(each)
        _linear(model, q, stats, where)
        # A model's own coordinates leave nothing of q out: those of an item may.
        whole = model if isinstance(model, Accelerable) else move
        there = whole.from_vector(first, whole.to_vector(q))
        ours, theirs = model.global_step(q, stats), model.global_step(there, stats)
        apart = float(np.max(np.abs(move.to_vector(ours) - move.to_vector(theirs))))
        values = model.elbo(q, stats), model.elbo(there, stats)
        ALL.holds(
            bool(apart <= 1e-9 and np.isclose(*values, rtol=1e-12, atol=1e-9)),
            where,
            f"begun with the first partition alone, the step ends {apart:.2g} away and the "
            f"bound is {values[1]!r}, not {values[0]!r}",
        )
    return {"units": float(units)}


def _linear(model: Any, q: Any, stats: Any, where: str) -> None:
    twice = list(zip(leaves(stats.scaled(2.0)), leaves(stats + stats), strict=True))
    for (name, ours), (_, theirs) in twice:
        LINEAR.holds(
            (ours is None and theirs is None) or bool(np.allclose(ours, theirs, rtol=1e-12)),
            where,
            f"{name} of the statistics with weight 2 is not that of their sum with themselves",
        )
    values = [model.elbo(q, stats.scaled(w)) for w in (0.0, 1.0, 2.0)]
    moves = [model.coupling(q, stats.scaled(w)) for w in (0.0, 1.0, 2.0)]
    for what, (none, one, two) in (("the bound", values), ("coupling", moves)):
        LINEAR.holds(
            bool(abs((two - one) - (one - none)) <= 1e-9 * max(1.0, abs(one), abs(two))),
            where,
            f"{what} at weights 0, 1, 2 is {none!r}, {one!r}, {two!r}",
        )
    LINEAR.holds(abs(moves[0]) <= 1e-9, where, f"without rows coupling is {moves[0]!r}")


def check_stream(case: Case, item: GlobalStep, seed: int) -> Figures:
    """Two nights: the bound rises in the second, and is nowhere above that of fresh statistics."""
    batches, model = case.tiny(seed), case.model()
    STREAM.holds(len(batches) > 1, f"tiny({seed})", "one partition: the test would prove nothing")
    old, new = batches[: len(batches) // 2], batches[len(batches) // 2 :]
    options: dict[str, Any] = {"tol": item.fit_tol, "max_iter": item.max_iter}
    _, left = updated(model, None, old, seed=seed, **options)
    done, after = updated(model, left, new, **options)
    where = f"tiny({seed}), the second night"
    scale = max(1.0, abs(done.trace[-1]))
    fall = float(np.min(np.diff(done.trace), initial=0.0))
    STREAM.holds(fall >= -1e-9 * scale, where, f"the bound falls by {-fall:.3g}")
    fresh = bound(model, done.q, batches, [*_cold(model, done.q, old), *_cold(model, done.q, new)])
    STREAM.holds(
        bool(done.trace[-1] <= fresh + 1e-6 * scale),
        where,
        f"the stream says that the bound is {done.trace[-1]!r}; afresh it is {fresh!r}",
    )
    again, moved = model.elbo(after.q, after.held.stats), model.coupling(after.q, after.held.stats)
    STREAM.holds(
        bool(abs(again + moved - after.held.coupled - done.trace[-1]) <= 1e-9 * scale),
        where,
        "what is left to the third night has another bound than the second ended at",
    )
    whole = fit(model, batches, seed=seed, loop=Memoised(), **options)
    return {"below the fit of all": whole.trace[-1] - fresh}


def _cold(model: Any, q: Any, batches: Any) -> list[Any]:
    reduce = InProcess(model, batches)
    reduce(q, number=0, warm=None)
    return reduce.local_states(0)
