"""What fits by different bounds are compared by, and the text's bound with its polish."""

from __future__ import annotations

import itertools
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_expit

from tests.contract.case_ibp import batches, plain
from tests.contract.ibp_definition import BIAS, LEVELS, TINY_LEVELS, answers, log_evidence, tiny
from vbmodels.core.cavi import start
from vbmodels.core.fit import fit, loop_of
from vbmodels.core.in_process import InProcess
from vbmodels.features.batch import feature_batch
from vbmodels.features.polish import Polished, TriedGlobal
from vbmodels.features.polya_gamma import FeatureGlobal, PolyaGammaIBP
from vbmodels.features.published.text_bound import TextIBP
from vbmodels.features.yardstick import likelihood_draws, measured


def fitted(seed):
    data = tiny(seed)
    done = fit(plain(), data, seed=seed, tol=1e-9)
    return data, done, done.reduce.local_states(done.iterations - 1)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_yardstick_is_the_true_bound_and_lies_between_bound_and_evidence(seed):
    data, done, states = fitted(seed)
    pairs = list(zip(data, states, strict=True))
    drawn = sum(likelihood_draws(done.q, b, s.nu, 4000) for b, s in pairs)
    nu = np.concatenate([s.nu for s in states])
    x, w = np.polynomial.hermite_e.hermegauss(40)
    exact = -float((nu * np.log(nu) + (1 - nu) * np.log1p(-nu)).sum())
    for n, j, answer in answers(data, TINY_LEVELS):
        for bits in product([0, 1], repeat=nu.shape[1]):
            z = np.array([1.0, *bits])
            p = np.prod(np.where(z[1:] > 0, nu[n], 1 - nu[n]))
            sd = np.sqrt(z @ done.q.covariance[j] @ z)
            psi = z @ done.q.mean[j] + sd * x
            exact += p * float(w @ log_expit(psi if answer else -psi)) / w.sum()
    error = drawn.std(ddof=1) / np.sqrt(len(drawn))
    assert abs(drawn.mean() - exact) < 4 * error
    value, se = measured(done.q, nu.sum(0), drawn, BIAS)
    assert done.trace[-1] - 4 * se < value < log_evidence(data) + 4 * se


def test_neither_the_cut_nor_grouping_moves_the_yardstick():
    (whole,) = batches(1, 1)
    q = fit(plain(), [whole], seed=1, tol=1e-6).q
    nu = np.random.default_rng(0).random((len(whole.count), 2))
    value = likelihood_draws(q, whole, nu, 5)
    rows = whole.codes[whole.row_of]
    apart = feature_batch(rows, LEVELS, grouped=False)
    assert_allclose(likelihood_draws(q, apart, nu[whole.row_of], 5), value, rtol=1e-12)
    halves = [
        likelihood_draws(q, feature_batch(rows[s], LEVELS, grouped=False), nu[whole.row_of][s], 5)
        for s in (slice(0, 23), slice(23, None))
    ]
    assert_allclose(sum(halves), value, rtol=1e-12)


@pytest.mark.parametrize("gauge", ["free", "pinned"])
def test_the_texts_bound_never_falls_before_the_polish(gauge):
    model = Polished(TextIBP(3, gauge=gauge), PolyaGammaIBP(3, anneal=0), text_sweeps=25, held=4)
    reduce = InProcess(model, batches(2, 3))
    q = model.init(reduce.observe(), np.random.default_rng(5))
    steps = list(itertools.islice(loop_of(model)(model, reduce, start(model, q, reduce)), 50))
    text = [s.elbo for s in steps if isinstance(s.q, TriedGlobal)]
    assert len(text) == 25
    assert np.all(np.diff(text) >= 0)
    assert text[-1] > text[0] + 1
    polished = [s.elbo for s in steps if isinstance(s.q, FeatureGlobal)]
    assert np.all(np.diff(polished) >= -1e-9 * abs(polished[-1]))
    assert not any(s.converged for s in steps[:29])


def test_a_step_of_the_text_that_lowers_the_bound_is_taken_back():
    model = Polished(TextIBP(2), PolyaGammaIBP(2, anneal=0), text_sweeps=9)
    reduce = InProcess(model, batches(0, 1))
    q = model.init(reduce.observe(), np.random.default_rng(0))
    stats = reduce(q, number=0, warm=None)
    q = model.global_step(q, stats)
    worse = type(stats)(**{**vars(stats), "bound": stats.bound - 1e6})
    again = model.global_step(q, worse)
    assert not again.stood
    assert again.value == q.value
    assert again.kept is q.kept
    assert again.tried.size == q.tried.size / 2
