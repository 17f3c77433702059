"""A unit's evidence, the two-groups posterior of its rates, and the limit of detection.

The posterior of mu is lfdr times H0 plus the rest H1.

The posterior under one sample alone covers true variants far too rarely (.42 to .88 for a
95 % interval): which sites are looked at is decided by the data. The mixture does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincc, expit

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants import quadrature
from vbmodels.variants.counts import N_TYPES, Units
from vbmodels.variants.two_groups import rates_kernels as kernels
from vbmodels.variants.two_groups.batch_null import BatchGlobal, BatchNull
from vbmodels.variants.two_groups.model import GERMLINE_W, Global, TwoGroups, fill_masses, weigh
from vbmodels.variants.two_groups.table import Table

LEVELS: tuple[float, ...] = (0.025, 0.05, 0.95, 0.975)
OF_TABLES = slice(1, 3)  # those of `LEVELS` that are published of every location
COARSE = 24  # nodes of x where an allele is no gain
_NEVER = -1e5  # log of the weight of a component that there is not
_MIXED = 32  # units whose posteriors on nodes are held at once
_CHUNK = 600  # units whose tables are held at once: some MiB, near the processor


@dataclass(frozen=True)
class Rate:
    """The posterior of one sample's mu.

    Attributes
    ----------
    mean, sd
        [U].
    quantiles
        [U, L] at 2.5, 5, 95 and 97.5 %, or at the given levels.
    """

    mean: FloatArray
    sd: FloatArray
    quantiles: FloatArray


def log_bayes_factors(model: TwoGroups, q: Global, alleles: Units) -> FloatArray:
    """Return the log Bayes factor of every unit, [U], some units' tables at a time.

    An allele that is no more frequent in the case than the control's, with the shift of its type,
    is never called: its Bayes factor only adds to the estimate of P(H1) and to q-values. `COARSE`
    nodes are enough for it: from 50 to 30,000 reads the log errs by at most .06, .006 in the mean
    (40 nodes: .02 and .002).

    Parameters
    ----------
    model, q
        The fitted model.
    alleles
        The units.
    """
    anchored = model.anchored(q)
    gain = gains(anchored, alleles) | (model.sense == "either")
    score = np.empty(len(alleles))
    for member, n_nodes in ((gain, quadrature.N_NODES), (~gain, COARSE)):
        which = np.flatnonzero(member)
        for start in range(0, len(which), _CHUNK):
            chunk = which[start : start + _CHUNK]
            table = model.table(anchored, alleles.take(chunk), n_nodes)
            if model.sense == "germline":
                score[chunk] = _beyond_errors(model, anchored, table)
                continue
            log_m0, log_m1, _ = model.e_step(anchored, table)
            score[chunk] = log_m1 - log_m0
    return score


def _beyond_errors(model: TwoGroups, q: Global, table: Table) -> FloatArray:
    """Return log Bayes factors against the error rates without their broad component, [U].

    That is there for the fit. In the evidence it would be the best explanation of every frequent
    allele, so that one of all reads had less evidence than one of a twentieth.
    """
    under = model.hypotheses(q, table.x.shape[2])._replace(log_w=_NEVER)
    part, _ = fill_masses(table, under)
    weighed = weigh(part, under)
    return weighed.log_m1 - weighed.log_m0


def test_scores(model: TwoGroups, q: Global, alleles: Units) -> tuple[FloatArray, BoolArray]:
    """Return the log Bayes factor of every unit, and whether it is of the case alone, both [U].

    It is where the control has no reads.
    """
    alone = ~alleles.case.all() & (alleles.depth[:, ~alleles.case].sum(axis=1) == 0)
    score = np.empty(len(alleles))
    rows, other = np.flatnonzero(alone), np.flatnonzero(~alone)
    score[other] = log_bayes_factors(model, q, alleles.take(other))
    score[rows] = log_bayes_factors(*without_control(model, q), alleles.take(rows))
    return score, alone


def without_control(model: TwoGroups, q: Global) -> tuple[TwoGroups, Global]:
    """Return the model of the case alone at a fit's error rates, with the shifts of the case.

    For locations where the control has no reads: there the control's rate could be anything, and
    an allele of all of the case's reads would be no evidence.
    """
    shift = q.shift if isinstance(q, BatchGlobal) else np.zeros(N_TYPES)
    return TwoGroups("germline", model.alternatives), Global(
        pi=q.pi,
        rho=q.rho,
        w=GERMLINE_W,
        log_m_mean=q.log_m_mean,
        log_m_sd=q.log_m_sd,
        a=q.a,
        b=q.b * np.exp(-shift),
        anchor=q.anchor,
    )


def gains(q: Global, alleles: Units) -> BoolArray:
    """Return whether the case shows more of an allele than the shifted control, [U]."""
    case, control = (
        alleles.alt_reads[:, sample].sum(axis=1)
        / np.maximum(alleles.depth[:, sample].sum(axis=1), 1)
        for sample in (alleles.case, ~alleles.case)
    )
    shift = q.shifts[q.group(alleles)] if isinstance(q, BatchGlobal) else 0.0
    return np.asarray(case > control * np.exp(shift))


def rates(
    model: TwoGroups, q: Global, table: Table, levels: tuple[float, ...] = LEVELS
) -> tuple[Rate, Rate]:
    """Return the posteriors of mu_case and mu_control for every unit of a table.

    Parameters
    ----------
    model, q
        The fitted model.
    table
        Likelihoods of the units: ``model.rate_table(model.anchored(q), units)``.
    levels
        [L] of the quantiles.
    """
    out, n_nodes = np.empty((len(table), 2, 2 + len(levels))), table.x.shape[2]
    backward = quadrature.sinc_cumulative(n_nodes)[::-1].copy()
    under, hypotheses = None, model.hypotheses(q, n_nodes)
    if isinstance(model, BatchNull) and isinstance(q, BatchGlobal):
        under, group = model.shifted(q, np.empty(0)), q.group(table)
        table = model.with_panel_likelihood(q, table)
    for start in range(0, len(table), _MIXED):
        chunk = slice(start, start + _MIXED)
        some = table.grids.take(chunk)
        parts = np.empty((*some.x.shape[:2], 5, n_nodes))
        offsets = np.empty((*some.x.shape[:2], 2))
        if under is None:
            kernels.posteriors(some, hypotheses, parts, offsets)
        else:
            kernels.batch_posteriors(some, group[chunk], under, parts, offsets)
        kernels.mix(some.x, some.log_weight, parts, offsets, np.array(levels), backward, out[chunk])
    case, control = (Rate(f[:, 0], f[:, 1], expit(f[:, 2:])) for f in out.swapaxes(0, 1))
    return case, control


_STEPS = 40  # of a bisection of a share
_FIRST = 4  # reads that are tried at first


def least_reads(
    model: TwoGroups,
    q: Global,
    case_depth: IntArray,
    control_depth: IntArray,
    control_reads: IntArray,
    kind: IntArray,
    replicates: tuple[int, int],
    least: float,
    member: IntArray | None = None,
    context: IntArray | None = None,
) -> IntArray:
    """Return the fewest reads of an allele in the case that are called, [U]; -1 for none.

    Log Bayes factors rise with the case's reads: these are doubled until one is called, then
    the number is bisected. Reads are spread evenly over the replicates.

    Parameters
    ----------
    model, q
        The fit.
    case_depth, control_depth
        [U] reads of a replicate.
    control_reads
        [U] reads of the allele in the control, all replicates together.
    kind
        [U] the substitution, 0 to 11.
    replicates
        Number of the case's and of the control's.
    least
        Log Bayes factor from which on an allele is called.
    member
        [R] which of the control's samples each replicate is of, as `Units` has it; the case's
        replicates come first.
    context
        [U] the bases next to each, as `contexts` has them.
    """
    of_case, of_control = replicates
    case = np.arange(of_case + of_control) < of_case
    depth = np.where(case, case_depth[:, None], control_depth[:, None]).astype(np.int64)
    most = case_depth * of_case

    def called(reads: IntArray, which: IntArray) -> Any:
        alt = np.zeros((len(which), len(case)), np.int64)
        alt[:, case] = _spread(reads, of_case)
        alt[:, ~case] = np.minimum(
            _spread(control_reads[which], of_control), depth[which][:, ~case]
        )
        units = Units(
            alt,
            depth[which],
            kind[which],
            which,
            np.zeros(len(which), np.int64),
            case,
            member,
            context=None if context is None else context[which],
        )
        return log_bayes_factors(model, q, units) >= least

    low = np.zeros(len(kind), np.int64)  # is not called
    high = np.minimum(_FIRST, most)
    open_ = np.flatnonzero(most > 0)
    fewest = np.full(len(kind), -1, np.int64)
    while len(open_):
        yes = called(high[open_], open_)
        fewest[open_[yes]] = high[open_[yes]]
        open_ = open_[~yes]
        low[open_] = high[open_]
        open_ = open_[high[open_] < most[open_]]
        high[open_] = np.minimum(2 * high[open_], most[open_])
    open_ = np.flatnonzero(fewest > low + 1)
    while len(open_):
        middle = (low[open_] + fewest[open_]) // 2
        yes = called(middle, open_)
        fewest[open_[yes]] = middle[yes]
        low[open_[~yes]] = middle[~yes]
        open_ = open_[fewest[open_] > low[open_] + 1]
    return fewest


def _spread(total: IntArray, over: int) -> IntArray:
    """Return numbers as nearly equal parts, [U, over]."""
    if not over:
        return np.zeros((len(total), 0), np.int64)
    return total[:, None] // over + (np.arange(over) < (total % over)[:, None])


def share_called(
    reads: IntArray, depth: IntArray, replicates: int, precision: float, probability: float
) -> FloatArray:
    """Return the share f of an allele of which so many reads come with a probability, [U].

    The sum of ``replicates`` draws of BetaBin(n, M f, M (1 - f)) has the mean m = R n f and, for
    small f, the variance m + m^2 / r with r = f R n (M + 1) / (n - 1): it is taken as negative
    binomial. NaN where there is no such share.

    Parameters
    ----------
    reads, depth
        [U] the fewest reads that are called, -1 for none; and reads of a replicate.
    replicates, precision
        The number of replicates, and M.
    probability
        That of at least ``reads``.
    """
    total = (depth * replicates).astype(float)
    low, high = np.zeros(len(reads)), np.ones(len(reads))

    def chance(share: FloatArray) -> FloatArray:
        mean = total * share
        size = share * total * (precision + 1.0) / np.maximum(depth - 1.0, 1e-9)
        size = np.clip(size, 1e-9, 1e12)
        return np.asarray(betaincc(size, reads, size / (size + np.maximum(mean, 1e-300))))

    can = (reads > 0) & (total > 0) & (chance(high) >= probability)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        enough = chance(middle) >= probability
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(can, high, np.nan)
