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

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.variants import quadrature
from vbmodels.variants import tables_kernels as kernels
from vbmodels.variants.batch import Units

M_NODES = np.geomspace(30.0, 1e6, 10)
N_SURVIVAL = 1201
PEAK_FLOOR = 0.05


class Noise(NamedTuple):
    """How far replicates differ: M(mu) = M_q max(1, least / mu)^gamma on the nodes M_q.

    PCR and library noise is multiplicative: of coefficient of variation c it gives
    M mu = 1/c^2, which is gamma = 1. Above ``least`` M is constant, so that true variants
    keep little noise.

    Attributes
    ----------
    nodes
        [Q] M above ``least``.
    least, gamma
        See above; gamma = 0: M is the same at every rate.
    """

    nodes: FloatArray
    least: float
    gamma: float


CONSTANT = Noise(M_NODES, 0.002, 0.0)
GROWING = Noise(np.geomspace(2.0, 2e5, 10), 0.002, 1.0)


class Grids(NamedTuple):
    """Arrays of a `Table`, as compiled code takes them."""

    x: FloatArray
    log_weight: FloatArray
    log_case: FloatArray
    log_control: FloatArray
    kind: IntArray


@dataclass(frozen=True)
class Table(State):
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
        As `batch.Units` has them.
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
            some: dict[str, Any] = {
                k: v[start:stop] for k, v in vars(self).items() if isinstance(v, np.ndarray)
            }
            yield replace(self, **some), float(self.weight[start])


def tabulate(
    units: Units,
    anchor: FloatArray,
    compiled: bool = True,
    noise: Noise = CONSTANT,
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
    compiled
        Whether to run the Numba kernel rather than the NumPy reference.
    noise
        How M depends on the rate.
    n_nodes
        Number of nodes of x; by default `quadrature.N_NODES`.
    """
    shape = (len(units), len(noise.nodes), n_nodes or quadrature.N_NODES)
    x, log_weight, log_case, log_control = (np.empty(shape) for _ in range(4))
    at, scale = anchor[0, units.kind], anchor[1, units.kind]
    form = kernels.tabulate if compiled else tabulate_reference
    form(
        units.alt_reads,
        units.depth,
        units.case,
        noise,
        at,
        scale,
        x,
        log_weight,
        log_case,
        log_control,
    )
    return Table(
        x, log_weight, log_case, log_control, log_binomials(units), units.kind,
        weight=units.weight, share=units.share, context=units.context,
    )  # fmt: skip


def log_binomials(units: Units) -> FloatArray:
    """Return the sum over all replicates of log C(n_i, r_i), [U]."""
    n, r = units.depth, units.alt_reads
    return np.asarray((gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1))


def tabulate_reference(
    r: IntArray,
    n: IntArray,
    case: BoolArray,
    noise: Noise,
    anchor_x: FloatArray,
    anchor_scale: FloatArray,
    x: FloatArray,
    log_weight: FloatArray,
    log_case: FloatArray,
    log_control: FloatArray,
) -> None:
    """Fill the four tables [U, Q, K]; the NumPy reference of `kernels.tabulate`.

    The grid's centres are the modes of the likelihoods of the case, of the control and of
    both (each times sqrt(mu (1-mu))), and the peak of the error rates. Its ends are where
    every integrand has fallen by 18 nats: left of a mode the likelihood falls by at least
    one nat per unit of x for every replicate that shows the allele, and Beta(.1, .1) by .1.
    """
    members = (case, ~case, np.ones_like(case))
    reach = []
    starts = []
    for member in members:
        rs, ns = r[:, member], n[:, member]
        starts.append(np.log((rs.sum(axis=1) + 0.5) / ((ns - rs).sum(axis=1) + 0.5)))
        reach.append(((rs > 0).sum(axis=1), (ns > rs).sum(axis=1)))
    for q in range(len(noise.nodes) - 1, -1, -1):
        found = [
            quadrature.likelihood_centre(
                r[:, member], n[:, member], noise_at(noise, q, start), start
            )
            for member, start in zip(members, starts, strict=True)
        ]
        starts = [centre for centre, _ in found]
        low = np.min(
            [
                c - quadrature.TAIL / (quadrature.BROAD + hits) - 3.0 * s
                for (c, s), (hits, _) in zip(found, reach, strict=True)
            ],
            axis=0,
        )
        high = np.max(
            [
                c + quadrature.TAIL / (quadrature.BROAD + rest) + 3.0 * s
                for (c, s), (_, rest) in zip(found, reach, strict=True)
            ],
            axis=0,
        )
        centres = np.stack([*starts, anchor_x], axis=1)
        scales = quadrature.WIDTH * np.stack([*(s for _, s in found), anchor_scale], axis=1)
        x[:, q], log_weight[:, q] = quadrature.grid(centres, scales, low, high, x.shape[2])
        for table, member in ((log_case, case), (log_control, ~case)):
            table[:, q] = 0.0
            for i in np.flatnonzero(member):
                table[:, q] += quadrature.log_beta_binomial(
                    r[:, i, None], n[:, i, None], x[:, q], noise_at(noise, q, x[:, q])
                )


def noise_at(noise: Noise, q: int, x: FloatArray) -> FloatArray:
    """Return M of node ``q`` at x = logit(mu), [...]."""
    below = np.maximum(np.log(noise.least) - quadrature.log_mu(x)[0], 0.0)
    return np.asarray(noise.nodes[q] * np.exp(np.minimum(noise.gamma * below, 200.0)))


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
    table: FloatArray = np.stack([log_tail, -hazard * 2.0 * np.cosh(u)], axis=1)
    return table


def survival_tables(alternatives: FloatArray) -> FloatArray:
    """Return log S_c(x) and its slope in u = asinh(x/2), [n_alt, 1201, 2].

    S_c(x) = P(mu > sigmoid(x)) for the first component, the broad one. For the others it is
    raised to .05 + .95 P: where the control's rate lies far above a peak, what is left of the
    peak is not blown up into an alternative "a little above the control".

    Parameters
    ----------
    alternatives
        [n_alt, >=2] parameters of Beta distributions.
    """
    floors = [0.0] + [PEAK_FLOOR] * (len(alternatives) - 1)
    pairs = zip(alternatives, floors, strict=True)
    return np.stack([_survival(float(row[0]), float(row[1]), floor) for row, floor in pairs])
