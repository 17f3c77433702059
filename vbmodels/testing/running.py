"""Runs of a row's model, step by step, as the checks need them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Driven, Loop
from vbmodels.core.cavi import Memoised, cavi, squarem
from vbmodels.core.driver import Driver, Step
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.protocol import Accelerable, Memoisable
from vbmodels.core.state import State, from_bytes, to_bytes, tree_sum
from vbmodels.testing.case import Case


def loops(case: Case) -> dict[str, Loop]:
    """Return the loops that the model can run, the plain one first."""
    model = case.model()
    if isinstance(model, Driven):
        return {"own": loop_of(model)}
    found: dict[str, Loop] = {"cavi": cavi}
    if isinstance(model, Accelerable):
        found["squarem"] = squarem
    if isinstance(model, Memoisable):
        found["memoised"] = Memoised()
    return found


def plain_loop(case: Case) -> Loop:
    """Return coordinate ascent, or the loop that the model brings."""
    return next(iter(loops(case).values()))


def steps(
    case: Case, loop: Loop, batches: Sequence[Any], seed: int, threads: int = 1
) -> Iterator[tuple[Step, Driver]]:
    """Run a fresh model from its own start, without end."""
    model = case.model()
    started = begin(model, loop, InProcess(model, batches, threads), seed)
    for step in started:
        yield step, started


def begin(model: Any, loop: Loop, reduce: InProcess, seed: int) -> Driver:
    """Return a run from a model's own start, without end."""
    return Driver(loop, model, model.init(reduce.observe(), np.random.default_rng(seed)), reduce)


def run(
    case: Case, loop: Loop, batches: Sequence[Any], seed: int, count: int, threads: int = 1
) -> list[Step]:
    """Return the first ``count`` steps."""
    return [s for s, _ in itertools.islice(steps(case, loop, batches, seed, threads), count)]


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
