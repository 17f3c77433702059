"""vMMIC as Hu (2024) prints it (section 2.2.2, appendix B), with its errata.

Erratum of B.1.9 and B.1.10: its updates of q(U) and q(delta) are not those of a mean field.
A (B.1.10) holds Phi(m_U) already and E[U] (B.1.9) multiplies by Phi again; and
A = A* Phi(m_U) e^kappa starts from the A* of the iteration before, so the log odds add up over
iterations and q(delta) freezes at 0 or 1. The globals are factored, q(alpha) q(beta) q(gamma)
q(a) q(b) q(c) q(d), and updated in this order.

Corrected here, because they are slips of the pen: m_U with the modality's own terms,
X_i' E[l l'^T] Z_i, the squares of B.1.2. The corrected form is
`vbmodels.bags.vmmic.mean_field.MeanFieldVMMIC`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.layout import Layout, Observed
from vbmodels.bags.vmmic.likelihood import Points, Sums
from vbmodels.bags.vmmic.local import Local, MeanField, Rows, SweepSums, Tails, start, swept
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC, inverse
from vbmodels.core.algorithm import Algorithm, Phase, Save, Show
from vbmodels.core.cavi import evaluate
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class PrintedLocal(Local):
    """Local factors with the log odds that are carried on.

    Attributes
    ----------
    carried
        Log odds of the iteration before, [N_k] for each modality.
    moved
        sum |change of Phi(m*)| over bags: the paper's measure of convergence.
    """

    carried: tuple[FloatArray, ...]
    moved: float


@dataclass(frozen=True)
class PrintedSums(SweepSums):
    """Sums of a sweep with ``printed``, sum E[U] (1, x) by B.1.9, and ``moved``."""

    printed: tuple[FloatArray, ...]
    moved: float


@dataclass(frozen=True)
class PrintedVMMIC(MeanFieldVMMIC):
    """Fit vMMIC by the paper's own updates; there is no bound that they raise.

    What `elbo` returns is the bound of the corrected factors at the paper's parameters; it
    may fall, and a fit returns the last iteration. The fit ends by the paper's rule (section
    2.2.3): the mean change of P(y_i = 1) over the training bags between two iterations is small.

    Parameters
    ----------
    tolerance
        That mean change.
    """

    start: str = "zero"
    tolerance: float = 1e-4

    def init(self, observed: Observed, rng: np.random.Generator) -> MeanField:
        """Start near zero (or at the mode), a and b apart from one another."""
        q = super().init(observed, rng)
        prior = self.priors.precision(q.scaling.layout)
        covariances = []
        for k, gram in enumerate(q.grams):
            precision = np.diag(prior[q.scaling.layout.gates[k]]) + gram
            precision[0, 1:] = precision[1:, 0] = 0.0
            covariances.append(inverse(precision))
        return replace(q, gate_covariances=tuple(covariances))

    def local_step(self, q: MeanField | Points, batch: Bags, local: Any) -> PrintedLocal | None:
        """Update the local factors as printed (B.1.10), carrying the log odds on."""
        if isinstance(q, Points):
            return None
        rows = Rows.of(batch, q.scaling)
        if local is None:
            primary = start(rows, q)
            carried = tuple(np.zeros(p.size) for p in primary)
            before: Any = 0.5
        else:
            primary, carried, before = local.primary, local.carried, ndtr(local.centre)
        primary, centre, odds = swept(rows, q, primary, carried)
        moved = float(np.abs(ndtr(centre) - before).sum())
        return PrintedLocal(primary, centre, q.gate_means, odds, moved)

    def suff_stats(
        self, q: MeanField | Points, batch: Bags, local: Local | None
    ) -> Sums | SweepSums:
        """Return the sums of a sweep, with the paper's E[U] as well as the right one."""
        found = super().suff_stats(q, batch, local)
        if not isinstance(local, PrintedLocal) or isinstance(found, Sums):
            return found
        rows = Rows.of(batch, q.scaling)
        printed = []
        for k, (p, gate) in enumerate(zip(local.primary, local.gates, strict=True)):
            x = rows.features(k)
            mean = printed_mean(gate[0] + x @ gate[1:], p)
            printed.append(np.concatenate([[mean.sum()], mean @ x]))
        return found.extended(PrintedSums, printed=tuple(printed), moved=local.moved)

    def global_step(self, q: MeanField, stats: Any) -> MeanField:
        """Update alpha, w, beta_1, ..., every a_k and b_k, one after another (B.1.1 to B.1.7)."""
        layout = q.scaling.layout
        prior = self.priors.precision(layout)
        curvature = self._theta_curvature(layout, stats)
        mean, covariance = q.mean.copy(), np.zeros_like(q.covariance)
        for block in _theta_blocks(layout):
            v = inverse(np.diag(prior[block]) + curvature[block, block])
            others = curvature[block] @ mean - curvature[block, block] @ mean[block]
            mean[block] = v @ (stats.label[block] - others)
            covariance[block, block] = v
        gates = []
        for k, gram in enumerate(q.grams):
            linear = stats.printed[k]
            g, v = q.gate_means[k].copy(), q.gate_covariances[k]
            g[0] = v[0, 0] * (linear[0] - gram[0, 1:] @ g[1:])
            g[1:] = v[1:, 1:] @ (linear[1:] - gram[1:, 0] * g[0])
            gates.append(g)
        return replace(q, mean=mean, covariance=covariance, gate_means=tuple(gates))

    def algorithm(self, q: MeanField) -> Algorithm:
        """Find the start, then sweep until the paper's rule is met; the paper has no leaps."""
        if not q.started:
            q = yield Phase(self._start(q))
        return (yield Phase(self._sweeps(q)))

    def _sweeps(self, q: MeanField) -> Algorithm:
        while True:
            q = yield Save(q)
            q, stats, elbo = yield from evaluate(self, q)
            yield Show(q, elbo, by_trace=False)
            if stats.moved <= self.tolerance * stats.outer[0, 0]:
                return q
            q = self.global_step(q, stats)


def printed_mean(e: FloatArray, p: FloatArray) -> FloatArray:
    """Return E[U] of B.1.9, where p meets Phi(e) twice.

    e + (2 p - 1) phi(e) / (p Phi(e) + (1 - p) Phi(-e)).
    """
    tails = Tails.of(e)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(p > 0.0, p / tails.up, 0.0) + np.where(p < 1.0, (1 - p) / tails.down, 0.0)
    mean: FloatArray = e + (2.0 * p - 1.0) / below
    return mean


def _theta_blocks(layout: Layout) -> list[slice]:
    blocks = [slice(0, 1), layout.own_slopes]
    blocks += [layout.slopes[k] for k in range(len(layout.features))]
    return [block for block in blocks if block.stop > block.start]
