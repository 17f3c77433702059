"""What is hard or wrong for the probit GP: one label, far from zero, equal rows, many points."""

from __future__ import annotations

import numpy as np
import pytest

from tests.vbmodels.bags.gp_bags import ONE, one_bag, simulated
from vbmodels.bags.batch import bags
from vbmodels.bags.gp_data import MultiLabelBags
from vbmodels.bags.gp_direct import DirectGP
from vbmodels.bags.gp_predict import predict
from vbmodels.bags.gp_probit import OneSided
from vbmodels.bags.published.gp_gibbs import GibbsGP
from vbmodels.bags.published.gp_logistic import LogisticGP
from vbmodels.core.fit import fit

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


def test_a_class_that_no_bag_has():
    data = simulated()
    labels = np.stack([data.label, np.zeros(40, np.int8)], 1)
    both = MultiLabelBags(data, labels)
    with pytest.warns(OneSided, match="class 1 has 0 positive"):
        q = fit(DirectGP(ONE), [both]).q
    assert predict(DirectGP(ONE).posterior(q), both)[1].bag_probability.max() < 0.5


def test_several_modalities_are_refused_and_bag_features_are_used():
    data = simulated()
    with pytest.raises(ValueError, match="one modality"):
        fit(DirectGP(ONE), [bags([*data.modalities, *data.modalities], data.label)])
    with_own = bags(data.modalities, data.label, np.arange(40.0)[:, None])
    assert fit(DirectGP(ONE), [with_own]).q.features.mean.size == 4
