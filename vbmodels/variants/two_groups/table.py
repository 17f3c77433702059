"""Likelihood tables of units: log likelihood of case and of control on nodes of (M, mu).

Everything that the two-groups test integrates is a product of these with densities that
depend on hyperparameters only, so a table is computed once and EM re-weights it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import betaincc, betaln, expit, gammaln

from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.variants import quadrature
from vbmodels.variants.counts import Units
from vbmodels.variants.two_groups import table_kernels as kernels

M_NODES = np.geomspace(30.0, 1e6, 10)
N_SURVIVAL = 1201
PEAK_FLOOR = 0.05


class Grids(NamedTuple):
    """Arrays of a `Table`, as compiled code takes them."""

    x: FloatArray
    log_weight: FloatArray
    log_case: FloatArray
    log_control: FloatArray
    kind: IntArray

    def take(self, which: slice) -> Grids:
        """Return the arrays of some units."""
        x, log_weight, log_case, log_control, kind = self
        return Grids(x[which], log_weight[which], log_case[which], log_control[which], kind[which])


class Hypotheses(NamedTuple):
    """The global parameters as a pass over a table takes them.

    Attributes
    ----------
    log_pi, log_not_pi, log_w, log_not_w
        Logs of pi, 1-pi, w, 1-w.
    log_p, log_m
        [Q] log prior weights and the nodes of log M.
    e_beta
        [3, 12] A, B and log B(A, B).
    alternatives
        [n_alt, 4] a, b, log B(a, b) and log rho.
    survival
        `survival_tables`.
    restricted
        Whether H1 requires mu_case > mu_control.
    cumulative
        `quadrature.sinc_cumulative`.
    """

    log_pi: float
    log_not_pi: float
    log_w: float
    log_not_w: float
    log_p: FloatArray
    log_m: FloatArray
    e_beta: FloatArray
    alternatives: FloatArray
    survival: FloatArray
    restricted: bool
    cumulative: FloatArray


@dataclass(frozen=True)
class Table(State, kind="variants/two_groups.Table"):
    """Likelihoods of U units on Q nodes of M and K nodes of x = logit(mu).

    Attributes
    ----------
    x, log_weight
        [U, Q, K] nodes and log weights of the quadrature in x.
    log_case, log_control
        [U, Q, K] log prod_i BetaBin(r_i | n_i, M mu, M (1-mu)) over the replicates of the
        sample, without the binomial coefficients; 0 where it has no reads.
    log_binomial
        [U] sum over all replicates of log C(n_i, r_i).
    kind
        [U] substitution type, 0 to 11.
    weight, share, context
        As `counts.Units` has them.
    """

    x: FloatArray
    log_weight: FloatArray
    log_case: FloatArray
    log_control: FloatArray
    log_binomial: FloatArray
    kind: IntArray
    weight: FloatArray | None = field(default=None, kw_only=True)
    share: float = field(default=1.0, kw_only=True)
    context: IntArray | None = field(default=None, kw_only=True)

    @property
    def grids(self) -> Grids:
        """What a pass over the units reads."""
        return Grids(self.x, self.log_weight, self.log_case, self.log_control, self.kind)

    def __len__(self) -> int:
        return len(self.kind)

    def runs(self) -> Iterator[tuple[Self, float]]:
        """Yield the units of one weight that stand together, and the weight."""
        assert self.weight is not None
        ends = np.flatnonzero(np.diff(self.weight)) + 1
        for start, stop in pairwise([0, *ends.tolist(), len(self)]):
            arrays: dict[str, Any] = {
                k: v[start:stop] for k, v in vars(self).items() if isinstance(v, np.ndarray)
            }
            yield replace(self, **arrays), float(self.weight[start])


def tabulate(
    units: Units,
    anchor: FloatArray,
    n_nodes: int | None = None,
) -> Table:
    """Return the table of some units.

    Parameters
    ----------
    units
        The units.
    anchor
        [2, 12] place and scale in x, by substitution type, of the peak of the error rates:
        the quadrature must resolve it.
    n_nodes
        Number of nodes of x; by default `quadrature.N_NODES`.
    """
    shape = (len(units), len(M_NODES), n_nodes or quadrature.N_NODES)
    x, log_weight, log_case, log_control = (np.empty(shape) for _ in range(4))
    kernels.tabulate(
        units.alt_reads,
        units.depth,
        units.case,
        M_NODES,
        anchor[0, units.kind],
        anchor[1, units.kind],
        x,
        log_weight,
        log_case,
        log_control,
    )
    return Table(
        x,
        log_weight,
        log_case,
        log_control,
        log_binomials(units),
        units.kind,
        weight=units.weight,
        share=units.share,
        context=units.context,
    )


def log_binomials(units: Units) -> FloatArray:
    """Return the sum over all replicates of log C(n_i, r_i), [U]."""
    n, r = units.depth, units.alt_reads
    return np.asarray((gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1))


@lru_cache(maxsize=64)
def _survival(a: float, b: float, floor: float) -> FloatArray:
    u = np.linspace(-6.0, 6.0, N_SURVIVAL)
    x = 2.0 * np.sinh(u)
    tail = np.maximum(betaincc(a, b, expit(x)), np.finfo(float).tiny)
    # Where 1 - mu is lost to rounding: S(x) = (1-mu)^b / (b B(a, b)) for mu near 1.
    far = x > 20.0
    tail[far] = np.exp(-b * x[far] - np.log(b) - betaln(a, b))
    tail = floor + (1.0 - floor) * tail
    log_tail = np.log(tail)
    lmu, lnu = quadrature.log_mu(x)
    hazard = (1.0 - floor) * np.exp(a * lmu + b * lnu - betaln(a, b) - log_tail)
    return np.stack([log_tail, -hazard * 2.0 * np.cosh(u)], axis=1)


def survival_tables(alternatives: FloatArray) -> FloatArray:
    """Return log S_c(x) and its slope in u = asinh(x/2), [n_alt, 1201, 2].

    S_c(x) = P(mu > sigmoid(x)) for the first component, the broad one. For the others it is
    raised to .05 + .95 P: where the control's rate lies far above a peak, what is left of the
    peak is not blown up into an alternative "a little above the control".

    ``alternatives``: [n_alt, >=2] parameters of Beta distributions.
    """
    floors = [0.0] + [PEAK_FLOOR] * (len(alternatives) - 1)
    pairs = zip(alternatives, floors, strict=True)
    return np.stack([_survival(float(row[0]), float(row[1]), floor) for row, floor in pairs])
