"""The batch-aware null: its limit, derivatives, other code's integrals, shifts that are found."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from tests.contract.case_batch_null import brute_force
from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.variants.counts import units
from vbmodels.variants.two_groups import posterior
from vbmodels.variants.two_groups.batch_errors import observed_information, standard_errors
from vbmodels.variants.two_groups.batch_null import TAUS, BatchNull, names_of_types
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups

MODEL = BatchNull(alternatives=MIXTURE)


def drawn(name="af.003_oxo5", locations=20, **changes):
    scenario = replace(SCENARIOS[name], n_variants=2, **changes)
    return simulate_scenario(np.random.default_rng(0), scenario, locations)[0]


def at(batch, model=MODEL, **changes):
    q = model.init(model.observe(batch), np.random.default_rng(0))
    return replace(q, **({"shift": np.linspace(-0.5, 1.5, 12)} | changes))


def log_bf(model, q, batch):
    m0, m1, _ = model.e_step(q, model.table(q, units(batch)))
    return m1 - m0


@pytest.mark.parametrize("sense", ["gain", "either"])
def test_its_limit_is_the_exchangeable_null(sense):
    batch = drawn("af.003_4000", 60)
    old, new = TwoGroups(sense, MIXTURE), BatchNull(sense, MIXTURE)
    q = at(batch, new, shift=np.zeros(12), tau=1e-3, v=1e-12)
    one, other = log_bf(old, q, batch), log_bf(new, q, batch)
    near = np.abs(one) < 20.0
    assert near.sum() > 150
    assert_allclose(other[near], one[near], rtol=0, atol=0.05)


@pytest.mark.parametrize("sense", ["gain", "either"])
def test_scores_are_differences_of_the_log_likelihood(sense):
    batch, model, h = drawn(), replace(MODEL, sense=sense), 1e-4
    q = at(batch, model)
    table = model.table(q, units(batch))
    stats = model.e_step(q, table)[2]

    def value(**changes):
        return model.e_step(replace(q, **changes), table)[2].bound

    for t, unit in enumerate(np.eye(12)):
        slope = (value(shift=q.shift + h * unit) - value(shift=q.shift - h * unit)) / (2 * h)
        assert slope == pytest.approx(stats.shift[t, 2], abs=2e-5), names_of_types()[t]
    of_tau = [value(tau=q.tau * np.exp(s * h)) for s in (-1.0, 1.0)]
    assert (of_tau[1] - of_tau[0]) / (2 * h) == pytest.approx(stats.spread[0], abs=2e-5)
    near, far = stats.shift[:, 0].sum(), stats.shift[:, 1].sum()
    of_v = [value(v=float(expit(logit(q.v) + s * h))) for s in (-1.0, 1.0)]
    assert (of_v[1] - of_v[0]) / (2 * h) == pytest.approx(far - q.v * (near + far), abs=2e-5)


def test_the_profile_is_the_log_likelihood_at_each_tau():
    batch = drawn()
    q = at(batch, looks=7)
    table = MODEL.table(q, units(batch))
    assert q.comparing
    found = MODEL.e_step(q, table)[2].profile
    expected = [MODEL.e_step(replace(q, tau=float(t)), table)[2].bound for t in TAUS]
    assert_allclose(found, expected, rtol=1e-9)
    assert not MODEL.e_step(replace(q, looks=0), table)[2].profile.any()


def test_oxidation_is_found_and_taken_as_the_null():
    batch = simulate_scenario(np.random.default_rng(2), SCENARIOS["null_oxo5"], 150)[0]
    model = MODEL
    reduce = InProcess(model, [batch])
    q = model.init(reduce.observe(), np.random.default_rng(0))
    steps = list(islice(Driver(loop_of(model), model, q, reduce), 16))
    rises = np.diff([s.elbo for s in steps])
    assert (rises >= 0.0).all()
    q = steps[-1].q
    marked = np.isin(names_of_types(), ["G>T", "C>A"])
    errors = standard_errors(observed_information(model, q, batch))
    off = np.abs(q.shift - np.where(marked, np.log(5.0), 0.0)) / errors.of_type
    assert off.max() < 4.0
    assert errors.of_context is None
    # In parts the information is the same.
    parts = [observed_information(model, q, batch.take(at)) for at in (slice(50), slice(50, None))]
    assert_allclose(standard_errors(parts[0] + parts[1]).of_type, errors.of_type, rtol=1e-7)
    m0, m1, _ = model.e_step(q, model.table(model.anchored(q), units(batch)))
    assert (m1 - m0).max() < 8.0


@pytest.mark.thorough
def test_moments_of_both_rates_are_those_of_a_grid():
    batch, model = drawn("af.01_oxo5", 4, depth=1000), BatchNull()
    q = at(batch, model, pi=0.3, tau=0.3, v=0.02)
    of = units(batch)
    found = posterior.rates(model, q, model.table(q, of))
    best = int(log_bf(model, q, batch).argmax())
    for u in (0, 4, best):
        unit = of.alt_reads[u], of.depth[u], of.case, int(of.kind[u]), q

        def value(*powers, unit=unit):
            m0, m1 = brute_force(*unit, powers)
            return float(np.logaddexp(np.log1p(-q.pi) + m0, np.log(q.pi) + m1))

        for rate, first, second in zip(found, ((1, 0), (0, 1)), ((2, 0), (0, 2)), strict=True):
            mean, square = (np.exp(value(*p) - value(0, 0)) for p in (first, second))
            assert rate.mean[u] == pytest.approx(mean, rel=0.02)
            assert rate.sd[u] == pytest.approx(np.sqrt(square - mean**2), rel=0.03)
    for rate in found:
        assert (np.diff(rate.quantiles, axis=1) >= 0.0).all()
