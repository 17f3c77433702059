"""What is hard or wrong for the probit GP: one label, far from zero, equal rows, many points."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.vbmodels.bags.gp_simulate import simulate_gp
from vbmodels.bags.batch import Instances, bags
from vbmodels.bags.gp_data import MultiLabelBags
from vbmodels.bags.gp_direct import DirectGP
from vbmodels.bags.gp_kernel import KernelOptions
from vbmodels.bags.gp_predict import predict
from vbmodels.bags.gp_probit import OneSided
from vbmodels.bags.published.gp_gibbs import GibbsGP
from vbmodels.bags.published.gp_logistic import LogisticGP
from vbmodels.core.fit import fit

ONE = KernelOptions(kernel="rbf", length_scales=(1.0,), amplitudes=(3.0,), n_inducing=15)


def simulated(seed=0, n_bags=40, **options):
    return simulate_gp(np.random.default_rng(seed), n_bags, 6, **options)


def one_bag(rows, labels, sizes):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return bags([Instances.from_rows(bag, np.asarray(rows, float), len(sizes))], labels)


# Bad inputs.


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("model", [DirectGP(ONE), LogisticGP(), GibbsGP(ONE, draws=9)])
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
    for model in (DirectGP(ONE), LogisticGP()):
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
