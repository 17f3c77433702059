"""Items 1 to 3: the bound never falls, and what partitions, executors and a resume may change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Accelerable, Driven, Loop
from vbmodels.core.cavi import cavi, squarem
from vbmodels.core.driver import Driver, Log, Step
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import State, aligned, from_bytes, leaves, same_bits, to_bytes, tree_sum
from vbmodels.testing.case import Best, Case, Figures, Identity


def loops(case: Case) -> dict[str, Loop]:
    """Return the loops that the model can run, the plain one first."""
    model = case.model()
    if isinstance(model, Driven):
        return {"own": loop_of(model)}
    by_name: dict[str, Loop] = {"cavi": cavi}
    if isinstance(model, Accelerable):
        by_name["squarem"] = squarem
    return by_name


def plain_loop(case: Case) -> Loop:
    """Return coordinate ascent, or the loop that the model brings."""
    return next(iter(loops(case).values()))


def steps(
    case: Case, loop: Loop, batches: Sequence[Any], seed: int
) -> Iterator[tuple[Step, Driver]]:
    """Run a fresh model from its own start, without end."""
    model = case.model()
    started = begin(model, loop, InProcess(model, batches), seed)
    for step in started:
        yield step, started


def begin(model: Any, loop: Loop, reduce: InProcess, seed: int) -> Driver:
    """Return a run from a model's own start, without end."""
    return Driver(loop, model, model.init(reduce.observe(), np.random.default_rng(seed)), reduce)


def run(case: Case, loop: Loop, batches: Sequence[Any], seed: int, count: int) -> list[Step]:
    """Return the first ``count`` steps."""
    return [s for s, _ in itertools.islice(steps(case, loop, batches, seed), count)]


def bound(model: Any, q: Any, batches: Sequence[Any], locals_: Sequence[Any]) -> float:
    """Return the bound at any pair of global and local states."""
    parts = [model.suff_stats(q, b, x) for b, x in zip(batches, locals_, strict=True)]
    return float(model.elbo(q, tree_sum(parts)))


def freeze(state: Any) -> bytes | None:
    """Return the bytes of a state; a model without local states has None."""
    return None if state is None else to_bytes(state)


def thaw(data: bytes | None) -> Any:
    """Return the state behind the bytes."""
    return None if data is None else from_bytes(data, State)


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
    tail = list(itertools.takewhile(lambda entry: entry[0] == phase, reversed(seen)))
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


PARTS = (1, 2, 7, 16)
PARTITIONS = Identity(2, "partitions change only rounding")
EXECUTORS = Identity(2, "every executor gives the same bits")
RESUME = Identity(3, "a fit that is resumed gives the same bits")


def apart(one: Any, other: Any) -> str:
    """Name the leaf at which two states differ most, with both values; sizes first."""
    worst, difference = -1.0, "the states are of different classes or shapes"
    for (name, left), (_, right) in zip(leaves(one), leaves(other), strict=False):
        if left is None or right is None:
            if left is not right:
                return f"{name} is {left!r} in one and {right!r} in the other"
            continue
        a, b = np.asarray(left), np.asarray(right)
        if a.shape != b.shape:
            return f"{name} has the shape {a.shape} in one and {b.shape} in the other"
        if a.size == 0 or np.array_equal(a, b):
            continue
        if a.dtype.kind not in "fiub":
            return f"{name} is another"
        gap = np.where(a == b, 0.0, np.abs(a.astype(float) - b.astype(float)))
        index = np.unravel_index(int(np.nanargmax(np.nan_to_num(gap, nan=np.inf))), gap.shape)
        if not gap[index] <= worst:
            worst = float(gap[index])
            subscript = f"[{', '.join(map(str, index))}]" if index else ""
            difference = (
                f"{name}{subscript} is {a[index]!s} in one and {b[index]!s} in the other, "
                f"{worst:.3g} away"
            )
    return difference


def check_partitions(case: Case, loop: Loop) -> Figures:
    """The posterior is the same, within rounding, for every number of partitions."""
    ends = {p: run(case, loop, case.batches(0, p), 0, case.sweeps)[-1] for p in PARTS}
    worst = 0.0
    for parts in PARTS[1:]:
        where = f"between batches(0, 1) and batches(0, {parts}), after {case.sweeps} steps"
        pairs = zip(leaves(ends[1].q), leaves(ends[parts].q), strict=True)
        for (name, single), (_, many) in pairs:
            if single is None:
                continue
            a, b = np.asarray(single), np.asarray(many)
            differs = f"{name} differs between 1 and {parts} partitions"
            if a.dtype.kind != "f" or a.shape != b.shape:
                PARTITIONS.holds(np.array_equal(a, b), where, differs)
                continue
            scale = float(np.max(np.abs(a), initial=0.0))
            # Infinity, a feature that is not clipped say, equals itself; so does a missing one.
            other = (a != b) & ~(np.isnan(a) & np.isnan(b))
            gap = float(np.max(np.abs(a[other] - b[other]), initial=0.0))
            PARTITIONS.holds(
                gap <= case.partition_rtol * scale,
                where,
                f"{differs} by {gap:.3g}, allowed {case.partition_rtol * scale:.3g}",
            )
            if scale:
                worst = max(worst, gap / scale)
        gap = abs(ends[parts].elbo - ends[1].elbo)
        PARTITIONS.holds(
            gap <= case.partition_rtol * abs(ends[1].elbo),
            where,
            f"the bound is {ends[1].elbo!r} of 1 and {ends[parts].elbo!r} of {parts} partitions",
        )
    return {"largest relative difference": worst}


class Shipped(InProcess):
    """An executor whose every message is written to bytes and read back on its way."""

    def __init__(self, case: Case, batches: Sequence[Any]) -> None:
        super().__init__(case.model(), [thaw(freeze(b)) for b in batches])
        self.case = case

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `vbmodels.core.algorithm.Reduce`."""
        # A new model each time: what a model keeps on itself does not reach other workers.
        self.model = self.case.model()
        stats = super().__call__(thaw(freeze(q)), number=number, warm=warm)
        self._locals = {k: [thaw(freeze(x)) for x in v] for k, v in self._locals.items()}
        return thaw(freeze(stats))


def check_executors(case: Case, loop: Loop) -> Figures:
    """Threads, and states that travel as bytes, give the same bits."""
    batches, model = case.batches(0, 7), case.model()
    where = f"batches(0, 7), {case.resume_sweeps} steps"
    plain = _log_of(begin(model, loop, InProcess(model, batches), 0), case)
    threaded = _log_of(begin(model, loop, InProcess(model, batches, threads=3), 0), case)
    if not same_bits(plain, threaded):
        EXECUTORS.breaks(f"{where}, on three threads", apart(plain, threaded))
    shipped = _log_of(begin(model, loop, Shipped(case, batches), 0), case)
    if not same_bits(plain, shipped):
        EXECUTORS.breaks(
            f"{where}, states that travel as bytes and a new model for each sweep",
            apart(plain, shipped),
        )
    return {}


def _log_of(started: Driver, case: Case) -> Log:
    """Return what a run knows after some steps."""
    list(itertools.islice(started, case.resume_sweeps))
    return started.log()


def check_resume(case: Case, loop: Loop) -> Figures:
    """A run that goes on from the bytes of any of its steps gives the same bits."""
    batches = case.batches(0, 3)
    saved: list[tuple[bytes, list[bytes | None]]] = []
    left: list[tuple[bytes, float]] = []
    for step, run_ in itertools.islice(steps(case, loop, batches, 0), case.resume_sweeps):
        states = [freeze(x) for x in run_.reduce.local_states(run_.number)]
        saved.append((to_bytes(run_.log()), states))
        left.append((to_bytes(step.q), step.elbo))
    for i, (log_bytes, local_bytes) in enumerate(saved):
        model = case.model()
        again = InProcess(model, [thaw(freeze(b)) for b in batches])
        log = aligned(from_bytes(log_bytes, Log))
        again.restore(log.number, [thaw(x) for x in local_bytes])
        resumed = Driver(loop, model, log.start, again, log=log, trace=[left[i][1]])
        rest = itertools.islice(resumed, len(saved) - 1 - i)
        resumed_steps: Iterator[Step | None] = itertools.chain([resumed.step], rest)
        for j, resumed_step in enumerate(resumed_steps, start=i):
            where = f"batches(0, 3), resumed at step {i}, other bits at step {j}"
            if resumed_step is None:
                RESUME.breaks(where, "its requests are not those of the run that it goes on from")
            elif (to_bytes(resumed_step.q), resumed_step.elbo) != left[j]:
                RESUME.breaks(f"{where} (what it leaves)", apart(thaw(left[j][0]), resumed_step.q))
            expected = thaw(saved[j][0])
            if j > i and not same_bits(resumed.log(), expected):
                RESUME.breaks(where, apart(expected, resumed.log()))
            for k, state in enumerate(again.local_states(resumed.number)):
                if freeze(state) != saved[j][1][k]:
                    state_name = f"{where} (the local state of partition {k})"
                    RESUME.breaks(state_name, apart(thaw(saved[j][1][k]), state))
    return {}
