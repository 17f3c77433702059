"""Priors of vMMIC's global parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from vbmodels.bags.vmmic.layout import Layout
from vbmodels.core.state import FloatArray, IntArray


@dataclass(frozen=True)
class Priors:
    """Normal priors, the text's by default (section 2.2.1): N(0, 16) and N(0, 4).

    With ``learn`` each block of slopes w has a precision of its own instead,
    w | tau ~ N(0, I / tau), tau ~ Gamma(shape, rate / dim w): its scale follows the
    data. ``rate`` is about the squared length of a block of slopes that is expected. A gate's
    intercept has its slopes' scale then, a_k | tau ~ N(0, gate dim b / tau): with
    N(0, 16) and short slopes a modality whose instances are all primary, or none, would be likely
    beforehand, Phi(a/sqrt(1 + |b|^2)) being the share of primary ones.

    Parameters
    ----------
    intercept_variance
        Of alpha and every a_k; with ``learn`` the variance is alpha's alone, unless ``gate`` is 0.
    slope_variance
        Of every slope, where precisions are not learned.
    learn
        Whether the precisions of slopes are learned.
    shape, rate
        Of their prior.
    gate
        Prior variance of a_k, as a share of the squared length of b_k; 0: ``intercept_variance``.
    """

    intercept_variance: float = 16.0
    slope_variance: float = 4.0
    learn: bool = True
    shape: float = 2.0
    rate: float = 10.0
    gate: float = 0.3

    def __post_init__(self) -> None:
        for name in ("intercept_variance", "slope_variance", "shape", "rate"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"expected {name} > 0, got {getattr(self, name)}")
        if not self.gate >= 0.0:
            raise ValueError(f"expected gate >= 0, got {self.gate}")

    def precision(self, layout: Layout, tau: FloatArray | None = None) -> FloatArray:
        """Return the diagonal of the prior precision of t, [dim], at E[tau], [blocks]."""
        precision = np.full(layout.dim, 1.0 / self.intercept_variance)
        tau = self.fixed(layout) if tau is None else tau
        for block, value in zip(layout.slope_blocks, tau, strict=True):
            precision[block] = value
        gates = self._gates(layout)
        precision[gates.intercepts] = tau[gates.blocks] / gates.shares
        return precision

    def fixed(self, layout: Layout) -> FloatArray:
        """Return every block's precision where it is not learned, and where learning starts."""
        return np.full(len(layout.slope_blocks), 1.0 / self.slope_variance)

    def tau(
        self,
        layout: Layout,
        mean: FloatArray,
        variance: FloatArray,
        before: FloatArray | None = None,
    ) -> FloatArray:
        """Return E[tau] of every block of slopes given q(t), [blocks].

        q(tau) = Gamma(shape + dim w / 2, rate / dim w + E|w|^2 / 2); of a gate's
        block the intercept is one more coordinate, divided by sqrt(gate dim w). Of turned
        features dim w is that of all: directions left out have the mean 0 and the variance
        1 / ``before``, or, without it, no variance, as at a mode.
        """
        if not self.learn:
            return self.fixed(layout)
        square, gates = mean**2 + variance, self._gates(layout)
        sums = np.array([square[block].sum() for block in layout.slope_blocks])
        widths = layout.plain.block_sizes
        if before is not None:
            sums += (widths - layout.block_sizes) / before
        counts = widths.copy()
        sums[gates.blocks] += square[gates.intercepts] / gates.shares
        counts[gates.blocks] += 1.0
        return (self.shape + counts / 2.0) / (self.rate / widths + sums / 2.0)

    def expected_log(self, layout: Layout, mean: FloatArray, variance: FloatArray) -> float:
        """Return E_q[log p(t | tau) + log p(tau) - log q(tau)] at the best q(tau).

        Directions of turned features that are left out are integrated out: they add nothing. With
        q(tau) at its optimum, a block of slopes with S = E|w|^2 gives
        log of the integral of exp(E log p(w | tau)) p(tau) over tau,

            -(D/2) log 2 pi + a0 log b0 - log G(a0) - (a0 + D/2) log(b0 + S/2) + log G(a0 + D/2),

        a gate's with E a^2/(gate dim w) in S, D one higher, and the logarithm of
        sqrt(gate dim w) taken off.
        """
        square = mean**2 + variance
        precision = self.precision(layout)
        terms = 0.5 * np.log(precision / (2.0 * np.pi)) - 0.5 * precision * square
        if not self.learn:
            return float(terms.sum())
        gates, dims = self._gates(layout), layout.block_sizes.copy()
        sums = np.array([square[block].sum() for block in layout.slope_blocks])
        terms[gates.intercepts] = 0.0
        sums[gates.blocks] += square[gates.intercepts] / gates.shares
        dims[gates.blocks] += 1.0
        spread = 0.5 * float(np.log(gates.shares).sum())
        rates, shapes = self.rate / layout.plain.block_sizes, self.shape + dims / 2.0
        blocks = -0.5 * dims * np.log(2.0 * np.pi) + self.shape * np.log(rates)
        blocks += gammaln(shapes) - gammaln(self.shape) - shapes * np.log(rates + sums / 2.0)
        return float(terms[layout.intercepts].sum() + blocks.sum()) - spread

    def _gates(self, layout: Layout) -> Gates:
        gates = [b for b in layout.gate_slopes if b.stop > b.start and self.learn and self.gate]
        blocks = np.array([layout.slope_blocks.index(b) for b in gates], dtype=np.int64)
        intercepts = np.array([b.start - 1 for b in gates], dtype=np.int64)
        return Gates(blocks, intercepts, self.gate * layout.plain.block_sizes[blocks])


class Gates(NamedTuple):
    """Gates of a learned scale: their numbers among blocks, their intercepts, and gate dim b."""

    blocks: IntArray
    intercepts: IntArray
    shares: FloatArray
