"""What vMMIC as printed does: its indicators freeze, as its erratum says."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from reproduce.vmmic_as_printed import PrintedVMMIC, printed_mean
from vbmodels.bags.simulate import simulate
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, loop_of

pytestmark = pytest.mark.thorough  # a form of the papers


def test_the_log_odds_add_up_and_freeze_the_indicators():
    """After 100 iterations of B.1.10 nearly every p is within 1e-6 of 0 or 1."""
    data, _ = simulate(np.random.default_rng(0), 200)
    frozen = {}
    for model in (PrintedVMMIC(start="mode", tolerance=0.0), MeanFieldVMMIC()):
        reduce = InProcess(model, [data])
        q = model.init(reduce.observe(), np.random.default_rng(0))
        *_, last = itertools.islice(Driver(loop_of(model), model, q, reduce), 100)
        p = np.concatenate(reduce.local_states(last.iteration)[0].primary)
        frozen[type(model)] = np.mean(np.minimum(p, 1.0 - p) < 1e-6)
    assert frozen[PrintedVMMIC] > 0.97
    assert frozen[MeanFieldVMMIC] < 0.6


def test_it_starts_near_zero_unless_it_is_given_the_mode():
    data, _ = simulate(np.random.default_rng(0), 200)
    model = PrintedVMMIC()
    reduce = InProcess(model, [data])
    q = model.init(reduce.observe(), np.random.default_rng(0))
    first = next(iter(Driver(loop_of(model), model, q, reduce)))
    assert_allclose(first.q.mean, q.mean)


def test_the_mean_of_b_1_9_is_not_that_of_its_factor():
    e, p = np.array([-1.5, 0.0, 0.7]), np.array([0.3, 0.8, 0.5])
    above, below = stats.norm.cdf(e), stats.norm.cdf(-e)
    printed = e + (2 * p - 1) * stats.norm.pdf(e) / (p * above + (1 - p) * below)
    right = e + stats.norm.pdf(e) * (p / above - (1 - p) / below)
    assert_allclose(printed_mean(e, p), printed, rtol=1e-12)
    assert np.abs(printed - right).max() > 0.1
