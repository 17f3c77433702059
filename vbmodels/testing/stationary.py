"""Item 4: both steps leave the bound at its maximum, near the path too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray, leaves
from vbmodels.testing.case import Case, Coordinates, Figures, GlobalStep, Identity, LocalStep
from vbmodels.testing.runs import bound, plain_loop, steps

GLOBAL = Identity(4, "global_step leaves the bound stationary")
LOCAL = Identity(4, "local_step leaves the bound stationary")


def directions(size: int, count: int = 40) -> FloatArray:
    """Return unit vectors [D, size]: coordinates, all or a random choice, then ten mixed ones."""
    rng = np.random.default_rng(0)
    chosen = rng.permutation(size)[:count]
    mixed = rng.standard_normal((10, size))
    return np.concatenate([np.eye(size)[chosen], mixed / np.linalg.norm(mixed, axis=1)[:, None]])


def distances(
    value: Callable[[FloatArray], float], point: FloatArray, step: float, along: FloatArray
) -> FloatArray:
    """Estimate how far ``point`` is from the maximum of ``value`` along several directions.

    The first and second derivative come from differences of fourth and second order; what
    rounding alone can make of them is taken off. Infinite where the curvature is upwards.

    Parameters
    ----------
    value
        The bound at coordinates [n].
    at
        Coordinates, [n].
    step
        The finite difference.
    along
        Unit vectors, [D, n].

    Returns
    -------
    FloatArray
        Distances, [D].
    """
    centre = value(point)
    noise = 64.0 * np.finfo(float).eps * max(1.0, abs(centre))
    result = []
    for d in along:
        near = [value(point + s * step * d) for s in (-1.0, 1.0)]
        far = [value(point + 2.0 * s * step * d) for s in (-1.0, 1.0)]
        slope = (8.0 * (near[1] - near[0]) - (far[1] - far[0])) / (12.0 * step)
        curvature = (near[0] - 2.0 * centre + near[1]) / step**2
        slope = max(0.0, abs(slope) - noise / step)
        upwards = curvature > noise / step**2
        if slope == 0.0 and not upwards:
            result.append(0.0)
        else:
            result.append(np.inf if upwards else slope / max(-curvature, noise / step**2))
    return np.array(result)


def _place(state: Any, move: Coordinates, direction: FloatArray) -> str:
    """Name the leaf that a coordinate moves most, or say that the direction mixes several."""
    if np.count_nonzero(direction) > 1:
        return "along a mix of all coordinates"
    which, vector = int(np.argmax(np.abs(direction))), move.to_vector(state)
    moved = [move.from_vector(state, vector + s * move.step * direction) for s in (-1.0, 1.0)]
    best, name = -1.0, "no leaf"
    for (leaf, low), (_, high) in zip(leaves(moved[0]), leaves(moved[1]), strict=True):
        gap = 0.0 if low is None else np.abs(np.asarray(high, float) - np.asarray(low, float))
        if np.size(gap) and float(np.max(gap)) > best:
            best = float(np.max(gap))
            place = np.unravel_index(int(np.argmax(gap)), np.shape(gap))
            name = f"{leaf}[{', '.join(map(str, place))}]" if place else leaf
    return f"along coordinate {which}, which moves {name}"


def largest_distance(
    identity: Identity,
    where: str,
    value: Callable[[Any], float],
    state: Any,
    move: Coordinates,
    tolerance: float,
) -> float:
    """Return how far a state is from the maximum along any direction; break where it is far."""
    point = move.to_vector(state)
    along = directions(point.size)
    away = distances(lambda v: value(move.from_vector(state, v)), point, move.step, along)
    worst = int(away.argmax())
    if not away[worst] <= tolerance:
        # A coordinate names its leaf; a mix of several is named only where none is off.
        coordinates = away[: len(along) - 10]
        if coordinates.size and coordinates.max() > tolerance:
            worst = int(coordinates.argmax())
        message = (
            "the bound curves upwards there: this is no maximum"
            if np.isinf(away[worst])
            else f"the maximum is {away[worst]:.3g} away, allowed {tolerance:.3g}"
        )
        identity.breaks(f"{where}, {_place(state, move, along[worst])}", message)
    return float(away.max())


def check_global_step(case: Case, item: GlobalStep, seed: int) -> Figures:
    """The bound is stationary in the global parameters where ``item.at`` says so."""
    batches = case.tiny(seed)
    model, move = case.model(), item.coordinates

    def left(q: Any, states: Sequence[Any], where: str) -> float:
        def value(q: Any) -> float:
            return bound(model, q, batches, states)

        return largest_distance(GLOBAL, f"tiny({seed}), {where}", value, q, move, item.tolerance)

    if item.at == "fixed_point":
        done = fit(model, batches, seed=seed, tol=item.fit_tol, max_iter=item.max_iter)
        states = done.reduce.local_states(done.iterations - 1)
        return {"distance": left(done.q, states, "the end of a fit")}
    worst = moved = 0.0
    for step, run in itertools.islice(steps(case, plain_loop(case), batches, seed), 3):
        states = run.reduce.local_states(step.iteration)
        q = model.global_step(step.q, step.stats)
        worst = max(worst, left(q, states, f"after sweep {step.iteration}"))
        before = move.to_vector(step.q) - move.to_vector(q)
        moved = max(moved, float(np.max(np.abs(before))))
    GLOBAL.holds(
        moved > 10.0 * item.tolerance,
        f"tiny({seed}), three sweeps",
        f"the global step moved by {moved} only: the test would prove nothing",
    )
    return {"distance": worst, "moved": moved}


def check_local_step(case: Case, item: LocalStep, seed: int) -> Figures:
    """The bound is stationary in a partition's local parameters after its local step."""
    model, move = case.model(), item.coordinates
    batches = case.tiny(seed)
    worst = 0.0
    # Warm states from earlier parameters: what a step keeps of them by mistake shows here.
    for step, run in itertools.islice(steps(case, plain_loop(case), batches, seed), 3):
        batch, local = batches[0], run.reduce.local_states(step.iteration)[0]
        q = model.global_step(step.q, step.stats)
        for _ in range(item.repeats):
            local = model.local_step(q, batch, local)

        def value(local: Any, q: Any = q) -> float:
            return bound(model, q, batches[:1], [local])

        where = f"partition 0 of tiny({seed}), warm after sweep {step.iteration}"
        worst = max(worst, largest_distance(LOCAL, where, value, local, move, item.tolerance))
    return {"distance": worst}


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
    for named, vector in _vectors([model.to_vector(step.q) for step, _ in path]):
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
        moved = [model.local_step(there, b, x) for b, x in zip(batches, states, strict=True)]
        after = bound(model, there, batches, moved)
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
    vectors = [("at", zero), (f"a leap of {a:.2g} from", zero + 2.0 * a * r + a * a * v)]
    far = min(FARTHEST, float(np.max(np.abs(r))))
    aside = itertools.product(directions(zero.size, 4), (-far, far))
    return vectors + [(f"{size:.2g} aside of", zero + size * along) for along, size in aside]


def _finite(state: Any, where: str) -> None:
    for name, leaf in leaves(state):
        number = np.asarray(leaf).dtype.kind == "f"
        NEAR.holds(not number or bool(np.isfinite(leaf).all()), where, f"{name} is not finite")
