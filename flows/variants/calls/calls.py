"""From evidence to calls: per partition, then over all at once, then per partition again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import betaincinv

from flows.faults import ComputeError
from flows.variants.settings import VariantSettings
from vbmodels.core.expfam import Beta
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.variants.calls import (
    MOST_LFDR,
    local_fdr,
    prior_from_bayes_factors,
    q_values,
)
from vbmodels.variants.counts import Counts, Units
from vbmodels.variants.rvd2.gibbs import LEVELS as QUANTILES
from vbmodels.variants.rvd2.gibbs import Sampler, exceedance, log_odds, sample_rates
from vbmodels.variants.rvd2.model import RVD2, Pair, samples
from vbmodels.variants.rvd2.posterior_difference import compare, germline
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.posterior import test_scores

ALPHA = 0.05  # a call of RVD2 needs P(difference > tau) > 1 - ALPHA
SAMPLER = Sampler(log_m_sd=RVD2().log_m_sd)
CHUNK = 200  # locations whose tables are held at once: 8 MiB, near the processor
LOW = -30.0
BINS = 600
MOST_SCORES = 50_000  # of a decision that are all kept


@dataclass(frozen=True)
class Evidence(State, kind="flows/variants.Evidence"):
    """One partition's evidence: log Bayes factors of units, or log odds of P by location.

    Attributes
    ----------
    score
        [U] or [J]; larger speaks for a variant.
    rate_case, rate_control
        [J, 6] mean, sd and four quantiles, for the papers' test; None for two groups.
    r_hat
        [J] the worse R-hat of both samples; None without draws.
    alone
        [U] whether the control has no reads, so that the score is of the case alone; None where
        that is so nowhere.
    """

    score: FloatArray
    rate_case: FloatArray | None = None
    rate_control: FloatArray | None = None
    r_hat: FloatArray | None = None
    alone: BoolArray | None = None

    @property
    def without_control(self) -> BoolArray:
        """Whether each score is of the case alone, [U]."""
        return np.zeros(len(self.score), bool) if self.alone is None else self.alone

    def rates(self) -> tuple[FloatArray, FloatArray]:
        """Return both samples' rates of the papers' test."""
        if self.rate_case is None or self.rate_control is None:
            raise ValueError("evidence of the two-groups test holds no rates")
        return self.rate_case, self.rate_control


@dataclass(frozen=True)
class Scored:
    """What the decision over all partitions needs of one: high scores, a histogram of the rest.

    The histogram is without the empty bins below the lowest score: the driver holds all of them.
    """

    high: FloatArray
    low: IntArray

    @classmethod
    def of(cls, high: FloatArray, low: IntArray) -> Self:
        """Return scores above 0 and the numbers of the others in all `BINS` bins."""
        return cls(high, np.trim_zeros(low, "f").astype(np.int32))


def in_bins(summaries: Sequence[Scored]) -> IntArray:
    """Return the numbers of scores up to 0 of all partitions in all `BINS` bins."""
    low = np.zeros(BINS, np.int64)
    for summary in summaries:
        low[BINS - len(summary.low) :] += summary.low
    return low


@dataclass(frozen=True)
class Decision(State, kind="flows/variants.Decision"):
    """The decision over all partitions.

    Attributes
    ----------
    pi
        P(H1) over all units.
    score, q_value
        [K] scores, rising, and the q-value from each on to the next.
    least
        Scores from here on are called.
    calls
        Number of calls, before filters.
    """

    pi: float
    score: FloatArray
    q_value: FloatArray
    least: float
    calls: int

    def q_of(self, score: FloatArray) -> FloatArray:
        """Return the q-value of scores."""
        index = np.searchsorted(self.score, score, side="right") - 1
        return self.q_value[np.maximum(index, 0)]


def bayes_factors(model: TwoGroups, q: Any, alleles: Units) -> Evidence:
    """Return the log Bayes factor of every unit: of the case alone where no control has reads."""
    score, alone = test_scores(model, q, alleles)
    return Evidence(score, alone=alone if alone.any() else None)


class Verdict(NamedTuple):
    """What was decided of U units: local false discovery rates, whether called, q-values."""

    lfdr: FloatArray
    called: BoolArray
    q_value: FloatArray


def verdict_of(evidence: Evidence, decision: Decision, settings: VariantSettings) -> Verdict:
    """Return what was decided.

    A unit without control reads has no part in the decision over all, and goes by its own rate.
    """
    score, alone = evidence.score, evidence.without_control
    lfdr = local_fdr(score, decision.pi)
    q_value = lfdr.copy()
    q_value[~alone] = decision.q_of(score[~alone])
    called = np.where(alone, lfdr <= settings.fdr, score >= decision.least)
    return Verdict(lfdr, called, q_value)


def differences(
    model: Pair, q: Any, batch: Counts, local: Any, settings: VariantSettings
) -> Evidence:
    """Return the log odds of the papers' posterior probability, and both samples' rates."""
    local = model.local_step(q, batch, None) if local is None else local
    if settings.control:
        p = compare(local.case, local.control, settings.tau, settings.two_sided).probability
    else:
        p = germline(local.case, settings.tau)
    tiny = np.finfo(float).eps
    p = np.clip(p, tiny, 1.0 - tiny)
    return Evidence(np.log(p) - np.log1p(-p), _beta_rate(local.case), _beta_rate(local.control))


def drawn_differences(
    model: Pair, q: Any, batch: Counts, settings: VariantSettings, index: int
) -> Evidence:
    """Return what `differences` does, by draws at the fit's hyperparameters.

    Some locations at a time, each lot by a stream of its own, from the seed, the partition and
    the lot: other partitions draw other numbers.
    """
    lots = []
    for start in range(0, len(batch), CHUNK):
        rng = np.random.default_rng([settings.seed, index, start])
        lot = batch.take(slice(start, start + CHUNK))
        lots.append(_drawn_lot(model, q, lot, settings, rng))
    return Evidence(*(np.concatenate(column) for column in zip(*lots, strict=True)))


def _drawn_lot(
    model: Pair, q: Any, lot: Counts, settings: VariantSettings, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    of_case, of_control = samples(lot)
    case = sample_rates(of_case, q.case, rng, SAMPLER)
    if not settings.control:
        p = (case.draws > settings.tau).mean(axis=0)
        control_rate = _beta_rate(model.local_step(q, lot, None).control)
        return log_odds(p, len(case.draws)), case.moments, control_rate, case.r_hat
    control = sample_rates(of_control, q.control, rng, SAMPLER)
    p = exceedance(case.draws, control.draws, settings.tau)
    if settings.two_sided:
        p = np.maximum(p, exceedance(control.draws, case.draws, settings.tau))
    worse = np.fmax(case.r_hat, control.r_hat)
    return log_odds(p, len(case.draws)), case.moments, control.moments, worse


def _beta_rate(local: Any) -> FloatArray:
    beta = Beta(local.delta, local.gamma)
    quantiles = [
        betaincinv(local.delta, local.gamma, level)
        if level < 0.5
        else 1.0 - betaincinv(local.gamma, local.delta, 1.0 - level)
        for level in QUANTILES
    ]
    return np.stack([beta.mean, np.sqrt(beta.variance), *quantiles], axis=1)


def summarise(evidence: Evidence) -> Scored:
    """Keep scores above 0 as they are and count the others in bins; not those of the case alone.

    Raises `ComputeError` if a score is no number: it could be neither called nor left out.
    """
    score = evidence.score[~evidence.without_control]
    wrong = np.isnan(evidence.score)
    if wrong.any():
        raise ComputeError(
            f"the evidence of {int(wrong.sum())} of {len(score)} alleles of a partition is no "
            "number; please report this with its counts"
        )
    low = np.clip(score[score <= 0.0], LOW, 0.0)
    return Scored.of(score[score > 0.0], np.histogram(low, BINS, (LOW, 0.0))[0])


def decide(
    summaries: Sequence[Scored], pi: float, settings: VariantSettings, refit: bool
) -> Decision:
    """Order all units and say from which score on they are called.

    Parameters
    ----------
    summaries
        All partitions'.
    pi
        P(H1) as fitted on a sample of the units.
    settings
        The test and its level.
    refit
        Whether P(H1) is estimated again from all units.
    """
    edges = np.linspace(LOW, 0.0, BINS + 1)[:-1]
    low = in_bins(summaries)
    high = np.sort(np.concatenate([s.high for s in summaries]))
    used = low > 0
    # A bin counts by its lower edge: what is called from there on is then all of it.
    score = np.concatenate([edges[used], high])
    weight = np.concatenate([low[used], np.ones(len(high))]).astype(float)
    if settings.test != "two_groups":
        return _papers_decision(score, weight, settings)
    if refit and len(score):
        centre = np.where(np.arange(len(score)) < used.sum(), 0.5 * -LOW / BINS, 0.0)
        pi = prior_from_bayes_factors(score + centre, weight)
    lfdr = local_fdr(score, pi)
    q = q_values(lfdr, weight)
    if settings.e_bh:
        count = weight.sum()
        k = np.arange(1, len(high) + 1)
        passed = np.flatnonzero(high[::-1] >= np.log(count) - np.log(settings.fdr * k))
        least = high[::-1][passed[-1]] if passed.size else np.inf
    else:
        chosen = (q <= settings.fdr) & (lfdr <= MOST_LFDR)
        least = score[chosen].min() if chosen.any() else np.inf
    calls = int(weight[score >= least].sum())
    return Decision(pi, *_thinned(score, q), float(least), calls)


def _thinned(score: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave out scores whose q-value is that of the one before, but for a ten-thousandth.

    What is left out gets the larger q-value of the one before it.
    """
    if len(score) <= MOST_SCORES:
        return score, q
    level = np.floor(np.log(np.maximum(q, np.finfo(float).tiny)) / 1e-4)
    first = np.append(True, level[1:] != level[:-1])
    return score[first], q[first]


def _papers_decision(score: FloatArray, weight: FloatArray, settings: VariantSettings) -> Decision:
    tail = 1.0 / (1.0 + np.exp(score)) * (2.0 if settings.two_sided else 1.0)
    p = np.repeat(np.minimum(tail, 1.0), weight.astype(int))
    first = np.concatenate([[0], np.cumsum(weight.astype(int))[:-1]])
    from scipy.stats import false_discovery_control  # slow to import

    q = false_discovery_control(p)[first] if p.size else np.zeros(0)
    # P must exceed 1 - alpha.
    least = float(np.nextafter(np.log1p(-ALPHA) - np.log(ALPHA), np.inf))
    return Decision(0.5, *_thinned(score, q), least, int(weight[score >= least].sum()))
