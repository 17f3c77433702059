"""Item 9: data at their ends, compiled and plain, without rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vbmodels.core.driver import Driver, Step
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import leaves, same_bits
from vbmodels.testing.case import Case, Extremes, Figures, Identity, Tables

FINITE = Identity(9, "data at their ends leave finite numbers, or are refused")
COMPILED = Identity(9, "compiled loops give what their plain form gives")
EMPTY = Identity(9, "partitions without rows change no bit")


def _steps(model: Any, batches: Sequence[Any], count: int) -> tuple[list[Step], list[Any]]:
    """Return the first steps, and the partitions' states after the last of them."""
    reduce = InProcess(model, batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    done = list(itertools.islice(Driver(loop_of(model), model, q, reduce), count))
    return done, reduce.local_states(done[-1].iteration)


def _refuse_what_is_not_finite(state: Any, may_be_infinite: frozenset[str], where: str) -> None:
    for name, leaf in leaves(state):
        if leaf is None:
            continue
        array = np.asarray(leaf)
        if array.dtype.kind == "f":
            fine = (
                ~np.isnan(array) if name.split(".")[-1] in may_be_infinite else np.isfinite(array)
            )
            if not fine.all():
                FINITE.breaks(f"{where}: {name}", f"{name} holds {array[~fine].flat[0]}")


def check_finite(case: Case, item: Extremes) -> Figures:
    """Every number that a fit of an extreme table leaves is finite, or the table is refused."""
    figures: Figures = {}
    for name, batches in item.tables().items():
        if name in item.refused:
            _refused(case, item, name, batches)
            continue
        steps, states = _steps(case.model(), batches, item.sweeps)
        for step in steps:
            where = f"{name}, step {step.iteration}"
            for state in (step.q, step.stats):
                _refuse_what_is_not_finite(state, item.infinite, where)
        for state in states:
            if state is not None:
                _refuse_what_is_not_finite(state, item.infinite, f"{name}, a partition's state")
        figures[f"bound: {name}"] = steps[-1].elbo
    return figures


def _refused(case: Case, item: Extremes, name: str, batches: Sequence[Any]) -> None:
    """Fail unless the model refuses a table, with the sentence of its row."""
    try:
        _steps(case.model(), batches, item.sweeps)
    except ValueError as error:
        message = f"it was refused with {str(error)!r}, expected {item.refused[name]!r}"
        FINITE.holds(re.search(item.refused[name], str(error)) is not None, name, message)
    else:
        FINITE.breaks(name, f"it was not refused, expected {item.refused[name]!r}")


def both_forms(
    compiled: Any, plain: Any, tables: Tables, aside: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what both forms of a model make of every partition, leaf by leaf."""
    for name, batches in tables.items():
        q = compiled.init(InProcess(compiled, batches).observe(), np.random.default_rng(0))
        for i, batch in enumerate(batches):
            pairs = []
            for model in (compiled, plain):
                local = model.local_step(q, batch, None)
                pairs.append((local, model.suff_stats(q, batch, local)))
            for of_compiled, other in zip(*pairs, strict=True):
                if of_compiled is None:
                    continue
                of_plain = dict(leaves(other))
                for leaf, a in leaves(of_compiled):
                    if a is not None and leaf.split(".")[0] not in aside:
                        yield f"{name}, partition {i}: {leaf}", a, of_plain[leaf]


def check_compiled(case: Case, item: Extremes) -> Figures:
    """Compiled loops give what their NumPy form gives, of full and of extreme tables."""
    comparisons = list(item.kernels()) if item.kernels else []
    if not isinstance(item.plain, str):
        accepted = {k: v for k, v in item.tables().items() if k not in item.refused}
        tables = {"its own data": case.batches(0, 2), **accepted}
        comparisons += both_forms(case.model(), item.plain(), tables, item.aside)
    worst = 0.0
    for where, compiled, plain in comparisons:
        a, b = np.asarray(compiled, float), np.asarray(plain, float)
        scale = float(np.max(np.abs(b), initial=1.0, where=np.isfinite(b)))
        same = a.shape == b.shape
        if not (same and np.allclose(a, b, item.rtol, item.rtol * scale, equal_nan=True)):
            off = f"by {np.nanmax(np.abs(a - b)):.3g}" if same else f"{a.shape}, not {b.shape}"
            COMPILED.breaks(where, f"it is not the plain form's: {off}")
        worst = max(worst, float(np.abs(a - b)[np.isfinite(b)].max(initial=0.0)) / scale)
    COMPILED.holds(bool(comparisons), "all tables", "nothing was compared")
    return {"largest relative difference": worst}


def check_empty(case: Case, empty: Callable[[Any], Any]) -> Figures:
    """Partitions without rows, before, between and after full ones, change no bit."""
    full = case.batches(0, 2)
    none = empty(full[0])
    mixed = [none, full[0], none, *full[1:], none]
    count = min(case.sweeps, 12)
    pairs = zip(
        _steps(case.model(), full, count)[0], _steps(case.model(), mixed, count)[0], strict=True
    )
    for step, other in pairs:
        where = f"batches(0, 2) with empty partitions around, step {step.iteration}"
        changed = f"the bound changed from {step.elbo!r} to {other.elbo!r}"
        EMPTY.holds(other.elbo == step.elbo, where, changed)
        EMPTY.holds(same_bits(step.q, other.q), where, "the posterior changed")
    return {"bound": step.elbo}
