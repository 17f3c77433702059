"""Samples of locations in which those that differ come sooner."""

from dataclasses import replace

import numpy as np
import pytest

from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.core.state import leaves
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.sampling import differing, numbers, probabilities
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups


def many(seed: int = 0, size: int = 3000, **changes) -> Counts:
    scenario = replace(SCENARIOS["af.01_400_N1"], **({"n_variants": min(24, size // 4)} | changes))
    return simulate_scenario(np.random.default_rng(seed), scenario, size)[0]


@pytest.mark.parametrize("wanted", [100.0, 2000.0])
def test_about_as_many_are_taken_as_are_wanted(wanted):
    number = numbers(differing(many()))
    own = probabilities(number, wanted)
    assert 0.7 * wanted <= own @ number <= wanted
    assert (np.diff(own) >= 0.0).all()
    assert own[-1] == 1.0
    assert own[0] == pytest.approx(0.5 * wanted / 3000.0)


def test_the_level_is_of_a_location_alone():
    counts = many()
    whole = differing(counts)
    cut = [differing(counts.take(rows)) for rows in np.array_split(np.arange(len(counts)), 7)]
    np.testing.assert_array_equal(np.concatenate(cut), whole)


def sums_at(model, q, batch):
    return model.suff_stats(q, batch, model.local_step(q, batch, None))


def models():
    return [TwoGroups(alternatives=MIXTURE), BatchNull(), PanelNull()]


@pytest.mark.parametrize("model", models(), ids=lambda m: type(m).__name__)
def test_a_weight_is_so_many_units(model):
    """A location of weight 2 says what two alike do, one of weight 0 nothing."""
    counts = many(size=12, replicates=2)
    weight = np.array([1.0, 2.0, 0.0, 2.0, 1.0, 3.0] * 2)
    weighted = replace(counts, weight=weight)
    repeated = counts.take(np.repeat(np.arange(12), weight.astype(int)))
    q = model.init(model.observe(repeated), np.random.default_rng(0))
    for one, other in zip(leaves(model.observe(weighted)), leaves(model.observe(repeated)),
                          strict=True):  # fmt: skip
        np.testing.assert_allclose(one[1], other[1], rtol=1e-12)
    sums = [sums_at(model, q, batch) for batch in (weighted, repeated)]
    for one, other in zip(leaves(sums[0]), leaves(sums[1]), strict=True):
        np.testing.assert_allclose(one[1], other[1], rtol=1e-9, atol=1e-9, err_msg=one[0])


@pytest.mark.parametrize("model", models(), ids=lambda m: type(m).__name__)
def test_the_rare_are_estimated_as_from_all(model):
    """A sample that stands for all has pi, rho and w of all: their priors weigh as much less."""
    counts = many(size=12, replicates=2)
    half = replace(counts, weight=np.full(12, 0.5), share=0.5)
    q = model.init(model.observe(counts), np.random.default_rng(0))
    whole, sample = (sums_at(model, q, batch) for batch in (counts, half))
    assert sample.whole == pytest.approx(whole.units)
    a, b = model.global_step(q, whole), model.global_step(q, sample)
    for name in ("pi", "w", "rho", *(("v",) if isinstance(model, BatchNull) else ())):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-9, err_msg=name)


def test_a_sample_estimates_the_sums_of_all():
    """Weights over the share make unbiased sums: their mean over draws is near that of all."""
    counts = many(size=2000, n_variants=20)
    model = BatchNull()
    q = replace(model.init(model.observe(counts), np.random.default_rng(0)), pi=0.002)
    table = model.table(q, units(counts))
    log_m0, log_m1, whole = model.e_step(q, table)
    level = differing(counts)
    own = probabilities(numbers(level), 300.0)[level]
    posterior = 1.0 / (1.0 + np.exp(log_m0 - log_m1) * (1.0 - q.pi) / q.pi)
    by_location = posterior.reshape(-1, 3).sum(axis=1)
    assert by_location.sum() == pytest.approx(whole.called.sum(), rel=1e-6)
    rng = np.random.default_rng(0)
    ours, random = [], []
    for _ in range(200):
        drawn = rng.random(len(own))
        ours.append((by_location / own)[drawn < own].sum())
        random.append(by_location[drawn < 0.15].sum() / 0.15)
    assert np.mean(ours) == pytest.approx(by_location.sum(), abs=4.0 * np.std(ours) / 200**0.5)
    assert np.std(ours) < 0.3 * np.std(random)
