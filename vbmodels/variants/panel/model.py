"""The batch-aware test against several controls: a panel of samples of other people.

Control samples p that are not replicates of each other (other people, other days) each have an
effect of their own at every site and a shift of their own by substitution, as the case has:

    x_p = x + b_pt + d_p,   d_p ~ N(0, tau^2),   sum_p b_pt = 0,   b_pt ~ N(0, .5^2)
    x_case = x + b_t + d,   as in `batch_null`, x ~ e_t the site's rate in the samples' middle,

with L_panel in place of the control's likelihood. tau is learned from the
differences of all samples, by the profile of `batch_null`. Pooling the members as if they were
replicates would put what differs between samples into M, which the case's replicates, that share
one d, contradict: calls then look surer than they are.

One member alone has no difference apart from the site's rate: x is its own, b and d
are 0, and at eps = 0 this is `batch_null` to the bit. tau is then the sd of the difference of two
samples, not of one from the middle.

All sums over the members add over partitions: 36 numbers a member, and those of `batch_null`.

Sample p of a panel has the rate x_p = x + b_pt + d_p, d_p ~ N(0, tau^2), around the site's x. With
a probability eps it carries the allele itself, and then its rate is drawn from g, whatever x is:

    L_panel(x) = prod_p [(1 - eps) E L_p(x + b_pt + tau u) + eps int L_p g],   u ~ N(0, 1).

A control of the case's own person has an eps of 1e-7: what it carries the case carries too. With
one, there is a probability that the allele is one that people carry, a share f of them, f unknown,
and then the members say nothing of x; else a large panel would outweigh a control of few reads:

    L = L_control(x) [(1 - eps) prod_p [...] + eps E_f prod_p [f int L_p g + (1 - f) int L_p h]],

h = Beta(.5, 2500) the rates of errors, wherever they are, f on nine values alike.

Given x the members are independent, so the moments of a sum over them are closed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, logsumexp

from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.variants.counts import N_TYPES, Counts, Units
from vbmodels.variants.panel import pass_kernels as kernels
from vbmodels.variants.two_groups.batch_null import (
    LONGEST,
    TAUS,
    B,
    BatchGlobal,
    BatchNull,
    BatchSums,
    BatchTable,
)
from vbmodels.variants.two_groups.model import Global, Observed, of_fit, weighted
from vbmodels.variants.two_groups.table import log_binomials, tabulate

MEMBER_SD = 0.5
CONTAMINATION = 0.01
OWN_CONTAMINATION = 1e-7  # of a control of the case's own person: a mix-up, no person's allele
N_NODES = 28  # of a member's own grid
SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
ERRORS = (0.5, 2500.0)  # of h
_PSEUDO = 5.0  # reads by which the first guess of a member's shift is drawn to 0


class Panel(NamedTuple):
    """The members' likelihoods as a pass over a table takes them; see `PanelTable`."""

    x: FloatArray
    log_member: FloatArray
    carried: FloatArray
    seen: BoolArray
    log_people: FloatArray


class Under(NamedTuple):
    """The parameters that the members' rates have.

    Attributes
    ----------
    shift
        [P, 12] b_pt.
    tau
        Sd of the differences between sites.
    eps
        [P] probability that the member carries an allele.
    common
        Probability that the allele is one that people carry.
    matched
        How many members, the first ones, are of the case's own person.
    """

    shift: FloatArray
    tau: float
    eps: FloatArray
    common: float
    matched: int


@dataclass(frozen=True)
class PanelGlobal(BatchGlobal, kind="variants/panel.PanelGlobal"):
    """The hyperparameters, with the members' shifts.

    Attributes
    ----------
    member_shift
        [P, 12] b_pt: member against the middle of all, in logit mu by type.
    """

    member_shift: FloatArray


@dataclass(frozen=True)
class PanelObserved(Observed, kind="variants/panel.PanelObserved"):
    """Reads that look like errors, and those of every member, [P, 12]."""

    member_reads: FloatArray
    member_depth: FloatArray


@dataclass(frozen=True)
class PanelSums(BatchSums, kind="variants/panel.PanelSums"):
    """What a partition returns: the sums of `batch_null`, and 36 numbers a member.

    Attributes
    ----------
    members
        [P, 12, 3] by member and type: expected units whose member does not carry the allele,
        score and observed information in b_pt.
    """

    members: FloatArray


@dataclass(frozen=True)
class PanelTable(BatchTable, kind="variants/panel.PanelTable"):
    """Likelihoods of units, and those of every member on nodes of its own.

    ``log_control`` is that of a single member, and of more is not used.

    Attributes
    ----------
    member_x, log_member
        [U, P, Q, K'] nodes of x_p, and log L_p there; see `_of_equal_masses`.
    carried
        [U, P, Q] log int L_p g.
    seen
        [U, P] whether the member has reads.
    log_people
        [U, Q] log likelihood of the panel where the allele is one that people carry.
    """

    member_x: FloatArray
    log_member: FloatArray
    carried: FloatArray
    seen: BoolArray
    log_people: FloatArray

    @property
    def panel(self) -> Panel:
        """What a pass over the members reads."""
        return Panel(self.member_x, self.log_member, self.carried, self.seen, self.log_people)


@dataclass(frozen=True)
class PanelNull(BatchNull):
    """The batch-aware test against a panel; see the module's docstring.

    Parameters
    ----------
    sense, alternatives, types
        See `BatchNull`.
    contamination
        eps: probability that a member carries an allele itself.
    matched
        Whether member 0 is a control of the case's own person, which carries what the case does.
    """

    contamination: float = CONTAMINATION
    matched: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.contamination < 1.0:
            raise ValueError(f"contamination must be from 0 to below 1, not {self.contamination:g}")

    def observe(self, batch: Counts | Units) -> PanelObserved:
        """Return the reads behind the first guesses of error rates and of members' shifts."""
        alleles = of_fit(batch)
        count = int(alleles.members.max(initial=-1)) + 1
        totals = np.zeros((2, count, N_TYPES))
        for p in range(count):
            of_p = alleles.members == p
            r, n = alleles.alt_reads[:, of_p].sum(axis=1), alleles.depth[:, of_p].sum(axis=1)
            errors = (r < 0.1 * n) & (n > 0)
            for i, value in enumerate((r, n)):
                totals[i, p] = np.bincount(
                    alleles.kind[errors], weighted(value, alleles)[errors], N_TYPES
                )
        plain = super().observe(alleles)
        return plain.extended(PanelObserved, member_reads=totals[0], member_depth=totals[1])

    def init(  # type: ignore[override]
        self, observed: PanelObserved, rng: np.random.Generator
    ) -> PanelGlobal:
        """Return the start: that of `BatchNull`, and members' shifts from their pooled rates."""
        reads, depth = observed.member_reads, observed.member_depth
        rate = (reads.sum(axis=0) + _PSEUDO) / (depth.sum(axis=0) + 1e3 * _PSEUDO)
        guess = np.log((reads + _PSEUDO) / (depth * rate + _PSEUDO))
        if len(guess):
            guess = guess - guess.mean(axis=0)
        return super().init(observed, rng).extended(PanelGlobal, member_shift=guess)

    def restart(  # type: ignore[override]
        self, observed: PanelObserved, before: Global, rng: np.random.Generator
    ) -> PanelGlobal:
        """Start from an earlier fit's hyperparameters, where it was of as many members."""
        fresh = self.init(observed, rng)
        if (
            isinstance(before, PanelGlobal)
            and before.rho.shape == fresh.rho.shape
            and before.member_shift.shape == fresh.member_shift.shape
        ):
            return replace(before, anchor=fresh.anchor, looks=0, errors=None)
        return fresh

    def anchored(self, q: B) -> B:  # type: ignore[override]
        """Return ``q`` with its tables at its own error rates; other taus need not be compared."""
        return replace(super().anchored(q), looks=0)

    def rate_table(self, q: PanelGlobal, alleles: Units) -> PanelTable:  # type: ignore[override]
        """Return the likelihoods of units that `posterior.rates` reads: the members' too."""
        return self.table(q, alleles)

    def table(  # type: ignore[override]
        self, q: PanelGlobal, alleles: Units, n_nodes: int | None = None
    ) -> PanelTable:
        """Return the likelihoods of units, and those of every member."""
        count = len(q.member_shift)
        plain = super().table(q, _central(alleles, count), n_nodes)
        n_m = len(self.log_m)
        member_x, log_member = (np.empty((len(alleles), count, n_m, N_NODES)) for _ in range(2))
        carried, erring = (np.zeros((len(alleles), count, n_m)) for _ in range(2))
        seen = np.zeros((len(alleles), count), bool)
        a, b = np.array(self.alternatives).T
        # Fixed weights: what members carry is no matter of the case's variants.
        g = np.column_stack([a, b, betaln(a, b), np.full(len(a), -np.log(len(a)))])
        h = np.array([[*ERRORS, betaln(*ERRORS), 0.0]])
        for p in range(count):
            member_alleles = _twice(alleles, alleles.members == p)
            table = tabulate(member_alleles, q.anchor, N_NODES)
            member_x[:, p], log_member[:, p] = table.x, _of_equal_masses(table.x, table.log_case)
            for density, into in ((g, carried), (h, erring)):
                out = np.empty((len(alleles), n_m))
                kernels.carry(table.x, table.log_weight, table.log_case, density, out)
                into[:, p] = out
            seen[:, p] = member_alleles.depth.any(axis=1)
        others = slice(int(self.matched), None)
        return replace(plain, log_binomial=log_binomials(alleles)).extended(
            PanelTable,
            member_x=member_x,
            log_member=log_member,
            carried=carried,
            seen=seen,
            log_people=people(carried[:, others], erring[:, others], seen[:, others]),
        )

    def under(self, q: PanelGlobal) -> Under:
        """Return what a pass over the members needs of ``q``."""
        eps = np.full(len(q.member_shift), self.contamination)
        if self.matched and len(eps):
            eps[0] = min(OWN_CONTAMINATION, self.contamination)
        common = self.contamination if self.matched and len(eps) > 1 else 0.0
        return Under(q.member_shift, q.tau, eps, common, int(self.matched))

    def with_panel_likelihood(  # type: ignore[override]
        self, q: PanelGlobal, table: PanelTable
    ) -> PanelTable:
        """Return a table whose control's likelihood is the panel's at ``q``."""
        under = self.under(q)
        if len(under.eps) == 0:
            return table
        if len(under.eps) == 1:
            return _single(table, float(under.eps[0]))
        log_panel = np.empty_like(table.x)
        kernels.combine(table.x, table.kind, table.panel, under, log_panel)
        return replace(table, log_control=log_panel)

    def e_step(  # type: ignore[override]
        self, q: PanelGlobal, table: PanelTable
    ) -> tuple[FloatArray, FloatArray, PanelSums]:
        """Return log m0 and log m1 of every unit (without binomials), and the sums.

        Both depend on tau by way of the panel, so that each of `TAUS` is a pass of its own.
        """
        count = len(q.member_shift)
        panel_table = self.with_panel_likelihood(q, table)
        members = np.zeros((count, N_TYPES, 3))
        if count < 2 or q.alone:
            log_m0, log_m1, stats = super().e_step(q, panel_table)
            return log_m0, log_m1, stats.extended(PanelSums, members=members)
        weighed, masses, stats = self._weighed(q, panel_table, TAUS[:0], with_nodes=True)
        nodes = np.einsum("uqh,uqhk->uqk", weighed.scale, masses.nodes)
        spread = stats.spread.copy()
        kernels.add_members(
            table.x, table.kind, table.panel, self.under(q), nodes, members, spread[:2]
        )
        stats = replace(stats, spread=spread)
        if q.comparing:
            profile = [self._bound(replace(q, tau=float(tau)), table) for tau in TAUS]
            stats = replace(stats, profile=np.array(profile))
        return weighed.log_m0, weighed.log_m1, stats.extended(PanelSums, members=members)

    def _bound(self, q: PanelGlobal, table: PanelTable) -> float:
        return self._weighed(q, self.with_panel_likelihood(q, table), TAUS[:0])[2].bound

    def global_step(  # type: ignore[override]
        self, q: PanelGlobal, stats: PanelSums, careful: bool = False
    ) -> PanelGlobal:
        """Return the next parameters; see `BatchNull.global_step`."""
        base = super().global_step(q, stats, careful)
        return replace(base, member_shift=self._member_shifts(q, stats, careful))

    def _member_shifts(self, q: PanelGlobal, stats: PanelSums, careful: bool) -> FloatArray:
        """Move b_pt by Newton's step under sum_p b_pt = 0: (g_p - l) / h_p, l so that it holds."""
        if len(q.member_shift) < 2:
            return np.asarray(q.member_shift)
        near, score, observed = np.moveaxis(stats.members, 2, 0)
        prior = 1.0 / MEMBER_SD**2
        complete = near / q.tau**2 + prior
        h = complete if careful else np.maximum(observed + prior, 0.01 * complete)
        gradient = score - prior * q.member_shift
        level = (gradient / h).sum(axis=0) / (1.0 / h).sum(axis=0)
        moved = q.member_shift + np.clip((gradient - level) / h, -LONGEST, LONGEST)
        return np.asarray(moved - moved.mean(axis=0))

    def _differences(self, stats: PanelSums) -> float:  # type: ignore[override]
        """Return the expected number of differences between sites whose sd is tau."""
        return super()._differences(stats) + float(stats.members[:, :, 0].sum())

    def elbo(self, q: PanelGlobal, stats: PanelSums) -> float:  # type: ignore[override]
        """Return the penalised log marginal likelihood."""
        penalty = 0.5 * ((q.member_shift / MEMBER_SD) ** 2).sum()
        return float(super().elbo(q, stats) - penalty)

    def to_vector(self, q: PanelGlobal) -> FloatArray:  # type: ignore[override]
        """Return unconstrained coordinates: those of `BatchNull`, and all members' but the last."""
        return np.concatenate([super().to_vector(q), q.member_shift[:-1].ravel()])

    def from_vector(  # type: ignore[override]
        self, q: PanelGlobal, vector: FloatArray
    ) -> PanelGlobal:
        """Return ``q`` moved to these coordinates, cut to the hyperparameters' ranges."""
        count = max(len(q.member_shift) - 1, 0)
        size = count * N_TYPES
        base = super().from_vector(q, vector[: len(vector) - size])
        free = vector[len(vector) - size :].reshape(count, N_TYPES)
        shift = np.concatenate([free, -free.sum(axis=0, keepdims=True)])
        return replace(base, member_shift=shift[: len(q.member_shift)])


def _single(table: PanelTable, eps: float) -> PanelTable:
    """Return the table of a single member: x is its own rate."""
    if eps == 0.0:
        return table
    mixed = np.logaddexp(
        np.log1p(-eps) + table.log_control, np.log(eps) + table.carried[:, 0][..., None]
    )
    log_control = np.where(table.seen[:, 0][:, None, None], mixed, table.log_control)
    return replace(table, log_control=log_control)


def _twice(alleles: Units, chosen: BoolArray) -> Units:
    """Return units of some replicates as case and as control: all nodes crowd where they have x."""
    reads, depth = (
        np.hstack([v[:, chosen], v[:, chosen]]) for v in (alleles.alt_reads, alleles.depth)
    )
    size = int(chosen.sum())
    return replace(
        alleles, alt_reads=reads, depth=depth, case=np.arange(2 * size) < size, member=None
    )


def _of_equal_masses(x: FloatArray, log_value: FloatArray) -> FloatArray:
    """Return log values whose line from node to node has the mass of what it stands for.

    Above a cell of width h the line exceeds f by f'' h^3 / 12 in mass. So at the node between
    cells of widths h and k f'' (h^3 + k^3) / (12 (h + k)) is taken off, and what a normal density
    averages is then right to the fourth order.
    """
    value = np.exp(log_value - log_value.max(axis=-1, keepdims=True))
    h, k = np.diff(x)[..., :-1], np.diff(x)[..., 1:]
    rise = np.diff(value) / np.diff(x)
    bend = 2.0 * np.diff(rise) / (h + k)
    middle = value[..., 1:-1]
    moved = middle - bend * (h**3 + k**3) / (12.0 * (h + k))
    adjusted = log_value.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(middle > 0.0, moved / middle, 1.0)
    adjusted[..., 1:-1] += np.log(np.clip(ratio, 0.3, 1.5))
    return adjusted


def _central(alleles: Units, count: int) -> Units:
    """Return units without the reads of members above the median rate: those may carry the allele.

    The nodes of the site's rate crowd where the rest have theirs.
    """
    if count < 2:
        return alleles
    shares = np.full((len(alleles), count), np.nan)
    for p in range(count):
        of_p = alleles.members == p
        n = alleles.depth[:, of_p].sum(axis=1)
        shares[:, p] = np.where(
            n > 0, alleles.alt_reads[:, of_p].sum(axis=1) / np.maximum(n, 1), np.inf
        )
    high = shares > np.median(shares, axis=1, keepdims=True)
    left_out = np.where(alleles.case, False, high[:, np.maximum(alleles.members, 0)])
    return replace(
        alleles,
        alt_reads=np.where(left_out, 0, alleles.alt_reads),
        depth=np.where(left_out, 0, alleles.depth),
    )


def people(carried: FloatArray, erring: FloatArray, seen: BoolArray) -> FloatArray:
    """Return log E_f prod_p [f int L_p g + (1 - f) int L_p h], [U, Q].

    Parameters
    ----------
    carried, erring
        [U, P, Q] log int L_p g and log int L_p h.
    seen
        [U, P] whether the member has reads.
    """
    terms = []
    for f in SHARES:
        both = np.logaddexp(np.log(f) + carried, np.log1p(-f) + erring)
        terms.append(np.where(seen[..., None], both, 0.0).sum(axis=1))
    return np.asarray(logsumexp(terms, axis=0) - np.log(len(SHARES)))
