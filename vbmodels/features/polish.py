"""The text's bound first, then Polya-Gamma from its features: better than either on surveys.

Newton steps of the text's bound may overshoot. Here a step that lowered it is taken back inside
of the state: the next sweep tries half of it again from the last parameters that stood, with the
rows' features of then. So this form runs in any loop and beside other starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import State
from vbmodels.features.batch import FeatureBatch
from vbmodels.features.polya_gamma import SETTLE, FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.published.text_bound import TextGlobal, TextIBP, TextLocal, TextStats


@dataclass(frozen=True)
class TriedGlobal(State):
    """The text's parameters while they are sought.

    Parameters
    ----------
    tried
        Parameters of this sweep.
    kept
        The best ones before.
    stats, value
        Their statistics and bound; None and -inf before the first sweep.
    stood
        Whether the sweep before raised the bound, so that its rows' features are ``kept``'s.
    sweep
        Sweeps so far.
    """

    tried: TextGlobal
    kept: TextGlobal
    stats: TextStats | None
    value: float
    stood: bool
    sweep: int


@dataclass(frozen=True)
class TriedLocal(State):
    """nu of the parameters that stood, and of those that were tried."""

    kept: TextLocal
    tried: TextLocal

    def standing(self, stood: bool) -> TextLocal:
        """Return what the next sweep starts from."""
        return self.tried if stood else self.kept


@dataclass(frozen=True)
class HeldGlobal(State):
    """Polya-Gamma parameters that still settle while the rows' features are held.

    ``stood`` is that of the text's last sweep.
    """

    inner: FeatureGlobal
    left: int
    stood: bool


@dataclass(frozen=True)
class Polished:
    """Runs `TextIBP`, then `PolyaGammaIBP` from its features.

    The two bounds differ, so the trace jumps where one follows the other.

    Parameters
    ----------
    text, polya
        The models; ``polya`` has no annealing.
    text_sweeps
        Sweeps of the text's bound.
    held
        Sweeps in which only the weights move.
    """

    text: TextIBP
    polya: PolyaGammaIBP
    text_sweeps: int = 80
    held: int = 8

    def observe(self, batch: FeatureBatch) -> Any:
        """Count categories."""
        return self.text.observe(batch)

    def init(self, observed: Any, rng: np.random.Generator) -> TriedGlobal:
        """Start as the text does."""
        first = self.text.init(observed, rng)
        return TriedGlobal(first, first, None, -math.inf, True, 0)

    def local_step(self, q: Any, batch: FeatureBatch, local: Any) -> TriedLocal | FeatureLocal:
        """Run the local step of the present phase."""
        if isinstance(q, TriedGlobal):
            before = None if local is None else local.standing(q.stood)
            moved = self.text.local_step(q.tried, batch, before)
            return TriedLocal(moved if before is None else before, moved)
        if isinstance(local, TriedLocal):
            local = FeatureLocal(local.standing(q.stood).nu)
        if isinstance(q, HeldGlobal) and local is not None:
            return FeatureLocal(local.nu)
        return self.polya.local_step(polya_gamma_of(q), batch, local)

    def suff_stats(self, q: Any, batch: FeatureBatch, local: Any) -> Any:
        """Collect the statistics of the present phase."""
        if isinstance(q, TriedGlobal):
            return self.text.suff_stats(q.tried, batch, local.tried)
        return self.polya.suff_stats(polya_gamma_of(q), batch, local)

    def global_step(self, q: Any, stats: Any) -> Any:
        """Move the parameters of the present phase."""
        if isinstance(q, TriedGlobal):
            return self._try(q, stats)
        moved = self.polya.global_step(polya_gamma_of(q), stats)
        if isinstance(q, HeldGlobal) and q.left > 1:
            return replace(q, inner=moved, left=q.left - 1)
        return moved

    def _try(self, q: TriedGlobal, stats: TextStats) -> TriedGlobal | HeldGlobal:
        value = float(self.text.elbo(q.tried, stats))
        stood = q.stats is None or (math.isfinite(value) and value >= q.value)
        size = min(1.0, 2.0 * q.tried.size) if stood else 0.5 * q.tried.size
        kept = q.tried if stood else q.kept
        kept_stats = stats if stood or q.stats is None else q.stats
        if q.sweep + 1 >= self.text_sweeps:
            return self._begin(kept, stood)
        return TriedGlobal(
            tried=self.text.global_step(replace(kept, size=size), kept_stats),
            kept=kept,
            stats=kept_stats,
            value=value if stood else q.value,
            stood=stood,
            sweep=q.sweep + 1,
        )

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound of the present phase; of the text's, the best so far."""
        if isinstance(q, TriedGlobal):
            value = float(self.text.elbo(q.tried, stats))
            return max(value, q.value) if math.isfinite(value) else q.value
        return self.polya.elbo(polya_gamma_of(q), stats)

    def warming(self, q: Any) -> bool:
        """Whether the text's phase is not over, or hardly."""
        return not isinstance(q, FeatureGlobal) or q.sweep < self.held + SETTLE

    def shown(self, at: Cursor) -> Step:
        """Let the trace decide, but not while the text's phase lasts."""
        return Step.at(at, False if self.warming(at.q) else None)

    def _begin(self, q: TextGlobal, stood: bool) -> HeldGlobal:
        """Start Polya-Gamma's weights at nothing: the held features will set them."""
        size, units = len(q.tau) + 1, int((q.levels - 1).sum())
        inner = FeatureGlobal(
            mean=np.zeros((units, size)),
            covariance=np.broadcast_to(0.01 * np.eye(size), (units, size, size)).copy(),
            tau=q.tau,
            alpha=self.polya.alpha,
            variance=np.full(size - 1, self.polya.weight_variance),
            share=q.share,
            n_rows=q.n_rows,
            sweep=0,
        )
        return HeldGlobal(inner, self.held, stood)


def polya_gamma_of(q: Any) -> FeatureGlobal:
    """Return the Polya-Gamma parameters of a state that has reached them.

    Raises
    ------
    TypeError
        If the text's phase is not over.
    """
    found = q.inner if isinstance(q, HeldGlobal) else q
    if not isinstance(found, FeatureGlobal):
        raise TypeError(f"expected Polya-Gamma parameters, got a {type(found).__name__}")
    return found
