"""Every sampler fills every place that it keeps, with the draws that it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.contract import case_bmem_marginal, case_milgp, case_pooled, case_rvd2, vmmic
from vbmodels.cavi import InProcess, Step, start
from vbmodels.experts.metropolis import SampledExperts
from vbmodels.experts.walk import WalkPrior
from vbmodels.keywords.bss import BSS
from vbmodels.keywords.bss_gibbs import bss
from vbmodels.keywords.gibbs import gibbs
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.pooled_gibbs import pooled_gibbs
from vbmodels.keywords.vbss import VBSS
from vbmodels.mil.gibbs import GibbsVMMIC
from vbmodels.mil.gp_gibbs import GibbsGP
from vbmodels.state import FloatArray
from vbmodels.variants.rvd2 import gibbs as rvd2_gibbs
from vbmodels.variants.rvd2.model import RVD2

WARMUP, DRAWS, THIN = 3, 5, 2


def course(model: Any, batches: list[Any]) -> list[Step]:
    """Return all steps of a run, its last one converged and no other."""
    reduce, steps = InProcess(model, batches), []
    q = model.init(reduce.observe(), np.random.default_rng(0))
    for step in model.steps(reduce, start(model, q, reduce)):
        steps.append(step)
        if step.converged:
            return steps
    raise AssertionError("the chains did not end")


def counted(values: list[FloatArray]) -> FloatArray:
    """Return every second of the values after the warm-up, the last one with them."""
    assert len(values) == WARMUP + DRAWS * THIN + 1
    return np.stack(values[WARMUP + THIN :: THIN], axis=1)


def test_the_probit_gaussian_process_keeps_its_draws():
    model = GibbsGP(case_milgp.OPTIONS, chains=2, warmup=WARMUP, draws=DRAWS, thin=THIN)
    steps = course(model, case_milgp.batches(0, 2))
    assert_array_equal(steps[-1].q.draws, counted([step.q.w for step in steps]))


def test_vmmic_keeps_its_draws():
    model = GibbsVMMIC(chains=2, burn_in=WARMUP, kept=DRAWS, thin=THIN)
    steps = course(model, vmmic.batches(0, 2))
    assert_array_equal(steps[-1].q.kept, counted([step.q.t for step in steps]))


def test_experts_keep_their_draws_and_densities():
    prior = WalkPrior("gaussian", tau=0.5)
    model = SampledExperts(1, prior, chains=2, warmup=WARMUP, draws=DRAWS, thin=THIN)
    steps = course(model, case_bmem_marginal.batches(0, 2))
    last = steps[-1].q
    # With one expert there is one order.
    assert_array_equal(last.draws, counted([step.q.vectors for step in steps]))
    density = [np.atleast_1d(step.elbo) for step in steps]
    assert_allclose(last.density.mean(0), counted(density)[0], rtol=1e-12)
    assert np.all(last.accepted[1] > 0)


def written(*found: FloatArray) -> None:
    """Check draws [C, S, ...]: finite, as many as asked for, and no two of a chain alike."""
    for array in found:
        assert array.shape[:2] == (2, DRAWS)
        assert np.isfinite(array).all()
        for chain in array:
            assert len(np.unique(chain.reshape(DRAWS, -1), axis=0)) == DRAWS


@pytest.fixture
def no_leftovers(monkeypatch):
    """Have np.empty hand out NaN, so that what nobody writes shows."""
    empty = np.empty

    def marked(*args, **kwargs):
        array = empty(*args, **kwargs)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    monkeypatch.setattr(np, "empty", marked)


DOCUMENT = (
    np.array([True, False, True, False, False]),
    np.array([[0, 2, 1, 0, 0], [2, 0, 0, 1, 0], [1, 0, 0, 1, 2], [0, 1, 1, 0, 1], [0, 0, 2, 1, 0]]),
)


@pytest.mark.parametrize(("sampler", "model"), [(gibbs, VBSS()), (bss, BSS())])
def test_a_documents_samplers_keep_their_draws(sampler, model, no_leftovers):
    y, adjacency = DOCUMENT
    rng = np.random.default_rng(0)
    found = sampler(y, adjacency.astype(float), model, rng, chains=2, draws=DRAWS, warmup=WARMUP)
    written(found.theta, found.sigma2, found.alpha, found.r)


def test_pooled_keywords_keep_their_draws(no_leftovers):
    (batch,) = case_pooled.batches(0, 1)
    model, rng = PooledVBSS(document_precision=1.0), np.random.default_rng(0)
    found = pooled_gibbs(
        model, batch, rng, chains=2, draws=DRAWS, warmup=WARMUP, thin=THIN, keep_documents=True
    )
    written(found.coefficients, found.alpha, found.intercept)
    # Observed words are keywords in every sweep that counts.
    assert_allclose(found.keyword[batch.y], 1.0, rtol=1e-12)


def test_rates_keep_their_draws(no_leftovers):
    (batch,) = case_rvd2.batches(0, 1)
    model = RVD2()
    q = model.init(model.observe(batch), np.random.default_rng(0))
    found = rvd2_gibbs.gibbs(
        batch, q, np.random.default_rng(0), chains=2, burn_in=WARMUP, draws=DRAWS, thin=THIN
    )
    written(found.logit_mu, found.log_m)
    assert found.evaluations > 2 * 2 * THIN  # of two coordinates: two ends and a draw at least
