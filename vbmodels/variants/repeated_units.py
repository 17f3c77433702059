"""Units that come many times alike: their likelihood once, their sums as often as they come.

Of the indels' units most are slips that no read shows, at depths that hardly differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from vbmodels.core.in_process import InProcess, tree_sum
from vbmodels.core.protocol import Model
from vbmodels.core.state import IntArray, Stats
from vbmodels.variants.counts import Units
from vbmodels.variants.indels import UNSEEN

S = TypeVar("S", bound=Stats)
_STEPS = 2  # a doubling, to which depths are rounded


class Repeating(InProcess):
    """The sum over batches, each of which comes several times.

    Parameters
    ----------
    model, batches
        As for `InProcess`; the model's statistics are flat.
    times
        How often each comes.
    """

    def __init__(self, model: Model, batches: Sequence[Any], times: Sequence[int]) -> None:
        super().__init__(model, batches)
        self.times = list(times)

    def observe(self) -> Any:
        """Return the summed statistics that are needed before the first sweep."""
        found = self.map(self.model.observe)
        return tree_sum(_times(s, n) for s, n in zip(found, self.times, strict=True))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `Reduce`."""
        start = [None] * len(self.batches) if warm is None else self.local_states(warm)
        states = list(self.map(lambda batch, local: self.model.local_step(q, batch, local), start))
        found = self.map(lambda batch, local: self.model.suff_stats(q, batch, local), states)
        self._locals = {k: v for k, v in self._locals.items() if k == warm}
        self._locals[number] = states
        return tree_sum(_times(s, n) for s, n in zip(found, self.times, strict=True))


def _times(stats: S, n: int) -> S:
    values = {field.name: n * getattr(stats, field.name) for field in fields(stats)}
    return type(stats)(**values)


def alike(of: Units) -> tuple[Units, IntArray]:
    """Return units of a kind and weight, with reads at about the same depths, once, and how many.

    Depths are a sample's mean, rounded to the next of two steps a doubling; no reads of the allele
    are expected, so that depth says only how sure it is that there are none.
    """
    depth = np.zeros_like(of.depth)
    for member in (of.case, ~of.case):
        if member.any():
            mean = of.depth[:, member].mean(axis=1)
            steps = np.rint(_STEPS * np.log2(np.maximum(mean, 1.0))) / _STEPS
            rounded = np.where(mean < 1.0, 0, np.rint(2.0**steps)).astype(np.int64)
            depth[:, member] = rounded[:, None]
    keys = np.column_stack([of.kind, depth])
    if of.weight is not None:
        keys = np.column_stack([keys, of.weight])
    _, first, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return replace(of.take(first), depth=depth[first]), count


def sums_of(model: Model, of: Units) -> Repeating:
    """Return what sums over the indels' units: those that no read shows by kind and depth."""
    unseen = of.alt == UNSEEN
    few, times = alike(of.take(unseen))
    every = np.unique(times)
    batches = [of.take(~unseen), *(few.take(times == n) for n in every)]
    return Repeating(model, batches, [1, *every.tolist()])
