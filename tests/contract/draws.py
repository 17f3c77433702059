"""What a sampler leaves, and that every draw it keeps is written and published as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.testing.case import Figures, Identity


@dataclass(frozen=True, kw_only=True)
class Chains:
    """What one run of a sampler leaves.

    Attributes
    ----------
    kept
        Draws by name, [C, S, ...].
    visited
        Where chains stood at the start and after every sweep, [C, 1 + warmup + S thin, ...], by
        the same names, where that can be seen.
    summaries
        What is published of the draws, and the same made from them here.
    """

    kept: Mapping[str, FloatArray] = field(default_factory=dict)
    visited: Mapping[str, FloatArray] = field(default_factory=dict)
    summaries: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """A sampler.

    Attributes
    ----------
    name
        Of the sampler.
    run
        (warmup, draws, thin) -> what two chains leave; the same random numbers every time.
    thins
        Whether it can leave sweeps out between two draws.
    stays
        Whether a chain may stand still, as Metropolis-Hastings does.
    """

    name: str
    run: Callable[[int, int, int], Chains]
    thins: bool = True
    stays: bool = False


WRITTEN = Identity(11, "every draw that a sampler keeps is written, and published as it is")
"""Beyond the ten items of models."""
CHAINS, WARMUP, DRAWS, THIN = 2, 3, 5, 2


@contextmanager
def no_leftovers() -> Iterator[None]:
    """Have np.empty hand out NaN, so that what nobody writes shows."""
    empty = np.empty

    def marked(*args: Any, **kwargs: Any) -> Any:
        array = empty(*args, **kwargs)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    with mock.patch.object(np, "empty", marked):
        yield


def check_draws(item: Draws) -> Figures:
    """There are as many draws as requested, each its own, the last one with them."""
    thin = THIN if item.thins else 1
    # Kernels compile on the first run: Numba must meet NumPy's own empty, or it loses it for good.
    item.run(WARMUP, DRAWS, thin)
    with no_leftovers():
        sampled = item.run(WARMUP, DRAWS, thin)
        whole = sampled.kept.keys() - sampled.visited.keys()
        longer = item.run(WARMUP, DRAWS * thin + 2, 1) if whole else sampled
    WRITTEN.holds(
        bool(sampled.kept or sampled.summaries),
        item.name,
        "nothing was kept: the test would prove nothing",
    )
    for name, array in sampled.kept.items():
        where = f"{item.name}, {name}"
        WRITTEN.holds(
            array.shape[:2] == (CHAINS, DRAWS),
            where,
            f"expected {CHAINS} chains of {DRAWS} draws, got {array.shape[:2]}",
        )
        WRITTEN.holds(bool(np.isfinite(array).all()), where, "a place was not written")
        flat = array.reshape(CHAINS, DRAWS, -1)
        WRITTEN.holds(bool((flat != 0.0).any(axis=2).all()), where, "a draw is all zeros")
        if not item.stays:
            alike = (flat[:, 1:] == flat[:, :-1]).all(axis=2)
            WRITTEN.holds(not alike.any(), where, "a draw is a copy of the one before")
        if name in sampled.visited:
            seen = sampled.visited[name]
            visits = 1 + WARMUP + DRAWS * thin
            WRITTEN.holds(
                seen.shape[1] == visits,
                where,
                f"expected {visits} visits, the start's with them, got {seen.shape[1]}",
            )
            _same(where, "not the draws that were made", array, seen[:, WARMUP + thin :: thin])
            if not item.stays:
                copies = (array == seen[:, :1]).reshape(CHAINS, DRAWS, -1).all(axis=2)
                WRITTEN.holds(not copies.any(), where, "a draw is a copy of the start")
        else:
            # The same chain, kept whole: the last of every stretch is what thinning keeps.
            expected = longer.kept[name][:, thin - 1 : DRAWS * thin : thin]
            _same(where, "not the last of each stretch", array, expected)
    for name, (published, computed) in sampled.summaries.items():
        close = np.allclose(published, computed, rtol=1e-9, atol=1e-12)
        gap = "" if close else f", by {np.max(np.abs(np.subtract(published, computed))):.3g}"
        WRITTEN.holds(close, item.name, f"{name} is not that of the draws{gap}")
    return {f"{item.name}: arrays": len(sampled.kept), "summaries": len(sampled.summaries)}


def _same(where: str, fault: str, array: FloatArray, expected: FloatArray) -> None:
    if array.shape != expected.shape or np.array_equal(array, expected):
        shapes = f"{fault}: {array.shape} of them, expected {expected.shape}"
        WRITTEN.holds(array.shape == expected.shape, where, shapes)
        return
    chain, draw = np.argwhere((array != expected).reshape(CHAINS, DRAWS, -1).any(axis=2))[0]
    gap = float(np.max(np.abs(array - expected)))
    WRITTEN.breaks(f"{where}, chain {chain}, draw {draw}", f"{fault}, by up to {gap:.3g}")
