"""A panel of controls: its limit, other code's integrals, derivatives, carriers, tau."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.contract.case_panel_null import brute_force
from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.core.state import leaves
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.two_groups import posterior
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE

MODEL = PanelNull(alternatives=MIXTURE)


def drawn(name="simpanel_carriers", locations=12, seed=0, **changes):
    scenario = replace(SCENARIOS[name], **({"n_variants": 2, "carriers": 0.05} | changes))
    return simulate_scenario(np.random.default_rng(seed), scenario, locations)[0]


def at(batch, model=MODEL, **changes):
    q = model.init(model.observe(batch), np.random.default_rng(0))
    return replace(q, **({"shift": np.linspace(-0.3, 0.6, 12), "tau": 0.4} | changes))


def log_bf(model, q, batch):
    m0, m1, _ = model.e_step(q, model.table(q, units(batch)))
    return m1 - m0


def same_members(batch, name):
    """The same counts, their control one sample."""
    return Counts(batch.counts, batch.ref, batch.case, member=name)


@pytest.mark.parametrize("sense", ["gain", "either"])
def test_one_member_that_carries_nothing_is_the_batch_aware_null_to_the_bit(sense):
    batch = drawn()
    batch = same_members(batch, np.where(batch.case, -1, 0))
    one = PanelNull(sense, MIXTURE, contamination=0.0)
    old = BatchNull(sense, MIXTURE)
    for looks in (0, 7):
        q, p = at(batch, old, looks=looks), at(batch, one, looks=looks)
        a, b = (m.e_step(x, m.table(x, units(batch))) for m, x in ((old, q), (one, p)))
        assert np.array_equal(a[0], b[0])
        assert np.array_equal(a[1], b[1])
        for name, value in leaves(a[2]):
            assert np.array_equal(value, getattr(b[2], name)), name
        assert not b[2].members.any()
        here, there = old.global_step(q, a[2]), one.global_step(p, b[2])
        for name, value in leaves(here):
            assert np.array_equal(value, getattr(there, name)), name
    rates = [posterior.rates(m, x, m.table(x, units(batch))) for m, x in ((old, q), (one, p))]
    for first, second in zip(*rates, strict=True):
        assert np.array_equal(first.quantiles, second.quantiles)


@pytest.mark.parametrize("matched", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_both_marginals_equal_a_uniform_grid_by_other_code(matched):
    batch = drawn(locations=4, members=3, member_replicates=1, carriers=0.3)
    model = PanelNull(matched=matched)
    q = at(batch, model, v=0.01)
    of, table = units(batch), model.table(q, units(batch))
    m0, m1, _ = model.e_step(q, table)
    carried = of.alt_reads[:, ~of.case].max(axis=1) > 1000
    assert carried.any()
    for u in [*range(0, len(of), 5), *np.flatnonzero(carried)[:2]]:
        exact = brute_force(model, q, of, u)
        found = np.array([m0[u], m1[u]]) + table.log_binomial[u]
        assert_allclose(found, exact, rtol=0, atol=0.1)


@pytest.mark.parametrize("matched", [False, True])
def test_scores_are_differences_of_the_log_likelihood(matched):
    batch, h = drawn(locations=6), 1e-4
    model = replace(MODEL, matched=matched)
    q = at(batch, model)
    table = model.table(q, units(batch))
    stats = model.e_step(q, table)[2]

    def value(**changes):
        return model.e_step(replace(q, **changes), table)[2].bound

    for p in (0, 4):
        for t in range(0, 12, 3):
            move = np.zeros_like(q.member_shift)
            move[p, t] = h
            slope = value(member_shift=q.member_shift + move)
            slope = (slope - value(member_shift=q.member_shift - move)) / (2 * h)
            assert slope == pytest.approx(stats.members[p, t, 1], abs=2e-5)
    low, high = (value(tau=q.tau * np.exp(s * h)) for s in (-1.0, 1.0))
    assert (high - low) / (2 * h) == pytest.approx(stats.spread[0], abs=1e-4)


def test_members_shifts_sum_to_nothing():
    batch = drawn(locations=12, members=3)
    q = at(batch)
    for careful in (False, True):
        q = MODEL.global_step(q, MODEL.suff_stats(q, batch, MODEL.table(q, units(batch))), careful)
        assert_allclose(q.member_shift.sum(axis=0), 0.0, atol=1e-12)
    again = MODEL.from_vector(q, MODEL.to_vector(q))
    assert_allclose(again.member_shift, q.member_shift, atol=1e-12)


def unit(case, *members, depth=4000):
    """One location with reference A: reads of C in the case and in every member."""
    shown = np.array([case, *members])
    depths = np.broadcast_to(depth, shown.shape)
    counts = np.zeros((1, len(shown), 4), np.int32)
    counts[0, :, 1], counts[0, :, 0] = shown, depths - shown
    return Counts(counts, np.zeros(1, np.int8), np.arange(len(shown)) == 0, member=
                  np.arange(len(shown)) - 1)  # fmt: skip


def alone(batch, **options):
    """Log Bayes factor of its C with hyperparameters of usual libraries."""
    model = PanelNull(alternatives=MIXTURE, **options)
    q = at(batch, model, shift=np.zeros(12), tau=0.5, a=np.full(12, 2.0), b=np.full(12, 1e4),
           member_shift=np.zeros((int(batch.member.max()) + 1, 12)))  # fmt: skip
    return log_bf(model, model.anchored(q), batch)[0]


def test_a_member_that_carries_the_allele_hides_no_variant():
    clean, carried = unit(40, 1, 0, 1, 1, 0, 1), unit(40, 1, 0, 1, 1, 0, 2000)
    assert alone(clean) > 6.0
    assert alone(carried) > alone(clean) - 2.0
    assert alone(carried, contamination=0.0) < alone(carried) - 2.0
    # An artefact that every member has is none.
    assert alone(unit(40, 30, 44, 38, 51, 29, 40)) < -1.0


def test_a_large_panel_outweighs_no_control_of_few_reads():
    reads = [15, 15] + [0] * 12
    depth = np.array([30, 30] + [4000] * 12)
    assert alone(unit(*reads, depth=depth), matched=True) < 0.0
    # Without a control of the person it is a variant, if one of the germline.
    assert alone(unit(*reads[:1], *reads[2:], depth=depth[1:])) > 6.0
