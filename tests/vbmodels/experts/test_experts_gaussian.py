"""The additive model of a number: closed forms against dense ones, recovery, and coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from tests.vbmodels.experts.coded_rows import cut_coded, ran
from vbmodels.core.fit import fit
from vbmodels.core.state import from_bytes, to_bytes
from vbmodels.experts.additive.blocks import BlockFit, Layout, climbed
from vbmodels.experts.additive.gaussian import (
    SHARES,
    Errors,
    GaussianAdditive,
    GaussianChoice,
    ProcessSums,
)
from vbmodels.experts.additive.held_out import SpreadSums
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.rows import FOLDS, HELD
from vbmodels.experts.shared_rows import units_of
from vbmodels.experts.terms.curves import Curves
from vbmodels.experts.terms.interactions import LEVELS, parts_of_number
from vbmodels.experts.terms.likelihoods import Gaussian
from vbmodels.experts.terms.step_rows import FEW_PARTITIONS, PARTS, TargetRows


def surface(rng, n):
    x = rng.standard_normal((n, 4))
    x[:, 1] = rng.random(n) < 0.4
    return x, np.sin(2.0 * x[:, 0]) + x[:, 1] + x[:, 2] * x[:, 3]


def target_rows(x, y, parts=1):
    bounds = [len(y) * i // parts for i in range(parts + 1)]
    batches = cut_coded(x, np.ones(len(y)), parts)
    pairs = zip(batches, bounds[:-1], bounds[1:], strict=True)
    return [TargetRows(rows, y[a:b]) for rows, a, b in pairs]


def standard(y):
    return (y - y.mean()) / y.std()


def test_the_evidence_is_that_of_the_dense_gaussian():
    rng = np.random.default_rng(3)
    x, f = surface(rng, 90)
    (batch,) = target_rows(x, standard(f + rng.standard_normal(90)))
    observed = DesignSummary.of(batch.rows)
    found = ran(climbed(BlockFit.first(observed, -1, Gaussian(0.5), 0.0), observed, 0.0), [batch])
    layout = Layout.of(observed, found.terms)
    columns = np.stack([
        batch.rows.project(one, terms=found.terms) for one in np.eye(found.coefficients.size)
    ], axis=1)  # fmt: skip
    precision = layout.precision(found.variances)
    covariance = (columns / precision) @ columns.T + found.noise * np.eye(90)
    dense = multivariate_normal(np.zeros(90), covariance).logpdf(batch.y)
    assert found.evaluation.value == pytest.approx(dense, rel=1e-8)
    mean = (columns / precision).T @ np.linalg.solve(covariance, batch.y)
    assert_allclose(found.coefficients, mean, atol=1e-8)
    assert_allclose(
        found.hessian(observed), columns.T @ columns / found.noise + np.diag(precision), atol=1e-8
    )


def test_a_pair_and_curves_are_found_and_intervals_cover():
    rng = np.random.default_rng(0)
    x, f = surface(rng, 1200)
    y = f + 0.5 * rng.standard_normal(1200)
    model = GaussianAdditive()
    q = fit(model, target_rows(x, standard(y)), max_iter=200).q
    assert q.chosen.form == "curves"
    assert q.chosen.pairs_weight > 0.9
    assert [2, 3] in q.fits[-1].terms.pairs.tolist()
    assert_allclose(q.fits[-1].noise, 0.25 / y.var(), rtol=0.15)
    new, truth = surface(rng, 2000)
    (rows,) = cut_coded(x, np.ones(1200), new=new)
    posterior = model.posterior(q)
    mean, sd = (v * y.std() for v in posterior.predict(rows))
    away = truth - mean - y.mean()
    assert away.std() < 0.35
    drawn = away + 0.5 * rng.standard_normal(2000)
    assert 0.94 < np.mean(np.abs(drawn) < 1.96 * sd) < 0.965
    assert 1.0 - np.mean(drawn**2) / np.var(truth) > 0.75
    again = from_bytes(to_bytes(posterior), type(posterior))
    assert_allclose(again.predict(rows)[0] * y.std(), mean)


def test_the_noise_of_new_rows_does_not_hold_the_uncertainty_of_coefficients():
    rng = np.random.default_rng(6)
    model, found = GaussianAdditive(), []
    for _ in range(10):
        x, f = surface(rng, 120)
        y = f + rng.standard_normal(120)
        q = fit(model, target_rows(x, standard(y)), max_iter=200).q
        found.append((model.posterior(q).noise * y.var(), q.chosen.errors[-1] * y.var()))
    noise, error = np.mean(found, axis=0)
    assert noise == pytest.approx(1.0, abs=0.15)
    assert error > 1.2


def test_columns_that_say_nothing_leave_the_mean():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((400, 3))
    model = GaussianAdditive()
    q = fit(model, target_rows(x, standard(rng.standard_normal(400))), max_iter=200).q
    posterior = model.posterior(q)
    (rows,) = cut_coded(x, np.ones(400), new=x[:50])
    mean, sd = posterior.predict(rows)
    assert np.abs(mean).max() < 0.3
    assert_allclose(sd, 1.0, atol=0.1)


NO_GAPS = np.array([80.0, 0.0]), np.array([100.0, 0.0]), np.zeros(4)
"""Squared errors of rows without gaps and with, their weights, and those of missing lines."""


def of_whole_rows(products):
    return Errors(np.stack([products, 0.0 * products]), np.array([500.0, 0.0]), np.zeros(4))


def test_the_weight_of_pairs_minimises_the_squared_error():
    rng = np.random.default_rng(4)
    errors = rng.standard_normal((4, 4)) @ rng.standard_normal((4, 500))
    errors[2] *= 0.1
    errors[3] = 0.8 * errors[2] + 0.05 * rng.standard_normal(500)
    chosen = GaussianChoice.of(of_whole_rows(errors @ errors.T))
    assert chosen.form == "curves"
    grid = np.linspace(0.0, 1.0, 1001)
    own, both = errors[2], errors[3]
    loss = [np.mean(((1.0 - u) * own + u * both) ** 2) for u in grid]
    assert chosen.pairs_weight == pytest.approx(grid[np.argmin(loss)], abs=2e-3)
    assert chosen.errors[-1] == pytest.approx(min(loss), rel=1e-4)
    none = GaussianChoice.of(of_whole_rows(np.diag([4.0, 3.0, 2.0, 2.5]) + 2.0))
    assert none.pairs_weight == 0.0 or none.errors[-1] < none.errors[2]


def test_a_table_of_zeros_and_ones_has_levels_without_curves():
    x = (np.random.default_rng(5).random((60, 3)) < 0.5).astype(float)
    nothing = np.ones(3, bool)
    how = x, np.ones((60, 3), bool), np.ones(60), nothing, np.arange(3)
    assert Curves.of(*how) is None
    bare = Curves.of(*how, True)
    assert not bare.curved.size
    assert bare.sizes.tolist() == [2, 2, 2]


def three_ways(rng, n):
    """The sign of a product of three columns, which neither curves nor pairs represent."""
    x = rng.standard_normal((n, 4))
    return x, np.sign(x[:, 0] * x[:, 1] * x[:, 2]) + 0.5 * x[:, 3]


def process_rows(x, y, parts=1, new=None):
    y = standard(y)
    if new is not None:
        return cut_coded(x, np.ones(len(y)), new=new, joint=True, bare=True, y=y)[0]
    batches = cut_coded(x, np.ones(len(y)), parts, joint=True, bare=True, y=y)
    cut = np.split(y, np.cumsum([one.size for one in batches])[:-1])
    return [TargetRows(rows, own) for rows, own in zip(batches, cut, strict=True)]


def test_a_process_has_its_share_where_pairs_are_not_enough_and_intervals_cover():
    rng = np.random.default_rng(7)
    x, f = three_ways(rng, 1200)
    y = f + 0.3 * rng.standard_normal(1200)
    model = GaussianAdditive()
    q = fit(model, process_rows(x, y, 3), max_iter=200).q
    posterior = model.posterior(q)
    assert 0.5 < q.chosen.process_weight == posterior.weight
    new, truth = three_ways(rng, 2000)
    rows = process_rows(x, y, new=new)
    mean, sd = posterior.predict(rows)
    w = posterior.weight
    both = (1.0 - w) * posterior.part.project(rows) + w * posterior.process.project(rows)
    assert_allclose(mean, both, rtol=1e-12)
    drawn = (truth + 0.3 * rng.standard_normal(2000) - y.mean()) / y.std()
    alone = drawn - posterior.part.project(rows)
    assert np.std(drawn - mean) < 0.95 * np.std(alone)
    assert 0.93 < np.mean(np.abs(drawn - mean) < 1.96 * sd) < 0.99  # errors have ends here
    assert np.mean(sd**2) == pytest.approx(np.mean((drawn - mean) ** 2), rel=0.15)
    again = from_bytes(to_bytes(posterior), type(posterior))
    np.testing.assert_array_equal(again.predict(rows), posterior.predict(rows))


def test_rows_far_from_all_landmarks_have_what_these_do_not_span():
    rng = np.random.default_rng(8)
    x, f = three_ways(rng, 300)
    (batch,) = process_rows(x, f)
    process = batch.rows.basis.interaction
    seen = process.unspanned(batch.rows.interaction)
    new = process.unspanned(process_rows(x, f, new=rng.standard_normal((300, 4))).interaction)
    assert new.mean() > 2.0 * seen.mean() > 0.0
    assert new.max() <= process.total


def test_a_share_is_taken_only_as_far_as_held_out_rows_are_sure():
    def chosen(gain, square):
        sums = ProcessSums(
            np.outer([1.0, 0.0], gain * SHARES), square * SHARES**2, SpreadSums(3.0, 100.0)
        )
        errors = np.array([1.0, 0.9, 0.8, 0.8, 0.8])
        return GaussianChoice("curves", 0.0, errors, *NO_GAPS, spread=0.01).shared(sums)

    sure, unsure = chosen(20.0, 20.0), chosen(2.0, 20.0)
    assert (sure.process_weight, unsure.process_weight) == (1.0, 0.0)
    assert sure.errors[-1] == pytest.approx(0.6)
    assert sure.spread == pytest.approx(0.03)
    assert (unsure.errors[-1], unsure.spread) == (0.8, 0.01)


def test_a_process_sees_numbers_by_rank_and_not_those_of_parts_that_are_held_out():
    rows = np.array([1.0, 2.0, 0.0, 1.0, 1.0])
    found = parts_of_number(rows, np.array([-1.0, 8.0, 0.0, 1e300, 2.0]))
    assert found.shape == (5, LEVELS)
    assert found.sum(1).tolist() == rows.tolist()
    assert found.argmax(1)[[0, 4, 1, 3]].tolist() == [1, 3, 5, 7]
    assert not parts_of_number(np.zeros(3), np.zeros(3)).any()
    x, f = three_ways(np.random.default_rng(9), 300)
    (batch,) = process_rows(x, f)
    held = batch.rows.rows.fold(FOLDS) < HELD
    (other,) = process_rows(x, np.where(held, -f, f))
    np.testing.assert_array_equal(other.rows.interaction, batch.rows.interaction)


def test_copies_are_held_out_together_however_many_and_other_rows_by_themselves():
    rng = np.random.default_rng(0)
    times = rng.integers(1, 9, 100)
    cell, label = np.repeat(np.arange(100), times), np.repeat(rng.standard_normal(100), times)
    assert_array_equal(units_of(cell, label)[0], cell)
    other = rng.standard_normal(cell.size)
    units, copied = units_of(cell, other)
    assert not copied
    assert np.unique(units).size == cell.size
    order = rng.permutation(cell.size)
    assert_array_equal(units_of(cell[order], other[order])[0], units[order])
    assert units_of(np.tile(np.arange(30), 3), np.tile(rng.standard_normal(30), 3))[1]
    assert not units_of(np.tile(np.arange(30), 3), rng.standard_normal(90))[1]


@pytest.mark.parametrize("together", [0.0, 0.9])
@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_intervals_of_rows_with_a_gap_and_without_hold_what_they_say(gaps, together):
    """Where what is missing matters; another column says part of it."""
    inside = np.zeros((2, 2))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((2400, 3))
        x[:, 1] = together * x[:, 0] + np.sqrt(1.0 - together**2) * x[:, 1]
        y = standard(2.0 * x[:, 0] + x[:, 1] + 0.3 * rng.standard_normal(2400))
        gone = rng.random(2400) < np.where(np.arange(2400) < 400, gaps, 0.3)
        x[gone, 0] = np.nan
        model = GaussianAdditive()
        posterior = model.posterior(fit(model, target_rows(x[:400], y[:400], 2), max_iter=200).q)
        mean, sd = posterior.predict(cut_coded(x[:400], np.ones(400), new=x[400:])[0])
        held = np.abs(y[400:] - mean) < 1.96 * sd
        inside += [[held[own].sum(), own.sum()] for own in (gone[400:], ~gone[400:])]
    with_gap, without = inside[:, 0] / inside[:, 1]
    assert 0.9 < with_gap < (0.99 if together else 0.97)
    assert 0.91 < without < 0.97


def test_columns_are_kept_of_few_partitions_alone():
    """Those of a table that is cut into many would take far more than the rows."""
    rng = np.random.default_rng(0)
    x, f = surface(rng, 300)
    batches = target_rows(x, standard(f), FEW_PARTITIONS + 3)
    fit(GaussianAdditive(), batches, max_iter=200)
    assert 0 < len(PARTS.kept) <= FEW_PARTITIONS


def test_what_a_gap_adds_is_that_of_its_column_however_many_there_are():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 2))
    y = standard(2.0 * x[:, 0] + 2.0 * x[:, 1] + rng.standard_normal(2000))
    x[rng.random((2000, 2)) < (0.6, 0.05)] = np.nan
    model = GaussianAdditive()
    gaps = model.posterior(fit(model, target_rows(x, y), max_iter=200).q).gaps
    assert_allclose(gaps[0], gaps[1], rtol=0.25)
