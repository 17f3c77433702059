"""What MIL-GP-Probit as printed does: it stops short, below a bound that is closer."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from reproduce.milgp_as_printed import PRINTED, PrintedGP, printed_probability
from tests.vbmodels.bags.gp_simulate import simulate_gp
from vbmodels.bags.mil_gp.model import CollapsedGP
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.core.fit import fit

pytestmark = pytest.mark.thorough  # a form of the papers


def test_the_25_sweeps_stop_short():
    data, _ = simulate_gp(np.random.default_rng(0), 40, 6)
    stopped = fit(PrintedGP(), [data])
    assert stopped.iterations == 26
    assert stopped.converged
    further = fit(PrintedGP(sweeps=None), [data], max_iter=5000)
    assert further.trace[-1] > stopped.trace[-1] + 1e-3


def test_its_bound_is_below_the_one_with_f_integrated_out():
    data, _ = simulate_gp(np.random.default_rng(0), 40, 6)
    options = replace(PRINTED, n_inducing=5)
    printed = fit(PrintedGP(options, sweeps=None), [data], max_iter=5000)
    collapsed = fit(CollapsedGP(options), [data], max_iter=5000)
    assert np.all(np.diff(printed.trace) > -1e-9)
    assert printed.trace[-1] < collapsed.trace[-1] - 1.0
    model = PrintedGP(options)
    (found,) = predict(model.posterior(printed.q), data)
    assert found.probability.shape == (len(data.modalities[0].features),)


def test_the_printed_probability_lacks_a_square_root():
    mean, variance = np.array([1.0, -2.0]), np.array([3.0, 8.0])
    f = mean + np.sqrt(variance) * np.random.default_rng(0).standard_normal((200_000, 2))
    exact = ndtr(f).mean(axis=0)
    assert_allclose(ndtr(mean / np.sqrt(variance + 1.0)), exact, atol=5e-3)
    assert np.abs(printed_probability(mean, variance) - exact).min() > 0.08
