"""The probit GP for bags: features, likelihood, searches, predictions, sampler, bad inputs."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtr

from tests.contract import checks
from tests.contract.cases import Case
from vbmodels.cavi import fit
from vbmodels.mil.batch import Instances, bags, split
from vbmodels.mil.gp_data import BLOCK, MultiLabelBags, Observed, Sample, Spread, blocks_of
from vbmodels.mil.gp_direct import DirectGP
from vbmodels.mil.gp_features import feature_map
from vbmodels.mil.gp_gibbs import Chains, GibbsGP, draw_latent, predict_from_draws
from vbmodels.mil.gp_kernel import KERNELS, KernelOptions, correlation
from vbmodels.mil.gp_likelihood import CACHE, BagTerms, Block, evaluate
from vbmodels.mil.gp_logistic import LogisticGP, predict_logistic
from vbmodels.mil.gp_points import sobol_normals
from vbmodels.mil.gp_predict import (
    bag_summary,
    entropy,
    negative_bags,
    predict,
    probit_bald,
)
from vbmodels.mil.gp_probit import CollapsedGP, OneSided, PrintedGP
from vbmodels.mil.gp_simulate import simulate_gp
from vbmodels.state import same_bits

ONE = KernelOptions(kernel="rbf", length_scales=(1.0,), amplitudes=(3.0,), n_inducing=15)


def simulated(seed=0, n_bags=40, **options):
    return simulate_gp(np.random.default_rng(seed), n_bags, 6, **options)


def one_bag(rows, labels, sizes):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return bags([Instances.from_rows(bag, np.asarray(rows, float), len(sizes))], labels)


# What is summed before a fit.


def test_the_sample_does_not_depend_on_how_the_data_are_cut():
    rows = np.random.default_rng(0).standard_normal((5000, 3))
    rows[100] = rows[7]
    whole = Sample.of(rows, 50, seed=1)
    cut = (
        Sample.of(rows[:9], 50, 1) + Sample.of(rows[9:4000], 50, 1) + Sample.of(rows[4000:], 50, 1)
    )
    assert_array_equal(whole.rows, cut.rows)
    assert len(whole.rows) == 50
    assert not np.array_equal(whole.rows, Sample.of(rows, 50, seed=2).rows)


def test_the_sample_is_uniform_over_rows():
    rows = np.arange(20_000, dtype=float)[:, None]
    drawn = np.concatenate([Sample.of(rows, 200, seed).rows[:, 0] for seed in range(20)])
    assert stats.kstest(drawn, "uniform", (0, 20_000)).pvalue > 1e-3


def test_equal_rows_are_drawn_once():
    rows = np.tile([[1.0, -0.0], [1.0, 0.0], [2.0, 5.0]], (30, 1))
    assert len(Sample.of(rows, 10, 0).rows) == 2


def test_spread_of_parts_is_that_of_the_whole_far_from_zero():
    rows = 1e8 + np.random.default_rng(0).standard_normal((300, 2))
    total = Spread.of(rows[:10]) + Spread.of(rows[10:10]) + Spread.of(rows[10:])
    assert_allclose(total.mean, rows.mean(0), rtol=1e-15)
    assert_allclose(total.deviation / 300, rows.var(0), rtol=1e-6)


def test_blocks_hold_whole_bags_and_cover_all():
    sizes = [5, 0, BLOCK + 3, 7, BLOCK - 6, 1, 0]
    data = one_bag(np.zeros((sum(sizes), 1)), [0] * len(sizes), sizes)
    cuts = list(blocks_of(data))
    assert [i for cut in cuts for i in range(cut.start, cut.stop)] == list(range(len(sizes)))
    assert max(sum(sizes[cut]) for cut in cuts) == BLOCK + 3


# Features.


@pytest.mark.parametrize("kind", [k for k in KERNELS if k != "linear"])
def test_kernels_are_those_of_the_literature(kind):
    """By their spectral definition: Matern with nu = 1/2, 3/2, 5/2 through Bessel functions."""
    from scipy.special import gamma, kv

    r = np.linspace(1e-3, 4, 50)
    nu = {"exponential": 0.5, "matern32": 1.5, "matern52": 2.5}.get(kind)
    if nu is None:
        expected = np.exp(-(r**2) / 2)
    else:
        a = np.sqrt(2 * nu) * r
        expected = 2 ** (1 - nu) / gamma(nu) * a**nu * kv(nu, a)
    assert_allclose(correlation(kind, r), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "linear+exponential+matern52"])
def test_features_give_the_kernel_back(kernel):
    data, _ = simulated()
    options = replace(ONE, kernel=kernel, n_inducing=10)
    f = feature_map(options, Observed.of(data, 1000, 0), np.random.default_rng(0))
    rows = data.modalities[0].features
    (columns,), (residual,) = f.base(rows)
    phi = columns * f.weights[0]
    x = f.scaled(rows)
    variance = options.constant_variance + 3.0 * len(f.kinds)
    variance += 2.0 * (x**2).sum(1) if "linear" in kernel else 0.0
    assert_allclose((phi**2).sum(1) + 3.0 * residual, variance, rtol=1e-9)
    if f.kinds:
        at_points = f.base(f.points * f.divisor * f.scale + f.mean)[1][0]
        assert at_points.max() < 1e-4


def test_wild_scales_do_not_matter():
    data, _ = simulated()
    scales = np.array([1e-7, 1.0, 1e9])
    wild = bags([Instances(data.modalities[0].features * scales + 5 * scales,
                           data.modalities[0].offsets)], data.label)  # fmt: skip
    options = replace(ONE, kernel="linear")
    p, q = (
        predict(DirectGP(options).posterior(fit(DirectGP(options), [d]).q), d)[0].probability
        for d in (data, wild)
    )
    assert_allclose(p, q, atol=1e-5)


def test_text_is_seen_by_its_unit_rows():
    rows = np.abs(np.random.default_rng(0).standard_normal((40, 6)))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[3] = 0.0
    data = one_bag(rows, [0, 1] * 5, [4] * 10)
    f = feature_map(KernelOptions(), Observed.of(data, 100, 0), np.random.default_rng(0))
    assert f.linear
    assert not f.kinds
    assert f.clip == np.inf
    assert_allclose(f.weights[0, 0], [np.sqrt(2)] * 6 + [2.0])


def test_unknown_kernels_and_grids_are_refused():
    with pytest.raises(ValueError, match="expected a kernel out of linear, rbf"):
        KernelOptions(kernel="linear+cubic")
    with pytest.raises(ValueError, match="positive"):
        KernelOptions(amplitudes=(1.0, 0.0))
    with pytest.raises(ValueError, match="inducing"):
        KernelOptions(n_inducing=0)
    with pytest.raises(ValueError, match="one length scale"):
        GibbsGP(KernelOptions())


# The likelihood.


def test_gradient_is_the_derivative_and_curvature_that_of_negative_bags():
    data, _ = simulated()
    f = feature_map(ONE, Observed.of(data, 1000, 0), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    w = rng.standard_normal((1, 1, f.n_columns))

    def at(w, d=data, wanted="gradient"):
        return evaluate(f, w, d, wanted=wanted, collapsed=True, keep=False)

    step = rng.standard_normal(w.shape)
    rise = (at(w + 1e-5 * step).value - at(w - 1e-5 * step).value) / 2e-5
    assert_allclose(rise[0, 0], (at(w).gradient * step).sum(), rtol=1e-7)
    negative = bags(data.modalities, np.zeros(data.n_bags))
    found = at(w, negative, "curvature").matrix[0, 0]
    change = at(w - 1e-5 * step, negative).gradient - at(w + 1e-5 * step, negative).gradient
    from vbmodels.linalg import unpack

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


def test_bags_without_instances_or_label_say_nothing():
    t = np.array([[0.3], [-1.0], [0.5]])
    labels = np.array([[1], [0], [-1], [0]], np.int8)
    terms = BagTerms.at(t, np.array([0, 0, 2, 3, 3]), labels)
    assert_array_equal(terms.value[[0, 2, 3]], 0.0)
    assert_array_equal(terms.slope[2], 0.0)
    assert_allclose(terms.value[1], stats.norm.logsf(t[:2]).sum())


def test_memory_of_columns_changes_no_bit_and_goes_with_the_batch():
    data, _ = simulated()
    before = len(CACHE.kept)
    kept, fresh = (fit(DirectGP(ONE, keep_columns=k), [data]).q for k in (True, False))
    assert same_bits(kept, fresh)
    assert len(CACHE.kept) == before + 1
    del data
    assert len(CACHE.kept) == before


# Fits.


def test_direct_fit_and_coordinate_ascent_reach_one_point():
    data, _ = simulated()
    direct = fit(DirectGP(ONE, tolerance=1e-12), split(data, 3))
    ascent = fit(CollapsedGP(ONE), split(data, 3), tol=1e-13, max_iter=5000)
    assert_allclose(direct.trace[-1], ascent.trace[-1], rtol=1e-9)
    assert_allclose(direct.q.points, ascent.q.points, atol=1e-4)
    assert direct.iterations < ascent.iterations


def test_the_texts_25_sweeps_stop_short():
    data, _ = simulated()
    stopped = fit(PrintedGP(), [data])
    assert stopped.iterations == 26
    assert stopped.converged
    further = fit(PrintedGP(sweeps=None), [data], max_iter=5000)
    assert further.trace[-1] > stopped.trace[-1] + 1e-3


def test_classes_fitted_together_are_those_fitted_alone():
    data, _ = simulated()
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


def test_evidence_by_curvature_is_near_the_truth():
    data, _ = simulate_gp(np.random.default_rng(3), 12, 2, n_features=2, offset=-0.5)
    options = replace(ONE, n_inducing=3)
    q = fit(DirectGP(options), [data]).q
    w = sobol_normals(2**15, q.features.n_columns, 0)
    block = Block.of(data, slice(0, 12), q.features)
    none = negative_bags(q.features, 0, block, w)
    with np.errstate(divide="ignore"):
        each = np.where(data.label[:, None] == 1, np.log(-np.expm1(none)), none).sum(0)
    exact = np.log(np.mean(np.exp(each - each.max()))) + each.max()
    assert abs(q.evidence[0, 0] - exact) < 0.5


# Predictions.


def fitted(seed=0, **options):
    data, truth = simulated(seed, **options)
    model = DirectGP(ONE)
    return data, truth, model.posterior(fit(model, [data]).q)


def test_instances_are_calibrated_and_ranked():
    data, truth = simulated(2, n_bags=400)
    model = DirectGP(replace(ONE, n_inducing=40))
    found = predict(model.posterior(fit(model, [data]).q), data)[0]
    assert stats.spearmanr(found.score, truth.latent).statistic > 0.7
    assert abs(found.probability.mean() - truth.probability.mean()) < 0.05


def test_bag_probabilities_are_those_of_the_multivariate_normal():
    """1 - P(all m < 0), m ~ N(mean, phi Sigma phi' + diag(1 + r)), by Genz's algorithm."""
    data, _, post = fitted()
    found = predict(post, data)[0].bag_probability
    f = post.features
    (columns,), (residual,) = f.base(data.modalities[0].features)
    phi = columns * f.weights[0]
    cov = np.linalg.inv(post.factor[0] @ post.factor[0].T)
    for b in range(12):
        rows = slice(*data.modalities[0].offsets[b : b + 2])
        mean = f.offset + phi[rows] @ post.mean[0]
        joint = phi[rows] @ cov @ phi[rows].T + np.diag(1 + 3.0 * residual[rows])
        none = stats.multivariate_normal.cdf(
            np.zeros(len(mean)), mean, joint, rng=np.random.default_rng(0)
        )
        assert_allclose(found[b], 1 - none, atol=3e-3)


def test_a_bag_of_equal_instances_is_less_sure_than_independence_says():
    _, _, post = fitted()
    alike = one_bag(np.full((40, 3), 0.3), [0], [40])
    found = predict(post, alike)[0]
    assert found.bag_probability[0] < 1 - (1 - found.probability).prod() - 0.01


def test_bald_of_instances_is_the_expected_fall_of_entropy():
    mean, variance = np.meshgrid(np.linspace(-3, 3, 13), [0.01, 0.5, 4.0])
    node, weight = np.polynomial.hermite_e.hermegauss(120)
    p = ndtr(mean[..., None] + np.sqrt(variance)[..., None] * node)
    weight = weight / weight.sum()
    exact = entropy(p @ weight) - entropy(p) @ weight
    assert_allclose(probit_bald(mean, variance), exact, atol=3e-3)


def test_bald_of_bags_by_hand():
    log_negative = np.log([[0.2, 0.6], [1.0, 1.0], [0.5, 0.5]])
    probability, bald = bag_summary(log_negative)
    assert_allclose(probability, [0.6, 0.0, 0.5])
    by_hand = entropy(np.array(0.4)) - entropy(np.array([0.2, 0.6])).mean()
    assert_allclose(bald, [by_hand, 0.0, 0.0], atol=1e-15)


def test_other_features_than_those_of_the_fit_are_refused():
    _, _, post = fitted()
    with pytest.raises(ValueError, match="expected 3 features an instance"):
        predict(post, one_bag(np.zeros((2, 4)), [0], [2]))


# The sampler and the logistic rival.


def test_latent_draws_are_those_of_rejection():
    t = np.array([-1.0, 0.2, -0.4])
    rng = np.random.default_rng(0)
    size = 40_000
    at = np.repeat(t[:, None], size, axis=1)
    offsets = np.array([0, 3])
    for label in (0, 1, -1):
        drawn = draw_latent(at, offsets, np.full((1, size), label, np.int8), rng)
        free = rng.normal(at)
        some = (free > 0).any(axis=0)
        kept = free if label < 0 else free[:, some == bool(label)]
        for i in range(3):
            assert stats.ks_2samp(drawn[i], kept[i]).pvalue > 1e-3
        assert_allclose(np.corrcoef(drawn), np.corrcoef(kept), atol=0.03)


def test_latent_draws_hold_far_from_zero():
    t = np.full((2000, 2), -40.0)
    labels = np.ones((1, 2), np.int8)
    drawn = draw_latent(t, np.array([0, 2000]), labels, np.random.default_rng(0))
    assert_array_equal((drawn > 0).sum(axis=0), 1)
    assert np.isfinite(drawn).all()


def test_chains_resume_and_travel_with_the_same_bits():
    case = Case(
        name="gibbs",
        model=lambda: GibbsGP(ONE, warmup=2, draws=4),
        batches=lambda seed, parts: split(simulated(seed)[0], parts),
        tiny=lambda seed: [],
        **dict.fromkeys(
            ("global_step", "local_step", "monte_carlo", "evidence", "sampler", "recovery"),
            "draws have no bound to climb; the rows of the fits are compared with them",
        ),
    )
    loop = checks.plain_loop(case)
    checks.check_executors(case, loop)
    checks.check_resume(case, loop)


def test_draws_predict_about_what_the_gaussian_does():
    data, _ = simulated(4, n_bags=150)
    q: Chains = fit(GibbsGP(ONE, warmup=100, draws=200), [data]).q
    found = predict_from_draws(q, data)[0]
    model = DirectGP(ONE)
    gaussian = predict(model.posterior(fit(model, [data]).q), data)[0]
    assert np.abs(found.probability - gaussian.probability).mean() < 0.05
    assert np.abs(found.bag_probability - gaussian.bag_probability).mean() < 0.05
    assert GibbsGP(ONE).diagnose(q).ess_bulk.min() > 4


def test_logistic_rival_ranks():
    data, truth = simulated(2, n_bags=200)
    score, probability, bag = predict_logistic(fit(LogisticGP(), [data]).q, data)[0]
    assert stats.spearmanr(score, truth.latent).statistic > 0.5
    assert probability.shape == truth.latent.shape
    assert bag.shape == (200,)
    assert ((bag >= 0) & (bag <= 1)).all()


# Bad inputs.


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("model", [DirectGP(ONE), PrintedGP(), LogisticGP(), GibbsGP(ONE, draws=9)])
def test_bags_of_one_label_are_fitted_with_a_warning(model, label):
    data, _ = simulated()
    data = bags(data.modalities, np.full(40, label))
    with pytest.warns(OneSided, match="rest on the prior"):
        q = fit(model, [data]).q
    if isinstance(model, DirectGP):
        found = predict(model.posterior(q), data)[0].bag_probability
        assert (found > 0.5).all() if label else (found < 0.5).all()


def test_two_thousand_negative_instances_far_from_zero():
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.normal(0, 1e-3, (2000, 2)), rng.normal(1e4, 1, (3, 2))])
    data = one_bag(rows, [0, 1], [2000, 3])
    for model in (DirectGP(ONE), PrintedGP(), LogisticGP()):
        assert np.isfinite(fit(model, [data]).trace).all()


def test_identical_instances_leave_one_inducing_point():
    data = one_bag(np.ones((12, 3)), [0, 1, 1], [4, 4, 4])
    q = fit(DirectGP(ONE), [data]).q
    assert len(q.features.points) == 1
    found = predict(DirectGP(ONE).posterior(q), data)[0]
    assert np.ptp(found.probability) < 1e-12


def test_nearly_identical_instances_keep_the_kernel_matrix_definite():
    rows = np.ones((40, 3)) + 1e-9 * np.random.default_rng(0).standard_normal((40, 3))
    data = one_bag(rows, [0, 1], [20, 20])
    options = replace(ONE, standardise=False)
    assert np.isfinite(fit(DirectGP(options), [data]).trace).all()


def test_more_inducing_points_than_instances():
    data = one_bag(np.random.default_rng(0).standard_normal((6, 2)), [0, 1], [3, 3])
    q = fit(DirectGP(replace(ONE, n_inducing=500)), [data]).q
    assert len(q.features.points) == 6


def test_a_class_that_no_bag_has():
    data, _ = simulated()
    labels = np.stack([data.label, np.zeros(40, np.int8)], 1)
    both = MultiLabelBags(data, labels)
    with pytest.warns(OneSided, match="class 1 has 0 positive"):
        q = fit(DirectGP(ONE), [both]).q
    assert predict(DirectGP(ONE).posterior(q), both)[1].bag_probability.max() < 0.5


def test_several_modalities_are_refused_and_bag_features_are_used():
    data, _ = simulated()
    with pytest.raises(ValueError, match="one modality"):
        fit(DirectGP(ONE), [bags([*data.modalities, *data.modalities], data.label)])
    with_own = bags(data.modalities, data.label, np.arange(40.0)[:, None])
    assert fit(DirectGP(ONE), [with_own]).q.features.mean.size == 4


def test_simulation_has_the_labels_of_its_instances():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data, truth = simulated()
    some = np.array(
        [
            truth.positive[a:b].any()
            for a, b in zip(
                data.modalities[0].offsets[:-1], data.modalities[0].offsets[1:], strict=True
            )
        ]
    )
    assert_array_equal(some, data.label == 1)
