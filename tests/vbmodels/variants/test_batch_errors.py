"""Standard errors of the differences between case and control, and fits at the ends of its data."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core.cavi import monotone_squarem
from vbmodels.core.fit import fit
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.two_groups.batch_errors import observed_information, standard_errors
from vbmodels.variants.two_groups.batch_null import SHIFT_SD, BatchNull
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups
from vbmodels.variants.two_groups.posterior import test_scores as scores_of

MODEL = BatchNull(alternatives=MIXTURE)


def drawn(seed, sd, replicates=1, locations=100):
    """Return counts whose error rates differ by substitution, site, batch and site in the batch."""
    rng = np.random.default_rng(seed)
    ref = rng.integers(0, 4, locations)
    rate = 4e-4 * np.exp(0.8 * rng.standard_normal((4, 4)))
    site = rate[ref] * np.exp(0.7 * rng.standard_normal((locations, 4)))
    factor = np.exp(sd * rng.standard_normal((2, 4, 4)))
    counts = np.zeros((locations, 2 * replicates, 4), np.int32)
    for sample in range(2):
        own = site * factor[sample][ref] * np.exp(0.15 * rng.standard_normal(site.shape))
        for r in range(replicates):
            each = own * np.exp(0.05 * rng.standard_normal(own.shape))
            each[np.arange(locations), ref] = 0.0
            each[np.arange(locations), ref] = 1.0 - each.sum(axis=1)
            counts[:, sample * replicates + r] = rng.multinomial(rng.poisson(2000, locations), each)
    off = ~np.eye(4, dtype=bool)
    truth = np.log(factor[0] / factor[1])[off]
    case = np.arange(2 * replicates) < replicates
    return Counts(counts, ref.astype(np.int8), case), truth


def intervals(counts):
    q = fit(MODEL, [counts], tol=1e-6).q
    return q.shift, standard_errors(observed_information(MODEL, q, counts)).of_type


@pytest.mark.thorough
@pytest.mark.parametrize("replicates", [1, 3])
def test_intervals_of_batch_factors_hold_the_truth(replicates):
    draws = [drawn(seed, 0.35, replicates) for seed in range(20)]
    found = [(*intervals(counts), truth) for counts, truth in draws]
    shift, error, truth = (np.concatenate(column) for column in zip(*found, strict=True))
    assert 0.925 < np.mean(np.abs(shift - truth) < 1.96 * error) < 0.985  # of 240
    assert np.polyfit(truth, shift, 1)[0] > 0.65


def test_samples_that_do_not_differ_have_factors_of_1():
    found = [intervals(drawn(seed, 0.0)[0]) for seed in range(4)]
    shift, error = (np.concatenate(column) for column in zip(*found, strict=True))
    assert np.mean(np.abs(shift) > 1.96 * error) < 0.05  # .6 of 12


def test_of_few_errors_the_error_is_that_of_a_ratio_of_two_counts():
    """26 against 18 errors: 1 / (1/26 + 1/18) = 10.6, not the 26 that it is at known rates."""
    reads = np.zeros((60, 2, 4), np.int32)
    reads[:26, 0, 1] = reads[-18:, 1, 1] = 1
    reads[..., 0] = 2000 - reads[..., 1]
    counts = Counts(reads, np.zeros(60, np.int8), np.array([True, False]))
    # Sites and replicates that hardly vary: reads are Poisson.
    q = replace(fit(MODEL, [counts], tol=1e-6).q, tau=0.06, v=1e-4, log_m_mean=13.0, log_m_sd=0.4)
    found = observed_information(MODEL, q, counts)
    kept = found.shifts[0] - found.between[0] @ np.linalg.solve(
        found.rates[0] + np.array([[10 / 9, -1 / 9], [-1 / 9, 1 / 9]]), found.between[0].T
    )
    assert kept.item() == pytest.approx(1.0 / (1 / 26 + 1 / 18), rel=0.12)
    # Types without a read have what this one says of b_0.
    of_mean = 1.0 / (1.0 + 1.0 / (SHIFT_SD**2 + 1.0 / kept.item()))
    errors = standard_errors(found).of_type
    assert errors[0] == pytest.approx((kept.item() + 1.0 / (SHIFT_SD**2 + 1.0)) ** -0.5, rel=0.01)
    assert_allclose(errors[3:], np.sqrt(SHIFT_SD**2 + of_mean), rtol=0.02)


def test_a_bold_step_that_falls_is_followed_by_one_far_longer_than_the_careful():
    counts, _ = drawn(0, 0.35)
    q = MODEL.init(MODEL.observe(counts), np.random.default_rng(0))
    stats = MODEL.suff_stats(q, counts, MODEL.local_step(q, counts, None))
    climb = monotone_squarem(MODEL, q, stats, MODEL.elbo(q, stats))
    saved = climb.send(None)
    climb.send(saved.value)  # shows the start
    bold = climb.send(None).q
    second = climb.send(replace(stats, bound=stats.bound - 1e3)).q
    careful = MODEL.global_step(q, stats, careful=True)
    of_bold, of_second, of_careful = (
        abs(np.log(one.tau / q.tau)) for one in (bold, second, careful)
    )
    assert of_bold > of_second > 10.0 * of_careful > 0.0


def test_a_control_without_reads_is_fitted_as_none():
    counts, _ = drawn(3, 0.35, replicates=2)
    reads = counts.counts.copy()
    reads[5, :2] = [1000, 1000, 0, 0]
    reads[:, 2:] = 0
    counts = replace(counts, counts=reads)
    found = fit(MODEL, [counts.take(slice(40)), counts.take(slice(40, None))], tol=1e-6)
    alone = Counts(reads[:, :2], counts.ref, counts.case[:2])
    germline = TwoGroups("germline", MIXTURE)
    expected = fit(germline, [alone], tol=1e-6).q
    assert found.iterations < 150
    assert_allclose(found.q.a / found.q.b, expected.a / expected.b, rtol=0.02)
    assert not found.q.shift.any()
    score, without = scores_of(MODEL, found.q, units(counts))
    assert without.all()
    assert_allclose(score, scores_of(germline, expected, units(alone))[0], atol=0.5)
    # A location where new counts have a control is tested against it.
    new = counts.take(np.array([5]))
    reads = new.counts.copy()
    reads[0, 2:] = reads[0, :2]
    score, without = scores_of(MODEL, found.q, units(replace(new, counts=reads)))
    assert not without.any()
    assert score.max() < 0.0
