"""The probit GP for bags: features, likelihood, searches, predictions, sampler, bad inputs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from reproduce.milgp_logistic import LogisticGP
from tests.vbmodels.bags.gp_bags import ONE, evaluate, simulated
from vbmodels.bags.bags import Instances, bags
from vbmodels.bags.mil_gp.features import KernelOptions, feature_map
from vbmodels.bags.mil_gp.gibbs import GibbsGP
from vbmodels.bags.mil_gp.likelihood import CACHE, BagTerms, PointsWithCurvature
from vbmodels.bags.mil_gp.model import DirectGP, OneSided
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import MultiLabelBags, Observed
from vbmodels.core.fit import fit
from vbmodels.core.state import same_bits

# What is summed before a fit.


# Features.


@pytest.mark.parametrize("kernel", ["rbf", "linear+rbf"])
def test_features_give_the_kernel_back(kernel):
    data = simulated()
    options = replace(ONE, kernel=kernel, n_inducing=10)
    f = feature_map(options, Observed.of(data, 1000, 0), np.random.default_rng(0))
    rows = data.modalities[0].features
    (columns,), (residual,) = f.base(rows)
    phi = columns * f.weights[0]
    x = f.scaled(rows)
    variance = options.constant_variance + 3.0 * f.rbf
    variance += 4.0 * (x**2).sum(1) if "linear" in kernel else 0.0
    assert_allclose((phi**2).sum(1) + 3.0 * residual, variance, rtol=1e-9)
    if f.rbf:
        at_points = f.base(f.points * f.divisor * f.scale + f.mean)[1][0]
        assert at_points.max() < 1e-4


# The likelihood.


def test_gradient_is_the_derivative_and_curvature_that_of_negative_bags():
    data = simulated()
    f = feature_map(ONE, Observed.of(data, 1000, 0), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    w = rng.standard_normal((1, 1, f.n_columns))

    def at(w, d=data):
        return evaluate(f, w, d)

    step = rng.standard_normal(w.shape)
    rise = (at(w + 1e-5 * step).value - at(w - 1e-5 * step).value) / 2e-5
    assert_allclose(rise[0, 0], (at(w).gradient * step).sum(), rtol=1e-7)
    negative = bags(data.modalities, np.zeros(data.n_bags))
    found = PointsWithCurvature(f, w, np.ones((1, 1), bool)).matrix(negative)[0, 0]
    change = at(w - 1e-5 * step, negative).gradient - at(w + 1e-5 * step, negative).gradient
    from vbmodels.core.linalg import unpack

    assert_allclose(unpack(found) @ step[0, 0], change[0, 0] / 2e-5, rtol=1e-5)


def test_a_positive_bag_far_from_zero_does_not_underflow():
    """The text's normaliser is exactly 0 for 2000 instances at -9, and for any at -40."""
    for t in (-9.0, -36.0, -40.0, -200.0):
        at = np.full((2000, 1), t)
        terms = BagTerms.at(at, np.array([0, 2000]), np.ones((1, 1), np.int8))
        expected = np.log(2000) + stats.norm.logsf(-t)
        assert_allclose(terms.value, expected, rtol=1e-12)
        assert_allclose(terms.slope.sum(), np.exp(stats.norm.logpdf(t) - stats.norm.logcdf(t)))
    terms = BagTerms.at(np.full((2000, 1), 60.0), np.array([0, 2000]), np.zeros((1, 1), np.int8))
    assert_allclose(terms.value, 2000 * stats.norm.logsf(60.0))


@pytest.mark.parametrize("form", ["laplace", "gaussian"])
def test_a_positive_bag_of_thousands_has_a_finite_curvature(form):
    """There w is 0 and (1 + w) / w beyond all numbers, at some points of the fit."""
    rng = np.random.default_rng(0)
    sizes = np.r_[6000, rng.integers(3, 8, 11)]
    bag = np.repeat(np.arange(12), sizes)
    rows = Instances.from_rows(bag, rng.standard_normal((len(bag), 2)), 12)
    data = bags([rows], (np.arange(12) % 2 == 0).astype(int))
    options = KernelOptions(length_scales=(1.0,), amplitudes=(10.0,), n_inducing=10)
    found = fit(DirectGP(options, posterior_form=form), [data], max_iter=300)
    assert np.isfinite(found.q.precision).all()
    assert np.isfinite(found.q.evidence).all()
    terms = BagTerms.at(np.full((6000, 1), 3.0), np.array([0, 6000]), np.ones((1, 1), np.int8))
    assert_array_equal(terms.slope * terms.root_odds[0], 0.0)


def test_memory_of_columns_changes_no_bit_and_goes_with_the_batch():
    data = simulated()
    before = len(CACHE.kept)
    fresh, kept = (fit(DirectGP(ONE), [data]).q for _ in range(2))
    assert same_bits(kept, fresh)
    assert len(CACHE.kept) == before + 1
    del data
    assert len(CACHE.kept) == before


# Fits.


def test_classes_fitted_together_are_those_fitted_alone():
    data = simulated()
    other = (np.arange(40) % 4 == 0).astype(np.int8)
    both = MultiLabelBags(data, np.stack([data.label, other], 1))
    options = replace(ONE, length_scales=(0.5, 1.0), amplitudes=(1.0, 3.0), sample=10_000)
    model = DirectGP(options, tolerance=1e-12)
    together = fit(model, [both]).q
    observed = model.observe(both)
    f = feature_map(options, observed, np.random.default_rng(0))
    for c, labels in enumerate((data.label, other)):
        alone = bags(data.modalities, labels)

        class Same(DirectGP):
            def init(self, observed, rng):
                return replace(super().init(observed, rng), features=f)

        q = fit(Same(options, tolerance=1e-12), [alone]).q
        assert q.kernel[0] == together.kernel[c]
        assert_allclose(q.evidence[:, 0], together.evidence[:, c], atol=1e-6)
    found = predict(model.posterior(together), both)
    assert len(found) == 2
    assert found[1].bag_probability.shape == (40,)


def test_the_gaussian_is_one_wherever_the_search_ended():
    """Where L-BFGS stops depends on rounding; the nearest Gaussian does not."""
    data = simulated()
    options = KernelOptions(n_inducing=10)
    ends = []
    for tolerance in (1e-4, 1e-6):
        q = fit(DirectGP(options, tolerance=tolerance, rise=1e-9), [data]).q
        ends.append((int(q.kernel[0]), q.points[q.kernel[0], 0]))
    assert ends[0][0] == ends[1][0]
    assert_allclose(ends[0][1], ends[1][1], atol=1e-3)


# Bad inputs.


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("model", [DirectGP(ONE), LogisticGP(), GibbsGP(ONE, draws=9)])
def test_bags_of_one_label_are_fitted_with_a_warning(model, label):
    data = simulated()
    data = bags(data.modalities, np.full(40, label))
    with pytest.warns(OneSided, match="rest on the prior"):
        q = fit(model, [data]).q
    if isinstance(model, DirectGP):
        found = predict(model.posterior(q), data)[0].bag_probability
        assert (found > 0.5).all() if label else (found < 0.5).all()


def test_several_modalities_are_refused_and_bag_features_are_used():
    data = simulated()
    with pytest.raises(ValueError, match="one modality"):
        fit(DirectGP(ONE), [bags([*data.modalities, *data.modalities], data.label)])
    with_own = bags(data.modalities, data.label, np.arange(40.0)[:, None])
    assert fit(DirectGP(ONE), [with_own]).q.features.mean.size == 4
