"""The text's bound first, then Polya-Gamma from its features: better than either on surveys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.cavi import Cursor, Reduce, Step, cavi
from vbmodels.features.batch import FeatureBatch
from vbmodels.features.polya_gamma import SETTLE, FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.text_bound import TextGlobal, TextIBP, TextLocal
from vbmodels.state import State, aligned


@dataclass(frozen=True)
class HeldGlobal(State):
    """Polya-Gamma parameters that still settle while the rows' features are held."""

    inner: FeatureGlobal
    left: int


@dataclass(frozen=True)
class Polished:
    """Runs `TextIBP`, then `PolyaGammaIBP` from its features.

    The two bounds differ, so the trace jumps where one follows the other.

    Parameters
    ----------
    text, polya
        The models; ``polya`` has no ramp.
    text_sweeps
        Evaluations of the text's bound.
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

    def init(self, observed: Any, rng: np.random.Generator) -> TextGlobal:
        """Start as the text does."""
        return self.text.init(observed, rng)

    def local_step(self, q: Any, batch: FeatureBatch, local: Any) -> TextLocal | FeatureLocal:
        """Run the local step of the present phase."""
        if isinstance(q, TextGlobal):
            return self.text.local_step(q, batch, local)
        own = None if local is None else FeatureLocal(local.nu)
        if isinstance(q, HeldGlobal):
            return own if own is not None else self.polya.local_step(q.inner, batch, None)
        return self.polya.local_step(q, batch, own)

    def suff_stats(self, q: Any, batch: FeatureBatch, local: Any) -> Any:
        """Collect the statistics of the present phase."""
        if isinstance(q, TextGlobal):
            return self.text.suff_stats(q, batch, local)
        return self.polya.suff_stats(_inner(q), batch, local)

    def global_step(self, q: Any, stats: Any) -> Any:
        """Move the parameters of the present phase."""
        if isinstance(q, TextGlobal):
            return self.text.global_step(q, stats)
        moved = self.polya.global_step(_inner(q), stats)
        if isinstance(q, HeldGlobal) and q.left > 1:
            return HeldGlobal(moved, q.left - 1)
        return moved

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound of the present phase."""
        if isinstance(q, TextGlobal):
            return self.text.elbo(q, stats)
        return self.polya.elbo(_inner(q), stats)

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Run the text's loop, then coordinate ascent."""
        if isinstance(cursor.q, TextGlobal):
            for step in self.text.steps(reduce, cursor):
                yield replace(step, converged=False)
                if step.iteration >= self.text_sweeps:
                    break
            number = step.cursor.number + 1
            q = aligned(self._begin(step.q))
            stats = aligned(reduce(q, number=number, warm=number - 1))
            cursor = Cursor(q=q, stats=stats, number=number, elbo=self.elbo(q, stats))
        for step in cavi(self, reduce, cursor):
            settling = isinstance(step.q, HeldGlobal) or step.q.sweep < self.held + SETTLE
            yield replace(step, converged=False) if settling else step

    def _begin(self, q: TextGlobal) -> HeldGlobal:
        """Start Polya-Gamma's weights at nothing: the held features will set them."""
        size, units = self.polya.n_features + 1, int((q.levels - 1).sum())
        inner = FeatureGlobal(
            mean=np.zeros((units, size)),
            covariance=np.broadcast_to(0.01 * np.eye(size), (units, size, size)).copy(),
            tau=q.tau,
            alpha=self.polya.alpha,
            variance=self.polya.weight_variance,
            share=q.share,
            n_rows=q.n_rows,
            sweep=0,
        )
        return HeldGlobal(inner, self.held)


def _inner(q: Any) -> FeatureGlobal:
    found: FeatureGlobal = q.inner if isinstance(q, HeldGlobal) else q
    return found
