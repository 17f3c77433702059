"""The seven items of the contract as functions: they raise AssertionError, or return figures.

They know the protocol and a row of the table, nothing of any model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from tests.contract.cases import (
    Best,
    Case,
    Coordinates,
    Evidence,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Recovery,
    Sampler,
)
from vbmodels.core.cavi import cavi, start
from vbmodels.core.convergence import UntilConverged
from vbmodels.core.diagnostics import diagnose
from vbmodels.core.fit import fit, loop_of
from vbmodels.core.in_process import InProcess, tree_sum
from vbmodels.core.protocol import Accelerable, Cursor, Driven, Loop, Step
from vbmodels.core.squarem import squarem
from vbmodels.core.state import FloatArray, State, from_bytes, leaves, same_bits, to_bytes

PARTS = (1, 2, 7, 16)
Figures = dict[str, float]


def loops(case: Case) -> dict[str, Loop]:
    """Return the loops that the model can run, the plain one first."""
    model = case.model()
    if isinstance(model, Driven):
        return {"own": loop_of(model)}
    plain: dict[str, Loop] = {"cavi": cavi}
    return plain | {"squarem": squarem} if isinstance(model, Accelerable) else plain


def plain_loop(case: Case) -> Loop:
    """Return coordinate ascent, or the loop that the model brings."""
    return next(iter(loops(case).values()))


def steps(
    case: Case, loop: Loop, batches: Sequence[Any], seed: int, threads: int = 1
) -> Iterator[tuple[Step, InProcess]]:
    """Run a fresh model from its own start, without end."""
    model = case.model()
    reduce = InProcess(model, batches, threads)
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    for step in loop(model, reduce, start(model, q, reduce)):
        yield step, reduce


def run(
    case: Case, loop: Loop, batches: Sequence[Any], seed: int, count: int, threads: int = 1
) -> list[Step]:
    """Return the first ``count`` steps."""
    return [s for s, _ in itertools.islice(steps(case, loop, batches, seed, threads), count)]


# 1. The bound never falls.


def check_rise(case: Case, loop: Loop, seed: int) -> Figures:
    """The bound (or the fixed objective) never falls, and the fit moves it."""
    batches = case.batches(seed, 2)
    done = run(case, loop, batches, seed, case.sweeps)
    if case.objective is None:
        values = [step.elbo for step in done]
        rtol = case.rise_rtol
    else:
        values = [case.objective.value(step.q, batches) for step in done[:: case.objective.every]]
        rtol = case.objective.rtol
    for i, (before, after) in enumerate(itertools.pairwise(values)):
        assert after >= before - rtol * max(1.0, abs(before)), (
            f"the bound fell from {before!r} to {after!r} after value {i}"
        )
    assert values[-1] > values[0], "the bound did not move: the test would prove nothing"
    return {"first": values[0], "last": values[-1]}


def check_best(case: Case, loop: Loop, item: Best) -> Figures:
    """What a fit leaves has the bound that its trace ends with, the highest of the last phase."""
    batches = case.batches(0, 2)
    model, reduce = case.model(), InProcess(case.model(), batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    steps = UntilConverged(loop(model, reduce, start(model, q, reduce)), 1e-7, item.max_iter)
    seen = [(item.phase(step.q), step) for step in steps]
    assert len(seen) > 1, "the fit took one step: the test would prove nothing"
    phase, left = seen[-1]
    tail = list(itertools.takewhile(lambda at: at[0] == phase, reversed(seen)))
    highest = max(step.elbo for _, step in tail)
    assert left.elbo >= highest - case.rise_rtol * max(1.0, abs(highest)), (
        f"the fit leaves the bound {left.elbo!r}; it visited {highest!r}"
    )
    states = reduce.local_states(left.cursor.number)
    assert_allclose(
        bound(model, left.q, batches, states), left.elbo, rtol=case.rise_rtol,
        err_msg="the bound of what the fit leaves is not the one that it names",
    )  # fmt: skip
    return {"steps of the last phase": len(tail), "bound": left.elbo}


# 2. Partitioning changes nothing but rounding; threads and transport change no bit.


def check_partitions(case: Case, loop: Loop) -> Figures:
    """The posterior is the same, within rounding, for every number of partitions."""
    ends = {p: run(case, loop, case.batches(0, p), 0, case.sweeps)[-1] for p in PARTS}
    worst = 0.0
    for parts in PARTS[1:]:
        pairs = zip(leaves(ends[1].q), leaves(ends[parts].q), strict=True)
        for (name, one), (_, many) in pairs:
            if one is None:
                continue
            a, b = np.asarray(one), np.asarray(many)
            where = f"{name} differs between 1 and {parts} partitions"
            if a.dtype.kind != "f":
                assert np.array_equal(a, b), where
                continue
            scale = float(np.max(np.abs(a), initial=0.0))
            assert_allclose(b, a, rtol=0, atol=case.partition_rtol * scale, err_msg=where)
            if scale:
                other = a != b  # infinity, a feature that is not clipped say, equals itself
                worst = max(worst, float(np.max(np.abs(a[other] - b[other]), initial=0.0)) / scale)
        assert_allclose(ends[parts].elbo, ends[1].elbo, rtol=case.partition_rtol)
    return {"largest relative difference": worst}


class Shipped(InProcess):
    """An executor whose every message is written to bytes and read back on its way."""

    def __init__(self, case: Case, batches: Sequence[Any]) -> None:
        super().__init__(case.model(), [thaw(freeze(b)) for b in batches])
        self.case = case

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        # A new model each time: what a model keeps on itself does not reach other workers.
        self.model = self.case.model()
        stats = super().__call__(thaw(freeze(q)), number=number, warm=warm)
        self.restore_all({k: [thaw(freeze(x)) for x in v] for k, v in self._locals.items()})
        return thaw(freeze(stats))

    def restore_all(self, states: dict[int, list[Any]]) -> None:
        """Take the local states of several evaluations."""
        self._locals = states


def check_executors(case: Case, loop: Loop) -> Figures:
    """Threads, and states that travel as bytes, give the same bits."""
    batches = case.batches(0, 7)
    plain = run(case, loop, batches, 0, case.resume_sweeps)[-1]
    threaded = run(case, loop, batches, 0, case.resume_sweeps, threads=3)[-1]
    assert same_bits(plain.cursor, threaded.cursor), "threads changed bits"
    model, reduce = case.model(), Shipped(case, batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    loop_steps = loop(model, reduce, start(model, q, reduce))
    shipped = list(itertools.islice(loop_steps, case.resume_sweeps))[-1]
    assert same_bits(plain.cursor, shipped.cursor), "states that travelled as bytes changed bits"
    return {}


# 3. Resume.


def freeze(state: Any) -> bytes | None:
    """Return the bytes of a state; a model without local states has None."""
    return None if state is None else to_bytes(state)


def thaw(data: bytes | None) -> Any:
    """Return the state behind the bytes."""
    return None if data is None else from_bytes(data, State)


def check_resume(case: Case, loop: Loop) -> Figures:
    """A run that goes on from the bytes of any of its steps gives the same bits."""
    batches = case.batches(0, 3)
    saved: list[tuple[bytes, list[bytes | None]]] = []
    left: list[tuple[bytes, float]] = []
    for step, reduce in itertools.islice(steps(case, loop, batches, 0), case.resume_sweeps):
        states = [freeze(x) for x in reduce.local_states(step.cursor.number)]
        saved.append((to_bytes(step.cursor), states))
        left.append((to_bytes(step.q), step.elbo))
    for i, (cursor_bytes, local_bytes) in enumerate(saved):
        model = case.model()
        again = InProcess(model, [thaw(freeze(b)) for b in batches])
        cursor = from_bytes(cursor_bytes, Cursor)
        again.restore(cursor.number, [thaw(x) for x in local_bytes])
        rest = itertools.islice(loop(model, again, cursor), len(saved) - i)
        for j, step in enumerate(rest, start=i):
            expected, expected_locals = saved[j]
            where = f"resumed at step {i}, other bits at step {j}"
            assert same_bits(step.cursor, thaw(expected)), where
            assert (to_bytes(step.q), step.elbo) == left[j], f"{where} (what it leaves)"
            states = [freeze(x) for x in again.local_states(step.cursor.number)]
            assert states == expected_locals, f"{where} (local states)"
    return {}


# 4. Stationarity.


def bound(model: Any, q: Any, batches: Sequence[Any], locals_: Sequence[Any]) -> float:
    """Return the bound at any pair of global and local states."""
    parts = [model.suff_stats(q, b, x) for b, x in zip(batches, locals_, strict=True)]
    return float(model.elbo(q, tree_sum(parts)))


def distances(
    value: Callable[[FloatArray], float], at: FloatArray, step: float, count: int = 40
) -> FloatArray:
    """Estimate how far ``at`` is from the maximum of ``value`` along several directions.

    Along each direction (coordinates, all of them or a random choice, and random unit
    vectors) the first and second derivative come from differences of fourth and second order; what
    rounding alone can make of them is taken off. Infinite where the curvature is upwards.
    """
    rng = np.random.default_rng(0)
    chosen = rng.permutation(at.size)[:count]
    mixed = rng.standard_normal((10, at.size))
    directions = [*np.eye(at.size)[chosen], *(mixed / np.linalg.norm(mixed, axis=1)[:, None])]
    centre = value(at)
    noise = 64.0 * np.finfo(float).eps * max(1.0, abs(centre))
    result = []
    for d in directions:
        near = [value(at + s * step * d) for s in (-1.0, 1.0)]
        far = [value(at + 2.0 * s * step * d) for s in (-1.0, 1.0)]
        slope = (8.0 * (near[1] - near[0]) - (far[1] - far[0])) / (12.0 * step)
        curvature = (near[0] - 2.0 * centre + near[1]) / step**2
        slope = max(0.0, abs(slope) - noise / step)
        upwards = curvature > noise / step**2
        if slope == 0.0 and not upwards:
            result.append(0.0)
        else:
            result.append(np.inf if upwards else slope / max(-curvature, noise / step**2))
    return np.array(result)


def check_global_step(case: Case, item: GlobalStep, seed: int) -> Figures:
    """The bound is stationary in the global parameters where ``item.at`` says so."""
    batches = case.tiny(seed)
    model, move = case.model(), item.coordinates
    if item.at == "fixed_point":
        done = fit(model, batches, seed=seed, tol=item.fit_tol, max_iter=item.max_iter)
        states = done.reduce.local_states(done.iterations - 1)
        return {"distance": _stationary(model, done.q, batches, states, move, item.tolerance)}
    worst = moved = 0.0
    for step, reduce in itertools.islice(steps(case, plain_loop(case), batches, seed), 3):
        states = reduce.local_states(step.cursor.number)
        q = model.global_step(step.q, step.cursor.stats)
        worst = max(worst, _stationary(model, q, batches, states, move, item.tolerance))
        before = move.to_vector(step.q) - move.to_vector(q)
        moved = max(moved, float(np.max(np.abs(before))))
    assert moved > 10.0 * item.tolerance, (
        f"the global step moved by {moved} only: the test would prove nothing"
    )
    return {"distance": worst, "moved": moved}


def _stationary(
    model: Any,
    q: Any,
    batches: Sequence[Any],
    states: Sequence[Any],
    move: Coordinates,
    tolerance: float,
) -> float:
    def value(vector: FloatArray) -> float:
        return bound(model, move.from_vector(q, vector), batches, states)

    found = distances(value, move.to_vector(q), move.step)
    assert found.max() <= tolerance, (
        f"global_step is not stationary: the maximum is {found.max():.3g} away "
        f"(direction {int(found.argmax())} of {found.size})"
    )
    return float(found.max())


def check_local_step(case: Case, item: LocalStep, seed: int) -> Figures:
    """The bound is stationary in a partition's local parameters after its local step."""
    model, move = case.model(), item.coordinates
    batches = case.tiny(seed)
    worst = 0.0
    # Warm states from earlier parameters: what a step keeps of them by mistake shows here.
    for step, reduce in itertools.islice(steps(case, plain_loop(case), batches, seed), 3):
        batch, local = batches[0], reduce.local_states(step.cursor.number)[0]
        q = model.global_step(step.q, step.cursor.stats)
        for _ in range(item.repeats):
            local = model.local_step(q, batch, local)

        def value(vector: FloatArray, q: Any = q, local: Any = local) -> float:
            return bound(model, q, batches[:1], [move.from_vector(local, vector)])

        found = distances(value, move.to_vector(local), move.step)
        worst = max(worst, float(found.max()))
        assert worst <= item.tolerance, (
            f"local_step is not stationary: the maximum is {worst:.3g} away "
            f"(direction {int(found.argmax())} of {found.size})"
        )
    return {"distance": worst}


# 5. The bound is what its definition says.


def check_definition(case: Case, item: MonteCarlo, seed: int) -> Figures:
    """The bound is E_q[log p - log q] by draws, within 4 standard errors."""
    batches = case.tiny(seed)
    model, rng = case.model(), np.random.default_rng(seed)
    figures: Figures = {}
    points: list[tuple[str, Any, Sequence[Any]]] = []
    for step, reduce in itertools.islice(steps(case, plain_loop(case), batches, seed), 4):
        states = reduce.local_states(step.cursor.number)
        if step.iteration in (0, 3):
            points.append((f"sweep {step.iteration}", step.q, states))
        if item.mixed and step.iteration == 0:
            moved = model.global_step(step.q, step.cursor.stats)
            points.append(("after the global step", moved, states))
    for name, q, states in points:
        draws = item.sample(q, batches, states, rng, item.size)
        weights = item.log_joint(draws, batches) - item.log_q(draws, q, batches, states)
        assert weights.shape == (item.size,), f"expected one weight a draw, got {weights.shape}"
        mean, se = float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(item.size))
        assert se <= item.largest_se, f"no power: standard error {se:.3g}, raise size"
        value = bound(model, q, batches, states)
        figures |= {f"{name}: bound - definition": value - mean, f"{name}: se": se}
        slack = 4.0 * se + 1e-9 * max(1.0, abs(mean))
        assert value <= mean + slack, f"{name}: bound {value} above its definition {mean} +- {se}"
        if item.relation == "equal":
            assert value >= mean - slack, (
                f"{name}: bound {value} below its definition {mean} +- {se}"
            )
    return figures


# 6. Against the truth.


def check_evidence(case: Case, item: Evidence, seed: int) -> Figures:
    """The converged bound lies below the exact evidence, and not far below."""
    batches = case.tiny(seed)
    exact = item.log_evidence(batches)
    reached = fit(case.model(), batches, seed=seed, tol=1e-10, max_iter=5000).trace[-1]
    gap = exact - reached
    assert gap <= item.largest_gap, f"the bound {reached} lies {gap} below the evidence {exact}"
    lowest = -1e-8 * max(1.0, abs(exact)) if item.strict else -item.largest_gap
    assert gap >= lowest, f"the bound {reached} lies {-gap} above the evidence {exact}"
    return {"evidence": exact, "gap": gap}


def check_sampler(case: Case, item: Sampler) -> Figures:
    """Posterior means agree with the model's own sampler; the ratio of sds is recorded."""
    batches = case.batches(item.seed, 1)
    seen = diagnose(item.draws(batches, np.random.default_rng(item.seed)))
    assert seen.r_hat.max() <= item.largest_r_hat, f"the sampler has not mixed: {seen.r_hat}"
    done = fit(case.model(), batches, seed=item.seed, tol=1e-10, max_iter=5000)
    states = done.reduce.local_states(done.iterations - 1)
    mean, sd = item.moments(done.q, states)
    off = (np.abs(mean - seen.mean) - 4.0 * seen.mcse) / seen.sd
    assert off.max() <= item.mean_tolerance, (
        f"quantity {int(off.argmax())}: mean {mean[off.argmax()]} under q, "
        f"{seen.mean[off.argmax()]} by the sampler ({off.max():.3g} sd beyond 4 errors)"
    )
    ratio = sd / seen.sd
    low, high = item.sd_ratio
    assert low <= ratio.min(), f"sd ratio {ratio.min():.3g} of quantity {int(ratio.argmin())}"
    assert ratio.max() <= high, f"sd ratio {ratio.max():.3g} of quantity {int(ratio.argmax())}"
    return {
        "largest mean difference in sd": float((np.abs(mean - seen.mean) / seen.sd).max()),
        "smallest sd ratio": float(ratio.min()),
        "median sd ratio": float(np.median(ratio)),
        "largest sd ratio": float(ratio.max()),
    }


# 7. Recovery.


def check_recovery(case: Case, item: Recovery) -> Figures:
    """The truth behind simulated data is recovered on every seed."""
    errors = {seed: item.error(seed) for seed in item.seeds}
    worst = max(errors, key=errors.__getitem__)
    assert errors[worst] <= item.tolerance, f"errors by seed: {errors}, allowed {item.tolerance}"
    return {"largest error": errors[worst]}
