"""Shifts by trinucleotide: their nested step, their names, and where they are those of 12 types."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from tests.vbmodels.variants.contexts_along import along
from tests.vbmodels.variants.scenarios import DEAMINATED, SCENARIOS, simulate_scenario
from vbmodels.variants.counts import units
from vbmodels.variants.two_groups import posterior
from vbmodels.variants.two_groups.batch_null import BatchNull, names_of_types
from vbmodels.variants.two_groups.contexts import (
    CONTEXT_SD,
    N_CONTEXTS,
    UNKNOWN,
    names_of_contexts,
    nested_step,
)
from vbmodels.variants.two_groups.model import MIXTURE

PLAIN = BatchNull(alternatives=MIXTURE)
MODEL = BatchNull(alternatives=MIXTURE, types="trinucleotide")


def drawn(name="af.01_cpg8", locations=12, seed=0, **changes):
    scenario = replace(SCENARIOS[name], **changes)
    return simulate_scenario(np.random.default_rng(seed), scenario, locations)[0]


def start(model, batch):
    return model.init(model.observe(batch), np.random.default_rng(0))


def test_the_nested_step_ends_where_an_optimiser_does():
    rng = np.random.default_rng(1)
    at, score = rng.normal(size=(2, 3, 5))
    information = rng.gamma(1.0, 3.0, (3, 5)) * (rng.random((3, 5)) < 0.7)
    mean, sd = 0.3, 0.4

    def loss(vector):
        b, of = vector[:3], vector[3:].reshape(3, 5)
        log_l = score * (of - at) - 0.5 * information * (of - at) ** 2
        nested = -0.5 * ((of - b[:, None]) / CONTEXT_SD) ** 2
        return -(log_l + nested).sum() + 0.5 * (((b - mean) / sd) ** 2).sum()

    found = nested_step(at, score, information, mean, sd)
    best = minimize(loss, np.zeros(18), tol=1e-12).x
    assert_allclose(found.shift, best[:3], atol=1e-5)
    assert_allclose(found.of_context, best[3:].reshape(3, 5), atol=1e-5)


def test_names_stand_in_the_order_of_places():
    names = names_of_contexts()
    assert len(set(names)) == 12 * N_CONTEXTS
    for t, of in enumerate(names_of_types()):
        assert all(f"[{of}]" in name for name in names[N_CONTEXTS * t : N_CONTEXTS * (t + 1)])
    codes = along(np.array([1, 1, 2]))  # C C G
    place = N_CONTEXTS * names_of_types().index("C>T") + codes[1]
    assert names[place] == "C[C>T]G"
    assert codes[0] == codes[2] == UNKNOWN
    assert set(DEAMINATED) <= set(names)


def test_with_the_shifts_of_twelve_types_it_is_their_model():
    batch = drawn()
    shift = np.linspace(-0.5, 1.5, 12)
    plain, own = PLAIN, MODEL
    q = replace(start(plain, batch), shift=shift)
    of_context = np.repeat(shift[:, None], N_CONTEXTS, axis=1)
    p = replace(start(own, batch), shift=shift, of_context=of_context)
    one = plain.e_step(q, plain.table(q, units(batch)))
    other = own.e_step(p, own.table(p, units(batch)))
    for a, b in zip(one[:2], other[:2], strict=True):
        assert_allclose(b, a, rtol=0, atol=0)
    nested = other[2].shift.reshape(12, N_CONTEXTS, 4)
    assert_allclose(nested.sum(axis=1), one[2].shift, rtol=1e-10, atol=1e-12)
    assert np.count_nonzero(nested[:, :, 0]) > 12
    assert own.elbo(p, other[2]) == pytest.approx(plain.elbo(q, one[2]), rel=1e-12)
    rates = [posterior.rates(m, r, m.rate_table(r, units(batch)))[0].mean
             for m, r in ((plain, q), (own, p))]  # fmt: skip
    assert_allclose(rates[1], rates[0], rtol=1e-12)


def test_a_unit_takes_the_shift_of_its_context_and_a_neighbourless_one_that_of_unknown():
    batch = drawn()
    q = start(MODEL, batch)
    q = replace(q, of_context=np.arange(12.0 * N_CONTEXTS).reshape(12, N_CONTEXTS))
    of = units(batch)
    expected = [q.of_context[k, c] for k, c in zip(of.kind, of.context, strict=True)]
    assert_allclose(q.shifts[q.group(of)], expected)
    alone = units(replace(batch, context=None))
    assert_allclose(q.shifts[q.group(alone)], q.of_context[alone.kind, UNKNOWN])
    assert_allclose(q.group(of), N_CONTEXTS * of.kind + of.context)
    kept = of.take(np.array([4, 1]))
    assert_allclose(kept.context, of.context[[4, 1]])
