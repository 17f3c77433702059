"""The default test: two groups whose null lets case and control differ as batches do.

Two libraries differ in their error rates by substitution type (oxidation, a polymerase, a
sequencer), and a little at every site. With x = logit mu, unit u of type t:

    r_i | x, M ~ BetaBin(n_i, M mu, M (1-mu))
    x_control ~ e_t
    H0: x_case = x_control + d,  d ~ (1-v) N(b_t, tau^2) + v N(b_t, 1.2^2)
    H1: x_case ~ sum_c rho_c g_c, each cut to x_case > x_control + b_t

with e_t, g_c, rho, pi and log M as in `two_groups`, and

    b_t ~ N(b_0, .5^2), b_0 ~ N(0, 1), of which b_0 is integrated out,
    log tau ~ N(log .15, 1) in [.03, 1],  v ~ Beta(1.5, 1001).

By trinucleotide d is around b_tc instead, c the bases before and behind the location; see
`contexts`. As tau and v go to 0 at b = 0 this is the exchangeable null.

The kernels compute, with A_k = w_k e_t(x_k) L_control(x_k) on the nodes,

    m0 = sum_k A_k [(1-v) E L_case(x_k + b + tau u) + v E L_case(x_k + b + 1.2 u)],  u ~ N(0, 1)
    m1 = sum_k A_k sum_c rho_c G_c(x_k + b) / S_c(x_k + b),

where for the first expectation L_case is linear between its nodes and constant beyond them;
the second, which is vague and depends on no parameter but b, is tabulated at the nodes, where
L_case is constant in blocks of cells at least .4 wide, and its log is a cubic polynomial
between them; and the integral G_c of g_c L_case above a place is linear within a node's cell.
A cell ends at the midpoints between nodes. All moments of u between two places are closed, by
m_i = (i-1) m_(i-2) + z^(i-1) phi(z), left minus right. So the objective is smooth in b and tau
even where tau is far below the distance of two nodes, and tau -> 0 at b = 0 gives the sum over
nodes of the exchangeable null.

The fit climbs the penalised log marginal likelihood. EM moves what `two_groups` has. For b_t
and log tau it would take hundreds of passes, as most units say nothing of them: these take
Newton's step with the observed information by Louis (1982), guarded by the objective
(`monotone_squarem`), and tau is now and then compared with six values side by side, for EM and
Newton go to the nearest maximum alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from scipy.special import expit, logit

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import monotone_squarem
from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.variants.counts import BASES, N_TYPES, Units
from vbmodels.variants.hyperparameters import log_normal_step
from vbmodels.variants.two_groups import batch_null_kernels as kernels
from vbmodels.variants.two_groups.contexts import CONTEXT_SD, N_CONTEXTS, nested_step
from vbmodels.variants.two_groups.difference_kernels import widen
from vbmodels.variants.two_groups.model import (
    CENTRE_M,
    GERMLINE_W,
    Global,
    Observed,
    Sums,
    TwoGroups,
    Weighed,
    log_masses,
    log_sums,
    sums_of,
    weigh,
)
from vbmodels.variants.two_groups.pass_kernels import OFFSET
from vbmodels.variants.two_groups.table import Grids, Hypotheses, Table

WIDE = 1.2
TAU_RANGE = (0.03, 1.0)
TAU_CENTRE = 0.15
TAUS = np.array([0.05, 0.1, 0.2, 0.35, 0.6, 1.0])
EVERY = 8  # steps from one look at all of TAUS to the next
LEAST_GAIN = 0.1  # nats by which another tau must be better than the present one
SHIFT_SD = 0.5  # of b around b_0: learned at the joint mode it is too small by half
V_PRIOR = (0.5, 1000.0)
LONGEST = 0.7
LOG_LEAST = float(np.log(1e-300))  # what underflows is tiny, not nothing
N_TAU = 6
_OF_SHIFTS = np.linalg.inv(SHIFT_SD**2 * np.eye(N_TYPES) + 1.0)  # prior precision of b
Types = Literal["12", "trinucleotide"]


def names_of_types() -> list[str]:
    """Return the twelve substitutions in their order.

    >>> names_of_types()[:4]
    ['A>C', 'A>G', 'A>T', 'C>A']
    """
    return [f"{ref}>{alt}" for ref in BASES for alt in BASES if alt != ref]


class Shifted(NamedTuple):
    """The global parameters of the batch-aware null as a pass over a table takes them.

    Attributes
    ----------
    of
        Those that both nulls have.
    shift
        [G] b: difference of case and control in x = logit mu, by `Widened.group`.
    tau, wide
        Sd of the differences between sites around b, and that of the wide component.
    v
        Weight of the wide component.
    profile
        Values of tau at which the log likelihood is evaluated side by side.
    """

    of: Hypotheses
    shift: FloatArray
    tau: float
    wide: float
    v: float
    profile: FloatArray


class Widened(NamedTuple):
    """What a pass over units reads: their grids, and the wide component of the null.

    Attributes
    ----------
    of
        The grids.
    log_far, far_slope
        [U, Q, K] log E[L_case(x + 1.2 u)], u ~ N(0, 1), at the nodes and its slope in x.
    group
        [U] which of the shifts each unit has.
    """

    of: Grids
    log_far: FloatArray
    far_slope: FloatArray
    group: IntArray


@dataclass(frozen=True)
class ShiftErrors(State, kind="variants/two_groups.ShiftErrors"):
    """Standard errors of the differences between case and control.

    Attributes
    ----------
    of_type
        [12] of b_t.
    of_mean
        Of the mean of b over types.
    of_context
        [12, C] of b_tc; None where there are none.
    """

    of_type: FloatArray
    of_mean: float
    of_context: FloatArray | None = None


@dataclass(frozen=True)
class BatchGlobal(Global, kind="variants/two_groups.BatchGlobal"):
    """The hyperparameters, with those of the difference between the samples.

    Attributes
    ----------
    shift
        [12] b: difference of case and control in logit mu by type.
    tau
        Sd of the differences between sites around b.
    v
        Weight of the wide component.
    alone
        Whether the control of the fit has no read: then the error rates are those of a germline
        test, and case and control do not differ.
    looks
        Steps taken; every so often the next pass compares `TAUS`.
    of_context
        [12, C] b_tc: the difference by substitution and context; None where it is by substitution
        alone. The last context is of locations whose is not known.
    errors
        Standard errors of the differences; None before the fit has ended.
    """

    shift: FloatArray
    tau: float
    v: float
    alone: bool
    looks: int
    of_context: FloatArray | None = field(default=None, kw_only=True)
    errors: ShiftErrors | None = field(default=None, kw_only=True)

    @property
    def shift_mean(self) -> float:
        """The posterior mean of b_0 at b."""
        precision = N_TYPES / SHIFT_SD**2 + 1.0
        return float(self.shift.sum() / SHIFT_SD**2 / precision)

    @property
    def shifts(self) -> FloatArray:
        """The shifts that units have, [G]: by type, or by type and context."""
        return self.shift if self.of_context is None else self.of_context.ravel()

    @property
    def n_contexts(self) -> int:
        """How many contexts there are; 0 where shifts are by substitution alone."""
        return 0 if self.of_context is None else int(self.of_context.shape[1])

    def group(self, alleles: Units | Table) -> IntArray:
        """Return which of the shifts each unit has, [U]."""
        if self.of_context is None:
            return alleles.kind
        context = self.n_contexts - 1 if alleles.context is None else alleles.context
        return np.asarray(self.n_contexts * alleles.kind + context)

    @property
    def comparing(self) -> bool:
        """Whether the pass at these parameters evaluates `TAUS`."""
        return self.looks % EVERY == EVERY - 1


B = TypeVar("B", bound=BatchGlobal)


@dataclass(frozen=True)
class BatchSums(Sums, kind="variants/two_groups.BatchSums"):
    """What a partition returns: the sums of `two_groups`, and 60 numbers more.

    Attributes
    ----------
    shift
        [G, 4] by type, or by type and context: expected units near and far under H0, score and
        observed information in b.
    spread
        [6] score and observed information in log tau; information in logit v; the units'
        summed variance of log M, its covariance with log^2 M, and the variance of that.
    profile
        [6] log marginal likelihood at each of `TAUS` where they are compared, else 0.
    """

    shift: FloatArray
    spread: FloatArray
    profile: FloatArray


@dataclass(frozen=True)
class BatchTable(Table, kind="variants/two_groups.BatchTable"):
    """Likelihoods of units, and the wide component of the null.

    ``log_far`` and ``far_slope``: [U, Q, K] log E[L_case(x + 1.2 u)], u ~ N(0, 1), at the nodes,
    and its slope in x.
    """

    log_far: FloatArray
    far_slope: FloatArray

    def widened(self, group: IntArray) -> Widened:
        """Return what a pass over the units reads; ``group`` [U] is which shift each has."""
        return Widened(self.grids, self.log_far, self.far_slope, group)


@dataclass(frozen=True)
class BatchNull(TwoGroups):
    """The two-groups test with a batch-aware null; see the module's docstring.

    Parameters
    ----------
    sense, alternatives
        See `TwoGroups`; "germline", which has no control, has no batch either.
    types
        By what the shift b differs: "12" substitutions, or "trinucleotide", each of them by the
        bases before and behind the location too.
    """

    parts: ClassVar[tuple[float, ...]] = (0.3, 0.1)
    """Shares of a bold step that are tried where it falls, before the careful one."""

    types: Types = "12"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sense == "germline":
            raise ValueError("a case without a control has no batch: expected 'gain' or 'either'")
        if self.types not in get_args(Types):
            raise ValueError(f"expected types '12' or 'trinucleotide', got {self.types!r}")

    def init(self, observed: Observed, rng: np.random.Generator) -> BatchGlobal:
        """Return the start: that of `TwoGroups`, and no difference between the samples."""
        alone = observed.of_control == 0.0
        plain = super().init(observed, rng)
        if alone:
            plain = replace(plain, w=GERMLINE_W)
        contextual = self.types == "trinucleotide"
        return plain.extended(
            BatchGlobal,
            shift=np.zeros(N_TYPES),
            tau=TAU_CENTRE,
            v=0.005,
            alone=alone,
            looks=0,
            of_context=np.zeros((N_TYPES, N_CONTEXTS)) if contextual else None,
        )

    def restart(self, observed: Observed, before: Global, rng: np.random.Generator) -> BatchGlobal:
        """Start from the hyperparameters of an earlier fit; the anchors are the new data's."""
        fresh = self.init(observed, rng)
        if not isinstance(before, BatchGlobal) or before.rho.shape != fresh.rho.shape:
            return fresh
        if before.n_contexts != fresh.n_contexts or before.alone != fresh.alone:
            return fresh
        return replace(before, anchor=fresh.anchor, looks=0, errors=None)

    @property
    def _germline(self) -> TwoGroups:
        """The test of a case alone, as which one is fitted whose control has no read."""
        return TwoGroups("germline", self.alternatives)

    def anchored(self, q: B) -> B:  # type: ignore[override]
        """Return ``q`` with its tables at its own rates, for units of any control."""
        return replace(super().anchored(q), alone=False)

    def shifted(self, q: BatchGlobal, profile: FloatArray) -> Shifted:
        """Return what a pass over a table needs of ``q``."""
        return Shifted(self.hypotheses(q), q.shifts, q.tau, WIDE, q.v, profile)

    def table(self, q: Global, alleles: Units, n_nodes: int | None = None) -> BatchTable:
        """Return the likelihoods of units, with nodes where ``q.anchor`` says."""
        plain = super().table(q, alleles, n_nodes)
        log_far, slope = np.empty_like(plain.x), np.empty_like(plain.x)
        widen(plain.x, plain.log_case, WIDE, log_far, slope)
        return plain.extended(BatchTable, log_far=log_far, far_slope=slope)

    def with_panel_likelihood(self, q: BatchGlobal, table: Table) -> Table:
        """Return a table whose control's likelihoods are those at ``q``: here they all are."""
        return table

    def e_step(  # type: ignore[override]
        self, q: BatchGlobal, table: BatchTable
    ) -> tuple[FloatArray, FloatArray, BatchSums]:
        """Return log m0 and log m1 of every unit (without binomials), and the sums."""
        if q.alone:
            log_m0, log_m1, sums = self._germline.e_step(q, table)
            stats = sums.extended(
                BatchSums,
                shift=np.zeros((len(q.shifts), 4)),
                spread=np.zeros(N_TAU),
                profile=np.zeros(len(TAUS)),
            )
            return log_m0, log_m1, stats
        weighed, _, stats = self._weighed(q, table, TAUS if q.comparing else TAUS[:0])
        return weighed.log_m0, weighed.log_m1, stats

    def _weighed(
        self, q: BatchGlobal, table: BatchTable, profile: FloatArray, with_nodes: bool = False
    ) -> tuple[Weighed, kernels.Masses, BatchSums]:
        """Return what a pass says of the units, their masses and the sums."""
        under, group = self.shifted(q, profile), q.group(table)
        n_units, n_m, size = table.x.shape
        masses = kernels.Masses(
            part=np.zeros((n_units, n_m, 2, 5)),
            z_alt=np.zeros((n_units, n_m, len(self.alternatives))),
            extra=np.zeros((n_units, n_m, 8)),
            at_tau=np.zeros((n_units, n_m, len(profile))),
            nodes=np.zeros((n_units, n_m, 2, size if with_nodes else 0)),
        )
        kernels.e_step(table.widened(group), under, masses)
        weighed = weigh(masses.part, under.of, LOG_LEAST)
        moments = np.einsum("uq,uqi->iu", weighed.scale[..., 0], masses.extra[..., : kernels.RISE])
        rise = np.einsum("uq,uq->u", weighed.scale[..., 1], masses.extra[..., kernels.RISE])
        stats = sums_of(weighed, masses.part, masses.z_alt, table).extended(
            BatchSums,
            shift=shift_sums(moments, rise, under, group),
            spread=spread_sums(moments, weighed.node.sum(axis=2), under),
            profile=_profile(weighed, masses, under, table)
            if len(profile)
            else np.zeros(len(TAUS)),
        )
        return weighed, masses, stats

    def global_step(  # type: ignore[override]
        self, q: B, stats: BatchSums, careful: bool = False
    ) -> B:
        """Return the next parameters.

        Parameters
        ----------
        q, stats
            The parameters, and the sums that they gave.
        careful
            Whether b and tau take short steps by the complete-data information, as EM does,
            rather than Newton's.
        """
        if q.alone:
            return self._germline.global_step(q, stats)
        base = super().global_step(q, stats)
        if not careful:
            mean_m, sd_m = log_normal_step(
                self.log_m,
                stats.units,
                stats.log_m,
                stats.log_m2,
                stats.spread[3:],
                (q.log_m_mean, q.log_m_sd),
                CENTRE_M,
            )
            base = replace(base, log_m_mean=mean_m, log_m_sd=sd_m)
        shift, of_context = self._shifts(q, stats, careful)
        near, far = stats.shift[:, 0].sum(), stats.shift[:, 1].sum()
        return replace(
            base,
            shift=shift,
            of_context=of_context,
            tau=self._tau(q, stats, careful),
            v=self._weight(q, stats, near, far, careful),
            looks=q.looks + 1,
        )

    def _shifts(
        self, q: BatchGlobal, stats: BatchSums, careful: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """Move b, or b_t and b_tc, by Newton's step: score over Louis' information.

        Both with those of the prior. The information may come out small or negative away from the
        maximum, so that it is no less than a hundredth of EM's: a guard of the step alone.
        """
        shape = q.shift.shape if q.of_context is None else q.of_context.shape
        near, far, score, observed = stats.shift.T.reshape(4, *shape)
        complete = near / q.tau**2 + far / WIDE**2
        curvature = complete if careful else np.maximum(observed, 0.01 * complete)
        if q.of_context is not None:
            nested = nested_step(q.of_context, score, curvature, q.shift_mean, SHIFT_SD)
            step = np.clip(nested.of_context - q.of_context, -LONGEST, LONGEST)
            return nested.shift, q.of_context + step
        step = np.linalg.solve(np.diag(curvature) + _OF_SHIFTS, score - _OF_SHIFTS @ q.shift)
        return q.shift + np.clip(step, -LONGEST, LONGEST), None

    def _tau(self, q: BatchGlobal, stats: BatchSums, careful: bool) -> float:
        """Move log tau by Newton's step, or to a better one of `TAUS`."""
        score, observed = stats.spread[:2]
        score -= np.log(q.tau / TAU_CENTRE)
        complete = 2.0 * self._differences(stats) + 1.0
        newton = max(observed + 1.0, 0.5)  # of its prior alone: 1
        step = np.clip(score / (complete if careful else newton), -LONGEST, LONGEST)
        moved = np.clip(np.log(q.tau) + step, *np.log(TAU_RANGE))
        if q.comparing and not careful:
            value = stats.profile - 0.5 * np.log(TAUS / TAU_CENTRE) ** 2
            here = stats.bound - 0.5 * np.log(q.tau / TAU_CENTRE) ** 2
            best = int(value.argmax())
            if value[best] > here + LEAST_GAIN and abs(np.log(TAUS[best] / q.tau)) > abs(step):
                moved = _vertex(np.log(TAUS), value, best)
        return float(np.exp(moved))

    def _differences(self, stats: BatchSums) -> float:
        """Return the expected number of differences between sites whose sd is tau."""
        return float(stats.shift[:, 0].sum())

    def _weight(
        self, q: BatchGlobal, stats: BatchSums, near: float, far: float, careful: bool
    ) -> float:
        """Move logit v by Newton's step."""
        units, (hits, misses) = near + far, np.multiply(V_PRIOR, stats.share)
        expected = float((far + hits) / (units + hits + misses))
        if careful:
            return expected
        prior = (hits + misses) * q.v * (1.0 - q.v)
        score = far - q.v * units + hits - q.v * (hits + misses)
        newton = stats.spread[2] + prior
        if newton <= 0.02 * (units * q.v * (1.0 - q.v) + prior):
            return expected
        return float(expit(logit(q.v) + np.clip(score / newton, -LONGEST, LONGEST)))

    def elbo(self, q: BatchGlobal, stats: BatchSums) -> float:  # type: ignore[override]
        """Return the penalised log marginal likelihood; it is no bound but the thing itself."""
        penalty = -0.5 * q.shift @ _OF_SHIFTS @ q.shift - N_TYPES * np.log(SHIFT_SD)
        if q.of_context is not None:
            penalty -= 0.5 * (((q.of_context - q.shift[:, None]) / CONTEXT_SD) ** 2).sum()
        penalty -= 0.5 * np.log(q.tau / TAU_CENTRE) ** 2
        penalty += stats.share * (V_PRIOR[0] * np.log(q.v) + V_PRIOR[1] * np.log1p(-q.v))
        return float(super().elbo(q, stats) + penalty)

    def algorithm(self, q: BatchGlobal) -> Algorithm:
        """Climb by Newton's steps and leaps, guarded by the objective."""
        return monotone_squarem(self, q)

    def to_vector(self, q: BatchGlobal) -> FloatArray:  # type: ignore[override]
        """Return unconstrained coordinates: those of `TwoGroups`, and the differences'."""
        scales = [np.log(q.tau), logit(q.v)]
        nested = np.zeros(0) if q.of_context is None else q.of_context.ravel()
        return np.concatenate([nested, super().to_vector(q), q.shift, scales])

    def from_vector(  # type: ignore[override]
        self, q: B, vector: FloatArray
    ) -> B:
        """Return ``q`` moved to these coordinates, cut to the hyperparameters' ranges."""
        if q.of_context is not None:
            of_context, vector = np.split(vector, [q.of_context.size])
            q = replace(q, of_context=of_context.reshape(q.of_context.shape).copy())
        log_tau, at_v = vector[-2:]
        return replace(
            super().from_vector(q, vector[: -2 - N_TYPES]),
            shift=vector[-2 - N_TYPES : -2].copy(),
            tau=float(np.exp(np.clip(log_tau, *np.log(TAU_RANGE)))),
            v=float(expit(np.clip(at_v, -30.0, 0.0))),
        )


def shift_sums(
    moments: FloatArray, rise: FloatArray, under: Shifted, group: IntArray
) -> FloatArray:
    """Return `BatchSums.shift`, given moments [7, U] and the slopes [U] of H1's mass in b."""
    near, first, second, _, far, far_first, far_second = moments
    score = first / under.tau + far_first / under.wide
    observed = (near - second) / under.tau**2 + (far - far_second) / under.wide**2 + score**2
    return np.stack(
        [
            np.bincount(group, of_unit, len(under.shift))
            for of_unit in (near, far, score + rise, observed)
        ],
        axis=1,
    )


def spread_sums(moments: FloatArray, of_m: FloatArray, under: Shifted) -> FloatArray:
    """Return `BatchSums.spread`, given moments [7, U] and the probability [U, Q] of nodes of M."""
    near, _, second, fourth, far, _, _ = moments
    gap, both, v = second - near, near + far, under.v
    complete = v * (1.0 - v) * both - far * (1.0 - v) ** 2 - near * v**2
    m, m2, m3, m4 = (of_m @ under.of.log_m**i for i in range(1, 5))
    return np.array(
        [
            gap.sum(),
            (4.0 * second - fourth - near + gap**2).sum(),
            (complete + (far - v * both) ** 2).sum(),
            (m2 - m**2).sum(),
            (m3 - m * m2).sum(),
            (m4 - m2**2).sum(),
        ]
    )


def _profile(
    weighed: Weighed, masses: kernels.Masses, under: Shifted, table: BatchTable
) -> FloatArray:
    """Return the log marginal likelihood at each tau of the profile."""
    offset = masses.part[..., 0, OFFSET, None]
    log_null = log_sums(log_masses(offset, masses.at_tau), offset.max(axis=1) + LOG_LEAST)
    both = np.logaddexp(under.of.log_not_pi + log_null, under.of.log_pi + weighed.log_m1[:, None])
    return np.asarray(both.sum(axis=0) + table.log_binomial.sum())


def _vertex(grid: FloatArray, value: FloatArray, best: int) -> float:
    """Return the top of the parabola through the best point and its neighbours."""
    if best in (0, len(grid) - 1):
        return float(grid[best])
    x, y = grid[best - 1 : best + 2], value[best - 1 : best + 2]
    bend, slope, _ = np.polyfit(x - x[1], y, 2)
    top = x[1] - 0.5 * slope / bend if bend < 0.0 else x[1]
    return float(np.clip(top, x[0], x[2]))
