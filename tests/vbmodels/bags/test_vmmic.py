"""vMMIC beyond the contract: kernels, the collapsed likelihood, loops, predictions, refusals."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import log_ndtr

from tests.contract import vmmic
from tests.vbmodels.bags.in_numpy import replaced
from vbmodels.bags.bags import Instances, bags, split
from vbmodels.bags.simulate import simulate
from vbmodels.bags.vmmic import model as vmmic_model
from vbmodels.bags.vmmic.gibbs import GibbsVMMIC
from vbmodels.bags.vmmic.layout import Observed
from vbmodels.bags.vmmic.likelihood import Likelihood
from vbmodels.bags.vmmic.local import Tails
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.algorithm import Show
from vbmodels.core.driver import Frames
from vbmodels.core.fit import InProcess, fit
from vbmodels.core.special import inverse_mills
from vbmodels.core.state import same_bits


def three_kinds(seed=0, n=60):
    """Three modalities of different widths, two features of the bags' own, some bags empty."""
    rng = np.random.default_rng(seed)
    parts = []
    for width in (3, 1, 2):
        bag = np.repeat(np.arange(n), rng.integers(0, 4, n))
        parts.append(Instances.from_rows(bag, 2.0 + 5.0 * rng.normal(size=(bag.size, width)), n))
    label = rng.integers(-1, 2, n)
    return bags(parts, label, rng.normal(size=(n, 2)))


@pytest.fixture(scope="module")
def setting():
    data = three_kinds()
    scaling = Observed.of(data).scaling(standardise=True)
    t = 0.7 * np.random.default_rng(1).normal(size=scaling.layout.dim)
    return data.labelled(), scaling, t


def test_scaling_is_over_labelled_bags_and_leaves_constants_alone():
    data = three_kinds()
    features = data.modalities[1].features
    features[:] = 7.0
    scaling = Observed.of(data).scaling(standardise=True)
    known = data.labelled().modalities[0].features
    assert_allclose(scaling.means[0], known.mean(0))
    assert_allclose(scaling.scales[0], known.std(0))
    assert scaling.scales[1].tolist() == [1.0]
    assert_allclose(features @ np.diag(1 / scaling.scales[1]) - scaling.means[1], 0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 123456789.123])
@pytest.mark.parametrize("standardise", [True, False])
def test_products_of_scaled_features_are_exact_with_a_large_constant(value, standardise):
    data = three_kinds(n=60)
    rows = data.modalities[0].features
    rows[:, 0] = value
    parts = split(data, 3)
    observed = sum((Observed.of(p) for p in parts[1:]), Observed.of(parts[0]))
    scaling = observed.scaling(standardise)
    known = data.labelled().modalities[0].features
    scaled = np.column_stack([np.ones(len(known)), (known - scaling.means[0]) / scaling.scales[0]])
    (gram, *_) = observed.grams(scaling)
    assert_allclose(gram, scaled.T @ scaled, rtol=1e-9, atol=1e-6)
    if standardise:
        assert abs(gram[1, 1]) < 1e-9
        assert scaling.scales[0][0] == 1.0
        assert np.linalg.eigvalsh(gram).min() > -1e-6
        for model in (GibbsVMMIC(chains=2, warmup=2, draws=4), MeanFieldVMMIC()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit(model, [data], max_iter=12)


def test_compiled_likelihood_is_the_numpy_form(setting):
    data, scaling, t = setting
    fast = Likelihood(scaling).evaluate(t, data)
    with replaced():
        plain = Likelihood(scaling).evaluate(t, data)
    assert_allclose(fast.value, plain.value, rtol=1e-13)
    assert_allclose(fast.gradient, plain.gradient, rtol=1e-11, atol=1e-12)
    assert_allclose(fast.information, plain.information, rtol=1e-11, atol=1e-12)


def test_sums_over_single_precision_features_are_double(setting):
    """A constant column and one far from zero, whose share the folded intercept takes off."""
    far, halves = 1e3, []
    for m in setting[0].modalities:
        columns = [m.features, np.full(len(m.features), far), far + m.features[:, 0]]
        halves.append(Instances(np.column_stack(columns).astype(np.float32), m.offsets))
    single = bags(halves, setting[0].label, setting[0].bag_features)
    scaling = Observed.of(single).scaling(standardise=True)
    t = 0.3 * np.random.default_rng(1).standard_normal(scaling.layout.dim)
    likelihood = Likelihood(scaling)
    score, fast = likelihood.predictor(t, single), likelihood.evaluate(t, single)
    with replaced():
        assert_allclose(score, likelihood.predictor(t, single), atol=1e-14 * far)
        plain = likelihood.evaluate(t, single)
    assert_allclose(fast.gradient, plain.gradient, atol=1e-12 * far)


@pytest.mark.thorough
def test_two_moments_are_close_to_the_exact_sum_and_exact_without_doubt():
    rng = np.random.default_rng(0)
    data = vmmic.simulate(3, 30, (4,))
    scaling = Observed.of(data).scaling(standardise=True)
    off = []
    for _ in range(20):
        t = rng.normal(size=4)
        exact = np.concatenate(vmmic.bag_log_likelihoods(t[None], [data]))
        z = Likelihood(scaling).predictor(t, data)
        off.append(np.abs(stats.norm.cdf(data.sign * z) - np.exp(exact)))
    assert np.mean(off) < 0.012
    assert np.max(off) < 0.1
    sure = np.array([0.3, 1.1, 40.0, 0.0])
    (score,), (bag,), _ = vmmic.whole([data])
    expected = 0.3 + np.bincount(bag, 1.1 * score[:, 0], minlength=data.n_bags)
    assert_allclose(Likelihood(scaling).predictor(sure, data), expected, atol=1e-10)


def test_mode_is_a_stationary_point(monkeypatch):
    monkeypatch.setattr(vmmic_model, "MOST_TRIALS", 400)
    data, _ = simulate(np.random.default_rng(0), 1000)
    model = CollapsedVMMIC(priors=Priors(learn=False, slope_variance=0.1), both_starts_below=0.0)
    reduce = InProcess(model, [data])
    q = model.init(reduce.observe(), np.random.default_rng(0))
    frames = Frames(model.mode(q))
    request = frames.next(None)
    while request is not None:
        shown = isinstance(request, Show)
        answer = None if shown else frames.note(request, reduce(request.q, number=0, warm=None))
        request = frames.next(answer)
    t = frames.result.gaussians[0].mean
    likelihood = Likelihood(q.scaling)
    here = likelihood.evaluate(t, data)
    prior = model.priors.precision(q.scaling.layout)
    slope = here.gradient - prior * t
    step = np.linalg.solve(here.information + np.diag(prior), slope)

    def value(x):
        return likelihood.evaluate(x, data).value - 0.5 * x @ (prior * x)

    gains = [value(t + h * step) - value(t) for h in (0.05, 0.1, 0.2, 0.5, 1.0)]
    assert max(gains) < 0.1
    assert value(t) > value(0.0 * t) + 100.0


@pytest.mark.thorough
def test_objective_is_its_definition_by_many_draws():
    data, _ = simulate(np.random.default_rng(4), 150)
    model = CollapsedVMMIC(priors=Priors(learn=False), both_starts_below=0.0)
    done = fit(model, [data], max_iter=3000)
    (q,) = model.posterior(done.q).components
    rng = np.random.default_rng(0)
    t = rng.multivariate_normal(q.mean, np.linalg.inv(q.precision), 2000)
    layout = done.q.scaling.layout
    sd = 1.0 / np.sqrt(model.priors.precision(layout))
    likelihood = Likelihood(done.q.scaling)
    weights = np.array([likelihood.evaluate(x, data).value for x in t])
    weights += stats.norm.logpdf(t, 0.0, sd).sum(1)
    weights -= stats.multivariate_normal.logpdf(t, q.mean, np.linalg.inv(q.precision))
    assert abs(done.trace[-1] - weights.mean()) < 4 * weights.std() / np.sqrt(2000) + 0.3


@pytest.mark.thorough
def test_bags_without_label_change_nothing_and_are_scored():
    data, _ = simulate(np.random.default_rng(0), 120)
    label = data.label.copy()
    label[::3] = -1
    some = bags(data.modalities, label, data.bag_features)
    model = CollapsedVMMIC(both_starts_below=0.0)
    q = fit(model, [some]).q
    assert same_bits(q, fit(model, [some.labelled()]).q)
    posterior = model.posterior(q)
    found = predict(posterior.draws(), posterior.scaling, some)
    assert found.bag.shape == (120,)
    assert np.all((found.bag > 0) & (found.bag < 1))


def test_an_empty_bag_is_scored_by_the_intercept():
    data, _ = simulate(np.random.default_rng(0), 150)
    model = CollapsedVMMIC(both_starts_below=0.0)
    posterior = model.posterior(fit(model, [data]).q)
    empty = [Instances(m.features[:0], np.zeros(2, np.int64)) for m in data.modalities]
    draws = posterior.draws()
    found = predict(draws, posterior.scaling, bags(empty, [-1]))
    assert_allclose(found.bag, stats.norm.cdf(draws[:, 0]).mean())
    assert [p.size for p in found.instances] == [0, 0]


@pytest.mark.parametrize("model", [CollapsedVMMIC(), MeanFieldVMMIC(), GibbsVMMIC()])
def test_bags_of_one_class_are_refused(model):
    data, _ = simulate(np.random.default_rng(0), 40)
    same = bags(data.modalities, np.ones(40, np.int8))
    with pytest.raises(ValueError, match="positive and negative bags, got 40 positive of 40"):
        fit(model, [same])


def test_tails_are_scipys():
    x = np.concatenate([np.linspace(-60.0, 60.0, 4001), [0.0, 1e-300, 300.0]])
    tails = Tails.of(x)
    assert_allclose(tails.log_up, log_ndtr(x), rtol=1e-12, atol=1e-300)
    assert_allclose(tails.log_down, log_ndtr(-x), rtol=1e-12, atol=1e-300)
    assert_allclose(tails.up, inverse_mills(x), rtol=1e-11, atol=1e-300)
