"""Columns of every size and unit: their scale, and searches that do not hang on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vbmodels.core.cavi import start
from vbmodels.core.fit import fit
from vbmodels.core.in_process import InProcess
from vbmodels.experts.batch import Rows
from vbmodels.experts.columns import ColumnSums, scaled, too_large
from vbmodels.experts.marginal import MarginalExperts
from vbmodels.experts.published.cavi import BoundedExperts
from vbmodels.experts.searches import Climbing


def sums_of(x, cuts=()):
    first, *rest = (ColumnSums.of(part, np.ones(len(part))) for part in np.split(x, cuts))
    for part in rest:
        first = first + part
    return first


@pytest.mark.parametrize("size", [1.0, 1e155, 1e300, 1e-170, 1e-300])
def test_scale_follows_the_columns_whatever_their_size(size):
    x = np.random.default_rng(0).normal([0.0, 5.0, -1.0], 1.0, (50, 3))
    for cuts in ((), (7, 30)):
        centre, scale = sums_of(size * x, cuts).scaling(True)
        assert_allclose(centre, size * x.mean(0), rtol=1e-12)
        assert_allclose(scale, size * x.std(0), rtol=1e-12)


def test_opposite_ends_of_the_range_have_a_scale():
    x = np.array([[1.7e308], [-1.7e308], [1.7e308], [-1.7e308]])
    for cuts in ((), (1,), (2,)):
        assert_allclose(sums_of(x, cuts).scaling(True), [[0.0], [1.7e308]])


@pytest.mark.parametrize("standardise", [True, False])
def test_constant_columns_become_zero_in_new_rows_too(standardise):
    x = np.column_stack([np.arange(6.0), np.full(6, 2023.0), np.zeros(6), np.ones(6)])
    sums = sums_of(x, (2,))
    centre, scale = sums.scaling(standardise)
    assert_array_equal(centre[1:], [2023.0, 0.0, 1.0])
    assert_array_equal(scale[1:], np.inf)
    new = np.array([[1.0, 1e9, -3.0, 0.0], [2.0, 1.7e308, np.finfo(float).tiny, 7.0]])
    found = scaled(new, centre, scale)
    assert_array_equal(found[:, 1:], 0.0)
    assert_allclose(found[:, 0], (new[:, 0] - centre[0]) / scale[0])
    assert sums.density(centre) <= 0.25


def test_cells_that_overflow_are_found():
    assert too_large(np.array([[1.0, -1e99]])) is None
    assert too_large(np.array([[1.0, 2.0], [3.0, -1e101]])) == (1, 1)
    assert too_large(np.array([[1.0, np.nan]])) == (0, 1)


# Searches.


def unlike(scale, rows=300, keep=slice(None)):
    """Return rows whose second column has another unit; no prior to speak of on its weight."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 2))
    t = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.5 * rng.standard_normal(rows) > 0, 1.0, -1.0)
    return Rows.of((x * [1.0, scale])[keep], t[keep], np.arange(rows)[keep])


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4, 1e8])
def test_a_search_ends_at_the_mode_whatever_the_units(scale):
    model = MarginalExperts(1, taus=(1e-3,), gaussian="none", tolerance=3e-6)
    done = fit(model, [unlike(scale)], max_iter=500)
    assert done.converged
    assert len(done.trace) < 40
    tight = fit(replace(model, tolerance=1e-12), [unlike(1.0)], max_iter=500)
    weights = done.q.points[0].mean[1, 0] * [1.0, scale, 1.0]
    assert_allclose(weights, tight.q.points[0].mean[1, 0], atol=0.05)


def test_a_mixture_is_found_whatever_the_units():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 3))
    t = np.where(np.where(x[:, 0] > 0, x[:, 1] > 0, x[:, 2] < 0), 1.0, -1.0)
    batch = Rows.of(x * [1.0, 1e4, 1.0], t, np.arange(300))
    model = MarginalExperts(2, tau=0.1, shared=False, gaussian="none")
    done = fit(model, [batch], max_iter=3000)
    p = model.posterior(done.q).predict(replace(batch, t=np.zeros(300))).probability
    assert done.converged
    assert -np.mean(np.log(np.where(t > 0, p, 1.0 - p))) < 0.2


@pytest.mark.parametrize("gaussian", ["full", "widths"])
def test_searches_in_other_units_are_resumed_to_the_same_bits(gaussian):
    parts = [unlike(1e4, keep=slice(a, b)) for a, b in ((0, 120), (120, 300))]
    model = MarginalExperts(2, tau=1.0, shared=True, n_restarts=2, draws=4, gaussian=gaussian)
    reduce = InProcess(model, parts)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    steps = list(model.steps(reduce, start(model, q, reduce)))
    assert steps[-1].converged
    for step in steps[:: max(1, len(steps) // 5)]:
        again = list(model.steps(InProcess(model, parts), step.cursor))
        assert again[-1].elbo == steps[-1].elbo


@pytest.mark.parametrize(
    ("away", "rises", "over"), [(1e3, 1, False), (1e-2, 1, True), (1e3, 19, True)]
)
def test_small_rises_far_from_the_top_do_not_end_a_search(away, rises, over):
    """A tiny step on a parabola, after as many small rises: what is left is away^2 / 2."""
    first = Climbing.first(np.zeros(1), -0.5 * away**2, np.array([away]))
    first = replace(first, small=rises, ascent=replace(first.ascent, stride=np.array([1e-9])))
    at = first.ascent.trial[0]
    value = -0.5 * float((away - at[0]) ** 2)
    assert 0.0 < value - first.ascent.value[0] < 1e-2
    after = first.updated(value, away - at, 1e-2)
    assert after.ascent.at[0] == at
    assert after.done == over


# What a fit leaves.


def test_covariances_are_those_of_the_factors():
    model, rng = BoundedExperts(2), np.random.default_rng(0)
    batch = unlike(1.0)
    q = model.init(model.observe(batch), rng)
    far = replace(q, experts=replace(q.experts, mean=q.experts.mean + 1e9))
    (found,) = model.posterior(far).components
    assert_array_equal(found.covariance[1], far.experts.covariance)
    assert_allclose(found.sd[1] ** 2, np.diagonal(far.experts.covariance, axis1=1, axis2=2))
    angular = BoundedExperts(2, "mabn2")
    q = angular.init(angular.observe(batch), rng)
    (found,) = angular.posterior(q).components
    mean = q.experts.mean
    assert_allclose(found.covariance[1], q.experts.second - mean[:, :, None] * mean[:, None, :])
