"""How the errors of a case differ from what it is compared with: what was taken as the null."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.evaluate.estimate import Estimate
from vbmodels.core.state import FloatArray
from vbmodels.variants.panel.model import PanelGlobal
from vbmodels.variants.two_groups.batch_null import BatchGlobal, names_of_types
from vbmodels.variants.two_groups.contexts import names_of_contexts

LEAST_SHIFT, LEAST_Z = 0.4, 4.0  # of a logarithm of a factor that is marked, and its z
LEAST_CONTEXT_Z = 5.0  # of 192, whose errors are given b_t and some 1.3 times too small
MOST_TAU, MOST_V = 0.5, 0.02  # between replicates


@dataclass(frozen=True)
class Factor:
    """Errors of a substitution: the case's rate over that of what it is compared with.

    Attributes
    ----------
    name
        Of the substitution.
    factor
        With its 95 % interval.
    rate
        The rate of what the case is compared with.
    """

    name: str
    factor: Estimate
    rate: float

    @property
    def is_apart(self) -> bool:
        """Whether the interval does not include 1."""
        low, high = self.factor.low, self.factor.high
        return low is not None and high is not None and not low <= 1.0 <= high


@dataclass(frozen=True)
class Marked:
    """A substitution, or its context, whose factor is large and sure."""

    name: str
    factor: float


@dataclass(frozen=True)
class Differences:
    """The differences between a case's errors and those of what it is compared with.

    Attributes
    ----------
    factors
        By substitution.
    overall
        The mean factor, where all are far from 1; else None.
    marked
        Substitutions that are far from 1; where all are, from their mean.
    contexts
        Contexts that are far from their substitution's factor, the furthest first.
    site_sd, outlying
        How far sites differ beyond that (sd of the logit), and the share that are far off.
    sites_differ
        Whether that is more than between replicates.
    """

    factors: tuple[Factor, ...]
    overall: float | None
    marked: tuple[Marked, ...]
    contexts: tuple[Marked, ...]
    site_sd: float
    outlying: float
    sites_differ: bool

    @property
    def largest(self) -> Factor:
        """The factor that is furthest from 1."""
        return max(self.factors, key=lambda one: abs(np.log(one.factor.value)))


def differences_of(q: BatchGlobal) -> Differences:
    """Return the differences that a fit of the batch-aware null found."""
    assert q.errors is not None
    half = 1.96 * q.errors.of_type
    rate, factor = q.a / (q.a + q.b), np.exp(q.shift)
    ends = np.exp(q.shift - half), np.exp(q.shift + half)
    estimates = map(Estimate, factor.tolist(), *(end.tolist() for end in ends))
    overall = abs(q.shift_mean) > max(LEAST_SHIFT, LEAST_Z * q.errors.of_mean) and bool(
        np.all(np.abs(q.shift) > 0.5 * LEAST_SHIFT)
    )
    off = q.shift - q.shift_mean if overall else q.shift
    return Differences(
        factors=tuple(map(Factor, names_of_types(), estimates, rate.tolist())),
        overall=float(np.exp(q.shift_mean)) if overall else None,
        marked=_marked(names_of_types(), factor, off, LEAST_Z * q.errors.of_type),
        contexts=_contexts(q),
        site_sd=float(q.tau),
        outlying=float(q.v),
        # What is usual between samples a panel shows, and tau has learned it.
        sites_differ=bool((q.tau > MOST_TAU and not isinstance(q, PanelGlobal)) or q.v > MOST_V),
    )


def _contexts(q: BatchGlobal) -> tuple[Marked, ...]:
    if q.of_context is None or q.errors is None or q.errors.of_context is None:
        return ()
    off = q.of_context - q.shift[:, None]
    off[:, -1] = 0.0  # of unknown neighbours
    order = np.argsort(-np.abs(off), axis=None, kind="stable")
    flat = (np.exp(q.of_context), off, LEAST_CONTEXT_Z * q.errors.of_context)
    names = np.array(names_of_contexts())[order].tolist()
    return _marked(names, *(one.ravel()[order] for one in flat))


def _marked(
    names: list[str], factor: FloatArray, off: FloatArray, least: FloatArray
) -> tuple[Marked, ...]:
    """Return those whose logarithm is off by more than chance and by an effect that matters."""
    sure = np.flatnonzero((np.abs(off) > LEAST_SHIFT) & (np.abs(off) > least))
    return tuple(Marked(names[i], float(factor[i])) for i in sure.tolist())
