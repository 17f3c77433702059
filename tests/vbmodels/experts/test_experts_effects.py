"""What columns and pairs add, as reports and pictures show it, is what predictions change by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.experts.additive.gaussian import GaussianAdditive
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.effects import (
    QUANTILES,
    correlated,
    effects_of,
    group_effects,
    pair_effects_of,
)
from vbmodels.experts.terms.step_rows import TargetRows
from vbmodels.tables.encoding import ColumnSums, Encoded

MODEL = AdditiveExperts(1)
NUMBERS = [Encoded(name, "number") for name in "abc"]


def labels(rng, logit):
    return np.where(rng.random(len(logit)) < 1.0 / (1.0 + np.exp(-logit)), 1.0, -1.0)


def test_an_effect_is_the_change_of_the_log_odds():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.exponential(1.0, 500), rng.random(500) < 0.4, np.full(500, 3.0)])
    t = labels(rng, 3.0 * np.sign(np.abs(x[:, 0] - 1.0) - 0.5) + x[:, 1])
    scaling = ColumnSums.of(x, t).scaling(True)
    batches = cut_coded(x, t)
    posterior = MODEL.posterior(fit(MODEL, batches).q)
    effects = effects_of(posterior.part, NUMBERS, scaling, batches[0].basis)
    assert [one.column for one in effects] == ["a", "b"]  # the largest first, no constant
    curve, bars = effects
    assert curve.kind == "number"
    assert_allclose([curve.at.min(), curve.at.max()], [x[:, 0].min(), 6.0], atol=2.0)
    assert curve.at.max() <= x[:, 0].max() + 1e-9
    assert set(np.round(curve.data, 6)) <= set(np.round(x[:, 0], 6))  # quantiles of the data
    assert bars.levels == ("0", "1")
    for one, column, at in ((curve, 0, curve.at), (bars, 1, [0.0, 1.0])):
        rows = np.tile([0.7, 1.0, 3.0], (len(at), 1))
        rows[:, column] = at
        (batch,) = cut_coded(x, t, new=rows)
        odds = posterior.log_odds(batch)
        assert_allclose(one.mean - one.mean[0], odds - odds[0], atol=1e-9)
        assert max(one.sd) > 0.05
    (own,) = cut_coded(x, t)
    assert abs(np.interp(x[:, 0], curve.at, curve.mean).mean()) < 0.05
    low, high = np.interp(np.quantile(x[:, 0], [0.1, 0.9]), curve.at, curve.mean)
    assert_allclose(curve.change, high - low, atol=0.3)
    assert curve.level == ""
    assert_allclose(bars.change, bars.mean[1] - bars.mean[0])
    assert bars.level == "1"
    assert bars.sure == (abs(bars.change) > 1.96 * bars.change_sd > 0.0)
    assert_allclose(curve.times(2.0).change_sd, 2.0 * curve.change_sd)
    assert_allclose(bars.mean @ [0.6, 0.4], 0.0, atol=0.02 * np.ptp(bars.mean))
    assert own.size == 500


def test_columns_that_correlate_are_surer_of_what_they_add_together():
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal((2, 500))
    x = np.column_stack([one, other, 0.1 * other - one])
    t = labels(rng, 2.0 * one)
    scaling, batches = ColumnSums.of(x, t).scaling(True), cut_coded(x, t)
    part = MODEL.posterior(fit(MODEL, batches).q).part
    how = NUMBERS, scaling, batches[0].basis
    groups = correlated(x, "abc")
    assert groups == [{"a": 1.0, "c": -1.0}]
    (both,) = group_effects(part, *how, groups)
    alone = {effect.column: effect for effect in effects_of(part, *how)}
    assert_allclose(both.change, alone["a"].change - alone["c"].change)
    assert 0.0 < both.change_sd < min(alone["a"].change_sd, alone["c"].change_sd)
    assert_allclose(both.mean.mean(), 0.0, atol=0.1 * np.ptp(both.mean))
    at = np.searchsorted(QUANTILES, [0.1, 0.9])
    assert_allclose(both.mean[at[1]] - both.mean[at[0]], both.change)
    apart = np.abs(QUANTILES - 0.5) > 0.25
    assert np.all(np.abs(both.mean[apart]) > 1.96 * both.sd[apart])
    assert group_effects(part, *how, [{"a": 1.0, "none": 1.0}]) == ()
    # Of c no row may have a cell where a has one: then its direction is not known.
    (open_,) = group_effects(part, *how, [{"a": 1.0, "c": 0.0}])
    assert_allclose(open_.change, alone["a"].change)


def test_a_category_has_a_bar_for_every_level_with_its_rows():
    """Levels of the reference and missing cells too; bars are the log odds less their mean."""
    rng = np.random.default_rng(2)
    level = rng.choice(4, 600, p=[0.4, 0.3, 0.2, 0.1])
    x = np.column_stack([level == 0, level == 1, level == 3]).astype(float)
    t = labels(rng, np.array([1.0, -1.0, 0.0, 2.0])[level])
    counts = [int(np.sum(level == k)) for k in (0, 1, 2, 3)]
    one = Encoded("by", "category", ("car", "bus"), ("foot",), missing=True, cells=tuple(counts))
    scaling = ColumnSums.of(x, t).scaling(True)
    (batch,) = cut_coded(x, t)
    posterior = MODEL.posterior(fit(MODEL, [batch]).q)
    (bars,) = effects_of(posterior.part, [one], scaling, batch.basis)
    assert bars.levels == ("car", "bus", "missing", "foot")
    assert bars.data.tolist() == [counts[0], counts[1], counts[3], counts[2]]
    (new,) = cut_coded(x, t, new=np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    odds = posterior.log_odds(new)
    assert_allclose(bars.mean, odds - bars.data @ odds / 600.0, atol=1e-9)
    most = int(np.argmax(bars.data * bars.mean**2))
    assert (bars.level, bars.change) == (bars.levels[most], pytest.approx(bars.mean[most]))
    assert bars.change_sd == pytest.approx(bars.sd[most])


def test_a_pair_is_the_mean_of_what_it_adds():
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.exponential(1.0, 900), rng.random(900) < 0.4, rng.random(900)])
    t = labels(rng, 3.0 * np.sign((x[:, 0] - 0.7) * (x[:, 1] - 0.5)))
    (batch,) = cut_coded(x, t)
    model = AdditiveExperts(2, taus=(10.0,), n_restarts=1, evaluations=5)
    posterior = model.posterior(fit(model, [batch], max_iter=5000).q)
    scaling = ColumnSums.of(x, t).scaling(True)
    first, *_ = pair_effects_of(posterior.pairs, NUMBERS, scaling, batch.basis)
    assert first.columns == ("a", "b")
    assert first.across == ("0", "1")  # the larger first
    assert len(first.rows) == 8
    assert first.rows[-1] == first.rows[-2].replace("up to", "above")
    assert abs(float(first.rows[3].removeprefix("up to ")) - np.median(x[:, 0])) < 0.05
    values = first.mean
    assert values[0, 1] < -1.0 < 1.0 < values[-1, 1]  # of 1, low cells lower and high ones raise
    assert values[-1, 0] < -1.0 < 1.0 < values[0, 0]
    assert 0.0 < first.sd.min() < first.sd.max() < 1.0
    assert first.spread > 1.0
    assert pair_effects_of(None, NUMBERS, scaling, batch.basis) == ()


@pytest.mark.thorough
def test_bands_cover_the_truth():
    """95 % bands of curves that are there and of one that is not, over simulated tables."""
    truths = (lambda u: np.sin(3.0 * u), np.abs, lambda u: 0.0 * u)
    hits: list[list[float]] = [[], [], []]
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((500, 3))
        y = sum(f(x[:, k]) for k, f in enumerate(truths)) + rng.standard_normal(500)
        (rows,) = cut_coded(x, np.ones(500))
        model = GaussianAdditive(pairs=False)
        q = fit(model, [TargetRows(rows, (y - y.mean()) / y.std())], max_iter=200).q
        scaling = ColumnSums.of(x, np.ones(500)).scaling(True)
        for one in effects_of(model.posterior(q).part, NUMBERS, scaling, rows.basis):
            k = "abc".index(one.column)
            low, high = np.quantile(x[:, k], [0.02, 0.98])
            inside = (one.at > low) & (one.at < high)
            truth = truths[k](one.at) - truths[k](x[:, k]).mean()
            away = np.abs(y.std() * one.mean - truth)
            hits[k].append(float(np.mean((away < 1.96 * y.std() * one.sd)[inside])))
    assert 0.93 < np.mean(hits) < 0.995
    assert min(np.mean(one) for one in hits) > 0.85
