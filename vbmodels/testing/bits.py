"""Items 2 and 3: what partitions, executors and a resume may change, which is next to nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Loop
from vbmodels.core.cavi import Memoised, cavi
from vbmodels.core.driver import Driver, Log, Step
from vbmodels.core.fit import InProcess
from vbmodels.core.state import aligned, from_bytes, leaves, same_bits, to_bytes
from vbmodels.testing.case import Case
from vbmodels.testing.identity import Figures, Identity
from vbmodels.testing.running import begin, freeze, run, steps, thaw

PARTS = (1, 2, 7, 16)
PARTITIONS = Identity(2, "partitions change only rounding")
EXECUTORS = Identity(2, "every executor gives the same bits")
RESUME = Identity(3, "a fit that is resumed gives the same bits")


def apart(one: Any, other: Any) -> str:
    """Name the leaf at which two states differ most, with both values; sizes first."""
    worst, told = -1.0, "the states are of different classes or shapes"
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
        at = np.unravel_index(int(np.nanargmax(np.nan_to_num(gap, nan=np.inf))), gap.shape)
        if not gap[at] <= worst:
            worst = float(gap[at])
            place = f"[{', '.join(map(str, at))}]" if at else ""
            told = f"{name}{place} is {a[at]!s} in one and {b[at]!s} in the other, {worst:.3g} away"
    return told


def check_partitions(case: Case, loop: Loop) -> Figures:
    """The posterior is the same, within rounding, for every number of partitions.

    The way of the memoised loop depends on its rounds, so it is asked in one: it is `cavi` then.
    """
    if isinstance(loop, Memoised):
        return _check_one_round(case)
    ends = {p: run(case, loop, case.batches(0, p), 0, case.sweeps)[-1] for p in PARTS}
    worst = 0.0
    for parts in PARTS[1:]:
        where = f"between batches(0, 1) and batches(0, {parts}), after {case.sweeps} steps"
        pairs = zip(leaves(ends[1].q), leaves(ends[parts].q), strict=True)
        for (name, one), (_, many) in pairs:
            if one is None:
                continue
            a, b = np.asarray(one), np.asarray(many)
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


def _check_one_round(case: Case) -> Figures:
    batches = case.batches(0, 7)
    plain = run(case, cavi, batches, 0, case.sweeps)[-1]
    rounds = run(case, Memoised(rounds=1), batches, 0, case.sweeps)[-1]
    if not same_bits(plain.q, rounds.q) or plain.elbo != rounds.elbo:
        where = f"batches(0, 7), {case.sweeps} steps of the memoised loop in one round"
        PARTITIONS.breaks(where, f"beside plain sweeps {apart(plain.q, rounds.q)}")
    return {}


class Shipped(InProcess):
    """An executor whose every message is written to bytes and read back on its way."""

    def __init__(self, case: Case, batches: Sequence[Any]) -> None:
        super().__init__(case.model(), [thaw(freeze(b)) for b in batches])
        self.case = case

    def visit(self, q: Any, *, number: int, warm: int | None, group: int, groups: int) -> Any:
        """Run a part of a sweep; see `vbmodels.core.protocol.Visiting`."""
        # A new model each time: what a model keeps on itself does not reach other workers.
        self.model = self.case.model()
        stats = super().visit(thaw(freeze(q)), number=number, warm=warm, group=group, groups=groups)
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
        for j, at in enumerate(resumed_steps, start=i):
            where = f"batches(0, 3), resumed at step {i}, other bits at step {j}"
            if at is None:
                RESUME.breaks(where, "its requests are not those of the run that it goes on from")
            elif (to_bytes(at.q), at.elbo) != left[j]:
                RESUME.breaks(f"{where} (what it leaves)", apart(thaw(left[j][0]), at.q))
            expected = thaw(saved[j][0])
            if j > i and not same_bits(resumed.log(), expected):
                RESUME.breaks(where, apart(expected, resumed.log()))
            for k, state in enumerate(again.local_states(resumed.number)):
                if freeze(state) != saved[j][1][k]:
                    place = f"{where} (the local state of partition {k})"
                    RESUME.breaks(place, apart(thaw(saved[j][1][k]), state))
    return {}
