"""vMMIC on a kernel's features and pooled ones: what is mapped, and what it is good for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from vbmodels.bags.bag_pools import pooled
from vbmodels.bags.batch import Instances, bags, split
from vbmodels.bags.collapsed import CollapsedVMMIC
from vbmodels.bags.mapped import Mapped, MappedVMMIC
from vbmodels.bags.posterior import predict
from vbmodels.core.fit import fit
from vbmodels.estimators.bags import MultimodalMIC


def ring(seed, n=240, d=2):
    """Bags that are positive where an instance is near 0: of no linear function of it."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 8, n)
    sizes[3] = 0
    bag = np.repeat(np.arange(n), sizes)
    x = rng.normal(0.0, 2.0, (bag.size, d))
    inside = np.linalg.norm(x, axis=1) < 1.0
    label = np.bincount(bag, inside, n) > 0
    return bags([Instances.from_rows(bag, x, n)], label.astype(np.int8)), inside


def told(model, data, new):
    q = fit(model, split(data, 2), seed=0, max_iter=5000).q
    posterior = model.posterior(q)
    seen = q.mapped(new) if isinstance(q, Mapped) else new
    return predict(posterior.draws(), posterior.scaling, seen)


def test_a_kernels_features_find_what_no_line_does():
    data, _ = ring(0)
    new, inside = ring(1)
    plain = told(CollapsedVMMIC(), data, new)
    mapped = told(MappedVMMIC(CollapsedVMMIC(), landmarks=30), data, new)
    auc = [roc_auc_score(new.label, p.bag) for p in (plain, mapped)]
    assert auc[1] > auc[0] + 0.1
    assert roc_auc_score(inside, mapped.instances[0]) > 0.9


def test_pooled_features_are_those_of_bags_and_their_mean_where_there_is_no_instance():
    data, _ = ring(0)
    model = MappedVMMIC(CollapsedVMMIC(), pools=True)
    q = model.init(model.observe(data), np.random.default_rng(0))
    own = q.mapped(data).bag_features
    assert own.shape == (240, 8)
    raw = pooled(data.modalities[0])
    full = data.modalities[0].sizes > 0
    mean, far = raw[full].mean(axis=0), 4.0 * raw[full].std(axis=0)
    assert_allclose(own[full], np.clip(raw, mean - far, mean + far)[full], rtol=1e-5, atol=1e-6)
    assert_allclose(own[3], mean, rtol=1e-5)
    assert q.mapped(data).modalities is data.modalities


def test_the_features_products_are_the_kernel_where_landmarks_are_all_there_is():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    data = bags([Instances.from_rows(np.arange(12), x, 12)], np.arange(12) % 2)
    model = MappedVMMIC(CollapsedVMMIC(), landmarks=12)
    with pytest.warns(UserWarning, match="12 bags"):
        q = model.init(model.observe(data), rng)
    phi = q.mapped(data).modalities[0].features
    z = np.clip((x - x.mean(axis=0)) / x.std(axis=0), -3.0, 3.0) / np.sqrt(3.0)
    square = ((z[:, None] - z) ** 2).sum(axis=-1)
    assert_allclose(phi @ phi.T, np.exp(-0.5 * square), atol=1e-4)


@pytest.mark.parametrize("scale", ["learned", "evidence"])
def test_the_estimator_takes_both(scale):
    data, _ = ring(2, n=80)
    of = data.modalities[0]
    given = [of.features[a:b] for a, b in zip(of.offsets[:-1], of.offsets[1:], strict=True)]
    found = MultimodalMIC(nystroem=15, pooled=True, prior_scale=scale, random_state=0)
    found.fit(given, data.label)
    assert found.score(given, data.label) > 0.8
    assert found.predict_instance_proba(given)[0].shape == (len(given[0]),)
    with pytest.raises(ValueError, match="expected inference collapsed with nystroem"):
        MultimodalMIC(inference="mean_field", pooled=True).fit(given, data.label)
