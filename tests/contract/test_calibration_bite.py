"""Item 8 bites: what is too sure of itself, and a sampler that stands still, are caught."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from vbflows_counts.model import GroupedCounts, Local

from tests.contract import calibration_variants
from tests.contract.calibration_counts import counts_of
from tests.contract.calibration_keywords import ITEMS as KEYWORDS
from vbmodels.core.expfam import Gamma
from vbmodels.testing import calibration
from vbmodels.testing.case import Calibration, ContractBroken, Forecast, Ranks
from vbmodels.variants.rvd2 import gibbs as rvd2_gibbs


def fails(item: Calibration, what: str, runs: int) -> None:
    found = calibration.collect(item, runs, seed=1)
    with pytest.raises(ContractBroken, match=what):
        calibration.check(item, found, power=False)


def sharpened(item: Calibration, factor: float) -> Calibration:
    """Return the row with every probability made ``factor`` times as sure, in its logit."""

    def run(rng):
        return {
            name: Forecast(expit(factor * logit(forecast.expected)), forecast.realised)
            for name, forecast in item.run(rng).items()
        }

    return replace(item, run=run)


class TooSure(GroupedCounts):
    """The factors of lam have .7 of the sd that they should."""

    def local_step(self, q, batch, local):
        lam = super().local_step(q, batch, local).lam
        return Local(Gamma(2.0 * lam.shape, 2.0 * lam.rate))


class TooWide(GroupedCounts):
    """The factors of lam have 1.4 times the sd that they should."""

    def local_step(self, q, batch, local):
        lam = super().local_step(q, batch, local).lam
        return Local(Gamma(0.5 * lam.shape, 0.5 * lam.rate))


class TooLarge(GroupedCounts):
    """The factors of lam have a mean a tenth too large."""

    def local_step(self, q, batch, local):
        lam = super().local_step(q, batch, local).lam
        return Local(Gamma(lam.shape, lam.rate / 1.1))


@pytest.mark.parametrize("bug", [TooSure, TooWide], ids=lambda bug: bug.__name__)
def test_intervals_of_the_wrong_width_are_caught(bug):
    fails(counts_of(bug()), "rate of a group, in the large", 30)


def test_a_shifted_posterior_is_caught():
    fails(counts_of(TooLarge()), "above the mean, in the large", 30)


@pytest.mark.parametrize("factor", [1.5, 1 / 1.5])
def test_sharpened_and_blurred_probabilities_are_caught_where_none_may_be(factor):
    def run(rng):
        return {"above the mean": counts_of(GroupedCounts()).run(rng)["above the mean"]}

    item = replace(counts_of(GroupedCounts()), run=run)
    fails(sharpened(item, factor), "above the mean, slope", 30)


@pytest.mark.thorough
def test_sharpened_probabilities_are_caught_beyond_a_measured_range():
    fails(sharpened(KEYWORDS[0], 1.5), "unlisted words", KEYWORDS[0].few)


def test_a_sampler_whose_last_block_stands_still_is_caught(monkeypatch):
    move = rvd2_gibbs._slice

    def frozen(rng, log_density, at, which, level, width):
        if which == 0:
            return np.zeros_like(level), level
        return move(rng, log_density, at, which, level, width)

    monkeypatch.setattr(rvd2_gibbs, "_slice", frozen)
    item = calibration_variants.RVD2_SAMPLED[0]
    fails(item, "ranks", item.few)


@pytest.mark.parametrize("sd", [0.7, 1.4])
def test_draws_of_the_wrong_spread_are_caught_by_ranks(sd):
    def run(rng):
        y, truth = rng.standard_normal((2, 200, 1))  # the posterior is N(y, 1)
        return {"x": calibration.ranked(y + truth, y + sd * rng.standard_normal((19, 200, 1)), rng)}

    fails(Calibration(form="normal", run=run), "x, ranks 0", 2)


def test_ranks_of_exact_draws_are_uniform():
    def run(rng):
        truth = rng.standard_normal((100, 3))
        return {"x": calibration.ranked(truth, rng.standard_normal((19, 100, 3)), rng)}

    item = Calibration(form="normal", run=run)
    calibration.check(item, calibration.collect(item, 5), power=True)


def test_ties_are_broken_at_random():
    rng = np.random.default_rng(0)
    ranks = calibration.ranked(np.zeros(2000), np.zeros((9, 2000)), rng)
    assert np.bincount(ranks.rank, minlength=10).min() > 140
    assert isinstance(ranks, Ranks)


def test_too_few_runs_have_no_power():
    item = counts_of(GroupedCounts())
    with pytest.raises(ContractBroken, match="no power"):
        calibration.check(item, calibration.collect(item, 5), power=True)
