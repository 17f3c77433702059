"""Two groups with an exchangeable point null, per alternative allele, by empirical Bayes.

A unit u is a location and an alternative allele; r_i its reads and n_i the depth in
replicate i of the case or of the control.

    r_i | mu, M ~ BetaBin(n_i, M mu, M (1-mu)),   M on 10 nodes, p_q ~ N(log M_q; m_M, s_M^2)
    e_t(mu) = (1-w) Beta(A_t, B_t) + w Beta(.1, .1),   t one of 12 substitution types
    H0: mu_case = mu_control ~ e_t
    H1: mu_control ~ e_t,  mu_case ~ sum_c rho_c g_c, each g_c cut to mu_case > mu_control
    P(H1) = pi

With g_c cut given mu_control (its normaliser S_c(mu_control) stays inside the integral)
H1 is a generative model, and EM over (pi, rho, w, m_M, s_M, A, B) is exact: every pass
raises the penalised log marginal likelihood. The reads' evidence for H1 is

    BF = sum_q p_q m1 / sum_q p_q m0,   lfdr = (1-pi) / (1-pi + pi BF).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.special import betaln, expit, logit, logsumexp

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.variants import quadrature
from vbmodels.variants.counts import N_TYPES, Counts, Units, units
from vbmodels.variants.hyperparameters import (
    CAP,
    BetaPrior,
    beta_maximum,
    log_normal_maximum,
    log_normal_penalty,
    log_normal_weights,
)
from vbmodels.variants.two_groups import pass_kernels as kernels
from vbmodels.variants.two_groups.table import M_NODES, Hypotheses, Table, survival_tables, tabulate

CENTRE_M = float(np.log(2000.0))
# Weak: A within a factor 2.7 of 2; the mean rate within a factor 20 of 5e-4. Without the
# first M0 runs to its cap at low depth, without the second types without a read do.
ERROR_PRIOR = BetaPrior(float(np.log(2.0)), 1.0, float(np.log(5e-4)), 1.0 / 9.0)
GERMLINE_W = 1e-6
BROAD = (quadrature.BROAD, quadrature.BROAD)
# The broad alternative, and peaks a factor 3.2 apart in the allele's share.
MIXTURE = (BROAD, *((4.0, 4.0 * (1.0 - v) / v) for v in (0.001, 0.0032, 0.01, 0.032, 0.1, 0.3)))


@dataclass(frozen=True)
class Global(State, kind="variants/two_groups.Global"):
    """The hyperparameters.

    Attributes
    ----------
    pi
        P(H1).
    rho
        [n_alt] weights of the alternative's components.
    w
        Weight of the broad component of the error rates.
    log_m_mean, log_m_sd
        Mean and sd of log M.
    a, b
        [12] parameters of the error rates, by substitution type.
    anchor
        [2, 12] place and scale in x where the tables are made; see `tabulate`.
    """

    pi: float
    rho: FloatArray
    w: float
    log_m_mean: float
    log_m_sd: float
    a: FloatArray
    b: FloatArray
    anchor: FloatArray


G = TypeVar("G", bound=Global)


@dataclass(frozen=True)
class Observed(Stats, kind="variants/two_groups.Observed"):
    """Reads of units that look like errors (share below .1), by substitution type [12].

    ``of_control``: reads of any base in the control, over all units.
    """

    alt_reads: FloatArray
    depth: FloatArray
    of_control: float


@dataclass(frozen=True)
class Sums(Stats, kind="variants/two_groups.Sums"):
    """What a partition returns: 43 numbers (one more for every further alternative).

    Attributes
    ----------
    bound
        Log marginal likelihood of the partition's units.
    units
        Number of units.
    broad
        Expected number of units whose error rate is of the broad component.
    log_m, log_m2
        Expected sums of log M and of its square.
    called
        [n_alt] expected number of units under H1, by component of the alternative.
    errors
        [12, 3] by type: expected number of units of the spike, and their summed log mu and
        log(1-mu).
    whole
        Number of units that these stand for, where they are a sample.
    """

    bound: float
    units: float
    broad: float
    log_m: float
    log_m2: float
    called: FloatArray
    errors: FloatArray
    whole: float = field(default=0.0, kw_only=True)

    @property
    def share(self) -> float:
        """What the objective is of that of all units, 1 where none is left out.

        So much of a prior goes into it whose parameter rare units inform: pi, rho, w and v. The
        others are informed by the bulk, of which no more is known than what the sample holds.
        """
        return self.units / self.whole if self.whole else 1.0


class Weighed(NamedTuple):
    """What masses say of the hypotheses of units.

    Attributes
    ----------
    log_m0, log_m1
        [U] log evidence of H0 and of H1, without binomials.
    marginal
        [U] log p(reads).
    node
        [U, Q, 2] probability of each node of M under each hypothesis.
    scale
        [U, Q, 2] what turns masses into probabilities.
    """

    log_m0: FloatArray
    log_m1: FloatArray
    marginal: FloatArray
    node: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class TwoGroups:
    """The two-groups model; see the module's docstring.

    Parameters
    ----------
    sense
        "gain": H1 requires mu_case > mu_control. "either": gain or loss. "germline": a case
        without control, H1 against the error rates alone; these then have no broad
        component (w = 1e-6), which nothing could separate from the alternative.
    alternatives
        Parameters of the Beta components of the alternative; the first is Beta(.1, .1).
    """

    # A partition's table is made from the units that this fit samples.
    rebuilds_locals: ClassVar[bool] = True

    sense: Literal["gain", "either", "germline"] = "gain"
    alternatives: tuple[tuple[float, float], ...] = (BROAD,)

    def __post_init__(self) -> None:
        if self.sense not in ("gain", "either", "germline"):
            raise ValueError(f"expected 'gain', 'either' or 'germline', got {self.sense!r}")
        if self.alternatives[0] != BROAD:
            raise ValueError(f"the first alternative must be Beta{BROAD}")

    @property
    def log_m(self) -> FloatArray:
        """The nodes of log M, [Q]."""
        return np.log(M_NODES)

    @property
    def restricted(self) -> bool:
        """Whether H1 requires mu_case > mu_control."""
        return self.sense == "gain"

    def observe(self, batch: Counts | Units) -> Observed:
        """Return the reads behind the first guess of the error rates."""
        alleles = of_fit(batch)
        r, n = alleles.alt_reads.sum(axis=1), alleles.depth.sum(axis=1)
        errors = (r < 0.1 * n) & (n > 0)
        kind = alleles.kind[errors]
        return Observed(
            np.bincount(kind, weighted(r, alleles)[errors], N_TYPES).astype(float),
            np.bincount(kind, weighted(n, alleles)[errors], N_TYPES).astype(float),
            float(weighted(alleles.depth[:, ~alleles.case].sum(axis=1), alleles).sum()),
        )

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Return the start: error rates at the pooled rates of their types; no randomness."""
        pooled = (observed.alt_reads.sum() + 0.5) / (observed.depth.sum() + 1000.0)
        rate = (observed.alt_reads + 10.0 * pooled) / (observed.depth + 10.0)
        a = np.full(N_TYPES, 2.0)
        n_alt = len(self.alternatives)
        return Global(
            pi=0.01,
            rho=np.full(n_alt, 1.0 / n_alt),
            w=GERMLINE_W if self.sense == "germline" else 0.01,
            log_m_mean=CENTRE_M,
            log_m_sd=1.0,
            a=a,
            b=a * (1.0 - rate) / rate,
            anchor=np.stack([logit(rate), np.full(N_TYPES, 0.6)]),
        )

    def anchored(self, q: G) -> G:
        """Return ``q`` with its tables to be made at its own error rates."""
        scale = np.sqrt(1.0 / q.a + 1.0 / q.b)
        anchor = np.stack([np.log(q.a / q.b), np.minimum(scale, 1.0)])
        return replace(q, anchor=anchor)

    def local_step(self, q: Global, batch: Counts | Units, local: Table | None) -> Table:
        """Return the partition's table; it depends on the anchor only, so it is made once."""
        return local if local is not None else self.table(q, of_fit(batch))

    def table(self, q: Global, alleles: Units, n_nodes: int | None = None) -> Table:
        """Return the likelihoods of units, with nodes where ``q.anchor`` says."""
        return tabulate(alleles, q.anchor, n_nodes)

    def rate_table(self, q: Global, alleles: Units) -> Table:
        """Return the likelihoods of units that `posterior.rates` reads."""
        return TwoGroups.table(self, q, alleles)

    def suff_stats(self, q: Global, batch: Counts | Units, local: Table) -> Sums:
        """Return the sums of the E-step, each unit's times its weight."""
        if local.weight is None or not len(local):
            return self.e_step(q, local)[2]
        of_runs = (self.e_step(q, table)[2].scaled(weight) for table, weight in local.runs())
        total = reduce(add, of_runs)
        return replace(total, whole=total.units / local.share)

    def hypotheses(self, q: Global, n_nodes: int | None = None) -> Hypotheses:
        """Return what a pass over a table needs of ``q``."""
        a, b = np.array(self.alternatives).T
        components = np.column_stack([a, b, betaln(a, b), np.log(q.rho)])
        return Hypotheses(
            log_pi=np.log(q.pi),
            log_not_pi=np.log1p(-q.pi),
            log_w=np.log(q.w),
            log_not_w=np.log1p(-q.w),
            log_p=log_normal_weights(self.log_m, q.log_m_mean, q.log_m_sd),
            log_m=self.log_m,
            e_beta=np.stack([q.a, q.b, betaln(q.a, q.b)]),
            alternatives=components,
            survival=survival_tables(components),
            restricted=self.restricted,
            cumulative=quadrature.sinc_cumulative(n_nodes or quadrature.N_NODES),
        )

    def e_step(self, q: Global, table: Table) -> tuple[FloatArray, FloatArray, Sums]:
        """Return log m0 and log m1 of every unit (without binomials), and the EM's sums."""
        under = self.hypotheses(q, table.x.shape[2])
        part, z_alt = fill_masses(table, under)
        weighed = weigh(part, under)
        return weighed.log_m0, weighed.log_m1, sums_of(weighed, part, z_alt, table)

    def restart(self, observed: Observed, before: Global, rng: np.random.Generator) -> Global:
        """Start from the hyperparameters of an earlier fit; the anchors are the new data's."""
        fresh = self.init(observed, rng)
        if type(before) is not Global or before.rho.shape != fresh.rho.shape:
            return fresh
        return replace(before, anchor=fresh.anchor)

    def global_step(self, q: G, stats: Sums) -> G:
        """Return the maximum of the expected complete log likelihood with its hyperpriors."""
        called, share = float(stats.called.sum()), stats.share
        weights = stats.called + 0.5 * share
        mean, sd = log_normal_maximum(
            self.log_m, stats.units, stats.log_m, stats.log_m2, (q.log_m_mean, q.log_m_sd), CENTRE_M
        )
        n, s1, s2 = stats.errors.T
        a, b = beta_maximum(n, s1, s2, (q.a, q.b), ERROR_PRIOR)
        broad = (stats.broad + 0.5 * share) / (stats.units + share)
        return replace(
            q,
            pi=(called + 0.5 * share) / (stats.units + share),
            rho=weights / weights.sum(),
            w=q.w if self.sense == "germline" else broad,
            log_m_mean=mean,
            log_m_sd=sd,
            a=a,
            b=b,
        )

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the penalised log marginal likelihood; it is no bound but the thing itself."""
        share = np.array([q.pi, 1.0 - q.pi, q.w, 1.0 - q.w])
        penalty = 0.5 * stats.share * np.log(share).sum()
        penalty += ERROR_PRIOR.log_density(np.log(q.a), np.log(q.b)).sum()
        if len(q.rho) > 1:
            penalty += 0.5 * stats.share * np.log(q.rho).sum()
        return float(stats.bound + penalty + log_normal_penalty(q.log_m_mean, q.log_m_sd, CENTRE_M))

    def to_vector(self, q: Global) -> FloatArray:
        """Return unconstrained coordinates: logits and logs."""
        of_m, of_rho = [q.log_m_mean, np.log(q.log_m_sd)], np.log(q.rho[1:] / q.rho[0])
        return np.concatenate([logit([q.pi, q.w]), of_m, of_rho, np.log(q.a), np.log(q.b)])

    def from_vector(self, q: G, vector: FloatArray) -> G:
        """Return ``q`` moved to these coordinates, cut to the hyperparameters' ranges."""
        n_alt = len(q.rho)
        log_rho = np.concatenate([[0.0], vector[4 : 3 + n_alt]])
        log_a, log_b = vector[3 + n_alt :].reshape(2, N_TYPES)
        over = np.maximum(np.logaddexp(log_a, log_b) - np.log(CAP), 0.0)
        pi, w = expit(np.clip(vector[:2], -30.0, 30.0))
        return replace(
            q,
            pi=float(pi),
            rho=np.exp(log_rho - logsumexp(log_rho)),
            w=q.w if self.sense == "germline" else float(w),
            log_m_mean=float(np.clip(vector[2], self.log_m[0], self.log_m[-1])),
            log_m_sd=float(np.clip(np.exp(vector[3]), 0.4, 2.0)),
            a=np.exp(np.clip(log_a - over, -10.0, None)),
            b=np.exp(np.clip(log_b - over, -10.0, None)),
        )


def fill_masses(table: Table, under: Hypotheses) -> tuple[FloatArray, FloatArray]:
    """Return masses [U, Q, 2, 5] of the exchangeable null, and alternatives' [U, Q, n_alt]."""
    n_units, n_m, _ = table.x.shape
    part = np.empty((n_units, n_m, 2, 5))
    z_alt = np.empty((n_units, n_m, len(under.alternatives)))
    kernels.e_step(table.grids, under, part, z_alt)
    return part, z_alt


def log_masses(offset: FloatArray, whole: FloatArray) -> FloatArray:
    """Return the logs of masses that are relative to e^offset; none is -inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(offset + np.log(np.maximum(whole, 0.0)))


def log_sums(log_mass: FloatArray, least: FloatArray) -> FloatArray:
    """Return the logs of masses summed over nodes of M, axis 1, and no less than ``least``."""
    top = np.maximum(log_mass.max(axis=1), least)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_sum = top + np.log(np.exp(log_mass - top[:, None]).sum(axis=1))
    return np.asarray(np.fmax(log_sum, least))


def weigh(part: FloatArray, under: Hypotheses, log_least: float = -np.inf) -> Weighed:
    """Return the probabilities of hypotheses and of nodes of M, given masses [U, Q, 2, 5].

    ``log_least``: what underflows has so much, relative to the largest offset.
    """
    offset, whole = part[..., kernels.OFFSET], part[..., kernels.SPIKE] + part[..., kernels.BROAD]
    log_mass = log_masses(offset, whole)
    log_m = log_sums(log_mass, offset.max(axis=1) + log_least)
    log_prior = np.array([under.log_not_pi, under.log_pi])
    marginal = np.logaddexp(*(log_m + log_prior).T)
    # By what the node's mass is, never by its offset alone: e^offset may overflow.
    node = np.exp(log_mass + (log_prior - marginal[:, None])[:, None])
    scale = np.divide(node, whole, out=np.zeros_like(node), where=node > 0.0)
    return Weighed(log_m[:, 0], log_m[:, 1], marginal, node, scale)


def sums_of(weighed: Weighed, part: FloatArray, z_alt: FloatArray, table: Table) -> Sums:
    """Return the sums of the EM over a table's units."""
    of_units = np.einsum("uqh,uqhj->ju", weighed.scale, part[..., : kernels.OFFSET])
    of_m, log_m = weighed.node.sum(axis=(0, 2)), np.log(M_NODES)
    return Sums(
        bound=float(weighed.marginal.sum() + table.log_binomial.sum()),
        units=float(len(table)),
        broad=float(of_units[kernels.BROAD].sum()),
        log_m=float(of_m @ log_m),
        log_m2=float(of_m @ log_m**2),
        called=np.tensordot(weighed.scale[..., 1], z_alt, 2),
        errors=np.stack(
            [
                np.bincount(table.kind, of_units[j], N_TYPES)
                for j in (kernels.SPIKE, kernels.LOG_MU, kernels.LOG_NU)
            ],
            axis=1,
        ),
        whole=float(len(table)),
    )


def of_fit(batch: Counts | Units) -> Units:
    """Return the units that hyperparameters are fitted on: of counts, of a sample of locations."""
    return (batch if isinstance(batch, Units) else units(batch.sample())).by_weight()


def weighted(value: IntArray, alleles: Units) -> IntArray | FloatArray:
    """Return a number of every unit times the unit's weight."""
    return value if alleles.weight is None else value * alleles.weight
